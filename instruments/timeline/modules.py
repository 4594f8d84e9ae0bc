"""A span for each forward of an ``nn.Module``, under the name that its model knows it by."""

from __future__ import annotations

from collections.abc import Callable
from fnmatch import fnmatchcase
from threading import get_ident, main_thread
from typing import Any
from weakref import WeakKeyDictionary

from overseer import Overseer
from overseer.imports import on_import
from overseer.trace.emit import Channel, channel

#: Where PyTorch's modules live, and its hooks for all of them.
TORCH = "torch.nn.modules.module"


class Modules:
    """Hooks that PyTorch has for every module; in place from when the script imports them.

    Args:
        ov: The run.
        pattern: Of the names of modules, or of their classes, that are recorded.
        called: Told before each module is called on the main thread.
    """

    def __init__(self, ov: Overseer, pattern: str, called: Callable[[], object]) -> None:
        self._pattern, self._called = pattern, called
        self._main = main_thread().ident
        self._channel: Channel = channel("modules")
        self._names: WeakKeyDictionary[Any, str] = WeakKeyDictionary()
        self._handles: list[Any] = []
        self._watch = on_import("torch", self._imported)

    def _imported(self, torch: Any) -> None:
        register = torch.nn.modules.module
        self._handles.append(register.register_module_forward_pre_hook(self._enter))
        leave = register.register_module_forward_hook
        try:
            self._handles.append(leave(self._leave, always_call=True))
        except TypeError:  # Before PyTorch 2.1: a forward that raises is ended by the next one.
            self._handles.append(leave(self._leave))

    def close(self) -> None:
        """Take the hooks out."""
        self._watch.dispose()
        for handle in self._handles:
            handle.remove()
        self._handles.clear()

    def _enter(self, module: Any, inputs: Any) -> None:
        if get_ident() == self._main:
            self._called()
        name = self._name(module)
        if name:
            self._channel.begin(name, module=type(module).__name__)

    def _leave(self, module: Any, inputs: Any, output: Any) -> None:
        name = self._name(module)
        if name:
            self._channel.end(name)

    def _name(self, module: Any) -> str:
        """Its name in the outermost model it was called in; empty when it is not recorded."""
        known = self._names.get(module)
        if known is None:
            root = type(module).__name__
            for path, inner in module.named_modules():
                name = f"{root}.{path}" if path else root
                if inner not in self._names:
                    self._names[inner] = name if self._matches(name, inner) else ""
            known = self._names[module]
        return known

    def _matches(self, name: str, module: Any) -> bool:
        kind = type(module).__name__
        return fnmatchcase(name, self._pattern) or fnmatchcase(kind, self._pattern)
