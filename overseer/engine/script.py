"""What scripts may use, with or without voir: ``give``, ``log``, ``app``, ``iterate``, ``profile``.

Under plain python all of them do nothing but what the script needs of them.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from contextvars import ContextVar
from itertools import count

from ..boundary import StopProgram, let_through, said
from ..errors import Problem
from ..nothing import nothing
from . import overseer as runs
from .bus import Own, keys_in_force, numbers
from .overseer import active

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, TypeVar

    F = TypeVar("F", bound=Callable[..., Any])
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


class _Hand(_Publish):
    """Hands events over that nothing is to be counted from: they are not recorded."""

    def produce(self, values: dict[str, Any]) -> None:
        """Hand an event over."""
        _hand(values, _own_handlers())
        if (overseer := active()) is not None:
            overseer.bus.push(Own({**give.inherited.get(), **values}))


_publish, _handing = _Publish(), _Hand()


def _with_giving() -> Any:
    """Our side of giving, which is imported if need be."""
    global _loaded
    if _loaded is None:
        overseer = active()
        began = overseer.clock.cpu_ns() if overseer is not None else 0
        from . import operators

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
    with _inheriting(task):
        for done in count():
            if total is not None and done <= total:
                _publish.produce({"task": task, "progress": (done, total)})
            if not report_batch:
                batch = next(iterator, _END)
                if batch is _END:
                    return
                yield batch
                continue
            # Where nobody knows whether one more comes, the step begins when it has come.
            early = not ignore_loading and total is not None and done < total
            nothing = {"batch" if batch_size is None else "batch_size": None}
            step = _publish.wrap("step", task=task, **(nothing if early else {}))
            extra = step.__enter__() if early else {}
            try:
                with waits:
                    batch = next(iterator, _END)
                if batch is _END:
                    if total is None and not ignore_loading:
                        with _handing.wrap("step", task=task, **nothing):
                            pass  # As voir 0.2 has it: there the end is asked for within a step.
                    return
                sized = _size(batch, batch_size)
                if early:
                    extra.update(sized)
                else:
                    step = _publish.wrap("step", task=task, **sized)
                    step.__enter__()
                    early = True
                yield batch
            except GeneratorExit:
                with suppress(StopProgram):  # It has left the loop: nothing can be raised here.
                    step.__exit__(None, None, None)
                early = False
                raise
            finally:
                if early:
                    step.__exit__(None, None, None)


_END: Any = object()


def _size(batch: Any, size: Any) -> dict[str, Any]:
    """What a step's event says of its batch."""
    if size is None:
        return {"batch": batch}
    if not callable(size):
        return {"batch_size": size}
    try:
        return {"batch_size": size(batch)}
    except BaseException as error:
        let_through(error)  # Else it is nothing that the script does under plain python.
        name = getattr(size, "__name__", "batch_size")
        what = f"{name} raised {said(error)}: items are not known"
        _report(Problem("batch-size", "iterate", what))
        return {"batch_size": None}


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
            values.pop("task")
            values.update(before)


def _length(iterable: Iterable[object]) -> int | None:
    try:
        return len(iterable)  # type: ignore[arg-type]
    except Exception:  # An IterableDataset has a DataLoader's __len__, which raises.
        return None


class Profile:
    """A part of the script that is traced, as a context manager or a decorator.

    Args:
        start: Begins to trace; returns what ends it.
        options: For ``start``.
    """

    def __init__(self, start: Callable[..., Callable[[], object]], options: dict[str, Any]) -> None:
        self._start = start
        self._options = options
        self._ends: list[Callable[[], object]] = []

    def __enter__(self) -> Profile:
        self._ends.append(self._start(**self._options))
        return self

    def __exit__(self, *error: object) -> None:
        self._ends.pop()()

    def __call__(self, function: F, /) -> F:
        """Trace each call of ``function``."""
        from functools import wraps

        @wraps(function)
        def traced(*args: Any, **kwargs: Any) -> Any:
            with self:
                return function(*args, **kwargs)

        return traced  # type: ignore[return-value]


def profile(
    level: str = "step",
    ms_duration: float | None = None,
    steps: str | int | None = None,
    skip: int = 0,
    every: int = 1,
    rank: int | None = None,
) -> Profile:
    """Trace what runs within: ``with voir.profile(level="op", ms_duration=15000): ...``.

    Under voir it writes to the run's ``trace.pftrace``, whether ``--trace`` was given or not;
    with ``--no-trace``, and under plain python, it does nothing.

    Args:
        level: ``step``, ``module`` (every module's forward too) or ``op`` (PyTorch's operators
            and kernels too).
        ms_duration: Trace no longer than this, in milliseconds.
        steps: Trace only these steps, counted from the beginning of the block: ``"A:B"``, or how
            many after ``skip``.
        skip: Steps to leave out first.
        every: Trace one step in so many.
        rank: Trace in the process of this rank only.
    """
    run = runs._active  # A call to learn it would be half of what this may cost.
    if run is None or run.profiler is None:
        return nothing  # type: ignore[no-any-return]
    options = {"level": level, "ms_duration": ms_duration, "steps": steps}
    return Profile(run.profiler, {**options, "skip": skip, "every": every, "rank": rank})
