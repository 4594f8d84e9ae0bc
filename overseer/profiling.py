"""``voir.profile``: trace a part of a script, from within; nothing under plain python."""

from __future__ import annotations

from collections.abc import Callable
from itertools import repeat
from typing import Any, TypeVar

from . import overseer as engine

F = TypeVar("F", bound=Callable[..., Any])


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


class NoProfile:
    """What there is to trace without a run of voir's: nothing."""

    __slots__ = ()

    def __call__(self, function: F, /) -> F:
        """The function as it is."""
        return function


_none: Any = NoProfile()
# Built in C, and no descriptors, so that entering and leaving runs no Python at all.
NoProfile.__enter__ = repeat(_none).__next__  # type: ignore[attr-defined]
NoProfile.__exit__ = "".format  # type: ignore[attr-defined]


def profile(
    level: str = "step", ms_duration: float | None = None, steps: str | None = None
) -> Profile:
    """Trace what runs within: ``with voir.profile(level="op", ms_duration=15000): ...``.

    Under voir it writes to the run's ``trace.pftrace``, whether ``--trace`` was given or not.

    Args:
        level: ``step``, ``module`` (every module's forward too) or ``op`` (PyTorch's operators
            and kernels too).
        ms_duration: Trace no longer than this, in milliseconds.
        steps: ``A:B``: trace only these steps, counted from the beginning of the block.
    """
    overseer = engine._active  # Not active(): a call more would be half of what this may cost.
    if overseer is None or overseer.profiling is None:
        return _none  # type: ignore[no-any-return]
    options = {"level": level, "ms_duration": ms_duration, "steps": steps}
    return Profile(overseer.profiling, options)
