"""Where boundaries lie in time: on the host's clock, or on the device's once it has passed them."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any

from ..boundary import let_through
from .device import Device, LeftAlone, Mark

#: Boundaries this close share a device mark: nothing was launched between them.
SAME_NS = 10_000


class Timeline:
    """One thread's clock: the host's until there are device marks, then the device's.

    Device times are summed from mark to mark, for a device's clock has an origin of its own and
    gives single precision, which over hours is too coarse to subtract from one far mark.
    """

    __slots__ = ("_base", "_mark", "host_ns", "ns")

    def __init__(self, host_ns: int) -> None:
        self.ns = host_ns
        self.host_ns = host_ns
        self._base = host_ns
        self._mark: Mark | None = None

    def unmarked(self, host_ns: int) -> int:
        """The time of a boundary that has only a host time; never before the last one."""
        if host_ns > self.host_ns:
            self.ns += host_ns - self.host_ns
            self.host_ns = host_ns
        return self.ns

    def marked(self, host_ns: int, mark: Mark, device: Device) -> int:
        """The time of a boundary whose mark the device has passed.

        Raises:
            Exception: Whatever the device raises when it is lost.
        """
        if self._mark is None:
            self.unmarked(host_ns)
        elif mark is not self._mark:
            passed = device.elapsed_ns(self._mark, mark)
            if passed is None:  # The script has turned to another device.
                self.unmarked(host_ns)
            else:
                self.ns = max(self.ns, self._base + passed)
            device.release(self._mark)
        self.host_ns = max(self.host_ns, host_ns)
        self._mark = mark
        self._base = self.ns
        return self.ns

    def forget(self) -> None:
        """The device is lost: go on by the host's clock."""
        self._mark = None


class Marks:
    """The device in use, found when there is one and given up when it fails.

    Args:
        find: Returns the device the script uses, or None; asked again until it returns one.
        lost: Called once, when the device fails or is left alone, with what says why.

    Attributes:
        device: The device in use; None without, and when it has failed or is left alone.
        clock_name: The clock that times the steps, as the run's record names it.
        hangs: At the end of the run the device does not come to the end of its work.
        left_alone: A device is in use of which nothing may be asked while the script runs.
    """

    def __init__(
        self, find: Callable[[], Device | None] | None, lost: Callable[[BaseException], object]
    ) -> None:
        self._find = find
        self._lost = lost
        self._recent: dict[int, tuple[int, Mark, bool]] = {}
        self.device: Device | None = None
        self.clock_name = "perf_counter"
        self.hangs = self.left_alone = False

    def look(self) -> None:
        """Ask whether a device is in use by now."""
        if self._find is not None and self.device is None:
            self.device = self._try(self._find)
            if self.device is not None:
                self._find = None
                self.clock_name = self.device.name

    def mark(self, now: int, thread: int, closes: bool) -> Mark | None:
        """A mark for a boundary; None when there can be none.

        Args:
            now: The host's time.
            thread: Whose boundary it is.
            closes: It ends work, which may have been launched in an instant (a CUDA graph): only
                another that ends the same work may share its mark.
        """
        device = self.device
        if device is None:
            return None
        recent = self._recent.get(thread)
        if recent is not None and 0 <= now - recent[0] < SAME_NS and (recent[2] or not closes):
            if not closes and recent[2]:
                self._recent[thread] = (recent[0], recent[1], False)
            return recent[1]
        mark = self._try(device.mark)
        if mark is not None:
            self._recent[thread] = (now, mark, closes)
        return mark

    def passed(self, mark: Mark) -> bool:
        """Whether the device has passed ``mark``, or never will because it is lost."""
        device = self.device
        if device is None:
            return True
        return bool(self._try(lambda: device.done(mark))) or self.device is None

    def wait(self) -> None:
        """Let the device pass all marks, if it does: only when the run is over."""
        for _, mark, _ in list(self._recent.values()):
            if self.device is not None:
                self._try(partial(self.device.wait, mark))

    def aside(self) -> AbstractContextManager[object]:
        """Around everything but :meth:`mark`: the script may be capturing a graph meanwhile."""
        return nullcontext() if self.device is None else self.device.aside()

    def place(self, timeline: Timeline, host_ns: int, mark: Mark | None) -> int:
        """Where on ``timeline`` a boundary lies that the device has passed."""
        device = self.device
        if mark is None or device is None:
            return timeline.unmarked(host_ns)
        ns = self._try(lambda: timeline.marked(host_ns, mark, device))
        if ns is None:
            timeline.forget()
            return timeline.unmarked(host_ns)
        return int(ns)

    def _try(self, ask: Callable[[], Any]) -> Any:
        try:
            return ask()
        except BaseException as exc:  # A lost device raises whatever its library likes.
            let_through(exc)
            self.device = self._find = None
            self.hangs = isinstance(exc, TimeoutError)
            self.left_alone = isinstance(exc, LeftAlone)
            self._recent.clear()
            self.clock_name = "perf_counter"
            self._lost(exc)
            return None
