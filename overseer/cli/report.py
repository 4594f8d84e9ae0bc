"""``voir report``: writes one page of HTML about a run, a job, a bench, or several runs."""

from __future__ import annotations

import webbrowser
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from heapq import nlargest
from html import escape
from pathlib import Path
from typing import Any

from ..errors import VoirError
from ..files import is_own, read, whole
from ..model.comparison import THRESHOLD, Comparison
from ..model.comparison import compare as compare_sides
from ..model.facts import at, count, main_task, number, part
from ..rundir.curves import POINTS, TIME_POINTS, StepCurves, TimeCurve, step_curves, time_curves
from ..rundir.differences import GROUPS, differences
from ..rundir.git import diff
from ..rundir.killed import STACKS_FILE
from ..rundir.provenance import DIFF_FILE
from ..rundir.reading import Run
from ..rundir.steps import STEPS_FILE, steps_of
from ..views.comparison import ShownSide
from ..views.report import sections, svg
from ..views.report import sides as of_sides
from ..views.report.page import (
    OVER_ROUNDS,
    OVER_STEPS,
    OVER_TIME,
    Chart,
    DrawnLine,
    figures,
    page,
    section,
    text,
)
from ..views.text import cut
from .commands import CommandParser, Terminal
from .runs import RUN_HELP, facts_of, finished_run, run_directory, warn
from .sides import NamedSide, between_commits, commits_differ, sides_of

_ABOUT = """\
Write a page about a run, a job or a bench, or about several runs beside each other: one file of
HTML, which needs nothing else and no network.
"""
#: The name of the page in a run's directory, and of one about several runs.
PAGE_FILE = "report.html"
#: Ranks and runs with curves of their own, points of each, and columns of the map of ranks.
RANKS_DRAWN, SIDES_DRAWN, PARTS_DRAWN = 16, 6, 2
FEW_POINTS = 240
#: Tasks of a run that are shown.
MOST_TASKS = 50
#: Characters of the stacks of a process.
MOST_STACKS = 8000
#: Names of units of monitors' charts, in order; each unit has one chart.
_TITLES = {"%": "Load", "1": "GPU load", "B": "Memory", "MiB": "GPU memory",
    "B/s": "Disk and network", "W": "Power", "°C": "Temperature"}  # fmt: skip


def parser() -> CommandParser:
    """The parser of ``voir report``."""
    example = "voir report voir-runs/RUN --open"
    made = CommandParser(prog="voir report", description=_ABOUT, example=example)
    made.add_argument("runs", metavar="RUN", nargs="*",
        help=f"{RUN_HELP}; a bench; several runs are compared")  # fmt: skip
    made.add_argument("-o", "--output", metavar="FILE",
        help=f"the file (default: {PAGE_FILE} in the run's directory)")  # fmt: skip
    made.add_argument("--open", action="store_true", help="open it in a browser")
    return made


def report(argv: list[str], terminal: Terminal) -> Iterator[str]:
    """Write the page that ``argv`` names; yield its path.

    Raises:
        VoirError: There is no such run, or the page cannot be written.
    """
    options = parser().parse_args(argv)
    names = options.runs or ["-1"]
    path, made = page_of(names)
    to = Path(options.output) if options.output else path / PAGE_FILE
    try:
        if options.output is None and not is_own(path):
            what = f"{path} belongs to another user; nothing is written there"
            raise VoirError("export-unwritable", what, "Name another place: -o FILE.")
        to.parent.mkdir(parents=True, exist_ok=True)
        with whole(to, durable=False) as file:
            file.write(made.encode("utf-8", "replace"))
    except OSError as error:
        what = f"{to} cannot be written: {error.strerror or error}"
        raise VoirError("export-unwritable", what, "Name another place: -o FILE.") from None
    yield f"{to}\n"
    if options.open:
        webbrowser.open(to.resolve().as_uri())


