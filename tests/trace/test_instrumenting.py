"""Functions and methods of every kind do what they did, with spans around them."""

from __future__ import annotations

import asyncio
import copy
import functools
import inspect
import pickle
import types
from collections.abc import AsyncGenerator, Callable, Generator
from typing import Any

import pytest

from overseer.trace import channel, open_trace

from .conftest import Tracing

Begin = Callable[..., Tracing]


class Thing:
    """One method of each kind."""

    def __init__(self, name: str = "thing") -> None:
        self.name = name

    def plain(self, value: int) -> tuple[str, int]:
        return self.name, value

    @staticmethod
    def static(value: int) -> int:
        return value

    @classmethod
    def of_class(cls, value: int) -> tuple[type, int]:
        return cls, value

    @property
    def asked(self) -> str:
        return self.name

    @functools.cached_property
    def cached(self) -> str:
        return self.name

    async def later(self, value: int) -> int:
        await asyncio.sleep(0)
        return value

    def each(self, count: int) -> Generator[int, int, str]:
        got = 0
        for number in range(count):
            got += (yield number) or 0
        return f"{self.name} {got}"

    async def each_later(self, count: int) -> AsyncGenerator[int, None]:
        for number in range(count):
            await asyncio.sleep(0)
            yield number

    part = functools.partialmethod(plain, 7)

    def __call__(self, value: int) -> int:
        return value


METHODS = ["plain", "static", "of_class", "later", "each", "each_later", "part"]


async def listed(generator: AsyncGenerator[int, None]) -> list[int]:
    return [one async for one in generator]


def used(thing: Thing) -> list[Any]:
    """What using all of it gives."""
    return [
        thing.plain(1),
        thing.static(2),
        type(thing).static(3),
        thing.of_class(4)[1],
        type(thing).of_class(5)[1],
        thing.asked,
        thing.cached,
        asyncio.run(thing.later(6)),
        list(thing.each(2)),
        asyncio.run(listed(thing.each_later(2))),
        thing.part(),
        thing(8),
        inspect.iscoroutinefunction(thing.later),
        inspect.isgeneratorfunction(thing.each),
        inspect.isasyncgenfunction(thing.each_later),
    ]


def counts(trace: Tracing) -> dict[str, int]:
    """How many spans there are of each label."""
    trace.end()
    found: dict[str, int] = {}
    for one in open_trace(trace.path).slices():
        found[one.label] = found.get(one.label, 0) + 1
    return found


def test_methods_of_a_class(tracing: Begin) -> None:
    class Own(Thing):
        pass

    trace, expected = tracing(), used(Own())
    channel("app").instrument(Own, [*METHODS, "asked", "cached", "__call__"])
    channel("app").instrument(Own, "plain")  # Once is enough.
    assert used(Own()) == expected
    assert isinstance(inspect.getattr_static(Own, "static"), staticmethod)
    assert used(Thing()) == expected
    found = counts(trace)
    assert found.pop("Own.each") == found.pop("Own.each_later") == 3  # Turns.
    assert found.pop("Own.static") == found.pop("Own.of_class") == 2
    assert set(found.values()) == {1}
    assert len(found) == 6


def test_methods_of_an_object(tracing: Begin) -> None:
    trace, thing = tracing(), Thing("one")
    expected = used(Thing("one"))
    for _ in range(2):
        channel("app").instrument(thing, METHODS)
    assert used(thing) == expected
    assert Thing("other").plain(1) == ("other", 1)
    found = counts(trace)
    assert found.pop("Thing.each") == found.pop("Thing.each_later") == 3
    assert found == dict.fromkeys(
        ("Thing.plain", "Thing.static", "Thing.of_class", "Thing.later", "Thing.part"), 1
    )


def test_copies_of_an_object_are_themselves(tracing: Begin) -> None:
    tracing()
    thing = Thing("first")
    channel("app").instrument(thing, ["plain", "static"])
    for other in (copy.deepcopy(thing), pickle.loads(pickle.dumps(thing))):
        other.name = "second"
        assert (other.plain(1), other.static(2)) == (("second", 1), 2)
    assert thing.plain(1) == ("first", 1)


class Slotted:
    __slots__ = ()

    def plain(self) -> int:
        return 1


def test_what_cannot_be_instrumented_is_named_and_left_alone(tracing: Begin) -> None:
    trace, app = tracing(), channel("app")
    app.instrument(Thing(), ["asked", "__call__", "missing"])
    app.instrument(Slotted(), ["plain"])
    app.instrument(list, ["sort"])
    app.instrument([], "sort")
    app.instrument(Thing, ["__doc__"])
    assert Slotted().plain() == 1
    assert Thing.__doc__ == "One method of each kind."
    trace.end()
    marks = [one.label for one in open_trace(trace.path).instants() if one.channel == "app"]
    names = ["Thing.asked", "Thing.__call__", "Thing.missing", "Slotted.plain", "list.sort"]
    assert marks == [f"not instrumented: {name}" for name in [*names, "list.sort", "Thing.__doc__"]]


def test_functions_of_a_module(tracing: Begin) -> None:
    trace, module = tracing(), types.ModuleType("mine")
    module.double = lambda value: value * 2  # type: ignore[attr-defined]
    channel("app").instrument(module, ["double"])
    assert module.double(2) == 4
    assert counts(trace) == {"mine.double": 1}


def test_a_generators_turns_are_spans(tracing: Begin) -> None:
    trace = tracing()
    traced: Any = channel("app").span("turn")(Thing.each)
    generator = traced(Thing(), 3)
    assert [next(generator), generator.send(5), generator.send(6)] == [0, 1, 2]
    with pytest.raises(StopIteration) as ended:
        next(generator)
    assert ended.value.value == "thing 11"
    left = traced(Thing(), 3)
    next(left)
    with channel("app").span("meanwhile"):
        pass
    left.close()
    with pytest.raises(KeyError):
        thrown = traced(Thing(), 3)
        next(thrown)
        thrown.throw(KeyError("x"))
    found = counts(trace)
    assert found == {"turn": 4 + 2 + 2, "meanwhile": 1}
    assert not any(one.children for one in open_trace(trace.path).slices())


def test_an_async_generator_may_be_left_and_thrown_at(tracing: Begin) -> None:
    trace = tracing()
    traced: Any = channel("app").span("turn")(Thing.each_later)

    async def use() -> None:
        left = traced(Thing(), 3)
        assert await anext(left) == 0
        await left.aclose()
        thrown = traced(Thing(), 3)
        await anext(thrown)
        with pytest.raises(KeyError):
            await thrown.athrow(KeyError("x"))

    asyncio.run(use())
    assert counts(trace) == {"turn": 4}


def test_a_class_stays_one(tracing: Begin) -> None:
    trace = tracing()
    made = channel("app").span("made")(type("Own", (Thing,), {}))
    assert isinstance(made("own"), made)
    assert counts(trace) == {"made": 1}
