"""Values of any array library, looked at without waiting for a device and without importing it.

Reading a number from a device (``.item()``) holds the thread until the device has done all work
given to it so far. So a number that is wanted later is copied now, in the order of the script's own
stream, and read when the copy has arrived.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from ..capture import find_exchange, harmless
from ..clock import monotonic, sleep

#: How long the end of a run waits for a number that is on a device, in seconds.
PATIENCE = 2.0


def is_tensor(value: object) -> bool:
    """Whether ``value`` looks like an array of any library; its own attributes are not touched."""
    kind = type(value)
    try:
        return hasattr(kind, "shape") and hasattr(kind, "dtype")
    except Exception:  # A metaclass has it that way.
        return False


def elements(tensor: Any) -> int:
    """How many numbers there are in ``tensor``."""
    count = 1
    for n in tensor.shape:
        count *= int(n)
    return count


def on_host(tensor: Any) -> bool:
    """Whether reading ``tensor`` waits for no device."""
    ready = getattr(tensor, "is_ready", None)  # JAX works ahead on the host as well.
    if callable(ready):
        return bool(ready())
    device = getattr(tensor, "device", None)  # numpy: none, or the string "cpu".
    kind = getattr(device, "type", device)
    return kind is None or "cpu" in str(kind).lower()


def describe(tensor: Any) -> dict[str, Any]:
    """Shape and dtype of a tensor, and the device when it is not the host."""
    described: dict[str, Any] = {
        "shape": [int(n) for n in tensor.shape],
        "dtype": str(tensor.dtype).removeprefix("torch."),
    }
    if not on_host(tensor):
        described["device"] = str(tensor.device)
    return described


class Pending:
    """A number on its way from a device to the host.

    Args:
        copy: A tensor of one element that will hold it.
        arrived: Whether it does by now; asking waits for nothing.
    """

    __slots__ = ("_copy", "arrived")

    def __init__(self, copy: Any, arrived: Callable[[], bool]) -> None:
        self._copy = copy
        self.arrived = arrived

    def value(self, *, wait: bool) -> Any:
        """The number; a description of its tensor when it has not arrived.

        Args:
            wait: Give it up to :data:`PATIENCE` seconds, since a device may hang.
        """
        until = monotonic() + (PATIENCE if wait else 0.0)
        with harmless(find_exchange()):
            while not self.arrived():
                if monotonic() >= until:
                    return describe(self._copy)
                sleep(0.001)
            return self._copy.item()


def taken(tensor: Any) -> Any:
    """``tensor`` as it is now: its number, one on its way, or shape and dtype.

    The script may go on to change the tensor, and no graph or device memory is kept alive.
    """
    if elements(tensor) != 1:
        return describe(tensor)
    try:
        return tensor.item() if on_host(tensor) else _copied(tensor)
    except Exception:  # Inside vmap or a graph capture, without data ("meta"), on a lost device.
        return describe(tensor)


def _copied(tensor: Any) -> Any:
    if hasattr(tensor, "is_ready"):
        return Pending(tensor, tensor.is_ready)  # JAX: immutable, and ready some time.
    device: Any = sys.modules["torch"].get_device_module(tensor.device)
    if device.is_current_stream_capturing():  # The copy would become part of the script's graph.
        return describe(tensor)
    # The copy is made in pinned memory, by the stream that computes the value.
    copy = tensor.detach().to("cpu", non_blocking=True)
    event = device.Event()
    event.record(device.current_stream(tensor.device))
    return Pending(copy, event.query)
