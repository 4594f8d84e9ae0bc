"""Which sources there are, and which places in them a probe has."""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable, Iterator
from types import FunctionType, ModuleType
from typing import Any

from .fitting import Place, fits, lines, why_not
from .hidden import Shared
from .placed import PlacedProbe
from .scopes import Scope
from .selectors import MAIN
from .sources import Unreadable, parsed, source_of
from .units import Unit, key_of


class Places:
    """The units the engine knows, and the places of probes in them.

    Args:
        names: Hidden names that all probes share.
        debug: Called with lines that say where probes were put.
    """

    def __init__(self, names: Shared, debug: Callable[[str], object]) -> None:
        self._names = names
        self._debug = debug
        self._units: dict[str, list[Unit]] = {}
        self._of: dict[PlacedProbe, list[Place]] = {}
        self.troubles: dict[PlacedProbe, str] = {}

    @property
    def units(self) -> list[Unit]:
        """All of them."""
        return [unit for units in self._units.values() for unit in units]

    def units_of(self, module: str) -> list[Unit]:
        """The units of a module that are known."""
        return self._units.get(module, [])

    def of(self, placed: PlacedProbe) -> list[Place]:
        """The places of a probe, as far as they were looked for."""
        return self._of.get(placed, [])

    def forget(self) -> None:
        """The run is over: when python ends, it looks three times at each object that is alive."""
        self._units.clear()
        self._of.clear()

    def probes(self) -> list[PlacedProbe]:
        """The probes that have places, in the order in which they were set."""
        return sorted(self._of, key=lambda placed: placed.number)

    def within(self, unit: Unit) -> Iterator[tuple[PlacedProbe, Place]]:
        """The probes in a unit, in the order in which they were set."""
        for placed in self.probes():
            for place in self._of[placed]:
                if place.unit is unit:
                    yield placed, place

    def drop(self, placed: PlacedProbe, place: Place, why: str) -> None:
        """The probe cannot be in this place."""
        self._of[placed] = [one for one in self._of[placed] if one is not place]
        self.give_up(placed, why)

    def give_up(self, placed: PlacedProbe, why: str) -> None:
        """Remember why a probe came to nothing."""
        self.troubles[placed] = why
        self._debug(f"{placed.selector}: {why}")

    def execute(self, tree: ast.Module, module: str, filename: str) -> Unit:
        """A unit for source that is about to be executed; a module's earlier one is obsolete."""
        before = self._units.get(module, []) if module == MAIN else []
        unit = Unit(module, filename, tree, self._names, before[0].flags if before else 0)
        for old in self._units.get(module, []):
            if old not in before:
                for placed in self._of:
                    self._of[placed] = [p for p in self._of[placed] if p.unit is not old]
        self._units[module] = [*before, unit]
        return unit

    def add(self, placed: PlacedProbe, unit: Unit) -> None:
        """Put the probe wherever it fits in ``unit``."""
        wish = placed.wish
        for scope in unit.at(wish.path):
            if fits(wish, scope, placed.overridable):
                self._of.setdefault(placed, []).append(Place(unit, scope))
                at = ", ".join(map(str, lines(wish, scope))) or scope.key[1]
                self._debug(f"{wish.text}: {unit.filename}:{at}")

    def resolve(self, placed: PlacedProbe, loaded: bool) -> None:
        """Find the places of a probe in code that is there, by its source.

        Args:
            placed: The probe.
            loaded: Whether the module that the selector names is there.
        """
        if placed in self._of:
            return
        wish = placed.wish
        try:
            if wish.function is not None:
                self._of[placed] = [self._place_of(wish.function, placed)]
            elif loaded:
                units = self._loaded(wish.module)
                self._of[placed] = []
                for unit in units:
                    self.add(placed, unit)
        except Unreadable as error:
            self.give_up(placed, str(error))

    def _loaded(self, name: str) -> list[Unit]:
        if name not in self._units and name != MAIN:
            tree, filename = source_of(sys.modules[name])
            self._units[name] = [Unit(name, filename, tree, self._names)]
        return self._units.get(name, [])

    def holder(self, function: FunctionType) -> tuple[Unit, Scope] | None:
        """Where a function is defined, as far as the units are known."""
        code = function.__code__
        for unit in self.units:
            if unit.filename == code.co_filename:
                for scope in unit.scopes:
                    if scope.key == key_of(code):
                        return unit, scope
        return None

    def _place_of(self, function: FunctionType, placed: PlacedProbe) -> Place:
        code = function.__code__
        for unit in self._with(function):
            for scope in unit.scopes:
                if unit.filename == code.co_filename and scope.key == key_of(code):
                    if not fits(placed.wish, scope, placed.overridable):
                        raise Unreadable(why_not(placed.wish, [unit], placed.overridable))
                    return Place(unit, scope, function)
        raise Unreadable(f"the definition of {function.__qualname__} is not in {code.co_filename}")

    def _with(self, function: FunctionType) -> list[Unit]:
        """The units that have the source of a function."""
        filename, name = function.__code__.co_filename, function.__module__ or ""
        for units in self._units.values():
            if any(unit.filename == filename for unit in units):
                return units
        module = sys.modules.get(name)
        if _file_of(module) == filename:
            return self._loaded(name)
        import linecache

        text = "".join(linecache.getlines(filename, function.__globals__))
        if not text:
            what = f"{function.__qualname__} was made at run time, by {filename}: it has no source"
            raise Unreadable(f"{what}. Probe the function that calls it.")
        self._units[filename] = [Unit(name, filename, parsed(text, filename), self._names)]
        return self._units[filename]


def _file_of(module: ModuleType | None) -> Any:
    return getattr(module, "__file__", None)


__all__ = ["Places"]
