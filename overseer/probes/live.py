"""Finding the functions that are alive for a piece of code, and giving them other code.

Most functions can be reached by name from their module. For closures, and for what decorators
hide, the heap is asked who refers to the code object, in one pass for all of them.
"""

from __future__ import annotations

import gc
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from types import (
    AsyncGeneratorType,
    CodeType,
    CoroutineType,
    FrameType,
    FunctionType,
    GeneratorType,
    ModuleType,
)
from typing import Any

from .scopes import Key
from .units import key_of, named_codes

_CODE: dict[type, str] = {
    FunctionType: "__code__",
    GeneratorType: "gi_code",
    CoroutineType: "cr_code",
    AsyncGeneratorType: "ag_code",
}
#: With more code objects than this, one pass over all functions is faster.
_MANY = 32


def live_functions(
    module: ModuleType | None,
    filename: str,
    keys: dict[Key, bool],
    known: Iterable[CodeType] = (),
) -> list[FunctionType]:
    """The functions of ``filename`` that have one of ``keys``.

    Args:
        module: Where to start looking.
        filename: Of their code objects.
        keys: The keys, and whether there may be more functions than the one that has the name.
        known: Code objects that such functions may have.
    """
    named = list(reachable(vars(module), filename)) if module is not None else []
    codes = [*_known_codes(named), *known]
    found = [function for function in named if key_of(function.__code__) in keys]
    seen = {key_of(function.__code__) for function in found}
    unsure = {key for key, many in keys.items() if many or key not in seen}
    if not unsure:
        return found
    wanted = list({id(code): code for code in codes if key_of(code) in unsure}.values())
    if len(wanted) <= _MANY and unsure <= {key_of(code) for code in wanted}:
        found += _referring(wanted)
    else:
        found += _scanned(filename, keys)
    return list({id(function): function for function in found}.values())


def reachable(namespace: dict[str, Any], filename: str) -> Iterator[FunctionType]:
    """Functions from ``filename`` that names lead to, through classes and usual decorators."""
    seen: set[int] = set()
    stack = list(namespace.values())
    while stack:
        value = stack.pop()
        if id(value) in seen:
            continue
        seen.add(id(value))
        if isinstance(value, FunctionType):
            if value.__code__.co_filename == filename:
                yield value
            stack.extend(_behind(value))
        elif isinstance(value, type):
            if value.__module__ == namespace.get("__name__"):
                stack.extend(vars(value).values())
        else:
            stack.extend(_wrapped(value))


def _behind(function: FunctionType) -> Iterator[Any]:
    """What a decorator may have put behind ``function``: its wrapped one, and its closure."""
    yield from (v for k, v in function.__dict__.items() if k == "__wrapped__")
    for cell in function.__closure__ or ():
        try:
            contents = cell.cell_contents
        except ValueError:  # Not set yet.
            continue
        if isinstance(contents, FunctionType) or type(contents).__module__ == "functools":
            yield contents


def _wrapped(value: Any) -> Iterator[Any]:
    if isinstance(value, property):
        yield from (value.fget, value.fset, value.fdel)
    elif isinstance(value, (staticmethod, classmethod)):
        yield value.__func__
    elif type(value).__module__ == "functools":
        yield getattr(value, "__wrapped__", None)
        yield getattr(value, "func", None)
    elif not isinstance(value, ModuleType):
        yield from _kept(value)


def _kept(value: object) -> list[FunctionType]:
    """Functions that an object has for attributes: a command keeps the one it decorates so."""
    try:
        attributes = object.__getattribute__(value, "__dict__")
    except AttributeError:
        return []
    return [one for one in list(attributes.values()) if isinstance(one, FunctionType)]


def _known_codes(functions: Iterable[FunctionType]) -> list[CodeType]:
    codes: dict[int, CodeType] = {}
    for function in functions:
        code = function.__code__
        codes[id(code)] = code
        codes.update((id(inner), inner) for _, inner in named_codes(code))
    return list(codes.values())


def _referring(codes: list[CodeType]) -> list[FunctionType]:
    if not codes:
        return []
    ids = {id(code) for code in codes}
    return [
        one
        for one in gc.get_referrers(*codes)
        if isinstance(one, FunctionType) and id(one.__code__) in ids
    ]


