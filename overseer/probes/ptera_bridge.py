"""The one file that imports ptera: its grammar reads every selector.

The grammar needs four of ptera's modules; the package as a whole also imports giving and
reactivex, which takes ten times as long, and is left to the selectors that need ptera's engine.
"""

from __future__ import annotations

import importlib.util
import sys
import threading
import unicodedata
from collections.abc import Callable, Mapping
from types import FunctionType, MethodType, ModuleType, SimpleNamespace
from typing import Any

from ..errors import VoirError
from .lookup import dig
from .selectors import ALSO, END, FOCUS, LOOPS, MAIN, MARKERS, VALUED, Asked, Capture, Wish

_lock = threading.RLock()  # A signal's handler may read a selector, too.
_private: list[Any] = []
_GRAMMAR = ("opparse", "tags", "utils", "selector")
_HELP = "The language of selectors is explained in docs/selectors.md."


def grammar() -> Any:
    """ptera's module ``selector``: the script's own if ptera is imported, else a private one."""
    if "ptera.selector" in sys.modules:
        return sys.modules["ptera.selector"]
    with _lock:
        if not _private:
            _private.append(_load())
    return _private[0]


def _load() -> ModuleType:
    """Load the grammar under a stand-in for the package, and leave no trace of either.

    Whoever imports ptera later gets modules of their own.
    """
    spec = importlib.util.find_spec("ptera")
    package: Any = ModuleType("ptera")
    package.__path__ = list((spec and spec.submodule_search_locations) or ())
    sys.modules["ptera"] = package
    try:
        return importlib.import_module("ptera.selector")
    finally:
        for name in ("ptera", *(f"ptera.{part}" for part in _GRAMMAR)):
            sys.modules.pop(name, None)


def engine_modules() -> SimpleNamespace:
    """ptera's modules, imported in full: what the slow path works with."""
    names = ("interpret", "overlay", "selector", "transform", "utils")
    return SimpleNamespace(**{name: importlib.import_module(f"ptera.{name}") for name in names})


def _references(call: Any) -> list[str]:
    """The references to code, ``/module/function``, in a selector."""
    if not hasattr(call, "children"):
        return []
    symbol = getattr(call.element.name, "value", None)
    own = [symbol] if isinstance(symbol, str) and symbol.startswith("/") else []
    return own + [found for child in call.children for found in _references(child)]


def _parse(text: str) -> Any:
    """Parse a selector; names may have any letters that Python's may have."""
    selector = grammar()
    if text.isascii():
        return selector.parse(text)
    lexer, order = selector.parser.lexer, selector.parser.order
    kinds = {rx.replace("[a-zA-Z_0-9", r"[\w"): kind for rx, kind in lexer.definitions.items()}
    parser = type(selector.parser)(type(lexer)(kinds), order)
    return selector.evaluate(parser(unicodedata.normalize("NFKC", text)))  # As Python has names.


def _split(asked: Asked) -> list[tuple[str, tuple[str, ...]]]:
    selector = asked.selector
    call = _parse(selector) if isinstance(selector, str) else selector
    return [split(reference) for reference in _references(call)]


def modules_of(wish: Wish, asked: Asked) -> list[str]:
    """The modules that have to be there before the selector means anything."""
    if wish.slow:
        return [module for module, _ in _split(asked)]
    return [wish.module] if wish.function is None else []


def first_names(asked: Asked) -> list[str]:
    """What the selector names at the script's top level."""
    return [path[0] for module, path in _split(asked) if module == MAIN and path]


