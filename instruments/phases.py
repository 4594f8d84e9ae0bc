"""Calls back with the begin and the end of each phase of a step.

``phases_of(ov).listen(fn)`` has ``fn(name, start_ns, end_ns)`` called for each phase, on a timer's
thread, about 0.1 s late; times are of ``ov.clock.now_ns``, the host's. On a GPU a phase is the time
in which its work was launched.

=============  =====================================================================
name           from, to
=============  =====================================================================
``loading``    a loader is asked for a batch, it has answered
``forward``    a model is called to learn, it has returned
``backward``   ``backward`` begins, it has ended
``optimizer``  an optimizer's step begins, it has ended
``step``       the last step of the task has ended, this one has
``eval``       a model is called in evaluation mode without gradients, it has returned
=============  =====================================================================

Within a step, phases come in the order in which they ended; steps come when they are finished.
"""

from __future__ import annotations

from collections import deque
from weakref import WeakKeyDictionary

from overseer import Overseer
from overseer.model.events import RECORD
from overseer.recorder import sites as k
from overseer.recorder import table

from .measuring import TICK_SECONDS, measuring_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from overseer.model.steps import Step

    #: Called with a phase's name, beginning and end.
    PhaseListener = Callable[[str, int, int], object]

NAMES = ("loading", "forward", "backward", "optimizer", "step", "eval")
_KINDS = {n: k.KINDS[n].name for n in (k.LOADING, k.FORWARD, k.BACKWARD, k.OPTIMIZER)}


class Phases:
    """Those who listen to the phases of a run's steps."""

    def __init__(self, ov: Overseer) -> None:
        self._ov, self._measuring = ov, measuring_of(ov)
        self._listeners: tuple[PhaseListener, ...] = ()
        self._drained: deque[bytes] = deque()
        self._timer: Any = None

    def listen(self, fn: PhaseListener) -> Callable[[], None]:
        """Call ``fn`` for each phase; calling what this returns ends that."""
        if self._timer is None:
            # Drained events come under the fold's lock: they are looked at without it.
            self._measuring.read(self._drained.append)
            self._measuring.also(self._steps, self.close)
            self._measuring.begin()
            self._timer = self._ov.every(TICK_SECONDS / 2, self._tell, first=TICK_SECONDS / 2)
            self._timer.__enter__()
        self._listeners = (*self._listeners, fn)

        def leave() -> None:
            self._listeners = tuple(each for each in self._listeners if each is not fn)

        return leave

    def close(self) -> None:
        """The script has ended: tell the rest."""
        self._timer.__exit__(None, None, None)
        self._tell()

    def _steps(self, steps: list[Step]) -> None:
        self._tell()
        for step in steps:
            self._call("step", step.start, step.end)

    def _tell(self) -> None:
        rows = table.rows
        while self._drained:
            data = self._drained.popleft()
            for start, _, _, site, _, low, high, _, flags in RECORD.iter_unpack(data):
                name = _KINDS.get(rows[site]["kind"])
                if name is None or flags & (k.ENDED | k.FAILED):
                    continue
                if name == "forward" and k.call(flags) == k.EVALUATION:
                    name = "eval"
                self._call(name, start, start + low + (high << 32))

    def _call(self, name: str, start: int, end: int) -> None:
        for fn in self._listeners:
            fn(name, start, end)


_phases: WeakKeyDictionary[Overseer, Phases] = WeakKeyDictionary()


def phases_of(ov: Overseer) -> Phases:
    """The phases of this run; may be asked for at any time, from ``init`` on."""
    found = _phases.get(ov)
    if found is None:
        found = _phases[ov] = Phases(ov)
    return found
