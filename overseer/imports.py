"""Watching modules as they are imported: called back after they ran, or with their source before.

Nothing is imported here on anybody's behalf. A watched module is found by the finders that would
have found it, its loader does all it would have done (byte-code cache included), and keeps its
place in ``__spec__`` and ``__loader__``; only the execution of the module's code is stepped into,
through an attribute of that one loader instance, which is gone once the module has run.
"""

from __future__ import annotations

import importlib.machinery
import os
import sys
import threading
from collections.abc import Callable
from types import CodeType, ModuleType

TYPE_CHECKING = False
if TYPE_CHECKING:
    import ast
    from typing import Any
else:
    import _ast as ast  # Of the rest of ast nothing is used here, and it takes 3 ms to import.

Callback = Callable[[ModuleType], object]
#: Called with the syntax tree, the module's name and its filename; returns the tree to run.
Transform = Callable[[ast.Module, str, str], ast.Module]


class Watch:
    """Something that waits for a module; ``dispose`` makes it stop waiting."""

    __slots__ = ("_dispose",)

    def __init__(self, dispose: Callable[[], object]) -> None:
        self._dispose = dispose

    def dispose(self) -> None:
        """Stop waiting; harmless when done twice."""
        self._dispose()


def on_import(name: str, callback: Callback) -> Watch:
    """Call ``callback(module)`` once ``name`` has finished executing; at once if it has.

    The callback is called at most once. What it raises ends nothing, because the import belongs to
    the script: whoever wants to know is told by :func:`tell_failures`.
    """
    module = sys.modules.get(name)
    if module is not None and not _initializing(module):
        callback(module)
        return Watch(lambda: None)
    watch = _watcher.add(_watcher.callbacks, name, callback)
    module = sys.modules.get(name)
    if module is not None and not _initializing(module):
        _watcher.loaded(name)  # Another thread has imported it in this very moment.
    return watch


def tell_failures(tell: Callable[[str, Exception], object]) -> Watch:
    """Call ``tell(name, error)`` when a callback raises ``error`` as ``name`` is imported."""
    _watcher.told.append(tell)
    return Watch(lambda: _watcher.told.remove(tell) if tell in _watcher.told else None)


def transform_source(name: str, transform: Transform) -> Watch:
    """Let ``transform`` change the syntax tree of ``name`` each time it is executed from source.

    A module without source, or whose loader makes its code some other way than by compiling that
    source, runs as it is.
    """
    return _watcher.add(_watcher.transforms, name, transform)


def _initializing(module: ModuleType) -> bool:
    return bool(getattr(getattr(module, "__spec__", None), "_initializing", False))


class _Watcher:
    """The one finder on ``sys.meta_path``; it is there only while something is waited for."""

    def __init__(self) -> None:
        self.callbacks: dict[str, list[Any]] = {}
        self.transforms: dict[str, list[Any]] = {}
        self.told: list[Callable[[str, Exception], object]] = []
        self._lock = threading.RLock()

    def add(self, table: dict[str, list[Any]], name: str, item: Any) -> Watch:
        with self._lock:
            table.setdefault(name, []).append(item)
            if self not in sys.meta_path:
                sys.meta_path.insert(0, self)
        return Watch(lambda: self._remove(table, name, item))

    def _remove(self, table: dict[str, list[Any]], name: str, item: Any) -> bool:
        """Take out what waits; whether it did."""
        with self._lock:
            waiting = table.get(name, [])
            waits = item in waiting
            if waits:
                waiting.remove(item)
            if not waiting:
                table.pop(name, None)
            if not self.callbacks and not self.transforms and self in sys.meta_path:
                sys.meta_path.remove(self)
        return waits

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        """Find a watched module the way it would have been found, and step into its loading."""
        if name not in self.callbacks and name not in self.transforms:
            return None
        for finder in list(sys.meta_path):
            find = getattr(finder, "find_spec", None)
            if finder is self or find is None:
                continue
            spec = find(name, path, target)
            if spec is not None:
                _step_into(spec)
                return spec
        return None

    def loaded(self, name: str) -> None:
        """Call back whoever waits for ``name``, each once; also who begins to wait meanwhile."""
        while waiting := tuple(self.callbacks.get(name, ())):
            callback = waiting[0]
            try:
                if self._remove(self.callbacks, name, callback):
                    callback(sys.modules[name])
            except Exception as error:
                for tell in tuple(self.told):
                    tell(name, error)


