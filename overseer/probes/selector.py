"""Parses selectors into captures and the code they are in; explains syntax errors.

The language is ptera's, parsed by its own grammar (:mod:`.ptera`).
"""

from __future__ import annotations

from types import MethodType

from ..errors import VoirError
from .functions import unwrapped
from .ptera import grammar

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any, NoReturn

#: Module name of the script.
MAIN = "__main__"
#: Markers of positions in a function.
MARKERS = ("#enter", "#exit", "#value", "#error", "#yield", "#receive")
#: Markers of loops, followed by the loop variable's name.
LOOP_MARKERS = ("#loop_", "#endloop_")
#: Markers with a value from the script; the value of the others is ``True``.
VALUED = ("#value", "#error", "#yield", "#receive")

FOCUS, PAIR_END, ALSO = "focus", "end", "also"
_HELP = "The language of selectors is explained in docs/selectors.md."


class Capture:
    """One variable or marker of a selector.

    Attributes:
        name: The variable's name in the code, or a marker.
        key: Its key in events.
        role: ``focus`` fires the event; ``end`` fires the end of a pair; ``also`` is included in
            events but fires none.
    """

    __slots__ = ("key", "name", "role")

    def __init__(self, name: str, key: str, role: str) -> None:
        self.name, self.key, self.role = name, key, role

    @property
    def is_marker(self) -> bool:
        """True for a marker, False for a variable."""
        return self.name.startswith("#")


class ParsedSelector:
    """A parsed selector.

    Attributes:
        selector: The original: a string, or one of ptera's selector objects.
        env: Namespace in which its symbols are looked up.
        raw: Events carry ptera's Capture objects.
        total: ptera collects all values of a call.
        text: The selector as a string.
        captures: Variables and markers of its events, in order.
        slow: Why it needs ptera's engine; ``None`` if inserted calls suffice.
        references: Module and path of each reference to code.
    """

    def __init__(self, selector: Any, env: Mapping[str, Any], raw: bool, total: bool) -> None:
        self.selector, self.env, self.raw, self.total = selector, env, raw, total
        self.text: str = selector if isinstance(selector, str) else selector.encode()
        self.captures: tuple[Capture, ...] = ()
        self.slow: str | None = None
        self.references: list[tuple[str, tuple[str, ...]]] = []

    @property
    def module(self) -> str:
        """Module of the code; for a slow selector, of its first reference."""
        return self.references[0][0] if self.references else ""

    @property
    def path(self) -> tuple[str, ...]:
        """Names of classes and functions down to the code; empty for the top level."""
        return self.references[0][1] if self.references else ()

    @property
    def modules(self) -> set[str]:
        """Modules that must be loaded before the selector can be resolved."""
        return {module for module, _ in self.references}

    @property
    def triggers(self) -> list[Capture]:
        """Captures that fire events."""
        return [capture for capture in self.captures if capture.role != ALSO]


def reference(module: str, path: tuple[str, ...]) -> str:
    """Format the code at ``path`` of ``module`` as a reference."""
    prefix = "//" if module == MAIN else f"/{module}/"
    return prefix + "/".join(path) if path or module == MAIN else f"/{module}"


def split(text: str) -> tuple[str, tuple[str, ...]]:
    """Split a reference into module and path."""
    _, module, *path = text.split("/")
    return module or MAIN, tuple(part for part in path if part)


def read(
    selector: Any,
    env: Mapping[str, Any] | None = None,
    raw: bool = False,
    probe_type: str | None = None,
) -> ParsedSelector:
    """Parse a selector.

    Raises:
        VoirError: It cannot be parsed; the message points at the character.
    """
    parsed = ParsedSelector(selector, env or {}, raw, probe_type == "total")
    text = parsed.text
    call = _parsed(text) if isinstance(selector, str) else selector
    if type(call).__name__ == "Element":
        _refuse(text, 0, "a variable needs a function before it, as in 'f > x'")
    if not call.valid:
        _refuse(text, text.rfind("!"), "only one variable can have the focus")
    if 2 in call.all_tags and 1 not in call.all_tags:
        _refuse(text, text.find("!!"), "an end !! needs a beginning !")
    parsed.total = parsed.total or not (call.focus or probe_type == "immediate")
    parsed.slow = _slow(call, parsed)
    parsed.references = list(_references(call, text))
    if parsed.slow is None:
        parsed.captures = tuple(_capture(element, text) for element in call.captures)
        parsed.slow = _of_another_moment(parsed.captures)
        if not parsed.references:
            parsed.references = [_symbol(call.element.name, parsed)]
    else:
        elements = [e for e in _elements(call) if isinstance(e.capture, str)]
        parsed.captures = tuple(Capture(e.name or "", e.capture, _role(e)) for e in elements)
    return parsed


def _parsed(text: str) -> Any:
    foreign = next((at for at, letter in enumerate(text) if not letter.isascii()), None)
    if foreign is not None:
        what = "only ASCII characters are allowed in a selector: probe another name"
        _refuse(text, foreign, f"{what}, or rename this one")
    shift = len(text) - len(text.lstrip())
    try:
        parsed = grammar().parse(text)
    except SyntaxError as error:
        what = "the selector cannot be parsed here: something is missing or misplaced"
        if str(error.msg).startswith("Invalid token"):
            what = "this character is not valid in a selector"
        _refuse(text, shift + (error.offset or 1) - 1, what)
    except Exception:
        _refuse(text, len(text.rstrip()), "something is missing here")
    if isinstance(parsed, list):
        _refuse(text, text.find(","), "a comma belongs inside parentheses")
    return parsed


