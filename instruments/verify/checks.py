"""The ten checks of ``--verify``: verdicts from evidence, and the voirfile line to write."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import NamedTuple

from overseer.model.facts import (
    at,
    count,
    duration,
    entries,
    figure,
    main_task,
    number,
    others_share,
    part,
    percent,
    wall_seconds,
)

from ..advice import GENERIC, GIVE_BATCH_SIZE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from typing import Any

    from overseer.model.facts import Facts

PASS, FAIL, WARN, SKIP = "PASS", "FAIL", "WARN", "SKIP"
#: Relative difference from the hooks at which steps, items or a loss are doubted; steps must also
#: differ by more than a few. Shares are doubted at this absolute difference.
DIFFERS, SOME = 0.1, 2
#: voir's own share of the steps' time: worth a warning; worth one if a probe also fires this many
#: times a step; too much.
DEAR, HOT, MUCH = 0.05, (0.01, 20), 0.1
#: The source of steps that come from no probe.
GIVE = "voir.iterate or give()"
#: A share of loading below this counts as zero.
NEGLIGIBLE_SHARE = 0.005
#: Steps shorter than this, in seconds, never fail by voir's own cost.
SHORT_STEP_SECONDS = 0.01
#: Unexplained pauses that deserve a warning: seconds, and share of the time.
LONG_PAUSE, LONG_SHARE = 0.25, 0.05
#: In runs shorter than this, in seconds, a declared key may be missing.
BRIEF = 2.0
#: Probes shown individually.
SHOWN = 5
#: The directory of stock instruments: their silent probes are no failures.
STOCK_INSTRUMENTS = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep


class Check(NamedTuple):
    """The result of one check.

    Attributes:
        check: Its name.
        verdict: ``PASS``, ``FAIL``, ``WARN``, or ``SKIP`` for too little evidence.
        evidence: The facts behind the verdict.
        hint: What to write or do; a voirfile's line begins with ``ov.``.
    """

    check: str
    verdict: str
    evidence: str
    hint: str | None = None

    def as_facts(self) -> dict[str, str]:
        """The check as an entry of ``verify`` in ``run.json``."""
        return {key: value for key, value in self._asdict().items() if value is not None}


@dataclass(frozen=True)
class Evidence:
    """The facts that the checks judge.

    Attributes:
        run: The facts of ``run.json``.
        told_by: The source of the steps: ``marks``, ``optimizers``, ...
        marks: Count of given steps by selector, "" for those from no probe; ``pairs`` likewise.
        batches: Whether batches are given, rather than their sizes only.
        sizeless: Count of given batches without a length.
        hooks: The task as the hooks alone see it; empty if they see none.
        losses: Count of losses; ``not_finite`` of them are NaN or infinite.
        given: Count of given losses; ``elsewhere`` of them in an evaluation.
        loss_limit: The loss that training must reach.
        own_shares: voir's own share of the time, by interval.
        promised: Count of keys that instruments declare.
        unkept: Declared keys that were never given: instrument and key.
        ignored: The remedy if an option excludes the given steps.
        cut: Whether voir stopped the script.
        children: Whether processes that the script started recorded something.
        line: Returns the voirfile line that shows a role; None if there is one.
        instead: Returns the line that replaces a probe's, if the script's text suggests one.
    """

    run: Facts
    told_by: str = "optimizers"
    marks: Mapping[str, int] = field(default_factory=dict)
    pairs: Mapping[str, int] = field(default_factory=dict)
    batches: bool = False
    sizeless: int = 0
    hooks: Facts = field(default_factory=dict)
    losses: int = 0
    not_finite: int = 0
    given: int = 0
    elsewhere: int = 0
    loss_limit: float | None = None
    own_shares: tuple[float, ...] = ()
    promised: int = 0
    unkept: tuple[tuple[str, str], ...] = ()
    ignored: str | None = None
    cut: bool = False
    children: bool = False
    line: Callable[[str], str | None] = GENERIC.get
    instead: Callable[[Any], str | None] = lambda probe: None

    @property
    def task(self) -> Facts:
        """The main task of the run."""
        return main_task(self.run) or part(self.run, "tasks", "train")

    @property
    def steps(self) -> float:
        """Count of the main task's steps."""
        return number(self.task, "steps") or 0

    @property
    def told(self) -> int:
        """Count of given steps: by marks, otherwise by pairs."""
        return sum(self.marks.values()) or sum(self.pairs.values())

    def write(self, role: str) -> str | None:
        """The line that shows ``role``; None while steps must be shown first."""
        return self.line(role) if self.steps or role == "step" else None


def judge(e: Evidence) -> list[Check]:
    """Run every check, in display order."""
    rest = (_steps, _loss, _items, _loading, _steady, _pauses, _cost, _instruments, _keys)
    return [*_probes(e), *(check(e) for check in rest)]


# What a voirfile shows


