"""Shares the recorder's one alarm, and uses it to act at step N in the script's thread."""

from __future__ import annotations

from ..recorder import recorder
from ..recorder import sites as k

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ..model.fold import Fold

#: Kinds of events that may complete a step.
STEP_KINDS = tuple(kind.number for kind in k.KINDS.values() if kind.completes)


class Alarm:
    """Shares the recorder's one alarm between everything that waits for events."""

    def __init__(self) -> None:
        self._waiting: dict[str, tuple[int, int, Callable[[], object]]] = {}
        self._armed = 0

    def set(
        self,
        name: str,
        n: int,
        call: Callable[[], object],
        kinds: Iterable[int] = STEP_KINDS,
    ) -> None:
        """Call ``call`` once, on the thread that records the ``n``-th next event of ``kinds``.

        Replaces what was set under ``name``. Events of kinds that others wait for count too, so
        ``call`` must check whether it is time.
        """
        self._passed()
        self._waiting[name] = sum(1 << kind for kind in kinds), n, call
        self._arm()

    def off(self, name: str | None = None) -> None:
        """Forget what was set under ``name``; without a name, everything."""
        self._passed()
        self._waiting = {n: waiter for n, waiter in self._waiting.items() if name not in (n, None)}
        self._arm()

    def _passed(self) -> None:
        """Disarm the recorder, and subtract the events since it was armed."""
        passed = self._armed - recorder.arm(0, 0, None)
        self._waiting = {n: (k, left - passed, c) for n, (k, left, c) in self._waiting.items()}
        self._armed = 0

    def _arm(self) -> None:
        if self._waiting:
            kinds = 0
            for one, _, _ in self._waiting.values():
                kinds |= one
            self._armed = max(1, min(left for _, left, _ in self._waiting.values()))
            recorder.arm(kinds, self._armed, self._ring)

    def _ring(self) -> None:
        """Call everything that is due, then raise the first error."""
        self._passed()
        due = [(name, call) for name, (_, left, call) in self._waiting.items() if left <= 0]
        for name, _ in due:
            del self._waiting[name]
        self._arm()
        raised: BaseException | None = None
        for _, call in due:
            try:
                call()
            except BaseException as error:
                raised = raised or error
        if raised is not None:
            raise raised


class StepAlarm:
    """Calls functions when the fold has counted N steps, on the thread that completes the step.

    Args:
        alarm: Wakes that thread at the earliest event that may complete it.
        catch_up: Folds all events so far; returns the fold, or None if nothing is measured yet.
    """

    def __init__(self, alarm: Alarm, catch_up: Callable[[], Fold | None]) -> None:
        self._alarm, self._catch_up = alarm, catch_up
        self._stops: list[tuple[int, str | None, Callable[[], object], bool]] = []

    def add(self, n: int, task: str | None, reached: Callable[[], object], once: bool) -> None:
        """Add what :meth:`.Measuring.stop_at` describes."""
        self._stops.append((n, task, reached, once))

    def arm(self, fold: Fold) -> None:
        """Set the alarm for the earliest event that may complete a step that is waited for."""
        if self._stops:
            left = min(n - fold.steps(task) for n, task, _, _ in self._stops)
            self._alarm.set("steps", max(left, 1), self._counted, self._kinds(fold))

    def off(self) -> None:
        """Call nothing any more."""
        self._alarm.off("steps")

    def _counted(self) -> None:
        fold = self._catch_up()
        assert fold is not None
        due = [stop for stop in self._stops if stop[0] <= fold.steps(stop[1])]
        self._stops = [stop for stop in self._stops if not (stop in due and stop[3])]
        self.arm(fold)
        for _, _, reached, _ in due:
            reached()

    def _kinds(self, fold: Fold) -> tuple[int, ...]:
        """Kinds of events that may complete a step, as far as the fold knows."""
        batches = not fold.made and fold.told_by == "batches"
        return (*STEP_KINDS, k.LOADING) if batches else STEP_KINDS
