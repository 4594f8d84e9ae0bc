"""What scripts may use, with or without voir: ``give``, ``log``, ``app``, ``iterate``, ``profile``.

Under plain python all of them do nothing but what the script needs of them.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ContextDecorator, contextmanager, nullcontext, suppress
from contextvars import ContextVar
from functools import cache
from itertools import count

from ..boundary import StopProgram, name_of, said
from ..clock import thread_time_ns
from ..context import Own
from ..errors import Problem
from ..recorder.choice import null_span
from . import overseer as runs
from .bus import keys_in_force, numbers
from .overseer import active

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, TypeVar

    T = TypeVar("T")
    Event = dict[str, Any]

_END: Any = object()


class Give:
    """``give(key=value)``: an event for whoever instruments the script.

    The same as giving's ``give``, without importing it for keywords, blocks and inherited keys.
    """

    def __call__(self, *args: Any, **values: Any) -> Any:
        """Give an event; a single positional argument is returned."""
        if (args or not values) and (active() is not None or _own_handlers()):
            # Called from here, for it looks at the source of the caller of this function.
            values = {**_operators().named(self, args, _report), **values}
        self.produce(values)
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
        before = inherited.get()
        values = {**before, **keys}
        token = inherited.set(values)
        try:
            yield
        finally:
            try:
                inherited.reset(token)
            except ValueError:  # In another thread or asyncio task; but there are its values.
                values.clear()
                values.update(before)

    @contextmanager
    def wrap(self, name: str, **keys: Any) -> Iterator[Event]:
        """Give an event at the beginning of a block, and one at its end, as giving does.

        Args:
            name: The kind of block.
            keys: What both events have; what is put into the yielded dict, only the last has.
        """
        number = next(numbers)
        self.produce({"$wrap": {"name": name, "step": "begin", "id": number}, **keys})
        extra: Event = {}
        try:
            yield extra
        finally:
            self.produce({"$wrap": {"name": name, "step": "end", "id": number}, **keys, **extra})

    @contextmanager
    def wrap_inherit(self, name: str, **keys: Any) -> Iterator[Event]:
        """A block of which every event has ``keys``."""
        with self.inherit(**keys), self.wrap(name) as extra:
            yield extra

    def produce(self, values: Event) -> None:
        """Give an event."""
        for handler in _own_handlers():
            handler({**give.inherited.get(), **values})
        if values and (overseer := runs._active) is not None:
            overseer.bus.give(values)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(_operators().giving_give, name)


give = Give()


def _publish(values: Event) -> None:
    """Give an event of voir's own: strict operators pass over it if it lacks their key."""
    give.produce(Own(values))


def _hand(values: Event) -> None:
    """Hand such an event over that nothing is to be counted from: it is not recorded."""
    event = Own({**give.inherited.get(), **values})
    for handler in _own_handlers():
        handler(event)
    if (overseer := active()) is not None:
        overseer.bus.push(event)


@cache
def _operators() -> Any:
    """Our side of giving, which is imported if need be."""
    begun = thread_time_ns()
    from . import operators

    if (overseer := active()) is not None:
        overseer.charge(thread_time_ns() - begun)
    return operators


def _report(problem: Problem) -> None:
    if (overseer := active()) is not None:
        overseer.report(problem)


def _own_handlers() -> tuple[Callable[[Event], object], ...]:
    """Who listens by a ``given()`` of the script's own; giving is there if anybody does."""
    return _operators().own_handlers() if "giving" in sys.modules else ()


def log(*events: dict[str, Any], **values: Any) -> None:
    """Send an event straight out of the process: ``log(loss=0.5)``."""
    if (overseer := active()) is not None:
        for event in (*events, *([values] if values else ())):
            overseer.log(event)


