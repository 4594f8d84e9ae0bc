"""Finds the first thing that a rank of a job did differently from the others.

Ranks that wait for each other do the same in each step, and call the same collectives in the same
order. What they did last is in ``control`` of their records; a rank that has done less so far
is late, and no different.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from ..model.doings import Did
from ..model.facts import entries, number, part
from ..model.hangs import REDUCER

Facts = Mapping[str, Any]
#: What ranks of healthy jobs do differently: the first one evaluates, and saves. It is told only of
#: the last step.
_OFTEN_UNLIKE = (Did.EVALUATES, Did.SAVES)
#: An evaluation with its loader, and what may be the beginning of one.
_EVALUATION = re.compile(f"{Did.BEGINS}?(?:{Did.LOADS}{Did.EVALUATES}+)+{Did.EMPTIES}?")
_BEGINNING = re.compile(f"{Did.BEGINS}?{Did.LOADS}?$")
#: Collectives of which all ranks pass as many bytes, by their plain names.
_ALIKE = frozenset({"allreduce", "broadcast", "allgather"})
_NAMES = {
    Did.LOADS: ("batch", "batches"), Did.CALLS: ("forward pass", "forward passes"),
    Did.DIFFERENTIATES: ("backward pass", "backward passes"),
    Did.EVALUATES: ("forward pass of an evaluation", "forward passes of an evaluation"),
    Did.SAVES: ("checkpoint", "checkpoints"), Did.BEGINS: ("new epoch", "new epochs"),
    Did.EMPTIES: ("end of a loader", "ends of loaders"),
}  # fmt: skip


class Divergence(NamedTuple):
    """The first difference.

    Attributes:
        ranks: Those that differ from most others.
        what: What they did, as the end of a sentence that begins with them.
        others: What the others did.
        where: ``file:line`` of one of them; empty if it is not known.
    """

    ranks: list[int]
    what: str
    others: str
    where: str = ""

    def as_facts(self) -> dict[str, Any]:
        """As ``job.divergence`` stores it."""
        return {key: value for key, value in self._asdict().items() if value}


class RankDid(NamedTuple):
    """What a rank did.

    Attributes:
        rank: The rank.
        steps: By number, the letters of each training step that is complete.
        rest: The letters after the last one.
        collectives: By group and number, the name and the bytes.
        open: The group and number of the one in which it is; None for none.
        facts: Its record.
    """

    rank: int
    steps: dict[int, str]
    rest: str
    collectives: dict[tuple[str, int], tuple[str, int]]
    open: tuple[str, int] | None
    facts: Facts

    @property
    def last(self) -> int:
        """The number of its last step."""
        return max(self.steps, default=0)


def divergence(ranks: Mapping[int, Facts], hangs: bool) -> Divergence | None:
    """The first difference between ranks of a job that hangs or failed; None if none is seen.

    Args:
        ranks: ``run.json`` of each.
        hangs: Ranks wait. Otherwise what only some ranks do at an end, and collectives that some
            have not called yet, are no differences.
    """
    known = list[RankDid]()
    for rank, facts in sorted(ranks.items()):
        with suppress(ValueError, TypeError, KeyError):  # A damaged record.
            if one := _read(rank, facts):
                known.append(one)
    if len(known) < 2:
        return None
    found = _values(known) or _of_steps(known, hangs) or _of_collectives(known)
    return found or (_uncalled(known) if hangs else None)


def _read(rank: int, facts: Facts) -> RankDid | None:
    control, idle = part(facts, "control"), part(facts, "idle")
    if not control:
        return None
    whole = str(control.get("did") or "")
    if set(whole) - {*_NAMES, Did.STEPS}:
        raise ValueError(whole)
    whole = _EVALUATION.sub(lambda found: Did.EVALUATES * found[0].count(Did.EVALUATES), whole)
    *complete, rest = whole.split(Did.STEPS)
    end = number(control, "step")
    last = int(end if end is not None else len(complete))
    numbered = dict(zip(range(last - len(complete) + 1, last + 1), complete, strict=True))
    if complete and last > len(complete):
        del numbered[last - len(complete) + 1]  # Its beginning was not kept.
    found = {
        (str(group), int(n)): (str(name), int(size))
        for group, n, name, size in _listed(control.get("collectives"))
    }
    now, at = part(idle, "collective"), None
    n = number(now, "number")
    if n is not None and "group" in now:
        at = (str(now["group"]), int(n))
        size = number(now, "bytes")
        before = found.get(at, ("", 0))[1]
        found[at] = str(now.get("name")), int(size) if size is not None else before
    return RankDid(rank, numbered, _BEGINNING.sub("", rest), found, at, facts)


def _listed(value: object) -> list[Any]:
    rows = value if isinstance(value, list) else []
    return [each for each in rows if isinstance(each, list) and len(each) == 4]


# Values that a voirfile marks


def _values(ranks: Sequence[RankDid]) -> Divergence | None:
    """Values that are to be the same on all ranks: the first that is not."""
    by: dict[tuple[str, int], dict[int, tuple[str, str]]] = {}
    for one in ranks:
        for value in entries(part(one.facts, "control"), "same"):
            key = str(value.get("name")), int(number(value, "n") or 0)
            shown = str(value.get("value")), str(value.get("where") or "")
            by.setdefault(key, {})[one.rank] = shown
    for (name, n), values in sorted(by.items(), key=lambda each: each[0][1]):
        if len(values) == len(ranks) and len({value for value, _ in values.values()}) > 1:
            few, most = _split({rank: value for rank, (value, _) in values.items()})
            first = values[few[0]]
            return Divergence(few, f"have {name} = {first[0]} (value {n})",
                f"have {values[most[0]][0]}", first[1])  # fmt: skip
    return None


# Steps


def _of_steps(ranks: Sequence[RankDid], hangs: bool) -> Divergence | None:
    common = set.intersection(*({*one.steps} for one in ranks))
    following = min(one.last for one in ranks) + 1
    for step in sorted(common):
        did = {one.rank: one.steps[step] for one in ranks}
        if found := _unlike(did, step, ranks, hangs, step + 1 >= following):
            return found
    return _unlike_rest(ranks, following, hangs)


def _unlike(
    did: dict[int, str], step: int, ranks: Sequence[RankDid], hangs: bool, last: bool
) -> Divergence | None:
    """A difference in a step that all ranks have made."""
    counts = {rank: Counter(letters) for rank, letters in did.items()}
    for letter in (Did.EMPTIES, Did.CALLS, Did.DIFFERENTIATES, Did.LOADS, *_OFTEN_UNLIKE):
        if letter in _OFTEN_UNLIKE and not last:
            continue
        by = {rank: str(count[letter]) for rank, count in counts.items()}
        if len({*by.values()}) > 1:
            few, most = _split(by)
            one = next(each for each in ranks if each.rank == few[0])
            more = counts[few[0]][letter] > counts[most[0]][letter]
            if letter in _OFTEN_UNLIKE and not hangs and (more or len(few) == len(most)):
                continue  # One rank evaluates for all.
            if letter == Did.EMPTIES:
                return _emptied(ranks, few if did[few[0]].count(letter) else most, step)
            shown = [_amount(int(by[group[0]]), letter) for group in (few, most)]
            what = f"make {shown[0]} in step {step:,}"
            return Divergence(few, what, f"make {shown[1]}", _line(one.facts))
    return None


def _unlike_rest(ranks: Sequence[RankDid], step: int, hangs: bool) -> Divergence | None:
    """A difference after the last step that all ranks have made."""
    rest = {one.rank: one.steps.get(step, "") + (Did.STEPS if step in one.steps else "")
        for one in ranks}  # fmt: skip
    rest = {one.rank: rest[one.rank] or one.rest for one in ranks}
    empties = [rank for rank, did in rest.items() if Did.EMPTIES in did]
    goes_on = [rank for rank, did in rest.items() if rank not in empties and Did.LOADS in did]
    if empties and goes_on:
        return _emptied(ranks, empties, step)
    longest = max(map(len, rest.values()))
    for at in range(longest):
        by = {rank: did[at] for rank, did in rest.items() if len(did) > at}
        if len({*by.values()}) > 1:
            few, most = _split(by)
            even = by[most[0]] in _OFTEN_UNLIKE and len(few) == len(most)
            if not hangs and (by[few[0]] in _OFTEN_UNLIKE or even):
                return None
            one = next(each for each in ranks if each.rank == few[0])
            what = f"make {_amount(1, by[few[0]])} after step {step - 1:,}"
            return Divergence(few, what, f"make {_amount(1, by[most[0]])}", _line(one.facts))
    return None


def _emptied(ranks: Sequence[RankDid], few: list[int], step: int) -> Divergence:
    """A loader that ends earlier on some ranks than on others."""
    one = next(each for each in ranks if each.rank == few[0])
    other = next((each for each in ranks if each.rank not in few), one)
    whole = Did.STEPS.join(one.steps.values()) + Did.STEPS + one.rest
    epoch = whole[: whole.rfind(Did.EMPTIES)].rpartition(Did.BEGINS)
    batches = epoch[2].count(Did.LOADS)
    after = _amount(batches, Did.LOADS) if epoch[1] else f"step {step - 1:,}"
    if 2 * len(few) > len(ranks):
        more = [each.rank for each in ranks if each.rank not in few]
        what = f"have a loader that goes on after {after}"
        return Divergence(more, what, "have one that ended", _line(other.facts))
    return Divergence(few, f"have a loader that ended after {after}", "go on", _line(other.facts))


# Collectives


def _of_collectives(ranks: Sequence[RankDid]) -> Divergence | None:
    """The first collective that is another one on some ranks; or one that some do not call."""
    groups = {group for one in ranks for group, _ in one.collectives}
    for group in sorted(groups):
        numbers = sorted({n for one in ranks for g, n in one.collectives if g == group})
        for n in numbers:
            called = {one.rank: one.collectives[group, n] for one in ranks
                if (group, n) in one.collectives}  # fmt: skip
            if found := _other_collective(group, n, called, ranks):
                return found
    return None


def _other_collective(
    group: str, n: int, called: Mapping[int, tuple[str, int]], ranks: Sequence[RankDid]
) -> Divergence | None:
    names = {rank: _plain(name) for rank, (name, _) in called.items()}
    sizes = {rank: str(size) for rank, (_, size) in called.items()}
    plain = {*names.values()}
    if len(plain) > 1:
        by, shown = names, {rank: name for rank, (name, _) in called.items()}
    elif len({*sizes.values()}) > 1 and plain <= _ALIKE:
        by = sizes
        shown = {rank: f"{name} of {size:,} bytes" for rank, (name, size) in called.items()}
    else:
        return None
    few, most = _split(by)
    one = next(each for each in ranks if each.rank == few[0])
    where = str(part(one.facts, "idle", "collective").get("where") or _line(one.facts))
    what = f"call {shown[few[0]]} as number {n:,} of group {group}"
    return Divergence(few, what, f"call {shown[most[0]]}", where)


def _plain(name: str) -> str:
    """One name for the public function and the method of the process group."""
    name = name.removeprefix("_").replace("_", "").removesuffix("base").removesuffix("intotensor")
    return name.removeprefix("monitored").removesuffix("coalesced").removesuffix("tensor")


def _uncalled(ranks: Sequence[RankDid]) -> Divergence | None:
    """A collective in which some ranks wait, and which the others do not call."""
    waiting = [one for one in ranks if one.open is not None]
    for one in sorted(waiting, key=lambda each: each.open or ("", 0)):
        assert one.open is not None
        group, n = one.open
        those = [each for each in ranks if (group, n) in each.collectives]
        without = [each for each in ranks if each not in those]
        late = [each for each in without if each.open is not None and each.open[0] == group]
        failed = [each for each in without if each.facts.get("exit_status")]
        if not without or late or any(each.facts.get("error") for each in failed):
            continue
        name = one.collectives[one.open][0]
        called = f"{name} number {n:,} of group {group}"
        where = str(part(one.facts, "idle", "collective").get("where") or _line(one.facts))
        numbers = [each.rank for each in without]
        if more := _more_than(without[0], one):
            return Divergence(numbers, f"make {more}", f"wait in {called}", _line(without[0].facts))
        if all(_has_ended(each.facts) for each in without):
            does = "have ended without calling it"
        elif all(part(each.facts, "idle", "collective") for each in without):
            other = part(without[0].facts, "idle", "collective").get("name")
            does = f"wait in {'a collective of DDP' if other == REDUCER else other}"
        else:
            continue
        return Divergence([each.rank for each in those], f"wait in {called}", does, where)
    return None


def _more_than(one: RankDid, other: RankDid) -> str:
    """The evaluations that a rank has made after the last step, and another one has not."""
    made, less = (each.rest.count(Did.EVALUATES) for each in (one, other))
    return f"{_amount(made, Did.EVALUATES)} after step {one.last:,}" if made > less else ""


def _has_ended(facts: Facts) -> bool:
    return "ended" in facts and facts.get("exit_status") == 0


def _split(by: Mapping[int, str]) -> tuple[list[int], list[int]]:
    """The ranks with the rarest value, and those with the most frequent one."""
    counts = Counter(by.values())
    (most, _), *_ = counts.most_common()
    rare = min((value for value in counts if value != most), key=lambda value: counts[value])
    groups = ([rank for rank, value in by.items() if value == one] for one in (rare, most))
    few, many = groups
    return few, many


def _amount(n: int, letter: str) -> str:
    if letter == Did.STEPS:
        return "an optimizer step"
    one, several = _NAMES[letter]
    return f"1 {one}" if n == 1 else f"{n:,} {several}"


def _line(facts: Facts) -> str:
    """The line in which a rank is, or was when it ended."""
    for key in ("idle", "error_at"):
        found = part(facts, key)
        if found.get("file"):
            return f"{found['file']}:{found.get('line')}"
    return ""
