"""What scripts may use, with or without voir: ``give``, ``log``, ``app`` and ``iterate``.

Under plain python all of them do nothing but what the script needs of them.
"""

from __future__ import annotations

import sys
from _thread import get_ident
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import count
from typing import Any, TypeVar

from .boundary import let_through, said
from .engine.values import Own, keys_in_force, numbers
from .errors import Problem
from .overseer import active
from .unsized import Unsized

T = TypeVar("T")
_loaded: Any = None


class Give:
    """``give(key=value)``: an event for whoever instruments the script.

    The same as giving's ``give``, without importing it for keywords, blocks and inherited keys.
    """

    def __call__(self, *args: Any, **values: Any) -> Any:
        """Give an event; a single positional argument is returned."""
        overseer, handlers = active(), _own_handlers()
        if overseer is not None or handlers:
            if args or not values:
                # Called from here, for it looks at the source of the caller of this function.
                values = {**_with_giving().named(self, args, _report), **values}
            if handlers:
                _hand(values, handlers)
            if overseer is not None and values:
                overseer.bus.give(values)
        return args[0] if len(args) == 1 else None

    @property
    def inherited(self) -> ContextVar[dict[str, Any]]:
        """What holds the keys that events inherit."""
        if (overseer := active()) is not None:
            overseer.bus.may_inherit()
        return keys_in_force

    @contextmanager
    def inherit(self, **keys: Any) -> Iterator[None]:
        """Within, every event has ``keys``, but for those it has of its own."""
        inherited = self.inherited
        token = inherited.set({**inherited.get(), **keys})
        try:
            yield
        finally:
            inherited.reset(token)

    @contextmanager
    def wrap(self, name: str, **keys: Any) -> Iterator[dict[str, Any]]:
        """Give an event at the beginning of a block, and one at its end, as giving does.

        Args:
            name: The kind of block.
            keys: What both events have; what is put into the yielded dict, only the last has.
        """
        number = next(numbers)
        self.produce({"$wrap": {"name": name, "step": "begin", "id": number}, **keys})
        extra: dict[str, Any] = {}
        try:
            yield extra
        finally:
            self.produce({"$wrap": {"name": name, "step": "end", "id": number}, **keys, **extra})

    @contextmanager
    def wrap_inherit(self, name: str, **keys: Any) -> Iterator[dict[str, Any]]:
        """A block of which every event has ``keys``."""
        with self.inherit(**keys), self.wrap(name) as extra:
            yield extra

    def produce(self, values: dict[str, Any]) -> None:
        """Give an event."""
        overseer, handlers = active(), _own_handlers()
        if handlers:
            _hand(values, handlers)
        if overseer is not None and values:
            overseer.bus.give(values)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(_with_giving().giving_give, name)


give = Give()


class _Publish(Give):
    """Gives events of voir's own: strict operators pass over those that lack their key."""

    def produce(self, values: dict[str, Any]) -> None:
        """Give an event."""
        super().produce(Own(values))


_publish = _Publish()


def _with_giving() -> Any:
    """Our side of giving, which is imported if need be."""
    global _loaded
    if _loaded is None:
        overseer = active()
        began = overseer.clock.cpu_ns() if overseer is not None else 0
        from .engine import operators

        _loaded = operators
        if overseer is not None:
            overseer.charge(overseer.clock.cpu_ns() - began)
    return _loaded


def _report(problem: Problem) -> None:
    if (overseer := active()) is not None:
        overseer.report(problem)


def _own_handlers() -> tuple[Callable[[dict[str, Any]], object], ...]:
    """Who listens by a ``given()`` of the script's own; giving is there if anybody does."""
    if "giving" not in sys.modules:
        return ()
    return _with_giving().own_handlers()  # type: ignore[no-any-return]


def _hand(values: dict[str, Any], handlers: Iterable[Callable[[dict[str, Any]], object]]) -> None:
    event = {**give.inherited.get(), **values}
    for handler in handlers:
        handler(event)


def log(*events: dict[str, Any], **values: Any) -> None:
    """Send an event straight out of the process: ``log(loss=0.5)``."""
    overseer = active()
    if overseer is None:
        return
    for event in events:
        overseer.log(event)
    if values:
        overseer.log(values)


def app(*objects: Mapping[str, Any], **values: Any) -> None:
    """Show data of the script's own with the run: ``app(dataset="digits", revision=3)``."""
    overseer = active()
    if overseer is not None:
        overseer.app(*objects, **values)


def iterate(
    task: str,
    iterable: Iterable[T],
    report_batch: bool = False,
    ignore_loading: bool = False,
    batch_size: int | Callable[[T], int] | None = None,
) -> Iterator[T]:
    """Iterate, and tell voir how far it is: ``progress`` events under ``task``.

    Args:
        task: What this loop does, for example ``train``.
        iterable: What to iterate over; its length, if it has one, is the total.
        report_batch: Also wrap each iteration in a ``step``, whose end carries the batch.
        ignore_loading: Leave the time spent in the iterator out of the step.
        batch_size: The number of items in a batch, or a function of the batch; without it the
            batch itself is given.
    """
    steps = _Steps(task, batch_size, None if not report_batch else ignore_loading)
    iteration = Iteration(iterating(task, iterable, steps), steps)
    overseer = active()
    if report_batch and overseer is not None:
        overseer.iterations.add(iteration)
    return iteration


