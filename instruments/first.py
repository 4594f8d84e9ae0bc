"""When the work on the first batch begins, where a voirfile's probe shows only how steps end."""

from __future__ import annotations

import re
from _thread import get_ident
from collections.abc import Callable
from functools import partial
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from overseer import Overseer

if TYPE_CHECKING:
    from overseer.measure.steps import StepModel

#: A probe for the end of a loop's iteration: the function, and the loop's variable.
_ENDS = re.compile(r"\s*(//?[\w./]*\w)\s*(?:\([^()]*\))?\s*>\s*#endloop_(\w+)\s+as\s+step\s*")
#: Threads that are told apart until the first step has ended.
_THREADS = 64


class First:
    """Notes when each loop's first iteration begins, on each thread until there was a step.

    Args:
        ov: The run.
    """

    def __init__(self, ov: Overseer) -> None:
        self._ov = ov
        self._model: StepModel | None = None
        self._began: dict[tuple[int, str], int] = {}
        self._undo: dict[str, Callable[[], object]] = {}
        self._several = False

    def foresee(self) -> None:
        """Look at the beginning of the loops whose ends are steps; their code has not run yet."""
        if not self._ov.shows("step"):
            return
        for verdict in self._ov.probes.verdicts():
            found = _ENDS.fullmatch(str(verdict["selector"]))
            selector = f"{found[1]} > #loop_{found[2]}" if found is not None else ""
            if selector and selector not in self._undo:
                probe = self._ov.probes.probe(selector)
                listening = probe.listen(partial(self._begins, selector), "rate")
                self._undo[selector] = listening.dispose
        self._several = len(self._undo) > 1

    def _begins(self, selector: str, event: dict[str, Any]) -> None:
        if self._model is not None:
            undo = self._undo.pop(selector, None)
            if undo is not None:
                self._model.body_begins(self._ov.clock.now_ns(), self._several)
                undo()
        elif len(self._began) < _THREADS:
            self._began.setdefault((get_ident(), selector), self._ov.clock.now_ns())

    def tell(self, model: StepModel, making: int) -> None:
        """The first step is about to be noted: say which loops have begun, and look at the others.

        Args:
            model: The step model.
            making: How long it took to make it, in nanoseconds: that is not the script's time.
        """
        self._model = model
        for (thread, selector), began in sorted(self._began.items(), key=itemgetter(1)):
            if thread == get_ident():
                model.body_begins(began + making, self._several)
            undo = self._undo.pop(selector, None)
            if undo is not None:
                undo()

    def close(self) -> None:
        """Look no more."""
        while self._undo:
            _, undo = self._undo.popitem()
            undo()
