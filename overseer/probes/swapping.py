"""Bringing functions that are alive in line with the probes that are heard."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from types import CodeType, FunctionType

from .fitting import Place
from .live import Ledger, give, live_functions, reachable
from .placed import PlacedProbe
from .scopes import Key, Scope
from .units import Unfit, Unit, key_of, merged

Placing = tuple[PlacedProbe, Place]
Codes = dict[Key, CodeType]


class Swapper:
    """Gives functions other code, and their own code back.

    Args:
        give_up: Called with a probe that cannot be put into its place, and why.
    """

    def __init__(self, give_up: Callable[[Placing, str], None]) -> None:
        self._give_up = give_up
        self._ledger = Ledger()
        self._touched: dict[tuple[Unit, int], set[Key]] = {}

    def bring_in_line(self, unit: Unit, block: int, here: list[Placing]) -> None:
        """Give every live function of the block the code that suits the probes in it.

        Args:
            unit: The source.
            block: The statement of its top level.
            here: The probes that are heard and have a place in that block.
        """
        try:
            self._swap(unit, block, here)
        except Unfit:
            self._swap(unit, block, self._fitting(unit, block, here))

    def _fitting(self, unit: Unit, block: int, here: list[Placing]) -> list[Placing]:
        """Those that can be inserted; the others are given up."""
        good = []
        for placing in here:
            placed, place = placing
            try:
                unit.probed(block, {place.scope: placed.triggers(False)})
                good.append(placing)
            except Unfit as unfit:
                self._give_up(placing, str(unfit))
        return good

    def _swap(self, unit: Unit, block: int, here: list[Placing]) -> None:
        for_all = [placing for placing in here if placing[1].only is None]
        codes = self._codes(unit, block, for_all)
        special: dict[int, Codes | None] = {}
        for only in [place.only for _, place in here if place.only is not None]:
            if id(only) not in special:
                more = [placing for placing in here if placing[1].only in (None, only)]
                special[id(only)] = self._codes(unit, block, more)
        for function in self._functions(unit, block, here):
            if self._recognised(function.__code__, unit, block):
                self._give(function, special.get(id(function), codes), unit, block)
            else:
                self._refuse(function, unit, here)

    def _codes(self, unit: Unit, block: int, here: list[Placing]) -> Codes | None:
        """The block's code objects with probes; ``None``: as they were."""
        if not here:
            return None
        codes = unit.probed(block, merged((p.scope, placed.triggers(False)) for placed, p in here))
        for code in codes.values():
            self._ledger.own(code)
        return codes

    def _functions(self, unit: Unit, block: int, here: list[Placing]) -> list[FunctionType]:
        """The live functions whose code is to differ from plain, or differs already."""
        before = self._touched.get((unit, block), set()) | _keys_at_load(unit, block)
        only = {id(place.only): place.only for _, place in here}
        if here and id(None) not in only and not before:
            return [function for function in only.values() if function is not None]
        touched = before | {key for _, place in here for key in _keys(place.scope, place.only)}
        self._touched[unit, block] = touched
        keys = {s.key: s.repeated for s in unit.scopes if s.block == block and s.key in touched}
        known = self._ledger.known(unit.filename, keys)
        return live_functions(sys.modules.get(unit.module), unit.filename, keys, known)

    def _recognised(self, code: CodeType, unit: Unit, block: int) -> bool:
        """Whether ``code`` is the engine's or what the source says, which it then remembers."""
        if self._ledger.is_ours(code):
            return True
        key = key_of(code)
        if code == unit.plain(block).get(key):
            self._ledger.keep(code)
            return True
        if unit.loaded and code == unit.at_load(block).get(key):
            self._ledger.own(code)
            return True
        return False

    def _give(self, function: FunctionType, codes: Codes | None, unit: Unit, block: int) -> None:
        key = key_of(function.__code__)
        plain = self._ledger.original(unit.filename, key) or unit.plain(block)[key]
        give(function, codes.get(key, plain) if codes is not None else plain)

    def _refuse(self, function: FunctionType, unit: Unit, here: list[Placing]) -> None:
        what = f"the code that runs is not what {unit.filename} says: edited since, or changed"
        for placing in here:
            if placing[1].scope.key == key_of(function.__code__):
                self._give_up(placing, f"{what} by another tool")

    def restore(self, units: Iterable[Unit]) -> bool:
        """Give every function its own code back; ``True``: calls of the other are under way."""
        units = list(units)
        for unit in units:
            named = self._restore_named(unit)
            for block, outermost in _outermost(unit).items():
                if not outermost <= named:
                    self._swap(unit, block, [])
        users = self._ledger.users()
        for function in users:
            if isinstance(function, FunctionType):
                self._restore(function, units)
        in_use = self._ledger.in_use(users)
        self._ledger.clear()
        self._touched.clear()
        return in_use

    def _restore_named(self, unit: Unit) -> set[Key]:
        """Do so with those that names lead to, without a look at the heap; their keys."""
        module = sys.modules.get(unit.module)
        if module is None:
            return set()
        at_load = {key: block for block, keys in _outermost(unit).items() for key in keys}
        named = set()
        for function in reachable(vars(module), unit.filename):
            key = key_of(function.__code__)
            block = at_load.get(key)
            if block is not None and self._recognised(function.__code__, unit, block):
                named.add(key)
            if self._ledger.is_ours(function.__code__):
                self._restore(function, [unit])
        return named

    def _restore(self, function: FunctionType, units: Iterable[Unit]) -> None:
        code = function.__code__
        plain = self._ledger.original(code.co_filename, key_of(code)) or _plain(units, code)
        if plain is not None:
            give(function, plain)

    def restore_one(self, function: FunctionType, unit: Unit, block: int) -> None:
        """Give one function its own code back."""
        if self._recognised(function.__code__, unit, block):
            self._give(function, None, unit, block)


def _keys(scope: Scope, only: FunctionType | None) -> list[Key]:
    """The functions whose code changes when something is inserted in ``scope``."""
    chain = [scope] if only is not None else scope.chain()
    return [one.key for one in chain if one.is_function]


def _keys_at_load(unit: Unit, block: int) -> set[Key]:
    scopes = [scope for scope in unit.loaded or {} if scope.block == block]
    return {key for scope in scopes for key in _keys(scope, None)}


def _outermost(unit: Unit) -> dict[int, set[Key]]:
    """For each block that had probes when it was executed: its functions that are in no other."""
    found: dict[int, set[Key]] = {}
    for scope in unit.loaded or {}:
        if scope.path:
            found.setdefault(scope.block, set()).update(_keys(scope, None)[-1:])
    return found


def _plain(units: Iterable[Unit], code: CodeType) -> CodeType | None:
    key = key_of(code)
    for unit in units:
        if unit.filename == code.co_filename:
            for scope in unit.scopes:
                if scope.key == key:
                    return unit.plain(scope.block).get(key)
    return None


__all__ = ["Placing", "Swapper"]