def read(asked: Asked) -> Wish:
    """What the selector asks for.

    Raises:
        VoirError: It cannot be read; the message points at the character.
    """
    selector, env = asked.selector, asked.env
    text = selector if isinstance(selector, str) else selector.encode()
    call = _parsed(selector) if isinstance(selector, str) else selector
    if type(call).__name__ == "Element":
        raise _unreadable(text, 0, "a variable needs a function before it, as in 'f > x'")
    if not call.valid:
        raise _unreadable(text, text.rfind("!"), "only one variable can have the focus")
    if 2 in call.all_tags and 1 not in call.all_tags:
        raise _unreadable(text, text.find("!!"), "an end !! needs its beginning !")
    slow = _slow(call, asked.raw, asked.probe_type)
    captures = _captures(call, env, text) if slow is None else ()
    if slow is not None and not _is_reference(call.element.name):
        return Wish(text, "", (), (), None, slow)
    module, path, function, extra = _code(call.element.name, env, text)
    return Wish(text, module, path, (*captures, *extra), function, slow or _unknown(captures))


def _is_reference(name: Any) -> bool:
    symbol = getattr(name, "value", name)
    return isinstance(symbol, str) and symbol.startswith("/")


def _parsed(text: str) -> Any:
    shift = len(text) - len(text.lstrip())
    try:
        parsed = _parse(text)
    except SyntaxError as error:
        raise _unreadable(text, shift + (error.offset or 1) - 1, _said(error)) from None
    except Exception:
        raise _unreadable(text, len(text.rstrip()), "something is missing here") from None
    if isinstance(parsed, list):
        raise _unreadable(text, text.find(","), "a comma belongs inside parentheses")
    return parsed


def _said(error: SyntaxError) -> str:
    message = str(error.msg)
    if message.startswith("Invalid token"):
        return "this character has no meaning in a selector"
    return "the selector cannot be read here: something is missing or does not belong"


def _unreadable(text: str, column: int, what: str) -> VoirError:
    while column < len(text) and column >= 0 and text[column].isspace():
        column += 1
    pointer = " " * max(column, 0) + "^"
    return VoirError("selector", f"{what}\n    {text}\n    {pointer}", _HELP)


def _slow(call: Any, raw: bool, probe_type: str | None) -> str | None:
    """Why only ptera's own engine can serve this selector, if so."""
    elements = (call.element, *call.captures)
    if call.children:
        return "it spans several functions"
    if any(e.category is not None for e in elements):
        return "it selects by tag"
    if call.element.name is None or any(e.name is None for e in call.captures):
        return "it is generic"
    if raw:
        return "it asks for raw captures"
    if probe_type == "total" or not call.focus:
        return "it is a total probe: it has no focus"
    return None


def _unknown(captures: tuple[Capture, ...]) -> str | None:
    for capture in captures:
        # Where they come along, their last value would have to be kept for each call.
        if capture.role == ALSO and capture.name.startswith((*VALUED, "#exit", "#endloop_")):
            return f"it captures {capture.name} without focus on it"
    return None


def _captures(call: Any, env: Mapping[str, Any], text: str) -> tuple[Capture, ...]:
    return tuple(_capture(element, env, text) for element in call.captures)


def _capture(element: Any, env: Mapping[str, Any], text: str) -> Capture:
    name = element.name
    _check_name(name, text)
    role = FOCUS if 1 in element.tags else END if 2 in element.tags else ALSO
    test = None
    if element.hasval:
        test = _test(_evaluated(element.value, env, text))
    return Capture(name, element.capture or name, role, test)


def _check_name(name: str, text: str) -> None:
    if name.startswith(LOOPS) and name.partition("_")[2].isidentifier():
        return
    if name.startswith("#") and name not in MARKERS:
        known = ", ".join((*MARKERS, *(f"{loop}X" for loop in LOOPS)))
        raise _unreadable(text, text.find(name), f"there is no marker {name}; there are {known}")
    if not name.startswith("#") and not name.isidentifier():
        what = f"{name} is not the name of a variable"
        if "." in name:
            what += "; attributes cannot be probed, only the variable they belong to"
        raise _unreadable(text, text.find(name), what)


def _test(value: Any) -> Callable[[object], bool]:
    """The condition that ``x=value`` or ``x~function`` puts on a captured value."""
    if type(value).__name__ == "MatchFunction":
        return lambda seen: bool(value.fn(seen))
    return lambda seen: bool(seen == value)


