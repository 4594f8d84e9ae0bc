"""What is usual for a duration, so that what is far from usual can be told: a pause.

A duration is far from usual when it is more than five times the median of the last 64 and more
than three times what all but a few of them stay below: one less than an eighth of them, at any
number of them. So what happens to every eighth step or more often is usual (a loader that stalls
every eighth batch is slow, it does not pause), and what happens to every tenth or more seldom is
not, from the first time to the last. A first one that is far from usual, and not followed by
another eight later, was a compiler's, say: it is none of them.

Eight in a row of less than half the median are a script that has become faster, as after its
warm-up: what was before them is usual no more.
"""

from __future__ import annotations

from collections import deque

#: Shorter outliers are the operating system's and the garbage collector's, not the script's.
FLOOR_NS = 10_000_000
_WINDOW = 64
_ENOUGH = 8
#: So much of the median is much faster.
_FASTER = 0.5


class Typical:
    """The recent durations of one thing, with the limit above which one is a pause.

    Attributes:
        limit: Above it, one is far from usual.
        median: Of the recent ones.
        others: How many there were beside these of which nobody knows how long they were.
    """

    __slots__ = ("_due", "_fast", "_faster", "_opens", "_recent", "limit", "median", "others")

    def __init__(self) -> None:
        self._recent: deque[int] = deque(maxlen=_WINDOW)
        self._due = 1
        self._faster, self._fast = 0.0, 0
        self._opens = True  # The first of all is among them.
        self.limit = float("inf")
        self.median: int | None = None
        self.others = 0

    def __call__(self, ns: int) -> bool:
        """Take one duration in; whether it is far above what was usual before it."""
        self._recent.append(ns)
        far = ns > self.limit
        self._due -= 1
        if ns >= self._faster:
            self._fast = 0
        else:
            self._fast += 1
            if self._fast == _ENOUGH:
                self._forget()
        if self._due <= 0:
            self._update()
        return far

    def drop(self) -> None:
        """The oldest of several was none of what is usual: a pause was in it."""
        if len(self._recent) > 1:  # One in which something was compiled is not among them.
            self._recent.popleft()
            self._update()

    @property
    def room(self) -> int:
        """How many durations may be judged before what is usual is looked at anew."""
        return 4 * _WINDOW if len(self._recent) == _WINDOW else self._due

    def lasts(self, many: list[int]) -> int:
        """How many of these durations are to be taken in before what is usual is another."""
        if not many or min(many) >= self._faster:
            return len(many)
        fast = self._fast
        for n, ns in enumerate(many, 1):
            fast = 0 if ns >= self._faster else fast + 1
            if fast == _ENOUGH:
                return n
        return len(many)

    def extend(self, many: list[int]) -> None:
        """Take in as many durations as :meth:`lasts` says; none is far above the usual."""
        self._recent.extend(many[-_WINDOW:])
        self._due -= len(many)
        for ns in many[-_ENOUGH:]:
            self._fast = 0 if ns >= self._faster else self._fast + 1
        if self._fast >= _ENOUGH:
            self._forget()
        elif self._due <= 0:
            self._update()

    def _forget(self) -> None:
        """What was before the last few is usual no more."""
        last = list(self._recent)[-_ENOUGH:]
        self._recent.clear()
        self._recent.extend(last)
        self._fast = self.others = 0
        self._update()

    def _update(self) -> None:
        ordered = sorted(self._recent)
        n = len(ordered)
        self.median = ordered[n // 2]
        self._faster = _FASTER * self.median
        if n >= _ENOUGH:
            all_of_them = n + self.others if n < _WINDOW else n
            most = ordered[max(n // 2, n - all_of_them // 8)]
            self.limit = max(5 * self.median, 3 * most, FLOOR_NS)
        self._due = 1 if n <= _ENOUGH else n // 4  # Twice a window is often enough later.
        if n > _ENOUGH and self._opens:
            self._opens = False
            if self._recent[0] > max(5 * self.median, 3 * ordered[-2], FLOOR_NS):
                self.drop()