def _probes(e: Evidence) -> Iterator[Check]:
    probes = [p for p in entries(e.run, "probes") if _fired(p) or not _of_voir(p)]
    silent = [p for p in probes if not _fired(p)]
    if e.cut and silent and all(_not_reached(p) for p in silent):
        what = f"{silent[0].get('selector')}: not reached before the stop"
        yield Check("probes", SKIP, what, "go on for longer: --verify --stop 1000")
    elif silent:
        for n, probe in enumerate(silent[:SHOWN], 1):
            more = f"; and {len(silent) - n} more" if n == SHOWN < len(silent) else ""
            said = f"{probe.get('selector')} {probe.get('state')}: {probe.get('hint', '')}{more}"
            yield Check("probes", FAIL, said, e.instead(probe))
    elif probes:
        each = [f"{p.get('selector')} {number(p, 'fired') or 0:,.0f}" for p in probes]
        more = f"; and {len(each) - SHOWN} more" if len(each) > SHOWN else ""
        yield Check("probes", PASS, f"fired: {'; '.join(each[:SHOWN])}{more}")
    else:
        yield Check("probes", SKIP, "no voirfile sets any")


def _fired(probe: Facts) -> bool:
    return probe.get("state") in ("fired", "compiled away")


def _of_voir(probe: Facts) -> bool:
    return str(probe.get("where")).startswith(STOCK_INSTRUMENTS)


def _not_reached(probe: Facts) -> bool:
    hint = str(probe.get("hint", ""))
    return probe.get("state") == "never fired" and hint.endswith("never reached")


def _steps(e: Evidence) -> Check:
    steps, hooks, line = e.steps, number(e.hooks, "steps") or 0, e.write("step")
    promised = any(not _of_voir(probe) for probe in entries(e.run, "probes"))
    if not steps:
        if status := e.run.get("exit_status"):
            what = f"none was seen: the script had failed before, with status {status}"
            return Check("steps", WARN, what)
        if e.children and not promised:
            what = "made by processes that the script started, none of which has checked them"
            return Check("steps", SKIP, what)
        return Check("steps", FAIL if promised else WARN, "none was seen", e.ignored or line)
    if len(twice := {**e.marks, **e.pairs}) > 1 and "" in twice:
        what = " and ".join(f"{source or GIVE} ({n:,})" for source, n in twice.items())
        hint = f"leave out the line of the voirfile: {GIVE} is enough"
        return Check("steps", FAIL, f"they are given twice, by {what}", hint)
    if e.told and hooks and abs(steps - hooks) > e.cut:
        verdict = FAIL if abs(steps - hooks) > max(SOME, DIFFERS * hooks) else WARN
        what = f"{steps:,.0f} are given, but the hooks saw {hooks:,.0f}"
        return Check("steps", verdict, what, line)
    ends = [one for one in e.marks or e.pairs if "#endloop_" in one]
    if ends and not hooks and line is not None and "#endloop_" not in line:
        what = f"{steps:,.0f}: {ends[0]} also counts turns without a step"
        return Check("steps", WARN, what, line)
    by = "given" if e.told_by == "marks" else f"counted from {e.told_by}"
    return Check("steps", PASS, f"{steps:,.0f}, {by}")


def _loss(e: Evidence) -> Check:
    loss, lowest = part(e.task, "loss"), number(e.task, "loss.min")
    if not e.losses:
        return Check("loss", SKIP, "none was seen", e.write("loss"))
    if e.not_finite:
        what = f"{e.not_finite:,} of {e.losses:,} are not finite"
        return Check("loss", FAIL, what, "lower the learning rate, or clip gradients")
    if e.given and 2 * e.elsewhere > e.given:
        what = f"{e.elsewhere:,} of {e.given:,} are given in evaluations"
        return Check("loss", FAIL, what, e.write("loss"))
    if e.steps < 2 * e.given < 4 * e.steps and abs(e.given - e.steps) > e.cut:
        return Check(
            "loss", WARN, f"{e.given:,} are given, of {e.steps:,.0f} steps", e.write("step")
        )
    first, hooks = number(loss, "first"), number(e.hooks, "loss.first")
    one_each = abs(e.given - (number(e.hooks, "steps") or 0)) <= 1
    if one_each and first is not None and hooks is not None and _differs(first, hooks):
        what = f"the first that is given is {figure(first)}, that of backward {figure(hooks)}"
        return Check("loss", WARN, what, e.write("loss"))
    if e.loss_limit is not None and (lowest is None or lowest > e.loss_limit):
        what = f"the lowest is {figure(lowest)}, wanted {figure(e.loss_limit)}"
        return Check("loss", FAIL, what, "give it more steps (--stop N), or another learning rate")
    path = f"{figure(loss.get('first'))} to {figure(loss.get('last'))}"
    return Check("loss", PASS, f"{e.losses:,} seen, all finite, from {path}")


def _differs(given: float, seen: float) -> bool:
    return abs(given - seen) > DIFFERS * abs(seen)


