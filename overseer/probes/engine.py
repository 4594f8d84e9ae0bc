"""The engine: places probes in code that runs now or later, and knows what became of each."""

from __future__ import annotations

import ast
import os
import sys
import threading
import weakref
from collections.abc import Callable, Iterable
from types import CodeType, FunctionType, ModuleType
from typing import Any

from ..boundary import said
from ..errors import Problem
from ..imports import Watch, on_import, transform_source
from .fitting import Place, fits, lines, why_not
from .hidden import Hidden
from .live import Ledger, give, live_functions
from .placed import PlacedProbe
from .scopes import Key, Scope
from .selectors import Wish
from .sources import Unreadable, parsed, source_of
from .stanzas import Trigger
from .units import Unfit, Unit, key_of, merged

MAIN = "__main__"
_engines: weakref.WeakSet[Engine] = weakref.WeakSet()


class Engine:
    """Places probes.

    Args:
        report: Called with each problem: a listener that fails, a probe that came to nothing.
        debug: Called with lines that explain what was done.
    """

    def __init__(
        self, report: Callable[[Problem], None], debug: Callable[[str], object] | None = None
    ) -> None:
        self.report = report
        self._debug = debug or (lambda line: None)
        self._lock = threading.RLock()
        self._pid = os.getpid()
        self._hidden = Hidden()
        self._names = self._hidden.share(self._failed, _unbound)
        self._probes: list[PlacedProbe] = []
        self._units: dict[str, list[Unit]] = {}
        self._places: dict[PlacedProbe, list[Place]] = {}
        self._troubles: dict[PlacedProbe, str] = {}
        self._watches: dict[str, list[Watch]] = {}
        self._touched: dict[tuple[int, int], set[Key]] = {}
        self._ledger = Ledger()
        self._main_loaded = False
        self._closed = False
        _engines.add(self)

    # Placing

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

        Args:
            selector: In ptera's language, or a selector that ptera made.
            overridable: Whether the probe may replace the value of its focus.
            raw: Whether events carry ptera's Capture objects.
            probe_type: ``immediate``, ``total`` or ``None``, as ptera has it.
            env: Where symbols in the selector are looked up.
            where: ``file:line`` of whoever sets the probe.

        Raises:
            VoirError: The selector cannot be read.
        """
        from .ptera_bridge import read

        wish = read(selector, env, raw=raw, probe_type=probe_type)
        placed = PlacedProbe(
            wish,
            len(self._probes),
            self._hidden,
            self._changed,
            self.report,
            where=where,
            overridable=overridable,
        )
        with self._lock:
            self._probes.append(placed)
            self._await(placed)
        return placed

    def _await(self, placed: PlacedProbe) -> None:
        """Wait for the module, if it is not there."""
        name = placed.wish.module
        if name == MAIN or name in self._watches or self._is_loaded(name) or placed.wish.function:
            return
        self._watches[name] = [
            transform_source(name, self.instrument),
            on_import(name, lambda module: self._imported(name)),
        ]

    def _is_loaded(self, name: str) -> bool:
        if name == MAIN:
            return self._main_loaded
        module = sys.modules.get(name)
        spec = getattr(module, "__spec__", None)
        return module is not None and not getattr(spec, "_initializing", False)

    def instrument(self, tree: ast.Module, module: str, filename: str) -> ast.Module:
        """The tree to run in place of ``tree``, with calls for the probes known now.

        A tree that no probe concerns is returned as it is. Called for each part of ``__main__``
        in turn; for a module, each time it is executed.
        """
        with self._lock:
            before = self._units.get(module, []) if module == MAIN else []
            flags = before[0].flags if before else 0
            unit = Unit(module, filename, tree, self._names, flags)
            self._units[module] = [*before, unit]
            for placed in self._probes:
                if placed.wish.module in _names_of(module) and placed.wish.function is None:
                    self._places[placed] = [*self._kept(placed, before), *self._fit(placed, unit)]
            return self._instrumented(unit)

    def _kept(self, placed: PlacedProbe, units: list[Unit]) -> list[Place]:
        return [place for place in self._places.get(placed, ()) if place.unit in units]

    def _instrumented(self, unit: Unit) -> ast.Module:
        orders = self._orders_at_load(unit)
        while orders:
            try:
                changed = unit.instrumented(orders)
            except Unfit as unfit:
                orders = self._without_unfit(unit, unfit)
                continue
            unit.loaded = orders
            return changed
        unit.loaded = {}
        return unit.tree

    def _orders_at_load(self, unit: Unit) -> dict[Scope, list[Trigger]]:
        """For all code that cannot be reached later, and for functions somebody listens to."""
        return merged(
            (place.scope, placed.triggers(guarded=not place.swappable))
            for placed, place in self._placed_in(unit)
            if placed.active or not place.swappable
        )

    def _without_unfit(self, unit: Unit, unfit: Unfit) -> dict[Scope, list[Trigger]]:
        for placed, place in list(self._placed_in(unit)):
            try:
                unit.instrumented({place.scope: placed.triggers(guarded=not place.swappable)})
            except Unfit as alone:
                self._give_up(placed, str(alone))
                self._places[placed].remove(place)
        return self._orders_at_load(unit)

    def _placed_in(self, unit: Unit) -> Iterable[tuple[PlacedProbe, Place]]:
        for placed in self._probes:
            for place in self._places.get(placed, ()):
                if place.unit is unit:
                    yield placed, place

    def _fit(self, placed: PlacedProbe, unit: Unit) -> list[Place]:
        wish = placed.wish
        scopes = [s for s in unit.at(wish.path) if fits(wish, s, placed.overridable)]
        for scope in scopes:
            at = ", ".join(map(str, lines(wish, scope))) or scope.key[1]
            self._debug(f"{wish.text}: {unit.filename}:{at}")
        return [Place(unit, scope) for scope in scopes]

    # Code that is there already

    def main_loaded(self) -> None:
        """The script's definitions have run: attach to them."""
        with self._lock:
            self._main_loaded = True
        self._imported(MAIN)

    def _imported(self, name: str) -> None:
        if self._closed or os.getpid() != self._pid:
            return
        with self._lock:
            for watch in self._watches.get(name, [])[1:]:
                watch.dispose()
            for placed in self._probes:
                if placed.wish.module in _names_of(name):
                    self._changed(placed)

    def _changed(self, placed: PlacedProbe) -> None:
        """Somebody listens, or nobody any more: bring the code in line."""
        if self._closed or os.getpid() != self._pid:
            return
        with self._lock:
            if placed.active and placed not in self._places:
                self._resolve(placed)
            blocks = {
                (place.unit, place.scope.block)
                for place in self._places.get(placed, ())
                if place.swappable and self._is_loaded(place.unit.module)
            }
            for unit, block in blocks:
                self._apply(unit, block)

    def _resolve(self, placed: PlacedProbe) -> None:
        """Find the place of a probe in code that is there, by its source."""
        wish = placed.wish
        try:
            if wish.function is not None:
                self._places[placed] = [self._place_of(wish.function, placed)]
            elif self._is_loaded(wish.module):
                found = [
                    p for unit in self._loaded_units(wish.module) for p in self._fit(placed, unit)
                ]
                self._places[placed] = found
        except Unreadable as error:
            self._give_up(placed, str(error))

    def _loaded_units(self, name: str) -> list[Unit]:
        if name not in self._units and name != MAIN:
            tree, filename = source_of(sys.modules[name])
            self._units[name] = [Unit(name, filename, tree, self._names)]
        return self._units.get(name, [])

    def _place_of(self, function: FunctionType, placed: PlacedProbe) -> Place:
        code = function.__code__
        for unit in self._units_with(function):
            for scope in unit.scopes:
                if unit.filename == code.co_filename and scope.key == key_of(code):
                    if not fits(placed.wish, scope, placed.overridable):
                        raise Unreadable(why_not(placed.wish, [unit], placed.overridable))
                    return Place(unit, scope, function)
        raise Unreadable(f"the definition of {function.__qualname__} is not in {code.co_filename}")

    def _units_with(self, function: FunctionType) -> list[Unit]:
        filename = function.__code__.co_filename
        for units in self._units.values():
            if any(unit.filename == filename for unit in units):
                return units
        name = function.__module__ or ""
        module = sys.modules.get(name)
        if module is not None and getattr(module, "__file__", None) == filename:
            return self._loaded_units(name)
        import linecache

        text = "".join(linecache.getlines(filename, function.__globals__))
        if not text:
            raise Unreadable(f"{function.__qualname__} was made at run time, from {filename}")
        self._units[filename] = [Unit(name, filename, parsed(text, filename), self._names)]
        return self._units[filename]

    def _apply(self, unit: Unit, block: int) -> None:
        """Give every function of the block the code that suits the probes it has now."""
        try:
            self._swap(unit, block)
        except Unfit:
            self._drop_unfit(unit, block)
            self._swap(unit, block)

    def _swap(self, unit: Unit, block: int) -> None:
        here = [
            (placed, place)
            for placed, place in self._placed_in(unit)
            if place.scope.block == block and place.swappable and placed.active
        ]
        for_all = merged((p.scope, d.triggers(False)) for d, p in here if p.only is None)
        codes = self._codes(unit, block, for_all)
        special = {}
        for only in {id(p.only): p.only for _, p in here if p.only is not None}.values():
            more = [(p.scope, d.triggers(False)) for d, p in here if p.only in (None, only)]
            special[id(only)] = self._codes(unit, block, merged(more))
        for function in self._functions(unit, block, here):
            self._give(function, special.get(id(function), codes), unit, block)

    def _codes(
        self, unit: Unit, block: int, orders: dict[Scope, list[Trigger]]
    ) -> dict[Key, CodeType] | None:
        """The block's code objects with ``orders``; ``None``: as they were."""
        if not orders:
            return None
        codes = unit.probed(block, orders)
        for code in codes.values():
            self._ledger.own(code)
        return codes

    def _functions(
        self, unit: Unit, block: int, here: list[tuple[PlacedProbe, Place]]
    ) -> list[FunctionType]:
        """The live functions whose code differs, or differed, from plain."""
        touched = self._touched.setdefault((id(unit), block), set())
        for _, place in here:
            chain = [place.scope] if place.only is not None else place.scope.chain()
            touched |= {scope.key for scope in chain if scope.is_function}
        touched |= {s.key for o in (unit.loaded or {}) for s in o.chain() if s.is_function}
        scopes = [s for s in unit.scopes if s.block == block and s.key in touched]
        only = [place.only for _, place in here]
        if only and all(function is not None for function in only):
            return [function for function in only if function is not None]
        keys = {scope.key: scope.repeated for scope in scopes}
        known = self._ledger.known(unit.filename, keys)
        return live_functions(sys.modules.get(unit.module), unit.filename, keys, known)

    def _give(
        self, function: FunctionType, codes: dict[Key, CodeType] | None, unit: Unit, block: int
    ) -> None:
        before, key = function.__code__, key_of(function.__code__)
        if not self._ledger.is_ours(before) and not self._recognised(before, unit, block):
            for placed, place in self._placed_in(unit):
                if place.scope.key == key:
                    self._give_up(placed, _differs(unit.filename))
            return
        plain = self._ledger.original(unit.filename, key) or unit.plain(block)[key]
        give(function, codes[key] if codes is not None else plain)

    def _recognised(self, code: CodeType, unit: Unit, block: int) -> bool:
        """Whether ``code`` is what the source says, and remember it then."""
        key = key_of(code)
        if code == unit.plain(block).get(key):
            self._ledger.keep(code)
            return True
        if unit.loaded and code == unit.at_load(block).get(key):
            self._ledger.own(code)
            return True
        return False

    def _drop_unfit(self, unit: Unit, block: int) -> None:
        for placed, place in list(self._placed_in(unit)):
            if place.scope.block == block and place.swappable:
                try:
                    unit.probed(block, {place.scope: placed.triggers(False)})
                except Unfit as unfit:
                    self._give_up(placed, str(unfit))
                    self._places[placed].remove(place)

    def _give_up(self, placed: PlacedProbe, why: str) -> None:
        self._troubles[placed] = why
        self._debug(f"{placed.selector}: {why}")

    # While the script runs

    def _failed(self, number: int) -> bool:
        """Called by inserted code with an exception in hand: whether the script is to have it."""
        error = sys.exc_info()[1]
        if error is None or self._closed:
            return False
        return self._probes[number].failed(error)

    def _silence(self) -> None:
        """In the child of a fork: the run is the parent's, so deliver nothing."""
        self._lock = threading.RLock()
        for placed in self._probes:
            placed.active = False
            placed.refresh()

    # The end

    def verdicts(self) -> list[dict[str, Any]]:
        """What became of each probe, as ``run.json`` has it."""
        from .verdicts import verdict

        with self._lock:
            return [verdict(p, *self._state_of(p)) for p in self._probes]

    def _state_of(self, placed: PlacedProbe) -> tuple[bool, str]:
        """Whether the probe found its code, and what to say if it has not fired."""
        if placed not in self._places and placed not in self._troubles:
            self._resolve(placed)
        if self._places.get(placed):
            return True, self._troubles.get(placed) or _silent(placed, self._places[placed])
        return False, self._troubles.get(placed) or self._missing(placed.wish, placed.overridable)

    def _missing(self, wish: Wish, overridable: bool) -> str:
        units = self._units.get(wish.module, [])
        if units:
            return why_not(wish, units, overridable)
        if wish.module == MAIN:
            return "the script was never loaded"
        return f"{wish.module} was never imported"

    def close(self) -> None:
        """Give every function its own code back, leave nothing behind; harmless when repeated."""
        if self._closed or os.getpid() != self._pid:
            return
        with self._lock:
            self._closed = True
            for watch in (w for watches in self._watches.values() for w in watches):
                watch.dispose()
            self._restore()
            self._hidden.clear({n for placed in self._probes for n in placed.lasting})
            _engines.discard(self)

    def _restore(self) -> None:
        for unit in (unit for units in self._units.values() for unit in units):
            for block in {scope.block for scope in unit.loaded or {} if scope.path}:
                self._functions_back(unit, block)
        for function in self._ledger.swapped():
            key, filename = key_of(function.__code__), function.__code__.co_filename
            plain = self._ledger.original(filename, key) or self._plain(filename, key)
            if plain is not None:
                give(function, plain)
        self._ledger.clear()

    def _functions_back(self, unit: Unit, block: int) -> None:
        for function in self._functions(unit, block, []):
            self._give(function, None, unit, block)

    def _plain(self, filename: str, key: Key) -> CodeType | None:
        for unit in (unit for units in self._units.values() for unit in units):
            if unit.filename == filename:
                for scope in unit.scopes:
                    if scope.key == key:
                        return unit.plain(scope.block).get(key)
        return None


