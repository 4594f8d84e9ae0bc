"""Follows the processes that :mod:`multiprocessing` starts, with every start method.

Nothing of this is in a traceback: functions that raise the script's errors are looked up as before,
and called without a frame of voir's.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import wraps
from typing import Any

from ..imports import on_import

#: The module of the function that a DataLoader's worker runs.
LOADER = "torch.utils.data._utils.worker"
#: What a process that is not forked runs before it imports the script: it waits for PyTorch, and
#: only then imports voir.
WAIT = """
import sys

def follow():
    sys.path.append(home)
    try:
        import instruments
        from overseer.cli.children import begin
    except Exception:
        return
    finally:
        sys.path.remove(home)
    begin(state)

class Waits:
    def find_spec(name, path=None, target=None):
        if name != "torch":
            return None
        sys.meta_path.remove(Waits)
        follow()
        for finder in [*sys.meta_path]:
            find = getattr(finder, "find_spec", None)
            found = find and find(name, path, target)
            if found:
                return found

if "torch" in sys.modules:
    follow()
else:
    sys.meta_path.insert(0, Waits)
"""


class Sent:
    """An object among the data for a process that is not forked; runs code when it arrives.

    Args:
        state: Names and values for the code.
    """

    def __init__(self, state: dict[str, Any]) -> None:
        self._state = state

    def __reduce__(self) -> tuple[Any, ...]:
        return exec, (WAIT, self._state)


class Followed:
    """Follows processes while it is open; ``multiprocessing.process`` must have been imported.

    Args:
        starts: Called in this process when it is about to start another one.
        state: Returns names and values for the code of a process that is not forked.
        forked: Called in a forked process, before it runs its function.
    """

    def __init__(
        self,
        starts: Callable[[], object],
        state: Callable[[], dict[str, Any]],
        forked: Callable[[], object],
    ) -> None:
        self._starts, self._state, self._forked = starts, state, forked
        self._starting = threading.local()
        self._undo: list[Callable[[], object]] = []
        self._process, self._registered = os.getpid(), False

    def __enter__(self) -> Followed:
        BaseProcess = sys.modules["multiprocessing.process"].BaseProcess
        self._undo.append(on_lookup(BaseProcess, "start", self._before))
        self._undo.append(on_import("multiprocessing.spawn", self._spawns).dispose)
        return self

    def __exit__(self, *error: object) -> None:
        self._forked = self._starts = bool
        while self._undo:
            self._undo.pop()()

    def _before(self, process: Any) -> None:
        self._starting.followed = not is_loader(process)
        if self._starting.followed:
            self._starts()
            if not self._registered:
                self._registered = True
                from multiprocessing.util import register_after_fork

                register_after_fork(self, Followed._in_child)

    def _spawns(self, spawn: Any) -> None:
        prepare = spawn.get_preparation_data

        @wraps(prepare)
        def get_preparation_data(*args: Any, **kwargs: Any) -> Any:
            data = prepare(*args, **kwargs)
            if getattr(self._starting, "followed", False):
                with suppress(Exception):
                    data["voir"] = Sent(self._state())
            return data

        self._undo.append(_put(spawn, "get_preparation_data", get_preparation_data))

    def _in_child(self) -> None:
        process = sys.modules["multiprocessing.process"]
        # A child of a fork server is prepared in the same process before this.
        if os.getpid() != self._process and not is_loader(process.current_process()):
            self._forked()


class _Before:
    """Stands for a method; calls a function with the object when the method is looked up."""

    def __init__(self, inner: Any, call: Callable[[Any], object]) -> None:
        self._inner, self._call = inner, call

    def __get__(self, owner: Any, kind: type) -> Any:
        if owner is not None:
            with suppress(Exception):
                self._call(owner)
        return self._inner.__get__(owner, kind)


def on_lookup(owner: type, name: str, call: Callable[[Any], object]) -> Callable[[], None]:
    """Call ``call(object)`` when a method of an object is looked up; what it raises is ignored.

    Returns:
        Ends it.
    """
    return _put(owner, name, _Before(vars(owner)[name], call))


def _put(owner: Any, name: str, value: Any) -> Callable[[], None]:
    before = vars(owner)[name]
    setattr(owner, name, value)

    def undo() -> None:
        if vars(owner).get(name) is value:
            setattr(owner, name, before)

    return undo


def is_loader(process: Any) -> bool:
    """Whether a process is a DataLoader's worker, which prepares batches for its parent."""
    return getattr(getattr(process, "_target", None), "__module__", None) == LOADER


def at_end(call: Callable[[BaseException | None], object]) -> None:
    """Call ``call(error)`` when the function of this process of multiprocessing has ended.

    What it raises ends the process instead of ``error``.
    """
    util: Any = sys.modules["multiprocessing.util"]
    inner = util._exit_function

    @wraps(inner)
    def _exit_function(*args: Any, **kwargs: Any) -> Any:
        error = sys.exc_info()[1]
        try:
            return inner(*args, **kwargs)
        finally:
            call(error)

    util._exit_function = _exit_function
