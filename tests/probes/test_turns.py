"""A ``while`` loop that fetches its batch in its body: an iteration is what it does with one."""

from __future__ import annotations

from textwrap import dedent, indent

import pytest

from .conftest import Make
from .scripts import Script

PRELUDE = """
import asyncio, contextlib
log = []
END = object()
def source(n=3):
    for number in range(n):
        log.append("fetch")
        yield number
    log.append("fetch")
async def asource():
    for number in source():
        yield number
def work(batch):
    log.append(f"work {batch}")
    return batch
def fails(batch):
    work(batch)
    raise KeyError
"""
TURN = ["fetch", "begin", "work {}", "end"]
ALL = [event.format(n) for n in range(3) for event in TURN] + ["fetch"]

SHAPES = {
    "left when there is none": """
        while True:
            try:
                batch = next(it)
            except StopIteration:
                break
            work(batch)
    """,
    "with work within the try": """
        while True:
            try:
                batch = next(it)
                work(batch)
            except StopIteration:
                break
    """,
    "with work within the try, and more behind it": """
        n = 0
        while True:
            try:
                batch = next(it)
                loss = work(batch)
            except StopIteration:
                break
            n += 1
    """,
    "left by continue within the try, with more behind it": """
        while True:
            try:
                batch = next(it)
                for one in (1, 2):
                    if one: break
                work(batch)
                if batch % 2: continue
            except StopIteration:
                break
            print("log", batch)
    """,
    "with a finally, and more behind it": """
        n = 0
        while True:
            try:
                batch = next(it)
                work(batch)
            except StopIteration:
                break
            finally:
                n += 1
            print("log", batch)
    """,
    "left by continue within the else": """
        while True:
            try:
                batch = next(it)
            except StopIteration:
                break
            else:
                if batch == 9: continue
                work(batch)
            print("log", batch)
    """,
    "with a flag that is asked at once": """
        done = False
        while not done:
            try:
                batch = next(it)
            except StopIteration:
                done = True
            if done:
                break
            work(batch)
    """,
    "under a manager, with a count behind it": """
        n = 0
        while True:
            with contextlib.nullcontext():
                batch = next(it, None)
                if batch is None:
                    break
                work(batch)
            n += 1
    """,
    "in the else, with a count behind it": """
        n, running = 0, True
        while running:
            batch = next(it, None)
            if batch is None:
                running = False
            else:
                work(batch)
            n += 1
    """,
    "with a count before it is asked": """
        n = 0
        while True:
            batch = next(it, None)
            n += 1
            if batch is None:
                break
            work(batch)
    """,
    "with work in the else of the try": """
        while True:
            try:
                batch = next(it)
            except StopIteration:
                break
            else:
                work(batch)
    """,
    "with a flag for the end": """
        done = False
        while not done:
            try:
                batch = next(it)
                work(batch)
            except StopIteration:
                done = True
    """,
    "left by return": """
        while True:
            try:
                batch = next(it)
            except StopIteration:
                return
            work(batch)
    """,
    "in a try": """
        try:
            while True:
                batch = next(it)
                work(batch)
        except StopIteration:
            pass
    """,
    "with a default": """
        while True:
            batch = next(it, None)
            if batch is None:
                break
            work(batch)
    """,
    "with a default of its own": """
        while True:
            batch = next(it, END)
            if batch is END or len(log) > 99:
                break
            work(batch)
    """,
    "with a default, asked the other way": """
        while True:
            batch = next(it, None)
            if batch is not None:
                work(batch)
            else:
                break
    """,
    "with a default that is bound where it is asked": """
        while True:
            if (batch := next(it, None)) is None:
                break
            work(batch)
    """,
    "set back first": """
        while True:
            batch = None
            try:
                batch = next(it)
            except StopIteration:
                pass
            if batch is None:
                break
            work(batch)
    """,
    "freed at the end": """
        while True:
            try:
                batch = next(it)
            except StopIteration:
                break
            work(batch)
            del batch
    """,
    "under a timer": """
        while True:
            with contextlib.nullcontext():
                batch = next(it, None)
            if not (batch is not None):
                break
            work(batch)
    """,
    "with work under a manager": """
        while True:
            with contextlib.suppress(ZeroDivisionError):
                batch = next(it, None)
                if batch is None:
                    break
                work(batch)
    """,
    "in branches": """
        turn = 0
        while turn < 4:
            turn += 1
            if turn % 2:
                batch = next(it, None)
            else:
                batch = next(it, None)
            if batch is None:
                continue
            work(batch)
    """,
    "with an else of the loop": """
        turn = 0
        while turn < 4:
            turn += 1
            try:
                batch = next(it)
            except StopIteration:
                continue
            work(batch)
        else:
            batch = 9
    """,
    "from a queue": """
        while True:
            try:
                batch = it.send(None)
            except StopIteration:
                break
            work(batch)
    """,
    "by its condition": """
        while (batch := next(it, None)) is not None:
            work(batch)
    """,
}  # fmt: skip