def _names_of(module: str) -> tuple[str, ...]:
    """The names under which selectors may know ``module``: a script run with -m has two."""
    if module != MAIN:
        return (module,)
    spec = getattr(sys.modules.get(MAIN), "__spec__", None)
    return (MAIN, spec.name) if spec is not None else (MAIN,)


def _unbound() -> bool:
    """Called by inserted code with an exception in hand: a captured variable has no value."""
    error = sys.exc_info()[1]
    return isinstance(error, NameError) and (
        error.__traceback__ is None or error.__traceback__.tb_next is None
    )


def _differs(filename: str) -> str:
    return f"the code that runs is not what {filename} says: edited since, or changed by a tool"


def _silent(placed: PlacedProbe, places: list[Place]) -> str:
    if not placed.heard:
        return "nobody listened to it"
    if not any(place.swappable or place.scope in (place.unit.loaded or {}) for place in places):
        return "that code had run already when the probe was set; set it before load_script ends"
    scope = places[0].scope
    where = f"{os.path.basename(places[0].unit.filename)}:{scope.key[1] or 1}"
    return f"its code, {placed.wish.reference} at {where}, never got there"


def _after_fork() -> None:
    for engine in list(_engines):
        engine._silence()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)

__all__ = ["Engine"]
_ = (ModuleType, said)
