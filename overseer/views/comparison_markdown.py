"""A comparison as Markdown, for the text of a pull request."""

from __future__ import annotations

import re

from ..errors import clean
from .comparison import (
    TRIMMED_COLUMNS,
    column_names,
    concluded,
    loss_text,
    no_verdict,
    step_text,
    table_rows,
    tasks_of,
    trimmed_texts,
)
from .text import cut

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from ..model.comparison import Comparison
    from ..model.trimmed import Trimmed
    from .comparison import Difference, Pooled, ShownSide

#: What has a meaning in Markdown, or to GitHub: mentions, issues, HTML.
_SPECIAL = re.compile(r"[\\`*_{}\[\]<>|~@#&$!]")


def markdown(
    found: Comparison,
    sides: Sequence[ShownSide],
    unlike: Sequence[Difference],
    pooled: Pooled | None = None,
) -> str:
    """Render a comparison: the verdicts, a table, and what differed.

    Args:
        found: The compared figures and verdicts.
        sides: The sides, in the order of the comparison.
        unlike: Other differences.
        pooled: For each task, the trimmed observations of each side.
    """
    parts = [
        _list(_verdicts(found)),
        *(_table(found, sides, task) for task in tasks_of(found)),
        *(_trimmed(found, task, each) for task, each in (pooled or {}).items()),
        _list(_notes(found)),
        _list(_differences(found, unlike)),
    ]
    return "\n".join(part for part in parts if part)


def escaped(text: object) -> str:
    """Text on one line that Markdown shows as it is."""
    return _SPECIAL.sub(lambda match: f"&#{ord(match[0])};", clean(text))


def _verdicts(found: Comparison) -> Iterator[str]:
    if not found.verdicts:
        yield escaped(no_verdict(found))
    for verdict in found.verdicts:
        said, why = concluded(verdict, found)
        yield f"**{escaped(said)}**" + (f", {escaped(why)}" if why else "")


def _table(found: Comparison, sides: Sequence[ShownSide], task: str) -> str:
    kept = [at for at in range(len(sides)) if at not in found.controls]
    names = column_names(found, sides)
    heads = [f"{names[at]}<br>{escaped(cut(sides[at].named, 40))}" for at in kept]
    lines = [[escaped(task or "run"), *heads], ["---", *["---:"] * len(kept)]]
    for one in table_rows(found, sides, task):
        texts = ([one.values[at], one.changes[at]] for at in kept)
        lines.append([one.name, *("<br>".join(map(escaped, filter(None, each))) for each in texts)])
    return _rows(lines)


def _trimmed(found: Comparison, task: str, sides: Sequence[Trimmed | None]) -> str:
    lines = [[f"{escaped(task)}, trimmed", *TRIMMED_COLUMNS], ["---", *["---:"] * 4]]
    shown = zip(found.sides, sides, strict=True)
    lines += [[name, *trimmed_texts(one)] for name, one in shown if one is not None]
    return _rows(lines)


def _rows(lines: Iterable[Sequence[str]]) -> str:
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _notes(found: Comparison) -> Iterator[str]:
    for step in found.steps:
        yield f"step of {escaped(step.task)}: {step.side} {escaped(step_text(step))}"
    for loss in found.losses:
        yield f"losses of {escaped(loss.task)}: {loss.side} {escaped(loss_text(loss))}"
    yield from map(escaped, found.notes)


def _differences(found: Comparison, unlike: Sequence[Difference]) -> Iterator[str]:
    for group, name, values in unlike:
        shown = " → ".join(escaped(cut(value, 40)) for value in values)
        yield f"{group}: {escaped(name)}: {shown}"
    if not unlike:
        yield "no difference in code, options, packages or machine is recorded"


def _list(lines: Iterable[str]) -> str:
    return "".join(f"- {line}\n" for line in lines)