def logged(made: Script, *selectors: str) -> list[str]:
    """What the script does, and where its iterations begin and end."""
    log: list[str] = made.main.__dict__["log"]
    for selector, said in zip(selectors, ("begin", "end"), strict=False):
        made.placed(selector).listen(lambda event, said=said: log.append(said))  # type: ignore[misc]
    return log


def looping(script: Make, shape: str, head: str = "def f(it):") -> Script:
    return script(f"{PRELUDE}\n{head}\n{indent(shape, '    ')}").load().run()


BOTH = ("//f > #loop_batch", "//f > #endloop_batch")


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_an_iteration_begins_with_its_batch_and_there_is_none_without(
    script: Make, shape: str
) -> None:
    made = looping(script, shape)
    log = logged(made, *BOTH)
    made.call("f(source())")
    assert log == ALL
    assert made.problems == []


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_pairs_and_values_belong_to_a_batch(script: Make, shape: str) -> None:
    made = looping(script, shape)
    events = made.probe("//f(batch, !#loop_batch as start, !!#endloop_batch as end)")
    ends = made.probe("//f(batch) > #endloop_batch as step")
    made.call("f(source())")
    assert [event["$wrap"]["step"] for event in events] == ["begin", "end"] * 3
    assert [event["batch"] for event in events[::2]] == [0, 1, 2]
    values = [None] * 3 if "del batch" in shape else [0, 1, 2]
    assert [event.get("batch") for event in ends] == values
    assert [event.get("batch") for event in events[1::2]] == values


COUNTED = """
    step = 0
    while True:
        try:
            batch = next(it)
        except StopIteration:
            break
        loss = work(batch)
        step += 1
"""


@pytest.mark.parametrize("name", ["step", "loss"])
def test_what_is_made_of_a_batch_and_a_counter_of_them_name_the_same(
    script: Make, name: str
) -> None:
    made = looping(script, COUNTED)
    log = logged(made, f"//f > #loop_{name}", f"//f > #endloop_{name}")
    made.call("f(source())")
    assert log == ALL


WITHIN = ["loss = work(next(it))", "loss = work(next(it))\n    step += 1"]


@pytest.mark.parametrize("body", WITHIN, ids=["alone", "and counts"])
def test_a_variable_that_nothing_is_made_of_names_the_whole_turn(script: Make, body: str) -> None:
    made = looping(script, f"step = 0\nwhile len(log) < 8:\n    {body}")
    log = logged(made, "//f > #loop_loss", "//f > #endloop_loss")
    made.call("f(source())")
    assert log == [event for n in range(2) for event in ("begin", "fetch", f"work {n}", "end")]


def test_an_iterator_that_is_begun_again_gives_batches_within_one_turn(script: Make) -> None:
    made = looping(
        script,
        """
        it, step = source(2), 0
        while step < 5:
            try:
                batch = next(it)
            except StopIteration:
                it = source(2)
                batch = next(it)
            work(batch)
            step += 1
        """,
        "def f():",
    )
    log = logged(made, *BOTH)
    made.call("f()")
    again = ["fetch"]
    turns = [[event.format(n) for event in TURN] for n in (0, 1)]
    assert log == [*turns[0], *turns[1], *again, *turns[0], *turns[1], *again, *turns[0]]


def test_an_iterator_that_ends_the_loop_by_an_exception_ends_no_iteration(script: Make) -> None:
    made = looping(script, "while True:\n    batch = next(it)\n    fails(batch)")
    log = logged(made, *BOTH)
    for call in ("f(source())", "f(source(0))"):
        with pytest.raises((KeyError, StopIteration)):
            made.call(call)
    assert log == ["fetch", "begin", "work 0", "end", "fetch"]


