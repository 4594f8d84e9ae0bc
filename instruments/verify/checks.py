"""The checks of ``--verify``: from evidence to PASS, FAIL or SKIP, and the line to write."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from overseer.measure.diagnosis import main_task
from overseer.measure.parts import DISTURBED, number, others_share, part

from .evidence import Evidence
from .hints import GENERIC

PASS, FAIL, SKIP = "PASS", "FAIL", "SKIP"
#: voir's own cost that passes, as a part of the steps' time; and what is too much even where
#: other programs fill the processors, and events take several times as long.
DEAR, MUCH = 0.01, 0.1
#: Nanoseconds of a step up to which it is the checks that make events dear: all of them are heard.
SHORT_NS = 10_000_000
#: Waiting calls that are worth a complaint, as a part of the time on the host.
WAITING = 0.05
#: Probes that came to nothing and are shown one by one.
SILENT = 5
#: Losses that show a trend.
TREND = 12
#: Pauses that need an explanation: so many seconds, and so much of the time.
LONG_PAUSE, LONG_SHARE = 0.25, 0.05
#: Loading that more workers would help against.
LOADING = 0.1
#: Seconds in which a worker hands over a batch: less waiting than that is not helped.
HANDED_OVER = 0.003
#: Fewer steps than these are mostly start-up.
ENOUGH = 24


class Check(NamedTuple):
    """What became of one check.

    Attributes:
        check: Its name.
        verdict: ``PASS``, ``FAIL`` or ``SKIP``: nothing to judge, or too little.
        evidence: What the verdict rests on.
        hint: What to write or do; a line of a voirfile begins with ``ov.``.
    """

    check: str
    verdict: str
    evidence: str
    hint: str | None = None

    def as_facts(self) -> dict[str, str]:
        """An entry of ``verify`` in ``run.json``."""
        return {key: value for key, value in self._asdict().items() if value is not None}


Judge = Callable[[Evidence], "Check | Iterator[Check]"]


def judge(e: Evidence) -> list[Check]:
    """Every check, in the order in which they are shown."""
    found: list[Check] = []
    for one in _CHECKS:
        result = one(e)
        found.extend([result] if isinstance(result, Check) else result)
    return found


# What is seen


def _probes(e: Evidence) -> Iterator[Check]:
    probes = e.run.get("probes") or []
    if not probes:
        yield Check("probes", SKIP, "no voirfile sets any")
        return
    silent = [p for p in probes if p.get("state") not in ("fired", "compiled away")]
    if silent and e.cut and all(p.get("state") == "never fired" for p in silent):
        first, more = silent[0], len(silent) - 1
        rest = f" and {more} more" if more else ""
        what = f"{first['selector']}{rest}: {first.get('hint', 'never fired')} before the stop"
        yield Check("probes", SKIP, what, "go on for longer: --verify --stop 1000")
        return
    for n, probe in enumerate(silent[:SILENT], 1):
        more = len(silent) - SILENT
        rest = f"; and {more} more" if n == SILENT and more > 0 else ""
        what = f"{probe['selector']} {probe['state']}: {probe.get('hint', '')}{rest}"
        yield Check("probes", FAIL, what, e.instead_of(str(probe["selector"])))
    if silent:
        return
    fired = sum(p.get("fired", 0) for p in probes)
    away = sum(p.get("state") == "compiled away" for p in probes)
    note = f"; {away} in compiled code are not seen" if away else ""
    yield Check("probes", PASS, f"{len(probes)} fired, {fired:,} times{note}")


def _loss(e: Evidence) -> Iterator[Check]:
    passes = e.others and not e.steps and not e.pairs
    if not e.losses and (passes or (e.proposals is not None and not e.proposals.learns)):
        yield Check("loss", SKIP, "the script learns nothing: backward is never called")
        return
    if not e.losses:
        yield Check("loss", FAIL, f"none was seen{e.ended_before}", e.line("loss"))
        return
    yield Check("loss", PASS, f"{e.loss_events:,} seen, the first {e.losses[0]:.4g}")
    bad = [i for i, loss in enumerate(e.losses) if not math.isfinite(loss)]
    if bad:
        what = (
            f"loss {bad[0] + 1:,} is {e.losses[bad[0]]}, as are {len(bad):,} of {len(e.losses):,}"
        )
        yield Check("finite loss", FAIL, what, "lower the learning rate, or clip gradients")
        return
    yield Check("finite loss", PASS, f"all of {len(e.losses):,}")
    yield _trend(e)


def _trend(e: Evidence) -> Check:
    """Whether the loss comes down: its last third against its first, in standard errors."""
    if e.loss_limit is not None:
        least = min(e.losses)
        reached = least <= e.loss_limit
        what = f"lowest {least:.4g}, wanted {e.loss_limit:.4g}"
        hint = None if reached else "give it more steps (--stop N), or another learning rate"
        return Check("loss trend", PASS if reached else FAIL, what, hint)
    n = len(e.losses) // 3
    if len(e.losses) < TREND:
        return Check("loss trend", SKIP, f"{len(e.losses)} losses are too few to show one")
    first, last = e.losses[:n], e.losses[-n:]
    before, after = sum(first) / n, sum(last) / n
    error = math.sqrt((_variance(first, before) + _variance(last, after)) / n) or 1e-12
    path = f"{before:.4g} to {after:.4g}, means of {n}"
    if after < before - 2 * error:
        return Check("loss trend", PASS, f"down from {path}")
    if after > before + 4 * error:
        hint = "check the sign and size of the learning rate, and that zero_grad is called"
        return Check("loss trend", FAIL, f"up from {path}", hint)
    what = f"none: {path}"
    return Check("loss trend", SKIP, what, "name what it must come down to: --verify-loss X")


def _variance(values: list[float], mean: float) -> float:
    return sum((value - mean) ** 2 for value in values) / max(1, len(values) - 1)


def _step(e: Evidence) -> Check:
    if not e.steps and not e.pairs:
        if e.others:
            return Check("step", PASS, f"{e.others:,} passes that nothing is learned from")
        return Check("step", FAIL, f"no step was seen{e.ended_before}", e.line("step"))
    made = int(number((main_task(e.run) or {}).get("steps")) or 0)
    if e.steps and e.with_batch == e.steps and e.pairs and e.steps > 1.5 * made > 0:
        return Check("step", PASS, f"{made:,} steps, of {e.steps:,} batches")
    if e.steps and e.with_batch == e.steps:
        return Check("step", PASS, f"{e.steps:,} steps, each with its batch")
    if e.sizes:
        return Check("step", PASS, f"{e.steps or e.pairs:,} steps, batches seen beside them")
    line = e.line("step") or ""
    if "batch" not in line:
        what = f"{e.steps or e.pairs:,} steps, no variable that holds a batch"
        return Check("step", SKIP, what, GENERIC["step"])
    what = f"{e.steps or e.pairs:,} steps, but only {e.with_batch:,} with a batch"
    return Check("step", FAIL, what, line)


def _batch_size(e: Evidence) -> Check:
    if e.unsized and not e.sizes:
        hint = e.line("step")
        known = {str(probe.get("selector")) for probe in e.run.get("probes") or ()}
        if hint is None or hint == GENERIC["step"] or any(f'"{one}"' in hint for one in known):
            hint = "ov.require(rate(batch_size_calc=lambda batch: len(batch)))"
        return Check("batch size", FAIL, f"not known: {e.unsized}", hint)
    if not e.sizes:
        return Check("batch size", SKIP, "no batch was seen")
    usual = max(e.sizes, key=lambda size: e.sizes[size])
    declared = e.loader.batch_size if e.loader is not None else None
    if usual < 1 or (len(e.sizes) > 1 and min(e.sizes) < 1):
        return Check("batch size", FAIL, f"a batch of {min(e.sizes)} items", e.line("step"))
    if declared and usual % declared and max(e.sizes) != declared:
        what = f"batches have {usual:,} items, the loader says {declared:,}"
        return Check("batch size", FAIL, what, e.line("step"))
    also = f", {min(e.sizes):,} to {max(e.sizes):,}" if len(e.sizes) > 1 else ""
    match = ", as the loader says" if declared else ""
    return Check("batch size", PASS, f"{usual:,}{match}{also}")


# What is measured


def _rates(e: Evidence) -> Iterator[Check]:
    task = main_task(e.run) or {}
    rate = part(task, "rate")
    found = number(rate.get("steady")) or number(rate.get("wall"))
    units = str(task.get("units") or "items").removesuffix("/s")
    if found:
        yield Check("train rate", PASS, f"{found:,.{0 if found >= 100 else 2}f} {units}/s")
    else:
        yield _no_rate(e, "train rate", "step", task)
    for name in ("loading", "compute"):
        share = number(part(task, name).get("share"))
        if share is not None:
            yield Check(f"{name} rate", PASS, f"{_share(share)} of the time")
        else:
            yield _no_rate(e, f"{name} rate", "pair", task)


def _no_rate(e: Evidence, name: str, role: str, task: Mapping[str, Any]) -> Check:
    steps = number(task.get("steps")) or 0
    if steps and not e.voirfile and role == "pair":
        return Check(name, SKIP, "nothing shows where batches come from", e.line(role))
    if 0 < steps < 3:
        return Check(name, SKIP, "too few steps")
    return Check(name, FAIL, "there is none", e.line(role))


def _steady(e: Evidence) -> Check:
    task = main_task(e.run) or {}
    verdict, start = part(task, "steady").get("verdict"), part(task, "steady").get("from_step")
    steps = int(number(task.get("steps")) or 0)
    if verdict == "steady":
        return Check("steady", PASS, f"from step {start} of {steps:,}")
    others = others_share(e.run) or 0.0
    if verdict == "never steady" and others >= DISTURBED:
        what = f"never, but other programs use {_share(others)} of the processors"
        return Check("steady", SKIP, what)
    if verdict == "never steady":
        hint = "give it longer: --verify --stop 1000; or leave out a fixed start: --skip 50"
        return Check("steady", FAIL, f"never, in {steps:,} steps", hint)
    return Check("steady", SKIP, f"{steps:,} steps are too few to tell")


def _pauses(e: Evidence) -> Check:
    task = main_task(e.run) or {}
    pause = part(task, "pause")
    times, seconds = int(number(pause.get("count")) or 0), number(pause.get("seconds")) or 0.0
    guessed = int(number(pause.get("unexplained")) or 0)
    if not times:
        return Check("pauses", PASS, "none")
    told = f"{times:,} {'pause' if times == 1 else 'pauses'}, {seconds:.2f} s"
    rate = number(part(task, "rate").get("wall"))
    wall = (number(task.get("items")) or number(task.get("steps")) or 0) / rate if rate else 0
    others = others_share(e.run) or 0.0
    if guessed * 2 > times and seconds > max(LONG_PAUSE, wall * LONG_SHARE):
        if others >= DISTURBED:
            what = f"{told}; other programs use {_share(others)} of the processors"
            return Check("pauses", SKIP, what)
        return Check("pauses", FAIL, f"{told}; {guessed:,} without a cause", e.line("pause"))
    short = f"; {guessed:,} short, without a cause" if guessed else ": between loops, or declared"
    return Check("pauses", PASS, told + short)


# How the script treats the machine


def _device(e: Evidence) -> Check:
    if e.device is None:
        return Check("device", SKIP, "no model and no loss was seen", e.line("model"))
    if e.claimed is None:
        note = f", of {e.available}" if e.available and e.device == "cpu" else ""
        return Check("device", SKIP, f"{e.device}{note}: nothing says which is meant")
    if e.device == e.claimed:
        return Check("device", PASS, f"{e.device}, as {e.claim} says")
    what = f"parameters are on {e.device}, and {e.claim} says {e.claimed}"
    return Check("device", FAIL, what, "move the model: model.to(device)")


def _syncs(e: Evidence) -> Check:
    if not e.torch:
        return Check("syncs", SKIP, "no torch")
    if not e.counted:
        return Check("syncs", SKIP, "no steps to count them by")
    if not e.syncs:
        return Check("syncs", PASS, "no call that waits for the device in each step")
    first, more = e.syncs[0], len(e.syncs) - 1
    share = sum(s.ns for s in e.syncs) / e.window_ns if e.window_ns else 0.0
    host = first.device in ("cpu", "meta")
    rest = f" and {more} more" if more else ""
    each = first.count / max(1, first.steps)
    often = f"{each:,.0f}" if each >= 10 else f"{each:.2g}"
    what = f"{first.call} at {first.where}{rest}, {often} a step, {_share(share)} of the time"
    hint = f"{first.where}: keep the tensor (.detach()), and read it every 50 steps"
    if not host or (share > WAITING and e.counted >= ENOUGH):
        return Check("syncs", FAIL, what, hint)
    return Check("syncs", PASS, f"{what}; a GPU would wait for each")


def _workers(e: Evidence) -> Check:
    loader, cores = e.loader, e.cores
    task = main_task(e.run) or {}
    share = number(part(task, "loading").get("share"))
    if loader is None:
        return Check("workers", SKIP, "no loader was seen", e.line("loader"))
    if loader.workers is None:
        return Check("workers", SKIP, "the loader has none: it does not say num_workers")
    told = f"num_workers={loader.workers}, {cores:g} cores"
    if loader.workers > max(1, cores):
        return Check(
            "workers", FAIL, told, f"DataLoader(..., num_workers={max(1, int(cores) - 1)})"
        )
    waited = number(part(task, "loading").get("seconds")) or 0.0
    each = waited / (number(part(task, "rate").get("n")) or 1)
    few = loader.workers < cores - 1 and each > HANDED_OVER
    few = few and (number(part(task, "rate").get("n")) or 0) >= ENOUGH
    if share is not None and share > LOADING and few:
        what = f"{told}, and {_share(share)} of the time is loading"
        return Check(
            "workers", FAIL, what, f"DataLoader(..., num_workers={max(1, int(cores) - 1)})"
        )
    return Check("workers", PASS, told)


def _share(share: float) -> str:
    if share < 0.0005:
        return "under 0.1 %"
    return f"{100 * share:.{0 if share >= 0.0995 else 1}f} %"


# voir itself


def _instruments(e: Evidence) -> Check:
    entries = e.run.get("instruments") or []
    failed = [i for i in entries if i.get("state") == "failed"]
    if failed:
        first = failed[0]
        what = f"{first.get('name')}: {first.get('error', 'failed')}"
        place = first.get("failed_at") or first.get("where")
        return Check("instruments", FAIL, what, f"look at {place}" if place else None)
    return Check("instruments", PASS, f"{len(entries)} ran, none failed")


def _breaks(e: Evidence) -> Check:
    if not e.compiled:
        return Check("graph breaks", SKIP, "nothing is compiled")
    if e.breaks_by_probes:
        what = f"{e.breaks_by_probes:,} by probes in compiled code"
        hint = "probe what calls the compiled function, not what is inside"
        return Check("graph breaks", FAIL, what, hint)
    own = f"; {e.breaks:,} of the script's own" if e.breaks else ""
    return Check("graph breaks", PASS, f"none by probes{own}")


def _emits(e: Evidence) -> Check:
    if not e.promised:
        return Check("emits", SKIP, "no instrument of a voirfile declares anything")
    if e.unkept and e.seconds < 2:
        return Check("emits", SKIP, f"{e.seconds:.1f} s are too short for {e.unkept[0][0]}")
    if e.unkept:
        who, key = e.unkept[0]
        more = f", and {len(e.unkept) - 1} more" if len(e.unkept) > 1 else ""
        what = f"{who} declares {key} and never gave it{more}"
        name, _, inner = key.partition(".")
        value = f'{{"{inner}": ...}}' if inner else "..."
        return Check("emits", FAIL, what, f"ov.give({name}={value})")
    return Check("emits", PASS, f"all {e.promised:,} keys that are declared")


def _cost(e: Evidence) -> Check:
    if e.own_share is None:
        short = f"the steps took {e.window_ns / 1e9:.2g} s, too little to tell"
        return Check("own cost", SKIP, short if e.window_ns else "no steps to measure it by")
    told = f"{_share(e.own_share)} of the steps' time"
    others = others_share(e.run) or 0.0
    each = e.window_ns / max(1, e.counted)
    if DEAR < e.own_share < MUCH and each < SHORT_NS:
        what = f"{told}, of {each / 1e6:.2g} ms each: less without --verify"
        return Check("own cost", SKIP, what)
    if DEAR < e.own_share < MUCH and others >= DISTURBED:
        what = f"{told}, but other programs use {_share(others)} of the processors"
        return Check("own cost", SKIP, what)
    if e.own_share > DEAR:
        hint = "fewer probes in the innermost loop, or --no-monitor"
        return Check("own cost", FAIL, told, hint)
    return Check("own cost", PASS, told)


_CHECKS: tuple[Judge, ...] = (
    _probes, _loss, _step, _batch_size, _rates, _steady, _pauses, _device, _syncs, _workers,
    _instruments, _breaks, _emits, _cost,
)  # fmt: skip
