"""The functions that scripts may call: ``give``, ``log``, ``app``, ``iterate`` and ``profile``.

Without voir they only do what the script itself depends on.
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
from .bus import inherited_keys, numbers
from .overseer import active

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, TypeVar

    T = TypeVar("T")
    Event = dict[str, Any]

_END: Any = object()


class Give:
    """``give(key=value)``: give an event to instruments.

    Compatible with giving's ``give``; keywords, blocks and inherited keys work without giving.
    """

    def __call__(self, *args: Any, **values: Any) -> Any:
        """Give an event; return the argument if it is a single positional one."""
        if (args or not values) and (active() is not None or _own_handlers()):
            # Called from this frame, because it reads the source of this function's caller.
            values = {**_operators().named(self, args, _report), **values}
        self.produce(values)
        return args[0] if len(args) == 1 else None

    @property
    def inherited(self) -> ContextVar[dict[str, Any]]:
        """The context variable that holds inherited keys."""
        if (overseer := active()) is not None:
            overseer.bus.enable_inheritance()
        return inherited_keys

    @contextmanager
    def inherit(self, **keys: Any) -> Iterator[None]:
        """Add ``keys`` to every event in the block, unless the event has them."""
        inherited = self.inherited
        before = inherited.get()
        values = {**before, **keys}
        token = inherited.set(values)
        try:
            yield
        finally:
            try:
                inherited.reset(token)
            except ValueError:  # Closed in another context, which shares the dict.
                values.clear()
                values.update(before)

    @contextmanager
    def wrap(self, name: str, **keys: Any) -> Iterator[Event]:
        """Give an event at the start of a block and one at its end, as giving does.

        Args:
            name: The kind of block.
            keys: Keys of both events; what is put into the yielded dict is added to the last one.
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
        """As :meth:`wrap`, with ``keys`` added to every event in the block."""
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
    """Give an event of voir's own; strict operators skip it if it lacks their key."""
    give.produce(Own(values))


def _publish_unrecorded(values: Event) -> None:
    """As :func:`_publish`, without recording the event."""
    event = Own({**give.inherited.get(), **values})
    for handler in _own_handlers():
        handler(event)
    if (overseer := active()) is not None:
        overseer.bus.push(event)


@cache
def _operators() -> Any:
    """The module of giving's operators; imports giving on first use."""
    begun = thread_time_ns()
    from . import operators

    if (overseer := active()) is not None:
        overseer.charge(thread_time_ns() - begun)
    return operators


def _report(problem: Problem) -> None:
    if (overseer := active()) is not None:
        overseer.report(problem)


def _own_handlers() -> tuple[Callable[[Event], object], ...]:
    """Subscribers of the script's own ``given()`` blocks; empty unless giving is imported."""
    return _operators().own_handlers() if "giving" in sys.modules else ()


def log(*events: dict[str, Any], **values: Any) -> None:
    """Send an event out of the process directly: ``log(loss=0.5)``."""
    if (overseer := active()) is not None:
        for event in (*events, *([values] if values else ())):
            overseer.log(event)


def app(*objects: Mapping[str, Any], **values: Any) -> None:
    """Show the script's own data with the run: ``app(dataset="digits", revision=3)``."""
    if (overseer := active()) is not None:
        overseer.app(*objects, **values)


def iterate(
    task: str,
    iterable: Iterable[T],
    report_batch: bool = False,
    ignore_loading: bool = False,
    batch_size: int | Callable[[T], int] | None = None,
) -> Iterator[T]:
    """Iterate, and report the position to voir in ``progress`` events under ``task``.

    Args:
        task: Name of this loop's work, for example ``train``.
        iterable: The iterable; its length, if it has one, is the total.
        report_batch: Wrap each iteration in a ``step``, whose end carries the batch. The step lasts
            until the next batch is requested, the last step until the loop is left.
        ignore_loading: Exclude the time spent in the iterator from the step.
        batch_size: Number of items in a batch, or a function of the batch that returns it. By
            default the event carries the batch itself.
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
            # If the length is unknown, the step begins when the batch has arrived.
            begun = early = not ignore_loading and total is not None and done < total
            number, sized = next(numbers), empty
            if early:
                _mark("begin", number, empty)
            try:
                with waits:
                    batch = next(iterator, _END)
                if batch is _END:
                    if total is None and not ignore_loading:
                        # As in voir 0.2, where the end of the iterable is found inside a step.
                        _mark("begin", number, empty, _publish_unrecorded)
                        _mark("end", number, empty, _publish_unrecorded)
                    return
                sized = {"task": task, **_size(batch, batch_size)}
                if not early:
                    _mark("begin", number, sized)
                    begun = True
                yield batch
            except GeneratorExit:
                begun = False
                with suppress(StopProgram):  # The generator is closed: it cannot raise in the loop.
                    _mark("end", number, sized)
                raise
            finally:
                if begun:
                    _mark("end", number, sized)


def _mark(end: str, number: int, values: Event, give: Callable[[Event], None] = _publish) -> None:
    """Give one end of a step."""
    give({"$wrap": {"name": "step", "step": end, "id": number}, **values})


def _size(batch: Any, size: Any) -> dict[str, Any]:
    """The entry for the batch in a step's event."""
    if size is None:
        return {"batch": batch}
    if not callable(size):
        return {"batch_size": size}
    try:
        return {"batch_size": size(batch)}
    except Exception as error:  # Plain Python does not call it, so it must not end the script.
        what = f"{name_of(size)} raised {said(error)}: items are not known"
        _report(Problem("batch-size", "iterate", what))
        return {"batch_size": None}


def _length(iterable: Iterable[object]) -> int | None:
    try:
        return len(iterable)  # type: ignore[arg-type]
    except Exception:  # A DataLoader over an IterableDataset has a __len__ that raises.
        return None


class Profile(ContextDecorator):
    """Traces a part of the script; a context manager and decorator.

    Args:
        start: Starts tracing; returns the function that ends it.
        options: Arguments for ``start``.
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
    """Trace the block: ``with voir.profile(level="op", ms_duration=15000): ...``.

    Under voir it writes to the run's ``trace.pftrace``, with or without ``--trace``. With
    ``--no-trace``, and under plain Python, it does nothing.

    Args:
        level: ``step``, ``module`` (adds the forward of every module) or ``op`` (adds PyTorch's
            operators and kernels).
        ms_duration: Maximum duration in milliseconds.
    """
    run = runs._active  # Read directly: calling active() would take half of the time allowed here.
    if run is None or not run.profilers:
        return null_span  # type: ignore[no-any-return]
    return Profile(run.profilers[-1], level, ms_duration)