def _items(e: Evidence) -> Check:
    items, hooks, line = number(e.task, "items"), number(e.hooks, "items"), e.write("step")
    line = line if line is not None and "batch" in line else GIVE_BATCH_SIZE
    if e.batches and 2 * e.sizeless > e.told:
        verdict = FAIL if hooks else WARN
        return Check("items", verdict, "what is given as batch has no length", line)
    if items is None or not e.steps:
        return Check("items", SKIP, "how many a step has is not known", line if e.steps else None)
    each, by = items / e.steps, (hooks or 0) / (number(e.hooks, "steps") or 1)
    if e.batches and by and _differs(each, by):
        what = f"{each:,.4g} a step are given, but the hooks saw {by:,.4g}"
        return Check("items", FAIL, what, line)
    return Check("items", PASS, f"{items:,.0f}, {each:,.4g} a step")


# What is measured


def _loading(e: Evidence) -> Check:
    share, hooks = number(e.task, "loading.share"), number(e.hooks, "loading.share")
    line = e.write("loading")
    if share is None:
        return Check("loading", SKIP, "nothing shows it", line)
    said = f"{percent(share)} of the time"
    if e.pairs and hooks is not None and abs(share - hooks) > DIFFERS:
        return Check("loading", WARN, f"{said}, but the hooks saw {percent(hooks)}", line)
    if e.pairs and share < NEGLIGIBLE_SHARE and line is not None:
        return Check("loading", WARN, f"{said}: nothing waits between the pairs", line)
    return Check("loading", PASS, said)


def _steady(e: Evidence) -> Check:
    verdict, steps = at(e.task, "steady.verdict"), f"{e.steps:,.0f} steps"
    if verdict == "steady":
        return Check(
            "steady", PASS, f"from step {at(e.task, 'steady.from_step')} of {e.steps:,.0f}"
        )
    if verdict == "never steady":
        hint = "give it longer: --verify --stop 1000; or leave out a fixed start: --skip 50"
        return Check("steady", WARN, f"never, in {steps}{_others(e)}", hint)
    return Check("steady", SKIP, f"{steps} are too few to judge")


def _others(e: Evidence) -> str:
    share = others_share(e.run) or 0.0
    return f"; other programs use {percent(share)} of the processors" if share >= 0.1 else ""


def _pauses(e: Evidence) -> Check:
    kinds = part(e.task, "pause", "kinds")
    shown = [f"{name} {duration(at(kinds, f'{name}.seconds'))}" for name in kinds]
    unknown, wall = number(kinds, "unexplained.seconds") or 0.0, wall_seconds(e.task) or 0.0
    if unknown > max(LONG_PAUSE, LONG_SHARE * wall):
        return Check("pauses", WARN, ", ".join(shown) + _others(e), e.write("pause"))
    return Check("pauses", PASS, ", ".join(shown) or "none")


def _cost(e: Evidence) -> Check:
    share = sum(e.own_shares) / len(e.own_shares) if e.own_shares else None
    if share is None:
        return Check("own cost", SKIP, "the steps were too short to judge")
    each = number(e.task, "step_seconds.median") or 0.0
    said, probes = f"at least {percent(share)} of the time", entries(e.run, "probes")
    hot = max(probes, key=lambda one: number(one, "fired") or 0.0, default={})
    often, hint = (number(hot, "fired") or 0.0) / (e.steps or 1), None
    if often >= HOT[1]:
        hint = f"give fewer: {hot.get('selector')} fires {often:,.0f} times a step"
    if min(e.own_shares[-2:]) > MUCH and len(e.own_shares) > 1 and each >= SHORT_STEP_SECONDS:
        return Check("own cost", FAIL, said, hint)
    if share > (HOT[0] if hint else DEAR):
        return Check("own cost", WARN, f"{said}, of steps of {duration(each)}", hint)
    return Check("own cost", PASS, said)


# What else was promised


def _instruments(e: Evidence) -> Check:
    ran, problems = entries(e.run, "instruments"), entries(e.run, "problems")
    failed = [one for one in ran if one.get("state") == "failed"]
    if failed:
        place = failed[0].get("failed_at") or failed[0].get("where")
        what = f"{failed[0].get('name')}: {failed[0].get('error', 'failed')}"
        return Check("instruments", FAIL, what, f"look at {place}" if place else None)
    if problems:
        more = f"; and {len(problems) - 1} more" if len(problems) > 1 else ""
        what = f"{problems[0].get('who')}: {problems[0].get('what')}{more}"
        return Check("instruments", WARN, what, problems[0].get("remedy"))
    return Check("instruments", PASS, f"{count(len(ran), 'instrument')}, none failed")


def _keys(e: Evidence) -> Check:
    if not e.promised:
        return Check("keys", SKIP, "no instrument of a voirfile declares any")
    if not e.unkept:
        return Check("keys", PASS, f"all {e.promised:,} that are declared")
    (who, key), seconds = e.unkept[0], number(e.run, "seconds") or 0.0
    if seconds < BRIEF:
        return Check("keys", SKIP, f"{seconds:.1f} s are too short for {who}")
    more = f", and {len(e.unkept) - 1} more" if len(e.unkept) > 1 else ""
    name, _, inner = key.partition(".")
    value = f'{{"{inner}": ...}}' if inner else "..."
    return Check(
        "keys", FAIL, f"{who} declares {key} and never gave it{more}", f"ov.give({name}={value})"
    )
