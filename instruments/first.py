"""When the work on the first batch begins, where a voirfile's probe shows only how steps end."""

from __future__ import annotations

import re
from _thread import get_ident
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from overseer import Overseer

if TYPE_CHECKING:
    from overseer.measure.steps import StepModel

#: A probe for the end of a loop's iteration: the function, and the loop's variable.
_ENDS = re.compile(r"\s*(//?[\w./]*\w)\s*(?:\([^()]*\))?\s*>\s*#endloop_(\w+)\s+as\s+step\s*")
#: Threads that are told apart until the first step has ended.
_THREADS = 64


class First:
    """Notes when each thread's first iteration begins, and is gone when the first step has ended.

    Args:
        ov: The run.
    """

    def __init__(self, ov: Overseer) -> None:
        self._ov = ov
        self._began: dict[int, int] = {}
        self._undo: list[Callable[[], object]] = []

    def foresee(self) -> None:
        """Look at the beginning of the loops whose ends are steps; their code has not run yet."""
        if not self._ov.shows("step"):
            return
        for verdict in self._ov.probes.verdicts():
            found = _ENDS.fullmatch(str(verdict["selector"]))
            if found is not None:
                probe = self._ov.probes.probe(f"{found[1]} > #loop_{found[2]}")
                self._undo.append(probe.listen(self._begins, "rate").dispose)

    def _begins(self, event: dict[str, Any]) -> None:
        if len(self._began) < _THREADS:
            self._began.setdefault(get_ident(), self._ov.clock.now_ns())

    def tell(self, model: StepModel, making: int) -> None:
        """The first step is about to be noted: say when it began, and look no more.

        Args:
            model: The step model.
            making: How long it took to make it, in nanoseconds: that is not the script's time.
        """
        began = self._began.get(get_ident())
        if began is not None:
            model.body_begins(began + making)
        self.close()

    def close(self) -> None:
        """Look no more."""
        undo, self._undo = self._undo, []
        for each in undo:
            each()
