"""Explains a probe's state: its verdict, a hint, and similar names that exist."""

from __future__ import annotations

import ast
import builtins
import os
import sys
from types import FunctionType, ModuleType

from .functions import unwrapped
from .scopes import bindings, loops
from .selector import ALSO, LOOP_MARKERS, MAIN, reference

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Any

    from .probe import PlacedProbe
    from .scopes import Scope
    from .selector import Capture, ParsedSelector
    from .unit import Unit

_UNSEEN = (
    "inside torch.compile: not seen; markers and pairs have no time inside a graph, "
    "and nothing can be overridden there"
)


def verdict(placed: PlacedProbe, attached: bool, units: Sequence[Unit]) -> dict[str, Any]:
    """Build one entry of ``probes`` in ``run.json``.

    Args:
        placed: The probe.
        attached: The probe found its code.
        units: Source units of its module, as far as known.
    """
    state = "fired" if placed.fired else "never fired" if attached else "unresolved"
    if placed.unseen and state == "never fired":
        state = "compiled away"
    made: dict[str, Any] = {"selector": placed.selector, "state": state, "fired": placed.fired}
    if placed.where:
        made["where"] = placed.where
    if placed.unseen:
        made["hint"] = _UNSEEN
    elif state != "fired":
        silent = _silent(placed) if attached else _missing(placed, units)
        made["hint"] = placed.trouble or silent
    return made


def fits(capture: Capture, scope: Scope, overridable: bool) -> bool:
    """Check that a scope has the variable or marker of a capture."""
    name = capture.name
    if name.startswith(LOOP_MARKERS):
        return bool(loops(scope, name.partition("_")[2]))
    if name in ("#yield", "#receive"):
        return scope.is_function and any(isinstance(node, ast.Yield) for node in scope.own)
    if capture.is_marker:
        return scope.is_function
    if capture.role == ALSO:
        return not scope.path or name in scope.bound or name in scope.read
    # Variables that are only read are captured when a call begins, and cannot be overridden.
    return name in scope.bound or (scope.is_function and not overridable and name in scope.read)


def lines(parsed: ParsedSelector, scope: Scope) -> list[int]:
    """Line numbers at which the selector fires."""
    found: set[int] = set()
    for trigger in parsed.triggers:
        if trigger.name.startswith(LOOP_MARKERS):
            found |= {loop.lineno for loop in loops(scope, trigger.name.partition("_")[2])}
        else:
            found |= {getattr(n, "lineno", 0) for n in scope.own if trigger.name in bindings(n)}
    return sorted(found - {0})


def _silent(placed: PlacedProbe) -> str:
    """Explain why an attached probe has not fired."""
    if placed.late:
        return "it was set after the script had ended: set it before run_script ends"
    if not placed.heard:
        return "it has no subscriber: add .give(), .display() or another one"
    if not placed.places:
        return "its code never ran"
    reached = placed.triggers[0]
    if not any(s.in_function or reached in u.loaded.get(s, ()) for u, s in placed.places):
        return "its code had already run when the probe was set: set it earlier"
    unit, scope = placed.places[0]
    at = ", ".join(map(str, lines(placed.parsed, scope) or [scope.key[1] or 1]))
    where = f"{os.path.basename(unit.filename)}:{at}"
    return f"its place in {_named(placed.parsed)}, {where}, was never reached"


def _missing(placed: PlacedProbe, units: Sequence[Unit]) -> str:
    """Explain why a selector matched no code."""
    parsed = placed.parsed
    if units and not parsed.slow:
        found = [scope for unit in units for scope in unit.at(parsed.path)]
        if found:
            return _no_name(placed, found)
        return _elsewhere(parsed) or _no_code(parsed, units)
    absent = [name for name in parsed.modules if name != MAIN and name not in sys.modules]
    if not absent:
        have = [name for name, of in list(sys.modules.items()) if _defines(of, parsed.path)]
        said = "no script runs as __main__" if have else "the script was never loaded"
        return said + "".join(f"; write {reference(name, parsed.path)}" for name in have[:1])
    from difflib import get_close_matches

    near = ", ".join(get_close_matches(absent[0], list(sys.modules), 3, 0.8))
    return f"{absent[0]} was never imported" + (f"; {near} was" if near else "")


def _defines(module: Any, path: tuple[str, ...]) -> bool:
    """Check that a module itself defines the first function or class of a path."""
    found = getattr(module, "__dict__", {}).get(path[0]) if path else None
    home = getattr(found, "__module__", None) if isinstance(found, (type, FunctionType)) else None
    return home is not None and home == getattr(module, "__name__", None)


def _named(parsed: ParsedSelector) -> str:
    """Name a selector's code in a sentence."""
    name = reference(parsed.module, parsed.path)
    return name if parsed.path else f"the top level of {_module(parsed)}"


def _module(parsed: ParsedSelector) -> str:
    return "the script" if parsed.module == MAIN else parsed.module


