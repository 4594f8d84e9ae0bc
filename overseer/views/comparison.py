"""A comparison as text: tables with a column for each side, verdicts, and how the runs differed."""

from __future__ import annotations

from typing import NamedTuple

from ..errors import clean
from ..model.catalogue import RATE, SECONDS
from ..model.comparison import FASTER, SLOWER, known, middle
from ..model.facts import change, changes, duration, figure, rates
from .summary import head_of
from .text import TO, Layout, Piece, Row, cells, cut, row, table

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from ..model.comparison import Against, ComparedFigure, Comparison, TaskVerdict
    from ..model.facts import Facts
    from ..model.loss_curves import LossChange
    from ..model.step_parts import StepChange
    from ..model.trimmed import Trimmed

    #: For each task, the trimmed observations of each side.
    Pooled = Mapping[str, Sequence[Trimmed | None]]
    #: Group, name, and the value of each side.
    Difference = tuple[str, str, list[str]]

#: Width of a figure's name, and of a side's column: with the changes at the right of two sides, and
#: below the values of more.
_NAME, _VALUE = 15, 17
_NARROW_NAME, _WIDE = 13, 21
#: Differences between the runs that are shown under one head.
_MOST = 12
#: Units of times of a step.
_SCALES = ((1e6, "µs"), (1e3, "ms"), (1.0, "s"))
_SINGLE = (
    "one run a side: no verdict. voir bench repeats them in pairs; or name repeated runs: "
    "voir compare A1,A2,A3 B1,B2,B3"
)


class ShownSide(NamedTuple):
    """A side as people named it.

    Attributes:
        named: What the command line, or the bench, calls it.
        runs: ``run.json`` of its runs.
    """

    named: str
    runs: Sequence[Facts]


def render(
    found: Comparison,
    sides: Sequence[ShownSide],
    unlike: Sequence[Difference],
    width: int,
    pooled: Pooled | None = None,
) -> str:
    """Render a comparison.

    Args:
        found: The compared figures and verdicts.
        sides: The sides, in the order of the comparison.
        unlike: Other differences.
        width: The terminal's, in cells.
        pooled: For each task, the trimmed observations of each side.
    """
    heads = [_head(name, side) for name, side in zip(found.sides, sides, strict=True)]
    tables = ["".join(_table(found, sides, task, width)) for task in tasks_of(found)]
    parts = [Layout(width, column=4).text(heads), *tables]
    parts += [_trimmed(found, task, sides) for task, sides in (pooled or {}).items()]
    parts += map(Layout(width).text, (_conclusions(found), _differences(found.plain, unlike)))
    return "\n".join(part for part in parts if part)


def tasks_of(found: Comparison) -> list[str]:
    """The tasks that have figures, in order; the empty one is the whole run."""
    return [*dict.fromkeys(each.task for each in found.rows)]


def _head(name: str, side: ShownSide) -> Row:
    if len(side.runs) == 1:
        return row(
            name, Piece(clean(side.named)), *(p.text for p in head_of(side.runs[0])), style=""
        )
    scripts = dict.fromkeys(clean(run.get("script") or "the script") for run in side.runs)
    return row(name, clean(side.named), f"{len(side.runs)} runs", *scripts, style="")


# The tables


class TableRow(NamedTuple):
    """A figure as text.

    Attributes:
        name: Its name.
        values: That of each side.
        ranges: The range of each side's runs; empty if not known.
        changes: How each side compares with the reference; empty if not known.
    """

    name: str
    values: list[str]
    ranges: list[str]
    changes: list[str]


def table_rows(found: Comparison, sides: Sequence[ShownSide], task: str) -> list[TableRow]:
    """The rows of one task's table."""
    return [
        TableRow(
            one.figure.metric.name,
            [_shown(one, known(values)) for values in one.values],
            [_range(one, at) for at in range(len(sides))],
            [
                ""
                if at == found.reference
                else _known(one, at, found, sides) or _change(one, at, found)
                for at in range(len(sides))
            ],
        )
        for one in found.rows
        if one.task == task
    ]