LEFT = {
    "by continue": ("if batch == 1: continue", [0, 1, 2]),
    "by break": ("if batch == 1: break", [0, 1]),
    "by return": ("if batch == 1: return", [0, 1]),
    "by an exception": ("if batch == 1: fails(batch)", [0, 1]),
    "by an exception that ends the turn": (
        "try:\n        if batch == 1: fails(batch)\n    except KeyError:\n        continue",
        [0, 1, 2]),
}  # fmt: skip


@pytest.mark.parametrize(("leave", "expected"), LEFT.values(), ids=LEFT)
def test_a_turn_with_a_batch_ends_however_it_is_left(
    script: Make, leave: str, expected: list[int]
) -> None:
    shape = f"while True:\n    batch = next(it, None)\n    if batch is None: break\n    {leave}\n"
    made = looping(script, shape + "    work(batch)")
    starts, ends = made.probe("//f(batch) > #loop_batch"), made.probe("//f(batch) > #endloop_batch")
    try:
        made.call("f(source())")
    except KeyError:
        pass
    assert [event["batch"] for event in starts] == expected
    assert [event["batch"] for event in ends] == expected


def test_work_that_fails_within_the_try_ends_its_iteration_once(script: Make) -> None:
    made = looping(
        script,
        """
        steps = 0
        while True:
            try:
                batch = next(it)
                (fails if batch == 1 else work)(batch)
            except StopIteration:
                break
            except KeyError:
                continue
            steps += 1
        """,
    )
    log = logged(made, *BOTH)
    made.call("f(source())")
    assert log == ALL


def test_an_empty_batch_that_ends_the_loop_is_none(script: Make) -> None:
    shape = "while True:\n    batch = next(it)\n    if len(batch) == 0: break\n    work(len(batch))"
    made = looping(script, shape)
    log = logged(made, *BOTH)
    made.call("f(iter([[1], [1, 2], []]))")
    assert log == ["begin", "work 1", "end", "begin", "work 2", "end"]


RETURNED = {"nothing": ("", True), "a constant": ("None", True), "a value": ("work(7)", False)}


@pytest.mark.parametrize(("value", "parted"), RETURNED.values(), ids=RETURNED)
def test_work_that_returns_from_the_try_ends_its_iteration_once(
    script: Make, value: str, parted: bool
) -> None:
    made = looping(
        script,
        f"""
        while True:
            try:
                batch = next(it)
                work(batch)
                if batch == 1:
                    return {value}
            except StopIteration:
                break
            print("log", batch)
        """,
    )
    log = logged(made, *BOTH)
    made.call("f(source())")
    turn = TURN if parted else ["begin", "fetch", "work {}"]
    first, last = ([event.format(n) for event in turn] for n in (0, 1))
    assert log == [*first, *last] if parted else [*first, "end", *last, "work 7", "end"]


DOUBTFUL = {
    "that another handler brings behind the try": (
        "try:\n        batch = next(it)\n        work(batch)\n    except StopIteration:\n"
        "        break\n    except KeyError:\n        pass\n    print(batch)"
    ),
    "that a finally may work with": (
        "try:\n        batch = next(it)\n    except StopIteration:\n        break\n"
        "    finally:\n        batch and print(batch)\n    work(batch)"
    ),
    "that a manager holds": (
        "with contextlib.nullcontext():\n        batch = next(it, None)\n"
        "        if batch is None: break\n        work(batch)\n    print(batch)"
    ),
}


@pytest.mark.parametrize("body", DOUBTFUL.values(), ids=DOUBTFUL)
def test_a_turn_that_is_in_doubt_is_an_iteration_as_a_whole(script: Make, body: str) -> None:
    made = looping(script, f"batch = None\nwhile True:\n    {body}")
    log = logged(made, *BOTH)
    made.call("f(source())")
    turns = [["begin", "fetch", f"work {n}", "end"] for n in range(3)]
    assert log == [*turns[0], *turns[1], *turns[2], "begin", "fetch", "end"]


CARRIED = {
    "at the end": ("batch is not None", "batch = next(it, None)"),
    "before it counts": ("batch is not None", "batch = next(it, None)\n    n += 1"),
    "before it asks": ("True", "batch = it.__next__()\n    n += 1\n    if n == 3: break"),
}


