"""How fast a figure grows, and when it will reach its goal."""

from __future__ import annotations

from collections import deque


class Pace:
    """Growth of a figure over the last ``window`` times that it grew."""

    def __init__(self, window: int) -> None:
        self._seen: deque[tuple[float, float]] = deque(maxlen=window)

    def see(self, now: float, figure: float) -> bool:
        """Take the figure at ``now`` seconds; True when it fell: it has started again."""
        fell = bool(self._seen) and figure < self._seen[-1][1]
        if fell:
            self._seen.clear()
        if not self._seen or figure > self._seen[-1][1]:
            self._seen.append((now, figure))
        return fell

    def per_second(self, now: float | None = None) -> float | None:
        """Growth a second, up to the last growth or to ``now``; None until it has grown."""
        if len(self._seen) < 2:
            return None
        (start, low), (end, high) = self._seen[0], self._seen[-1]
        seconds = (end if now is None else now) - start
        return (high - low) / seconds if seconds > 0 else None

    def seconds_to(self, goal: float, now: float) -> float | None:
        """Seconds from ``now`` until the figure reaches ``goal`` at this pace."""
        speed = self.per_second()
        if not speed:
            return None
        at, figure = self._seen[-1]
        return max(0.0, (goal - figure) / speed - (now - at))