def _evaluated(value: Any, env: Mapping[str, Any], text: str) -> Any:
    if not isinstance(value, (grammar().VNode,)) and not hasattr(value, "eval"):
        return value
    try:
        return value.eval(dict(env))
    except Exception as error:
        raise VoirError("selector", f"{error} in {text}", _HELP) from None


def _code(
    name: Any, env: Mapping[str, Any], text: str
) -> tuple[str, tuple[str, ...], FunctionType | None, tuple[Capture, ...]]:
    """The module, path and function that the selector's first part names."""
    symbol = getattr(name, "value", name)
    if symbol is None:
        return "", (), None, ()
    if not isinstance(symbol, str):
        return _function(symbol, text)
    if symbol.startswith("/"):
        module, path = split(symbol)
        if any("." in part for part in path):
            at = text.find(".", text.find("/", 1))
            raise _unreadable(text, at, "only the module's part of a reference can have dots")
        return module, path, None, ()
    return _function(_looked_up(symbol, env, text), text)


def split(reference: str) -> tuple[str, tuple[str, ...]]:
    """The module and the path that a reference to code names."""
    _, module, *path = reference.split("/")
    return module or MAIN, tuple(part for part in path if part)


def resolver(env: Mapping[str, Any], text: str) -> Callable[[str], Any]:
    """What ptera calls to find the symbols of a selector; nothing is imported."""

    def resolve(symbol: str) -> Any:
        if symbol.startswith("@"):
            from ptera.tags import tag

            return getattr(tag, symbol[1:])
        return _at(*split(symbol)) if symbol.startswith("/") else _looked_up(symbol, env, text)

    return resolve


def _at(module: str, path: tuple[str, ...]) -> Any:
    found: Any = sys.modules[module]
    for part in path:
        found = vars(found).get(part)
        if not isinstance(found, type):
            found = dig(found)
        if found is None:
            what = f"{'/'.join(path)} cannot be reached from the top of {module}"
            raise VoirError("unresolved-symbol", what)
    return found


def _looked_up(symbol: str, env: Mapping[str, Any], text: str) -> Any:
    start, *parts = symbol.split(".")
    builtins = sys.modules["builtins"].__dict__
    if start not in env and start not in builtins:
        raise VoirError(
            "unresolved-symbol",
            f"there is no {start} where the probe {text} is set",
            f"For a function of the script, write //{symbol.replace('.', '/')}",
        )
    found = env[start] if start in env else builtins[start]
    for part in parts:
        try:
            found = getattr(found, part)
        except AttributeError as error:
            raise VoirError("unresolved-symbol", f"{error}, in the probe {text}") from None
    return found


def _function(
    named: Any, text: str
) -> tuple[str, tuple[str, ...], FunctionType, tuple[Capture, ...]]:
    """The function inside ``named``; a bound method also says for which instance events count."""
    extra: tuple[Capture, ...] = ()
    if isinstance(named, MethodType):
        function, owner = dig(named.__func__), named.__self__
        if isinstance(function, FunctionType) and not isinstance(owner, type):
            first = function.__code__.co_varnames[0]
            extra = (Capture(first, first, ALSO, lambda seen: seen is owner),)
    else:
        function = dig(named)
    if not isinstance(function, FunctionType):
        raise VoirError("not-probeable", *_why_not(named, text))
    path = tuple(p for p in function.__qualname__.split(".") if p != "<locals>")
    return function.__module__ or "", path, function, extra


def _why_not(named: Any, text: str) -> tuple[str, str]:
    if isinstance(named, type):
        return f"{named.__name__} in {text} is a class", f"Name a method: {named.__name__}.__init__"
    what = f"{named!r} in {text} has no Python code to put a probe in"
    return what, "Probe the Python function that calls it."


__all__ = ["engine_modules", "first_names", "grammar", "modules_of", "read", "resolver"]
