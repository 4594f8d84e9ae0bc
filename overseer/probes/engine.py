"""The engine: places probes, remembers what became of each."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

from ..boundary import Guarded, asked_for, current, name_of, problem
from ..errors import Problem, VoirError

Event = dict[str, Any]


class _Absent:
    def __repr__(self) -> str:
        return "ABSENT"


ABSENT = _Absent()


class Listening:
    """A listener in its place; ``dispose`` takes it out."""

    def __init__(self, dispose: Callable[[], None]) -> None:
        self.dispose = dispose


class PlacedProbe:
    """A probe: its selector, where it was set, how often it fired."""

    def __init__(self, engine: Engine, selector: Any, where: str | None, options: dict[str, Any]):
        self.selector = str(selector)
        self.where = where
        self.fired = 0
        self._engine = engine
        self._source = selector
        self._options = options
        self._calls: list[Any] = []
        self._interceptor: Callable[[Event], object] | None = None
        self._ptera: Any = None

    def listen(self, fn: Callable[[Event], object]) -> Listening:
        """Call ``fn(event)`` for each event."""
        call = Guarded(fn, current() or name_of(fn), self._engine.report)
        self._calls.append(call)
        return Listening(lambda: self._drop(call))

    def _drop(self, call: Any) -> None:
        if call in self._calls:
            self._calls.remove(call)

    def intercept(self, fn: Callable[[Event], object]) -> None:
        """Let ``fn(event)`` replace the value of the focus; ``ABSENT`` leaves it alone."""
        self._interceptor = fn

    def activate(self) -> None:
        """Attach to the code that is there."""
        from . import ptera_bridge

        if self._ptera is None:
            self._ptera = ptera_bridge.attach(self._source, self._options, self._event)

    def deactivate(self) -> None:
        """Detach."""
        if self._ptera is not None:
            self._ptera.deactivate()
            self._ptera = None

    def _event(self, event: Event) -> object:
        self.fired += 1
        for call in list(self._calls):
            call(event)
        if self._interceptor is None:
            return ABSENT
        try:
            return self._interceptor(event)
        except BaseException as error:
            if asked_for(error):
                raise
            self._engine.report(problem("subscriber", self.selector, error))
            return ABSENT


class Engine:
    """Places probes.

    Args:
        report: Called with each problem: a probe that cannot be placed, a listener that fails.
        debug: Called with lines that explain what was done.
    """

    def __init__(
        self, report: Callable[[Problem], None], debug: Callable[[str], object] | None = None
    ) -> None:
        self.report = report
        self._debug = debug or (lambda line: None)
        self._probes: list[PlacedProbe] = []
        self._ready = False

    def probe(
        self,
        selector: Any,
        *,
        overridable: bool = False,
        raw: bool = False,
        probe_type: str | None = None,
        env: dict[str, Any] | None = None,
        where: str | None = None,
    ) -> PlacedProbe:
        """Place a probe; code that is not there yet is waited for.

        Raises:
            VoirError: The selector cannot be read.
        """
        from . import ptera_bridge

        ptera_bridge.check(selector)
        options = {"overridable": overridable, "raw": raw, "probe_type": probe_type, "env": env}
        placed = PlacedProbe(self, selector, where, options)
        self._probes.append(placed)
        if self._ready:
            self._activate(placed)
        return placed

    def instrument(self, tree: ast.Module, module: str, filename: str) -> ast.Module:
        """The tree with calls for the probes known now."""
        return tree

    def main_loaded(self) -> None:
        """The script's definitions exist: attach to them."""
        self._ready = True
        for placed in list(self._probes):
            self._activate(placed)

    def _activate(self, placed: PlacedProbe) -> None:
        try:
            placed.activate()
        except Exception as error:
            self.report(Problem("unresolved", placed.selector, str(error), placed.where))

    def close(self) -> None:
        """Take every probe out."""
        probes, self._probes = self._probes, []
        for placed in probes:
            placed.deactivate()

    def verdicts(self) -> list[dict[str, Any]]:
        """What became of each probe, for ``run.json``."""
        return [
            {
                "selector": p.selector,
                "where": p.where,
                "state": "fired" if p.fired else "never fired" if p._ptera else "unresolved",
                "fired": p.fired,
                "hint": None,
            }
            for p in self._probes
        ]


_ = VoirError
