"""When the phases of a step began and ended, for whoever wants to know: diagnosis, traces.

``phases_of(ov).listen(fn)`` has ``fn(name, start_ns, end_ns)`` called at the end of each phase, on
the thread that ran it; times are of ``ov.clock.now_ns``, the host's. Nothing is given, no event is
made, and nobody waits for a device: on a GPU a phase is the time in which its work was launched.

=============  =====================================================================
name           from, to
=============  =====================================================================
``loading``    a DataLoader is asked for a batch, it has answered
``transfer``   the batch has come, the first forward begins on another device
``forward``    the root module's forward begins, ``backward`` begins; the loss is part
               of it, and so is whatever the script does between
``backward``   ``backward`` begins, it has ended
``optimizer``  ``optimizer.step`` or ``zero_grad`` begins, it has ended
``step``       the last step has ended, this one has; all of the above lie in it
``eval``       a forward begins that no ``backward`` follows, it has ended
=============  =====================================================================

A ``zero_grad`` between forward and backward lies within ``forward``; a closure's phases lie within
``optimizer``. What is not seen is not told: a loop without a DataLoader has no ``loading``.
"""

from __future__ import annotations

from collections.abc import Callable
from weakref import WeakKeyDictionary

from overseer import Overseer

#: Called with a phase's name, beginning and end; must be quick, for the script waits.
PhaseListener = Callable[[str, int, int], object]
NAMES = ("loading", "transfer", "forward", "backward", "optimizer", "step", "eval")


class Phases:
    """Those who listen to the phases of a run's steps.

    Attributes:
        listeners: Called in turn; replaced as a whole whenever somebody joins or leaves.
    """

    __slots__ = ("__weakref__", "listeners")

    def __init__(self) -> None:
        self.listeners: tuple[PhaseListener, ...] = ()

    def listen(self, fn: PhaseListener) -> Callable[[], None]:
        """Call ``fn`` at the end of each phase; calling what this returns ends that."""
        self.listeners = (*self.listeners, fn)

        def leave() -> None:
            self.listeners = tuple(each for each in self.listeners if each is not fn)

        return leave


_phases: WeakKeyDictionary[Overseer, Phases] = WeakKeyDictionary()


def phases_of(ov: Overseer) -> Phases:
    """The phases of this run; may be asked for at any time, from ``init`` on."""
    return _phases.setdefault(ov, Phases())