def _scanned(filename: str, keys: Iterable[Key]) -> list[FunctionType]:
    wanted = set(keys)
    return [
        one
        for one in gc.get_objects()
        if type(one) is FunctionType
        and one.__code__.co_filename == filename
        and key_of(one.__code__) in wanted
    ]


class Ledger:
    """Which code is the engine's, and which was there before."""

    def __init__(self) -> None:
        self._originals: dict[tuple[str, Key], CodeType] = {}
        self._ours: dict[int, CodeType] = {}

    def is_ours(self, code: CodeType) -> bool:
        """Whether this code was made by the engine."""
        return id(code) in self._ours

    def own(self, code: CodeType) -> None:
        """Remember ``code`` and every function in it as the engine's."""
        for inner in (code, *(inner for _, inner in named_codes(code))):
            self._ours[id(inner)] = inner

    def keep(self, code: CodeType) -> None:
        """Remember ``code`` and every function in it as what was there before."""
        for key, inner in ((key_of(code), code), *named_codes(code)):
            self._originals.setdefault((code.co_filename, key), inner)

    def original(self, filename: str, key: Key) -> CodeType | None:
        """What was there before, if it was seen."""
        return self._originals.get((filename, key))

    def known(self, filename: str, keys: Iterable[Key]) -> list[CodeType]:
        """All code for ``keys`` that is known, of the engine or not."""
        wanted = set(keys)
        codes = [*self._originals.values(), *self._ours.values()]
        return [c for c in codes if c.co_filename == filename and key_of(c) in wanted]

    def users(self) -> list[Any]:
        """The functions, and suspended generators and coroutines, that have code of the engine.

        This looks at every object that is alive, which takes tenths of a second where there are
        millions; but only when somebody has such code at all.
        """
        codes = self._held()
        if not codes:
            return []
        objects = gc.get_referrers(*codes) if len(codes) <= _MANY else gc.get_objects()
        # The type first: of a million objects, a few thousand have code at all.
        running = [one for one in objects if type(one) in _CODE]
        return [one for one in running if id(_code_of(one)) in self._ours]

    def _held(self) -> list[CodeType]:
        """The engine's code that something else than the engine refers to."""
        codes = list(self._ours.values())
        own = [inner for code in codes for inner in code.co_consts if type(inner) is CodeType]
        # Once each by the ledger, the list, and the call below; once more by the code around it.
        expected = Counter({id(code): 3 for code in codes})
        expected.update(map(id, own))
        del own
        counts = list(map(sys.getrefcount, codes))
        both = zip(counts, codes, strict=True)
        return [code for count, code in both if count != expected[id(code)]]

    def in_use(self, users: list[Any]) -> bool:
        """Whether a call is under way, or suspended, in code of the engine, which has ``users``."""
        if any(_is_suspended(one) for one in users):
            return True
        return any(id(frame.f_code) in self._ours for frame in _frames())

    def clear(self) -> None:
        """Forget everything."""
        self._originals.clear()
        self._ours.clear()


def _code_of(value: object) -> CodeType | None:
    """The code that a function runs, or that a suspended call is in."""
    attribute = _CODE.get(type(value))
    return getattr(value, attribute) if attribute is not None else None


def _is_suspended(value: Any) -> bool:
    """Whether this is a generator or coroutine that has not ended."""
    attribute = (_CODE.get(type(value)) or "").replace("code", "frame")
    return attribute.startswith(("gi", "cr", "ag")) and getattr(value, attribute) is not None


def _frames() -> Iterator[FrameType]:
    """Every frame on the stack of any thread."""
    for frame in sys._current_frames().values():
        here: FrameType | None = frame
        while here is not None:
            yield here
            here = here.f_back


def give(function: FunctionType, code: CodeType) -> bool:
    """Let ``function`` run ``code`` from its next call on; ``False`` when it cannot."""
    if function.__code__ is code:
        return True
    try:
        function.__code__ = code
    except ValueError:
        return False
    return True


__all__ = ["Ledger", "give", "live_functions", "reachable"]