@pytest.mark.parametrize(("test", "end"), CARRIED.values(), ids=CARRIED)
def test_a_batch_from_the_turn_before_is_worked_on_until_the_next_is_fetched(
    script: Make, test: str, end: str
) -> None:
    source = f"n, batch = 0, next(it)\nwhile {test}:\n    work(batch)\n    {end}"
    made = looping(script, source)
    log, ends = logged(made, *BOTH), made.probe("//f(batch) > #endloop_batch")
    made.call("f(source(3 + (TEST)))".replace("TEST", str(test == "True")))
    turns = [["begin", f"work {n}", "end", "fetch"] for n in range(3)]
    assert log == ["fetch", *turns[0], *turns[1], *turns[2]]
    assert [event["batch"] for event in ends] == [0, 1, 2]


def test_a_batch_that_is_fetched_while_another_is_worked_on_is_not_its_own(script: Make) -> None:
    shape = """
        ahead = next(it)
        while ahead is not None:
            batch = ahead
            {}
    """
    for body in (
        "ahead = next(it, None)\n            work(batch)",
        "work(batch)\n            ahead = next(it, None)",
    ):
        made = looping(script, shape.format(body))
        log, ends = logged(made, *BOTH), made.probe("//f(batch) > #endloop_batch")
        made.call("f(source())")
        assert [e for e in log if e != "fetch"] == [
            event.format(n) for n in range(3) for event in ("begin", "work {}", "end")
        ]
        assert [at for at, e in enumerate(log) if e == "fetch" and log[at - 1] == "begin"] == []
        assert [event["batch"] for event in ends] == [0, 1, 2]


CARRYING = {
    "sent by the generator": "work(batch)\n        batch = it.send(None)",
    "that the turn makes of itself": "work(batch)\n        batch = max(batch, next(it))",
    "that a branch fetches too": (
        "work(batch)\n        if batch > 9: batch = next(it)\n        batch = next(it)"
    ),
}


@pytest.mark.parametrize("body", CARRYING.values(), ids=CARRYING)
def test_a_batch_from_the_turn_before_may_have_the_whole_turn(script: Make, body: str) -> None:
    made = looping(
        script,
        f"batch = next(it)\ntry:\n    while True:\n        {body}\nexcept StopIteration: pass",
    )
    log = logged(made, *BOTH)
    made.call("f(source())")
    turns = [["begin", f"work {n}", "fetch", "end"] for n in range(3)]
    assert log == ["fetch", *turns[0], *turns[1], *turns[2]]


def test_a_loop_in_a_loop_has_iterations_of_its_own(script: Make) -> None:
    inner = indent(SHAPES["left when there is none"].strip("\n"), "    ")
    made = looping(script, f"        for epoch in range(2):\n            it = source()\n{inner}")
    log, epochs = logged(made, *BOTH), made.probe("//f > #endloop_epoch")
    made.call("f(None)")
    assert log == ALL * 2
    assert len(epochs) == 2


def test_batches_of_a_loop_within_are_no_iterations_of_the_one_around(script: Make) -> None:
    made = looping(
        script,
        "step = 0\nwhile step < 2:\n    for micro in range(2):\n        batch = next(it)\n"
        "        work(batch)\n    step += 1\n",
    )
    log = logged(made, *BOTH)
    made.call("f(source(9))")
    works = ["fetch", "work 0", "fetch", "work 1", "end", "begin", "fetch", "work 2"]
    assert log == ["begin", *works, "fetch", "work 3", "end"]


SUSPENDED = """
def f(it):
    while True:
        batch = next(it, None)
        if batch is None:
            return
        yield work(batch)
async def g(it):
    while True:
        try:
            batch = await anext(it)
        except StopAsyncIteration:
            break
        work(batch)
"""


def test_generators_and_asynchronous_functions_have_such_loops_too(script: Make) -> None:
    made = script(PRELUDE + SUSPENDED).load().run()
    log = logged(made, *BOTH)
    assert made.call("list(f(source()))") == [0, 1, 2]
    assert log == ALL
    log.clear()
    logged(made, *(selector.replace("//f", "//g") for selector in BOTH))
    made.call("asyncio.run(g(asource()))")
    assert log == ALL


def test_such_a_loop_may_stand_at_the_top_level(script: Make) -> None:
    loop = dedent(SHAPES["left when there is none"])
    made = script(f"{PRELUDE}\nit = source()\n{loop}").load()
    ends = made.probe("//(batch) > #endloop_batch as step")
    made.run()
    assert [event["batch"] for event in ends] == [0, 1, 2]
