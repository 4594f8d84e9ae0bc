"""What a run has shown, as plain values: all that the checks judge."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from overseer import Overseer
from overseer.measure.losses import as_number

from .hints import GENERIC, Proposals
from .syncs import Site
from .witness import ENOUGH, LONG, Witness, promised, torch_module

#: Nanoseconds after which the work of timers is typical.
TYPICAL_NS = 3_000_000_000


class Loader(NamedTuple):
    """What a loader says of itself; None where it does not."""

    batch_size: int | None
    workers: int | None


@dataclass(frozen=True)
class Evidence:
    """What a run has shown; see the checks for what each value is for.

    Attributes:
        run: What ``run.json`` will say, as far as it is known.
        voirfile: Whether there is one.
        steps: Steps given, ``with_batch`` of them with their batch; ``pairs``: pairs around one;
            ``others``: steps of other tasks.
        sizes: How many batches had each size; ``unsized`` why others had none.
        losses: The losses, as numbers; ``loss_limit`` what they must come down to.
        device: Where the work is done; ``claimed`` where it should be, by ``claim``.
        available: The device that there is besides.
        syncs: Calls that wait, each step; ``counted`` steps, which took ``window_ns``.
        own_share: voir's own part of the steps' time.
        cut: The script was stopped before its end.
    """

    run: Mapping[str, Any] = field(default_factory=dict)
    voirfile: bool = True
    steps: int = 0
    with_batch: int = 0
    pairs: int = 0
    others: int = 0
    sizes: Mapping[int, int] = field(default_factory=dict)
    unsized: str | None = None
    losses: list[float] = field(default_factory=list)
    loss_events: int = 0
    loss_limit: float | None = None
    device: str | None = None
    claimed: str | None = None
    claim: str = ""
    available: str | None = None
    torch: bool = False
    syncs: list[Site] = field(default_factory=list)
    counted: int = 0
    window_ns: int = 0
    loader: Loader | None = None
    cores: float = 1.0
    compiled: bool = False
    breaks: int = 0
    breaks_by_probes: int = 0
    promised: int = 0
    unkept: list[tuple[str, str]] = field(default_factory=list)
    seconds: float = 0.0
    cut: bool = False
    own_share: float | None = None
    proposals: Proposals | None = None

    @property
    def ended_before(self) -> str:
        """Says that the script failed, where it did, for that may be why something is missing."""
        status = self.run.get("exit_status")
        return f": the script had failed before, with status {status}" if status else ""

    def line(self, role: str) -> str | None:
        """The line of a voirfile that would show ``role``."""
        found = self.proposals.line(role) if self.proposals is not None else None
        return found or GENERIC.get(role)

    def instead_of(self, selector: str) -> str | None:
        """The line to write in place of one whose probe came to nothing."""
        return self.proposals.instead_of(selector) if self.proposals is not None else None


def gather(ov: Overseer, witness: Witness) -> Evidence:
    """The evidence at the end of a run."""
    run = ov.facts()
    claimed, claim = claim_of(witness.seen)
    breaks, ours = graph_breaks()
    syncs = witness.syncs
    return Evidence(
        run=run,
        voirfile=bool(ov.voirfiles),
        steps=witness.steps,
        with_batch=witness.with_batch,
        pairs=witness.pairs,
        others=witness.others,
        sizes=witness.sizes,
        unsized=witness.unsized,
        losses=_numbers([*witness.losses, *witness.last_losses]),
        loss_events=witness.loss_events,
        loss_limit=ov.options.verify_loss,
        device=witness.device,
        claimed=claimed,
        claim=claim,
        available=_available(),
        torch=syncs.watched,
        syncs=syncs.each_step(),
        counted=max(0, syncs.steps - 1),
        cut=witness.cut,
        window_ns=witness.window_ns,
        loader=_loader(witness.seen.get("loader")),
        cores=_cores(),
        compiled=breaks is not None,
        breaks=breaks or 0,
        breaks_by_probes=ours,
        promised=len(promised(ov)),
        unkept=witness.missing_keys,
        seconds=(ov.clock.now_ns() - witness.began) / 1e9,
        own_share=own_share(run, witness, _not_of_steps_ns(ov)),
        proposals=Proposals(ov.program.file if ov.program is not None else None),
    )


def claim_of(seen: Mapping[str, Any]) -> tuple[str | None, str]:
    """The device that a script says it uses, and what says so."""
    if "use_cuda" in seen:
        return ("cuda" if seen["use_cuda"] else "cpu"), "use_cuda"
    options = seen.get("options")
    options = options if isinstance(options, Mapping) else getattr(options, "__dict__", {})
    device = options.get("device")
    if device is not None and str(device) not in ("auto", ""):
        return str(device).partition(":")[0], "the option device"
    for name, meaning in (("use_cuda", True), ("cuda", True), ("no_cuda", False)):
        if isinstance(options.get(name), bool):
            return ("cuda" if options[name] is meaning else "cpu"), f"the option {name}"
    return None, ""


def own_share(run: Mapping[str, Any], witness: Witness, within_ns: float) -> float | None:
    """What voir itself took of the steps' time; what it took once, to start, does not count.

    Events count by their number behind the first steps, which are watched more closely. What the
    checks take is charged, and left out. What timers took is added when steps went on long enough
    behind the start for it to be typical.

    Args:
        run: What ``run.json`` will say.
        witness: What was heard, and what that took.
        within_ns: What voir took while the script ran that no step takes again.
    """
    overhead = run.get("overhead") or {}
    if overhead.get("seconds") is None or len(witness.ends) < ENOUGH:
        return None
    judged_ns, part = witness.judged
    if judged_ns < LONG * 1e9:
        return None
    events = overhead["seconds"] - (overhead.get("outside") or 0.0)
    share: float = max(0.0, events - within_ns / 1e9) * part / (judged_ns / 1e9)
    if witness.settled is not None and witness.ended is not None:
        (begin, before), (end, after) = witness.settled, witness.ended
        if end - begin > TYPICAL_NS:
            share += (after - before) / (end - begin)
    return share


def _not_of_steps_ns(ov: Overseer) -> float:
    """What was charged while the script ran, events left out, and what events took once."""
    return ov.account.charged_ns - ov.account.outside_ns


def graph_breaks() -> tuple[int | None, int]:
    """How many graph breaks there were, None when nothing was compiled; how many by probes."""
    dynamo = torch_module("torch._dynamo.utils")
    counters = getattr(dynamo, "counters", None)
    if not counters or not counters.get("frames"):
        return None, 0
    reasons = counters.get("graph_break", {})
    ours = sum(n for reason, n in reasons.items() if "<voir " in str(reason))
    return sum(reasons.values()) - ours, ours


def _numbers(losses: list[Any]) -> list[float]:
    found = []
    for loss in losses:
        try:
            found.append(as_number(loss))
        except Exception:  # The step model has said why it cannot be read.
            continue
    return found


def _available() -> str | None:
    torch = sys.modules.get("torch")
    try:
        return "cuda" if torch is not None and torch.cuda.is_available() else None
    except Exception:
        return None


def _loader(loader: Any) -> Loader | None:
    if loader is None:
        return None
    size, workers = getattr(loader, "batch_size", None), getattr(loader, "num_workers", None)
    if type(size) is not int:
        size = getattr(getattr(loader, "batch_sampler", None), "batch_size", None)
    return Loader(size if type(size) is int else None, workers if type(workers) is int else None)


def _cores() -> float:
    from ..cpu import usable_cores

    return usable_cores().number
