"""Steps of coroutines that share a thread: pairs of theirs overlap, and lie in no other's."""

from __future__ import annotations

import pytest
from scripts import PAIR, STEP, voirfile

from tests.running import Place

#: So many of them, in so many steps each; how often each gives way differs from step to step.
SCRIPT = """
    import asyncio
    import voir

    async def work(who, number):
        for _ in range((7 * who + 3 * number) % 11 + 1):
            await asyncio.sleep(0)

    async def handle(who, number, batch):
        await work(who, number)

    async def train(who):
        number = 0
        for inp in [[0] * 4] * {steps}:
            number += 1
            {turn}

    async def main():
        await asyncio.gather(*(train(who) for who in range({many})))

    {begin}
    asyncio.run(main())
    """
HANDLE = "//handle(batch, !#enter as compute_start, !!#exit as compute_end)"
#: What a turn does, and the probes that show its steps.
WAYS = {
    "a pair of giving's": (
        "with voir.give.wrap('compute', batch=inp): await work(who, number)",
        [],
    ),
    "a pair of a call": ("await handle(who, number, inp)", [HANDLE]),
    "a pair of a turn": ("await work(who, number)", [PAIR]),
    "a pair and an event": ("await work(who, number)", [STEP, PAIR]),
    "a pair in a pair": (
        "with voir.give.wrap('compute', batch=inp): await handle(who, number, inp)",
        [],
    ),
    "an event": ("await work(who, number); voir.give(step=True, batch=inp)", []),
}


def steps(place: Place, way: str, many: int, *options: str, begin: str = "pass") -> tuple[int, int]:
    """The steps and items that are told of so many coroutines of ten steps."""
    turn, selectors = WAYS[way]
    place.write("main.py", SCRIPT.format(turn=turn, many=many, steps=10, begin=begin))
    voirfile(place, *selectors)
    ran = place.voir(*options, "main.py")
    assert ran.status == 0, ran.stderr
    task = place.record()["tasks"]["train"]
    return task["steps"], task["items"]


@pytest.mark.parametrize("many", [1, 2, 4, 40])
@pytest.mark.parametrize("way", WAYS)
def test_each_step_of_each_counts_once(place: Place, way: str, many: int) -> None:
    assert steps(place, way, many) == (10 * many, 40 * many)


def test_of_pairs_within_one_another_the_outer_is_the_step_there_too(place: Place) -> None:
    turn = """
            with voir.give.wrap("compute", batch=inp):
                await work(who, number)
                with voir.give.wrap("compute", batch=inp):
                    await work(who, number + 1)
    """
    place.write("main.py", SCRIPT.format(turn=turn.strip(), many=4, steps=10, begin="pass"))
    assert place.voir("--no-voirfile", "main.py").status == 0
    # Of the first pairs it is not known yet that others are around them, but of one.
    assert place.record()["tasks"]["train"]["steps"] in range(40, 44)


def test_a_thread_that_had_no_coroutines_at_first_is_no_exception(place: Place) -> None:
    begin = "[handle(0, 0, [0] * 4).close() for _ in range(4)]"
    assert steps(place, "a pair of a call", 4, begin=begin) == (40, 160)


AROUND = """
    import asyncio
    import voir

    async def handle(batch):
        await asyncio.sleep(0)
        with voir.give.wrap({name!r}, batch=batch):
            await asyncio.sleep(0)

    async def both(batch):
        await asyncio.gather(handle(batch), handle(batch))

    for batch in voir.iterate("train", [[0] * 4] * 12, report_batch=True):
        asyncio.run(both(batch))
    """


@pytest.mark.parametrize("name", ["compute", "loading"])
def test_what_coroutines_do_in_a_turn_is_no_step_beside_it(place: Place, name: str) -> None:
    place.write("main.py", AROUND.format(name=name))
    assert place.voir("--no-voirfile", "main.py").status == 0
    task = place.record()["tasks"]["train"]
    assert (task["steps"], task["items"]) == (12, 48)


@pytest.mark.parametrize("many", [3, 40])
@pytest.mark.parametrize("way", [way for way in WAYS if way != "a pair in a pair"])
def test_a_stop_is_exact(place: Place, way: str, many: int) -> None:
    assert steps(place, way, many, "--stop", "25") == (25, 100)
