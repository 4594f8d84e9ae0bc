"""Watching modules as they are imported: called back after they ran, or with their source before.

Nothing is imported here on anybody's behalf. A watched module is found by the finders that would
have found it, its loader does all it would have done (byte-code cache included), and keeps its
place in ``__spec__`` and ``__loader__``; only the execution of the module's code is stepped into,
through an attribute of that one loader instance, which is gone once the module has run. What has no
code of its own (namespace packages, modules built into python) is not watched.
"""

from __future__ import annotations

import importlib.machinery
import os
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
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
    """Something that waits for a module; ``dispose()`` makes it stop, harmless when done twice."""

    def __init__(self, dispose: Callable[[], object]) -> None:
        self.dispose = dispose


def on_import(name: str, callback: Callback) -> Watch:
    """Call ``callback(module)`` once ``name`` has finished executing; at once if it has.

    The callback is called at most once. What it raises ends nothing, because the import belongs to
    the script: whoever wants to know is told by :func:`tell_failures`.
    """
    if _is_there(name):
        callback(sys.modules[name])
        return Watch(lambda: None)
    watch = _watcher.add(_watcher.callbacks, name, callback)
    if _is_there(name):
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


def _is_there(name: str) -> bool:
    module = sys.modules.get(name)
    spec = getattr(module, "__spec__", None)
    return module is not None and not getattr(spec, "_initializing", False)


class _Watcher:
    """The one finder on ``sys.meta_path``; it is there only while something is waited for."""

    def __init__(self) -> None:
        self.callbacks: dict[str, list[Any]] = {}
        self.transforms: dict[str, list[Any]] = {}
        self.told: list[Callable[[str, Exception], object]] = []
        self.renew_lock()

    def renew_lock(self) -> None:
        """Make the lock anew: when a process forked, another thread may have held the old one."""
        self.lock = threading.RLock()

    def add(self, table: dict[str, list[Any]], name: str, item: Any) -> Watch:
        with self.lock:
            table.setdefault(name, []).append(item)
            if self not in sys.meta_path:
                sys.meta_path.insert(0, self)
        return Watch(lambda: self._remove(table, name, item))

    def _remove(self, table: dict[str, list[Any]], name: str, item: Any) -> bool:
        """Take out what waits; whether it did."""
        with self.lock:
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
            spec = find(name, path, target) if find and finder is not self else None
            if spec is not None:
                _step_into(spec)
                return spec
        return None

    def loaded(self, name: str) -> None:
        """Call back whoever waits for ``name``, each once; also who begins to wait meanwhile."""
        while waiting := tuple(self.callbacks.get(name, ())):
            try:
                if self._remove(self.callbacks, name, waiting[0]):
                    waiting[0](sys.modules[name])
            except Exception as error:
                for tell in tuple(self.told):
                    tell(name, error)


_watcher = _Watcher()
os.register_at_fork(after_in_child=_watcher.renew_lock)


def _step_into(spec: importlib.machinery.ModuleSpec) -> None:
    """Make the loader of ``spec`` run the module through :func:`_execute`, once."""
    loader: Any = spec.loader
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
    with suppress(AttributeError, TypeError):  # A class, as for modules built in, or it has slots.
        loader.__dict__["exec_module"] = exec_module


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
    base = importlib.machinery.SourceFileLoader.exec_module
    if getattr(type(loader), "exec_module", None) is not base:
        return None  # It may execute something else than what its ``get_code`` returns.
    code = loader.get_code(name)
    try:
        # As bytes, so that its encoding is the compiler's business; those of a .pyc are no source.
        source = loader.get_data(loader.get_filename(name))
        file = code.co_filename
        tree: Any = compile(source, file, "exec", ast.PyCF_ONLY_AST, dont_inherit=True)
        if compile(tree, file, "exec", dont_inherit=True) != code:
            return None  # Some other tool has changed this code; source and code differ.
        before = tree
        for transform in list(transforms):
            tree = transform(tree, name, file)
        return None if tree is before else compile(tree, file, "exec", dont_inherit=True)
    except Exception:
        return None
