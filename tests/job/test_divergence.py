"""What ranks did differently: simulated jobs of four ranks, and records of any kind."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from overseer.job.divergence import Divergence, divergence
from overseer.measure.doings import Doings
from overseer.model.doings import MOST_COLLECTIVES, MOST_LETTERS, steps_in
from overseer.recorder import sites as k
from overseer.recorder.log import EVENT
from overseer.views.job import divergence_text, doing_text

RANKS = 4
Facts = dict[str, Any]


class Done(NamedTuple):
    """One thing that a rank does: a letter, or a collective with a name and bytes."""

    letter: str = ""
    name: str = ""
    size: int = 0


class Program:
    """A program of epochs of steps, each with a collective, and an evaluation after each epoch.

    Args:
        seed: Of the numbers of everything.
        manual: The collectives are the program's own; otherwise they are DDP's, which have no
            numbers.
    """

    def __init__(self, seed: int, manual: bool) -> None:
        chance = random.Random(seed)
        self.epochs, self.batches = chance.randint(1, 3), chance.randint(5, 40)
        self.manual, self.together = manual, chance.random() < 0.5
        self.first_evaluates = chance.random() < 0.5

    def run(self, rank: int, odd: Callable[[int, int], str] = lambda e, s: "") -> list[Done]:
        """What a rank does; ``odd`` says what it does instead in a step of an epoch."""
        made = list[Done]()
        for epoch in range(self.epochs):
            made.append(Done("i"))
            step = 0
            while step < self.batches or odd(epoch, step) == "more":
                what = odd(epoch, step)
                if what == "fewer":
                    break
                made += [Done("l"), Done("f")]
                if what != "swallowed":
                    made.append(Done("b"))
                    if what == "another":
                        made.append(Done("", "broadcast", 12))
                    made.append(Done("", "all_reduce" if self.manual else "", 4096))
                    if what == "size":
                        made[-1] = made[-1]._replace(size=2048)
                    made.append(Done("o"))
                if what == "barrier":
                    made.append(Done("", "barrier"))
                step += 1
            made.append(Done("x"))
            if self.together and odd(epoch, -1) != "no evaluation":
                made += [*map(Done, "ilelex"), Done("", "all_reduce", 4)]
            elif not self.together and self.first_evaluates and rank == 0:
                made += map(Done, "ilelexs")
        return [*made, Done("", "barrier")]


def job(did: list[list[Done]], most: int) -> dict[int, Facts]:
    """The records once ranks have done ``most`` things, waiting for each other in collectives."""
    at, waits = [0] * RANKS, [-1] * RANKS
    chance = random.Random(most)
    for _ in range(most):
        free = [r for r in range(RANKS) if waits[r] < 0 and at[r] < len(did[r])]
        if not free:
            break
        rank = chance.choice(free)
        one = did[rank][at[rank]]
        if not one.letter:
            waits[rank] = at[rank]
            if min(waits) >= 0 and len({did[r][waits[r]].name for r in range(RANKS)}) == 1:
                for each in range(RANKS):
                    at[each], waits[each] = at[each] + 1, -1
        else:
            at[rank] += 1
    return {rank: record(did[rank], at[rank], waits[rank]) for rank in range(RANKS)}


def record(did: list[Done], at: int, waits: int) -> Facts:
    """``run.json`` of a rank that has done ``at`` things."""
    past = did[: at + (waits >= 0)]
    named = [one for one in past if one.name]
    letters = "".join(one.letter for one in past)
    control = {
        "step": letters.count("o"), "did": letters[-MOST_LETTERS:],
        "collectives": [["0", n, one.name, one.size] for n, one in enumerate(named, 1)][
            -MOST_COLLECTIVES:],
    }  # fmt: skip
    idle: Facts = {"file": "/job/main.py", "line": 40, "seconds": 12.0}
    if waits >= 0:
        name = did[waits].name
        known = {"number": len(named), "group": "0"} if name else {}
        idle["collective"] = {"name": name or "DDP", **known}
    facts: Facts = {"control": control, "idle": idle}
    if at >= len(did):
        facts |= {"ended": "2026-11-28T10:00:00Z", "exit_status": 0}
    return facts


KINDS = ("fewer", "more", "swallowed", "barrier", "another", "size", "no evaluation")


def odd(kind: str, program: Program, seed: int) -> Callable[[int, int], str]:
    """What the odd rank does, and when."""
    chance = random.Random(seed)
    when = (chance.randrange(program.epochs), chance.randrange(2, program.batches))

    def says(epoch: int, step: int) -> str:
        if kind == "no evaluation":
            return kind if step == -1 and epoch == when[0] else ""
        if kind == "more":
            last = program.batches
            return kind if epoch == when[0] and last <= step < last + 3 else ""
        return kind if (epoch, step) == when else ""

    return says


def diverging(seed: int) -> tuple[str, int, dict[int, Facts]]:
    """A job with one odd rank, once nothing goes on."""
    kind = KINDS[seed % len(KINDS)]
    program = Program(seed, manual=kind in ("another", "size", "barrier") or seed % 2 == 0)
    program.together |= kind == "no evaluation"
    rank = seed * 7 % RANKS
    did = [program.run(r, odd(kind, program, seed) if r == rank else (lambda e, s: ""))
        for r in range(RANKS)]  # fmt: skip
    return kind, rank, job(did, 1_000_000)


def test_twenty_divergences_are_named_with_their_rank() -> None:
    named, missed = list[Divergence](), list[Any]()
    for seed in range(20):
        kind, rank, records = diverging(seed)
        found = divergence(records, hangs=True)
        if found is not None and found.ranks == [rank]:
            named.append(found)
        else:
            missed.append((seed, kind, rank, found))
    assert len(missed) <= 2, missed
    texts = {divergence_text(one.as_facts(), "rank") for one in named}
    assert any("has a loader that ended after" in each for each in texts)
    assert any("calls broadcast as number" in each for each in texts)


def test_none_is_named_in_a_hundred_healthy_jobs_cut_off_at_any_moment() -> None:
    chance = random.Random(1)
    for seed in range(100):
        program = Program(seed, manual=seed % 2 == 0)
        did = [program.run(rank) for rank in range(RANKS)]
        records = job(did, chance.randrange(10, 4 * max(map(len, did))))
        assert divergence(records, hangs=False) is None, seed
        assert divergence(records, hangs=program.first_evaluates is False) is None, seed
        victim = chance.randrange(RANKS)
        records[victim] |= {"exit_status": 1, "error": "ValueError", "ended": "2026"}
        assert divergence(records, hangs=False) is None, seed


def put(did: str, **more: Any) -> Facts:
    return {"control": {"step": did.count("o"), "did": did, "collectives": []}, **more}


def said(records: dict[int, Facts], hangs: bool = True) -> str:
    """The first difference in words."""
    found = divergence(records, hangs)
    assert found is not None
    return divergence_text(found.as_facts(), "rank")


def test_a_rank_that_evaluates_alone_within_ddp_is_named() -> None:
    waits = {"collective": {"name": "barrier", "group": "0", "number": 4}, "file": "m.py"}
    evaluates = {"collective": {"name": "DDP"}, "file": "m.py", "line": 9}
    records = {
        0: put("ilfboxeee", idle=evaluates),
        **{rank: put("ilfbox", idle=waits) for rank in (1, 2, 3)},
    }
    assert said(records) == (
        "rank 0 makes 3 forward passes of an evaluation after step 1, "
        "the others wait in barrier number 4 of group 0: m.py:9"
    )


def test_values_marked_in_a_voirfile_come_first() -> None:
    def same(value: str) -> Facts:
        made = put("ilfbo")
        made["control"]["same"] = [{"name": "n", "n": 1, "value": value, "where": "v.py:3"}]
        return made

    records = {0: same("99"), 1: same("100"), 2: same("100")}
    assert said(records, hangs=False) == "rank 0 has n = 99 (value 1), the others have 100: v.py:3"


def test_what_ranks_do_is_told_in_words() -> None:
    several = {"ranks": [0, 2, 3], "what": "all_reduce number 812 of group 0", "waits": True}
    assert doing_text(several, "rank") == "ranks 0, 2-3 wait in all_reduce number 812 of group 0"
    assert doing_text({"ranks": [1], "what": "load_shard"}, "rank") == "rank 1 is in load_shard"


ROWS = st.lists(st.one_of(st.none(), st.integers(), st.text(max_size=3)), max_size=5)


CONTROL = {
    "step": st.one_of(st.none(), st.integers(-5, 99)),
    "did": st.one_of(st.text("lixfebos"), st.integers()),
    "collectives": st.one_of(st.integers(), st.lists(ROWS, max_size=4)),
    "same": st.one_of(st.text(), st.lists(st.dictionaries(st.text(max_size=5), st.integers()))),
}


@given(st.lists(st.fixed_dictionaries({}, optional=CONTROL), max_size=4), st.booleans())
def test_no_record_makes_it_fail(controls: list[Facts], hangs: bool) -> None:
    records = {rank: {"control": control} for rank, control in enumerate(controls)}
    found = divergence(records, hangs)
    assert found is None or set(found.ranks) <= {*records}


@pytest.mark.parametrize("kept", [MOST_LETTERS, 40])
def test_what_was_not_kept_is_no_difference(kept: int) -> None:
    whole = "i" + "lfbo" * 50
    records = {rank: put(whole[-kept - rank :]) for rank in range(RANKS)}
    for each in records.values():
        each["control"]["step"] = 50
    assert divergence(records, hangs=True) is None


def test_a_collective_beside_those_of_ddp_is_named() -> None:
    barrier = {"collective": {"name": "barrier", "group": "0", "number": 1, "where": "m.py:9"}}
    records = {
        0: put("ilfbo", idle=barrier),
        **{rank: put("ilfbolf", idle={"collective": {"name": "DDP"}}) for rank in (1, 2, 3)},
    }
    assert said(records) == (
        "rank 0 waits in barrier number 1 of group 0, "
        "the others wait in a collective of DDP: m.py:9"
    )


def test_steps_are_counted_as_they_are_dropped() -> None:
    rows: list[Facts] = [{"kind": 0}, {"kind": k.LOADING}, {"kind": k.OPTIMIZER}]
    events = [(k.LOADING, 1, 0), (k.OPTIMIZER, 2, 0), (k.OPTIMIZER, 2, k.IN_OPTIMIZER)]
    chunk = b"".join(
        EVENT.pack(at, 0.0, 0, site, 1, flags << 56) for at, (_, site, flags) in enumerate(events)
    )
    assert steps_in(chunk * 40 + b"torn", rows) == 40
    doings = Doings(rows)
    for _ in range(500):
        doings(chunk * 40)
    facts = doings.facts()
    assert facts is not None
    assert (facts["step"], len(facts["did"])) == (20_000, MOST_LETTERS)
