"""Registers tensor types with the recorder, and fetches numbers from devices asynchronously.

A number on a device is copied when it is recorded, on the stream that computes it, without
synchronizing. Once the device has passed an event after the copy, the number is recorded as a LATE
event with the original site and start. No graph or device memory is kept alive.
"""

from __future__ import annotations

import sys
from collections import deque
from contextlib import suppress
from math import isfinite

from .choice import recorder
from .sites import BACKWARD, LATE, LOSS, SCALE, STRUCTURE, VALUES, table

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    Arrived = Callable[[float], object]

#: Ways to read a type: its shape only; torch tensors, in memory; copied and read later.
SHAPE_ONLY, TORCH_TENSOR, COPIED = range(3)
#: Maximum number of pending copies; further numbers are not read.
MOST_PENDING_VALUES = 4096
#: ``struct`` codes of dtypes, except that ``b`` is bfloat16.
DTYPES = {
    "float32": "f", "float64": "d", "int64": "q", "int32": "i", "float16": "e", "bfloat16": "b",
    "bool": "?",
}  # fmt: skip
#: Device types whose events would affect the script, according to the sources of torch and its
#: extensions.
LEFT_ALONE = {
    # MPSEventPool::elapsedTime commits all that was queued and waits for it; recording commits.
    "mps": "reading its events waits for all of the device's work",
    # NPUEvent::elapsed_time, and query before, wait until the queue of launches is empty.
    "npu": "reading its events waits for all launches",
    # HPUEvent::record ends the graph that is being gathered, or waits for the launching threads.
    "hpu": "recording its events ends the graph that the script is gathering",
}

#: Kinds whose value is a loss.
_LOSSES = (LOSS, BACKWARD, SCALE)


class Values:
    """Pending numbers from devices, and the registered tensor types."""

    def __init__(self) -> None:
        self._pending: deque[tuple[Arrived, Any, Callable[[], bool], Any]] = deque()
        self._events: dict[Any, list[Any]] = {}
        self._types: dict[type, int] = {}
        self._dtypes: dict[Any, str] = {}
        self._grad_enabled: Any = None
        self._modes: tuple[Any, ...] = ()
        self._site = 0
        self.unread = 0

    def know(self, module: Any) -> None:
        """Register the tensor types of torch, numpy or jax.

        Args:
            module: The imported library.
        """
        name = module.__name__
        try:
            if name == "torch":
                self._types |= {module.Tensor: TORCH_TENSOR, module.nn.Parameter: TORCH_TENSOR}
                self._dtypes = {getattr(module, name): code for name, code in DTYPES.items()}
                self._grad_enabled = module.is_grad_enabled
                c = module._C
                self._modes = (
                    c._get_tracing_state, c._len_torch_function_stack, c.DisableTorchFunction,
                )  # fmt: skip
            elif name == "numpy":
                self._types |= {module.ndarray: SHAPE_ONLY, module.memmap: SHAPE_ONLY}
            elif name == "jax":
                self._types[type(module.numpy.zeros(()))] = COPIED
        except AttributeError:  # A module of the script with the same name.
            return
        recorder.tensors(self._types, self._dtypes, self._grad_enabled, self.hold, *self._modes)

    def hold(self, tensor: Any, site: int, start: int) -> bool:
        """Copy a number from its device and record it once it has arrived.

        Args:
            tensor: A tensor with one element.
            site: The site that recorded it.
            start: Time of the event, by the recorder's clock.

        Returns:
            Whether it will arrive; see :meth:`later`.
        """
        ring = STRUCTURE if self._kind(site) in _LOSSES else VALUES
        own = self._site = self._site or table.add(LATE, "late")
        return self.later(
            tensor, lambda value: recorder.put(ring, LATE, own, start, 0, value, site, 0)
        )

    def later(self, tensor: Any, arrived: Arrived) -> bool:
        """Copy a number from its device and call ``arrived`` with it later.

        Args:
            tensor: A tensor with one element.
            arrived: Called by :meth:`collect`.

        Returns:
            Whether it will arrive: not while the script captures a graph, and not from devices in
            :data:`LEFT_ALONE`.
        """
        if len(self._pending) >= MOST_PENDING_VALUES:
            self.unread += 1
            return False
        if hasattr(tensor, "is_ready"):  # JAX arrays are immutable: no copy is needed.
            self._pending.append((arrived, tensor, tensor.is_ready, None))
            return True
        torch = sys.modules["torch"]
        if tensor.device.type == "meta" or tensor.device.type in LEFT_ALONE:
            return False
        device = torch.get_device_module(tensor.device)
        capturing = getattr(device, "is_current_stream_capturing", None)
        if capturing is not None and capturing():  # The copy would become part of the graph.
            return False
        # Asynchronous if pinned memory is available.
        copy = tensor.detach().to("cpu", non_blocking=True)
        free = self._events.setdefault(tensor.device, [])
        event = free.pop() if free else device.Event()
        event.record(device.current_stream(tensor.device))
        self._pending.append((arrived, copy, event.query, (free, event)))
        return True

    def collect(self, aside: Callable[[], Any]) -> int:
        """Deliver the numbers that have arrived; call it on a timer thread.

        Args:
            aside: Context in which querying the device does not invalidate a graph capture.

        Returns:
            The number of pending copies.
        """
        with aside():
            while self._pending:
                arrived, copy, ready, pooled = self._pending[0]
                try:
                    if not ready():
                        break
                    value = float(copy.item())
                except Exception:  # The device is lost.
                    value, self.unread = float("nan"), self.unread + 1
                self._pending.popleft()
                if pooled is not None and isfinite(value):
                    pooled[0].append(pooled[1])
                arrived(value)
        return len(self._pending)

    @staticmethod
    def _kind(site: int) -> int:
        with suppress(IndexError, KeyError, TypeError):
            return int(table.rows[site]["kind"])
        return 0


#: The instance of this process.
values = Values()
