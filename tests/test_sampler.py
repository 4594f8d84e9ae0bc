"""What is kept of given events, whichever thread takes it meanwhile."""

from __future__ import annotations

from typing import Any

from overseer.clock import Clock
from overseer.sampler import Sampler


class Interrupted(Sampler):
    """One from which another thread takes while an event is being considered."""

    def __init__(self) -> None:
        super().__init__(Clock())
        self.taken: list[dict[str, Any]] = []

    def _line(self, event: dict[str, Any], seen: int) -> dict[str, Any]:
        self.taken += self.take()
        return super()._line(event, seen)


def test_an_event_that_comes_while_others_are_taken_is_kept_for_the_next_time() -> None:
    sampler = Interrupted()
    for number in range(3):
        sampler({"x": number}, number + 1)
    assert [line["x"] for line in [*sampler.taken, *sampler.take()]] == [0, 1, 2]
