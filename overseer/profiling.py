"""``voir.profile``: trace a part of a script, from within; nothing under plain python."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from .overseer import active

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

    def __enter__(self) -> NoProfile:
        return self

    def __exit__(self, *error: object) -> None:
        pass

    def __call__(self, function: F, /) -> F:
        """The function as it is."""
        return function


_none = NoProfile()


def profile(
    level: str = "step", ms_duration: float | None = None, steps: str | None = None
) -> Profile | NoProfile:
    """Trace what runs within: ``with voir.profile(level="op", ms_duration=15000): ...``.

    Under voir it writes to the run's ``trace.pftrace``, whether ``--trace`` was given or not.

    Args:
        level: ``step``, ``module`` (every module's forward too) or ``op`` (PyTorch's operators
            and kernels too).
        ms_duration: Trace no longer than this, in milliseconds.
        steps: ``A:B``: trace only these steps, counted from the beginning of the block.
    """
    overseer = active()
    if overseer is None or overseer.profiling is None:
        return _none
    options = {"level": level, "ms_duration": ms_duration, "steps": steps}
    return Profile(overseer.profiling, options)