def page_of(names: Sequence[str]) -> tuple[Path, str]:
    """A page, and the directory that it belongs to.

    Args:
        names: A run, job or bench; or several runs, which are compared.

    Raises:
        VoirError: One of them is not there, or cannot be read.
    """
    first = Path(names[0])
    if len(names) > 1 or (first / "bench.json").exists():
        named, reference = sides_of(names, None)
        return (first if first.is_dir() else Path()), _of_sides(names, named, reference)
    run = finished_run(run_directory(names[0]))
    return run.path, _of_run(run)


class _Damage:
    """What is damaged in the files of runs, said once on stderr and on the page."""

    def __init__(self) -> None:
        self._found = dict[str, None]()

    def __call__(self, error: VoirError) -> None:
        if error.what not in self._found:
            warn(error)
            self._found[error.what] = None

    def look(self, run: Run) -> None:
        """Note what a run lacks without an error, once its files have been read."""
        if not run.facts:
            self._found[f"{run.path / 'run.json'} is missing or damaged"] = None
        if run.metrics.torn:
            lines = count(run.metrics.torn, "line")
            self._found[f"{run.metrics.path}: {lines} incomplete or damaged"] = None
        with suppress(VoirError):
            rows, steps = number(run.facts, "steps.rows") or 0, steps_of(run.path, run.facts)
            if (there := len(steps or ())) < rows:
                self._found[f"{run.path / STEPS_FILE} has {there:,} of {rows:,.0f} rows"] = None

    def section(self) -> str:
        """All of it, as a section of the page."""
        made = "".join(f"<li>{text(what)}</li>" for what in self._found)
        return section("Damaged files", f"<ul>{made}</ul>" if made else "")


# One run, or the processes of a job


