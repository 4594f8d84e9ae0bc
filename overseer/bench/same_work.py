"""Whether two sides of a bench do the same work: a script that does less is not faster.

What is the same in all processes of the reference must be the same in all of the other side. What
differs between processes of the reference may differ as much between the sides.
"""

from __future__ import annotations

from collections import Counter
from itertools import product
from typing import NamedTuple

from ..model.facts import at, entries, figure, main_task, number, part
from ..model.loss_curves import PARTED, ROUNDING, THE_SAME, beyond_band, loss_change
from ..model.pauses import CHECKPOINT_PAUSE, DECLARED_PAUSE, EVALUATION_PAUSE
from ..rundir.losses import losses_by_step

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from ..errors import VoirError
    from ..model.facts import Facts
    from ..model.loss_curves import Curve
    from ..rundir.reading import Run

#: Pauses that are work.
_WORK_PAUSES = (EVALUATION_PAUSE, CHECKPOINT_PAUSE, DECLARED_PAUSE)
#: Name of the difference if nothing shows what the script does.
EVIDENCE = "evidence"
#: Results that differ by less, relative to their size, may differ by rounding errors that grew.
GREW = 0.01


class Work(NamedTuple):
    """What one process did.

    Attributes:
        counts: How much of each kind: ``train items``, ``train evaluation pauses``, ``f1 logged``.
        results: Last values that the script logged, less often than each step, by their name.
        losses: The loss of each step, by task.
        voirfiles: Hashes of the voirfiles, by which it was measured.
    """

    counts: Mapping[str, float]
    results: Mapping[str, float]
    losses: Mapping[str, Curve]
    voirfiles: tuple[str, ...] = ()


class OtherWork(NamedTuple):
    """Work of the second side that is not that of the reference.

    Attributes:
        what: ``train items``, ``train losses``.
        before: The reference's; None if it has none.
        after: The other side's; None if it has none.
        why: One sentence.
        sure: Whether it shows other work; otherwise it may be rounding.
    """

    what: str
    before: float | None
    after: float | None
    why: str
    sure: bool = True


def work_of(run: Run, facts: Facts, report: Callable[[VoirError], object] = bool) -> Work:
    """What a process did, by its record.

    Args:
        run: Its run.
        facts: Its ``run.json``; of a job, those of all ranks.
        report: Receives the error if a file is damaged.
    """
    losses = losses_by_step(run, report)
    steps = number(main_task(facts), "steps") or 0.0
    logged = Counter(key for event in run.metrics for key in event)
    size = number((run.ranks[0] if run.ranks else run).facts, "parameters")
    counts: dict[str, float] = {} if size is None else {"parameters": size}
    for task in part(facts, "tasks"):
        found = part(facts, "tasks", task)
        known = {name: number(found, name) for name in ("steps", "items")}
        counts |= {f"{task} {name}": n for name, n in known.items() if n is not None}
        for kind in _WORK_PAUSES:
            made = number(part(found, "pause", "kinds", kind), "count")
            counts |= {f"{task} {kind} pauses": made} if made else {}
    counts |= {f"{task} losses": len(curve) for task, curve in losses.items() if curve}
    values = {name: number(each, "last") for name, each in part(facts, "values").items()}
    rare = {name: value for name, value in values.items()
        if value is not None and logged[name] and (not steps or logged[name] < steps)}  # fmt: skip
    counts |= {f"{name} logged": logged[name] for name in rare}
    hashes = (str(each.get("sha256")) for each in entries(at(facts, "provenance"), "voirfiles"))
    return Work(counts, rare, {k: v for k, v in losses.items() if v}, tuple(hashes))


def differences(
    before: Sequence[Work], after: Sequence[Work], learning: bool = False, exact: bool = False
) -> list[OtherWork]:
    """How the work of a side differs from the reference's.

    Args:
        before: Processes of the reference, its control included.
        after: Processes of the side.
        learning: Losses and results are what is compared: they may differ.
        exact: Compare only what is the same in all processes of the reference: the noise of the
            rest is not known from a few.
    """
    if not before or not after:
        return []
    found = [*_of_counts(before, after, exact)]
    if {each.voirfiles for each in before} != {each.voirfiles for each in after}:
        why = "the voirfile was changed: the sides are measured differently; commit it first"
        found.append(OtherWork("voirfile", None, None, why))
    if not learning:
        found += [*_of_results(before, after), *_of_losses(before, after, exact)]
    if not found and not any(each.losses or each.results or _items(each) for each in before):
        why = "no items, losses or values are recorded that would show the same work"
        found.append(OtherWork(EVIDENCE, None, None, why, sure=False))
    return found


