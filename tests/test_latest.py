"""What several threads bring up to date at one moment stands as the last change has it."""

from __future__ import annotations

from overseer.latest import Latest


class Shown:
    """What is shown of a number; another thread may change it between reading and showing."""

    def __init__(self) -> None:
        self.number = self.shown = 0
        self.runs = 0
        self.meanwhile = [1, 2]
        self.refresh = Latest(self._show)

    def _show(self) -> None:
        self.runs += 1
        number = self.number
        if self.meanwhile:
            self.number = self.meanwhile.pop(0)
            self.refresh()
        self.shown = number


def test_what_was_read_before_a_change_does_not_stand() -> None:
    shown = Shown()
    shown.refresh()
    assert shown.shown == 2


def test_what_nobody_else_wants_is_done_once() -> None:
    shown = Shown()
    shown.meanwhile.clear()
    shown.refresh()
    assert shown.runs == 1
