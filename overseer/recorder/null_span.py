"""The span that is used when nothing is traced."""

from __future__ import annotations

from collections.abc import Callable
from weakref import ref

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, TypeVar

    F = TypeVar("F", bound=Callable[..., Any])


class NullSpan:
    """A context manager and decorator that does nothing, as fast as Python can."""

    __slots__ = ("__weakref__",)

    def __call__(self, function: F, /) -> F:
        """The function as it is."""
        return function


null_span: Any = NullSpan()
# Built in C, taking their arguments as they are, and no descriptors: entering and leaving runs no
# Python at all. The second makes an empty dictionary of anything, so that no error is held back.
NullSpan.__enter__ = ref(null_span)  # type: ignore[attr-defined]
NullSpan.__exit__ = type.__prepare__  # type: ignore[attr-defined]
