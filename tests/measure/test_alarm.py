"""The recorder's one alarm has several waiters, each called at its own event."""

from __future__ import annotations

import pytest

from overseer.boundary import StopProgram
from overseer.measure import alarm as alarms
from overseer.measure.alarm import Alarm


class Recorder:
    """The alarm of the recorder, as both of its kinds have it."""

    kinds = left = 0

    def arm(self, kinds, n, call):
        before, self.kinds, self.left, self.call = self.left, kinds, n, call
        return before

    def event(self, kind):
        if self.left and self.kinds >> kind & 1:
            self.left -= 1
            if not self.left:
                self.kinds = 0
                self.call()


def test_all_who_wait_for_events_are_called_at_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    recorder, alarm, called = Recorder(), Alarm(), []
    monkeypatch.setattr(alarms, "recorder", recorder)

    def waits(name: str, n: int, kind: int = 1) -> None:
        alarm.set(name, n, lambda: called.append((at, name)), (kind,))

    for at in range(30):
        if at == 0:
            waits("five", 5)
            waits("nine", 9)
            waits("other", 2, kind=2)
        if at == 3:
            waits("one", 1)  # Others go on from where they are.
        if at == 10:
            waits("again", 20)
            waits("again", 2)
            waits("never", 5)
            alarm.off("never")
        if at == 15:
            waits("never", 1)
            alarm.off()
        recorder.event(1)
        recorder.event(3)
    assert called == [(1, "other"), (3, "one"), (4, "five"), (8, "nine"), (11, "again")]


def test_one_who_raises_keeps_nobody_else_from_being_called(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    recorder, alarm, called = Recorder(), Alarm(), []
    monkeypatch.setattr(alarms, "recorder", recorder)

    def fails() -> None:
        alarm.set("first", 1, fails, (1,))
        raise StopProgram("first")

    alarm.set("first", 1, fails, (1,))
    alarm.set("second", 1, lambda: called.append(1), (1,))
    for _ in range(3):
        with pytest.raises(StopProgram, match="first"):
            recorder.event(1)
    assert called == [1]
