"""Selects the recorder: the C extension or the fallback. Defines a span that records nothing."""

from __future__ import annotations

import os
from collections.abc import Callable
from weakref import ref

from .sites import FORMAT

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, TypeVar

    F = TypeVar("F", bound=Callable[..., Any])


def _chosen() -> tuple[Any, str]:
    """Import the recorder; returns the module, and why it is the fallback, or an empty string."""
    from importlib import import_module

    why = ""
    if os.environ.get("VOIR_RECORDER") == "python":
        why = "VOIR_RECORDER=python"
    else:
        try:
            made = import_module(f"{__package__}._recorder")
            if made.FORMAT == FORMAT:
                return made, ""
            why = f"the C extension is of format {made.FORMAT}, voir of {FORMAT}"
        except ImportError as error:
            why = f"the C extension is not there: {error}"
    return import_module(f"{__package__}.fallback"), why


recorder: Any
recorder, reason = _chosen()


class NullSpan:
    """A context manager and decorator that does nothing, as fast as Python can."""

    __slots__ = ("__weakref__",)

    def __call__(self, function: F, /) -> F:
        """Return ``function`` unchanged."""
        return function


null_span: Any = NullSpan()
# C callables that are not descriptors: entering and leaving runs no Python code. The second returns
# an empty dictionary for any arguments; it is false, so exceptions propagate.
NullSpan.__enter__ = ref(null_span)  # type: ignore[attr-defined]
NullSpan.__exit__ = type.__prepare__  # type: ignore[attr-defined]
