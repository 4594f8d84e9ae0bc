"""Watches imports: calls back after a module has run, or changes its source before it runs.

This module imports nothing itself. The usual finders find a watched module, and its loader works as
usual (byte-code cache included) and stays in ``__spec__`` and ``__loader__``. Only the execution of
the module's code is intercepted, through an attribute of that loader instance that is removed once
the module has run. Modules without code (namespace packages, built-in modules) are not watched.
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
    import _ast as ast  # Importing all of ast takes 3 ms.

Callback = Callable[[ModuleType], object]
#: Receives the syntax tree, the module's name and its file name; returns the tree to run.
Transform = Callable[[ast.Module, str, str], ast.Module]


class Watch:
    """A pending callback or transform; ``dispose()`` cancels it and may be called twice."""

    def __init__(self, dispose: Callable[[], object]) -> None:
        self.dispose = dispose


def on_import(name: str, callback: Callback) -> Watch:
    """Call ``callback(module)`` once ``name`` has been executed; at once if it has been.

    The callback is called at most once. Its exceptions do not reach the script's import; they are
    passed to the functions registered with :func:`on_failure`.
    """
    if is_imported(name):
        callback(sys.modules[name])
        return Watch(lambda: None)
    watch = _watcher.add(_watcher.callbacks, name, callback)
    if is_imported(name):
        _watcher.loaded(name)  # Another thread has just imported it.
    return watch


def on_failure(report: Callable[[str, Exception], object]) -> Watch:
    """Call ``report(name, error)`` when a callback raises ``error`` while ``name`` is imported."""
    _watcher.reports.append(report)
    return Watch(lambda: _watcher.reports.remove(report) if report in _watcher.reports else None)


def transform_source(name: str, transform: Transform) -> Watch:
    """Let ``transform`` change the syntax tree of ``name`` each time it is executed from source.

    Modules without source, and modules whose loader does not compile that source, run unchanged.
    """
    return _watcher.add(_watcher.transforms, name, transform)


def is_imported(name: str) -> bool:
    """Whether a module has been executed."""
    module = sys.modules.get(name)
    spec = getattr(module, "__spec__", None)
    return module is not None and not getattr(spec, "_initializing", False)


class _Watcher:
    """The finder on ``sys.meta_path``; installed only while callbacks or transforms are pending."""

    def __init__(self) -> None:
        self.callbacks: dict[str, list[Any]] = {}
        self.transforms: dict[str, list[Any]] = {}
        self.reports: list[Callable[[str, Exception], object]] = []
        self.renew_lock()

    def renew_lock(self) -> None:
        """Replace the lock: another thread may have held it when the process forked."""
        self.lock = threading.RLock()

    def add(self, table: dict[str, list[Any]], name: str, item: Any) -> Watch:
        with self.lock:
            table.setdefault(name, []).append(item)
            if self not in sys.meta_path:
                sys.meta_path.insert(0, self)
        return Watch(lambda: self._remove(table, name, item))

    def _remove(self, table: dict[str, list[Any]], name: str, item: Any) -> bool:
        """Remove a pending item; return whether it was pending."""
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
        """Find a watched module with the other finders, and intercept its execution."""
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
        """Run the callbacks for ``name``, each once, including those added meanwhile."""
        while waiting := tuple(self.callbacks.get(name, ())):
            try:
                if self._remove(self.callbacks, name, waiting[0]):
                    waiting[0](sys.modules[name])
            except Exception as error:
                for report in tuple(self.reports):
                    report(name, error)


_watcher = _Watcher()
os.register_at_fork(after_in_child=_watcher.renew_lock)


def _step_into(spec: importlib.machinery.ModuleSpec) -> None:
    """Make the loader of ``spec`` run the module through :func:`_execute`, once."""
    loader: Any = spec.loader
    original = getattr(loader, "exec_module", None)
    if original is None or getattr(original, "__voir_step__", False):
        return

    def exec_module(module: ModuleType) -> None:
        if module.__name__ != spec.name:  # The modules of a zip archive share one loader.
            original(module)
            return
        loader.__dict__.pop("exec_module", None)
        _execute(module, loader, original)
        _watcher.loaded(spec.name)

    exec_module.__voir_step__ = True  # type: ignore[attr-defined]
    with suppress(AttributeError, TypeError):  # Some have slots or are classes.
        loader.__dict__["exec_module"] = exec_module


def _execute(module: ModuleType, loader: Any, original: Callable[[ModuleType], None]) -> None:
    """Run ``module``, with its pending transforms if its source allows that."""
    transforms = _watcher.transforms.get(module.__name__)
    changed = _changed_code(module.__name__, loader, transforms) if transforms else None
    if changed is None:
        original(module)
    else:
        exec(changed, module.__dict__)


def _changed_code(name: str, loader: Any, transforms: list[Transform]) -> CodeType | None:
    """The module's code after ``transforms``; ``None`` if it must run unchanged."""
    base = importlib.machinery.SourceFileLoader.exec_module
    if getattr(type(loader), "exec_module", None) is not base:
        return None  # It may execute something other than ``get_code`` returns.
    code = loader.get_code(name)
    try:
        # Bytes, so that the compiler handles the encoding; those of a .pyc file are not source.
        source = loader.get_data(loader.get_filename(name))
        file = code.co_filename
        tree: Any = compile(source, file, "exec", ast.PyCF_ONLY_AST, dont_inherit=True)
        if compile(tree, file, "exec", dont_inherit=True) != code:
            return None  # Another tool has changed this code: source and code differ.
        before = tree
        for transform in list(transforms):
            tree = transform(tree, name, file)
        return None if tree is before else compile(tree, file, "exec", dont_inherit=True)
    except Exception:
        return None
