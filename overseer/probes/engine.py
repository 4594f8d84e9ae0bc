"""The engine: places probes in code that runs now or later, and knows what became of each."""

from __future__ import annotations

import ast
import os
import sys
import threading
import weakref
from collections.abc import Callable, Mapping
from types import FunctionType
from typing import TYPE_CHECKING, Any

from ..errors import Problem
from ..imports import Watch, on_import, transform_source
from .compiling import when_compiling
from .hidden import Hidden
from .placed import PlacedProbe
from .places import Places
from .ptera_cost import PTERA
from .scopes import Scope
from .selectors import MAIN, Asked
from .slow import Slow
from .stanzas import Trigger
from .swapping import Swapper
from .units import Unfit, Unit, merged
from .verdicts import missing, silent, verdict

if TYPE_CHECKING:
    from ..sittings import Sittings

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
        self._lock = threading.RLock()
        self._pid = os.getpid()
        self._hidden = Hidden()
        names = self._hidden.share(self._failed, _unbound)
        self._probes: list[PlacedProbe] = []
        self._places = Places(names, debug or (lambda line: None))
        self._swapper = Swapper(lambda placing, why: self._places.drop(*placing, why))
        self._slow = Slow(self._places, self.is_loaded, self._release, self._changed, self._hidden)
        self._watches: dict[str, list[Watch]] = {}
        self._main_loaded = False
        self._arrived: set[str] = set()
        self._compiling = False
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
        """Place a probe; code that is not there yet is waited for.

        Args:
            selector: In ptera's language, or a selector that ptera made.
            overridable: Whether the probe may replace the value of its focus.
            raw: Whether events carry ptera's Capture objects.
            probe_type: ``immediate``, ``total`` or ``None``, as ptera has it.
            env: Where symbols in the selector are looked up.
            where: ``file:line`` of whoever sets the probe.
            late: Whether the script has ended.

        Raises:
            VoirError: The selector cannot be read.
        """
        from .ptera_bridge import modules_of, read

        asked = Asked(selector, dict(env or {}), raw, probe_type)
        wish = read(asked)
        with self._lock:
            placed = PlacedProbe(
                wish,
                asked,
                len(self._probes),
                self._hidden,
                self._changed,
                self.report,
                where=where,
                overridable=overridable,
                late=late,
            )
            self._probes.append(placed)
            for name in modules_of(wish, asked):
                self._await(name)
            self._mind_torch(placed)
        return placed

    def _await(self, name: str) -> None:
        """Wait for the module, if it is not there."""
        if name not in self._watches and not self.is_loaded(name) and name != MAIN:
            self._watches[name] = [
                transform_source(name, self.instrument),
                on_import(name, lambda module: self._loaded(name)),
            ]

    def is_loaded(self, name: str) -> bool:
        """Whether the module is there, all of it; of the script, what defines things."""
        if name == MAIN:
            return self._main_loaded
        module = sys.modules.get(name)
        spec = getattr(module, "__spec__", None)
        # The import system takes it for unfinished until those have returned who wait for it.
        there = name in self._arrived or not getattr(spec, "_initializing", False)
        return module is not None and there

    def _mind_torch(self, placed: PlacedProbe) -> None:
        if self._compiling:
            placed.go_opaque()
        elif "torch" not in self._watches:
            self._watches["torch"] = [when_compiling(self._compile)]

    def _compile(self) -> None:
        """The script is about to compile something: hide the inside of probes from Dynamo."""
        if self._compiling or not self._ours():
            return
        with self._lock:
            self._compiling = True
            there = tuple(self._probes)
        # Without the lock: the lanes take that of a stream, whose listeners may set probes.
        for placed in there:
            placed.go_opaque()
            self._changed(placed)

    def _ours(self) -> bool:
        """Whether the run goes on, and in this process."""
        return not self._closed and os.getpid() == self._pid

    # Code that is executed under our eyes

    def instrument(self, tree: ast.Module, module: str, filename: str) -> ast.Module:
        """The tree to run in place of ``tree``, with calls for the probes known now.

        A tree that no probe concerns is returned as it is. Called for each part of ``__main__``
        in turn; for another module, each time it is executed.
        """
        with self._lock:
            self._arrived.discard(module)
            unit = self._places.execute(tree, module, filename)
            for placed in self._probes:
                wish = placed.wish
                if wish.module in _names_of(module) and not (wish.function or wish.slow):
                    self._places.add(placed, unit)
            unit.loaded, changed = self._instrumented(unit)
            return self._slow.instrument(changed, unit)

    def _instrumented(self, unit: Unit) -> tuple[dict[Scope, list[Trigger]], ast.Module]:
        try:
            orders = self._orders_at_load(unit)
            return orders, unit.instrumented(orders)
        except Unfit:
            self._drop_unfit(unit)
            orders = self._orders_at_load(unit)
            return orders, unit.instrumented(orders)

    def _orders_at_load(self, unit: Unit) -> dict[Scope, list[Trigger]]:
        """For all code that cannot be reached later, and for functions somebody listens to."""
        return merged(
            (place.scope, placed.triggers(guarded=not place.swappable))
            for placed, place in self._places.within(unit)
            if placed.active or not place.swappable
        )

    def _drop_unfit(self, unit: Unit) -> None:
        for placed, place in list(self._places.within(unit)):
            try:
                unit.instrumented({place.scope: placed.triggers(guarded=not place.swappable)})
            except Unfit as unfit:
                self._places.drop(placed, place, str(unfit))

    # Code that is there already

    def main_loaded(self) -> None:
        """The script's definitions have run: attach to them."""
        self._main_loaded = True
        self._loaded(MAIN)

    def _loaded(self, name: str) -> None:
        if not self._ours():
            return
        from .ptera_bridge import modules_of

        with self._lock:
            self._arrived.add(name)
            for watch in self._watches.get(name, [])[1:]:
                watch.dispose()
            units = self._places.units_of(name)
            done = name != MAIN and any(unit.loaded is not None for unit in units)
            for placed in self._probes:
                if done and not placed.wish.slow:
                    continue  # The module was executed with the probe in it.
                if set(modules_of(placed.wish, placed.asked)) & set(_names_of(name)):
                    self._changed(placed)

    def _changed(self, placed: PlacedProbe) -> None:
        """Somebody listens, or nobody any more: bring the code in line."""
        if not self._ours():
            return
        with self._lock:
            if placed.active and not placed.wish.slow:
                self._places.resolve(placed, self.is_loaded(placed.wish.module))
            if placed.wish.slow or self._slow.claims(placed):
                self._slow.update(placed)
                return
            blocks = {
                (place.unit, place.scope.block)
                for place in self._places.of(placed)
                if place.swappable and self.is_loaded(place.unit.module)
            }
            for unit, block in blocks:
                self._bring_in_line(unit, block)

    def _release(self, function: FunctionType) -> None:
        """Give a function its own code back: ptera will rewrite it."""
        found = self._places.holder(function)
        if found is not None:
            self._swapper.restore_one(function, found[0], found[1].block)

    def _bring_in_line(self, unit: Unit, block: int) -> None:
        here = [
            (placed, place)
            for placed, place in self._places.within(unit)
            if place.scope.block == block and place.swappable and placed.active
        ]
        self._swapper.bring_in_line(unit, block, here)

    # While the script runs, and after

    @property
    def fired(self) -> dict[int, int]:
        """How often each probe has fired, by its number; of ptera's, how often it did anything."""
        serves, ptera = self._slow.serves, self._slow.counted.times
        own = {placed.number: placed.fired for placed in self._probes if not serves(placed)}
        return own | {PTERA: ptera} if ptera else own

    @property
    def noted(self) -> dict[int, int]:
        """How many of those were noted by inserted code itself, by the probe's number."""
        # What ptera serves has no lanes.
        noted = ((p.number, [lane.quick.noted for lane in p.lanes]) for p in self._probes)
        return {number: max(each, default=0) for number, each in noted}

    @property
    def unheard(self) -> dict[int, int]:
        """How many of them nobody heard, by the probe's number."""
        return {placed.number: placed.unheard for placed in self._probes}

    def shows(self, key: str) -> bool:
        """Whether events of a probe carry ``key``."""
        return any(one.key == key for p in tuple(self._probes) for one in p.wish.captures)

    def _failed(self, number: int) -> None:
        """Called by inserted code with an exception in hand; raises it if the script is meant."""
        error = sys.exc_info()[1]
        if error is None or self._closed or not self._probes[number].failed(error):
            return
        traceback = error.__traceback__
        # The first entry is the script's frame, which gets another one now.
        raise error.with_traceback(traceback.tb_next if traceback is not None else None)

    def silence(self) -> None:
        """Deliver nothing any more: in the child of a fork, the run is the parent's."""
        self._lock = threading.RLock()
        self._slow.silence()
        for placed in self._probes:
            placed.silence()

    def weigh(self, now: Callable[[], int], sitting: Callable[[int], Sittings]) -> None:
        """Time what the next few events at each place of every probe take their listeners.

        Args:
            now: Reads a clock, in nanoseconds.
            sitting: Returns what is told of events of the probe of a number.
        """
        if self._ours():
            self._slow.counted.weigh(now, sitting(PTERA))
        # Without the lock: the lanes take that of a stream, whose listeners may set probes.
        for placed in tuple(self._probes) if self._ours() else ():
            of = sitting(placed.number)
            if of.due(placed.fired):
                of.begin(placed.fired)
                for lane in placed.lanes:
                    lane.weigh(now, of.place())

    def hasten(self, now: int) -> None:
        """See which events inserted code may note by itself; to be called now and then.

        Args:
            now: The time, in nanoseconds.
        """
        for placed in tuple(self._probes) if self._ours() else ():
            for lane in placed.lanes:
                lane.quick.consider(now)

    def verdicts(self) -> list[dict[str, Any]]:
        """What became of each probe, as ``run.json`` has it."""
        with self._lock:
            return [verdict(p, *self._state_of(p)) for p in self._probes]

    def _state_of(self, placed: PlacedProbe) -> tuple[bool, str]:
        """Whether the probe found its code, and what to say if it has not fired."""
        if not placed.wish.slow:
            self._places.resolve(placed, self.is_loaded(placed.wish.module))
        trouble = self._places.troubles.get(placed)
        if placed.wish.slow:
            return self._slow.attached(placed), trouble or silent(placed, [])
        places = self._places.of(placed)
        if places:
            return True, trouble or silent(placed, places)
        units = self._places.units_of(placed.wish.module)
        return False, trouble or missing(placed.wish, units, placed.overridable)

    def close(self) -> None:
        """Give all code back and leave nothing behind; harmless when done twice.

        Verdicts are to be asked for before.
        """
        if not self._ours():
            return
        with self._lock:
            self._closed = True
            for watch in (w for watches in self._watches.values() for w in watches):
                watch.dispose()
            self._slow.close()
            in_use = self._swapper.restore(self._places.units)
            for placed in self._probes:
                placed.retire()
            units = self._places.units if in_use else []
            self._hidden.clear({name for unit in units for name in unit.lasting})
            self._places.forget()
            _engines.discard(self)


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


def _after_fork() -> None:
    for engine in list(_engines):
        engine.silence()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)

__all__ = ["Engine"]
