"""A comparison as text: a table per task, verdicts, and how the runs differed."""

from __future__ import annotations

from ..errors import clean
from ..model.catalogue import RATE, SCALAR, SECONDS
from ..model.comparison import NO_DIFFERENCE, middle
from ..model.facts import duration, rates
from .summary import head_of
from .text import TO, Layout, Piece, Row, cells, cut, row

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ..model.comparison import ComparedFigure as Compared
    from ..model.comparison import Comparison, TaskVerdict
    from ..model.facts import Facts

    #: For each run of a side: its path and the facts of its ``run.json``.
    Side = Sequence[tuple[str, Facts]]

#: Columns of the table: the figure, A, B; the rest compares B with A.
_NAME, _VALUE = 15, 17
#: Differences between the runs that are shown.
_MOST = 16
_REPEATS = "Repeat the runs to see what the next ones would show: voir compare A1,A2,A3 B1,B2,B3"
#: Notes for one run per side, with an interval and without.
_SINGLE = f"one run a side: the interval is of these runs only. {_REPEATS}"
_UNCERTAIN = f"one run a side, without an interval: no percentage is shown. {_REPEATS}"


def render(
    found: Comparison, sides: Sequence[Side], unlike: Sequence[tuple[str, str, str]], width: int
) -> str:
    """Render a comparison.

    Args:
        found: The compared figures and verdicts.
        sides: The runs of both sides.
        unlike: Other differences: name, and the values of both sides.
        width: The terminal's, in cells.
    """
    heads = [
        row(name, Piece(clean(path)), *(each.text for each in head_of(facts)), style="")
        for name, side in zip("AB", sides, strict=True)
        for path, facts in side
    ]
    tasks = dict.fromkeys(each.task for each in found.rows)
    counts = [
        f"{name}, of {len(side)}" if len(side) > 1 else name
        for name, side in zip("AB", sides, strict=True)
    ]
    runs = [len(side) for side in sides]
    tables = ["".join(_table(task, counts, runs, found.rows)) for task in tasks]
    single = all(len(side) == 1 for side in sides)
    parts = [Layout(width, column=4).text(heads), *tables]
    parts += map(Layout(width).text, (_conclusions(found, single), _differences(unlike)))
    return "\n".join(part for part in parts if part)


def _table(
    task: str, counts: Sequence[str], runs: Sequence[int], rows: Sequence[Compared]
) -> Iterator[str]:
    yield _line(task or "run", counts, "B against A")
    for one in (each for each in rows if each.task == task):
        sides = one.before, one.after
        shown = [_shown(one, side) for side in sides]
        yield _line(f"  {one.figure.metric.name}", shown, _known(one, runs) or _change(one))
        ranges = [_range(one, *each) for each in zip(sides, one.spread, strict=True)]
        if any(ranges):
            yield _line("", ranges)


def _line(name: str, values: Sequence[str], change: str = "") -> str:
    first = clean(name) + " " * (_NAME - cells(clean(name)))
    right = (" " * (_VALUE - cells(text)) + text for text in values)
    return f"{first} {' '.join(right)}   {change}".rstrip() + "\n"


def _shown(one: Compared, values: Sequence[float]) -> str:
    value = middle(values)
    if one.figure.metric.kind == RATE:
        return f"{rates(value)[0]} {clean(one.units)[:7]}/s"
    return one.figure.metric.text(value)


def _range(one: Compared, values: Sequence[float], spread: Sequence[float] | None) -> str:
    """The range of the runs, or the quartiles of a single run's steps."""
    ends = spread or ((min(values), max(values)) if len(values) > 1 else None)
    if ends is None or one.figure.metric.kind not in (RATE, SECONDS):
        return ""
    texts = (
        rates(*ends) if one.figure.metric.kind == RATE else [duration(end) or "" for end in ends]
    )
    return TO.join(texts)


def _change(one: Compared) -> str:
    if one.figure.metric.kind == SCALAR:
        return "the same" if one.before == one.after else ""
    if one.ratio is None or one.interval is None:  # Without an interval the ratio may be chance.
        return ""
    return f"{_signed(one.ratio)} % ({_interval(one.interval)})"


def _known(one: Compared, runs: Sequence[int]) -> str:
    """The number of runs that have a figure, if some lack it."""
    are = "runs are steady" if one.figure.path == "rate.steady" else "runs have it"
    sides = zip("AB", (one.before, one.after), runs, strict=True)
    few = [f"{name}: {len(of)} of {many}" for name, of, many in sides if len(of) < many]
    return f"{', '.join(few)} {are}" if few else ""


def _interval(interval: tuple[float, float]) -> str:
    return " to ".join(map(_signed, interval))


def _signed(ratio: float) -> str:
    change = round(100 * (ratio - 1), 1) + 0.0  # Avoids -0.
    return f"{change:+.0f}" if abs(change) >= 10 else f"{change:+.1f}"


def _conclusions(found: Comparison, single: bool) -> Iterator[Row]:
    for index, verdict in enumerate(found.verdicts):
        said = f"{clean(verdict.task)}: {_concluded(verdict)}"
        yield row("" if index else "verdict", said, verdict.why)
    known = any(one.interval for one in found.rows)
    if not found.verdicts:
        yield row("verdict", "nothing to compare: they have no task in common")
    elif single:
        yield row("", _SINGLE if known else _UNCERTAIN)
    if found.verdicts and known:
        least = f"less than {100 * found.threshold:g} % counts as no difference"
        yield row("", f"intervals are 95 %; {least}")
    for index, note in enumerate(found.notes):
        yield row("" if index else "but", clean(note))


def _concluded(verdict: TaskVerdict) -> str:
    if verdict.verdict == NO_DIFFERENCE or verdict.ratio is None or verdict.interval is None:
        return verdict.verdict
    here = " in these runs" if verdict.over == "steps" else ""
    change = f"{_signed(verdict.ratio)} % ({_interval(verdict.interval)})"
    return f"B is {verdict.verdict}{here}, {change}"


def _differences(unlike: Sequence[tuple[str, str, str]]) -> Iterator[Row]:
    for index, (name, before, after) in enumerate(unlike[:_MOST]):
        said = f"{clean(name)}: {cut(before, 40)} → {cut(after, 40)}"
        yield row("" if index else "differs", said)
    if len(unlike) > _MOST:
        yield row("", f"and {len(unlike) - _MOST} more: --json has all of them")
    if not unlike:
        yield row("differs", "nothing that is recorded: command, git, packages, machine")
