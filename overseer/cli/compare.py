"""``voir compare A B``: what two runs, or several of each kind, have not in common."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from ..errors import UsageError
from ..measure.comparison import NONE, THRESHOLD, Comparison, Row, Verdict, middle
from ..measure.comparison import compare as compare_facts
from ..record.differences import Difference, differences
from ..record.reading import Run, read_run
from .amounts import duration, figure, gibibytes, percent, rates
from .parsing import CommandParser
from .rows import TO, Layout, Piece, cells, clean, row
from .summary import head_of

_ABOUT = """\
Compare run B with run A: rates, shares, times, losses, memory, and what was different about the
runs. A difference is called one only where it is larger than the threshold and its interval leaves
out none. Several runs a side, separated by commas, tell what the next one would show.
"""
#: Columns of the table: the figure, A, B; the rest is what B is to A.
_NAME, _VALUE = 15, 17
#: How many differences of the runs are shown.
_MOST = 16
_REPEATS = (
    "one run a side: the interval is of these runs only. What the next ones would show, "
    "repeats tell: voir compare A1,A2,A3 B1,B2,B3"
)


def parser() -> CommandParser:
    """What ``voir compare`` takes."""
    example = "voir compare voir-runs/A voir-runs/B"
    made = CommandParser(prog="voir compare", description=_ABOUT, example=example)
    made.add_argument(
        "before", metavar="A", help="a run directory, several (A1,A2,A3), or one that holds them"
    )
    made.add_argument("after", metavar="B", help="what is compared with it, likewise")
    made.add_argument("--threshold", type=_percent, default=THRESHOLD, metavar="PERCENT",
        help="the smallest difference that counts (default: 5)")  # fmt: skip
    made.add_argument("--json", action="store_true", help="for programs")
    return made


def _percent(text: str) -> float:
    try:
        value = float(text.removesuffix("%"))
    except ValueError:
        value = -1.0
    if not 0 <= value < 1000:
        what = f"voir compare: --threshold is {text!r}, which is no number of percent"
        raise UsageError("usage", what, "For example: --threshold 3")
    return value / 100


def compare(argv: list[str], width: int) -> str:
    """Compare what ``argv`` names; what to print.

    Args:
        argv: What follows ``voir compare``.
        width: Of the terminal.

    Raises:
        VoirError: One of them is no run, or cannot be read.
    """
    options = parser().parse_args(argv)
    sides = [_runs(options.before), _runs(options.after)]
    facts = [[run.facts for run in side] for side in sides]
    found = compare_facts(facts[0], facts[1], options.threshold)
    unlike = differences(facts[0], facts[1])
    if options.json:
        return json.dumps(_as_json(sides, options.threshold, found, unlike), indent=2) + "\n"
    return _as_text(sides, options.threshold, found, unlike, width)


def _runs(paths: str) -> list[Run]:
    named = [path for path in paths.split(",") if path]
    if not named:
        raise UsageError("usage", "voir compare: a side names no run", "Name run directories.")
    return [read_run(run) for path in named for run in _repeats(Path(path))]


def _repeats(path: Path) -> list[Path]:
    """The runs in a directory that is none itself; else what it is."""
    inside = sorted(file.parent for file in path.glob("*/run.json"))
    ranks = [directory for directory in inside if directory.name.startswith("rank")]
    return [path] if ranks or not inside or (path / "run.json").exists() else inside


# For people


def _as_text(
    sides: Sequence[Sequence[Run]],
    threshold: float,
    found: Comparison,
    unlike: list[Difference],
    width: int,
) -> str:
    layout = Layout(width, False, column=4)
    heads = [
        layout.text([row(name, *_head(run), style="")])
        for name, side in zip("AB", sides, strict=True)
        for run in side
    ]
    notes = Layout(width, False, column=12)
    parts = [
        "".join(heads),
        *_tables(found, len(sides[0]), len(sides[1])),
        notes.text(_conclusions(found, sides, threshold)),
        notes.text(_differences(unlike)),
    ]
    return "\n".join(part for part in parts if part)


def _head(run: Run) -> list[Piece]:
    pieces = [Piece(clean(run.path))]
    return [*pieces, *(piece._replace(style="") for piece in head_of(run.facts))]


def _tables(found: Comparison, before: int, after: int) -> Iterator[str]:
    """A table for each task, and one for the whole run."""
    for task in dict.fromkeys(one.task for one in found.rows):
        head = _line(task or "run", _counted("A", before), _counted("B", after), "B against A")
        lines = [line for one in found.rows if one.task == task for line in _lines(one)]
        yield "".join(f"{line.rstrip()}\n" for line in [head, *lines])


def _counted(name: str, runs: int) -> str:
    return name if runs == 1 else f"{name}, of {runs}"


def _line(name: str, before: str, after: str, change: str = "") -> str:
    name += " " * (_NAME - cells(name))
    return f"{clean(name)} {_right(before)} {_right(after)}   {change}"


def _right(text: str) -> str:
    return " " * (_VALUE - cells(text)) + text


def _lines(one: Row) -> Iterator[str]:
    name = f"  {one.figure.name}"
    yield _line(name, _shown(one, one.before), _shown(one, one.after), _change(one))
    ranges = [
        _range(one, values, spread)
        for values, spread in zip((one.before, one.after), one.spread, strict=True)
    ]
    if any(ranges):
        yield _line("", *ranges)


def _shown(one: Row, values: Sequence[float]) -> str:
    kind, value = one.figure.kind, middle(values)
    if kind == "rate":
        return f"{rates(value)[0]} {clean(one.units)[:7]}/s"
    shown = {"seconds": duration, "share": percent, "bytes": gibibytes, "number": figure}[kind]
    return shown(value) or ""


def _range(one: Row, values: Sequence[float], spread: Sequence[float] | None) -> str:
    """Between which values the runs lie, or half of the steps of a single run."""
    ends = spread or ((min(values), max(values)) if len(values) > 1 else None)
    if ends is None or one.figure.kind not in ("rate", "seconds"):
        return ""
    if one.figure.kind == "rate":
        return TO.join(rates(*ends))
    return TO.join(duration(end) or "" for end in ends)


def _change(one: Row) -> str:
    if one.figure.kind == "number":
        return "the same" if one.before == one.after else ""
    if one.ratio is None:
        return ""
    between = f" ({_interval(one.interval)})" if one.interval is not None else ""
    return f"{_signed(one.ratio)} %{between}"


def _interval(interval: tuple[float, float]) -> str:
    return " to ".join(map(_signed, interval))


def _signed(ratio: float) -> str:
    change = 100 * (ratio - 1)
    return f"{change:+.0f}" if abs(change) >= 10 else f"{change:+.1f}"


def _conclusions(
    found: Comparison, sides: Sequence[Sequence[Run]], threshold: float
) -> Iterator[Any]:
    for index, verdict in enumerate(found.verdicts):
        yield row(
            "" if index else "verdict", f"{clean(verdict.task)}: {_concluded(verdict)}", verdict.why
        )
    if not found.verdicts:
        yield row("verdict", "nothing to compare: they have no task in common")
    elif len(sides[0]) == len(sides[1]) == 1:
        yield row("", _REPEATS)
    if found.verdicts:
        yield row(
            "", f"intervals are 95 %; less than {100 * threshold:g} % counts as no difference"
        )
    for index, note in enumerate(found.notes):
        yield row("" if index else "but", clean(note))


def _concluded(verdict: Verdict) -> str:
    if verdict.verdict == NONE or verdict.ratio is None or verdict.interval is None:
        return verdict.verdict
    here = " in these runs" if verdict.over == "steps" else ""
    size = f"{_signed(verdict.ratio)} % ({_interval(verdict.interval)})"
    return f"B is {verdict.verdict}{here}, {size}"


def _differences(unlike: list[Difference]) -> Iterator[Any]:
    for index, one in enumerate(unlike[:_MOST]):
        label = "differs" if index == 0 else ""
        yield row(label, f"{clean(one.name)}: {_cut(one.before)} → {_cut(one.after)}")
    if len(unlike) > _MOST:
        yield row("", f"and {len(unlike) - _MOST} more: --json has all of them")
    if not unlike:
        yield row("differs", "nothing that is recorded: command, git, packages, machine")


def _cut(text: str, most: int = 40) -> str:
    text = clean(text)
    return text if len(text) <= most else f"{text[: most - 1]}…"


# For programs


def _as_json(
    sides: Sequence[Sequence[Run]], threshold: float, found: Comparison, unlike: list[Difference]
) -> dict[str, Any]:
    return {
        "before": [str(run.path) for run in sides[0]],
        "after": [str(run.path) for run in sides[1]],
        "threshold": threshold,
        "figures": [_figure(one) for one in found.rows],
        "verdicts": [verdict._asdict() for verdict in found.verdicts],
        "notes": found.notes,
        "differences": [one._asdict() for one in unlike],
    }


def _figure(one: Row) -> dict[str, Any]:
    named = {"task": one.task or None, "figure": one.figure.path, "units": _unit(one)}
    known = one._asdict()
    return {**named, **{key: known[key] for key in ("before", "after", "ratio", "interval")}}


def _unit(one: Row) -> str | None:
    units = {"rate": f"{one.units}/s", "seconds": "s", "bytes": "B", "share": "1"}
    return units.get(one.figure.kind)
