"""A limit on how long one instrument may keep the script waiting.

The limit is an interval timer whose signal raises inside the instrument; it exists only while an
instrument runs between two phases, never while the script runs.
"""

from __future__ import annotations

import signal
import threading
from contextlib import AbstractContextManager, nullcontext
from types import FrameType

from .boundary import Stuck
from .clock import monotonic
from .errors import VoirError

#: So many seconds, 31 years, are no limit any more; of ten times as many a timer knows nothing.
ENDLESS = 1e9


class Deadline:
    """Raises :class:`Stuck` in an instrument that takes more than ``seconds``.

    0 is no limit, nor is a time that nobody would see the end of.
    """

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.armed = False

    def __call__(self) -> AbstractContextManager[object]:
        """Bound the code within; an inner bound stops the time of an outer one.

        Only the main thread can be bounded, and not where something else than Python handles
        SIGALRM, for that could not be put back.
        """
        return _Bound(self) if self._applies() else nullcontext()

    def _applies(self) -> bool:
        if not 0 < self.seconds < ENDLESS or not hasattr(signal, "setitimer"):
            return False
        if threading.get_ident() != threading.main_thread().ident:
            return False
        return signal.getsignal(signal.SIGALRM) is not None

    def expired(self, signum: int, frame: FrameType | None) -> None:
        """Handle the timer's signal: raise, but never in the code that sets and ends bounds."""
        if not self.armed or (frame is not None and frame.f_code.co_filename == __file__):
            return
        raise Stuck(
            VoirError(
                "stuck",
                f"it has kept the script waiting for {self.seconds:g} s",
                "It is switched off. To give it more time: --instrument-timeout SECONDS.",
            )
        )


class _Bound:
    """The timer is ours within; what was there before goes on afterwards."""

    def __init__(self, deadline: Deadline) -> None:
        self._deadline = deadline

    def __enter__(self) -> None:
        deadline = self._deadline
        self._outer, self._began = deadline.armed, monotonic()
        self._timer = signal.setitimer(signal.ITIMER_REAL, 0)
        self._handler = signal.signal(signal.SIGALRM, deadline.expired)
        # Again after the same time, for an instrument that does not give up at the first.
        signal.setitimer(signal.ITIMER_REAL, deadline.seconds, deadline.seconds)
        deadline.armed = True

    def __exit__(self, *exc_info: object) -> None:
        self._deadline.armed = False
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, self._handler)
        signal.setitimer(signal.ITIMER_REAL, *self._left())
        self._deadline.armed = self._outer

    def _left(self) -> tuple[float, float]:
        """What the timer from before has left: the script's has gone on, an outer bound's not."""
        left, period = self._timer
        if left and not self._outer:
            left = max(left - (monotonic() - self._began), 1e-6)
        return left, period
