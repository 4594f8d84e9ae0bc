"""Counts the script's calls that wait for a device: ``.item()``, ``print(loss)`` and their like.

Only under ``--verify``: while the script runs, methods of ``torch.Tensor`` are read by way of
descriptors, which are taken out again. What the script then calls is torch's own method, with
nothing around it: what it returns and raises, and where its warnings point to, is as without.
Calls from within libraries do not count.
"""

from __future__ import annotations

import os
import sys
from collections import deque
from collections.abc import Callable
from opcode import opmap
from types import FrameType
from typing import Any
from weakref import ref

from overseer.clock import Clock
from overseer.imports import Watch, on_import

#: Methods that give a tensor's value to the host, and how a person writes them.
METHODS = {
    "item": ".item()",
    "tolist": ".tolist()",
    "numpy": ".numpy()",
    "cpu": ".cpu()",
    "__float__": "float()",
    "__int__": "int()",
    "__bool__": "if or bool()",
    "__index__": "an index",
    "__repr__": "print()",
    "__format__": "a format",
}
_LOADS = {opmap[name] for name in ("LOAD_METHOD", "LOAD_ATTR") if name in opmap}
#: Places that are told apart, and last steps of each whose waits are kept.
SITES, EACH = 256, 256
_LIBRARIES = (f"{os.sep}site-packages{os.sep}", f"{os.sep}dist-packages{os.sep}", "<frozen ")
_OURS = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))) + os.sep
_PACKAGES = tuple(_OURS + name + os.sep for name in ("overseer", "instruments", "voir"))
_STANDARD = os.path.dirname(os.path.abspath(os.__file__)) + os.sep


class Site:
    """One place in the script that waits.

    Attributes:
        where: ``file:line``.
        call: How it waits.
        device: Where the tensor lies.
        count: How often, since the first step.
        steps: In how many steps.
    """

    __slots__ = ("_each", "call", "count", "device", "steps", "where")

    def __init__(self, where: str, call: str, device: str) -> None:
        self.where, self.call, self.device = where, call, device
        self.count = self.steps = 0
        self._each: deque[int] = deque(maxlen=EACH)

    def add(self, count: int, ns: int) -> None:
        """A step has waited here ``count`` times, ``ns`` in all."""
        self.steps, self.count = self.steps + 1, self.count + count
        self._each.append(ns)

    @property
    def ns(self) -> int:
        """How long in all, since the first step; what is far from usual is not the call's doing."""
        return sorted(self._each)[len(self._each) // 2] * self.steps if self._each else 0


class Syncs:
    """Watches torch from when the script imports it until the end of the ``with`` block.

    Args:
        clock: Times the waits.

    Attributes:
        steps: How many steps there have been.
        watched: Whether torch was there to be watched.
    """

    def __init__(self, clock: Clock) -> None:
        self._now = clock.now_ns
        self._watch: Watch | None = None
        self._before: dict[str, Any] = {}
        self._tensor: Any = None
        self._sites: dict[tuple[str, int, str], Site] = {}
        self._pending: dict[tuple[str, int, str], tuple[int, int]] = {}
        self.steps = 0
        self.watched = False

    def __enter__(self) -> Syncs:
        self._watch = on_import("torch", self._wrap)
        return self

    def __exit__(self, *error: object) -> None:
        if self._watch is not None:
            self._watch.dispose()
        for name, before in self._before.items():
            if before is None:
                delattr(self._tensor, name)
            else:
                setattr(self._tensor, name, before)
        self._before.clear()

    def step(self) -> None:
        """A step has ended: what was counted since the last one is the steps'."""
        if self.steps:
            for key, (count, ns) in self._pending.items():
                self._sites[key].add(count, ns)
        self._pending.clear()
        self.steps += 1

    def facts(self, window_ns: int) -> list[dict[str, Any]]:
        """What ``run.json`` says of :meth:`each_step`, beside steps that took ``window_ns``."""
        return [
            {
                "where": site.where,
                "call": site.call,
                "device": site.device,
                "each": round(site.count / max(1, site.steps), 2),
                "share": site.ns / window_ns if window_ns else 0.0,
            }
            for site in self.each_step()
        ]

    def each_step(self) -> list[Site]:
        """The places where at least every other step waits; those that wait longest first."""
        often = [s for s in self._sites.values() if s.steps * 2 >= max(1, self.steps - 1)]
        return sorted(often, key=lambda site: -site.ns)

    def _wrap(self, torch: Any) -> None:
        tensor = getattr(torch, "Tensor", None)
        if not isinstance(tensor, type):
            return
        self._tensor, self.watched = tensor, True
        for name, call in METHODS.items():
            inner = getattr(tensor, name, None)
            if inner is not None:
                self._before[name] = vars(tensor).get(name)
                setattr(tensor, name, Watched(inner, call, self._now, self._note))

    def _note(self, filename: str, line: int, call: str, device: str, ns: int) -> None:
        key = filename, line, call
        if key not in self._sites:
            if len(self._sites) >= SITES:
                return
            self._sites[key] = Site(f"{_short(filename)}:{line}", call, device)
        count, spent = self._pending.get(key, (0, 0))
        self._pending[key] = count + 1, spent + ns


#: Told of a call: file, line, how it waits, where the tensor lies, nanoseconds.
Note = Callable[[str, int, str, str, int], object]


class Watched:
    """Stands in a class for a method of it: tells of calls, and when they have ended.

    A call ends when the bound method that was called is let go, which is when it has returned.

    Args:
        inner: The method.
        call: How a person writes it.
        now: Reads the clock.
        note: Told of each call.
    """

    def __init__(self, inner: Any, call: str, now: Callable[[], int], note: Note) -> None:
        self._inner, self._call, self._now, self._note = inner, call, now, note
        self._operator = not call.startswith(".")
        self._open: dict[int, Any] = {}

    def __get__(self, tensor: Any, kind: Any = None) -> Any:
        """The method itself; bound, when it is read off a tensor."""
        if tensor is None:
            return self._inner
        method = self._inner.__get__(tensor, kind)
        frame = sys._getframe(1)
        filename = frame.f_code.co_filename
        if is_script(filename) and (self._operator or _reads_attribute(frame)):
            self._watch(method, filename, frame.f_lineno, _device(tensor))
        return method

    def _watch(self, method: Any, filename: str, line: int, device: str) -> None:
        opened, note, call, now = self._open, self._note, self._call, self._now

        def ended(reference: Any) -> None:
            took = now() - begun
            opened.pop(id(reference), None)
            note(filename, line, call, device, took)

        reference = ref(method, ended)
        opened[id(reference)] = reference
        begun = now()


def _device(tensor: Any) -> str:
    return str(getattr(getattr(tensor, "device", None), "type", "cpu"))


def _reads_attribute(frame: FrameType) -> bool:
    """Whether the frame reads an attribute right now, in order to call it; hasattr() does not."""
    return frame.f_code.co_code[frame.f_lasti] in _LOADS


def _short(path: str) -> str:
    """``path`` from the current directory, where that is shorter."""
    try:
        return min(os.path.relpath(path), path, key=len)
    except (OSError, ValueError):
        return path


_known: dict[str, bool] = {}


def is_script(filename: str) -> bool:
    """Whether a file is the script's own: no library's, not Python's, not ours."""
    found = _known.get(filename)
    if found is None:
        path = os.path.abspath(filename)
        library = any(part in path for part in _LIBRARIES)
        ours = path.startswith((*_PACKAGES, _STANDARD))
        found = _known[filename] = not library and not ours and not filename.startswith("<")
    return found
