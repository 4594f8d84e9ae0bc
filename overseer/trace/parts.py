"""Parts of a run that are traced: their extent, and which of them are open now."""

from __future__ import annotations

from collections import deque
from functools import partial
from typing import NamedTuple

from ..recorder import recorder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any, Protocol

    class Profiler(Protocol):
        """A profiler that can be switched on and off on the script's thread."""

        def switch(self, on: bool, /) -> object:
            """Start or stop it."""

    StopAt = Callable[..., object]


FOREVER = 1 << 63
#: Levels whose detail slows the script down: rates measured there are not its own.
DETAILED = ("module", "op")
#: Events this old may still belong to a part that has ended.
_RECENT_NS = 1_000_000_000


class Part(NamedTuple):
    """The extent of a part: the whole run, or a block of ``voir.profile``.

    Attributes:
        begin: Its first moment, by the recorder's clock.
        end: Its last moment.
        steps: The first step, and the one before which it ends; of the whole run only.
        every: One step in this many.
        level: The level of detail.
    """

    begin: int = 0
    end: int = FOREVER
    steps: tuple[int, int | None] | None = None
    every: int = 1
    level: str = "step"

    @property
    def whole(self) -> bool:
        """Whether every step is kept."""
        return self.steps is None and self.every == 1

    def holds(self, number: int) -> bool:
        """Whether the step of this number is kept."""
        first, last = self.steps or (0, None)
        if number < first or (last is not None and number >= last):
            return False
        return (number - first) % self.every == 0

    def turn(self, number: int) -> int | None:
        """The next step at which :meth:`holds` changes; None: never again."""
        first, last = self.steps or (0, None)
        turns = (first, last or 0, number + 1, number + self.every - (number - first) % self.every)
        kept = self.holds(number)
        return min((n for n in turns if n > number and self.holds(n) != kept), default=None)


def part_of(found: dict[str, Any]) -> Part:
    """A part, from its entry in a log."""
    steps = found.get("steps")
    return Part(**{**found, "steps": tuple(steps) if steps else None})


class OpenPart:
    """A part while it is traced, with its profiler.

    Attributes:
        what: Its extent.
        profiler: Records operators; None below level ``op``.
    """

    def __init__(self, what: Part, profiler: Profiler | None) -> None:
        self.what, self.profiler = what, profiler

    def switch(self, on: bool) -> None:
        """Start or stop the profiler."""
        if self.profiler is not None:
            self.profiler.switch(on)


class Parts:
    """Opens and closes the parts of a run, and switches the recording of modules with them.

    Args:
        steps: Returns the count of steps so far.
        stop_at: Calls a function at a step: ``stop_at(n, task, call, once=True)``.
        profiler: Makes the profiler of a part.
        named: Called with each module that is called for the first time.

    Attributes:
        levels: The levels of all parts so far.
        ended: Extents of parts that have ended and are not written yet.
    """

    def __init__(
        self,
        steps: Callable[[], int],
        stop_at: StopAt,
        profiler: Callable[[], Profiler],
        named: Callable[[Any], object],
    ) -> None:
        self._count, self._stop_at, self._profiler = steps, stop_at, profiler
        self._named = named
        self._parts: dict[int, OpenPart] = {}
        self._recent, self._judged = deque[Part](), 0
        self.levels = set[str]()
        self.ended = deque[Part]()

    def __iter__(self) -> Iterator[OpenPart]:
        return iter(list(self._parts.values()))

    def begin(self, what: Part) -> OpenPart:
        """Open a part."""
        made = OpenPart(what, self._profiler() if what.level == "op" else None)
        self._parts[id(made)] = made
        self.levels.add(what.level)
        self._turn(made)
        return made

    def finish(self, part: OpenPart) -> None:
        """Close a part, once."""
        part.switch(False)
        part.what = part.what._replace(end=min(part.what.end, recorder.now()))
        if self._parts.pop(id(part), None) is not None:
            self._recent.append(part.what)
            self.ended.append(part.what)
        self.switch_modules()

    def end(self, at: int) -> None:
        """End all parts at this moment; nothing later is kept."""
        for part in self:
            part.what = part.what._replace(end=min(part.what.end, at))
        recorder.submodules(False)

    def open(self, levels: tuple[str, ...]) -> Iterator[OpenPart]:
        """The parts at one of these levels that hold the present step."""
        count, now = self._count(), recorder.now()
        for part in self:
            if part.what.level in levels and now <= part.what.end and part.what.holds(count):
                yield part

    def hold(self, before: int, count: int) -> bool:
        """Whether events just folded are kept: some part holds one of the steps in them.

        Args:
            before: The count of steps before these events.
            count: The count after them.
        """
        now, keep = recorder.now(), False
        ended = tuple(self._recent)
        for part in (*ended, *(each.what for each in self)):
            if not keep and part.end >= now - _RECENT_NS:
                keep = part.whole or any(map(part.holds, range(before, count + 1)))
        # Events folded next may precede the end of a part: it is judged once more.
        for _ in range(self._judged):
            self._recent.popleft()
        self._judged = len(ended) - self._judged
        return keep

    def switch_modules(self) -> None:
        """Record submodules while a detailed part is open."""
        recorder.submodules(any(self.open(DETAILED)), self._named)

    def _turn(self, part: OpenPart) -> None:
        """Switch now, and again at the step where the window opens or closes."""
        turn = part.what.turn(self._count())
        if turn is not None and part.what.level in DETAILED and recorder.now() <= part.what.end:
            self._stop_at(turn, None, partial(self._turn, part), once=True)
        self._switch(part)

    def _switch(self, part: OpenPart) -> None:
        self.switch_modules()
        part.switch(part in self.open(("op",)))
