"""When ``torch.compile`` compiles: told by Dynamo itself, at no cost to a step that does not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from overseer.imports import on_import


class Compiling:
    """Says each time that Dynamo has compiled something, until closed.

    A version of torch that does not tell of it is let be: long steps are long steps there.

    Args:
        compiled: Called on the thread that compiled, when it is done.
    """

    def __init__(self, compiled: Callable[[], object]) -> None:
        self._tell = compiled
        self._told: list[Any] = []
        self._watch = on_import("torch._dynamo.callback", self._imported)

    def _imported(self, module: Any) -> None:
        told = getattr(getattr(module, "callback_handler", None), "end_callbacks", None)
        if isinstance(told, list):
            told.append(self._ended)
            self._told = told

    def _ended(self, about: Any) -> None:
        self._tell()

    def close(self) -> None:
        """Listen no more."""
        self._watch.dispose()
        if self._ended in self._told:
            self._told.remove(self._ended)