class Iteration(Iterator[T]):
    """What :func:`iterate` returns: it may be kept, and a loop over it left before its end."""

    __slots__ = ("__weakref__", "_steps", "_thread", "_turns")

    def __init__(self, turns: Generator[T, bool, None], steps: _Steps) -> None:
        self._turns, self._steps = turns, steps
        self._thread = get_ident()

    def __iter__(self) -> Iterator[T]:
        return self._looped() if _is_heard() else self._turns

    def __next__(self) -> T:
        return next(self._turns)

    def close(self) -> None:
        """End it, with the step that it is in."""
        self._turns.close()

    def _looped(self) -> Iterator[T]:
        """The turns of one loop, whose last ends when the loop is left, not when this is freed."""
        try:
            for batch in self._turns:  # noqa: UP028 - ``yield from`` would close them with the loop
                yield batch
        finally:
            self.leave()

    def leave(self) -> None:
        """End the turn that it is in; what is left of it may go on with the next."""
        if self._steps.within:
            self._turns.send(True)

    def script_ends(self) -> None:
        """End the last turn of what was taken by ``next``: no loop was left, nothing freed."""
        if get_ident() == self._thread:
            self.leave()


def _is_heard() -> bool:
    return active() is not None or bool(_own_handlers())


def iterating(task: str, iterable: Iterable[T], steps: _Steps) -> Generator[T, bool, None]:
    """The turns of :func:`iterate`; one ends at once, and is answered, where True is sent."""
    overseer = active()
    if not _is_heard():
        yield from iterable
        return
    total = _length(iterable)
    iterator = iter(iterable)
    if overseer is not None:
        overseer.waits.push({"source": task, "begins": True})
    turns = count()
    while True:
        with _inheriting(task):
            for done in turns:
                if total is not None and done <= total:
                    _publish.produce({"task": task, "progress": (done, total)})
                try:
                    # Past the total too: only the iterator knows where it ends, and what it does
                    # then.
                    with steps.around(iterator, last=done == total) as batch:
                        steps.within = True
                        try:
                            left = yield batch
                        finally:
                            steps.within = False
                except _Exhausted:
                    return
                if left:
                    break
        yield batch


@contextmanager
def _inheriting(task: str) -> Iterator[None]:
    """As ``give.inherit(task=task)``, but it may end in another thread or asyncio task."""
    var = give.inherited
    before = var.get()
    values = {**before, "task": task}
    token = var.set(values)
    try:
        yield
    finally:
        try:
            var.reset(token)
        except ValueError:  # The context it began in can't be reached, but what it inherits can.
            _restore(values, before)


def _restore(values: dict[str, Any], before: Mapping[str, Any]) -> None:
    if "task" in before:
        values["task"] = before["task"]
    else:
        del values["task"]


def _length(iterable: Iterable[object]) -> int | None:
    try:
        return len(iterable)  # type: ignore[arg-type]
    except Exception:  # An IterableDataset has a DataLoader's __len__, which raises.
        return None


class _Steps:
    """What surrounds one iteration: nothing, or a ``step`` with or without its loading.

    Args:
        task: As :func:`iterate` has it, like ``batch_size``.
        batch_size: See there.
        ignore_loading: ``None`` when steps are not reported at all.

    Attributes:
        within: Whether the script has a batch, and has not come for the next.
    """

    def __init__(self, task: str, batch_size: Any, ignore_loading: bool | None) -> None:
        self._task, self._batch_size = task, batch_size
        self.within = False
        self._ignore_loading = ignore_loading

    @contextmanager
    def around(self, iterator: Iterator[T], last: bool) -> Iterator[T]:
        """Fetch the next batch, and mark the time that the loop's body takes with it.

        Args:
            iterator: Where the batch comes from.
            last: Whether there should be none; looking for it is then not a step.
        """
        if self._ignore_loading is None:
            yield self._next(iterator)
        elif self._ignore_loading or last:
            batch = self._awaited(iterator)
            with _publish.wrap("step", task=self._task, **self._size(batch)):
                yield batch
        else:
            unknown = {"batch": None} if self._batch_size is None else {"batch_size": None}
            with _publish.wrap("step", task=self._task, **unknown) as extra:
                batch = self._awaited(iterator)
                extra.update(self._size(batch))
                yield batch

    def _awaited(self, iterator: Iterator[T]) -> T:
        """The next batch, which the script is said to wait for."""
        overseer = active()
        if overseer is None:
            return self._next(iterator)
        exhausted = False
        overseer.waits.push({"source": self._task})
        try:
            return self._next(iterator)
        except _Exhausted:
            exhausted = True
            raise
        finally:
            overseer.waits.push({"source": self._task, "exhausted": exhausted})

    def _next(self, iterator: Iterator[T]) -> T:
        """The next batch."""
        try:
            return next(iterator)
        except StopIteration:
            raise _Exhausted from None

    def _size(self, batch: Any) -> dict[str, Any]:
        size = self._batch_size
        if size is None:
            return {"batch": batch}
        if not callable(size):
            return {"batch_size": size}
        try:
            return {"batch_size": size(batch)}
        except BaseException as error:
            let_through(error)  # Else it is nothing that the script does under plain python.
            name = getattr(size, "__name__", "batch_size")
            return {"batch_size": Unsized(f"{name} raised {said(error)}")}


class _Exhausted(Exception):
    """The iterator has no more; StopIteration cannot leave a generator."""
