"""A run in at most 400 tokens: verdict, evidence, what to do next, and the command to test it."""

from __future__ import annotations

import os
import shlex
from typing import NamedTuple

from ..errors import clean
from ..model.facts import at, breakdown, duration, entries, main_task, number, part, percent
from .summary import losses, outcome, rate, seconds
from .text import Layout, Piece, cut, row

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from ..model.facts import Facts

#: Most sentences of each kind, and the length of one.
_EVIDENCE, _NEXT, _SENTENCE = 6, 2, 130
#: The longest command.
_COMMAND = 300
#: Seconds of a run from which a trial of it ends after some steps; and those after steady ones.
_LONG, _MORE_STEPS = 60, 100
#: Other metrics than the steady rate, by verdict; ``{}`` is the main task.
_METRICS = {
    "pause-heavy": "{}.rate.wall", "never steady": "{}.rate.wall",
    "memory growing": "host.memory.process.peak",
}  # fmt: skip


class Brief(NamedTuple):
    """A run in a few sentences.

    Attributes:
        verdict: That of the diagnosis; ``failed``, ``running`` or ``no verdict`` without one.
        evidence: Figures that show it.
        next: What to try.
        command: The command that tests a change.
    """

    verdict: str
    evidence: list[str]
    next: list[str]
    command: str

    def as_facts(self) -> dict[str, Any]:
        """The content of ``voir show --brief --json``."""
        return self._asdict()


def brief_of(run: Facts) -> Brief:
    """A run in a few sentences, all from its ``run.json``."""
    said = part(run, "diagnosis")
    verdict = clean(said.get("verdict") or _ended(run))
    evidence = [clean(said.get("why") or ""), *_evidence(run)]
    remedies = [each.get("remedy") for each in entries(run, "problems")]
    following = [clean(each) for each in (said.get("next"), *remedies) if each]
    kept = ([cut(each, _SENTENCE) for each in found if each] for found in (evidence, following))
    first, then = kept
    return Brief(cut(verdict, 40), first[:_EVIDENCE], then[:_NEXT], _command(run, verdict))


def brief_text(brief: Brief, width: int, colour: bool) -> str:
    """It as text."""
    rows = [row("verdict", Piece(brief.verdict, "bold"))]
    for label, found in (("evidence", brief.evidence), ("next", brief.next)):
        rows += [row("" if index else label, each) for index, each in enumerate(found)]
    return Layout(width, colour).text([*rows, row("test", brief.command)])


def _ended(run: Facts) -> str:
    if "state" in run:
        return "running"
    return "failed" if outcome(run).style == "bad" else "no verdict"


def _evidence(run: Facts) -> Iterator[str]:
    ended = outcome(run)
    took = duration(seconds(run))
    if ended.text != "finished":
        yield f"{ended.text} after {took}" if took else ended.text
    task = main_task(run)
    if task is None:
        yield "no steps were recorded"
    else:
        yield from _of_task(task)
    for each in entries(run, "problems")[:2]:
        yield f"{clean(each.get('what') or '')} [{clean(each.get('slug') or '')}]"
    cpu = number(run, "host.cpu.process.mean")
    if cpu is not None:
        yield f"the script uses {cpu:.0f} % of the processors"


def _of_task(task: Facts) -> Iterator[str]:
    steady = clean(at(task, "steady.verdict") or "")
    start = number(task, "steady.from_step")
    made = [f"{number(task, 'steps') or 0:,.0f} steps", *rate(task), steady]
    if start is not None:
        made[-1] = f"steady from step {start:,.0f}"
    yield ", ".join(filter(None, made))
    shares = breakdown(task) or {"loading": number(task, "loading.share") or 0.0}
    step = duration(at(task, "step_seconds.median"))
    shown = ", ".join(f"{name} {percent(share)}" for name, share in shares.items() if share > 0.005)
    if step:
        yield f"a step takes {step}" + (f": {shown}" if shown else "")
    if loss := losses(task):
        yield f"loss {loss}"


def _command(run: Facts, verdict: str) -> str:
    """The command that compares a change with the last commit."""
    if verdict == "running":
        return "voir watch"
    if verdict == "failed":
        return cut(f"voir {shlex.join(_target(run))}", _COMMAND)
    task, options = main_task(run) or {}, list[str]()
    if verdict in _METRICS:
        names = [name for name, facts in part(run, "tasks").items() if facts == task]
        options += ["--metric", _METRICS[verdict].format(*names[:1] or ["train"])]
    start = number(task, "steady.from_step")
    if start is not None and (seconds(run) or 0) > _LONG and not options:
        options += ["--steps", f"{2 * start + _MORE_STEPS:.0f}"]
    begun = shlex.join(["voir", "try", "WHAT YOU CHANGED", *options, "--"])
    whole = f"{begun} {shlex.join(_target(run))}"
    return whole if len(whole) <= _COMMAND else f"{begun} SCRIPT [args]"


def _target(run: Facts) -> list[str]:
    """The script with its arguments, as on the command line."""
    words = [clean(each) for each in run.get("argv") or ()]
    script, cwd = str(run.get("script") or ""), str(at(run, "provenance.cwd") or "")
    for index, word in enumerate(words[1:], 1):
        if word == "-m" or os.path.normpath(os.path.join(cwd, word)) == script:
            return words[index:]
    return [os.path.basename(script) or "SCRIPT"]