def _no_code(parsed: ParsedSelector, units: Sequence[Unit]) -> str:
    """Suggest alternatives to a class or function that does not exist."""
    name = reference(parsed.module, parsed.path)
    outer = [scope for unit in units for scope in unit.at(parsed.path[:-1])]
    if any(_binds_lambda(scope, parsed.path[-1]) for scope in outer):
        return f"{name} is a lambda: only functions defined with def can be probed"
    every = list(dict.fromkeys(s.path for unit in units for s in unit.scopes if s.path))
    same = [path for path in every if path[-len(parsed.path) :] == parsed.path]
    if same:
        written = " or ".join(reference(parsed.module, path) for path in same)
        return f"{name} does not exist; write {written}"
    if outer and outer[0].path:
        inner = dict.fromkeys(s.path[-1] for scope in outer for s in scope.inner)
        around = reference(parsed.module, outer[0].path)
        near = _near(parsed.path[-1], inner) or "nothing inside"
        return f"{name} does not exist; {around} has {near}"
    near = _near("/".join(parsed.path), ["/".join(path) for path in every])
    return f"{name} does not exist; {_module(parsed)} has {near or 'no function or class'}"


def _binds_lambda(scope: Scope, name: str) -> bool:
    return any(
        isinstance(node, ast.Assign) and isinstance(node.value, ast.Lambda)
        for node in scope.own
        if name in bindings(node)
    )


def _no_name(placed: PlacedProbe, found: list[Scope]) -> str:
    """Explain which captures are missing in existing scopes; the script's top level has several."""
    parsed, scope, where = placed.parsed, found[0], _named(placed.parsed)

    def has(capture: Capture, scope: Scope) -> bool:
        return fits(capture, scope, placed.overridable)

    nowhere = [c for c in parsed.captures if not any(has(c, one) for one in found)]
    if not nowhere:
        wanted = " and ".join(capture.name for capture in parsed.captures)
        return f"{where} is defined {len(found)} times, never with all of {wanted}"
    name = nowhere[0].name
    if name.startswith(LOOP_MARKERS):
        name = name.partition("_")[2]
        others = [one for each in found for one in each.bound if loops(each, one)]
        return f"no loop of {where} binds {name}; its loops bind {_near(name, others) or 'none'}"
    if name in ("#yield", "#receive") and scope.is_function:
        return f"{where} has no yield"
    if nowhere[0].is_marker:
        return f"{name} is not valid in {where}: only functions have it"
    if placed.overridable and any(name in each.read for each in found):
        return f"{where} only reads {name}, so it cannot be overridden there"
    near = _near(name, dict.fromkeys(one for each in found for one in each.bound))
    return f"{where} has no variable {name}; it has {near or 'none'}"


def _near(wanted: str, names: Iterable[str], most: int = 5) -> str:
    """List up to ``most`` names, those similar to ``wanted`` first."""
    from difflib import get_close_matches

    names = list(names)
    close = get_close_matches(wanted, names, most)
    return ", ".join([*close, *(name for name in names if name not in close)][:most])


# Paths that exist at run time but not in the module's source


def _elsewhere(parsed: ParsedSelector) -> str:
    """Describe a path that is not in its module's source; empty if it is unknown."""
    name, found = reference(parsed.module, parsed.path), _at_run_time(parsed)
    functions = unwrapped(found)
    found = functions[0] if functions else found
    kind = type(found)
    if found is _at_run_time or kind.__module__ == "functools":
        return ""
    if isinstance(found, ModuleType):
        return f"{name} is a module; its top level is {reference(found.__name__, ())}"
    if isinstance(found, FunctionType):
        return _function(found, name) or _defined(found, parsed, name)
    if (found if isinstance(found, type) else kind).__module__ == "builtins":
        return f"{name} has no Python code: it is built in; probe what calls it"
    if isinstance(found, type):
        return _defined(found, parsed, name)
    methods = reference(kind.__module__, tuple(kind.__qualname__.split(".")))
    return f"{name} is an object, not code: its methods are in {methods}"


def _at_run_time(parsed: ParsedSelector) -> Any:
    """Look up the path without running code of the script; this function itself if not found."""
    found: Any = sys.modules.get(parsed.module)
    for index, part in enumerate(parsed.path):
        of = found.__mro__ if isinstance(found, type) else (found,)
        spaces = [getattr(one, "__dict__", {}) for one in of]
        spaces += [] if index else [vars(builtins)]
        found = next((space[part] for space in spaces if part in space), _at_run_time)
    return found


def _function(function: FunctionType, name: str) -> str:
    filename = function.__code__.co_filename
    if function.__name__ == "<lambda>":
        return f"{name} is a lambda: only functions defined with def can be probed"
    if filename.startswith("<frozen "):
        return f"{name} is frozen into the interpreter; probe what calls it"
    if not os.path.exists(filename):
        made = f"{name} was made at run time, by {filename}, and has no source"
        return f"{made}; probe what calls it"
    return ""


def _defined(named: Any, parsed: ParsedSelector, name: str) -> str:
    """Name the place where a class or function was defined, if the selector names another."""
    path = tuple(part for part in named.__qualname__.split(".") if part != "<locals>")
    home = named.__module__
    if not isinstance(home, str) or (home, path) == (parsed.module, parsed.path):
        return ""
    return f"{name} is defined as {reference(home, path)}; write that"