def column_names(found: Comparison, sides: Sequence[ShownSide]) -> list[str]:
    """The head of each side's column: its name, and the number of its runs if there are several."""
    return [
        f"{name}, of {len(side.runs)}" if len(side.runs) > 1 else name
        for name, side in zip(found.sides, sides, strict=True)
    ]


def _table(found: Comparison, sides: Sequence[ShownSide], task: str, width: int) -> Iterator[str]:
    rows, names = table_rows(found, sides, task), column_names(found, sides)
    title, first = task or "run", found.reference
    others = [at for at in range(len(sides)) if at not in (first, *found.controls)]
    if len(others) == 1:
        (other,) = others
        columns = sorted((first, other))
        right = f"{found.sides[other]} against {found.sides[first]}"
        yield _line(title, [names[at] for at in columns], _VALUE, right)
        for one in rows:
            values = [one.values[at] for at in columns]
            yield _line(f"  {one.name}", values, _VALUE, one.changes[other])
            if any(one.ranges):
                yield _line("", [one.ranges[at] for at in columns], _VALUE)
        return
    fit = max((width - _NARROW_NAME) // (_WIDE + 1) - 1, 1)
    for start in range(0, len(others), fit):
        columns = [first, *others[start : start + fit]]
        yield "\n" if start else ""
        yield _line(title, [names[at] for at in columns], _WIDE, name_width=_NARROW_NAME)
        for one in rows:
            for label, texts in ((f"  {one.name}", one.values), ("", one.changes)):
                shown = [texts[at] for at in columns]
                if any(shown):
                    yield _line(label, shown, _WIDE, name_width=_NARROW_NAME)


def _trimmed(found: Comparison, task: str, sides: Sequence[Trimmed | None]) -> str:
    """A table of pooled observations; a row for each side."""
    shown = zip(found.sides, sides, strict=True)
    cells_of = [[name, *trimmed_texts(one)] for name, one in shown if one is not None]
    title = f"{clean(task)}, trimmed"
    return table([[title, *TRIMMED_COLUMNS], *cells_of], [False, *[True] * len(TRIMMED_COLUMNS)])


#: Columns of pooled observations.
TRIMMED_COLUMNS = ("mean", "std", "SEM", "n")


def trimmed_texts(one: Trimmed) -> list[str]:
    """A trimmed sample by ``TRIMMED_COLUMNS``."""
    return [*(figure(each) or "" for each in (one.mean, one.std, one.sem)), f"{one.n:,}"]


def _line(
    name: str, values: Iterable[str], width: int, change: str = "", name_width: int = _NAME
) -> str:
    first = clean(name) + " " * (name_width - cells(clean(name)))
    right = (" " * (width - cells(text)) + text for text in values)
    return f"{first} {' '.join(right)}   {change}".rstrip() + "\n"


def _shown(one: ComparedFigure, values: Sequence[float]) -> str:
    value = middle(values)
    if one.figure.metric.kind == RATE:
        return f"{rates(value)[0]} {clean(one.units)[:7]}/s"
    return one.figure.metric.text(value)


def _range(one: ComparedFigure, at: int) -> str:
    """The range of a side's runs, or the quartiles of a single run's steps."""
    values = known(one.values[at])
    ends = one.spreads[at] or ((min(values), max(values)) if len(values) > 1 else None)
    if ends is None or one.figure.metric.kind not in (RATE, SECONDS):
        return ""
    texts = (
        rates(*ends) if one.figure.metric.kind == RATE else [duration(end) or "" for end in ends]
    )
    return TO.join(texts) if len({*texts}) > 1 else ""


def _compared(one: ComparedFigure, at: int, found: Comparison, sides: Sequence[ShownSide]) -> str:
    if at == found.reference:
        return ""
    return _known(one, at, found, sides) or _change(one, at, found)


def _change(one: ComparedFigure, at: int, found: Comparison) -> str:
    if len({*one.values[at], *one.values[found.reference]}) == 1:
        return "the same"
    return changed(one.against[at])


def changed(against: Against | TaskVerdict | None) -> str:
    """A change with its interval; empty without one, as it may be chance."""
    if against is None or against.ratio is None or against.interval is None:
        return ""
    return f"{change(against.ratio)} ({changes(against.interval)})"


def _known(one: ComparedFigure, at: int, found: Comparison, sides: Sequence[ShownSide]) -> str:
    """The number of runs that have a figure, if some of this side or the reference lack it."""
    few = [
        f"{found.sides[place]}: {len(known(one.values[place]))} of {len(sides[place].runs)}"
        for place in (found.reference, at)
        if None in one.values[place]
    ]
    are = "are steady" if one.figure.path == "rate.steady" else "have it"
    return f"{', '.join(few)} runs {are}" if few else ""


# Verdicts and differences


def _conclusions(found: Comparison) -> Iterator[Row]:
    if not found.verdicts:
        yield row("verdict", no_verdict(found))
    for index, verdict in enumerate(found.verdicts):
        yield row("" if index else "verdict", *concluded(verdict, found))
    if any(verdict.interval for verdict in found.verdicts):
        yield row("", f"intervals are 95 %; threshold {100 * found.threshold:g} %")
    for index, step in enumerate(found.steps):
        said = step_text(step)
        yield row("" if index else "step", f"{clean(step.task)}: {step.side} {said}")
    for index, loss in enumerate(found.losses):
        yield row("" if index else "losses", f"{clean(loss.task)}: {loss.side} {loss_text(loss)}")
    for index, note in enumerate(found.notes):
        yield row("" if index else "but", clean(note))


def no_verdict(found: Comparison) -> str:
    """Why a comparison has no verdict."""
    if any(one.task for one in found.rows):
        return _SINGLE
    return "nothing to compare: they have no task in common"


def concluded(verdict: TaskVerdict, found: Comparison) -> tuple[str, str]:
    """A verdict in words, and why."""
    task, reference = clean(verdict.task), found.sides[found.reference]
    shown = changed(verdict)
    if verdict.side not in found.plain:
        differs = "differs from" if verdict.verdict in (FASTER, SLOWER) else "against"
        return f"{task}: {reference} {differs} itself, {shown or 'too few processes to tell'}", ""
    several = len(found.plain) > 2
    if verdict.verdict in (FASTER, SLOWER):
        than = f" than {reference}" if several else ""
        return f"{task}: {verdict.side} is {verdict.verdict}{than}, {shown}", verdict.why
    which = f"{task}: {verdict.side}" if several else task
    said = f"{which}: {verdict.verdict}"
    return f"{said}, {shown}" if shown else said, verdict.why


def step_text(step: StepChange) -> str:
    """The parts that explain a change of the step: ``loading +4.1 of +4.3 ms``."""
    most = max(abs(seconds) for seconds in (step.step, *(seconds for _, seconds in step.parts)))
    scale, unit = next((each for each in _SCALES if most * each[0] < 1000), _SCALES[-1])
    texts = [f"{seconds * scale:+.3g}" for seconds in (*(s for _, s in step.parts), step.step)]
    parts = ", ".join(f"{name} {text}" for (name, _), text in zip(step.parts, texts, strict=False))
    return f"{parts} of {texts[-1]} {unit}"


def loss_text(loss: LossChange) -> str:
    """How losses compare: ``parted from step 41 of 135``."""
    if loss.from_step is None:
        return loss.verdict
    return f"{loss.verdict} from step {loss.from_step:,} of {loss.last_step:,}"


def _differences(names: Sequence[str], unlike: Sequence[Difference]) -> Iterator[Row]:
    for group in dict.fromkeys(group for group, *_ in unlike):
        those = [(name, values) for of, name, values in unlike if of == group]
        for index, (name, values) in enumerate(those[:_MOST]):
            yield row("" if index else group, *_values(names, name, values))
        if len(those) > _MOST:
            yield row("", f"and {len(those) - _MOST} more: --json has all of them")
    if not unlike:
        yield row("differs", "nothing that is recorded: command, git, packages, machine")


def _values(sides: Sequence[str], name: str, values: Sequence[str]) -> list[str]:
    short = [cut(value, 40) for value in values]
    if len(short) == 2:
        return [f"{clean(name)}: {' → '.join(short)}"]
    first, *rest = (f"{side} {value}" for side, value in zip(sides, short, strict=True))
    return [f"{clean(name)}: {first}", *rest]
