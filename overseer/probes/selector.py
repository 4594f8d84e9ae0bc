"""Reading selectors: what to capture in which code, and what is wrong with one that cannot be read.

The language is ptera's, read by its own grammar (:mod:`.ptera`).
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

#: The script, as a module.
MAIN = "__main__"
#: Markers that stand for a place in a function.
MARKERS = ("#enter", "#exit", "#value", "#error", "#yield", "#receive")
#: Markers that stand for a loop; the loop variable's name follows.
LOOP_MARKERS = ("#loop_", "#endloop_")
#: Markers that carry a value of the script; all others are ``True``.
VALUED = ("#value", "#error", "#yield", "#receive")

FOCUS, PAIR_END, ALSO = "focus", "end", "also"
_HELP = "The language of selectors is explained in docs/selectors.md."


class Capture:
    """One variable or marker of a selector.

    Attributes:
        name: As it stands in the code, or a marker.
        key: The key under which events carry it.
        role: ``focus`` fires the event; ``end`` fires the end of a pair; ``also`` comes along.
    """

    __slots__ = ("key", "name", "role")

    def __init__(self, name: str, key: str, role: str) -> None:
        self.name, self.key, self.role = name, key, role

    @property
    def is_marker(self) -> bool:
        """Whether this is a place in the code rather than a variable."""
        return self.name.startswith("#")


class ParsedSelector:
    """A selector that was read.

    Attributes:
        selector: As it was given: a string, or a selector that ptera made.
        env: Where its symbols are looked up.
        raw: Whether events carry ptera's Capture objects.
        total: Whether ptera collects all values of a call.
        text: The selector as a string.
        captures: What events carry, in order.
        slow: Why only ptera can serve this one; ``None`` if inserted calls do.
        references: Module and path of each piece of code that it names by a reference.
    """

    def __init__(self, selector: Any, env: Mapping[str, Any], raw: bool, total: bool) -> None:
        self.selector, self.env, self.raw, self.total = selector, env, raw, total
        self.text: str = selector if isinstance(selector, str) else selector.encode()
        self.captures: tuple[Capture, ...] = ()
        self.slow: str | None = None
        self.references: list[tuple[str, tuple[str, ...]]] = []

    @property
    def module(self) -> str:
        """The module that has the code; of a slow one, the first code that is referred to."""
        return self.references[0][0] if self.references else ""

    @property
    def path(self) -> tuple[str, ...]:
        """Functions and classes from the module down to the code; empty for the top level."""
        return self.references[0][1] if self.references else ()

    @property
    def modules(self) -> set[str]:
        """The modules that have to be there before the selector means anything."""
        return {module for module, _ in self.references}

    @property
    def triggers(self) -> list[Capture]:
        """The captures that fire events."""
        return [capture for capture in self.captures if capture.role != ALSO]


def reference(module: str, path: tuple[str, ...]) -> str:
    """How to type the code at ``path`` of ``module`` in a selector."""
    prefix = "//" if module == MAIN else f"/{module}/"
    return prefix + "/".join(path) if path or module == MAIN else f"/{module}"


def split(text: str) -> tuple[str, tuple[str, ...]]:
    """The module and the path of a reference to code."""
    _, module, *path = text.split("/")
    return module or MAIN, tuple(part for part in path if part)


def read(
    selector: Any,
    env: Mapping[str, Any] | None = None,
    raw: bool = False,
    probe_type: str | None = None,
) -> ParsedSelector:
    """What the selector asks for.

    Raises:
        VoirError: It cannot be read; the message points at the character.
    """
    parsed = ParsedSelector(selector, env or {}, raw, probe_type == "total")
    text = parsed.text
    call = _parsed(text) if isinstance(selector, str) else selector
    if type(call).__name__ == "Element":
        _refuse(text, 0, "a variable needs a function before it, as in 'f > x'")
    if not call.valid:
        _refuse(text, text.rfind("!"), "only one variable can have the focus")
    if 2 in call.all_tags and 1 not in call.all_tags:
        _refuse(text, text.find("!!"), "an end !! needs its beginning !")
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
        what = "only ASCII characters can be in a selector: probe what has an ASCII name"
        _refuse(text, foreign, f"{what}, or give this one such a name")
    shift = len(text) - len(text.lstrip())
    try:
        parsed = grammar().parse(text)
    except SyntaxError as error:
        what = "the selector cannot be read here: something is missing or does not belong"
        if str(error.msg).startswith("Invalid token"):
            what = "this character has no meaning in a selector"
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
    """Why only ptera's own engine can serve this selector, if so."""
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
        # Their last value would have to be kept for each call.
        if capture.role == ALSO and capture.name.startswith((*VALUED, "#exit", "#endloop_")):
            return f"it captures {capture.name} without focus on it"
    return None


def _elements(call: Any) -> list[Any]:
    """The captures of a selector and of those within it."""
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
        _refuse(text, text.find(name), f"there is no marker {name}; there are {known}")
    if not name.startswith("#") and not name.isidentifier():
        what = f"{name} is not the name of a variable"
        if "." in name:
            what += "; attributes cannot be probed, only the variable they belong to"
        _refuse(text, text.find(name), what)
    return Capture(name, element.capture or name, _role(element))


# Code that is named by a symbol


def _symbol(name: Any, parsed: ParsedSelector) -> tuple[str, tuple[str, ...]]:
    """The module and path of the function that the selector's first part names."""
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
        what = f"{called} in {text} is one of the functions that {path[0]} makes"
        remedy = f"Write {reference(module, path)} > ..., which watches all of them."
        raise VoirError("not-probeable", what, remedy)
    return module, path


def _home(function: Any) -> tuple[str, tuple[str, ...]]:
    """Where a function was defined, whatever its decorators say."""
    code = unwrapped(function)[0].__code__
    path = tuple(part for part in code.co_qualname.split(".") if part != "<locals>")
    return unwrapped(function)[0].__globals__.get("__name__", ""), path


def looked_up(symbol: str, parsed: ParsedSelector) -> Any:
    """What a symbol means where the probe is set.

    Raises:
        VoirError: It means nothing there.
    """
    import builtins

    start, *parts = symbol.split(".")
    if start not in parsed.env and not hasattr(builtins, start):
        raise VoirError(
            "unresolved-symbol",
            f"there is no {start} where the probe {parsed.text} is set",
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
