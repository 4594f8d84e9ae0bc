"""Counts the script's calls that synchronise with a device: ``.item()``, ``print(loss)``, ..."""

from __future__ import annotations

import os
import sys
from weakref import ref

from overseer.boundary import in_plumbing, of_library
from overseer.clock import now_ns
from overseer.imports import on_import

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from overseer.imports import Watch

#: Methods that copy a tensor's value to the host, and the way users write them.
SYNC_METHODS = {
    "item": ".item()", "tolist": ".tolist()", "numpy": ".numpy()", "cpu": ".cpu()",
    "__float__": "float()", "__int__": "int()", "__bool__": "if or bool()",
    "__index__": "an index", "__repr__": "print()", "__format__": "a format",
}  # fmt: skip
#: Distinct lines that are counted.
SITES = 256


class Syncs:
    """Wraps torch's synchronising methods, from its import to the end of the ``with`` block."""

    def __init__(self) -> None:
        self._sites: dict[tuple[str, int, str], list[Any]] = {}
        self._before: list[tuple[Any, str, Any]] = []
        self._watch: Watch | None = None

    def __enter__(self) -> None:
        self._watch = on_import("torch", self._wrap)

    def __exit__(self, *error: object) -> None:
        if self._watch is not None:
            self._watch.dispose()
        for tensor, name, before in self._before:
            delattr(tensor, name) if before is None else setattr(tensor, name, before)

    def facts(self, task: dict[str, Any]) -> list[dict[str, Any]]:
        """The lines that synchronise in at least every other step, the longest first.

        Args:
            task: The figures of training.
        """
        steps, median = task.get("steps", 0), task.get("step_seconds", {}).get("median", 0.0)
        found = [
            {
                "where": f"{os.path.relpath(file)}:{line}",
                "call": call,
                "device": device,
                "each": round(n / steps, 2),
                "share": ns / 1e9 / (median * steps) if median else 0.0,
            }
            for (file, line, call), (n, ns, device) in self._sites.items()
            if steps and 2 * n >= steps
        ]
        return sorted(found, key=lambda one: -one["share"])

    def _wrap(self, torch: Any) -> None:
        tensor = getattr(torch, "Tensor", None)
        for name, call in SYNC_METHODS.items():
            inner = getattr(tensor, name, None)
            if inner is not None:
                self._before.append((tensor, name, vars(tensor).get(name)))
                setattr(tensor, name, SyncMethod(inner, call, self._sites))


class SyncMethod:
    """A descriptor that replaces a method and measures its calls.

    The script calls the method itself, so that tracebacks and warnings have no frame of ours. A
    call has ended when its bound method is released.

    Args:
        inner: The method.
        call: The way users write it.
        sites: By file, line and call: count, nanoseconds, the tensor's device.
    """

    def __init__(self, inner: Any, call: str, sites: dict[tuple[str, int, str], list[Any]]) -> None:
        self._inner, self._call, self._sites = inner, call, sites
        self._open: dict[int, Any] = {}

    def __get__(self, tensor: Any, kind: Any = None) -> Any:
        """Return the method, bound if it is read from a tensor."""
        if tensor is None:
            return self._inner
        method, frame = self._inner.__get__(tensor, kind), sys._getframe(1)
        place = frame.f_code.co_filename, frame.f_lineno, self._call
        site = self._sites.get(place)
        if site is None and len(self._sites) < SITES and not _of_library(frame):
            site = self._sites[place] = [0, 0, tensor.device.type]
        if site is not None:
            begun, opened = now_ns(), self._open

            def ended(reference: Any) -> None:
                del opened[id(reference)]
                site[0], site[1] = site[0] + 1, site[1] + now_ns() - begun

            reference = ref(method, ended)
            opened[id(reference)] = reference
        return method


def _of_library(frame: Any) -> bool:
    return of_library(frame) or in_plumbing(frame)
