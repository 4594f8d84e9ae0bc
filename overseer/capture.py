"""Asking a device something while the script may be capturing a CUDA graph.

Meanwhile CUDA forbids many calls to all threads, even to ask whether an event has passed, and who
calls all the same spoils the capture of a script that did nothing wrong: PyTorch's own watchdog did
(pytorch/pytorch#104487). A thread may declare that its calls have nothing to do with it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager

#: Sets the calling thread's mode and returns what it was.
Exchange = Callable[[int], int]

#: The mode of a thread whose calls spoil no capture, on this thread or another.
RELAXED = 2
#: Where a driver has the call that sets a thread's mode.
_DRIVERS = (
    *(("cuThreadExchangeStreamCaptureMode", name) for name in ("libcuda.so.1", "nvcuda.dll")),
    *(
        ("hipThreadExchangeStreamCaptureMode", f"libamdhip64.so{version}")
        for version in ("", ".6", ".7")
    ),
)


@contextmanager
def harmless(exchange: Exchange | None) -> Iterator[None]:
    """Within, this thread's calls spoil no capture.

    Args:
        exchange: As :func:`find_exchange` found it; with None, they are as they are.
    """
    if exchange is None:
        yield
        return
    before = exchange(RELAXED)
    try:
        yield
    finally:
        exchange(before)


def find_exchange() -> Exchange | None:
    """What sets the calling thread's mode; None where no driver is loaded that does.

    The driver's call, not the runtime's, which would take a context on the first device.
    """
    import ctypes

    for name, library in _DRIVERS:
        try:
            call = getattr(ctypes.CDLL(library, mode=getattr(os, "RTLD_NOLOAD", 0)), name)
        except (OSError, AttributeError):
            continue

        def exchange(mode: int, call: Callable[[object], int] = call) -> int:
            held = ctypes.c_int(mode)
            call(ctypes.byref(held))
            return held.value

        return exchange
    return None
