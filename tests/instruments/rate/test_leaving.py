"""A loop that is left by ``break`` gives up what it iterates over, and only then is that told."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from threading import Thread
from typing import Any

import pytest

from instruments.leaving import Leaving
from overseer.measure.audience import Audience

told: list[object] = []


class Loader:
    """Ten batches; says to a listener when it begins."""

    leaving: Leaving

    def __iter__(self) -> Iterator[int]:
        iterator = Batches()
        self.leaving.made(Loader.__iter__.__code__, iterator)
        return iterator


class Batches:
    """The iterator of such a loader."""

    def __init__(self) -> None:
        self.left = 10

    def __iter__(self) -> Batches:
        return self

    def __next__(self) -> int:
        if not self.left:
            raise StopIteration
        self.left -= 1
        return self.left


class Heard(Audience):
    """Keeps what it is told."""

    __slots__ = ()

    def left(self, name: object) -> None:
        told.append(name)


@pytest.fixture
def loader() -> Loader:
    told.clear()
    made = Loader()
    made.leaving = Leaving(Heard(), lambda iterator: "batches")
    return made


def progress(loader: Any) -> Iterator[Any]:
    yield from loader


def breaks(loader: Any) -> list[object]:
    for _ in loader:
        break
    return list(told)


def breaks_counted(loader: Any) -> list[object]:
    for _ in enumerate(loader):
        break
    return list(told)


def returns(loader: Any) -> None:
    for _ in progress(loader):
        return


def raises(loader: Any) -> list[object]:
    try:
        for _ in loader:
            raise ValueError
    except ValueError:
        pass
    return list(told)


def hands_on(loader: Any) -> list[object]:
    for _ in progress(progress(loader)):
        break
    return list(told)


@pytest.mark.parametrize("run", [breaks, breaks_counted, raises, hands_on])
def test_a_loop_that_is_left_tells_so_at_once(
    loader: Loader, run: Callable[[Loader], list[object]]
) -> None:
    assert run(loader) == ["batches"]


def test_a_loop_that_is_left_by_return_tells_so(loader: Loader) -> None:
    returns(loader)
    assert told == ["batches"]


def test_an_iterator_that_a_variable_held_says_nothing_when_it_ends(loader: Loader) -> None:
    def train() -> int:
        iterator = iter(loader)
        return next(iterator)

    train()
    gc.collect()
    assert told == []


def test_an_iterator_that_another_has_taken_the_place_of_says_nothing(loader: Loader) -> None:
    iterator = iter(loader)
    next(iterator)
    iterator = iter(loader)
    assert (next(iterator), told) == (9, [])


def test_an_iterator_that_ends_in_another_thread_says_nothing(loader: Loader) -> None:
    held = [iter(loader)]
    thread = Thread(target=held.clear)
    thread.start()
    thread.join()
    assert told == []


def test_what_cannot_be_watched_is_none_the_worse_for_it(loader: Loader) -> None:
    loader.leaving.made(Loader.__iter__.__code__, 5)
    assert told == []
