"""``voir.profile``: trace a part of a script, from within; nothing under plain python."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from ..nothing import nothing

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, TypeVar

    F = TypeVar("F", bound=Callable[..., Any])

Start = Callable[..., Callable[[], object]]
#: Begins to trace; ``None`` when nothing is to be traced. The first thing that is looked at: a call
#: to learn it would be half of what this may cost.
_start: Start | None = None


class Profile:
    """A part of the script that is traced, as a context manager or a decorator.

    Args:
        start: Begins to trace; returns what ends it.
        options: For ``start``.
    """

    def __init__(self, start: Start, options: dict[str, Any]) -> None:
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
    if _start is None:
        return nothing  # type: ignore[no-any-return]
    options = {"level": level, "ms_duration": ms_duration, "steps": steps}
    return Profile(_start, {**options, "skip": skip, "every": every, "rank": rank})


@contextmanager
def profiling_by(start: Start) -> Iterator[None]:
    """Have :func:`profile` trace by ``start``, which returns what ends it."""
    global _start
    before, _start = _start, start
    try:
        yield
    finally:
        _start = before