def _refuse(text: str, column: int, what: str) -> NoReturn:
    while 0 <= column < len(text) and text[column].isspace():
        column += 1
    raise VoirError("selector", f"{what}\n    {text}\n    {' ' * max(column, 0)}^", _HELP) from None


def _slow(call: Any, parsed: ParsedSelector) -> str | None:
    """Return why the selector needs ptera's engine, or None."""
    elements = (call.element, *call.captures)
    if call.children:
        return "it spans several functions"
    if any(element.category is not None for element in elements):
        return "it selects by tag"
    if any(element.name is None for element in elements):
        return "it is generic"
    if any(element.hasval for element in elements):
        return "it compares values"
    if parsed.raw:
        return "it asks for raw captures"
    return "it is a total probe: it has no focus" if parsed.total or not call.focus else None


def _of_another_moment(captures: tuple[Capture, ...]) -> str | None:
    for capture in captures:
        # The last value would have to be kept for each call.
        if capture.role == ALSO and capture.name.startswith((*VALUED, "#exit", "#endloop_")):
            return f"it captures {capture.name} without focus on it"
    return None


def _elements(call: Any) -> list[Any]:
    """Captures of a selector, nested ones included."""
    return [*call.captures, *(one for child in call.children for one in _elements(child))]


def _references(call: Any, text: str) -> list[tuple[str, tuple[str, ...]]]:
    symbol = getattr(call.element.name, "value", None)
    found = []
    if isinstance(symbol, str) and symbol.startswith("/"):
        found.append(split(symbol))
        if any("." in part for part in found[0][1]):
            at = text.find(".", text.find("/", text.find(symbol) + 1))
            _refuse(text, at, "only the module's part of a reference can have dots")
    return found + [one for child in call.children for one in _references(child, text)]


def _role(element: Any) -> str:
    return FOCUS if 1 in element.tags else PAIR_END if 2 in element.tags else ALSO


def _capture(element: Any, text: str) -> Capture:
    name: str = element.name
    loop = name.startswith(LOOP_MARKERS) and name.partition("_")[2].isidentifier()
    if name.startswith("#") and name not in MARKERS and not loop:
        known = ", ".join((*MARKERS, *(f"{marker}X" for marker in LOOP_MARKERS)))
        _refuse(text, text.find(name), f"unknown marker {name}; the markers are {known}")
    if not name.startswith("#") and not name.isidentifier():
        what = f"{name} is not the name of a variable"
        if "." in name:
            what += "; attributes cannot be probed, only the variable they belong to"
        _refuse(text, text.find(name), what)
    return Capture(name, element.capture or name, _role(element))


# Code named by a symbol


def _symbol(name: Any, parsed: ParsedSelector) -> tuple[str, tuple[str, ...]]:
    """Module and path of the function named by the selector's first part."""
    symbol = getattr(name, "value", name)
    named = looked_up(symbol, parsed) if isinstance(symbol, str) else symbol
    called, text = symbol if isinstance(symbol, str) else repr(symbol), parsed.text
    if isinstance(named, MethodType) and not isinstance(named.__self__, type):
        owner = reference(*_home(named.__func__)) if unwrapped(named) else type(named.__self__)
        what = f"{called} in {text} is a method of one object"
        remedy = f"Write {owner}(self) > ..., and tell objects apart by self."
        raise VoirError("not-probeable", what, remedy)
    functions = unwrapped(named)
    if not functions:
        raise VoirError("not-probeable", *_no_function(named, called, text))
    module, path = _home(functions[0])
    if "<locals>" in functions[0].__code__.co_qualname:
        what = f"{called} in {text} is one of the functions that {path[0]} creates"
        remedy = f"Write {reference(module, path)} > ..., which watches all of them."
        raise VoirError("not-probeable", what, remedy)
    return module, path


def _home(function: Any) -> tuple[str, tuple[str, ...]]:
    """Module and path of a function's definition, ignoring decorators."""
    code = unwrapped(function)[0].__code__
    path = tuple(part for part in code.co_qualname.split(".") if part != "<locals>")
    return unwrapped(function)[0].__globals__.get("__name__", ""), path


def looked_up(symbol: str, parsed: ParsedSelector) -> Any:
    """Look up a symbol where the probe is set.

    Raises:
        VoirError: It is not defined there.
    """
    import builtins

    start, *parts = symbol.split(".")
    if start not in parsed.env and not hasattr(builtins, start):
        raise VoirError(
            "unresolved-symbol",
            f"{start} is not defined where the probe {parsed.text} is set",
            f"For a function of the script, write //{symbol.replace('.', '/')}",
        )
    found = parsed.env[start] if start in parsed.env else getattr(builtins, start)
    for part in parts:
        try:
            found = getattr(found, part)
        except AttributeError as error:
            raise VoirError("unresolved-symbol", f"{error}, in the probe {parsed.text}") from None
    return found


def _no_function(named: Any, called: str, text: str) -> tuple[str, str]:
    if isinstance(named, type):
        return f"{called} in {text} is a class", f"Name a method: {called}.__init__"
    what = f"{named!r} in {text} has no Python code to put a probe in"
    return what, "Probe the Python function that calls it."
