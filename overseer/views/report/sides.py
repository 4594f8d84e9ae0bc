"""The sections of a report about several sides: the verdicts, their pairs, the figures."""

from __future__ import annotations

from ...model.comparison import pair_ratios
from ...model.facts import count
from ..comparison import (
    changed,
    column_names,
    concluded,
    loss_text,
    no_verdict,
    step_text,
    table_rows,
    tasks_of,
)
from ..summary import head_of
from . import svg
from .page import section, table, text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ...model.comparability import ComparedSide
    from ...model.comparison import Comparison
    from ..comparison import ShownSide

#: Tasks whose pairs are drawn.
_TASKS = 4


def verdicts(found: Comparison, shown: Sequence[ShownSide]) -> str:
    """What the sides are, the verdicts, and reasons not to trust them."""
    told = [concluded(each, found) for each in found.verdicts] or [(no_verdict(found), "")]
    lines = "<br>".join(f"<b>{text(said)}</b>{_after(why)}" for said, why in told)
    losses = [f"losses of {one.task}: {one.side} {loss_text(one)}" for one in found.losses]
    notes = "".join(f"<li>{text(note)}</li>" for note in (*losses, *found.notes))
    return (
        f'{_sides(found, shown)}<div class="verdict">{lines}</div>'
        f"{f'<ul>{notes}</ul>' if notes else ''}"
    )


def _after(why: str) -> str:
    return f" · {text(why)}" if why else ""


def _sides(found: Comparison, shown: Sequence[ShownSide]) -> str:
    rows = [[name, side.named, _which(side)] for name, side in zip(found.sides, shown, strict=True)]
    return table("Sides", ["side", "named", "runs"], rows)


def _which(side: ShownSide) -> str:
    if len(side.runs) > 1:
        return f"{len(side.runs)}"
    return " · ".join(piece.text for piece in head_of(side.runs[0]))


def pairs(found: Comparison, sides: Sequence[ComparedSide]) -> str:
    """For each task, a drawing and a table of how the sides compare with the reference."""
    made = []
    for task in dict.fromkeys(each.task for each in found.verdicts):
        those = [each for each in found.verdicts if each.task == task and each.interval]
        ratios = [pair_ratios(found, sides, each) for each in those]
        reference = found.sides[found.reference]
        lanes = [
            svg.DrawnSide(
                each.side, [(f"round {n}", ratio) for n, ratio in of], each.ratio,
                each.interval or (1.0, 1.0), each.side not in found.plain
            )
            for each, of in zip(those, ratios, strict=True)
        ]  # fmt: skip
        rows = [
            [
                f"{each.side}{' (control)' if each.side not in found.plain else ''}",
                changed(each),
                (count(len(of), "pair") or "") if of else "unpaired runs",
            ]
            for each, of in zip(those, ratios, strict=True)
        ]
        names = ["side", f"rate against {reference} (95 % interval)", "of"]
        title = f"{task}: rate against {reference}"
        made.append(
            f"<h3>{text(title)}</h3>{svg.intervals(lanes, found.threshold, reference)}"
            f"{table(title, names, rows)}"
            if lanes
            else ""
        )
    return section("Pairs and intervals", *made[:_TASKS])


def parts(found: Comparison) -> str:
    """The parts of a step that explain a difference."""
    made = [
        f"<h3>{text(f'{one.task}: {one.side} against {found.sides[found.reference]}')}</h3>"
        f"<p>{text(step_text(one))}</p>"
        f"{svg.differences([*one.parts, ('step', one.step)])}"
        for one in found.steps
    ]
    return section("What the steps lose or gain", *made)


def figures(found: Comparison, shown: Sequence[ShownSide]) -> str:
    """A table for each task, with a column for each side and for its change."""
    return section("Figures", *_tables(found, shown))


def _tables(found: Comparison, shown: Sequence[ShownSide]) -> Iterator[str]:
    kept = [at for at in range(len(shown)) if at not in found.controls]
    others = [at for at in kept if at != found.reference]
    names, reference = column_names(found, shown), found.sides[found.reference]
    for task in tasks_of(found):
        rows = table_rows(found, shown, task)
        changes = [at for at in others if any(one.changes[at] for one in rows)]
        head = [names[at] for at in kept]
        head += [f"{found.sides[at]} against {reference}" for at in changes]
        cells = [
            [
                one.name,
                *(" ".join(filter(None, (one.values[at], _within(one.ranges[at])))) for at in kept),
                *(one.changes[at] for at in changes),
            ]
            for one in rows
        ]
        yield table(task or "run", [task or "run", *head], cells, range(1, len(kept) + 1))


def _within(ends: str) -> str:
    return f"({ends})" if ends else ""
