"""Places probes in code that runs now or later, and tracks the state of each."""

from __future__ import annotations

import os
import sys
import threading
import weakref

from ..boundary import said
from ..errors import VoirError
from ..imports import on_import, transform_source
from . import dynamo
from .calls import Trigger
from .explain import fits, lines, verdict
from .functions import renew
from .names import put
from .probe import PlacedProbe
from .selector import MAIN, looked_up, read
from .source import Unreadable, compiled, source_of
from .unit import Unit

TYPE_CHECKING = False
if TYPE_CHECKING:
    import ast
    from collections.abc import Callable, Mapping
    from typing import Any

    from ..errors import Problem
    from ..imports import Watch
    from .ptera import Ptera
    from .scopes import Scope

_engines: weakref.WeakSet[Engine] = weakref.WeakSet()


class Engine:
    """Places the probes of one run.

    Args:
        report: Called with the problem when a listener fails.
        debug: Called with a line for each place where a probe was put, or the reason it was not.
    """

    def __init__(
        self, report: Callable[[Problem], object], debug: Callable[[str], object] | None = None
    ) -> None:
        self.report = report
        self._debug = debug or (lambda line: None)
        self._lock = threading.RLock()
        self._pid = os.getpid()
        self._probes: list[PlacedProbe] = []
        self._units: dict[str, list[Unit]] = {}
        self._watches: dict[str, list[Watch]] = {}
        self._loaded: set[str] = set()
        self._dynamo: Watch | None = None
        self._ptera: Ptera | None = None
        self._closed = False
        _engines.add(self)

    def probe(
        self,
        selector: Any,
        *,
        overridable: bool = False,
        raw: bool = False,
        probe_type: str | None = None,
        env: Mapping[str, Any] | None = None,
        where: str | None = None,
        late: bool = False,
    ) -> PlacedProbe:
        """Place a probe, now or once its code is loaded.

        Args:
            selector: Text in ptera's language, or one of ptera's selector objects.
            overridable: The probe may replace the value of its focus.
            raw: Events carry ptera's Capture objects.
            probe_type: ptera's ``immediate``, ``total`` or ``None``.
            env: Namespace in which symbols of the selector are looked up.
            where: ``file:line`` of the caller.
            late: The script has ended.

        Raises:
            VoirError: The selector cannot be parsed.
        """
        parsed = read(selector, dict(env or {}), raw, probe_type)
        placed = PlacedProbe(parsed, self.report, where=where, overridable=overridable, late=late)
        with self._lock:
            self._probes.append(placed)
            if self._dynamo is None:
                self._dynamo = dynamo.watch()
            dynamo.register_sites(placed)
            for name in parsed.modules:
                self._await(self._module(name))
            self._attach(placed)
        return placed

    def _await(self, name: str) -> None:
        """Watch for the import of a module that is not loaded."""
        if name not in self._watches and not self.is_loaded(name) and name != MAIN:
            self._watches[name] = [
                transform_source(name, self.instrument),
                on_import(name, lambda module: self._arrived(name)),
            ]

    def _module(self, name: str) -> str:
        """Resolve a module name: a script run with ``-m`` is also ``__main__``."""
        spec = getattr(sys.modules.get(MAIN), "__spec__", None)
        return MAIN if spec is not None and spec.name == name else name

    def is_loaded(self, name: str) -> bool:
        """True once the module is fully imported; for the script, once its definitions have run."""
        if name in self._loaded or name == MAIN:
            return name in self._loaded
        module = sys.modules.get(name)
        spec = getattr(module, "__spec__", None)
        return module is not None and not getattr(spec, "_initializing", False)

    def _ours(self) -> bool:
        """True until the run is closed; False in forked children."""
        return not self._closed and os.getpid() == self._pid

    # Code that has not been executed yet

    def instrument(self, tree: ast.Module, module: str, filename: str) -> ast.Module:
        """Insert the calls of all probes known so far.

        Returns ``tree`` itself if no probe is in it. Called for each part of ``__main__``, and for
        other modules each time they are executed.
        """
        if not self._ours():
            return tree
        with self._lock:
            before = self._units.get(MAIN, []) if module == MAIN else []
            unit = Unit(module, filename, tree, before[0].futures if before else ())
            self._units[module] = [*before, unit]
            self._loaded -= {module} - {MAIN}
            for placed in self._probes:
                if placed.parsed.slow:
                    self._attach_when_defined(placed, unit)
                elif self._module(placed.parsed.module) == module:
                    self._add(placed, unit)
            return self._executed(unit)

    def _executed(self, unit: Unit) -> ast.Module:
        """Build the tree to run; if Python cannot compile it with probes, the original."""
        tree = unit.executed()
        if unit.module == MAIN and unit.orders:
            try:
                compiled(tree, unit.filename)
            except Unreadable as error:
                unit.orders, unit.loaded = {}, {}
                for placed in self._probes:
                    if unit in (of for of, _ in placed.places):
                        placed.trouble = str(error)
                return unit.tree
        return tree

    def _add(self, placed: PlacedProbe, unit: Unit) -> list[Scope]:
        """Order the probe in all scopes of ``unit`` that it fits; returns the new ones."""
        parsed, added = placed.parsed, []
        for scope in unit.at(parsed.path):
            fit = all(fits(capture, scope, placed.overridable) for capture in parsed.captures)
            if fit and (unit, scope) not in placed.places:
                placed.places.append((unit, scope))
                unit.orders.setdefault(scope, []).extend(placed.triggers)
                added.append(scope)
                at = ", ".join(map(str, lines(parsed, scope))) or scope.key[1]
                self._debug(f"{parsed.text}: {unit.filename}:{at}")
        return added

    def _attach_when_defined(self, placed: PlacedProbe, unit: Unit) -> None:
        """Attach a slow probe as soon as the script's top level binds a name it needs."""
        module = unit.scopes[0]
        for name, path in placed.parsed.references:
            if self._module(name) == unit.module == MAIN and path and path[0] in module.bound:
                event = put(f"{placed.number} defined", lambda *values: self._attach(placed))
                unit.orders.setdefault(module, []).append(Trigger(path[0], event, event))

    # Code that is already loaded

    def main_loaded(self) -> None:
        """Attach to the script's definitions, which have run."""
        self._arrived(MAIN)

    def _arrived(self, name: str) -> None:
        if not self._ours():
            return
        with self._lock:
            self._loaded.add(name)
            for placed in self._probes:
                if name in map(self._module, placed.parsed.modules):
                    self._attach(placed)

    def _attach(self, placed: PlacedProbe) -> None:
        """Put the probe in loaded code, once all modules it names are loaded."""
        modules = set(map(self._module, placed.parsed.modules))
        if not (self._ours() and all(map(self.is_loaded, modules))):
            return
        try:
            if placed.parsed.slow:
                self._attach_slow(placed)
                return
            for unit in self._units_of(self._module(placed.parsed.module)):
                for scope in self._add(placed, unit):
                    placed.trouble = renew(unit, scope) or placed.trouble
        except Unreadable as error:
            placed.trouble = str(error)
        if placed.trouble:
            self._debug(f"{placed.selector}: {placed.trouble}")

    def _units_of(self, module: str) -> list[Unit]:
        if module not in self._units and module != MAIN:
            tree, filename = source_of(sys.modules[module])
            self._units[module] = [Unit(module, filename, tree)]
        return self._units.get(module, [])

    def _attach_slow(self, placed: PlacedProbe) -> None:
        if self._ptera is None:
            from .ptera import Ptera

            self._ptera = Ptera()
        if self._ptera.serves(placed):
            return
        try:
            self._ptera.attach(placed, lambda symbol: looked_up(symbol, placed.parsed))
            placed.trouble = ""
        except Exception as error:
            why = said(error)
            if isinstance(error, VoirError):
                why = f"{error.what}. {error.remedy}" if error.remedy else error.what
            placed.trouble = f"ptera cannot run it: {why}"

    # While the script runs, and after

    @property
    def fired(self) -> dict[int, int]:
        """Event count of each probe, by its number."""
        return {placed.number: placed.fired for placed in self._probes}

    def verdicts(self) -> list[dict[str, Any]]:
        """The list ``probes`` of ``run.json``."""
        with self._lock:
            return [self._verdict(placed) for placed in self._probes]

    def _verdict(self, placed: PlacedProbe) -> dict[str, Any]:
        served = self._ptera is not None and self._ptera.serves(placed)
        attached = served or bool(placed.places and not placed.trouble)
        return verdict(placed, attached, self._units.get(self._module(placed.parsed.module), []))

    def silence(self) -> None:
        """Stop delivering events, in the child of a fork."""
        self._lock = threading.RLock()
        for placed in self._probes:
            placed.silence()

    def close(self) -> None:
        """End the run; idempotent. Inserted code goes on calling sites, which do nothing.

        Call :meth:`verdicts` before.
        """
        if not self._ours():
            return
        with self._lock:
            self._closed = True
            watches = [watch for those in self._watches.values() for watch in those]
            for watch in [*watches, *([self._dynamo] if self._dynamo else ())]:
                watch.dispose()
            for placed in self._probes:
                placed.silence()
            if self._ptera is not None:
                self._ptera.close()
            _engines.discard(self)


def _after_fork() -> None:
    for engine in list(_engines):
        engine.silence()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