def app(*objects: Mapping[str, Any], **values: Any) -> None:
    """Show data of the script's own with the run: ``app(dataset="digits", revision=3)``."""
    if (overseer := active()) is not None:
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
        report_batch: Also wrap each iteration in a ``step``, whose end carries the batch. It lasts
            until the next batch is asked for, the last one until the loop is left.
        ignore_loading: Leave the time spent in the iterator out of the step.
        batch_size: The number of items in a batch, or a function of the batch; without it the
            batch itself is given.
    """
    overseer = active()
    if overseer is None and not _own_handlers():
        yield from iterable
        return
    total, iterator = _length(iterable), iter(iterable)
    waits = overseer.bus.loading_site(task) if overseer is not None else nullcontext()
    empty = {"task": task, "batch" if batch_size is None else "batch_size": None}
    with give.inherit(task=task):
        for done in count():
            if total is not None and done <= total:
                _publish({"task": task, "progress": (done, total)})
            if not report_batch:
                batch = next(iterator, _END)
                if batch is _END:
                    return
                yield batch
                continue
            # Where nobody knows whether one more comes, the step begins when it has come.
            begun = early = not ignore_loading and total is not None and done < total
            number, sized = next(numbers), empty
            if early:
                _mark("begin", number, empty)
            try:
                with waits:
                    batch = next(iterator, _END)
                if batch is _END:
                    if total is None and not ignore_loading:
                        # As voir 0.2 has it: there the end is asked for within a step.
                        _mark("begin", number, empty, _hand)
                        _mark("end", number, empty, _hand)
                    return
                sized = {"task": task, **_size(batch, batch_size)}
                if not early:
                    _mark("begin", number, sized)
                    begun = True
                yield batch
            except GeneratorExit:
                begun = False
                with suppress(StopProgram):  # It has left the loop: nothing can be raised here.
                    _mark("end", number, sized)
                raise
            finally:
                if begun:
                    _mark("end", number, sized)


def _mark(end: str, number: int, values: Event, tell: Callable[[Event], None] = _publish) -> None:
    """Give one end of a step."""
    tell({"$wrap": {"name": "step", "step": end, "id": number}, **values})


def _size(batch: Any, size: Any) -> dict[str, Any]:
    """What a step's event says of its batch."""
    if size is None:
        return {"batch": batch}
    if not callable(size):
        return {"batch_size": size}
    try:
        return {"batch_size": size(batch)}
    except Exception as error:  # The script does not call it under plain python.
        what = f"{name_of(size)} raised {said(error)}: items are not known"
        _report(Problem("batch-size", "iterate", what))
        return {"batch_size": None}


def _length(iterable: Iterable[object]) -> int | None:
    try:
        return len(iterable)  # type: ignore[arg-type]
    except Exception:  # An IterableDataset has a DataLoader's __len__, which raises.
        return None


class Profile(ContextDecorator):
    """A part of the script that is traced, as a context manager or a decorator.

    Args:
        start: Begins to trace; returns what ends it.
        options: For ``start``.
    """

    def __init__(self, start: Callable[..., Callable[[], object]], *options: object) -> None:
        self._start = start
        self._options = options
        self._ends: list[Callable[[], object]] = []

    def __enter__(self) -> Profile:
        self._ends.append(self._start(*self._options))
        return self

    def __exit__(self, *error: object) -> None:
        self._ends.pop()()


def profile(level: str = "step", ms_duration: float | None = None) -> Profile:
    """Trace what runs within: ``with voir.profile(level="op", ms_duration=15000): ...``.

    Under voir it writes to the run's ``trace.pftrace``, whether ``--trace`` was given or not;
    with ``--no-trace``, and under plain python, it does nothing.

    Args:
        level: ``step``, ``module`` (every module's forward too) or ``op`` (PyTorch's operators
            and kernels too).
        ms_duration: Trace no longer than this, in milliseconds.
    """
    run = runs._active  # A call to learn it would be half of what this may cost.
    if run is None or not run.profilers:
        return null_span  # type: ignore[no-any-return]
    return Profile(run.profilers[-1], level, ms_duration)