def _of_run(run: Run) -> str:
    damage = _Damage()
    every = facts_of(run, damage)
    facts = _few_tasks(every)
    fewer = len(part(every, "tasks")) - len(facts["tasks"])
    members = [one for one in run.ranks if one.facts] or [run]
    late = part(main_task(facts) or {}, "straggler").get("ranks") or []
    named = [one for one in members[RANKS_DRAWN:] if one.rank in late][: RANKS_DRAWN // 2]
    shown = [*members[: RANKS_DRAWN - len(named)], *named]
    points = POINTS if len(shown) == 1 else FEW_POINTS
    steps = list[tuple[str, StepCurves]]()
    for one in shown:
        curves = step_curves(one, None, damage, points, whole=not steps)
        if curves is not None:
            steps.append((_name(one), curves))
    charts = [*_step_charts(steps, bool(run.ranks)), *_time_charts(time_curves(members[0], damage))]
    first = steps[0][1] if steps else None
    for one in run.ranks[:RANKS_DRAWN] or [run]:
        damage.look(one)
    body = [
        sections.head(facts),
        f"<p>and {fewer:,} more tasks, with fewer steps</p>" if fewer else "",
        damage.section(),
        _charts(charts),
    ]
    if first is not None:
        bars = svg.histogram(*first.bars)
        title = f"Times of steps, {steps[0][0]}" if run.ranks else "Times of steps"
        body.append(section(title, bars, sections.outliers(first.outliers)))
    if run.ranks:
        body.append(_of_ranks(members, facts, steps))
    body += [sections.problems(facts), sections.probes(facts), _trace(run), _stacks(members)]
    body.append(section("Uncommitted changes", _uncommitted(members[0])))
    body.append(sections.provenance(members[0].facts))
    script = Path(str(facts.get("script") or run.path)).name
    title = f"{facts.get('name') or script} · voir"
    times = first.times if first is not None else ([], [])
    pauses = [(one.step, one.start, one.end) for one in first.pauses] if first else []
    return page(title, body, charts, (times[0], times[1]), pauses)


def _few_tasks(facts: Mapping[str, Any]) -> dict[str, Any]:
    """The facts with the tasks that have the most steps."""
    tasks = part(facts, "tasks")
    kept = nlargest(MOST_TASKS, tasks, lambda it: number(part(tasks, it), "steps") or 0.0)
    return {**facts, "tasks": {name: tasks[name] for name in tasks if name in kept}}


def _name(run: Run) -> str:
    return f"rank {run.rank}"


def _charts(charts: Sequence[Chart]) -> str:
    return f'<div id="charts">{section("Over steps and time", figures(charts))}</div>'


def _step_charts(steps: Sequence[tuple[str, StepCurves]], of_job: bool) -> Iterator[Chart]:
    """The charts over steps: a line for each of several ranks or runs."""
    several = len(steps) > 1
    if not steps:
        return
    first = steps[0][1]

    def lines(name: str) -> list[DrawnLine]:
        curves = [(label, getattr(each, name)) for label, each in steps]
        return [DrawnLine(label if several else first.task, *one) for label, one in curves if one.x]

    of_loss = lines("loss")
    if of_loss:
        of_loss = of_loss[:1] if of_job else of_loss  # As in the summary.
        yield Chart("Loss", OVER_STEPS, "1", of_loss, log=True, smooth=True, marks=True)
    unit = f"{first.units}/s"
    yield Chart("Rate", OVER_STEPS, unit, lines("rate"), smooth=True, marks=True)
    yield Chart(
        "Time of a step", OVER_STEPS, "s", lines("seconds"), log=True, smooth=True, marks=True
    )
    for label, each in steps[: 1 if of_job else PARTS_DRAWN]:
        title = f"Parts of a step, {label}" if several else "Parts of a step"
        parts = [DrawnLine(name, *curve) for name, curve in each.parts.items()]
        yield Chart(title, OVER_STEPS, "s", parts, stack=True)


def _time_charts(curves: Sequence[TimeCurve]) -> Iterator[Chart]:
    """The charts over time: one for each value of the script, and each unit of the monitors."""
    for one in curves:
        if one.given and one.curve.x:
            yield Chart(
                one.name, OVER_TIME, one.unit, [DrawnLine(one.name, *one.curve)], smooth=True
            )
    units = dict.fromkeys(one.unit for one in curves if not one.given)
    for unit in units:
        those = [one for one in curves if one.unit == unit and not one.given and one.curve.x]
        # Two monitors may sample the same.
        unlike = {
            tuple(one.curve.y) if any(one.curve.y) else one.key: DrawnLine(one.name, *one.curve)
            for one in reversed(those)
        }
        if unlike:
            shown = [*reversed(unlike.values())]
            yield Chart(_TITLES.get(unit, unit), OVER_TIME, unit, shown, marks=True)


def _of_ranks(
    members: Sequence[Run], job: Mapping[str, Any], steps: Sequence[tuple[str, StepCurves]]
) -> str:
    """The rank that the others wait for, a map of the ranks' own times, and a table."""
    why = part(main_task(job) or {}, "straggler").get("why")
    verdict, drawn = part(job, "diagnosis").get("verdict"), ""
    told = f"<p>{text(why)}</p>" if why and verdict != "straggler" else ""  # Which says it.
    if steps:
        names, last = [name for name, _ in steps], f"step {steps[0][1].n:,}"
        drawn = svg.heat_map(names, [curves.own.y for _, curves in steps], "step 1", last)
    table = sections.ranks_table([(one.rank, one.facts) for one in members], job)
    return section("Ranks", told, drawn, table)


def _stacks(members: Sequence[Run]) -> str:
    """The stacks of the processes that made no step any more."""
    made = ""
    for one in members[:RANKS_DRAWN]:
        with suppress(OSError):
            found = (one.path / STACKS_FILE).read_text("utf-8", "replace")[:MOST_STACKS]
            name = _name(one) if len(members) > 1 else "all threads"
            made += f"<details><summary>{name}</summary><pre>{escape(found)}</pre></details>"
    return section("Stacks", made)


def _uncommitted(run: Run, of: str = "") -> str:
    """The diff that a run recorded, folded."""
    with suppress(OSError):
        found = read(run.path / DIFF_FILE).decode("utf-8", "replace")
        size = str(at(run.facts, "provenance.git.changes") or DIFF_FILE)
        return sections.diff(f"{of}{size}", found, f"{run.path / DIFF_FILE}")
    return ""


def _trace(run: Run) -> str:
    found = [one for one in run.ranks or (run,) if (one.path / "trace.pftrace").exists()]
    if not found:
        return ""
    links = ", ".join(
        f'<a href="{text(one.path.relative_to(run.path) / "trace.pftrace")}">'
        f"{text(_name(one) if run.ranks else 'trace.pftrace')}</a>"
        for one in found
    )
    command = text(f"voir trace view {run.path}")
    return section("Trace", f"<p>{links} · <code>{command}</code></p>")


# Several runs, or a bench


def _of_sides(names: Sequence[str], named: Sequence[NamedSide], reference: int) -> str:
    damage = _Damage()
    sides = [
        one.side._replace(runs=[_few_tasks(facts) for facts in one.side.runs]) for one in named
    ]
    threshold = next((one.threshold for one in named if one.threshold is not None), THRESHOLD)
    found = compare_sides(sides, threshold, reference)
    shown = [ShownSide(one.named, one.side.runs) for one in named]
    charts = [*_rounds(named)]
    firsts, steps = list[tuple[str, Run]](), list[tuple[str, StepCurves]]()
    given = dict[str, list[DrawnLine]]()
    drawn = [one for one in named if not one.side.control][:SIDES_DRAWN]
    for one in drawn:
        with suppress(VoirError):
            run = finished_run(Path(one.paths[0]))
            first = (run.ranks or (run,))[0]
            firsts.append((one.side.name, first))
            curves = step_curves(first, None, damage, POINTS // 2, whole=False)
            for value in time_curves(first, damage, TIME_POINTS // len(drawn)):
                if value.given:
                    line = DrawnLine(one.side.name, *value.curve)
                    given.setdefault(value.name, []).append(line)
            damage.look(first)
            if curves is not None:
                steps.append((one.side.name, curves))
    charts += _step_charts(steps, False)
    charts += [Chart(name, OVER_TIME, "1", lines, smooth=True) for name, lines in given.items()]
    title = cut(" against ".join(names), 120)
    body = [
        f"<h1>{text(title)}</h1>",
        of_sides.verdicts(found, shown),
        damage.section(),
        of_sides.pairs(found, sides),
        of_sides.parts(found),
        of_sides.figures(found, shown),
        _charts(charts),
        _different([one.runs for one in sides if not one.control], found, firsts),
    ]
    times = steps[0][1].times if steps else ([], [])
    return page(f"{title} · voir", body, charts, (times[0], times[1]))


def _different(
    sides: Sequence[Sequence[Mapping[str, Any]]],
    found: Comparison,
    firsts: Sequence[tuple[str, Run]],
) -> str:
    """What differs between the sides, and the diffs of their code, as far as they are known."""
    unlike = differences(sides)
    diffs = between_commits(sides, found, diff)
    sizes = [each[0] if each else "" for each in diffs]
    unlike = [*unlike, *commits_differ(sizes)]
    unlike.sort(key=lambda one: GROUPS.index(one.group))
    reference = found.sides[found.reference]
    code = [
        sections.diff(f"{reference} to {name}, commits: {each[0]}", each[1], "git diff")
        for name, each in zip(found.plain, diffs, strict=True)
        if each
    ]
    code += [_uncommitted(run, f"{name}, uncommitted: ") for name, run in firsts]
    return sections.differences(found.plain, unlike, *code)


def _rounds(named: Sequence[NamedSide]) -> Iterator[Chart]:
    """The rate of each process of a bench, by its round."""
    lines, units = list[DrawnLine](), "items"
    every = [main_task(facts) or {} for one in named for facts in one.side.runs]
    steady = all(number(task, "rate.steady") for task in every)
    kind, title = ("steady", "Steady") if steady else ("wall", "Overall")
    for one in named:
        tasks = [main_task(facts) or {} for facts in one.side.runs]
        rates = [number(task, f"rate.{kind}") for task in tasks]
        known = [(n, rate) for n, rate in zip(one.side.rounds, rates, strict=False) if rate]
        units = next((str(task["units"]) for task in tasks if task.get("units")), units)
        if known:
            lines.append(DrawnLine(one.side.name, *map(list, zip(*known, strict=True))))
    if lines:
        yield Chart(f"{title} rate of each process", OVER_ROUNDS, f"{units}/s", lines, points=True)