def _items(work: Work) -> bool:
    return any(name.endswith(" items") for name in work.counts)


def _of_counts(before: Sequence[Work], after: Sequence[Work], exact: bool) -> Iterator[OtherWork]:
    for name in _shared([each.counts for each in before]):
        values = [each.counts[name] for each in before]
        others = [each.counts.get(name) for each in after]
        known = [each for each in others if each is not None]
        if len(known) < len(others):
            yield OtherWork(name, values[-1], None, f"{name}: none, A has {figure(values[-1])}")
        elif not _alike(values, known) and not (exact and len(set(values)) > 1):
            odd = next((each for each in known if each not in values), known[-1])
            why = f"{name}: {_number(odd)}, A has {_number(values[-1])}"
            yield OtherWork(name, values[-1], odd, why)


def _of_results(before: Sequence[Work], after: Sequence[Work]) -> Iterator[OtherWork]:
    """Differences of logged values that all processes of the reference have alike."""
    for name in _shared([each.results for each in before]):
        values = [each.results[name] for each in before]
        others = [each.results[name] for each in after if name in each.results]
        if not _same(values) or not others or _same([*values, *others]):
            continue  # Missing ones have no count either.
        odd = max(others, key=lambda each: abs(each - values[0]))
        why, sure = f"{name} is {figure(odd)}, A has {figure(values[0])}", True
        if _relative(values[0], odd) < GREW:
            why, sure = f"{why}: rounding errors or another result", False
        yield OtherWork(name, values[0], odd, why, sure)


def _of_losses(before: Sequence[Work], after: Sequence[Work], exact: bool) -> Iterator[OtherWork]:
    for task in _shared([each.losses for each in before]):
        curves = [each.losses[task] for each in before]
        others = [each.losses[task] for each in after if task in each.losses]
        found = loss_change(curves, others)
        if found is None:
            if others:
                yield OtherWork(f"{task} losses", None, None, f"{task}: no step in common")
            continue  # Missing ones have no count either.
        alone = loss_change(curves[:1], curves) if len(curves) > 1 else None
        if alone is not None and alone[0] != THE_SAME:  # Seeds differ, or rounding.
            if found[0] == PARTED and not exact:
                yield _parted(task, curves, others, found[1], "beyond the band of A's processes")
            continue
        every = [loss_change(curves[:1], [each]) for each in others]
        steps = [each[1] for each in every if each is not None and each[1] is not None]
        if steps:
            yield _of_one_seed(task, curves[0], others, min(steps))


def _of_one_seed(task: str, curve: Curve, others: Sequence[Curve], step: int) -> OtherWork:
    """A difference from losses that are the same in all processes of the reference."""
    pairs = product([curve], others)
    worst = max(_relative(a[at], b[at]) for a, b in pairs for at in a.keys() & b.keys())
    if worst >= GREW:
        return _parted(task, [curve], others, step, "and A's are all the same")
    why = (
        f"{task} losses differ from step {step} by up to {worst:.1g} of their size: rounding "
        "errors or another result, which processes of one seed cannot tell"
    )
    return OtherWork(f"{task} losses", curve[step], others[-1].get(step), why, sure=False)


def _parted(
    task: str, before: Sequence[Curve], after: Sequence[Curve], step: int | None, how: str
) -> OtherWork:
    at = step if step is not None else max(before[-1])
    a, b = before[-1].get(at), after[-1].get(at)
    why = f"{task} losses differ from step {at} ({figure(b)}, A has {figure(a)}), {how}"
    return OtherWork(f"{task} losses", a, b, why)


def _shared(every: Sequence[Mapping[str, object]]) -> list[str]:
    """Keys that all have, in the first one's order."""
    return [key for key in every[0] if all(key in each for each in every)]


def _alike(values: Sequence[float], others: Sequence[float]) -> bool:
    if len(set(values)) == 1:
        return set(others) == set(values)
    return not beyond_band(values, others)


def _same(values: Sequence[float]) -> bool:
    return all(_relative(values[0], each) <= ROUNDING for each in values)


def _relative(a: float, b: float) -> float:
    size = max(abs(a), abs(b))
    return abs(a - b) / size if size else 0.0


def _number(value: float) -> str:
    return f"{value:,.0f}" if value == int(value) else f"{value:,.1f}"