_watcher = _Watcher()


def _after_fork() -> None:
    _watcher._lock = threading.RLock()  # Another thread may have held the old one.


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def _step_into(spec: importlib.machinery.ModuleSpec) -> None:
    """Make the loader of ``spec`` run the module through :func:`_execute`, once."""
    loader: Any = spec.loader
    if loader is None:
        spec.loader = _NamespaceStep()  # type: ignore[assignment]
        return
    original = getattr(loader, "exec_module", None)
    if original is None or getattr(original, "__voir_step__", False):
        return

    def exec_module(module: ModuleType) -> None:
        if module.__name__ != spec.name:  # A zip archive has one loader for all of its modules.
            original(module)
            return
        loader.__dict__.pop("exec_module", None)
        _execute(module, loader, original)
        _watcher.loaded(spec.name)

    exec_module.__voir_step__ = True  # type: ignore[attr-defined]
    try:
        loader.__dict__["exec_module"] = exec_module
    except (AttributeError, TypeError):
        # The loader is a class, as for built-in and frozen modules, or has slots.
        spec.loader = _Relay(spec, loader)  # type: ignore[assignment]


class _Relay:
    """Stands in for a loader that takes no attributes, until the module is executed."""

    def __init__(self, spec: importlib.machinery.ModuleSpec, loader: Any) -> None:
        self._spec = spec
        self._loader = loader

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)

    def exec_module(self, module: ModuleType) -> None:
        """Put the true loader back, let it work, call back."""
        self._spec.loader = module.__loader__ = self._loader
        self._loader.exec_module(module)
        _watcher.loaded(self._spec.name)


class _NamespaceStep:
    """Stands in for the loader that a namespace package does not have while it is imported."""

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> None:
        """Let the import system create the module."""

    def exec_module(self, module: ModuleType) -> None:
        """Put everything as the import system would have, then call back."""
        from importlib import _bootstrap

        spec = module.__spec__
        assert spec is not None
        spec.loader = None
        _bootstrap._init_module_attrs(spec, module, override=True)
        _watcher.loaded(spec.name)


def _execute(module: ModuleType, loader: Any, original: Callable[[ModuleType], None]) -> None:
    """Run ``module``, through the transforms that wait for it if its source allows."""
    transforms = _watcher.transforms.get(module.__name__)
    changed = _changed_code(module.__name__, loader, transforms) if transforms else None
    if changed is None:
        original(module)
    else:
        exec(changed, module.__dict__)


def _changed_code(name: str, loader: Any, transforms: list[Transform]) -> CodeType | None:
    """The module's code after ``transforms``; ``None`` when it has to run as it is."""
    if not _stock(loader):
        return None
    code = loader.get_code(name)
    source = _source(loader, name)
    if code is None or source is None:
        return None
    try:
        tree: Any = compile(source, code.co_filename, "exec", ast.PyCF_ONLY_AST, dont_inherit=True)
        if compile(tree, code.co_filename, "exec", dont_inherit=True) != code:
            return None  # Some other tool has changed this code; source and code differ.
        before = tree
        for transform in list(transforms):
            tree = transform(tree, name, code.co_filename)
        if tree is before:
            return None
        changed: CodeType = compile(tree, code.co_filename, "exec", dont_inherit=True)
        return changed
    except Exception:
        return None


def _stock(loader: Any) -> bool:
    """Whether this loader executes the code that its ``get_code`` returns, and nothing else."""
    base = importlib.machinery.SourceFileLoader.exec_module
    return getattr(type(loader), "exec_module", None) is base


def _source(loader: Any, name: str) -> bytes | str | None:
    """The source: its bytes for choice, so that its encoding is the compiler's business."""
    try:
        source: bytes | str = loader.get_data(loader.get_filename(name))
        if loader.get_filename(name).endswith((".pyc", ".pyo")):
            return None
        return source
    except Exception:
        return None


__all__ = ["Watch", "on_import", "transform_source"]
