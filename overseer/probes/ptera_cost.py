"""What ptera's engine costs the script: a few of the things it does are timed, all are counted.

A function that ptera has rewritten tells when a call of it begins and ends, and each value that
some selector wants, whether or not an event comes of that. So those are counted, not events.
"""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType
from typing import Any

from ..sittings import Sittings

#: Two of so many are timed. A prime: what a loop does in each turn comes round, all of it.
TWO_IN = 31
#: In place of a probe's number.
PTERA = -1


class Counted:
    """Counts what ptera does, and times some of it.

    Attributes:
        times: How often it has done something.
    """

    __slots__ = ("_now", "_of", "times")

    def __init__(self) -> None:
        self._now: Callable[[], int] | None = None
        self._of = Sittings()
        self.times = 0

    def weigh(self, now: Callable[[], int], of: Sittings) -> None:
        """From now on ``of`` is told of those that are timed."""
        self._now, self._of = now, of

    def begin(self) -> int | None:
        """ptera begins to do something; returns when, if that is to be timed."""
        self.times = times = self.times + 1
        return None if times % TWO_IN > 1 or self._now is None else self._now()

    def end(self, began: int) -> None:
        """What began then, and was to be timed, is done."""
        if self._now is not None:
            self._of(began, self._now(), self.times)


def proceeding(ptera: Any, counted: Counted) -> Callable[..., Any]:
    """ptera's way into a call of a function that it has rewritten, with all that it does counted.

    The script may use ptera, too: so its modules stay as they are.

    Args:
        ptera: Its modules.
        counted: What counts.
    """
    code = ptera.overlay.HandlerCollection.proceed.__code__
    made = _counting(ptera.interpret, counted)
    return FunctionType(code, {**vars(ptera.overlay), "Interactor": made})


def _counting(interpret: Any, counted: Counted) -> type:
    """ptera's interactor, which a rewritten function reports to, with all reports counted."""
    plain: Any = interpret.WorkingFrame

    class Timed(plain):  # type: ignore[misc]
        began: int

        def __exit__(self, *exc: object) -> None:
            counted.end(self.began)

    class Interactor(interpret.Interactor):  # type: ignore[misc]
        def work_on(self, varname: Any, key: Any, category: Any) -> Any:
            began = counted.begin()
            if began is None:
                return plain(varname, key, category, self.accumulators)
            made = Timed(varname, key, category, self.accumulators)
            made.began = began
            return made

    return Interactor
