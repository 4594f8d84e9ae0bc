"""Registers inserted calls with Dynamo, so that they cause no graph breaks.

Dynamo can defer calls of logging functions until the graph has run, but it drops those of inlined
functions and breaks the graph for arguments other than tensors and constants. Sites get their own
treatment: their events are deferred until the graph has run, and a relay returns its argument.
Nothing inside a graph has a time, so markers and pairs make no events there and the probe is marked
``unseen``. Sites stay registered after the run, because compiled code keeps calling them.
"""

from __future__ import annotations

import sys
import threading
from contextlib import suppress
from importlib import import_module
from types import BuiltinFunctionType, FunctionType

from ..imports import on_import
from .names import put
from .probe import PlacedProbe, single_listener
from .selector import ALSO, LOOP_MARKERS, PAIR_END

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..imports import Watch

#: Replaces values that cannot be reconstructed outside the graph.
NOT_SEEN = "<not seen inside torch.compile>"
#: By callable of a site: whether it returns its first argument, and the probe to mark as unseen if
#: it makes no events.
_known: dict[Any, tuple[bool, PlacedProbe | None]] = {}
#: Callables that record the start of a loop; no-ops inside a graph.
_entrances: set[Any] = set()
#: Span halves, recorded after the graph has run.
_halves: set[Any] = set()
_prepared = threading.Event()
_CALLED = (BuiltinFunctionType, FunctionType)


def watch() -> Watch:
    """Call :func:`prepare` once Dynamo is imported; immediately if it is."""
    return on_import("torch._dynamo", prepare)


def register_sites(placed: PlacedProbe) -> None:
    """Register a probe's sites with Dynamo, now or when it is imported."""
    captures = placed.parsed.captures
    paired = any(capture.role == PAIR_END for capture in captures)
    triggers = [capture for capture in captures if capture.role != ALSO]
    sites = zip(placed.sites, triggers, strict=True) if not placed.parsed.slow else ()
    for site, trigger in sites:
        timed = paired or trigger.name.startswith(("#enter", "#exit", *LOOP_MARKERS))
        _known[site.event] = (False, placed if timed else None)
        _known[site.relay] = (True, placed if timed or placed.overridable else None)
        _entrances.add(site.enter_loop)
        if _prepared.is_set():
            for function in (site.event, site.relay, site.enter_loop):
                _register(function)


def prepare(dynamo: Any) -> None:
    """Patch Dynamo and register all sites known so far."""
    variable: Any = import_module("torch._dynamo.variables.misc").DebuggingVariable
    before = variable.call_function
    if not hasattr(before, "__voir__"):

        def call_function(self: Any, tx: Any, args: Any, kwargs: Any) -> Any:
            if self.value in _entrances:
                return _variables().ConstantVariable.create(None)
            if self.value in _halves:
                return _call(self, tx, args[:1], False, None)
            known = _known.get(self.value)
            return _call(self, tx, args, *known) if known else before(self, tx, args, kwargs)

        call_function.__voir__ = True  # type: ignore[attr-defined]
        variable.call_function = call_function
        # Not the config option: the script may read it, and inductor writes it out as source.
        logs = variable.is_reorderable_logging_function
        variable.is_reorderable_logging_function = staticmethod(
            lambda value: _is_ours(value) or logs(value)
        )
    put("compiling", sys.modules["torch"].compiler.is_dynamo_compiling)
    for method in (PlacedProbe.hand, PlacedProbe.replaced, single_listener(print, bool)):
        never_compile(method)
    _prepared.set()
    for function in (*_known, *_entrances, *_halves):
        _register(function)


def record_after_graph(site: Any) -> None:
    """Register a span's two halves with Dynamo; they are recorded after the graph."""
    for half in (site.enter, site.leave):
        _halves.add(half)
        if _prepared.is_set():
            _register(half)


def _is_ours(value: object) -> bool:
    if type(value) not in _CALLED:
        return False
    return value in _known or value in _entrances or value in _halves


def _register(function: Any) -> None:
    if hasattr(function, "__code__"):
        never_compile(function)


def never_compile(function: Any) -> None:
    """Make Dynamo skip ``function`` and everything it calls."""
    with suppress(ImportError, AttributeError):  # Older versions of torch try to compile them.
        types, skip = import_module("torch._dynamo.types"), "torch._C._dynamo.eval_frame"
        strategy = types.FrameExecStrategy(types.FrameAction.SKIP, types.FrameAction.SKIP)
        import_module(skip).set_code_exec_strategy(function.__code__, strategy)


def _call(variable: Any, tx: Any, args: Any, passes: bool, unseen: PlacedProbe | None) -> Any:
    """Handle a traced call of a site: nothing in the graph, the event after it."""
    if unseen is not None:
        unseen.unseen = True
    elif not tx.export:
        # Only the root frame replays them; those of inlined frames would be lost.
        tx.output.root_tx.debug_locals.append((variable, [_outside(arg) for arg in args]))
    return args[0] if passes else _variables().ConstantVariable.create(None)


def _variables() -> Any:
    return sys.modules["torch._dynamo.variables"]


def _outside(value: Any) -> Any:
    """``value`` if it can be reconstructed after the graph, else :data:`NOT_SEEN`."""
    return value if _is_plain(value) else _variables().ConstantVariable.create(NOT_SEEN)


def _is_plain(value: Any) -> bool:
    v = _variables()
    if isinstance(value, (v.TensorVariable, v.ConstantVariable, v.SymNodeVariable)):
        return True
    if isinstance(value, (v.ListVariable, v.TupleVariable)):
        return all(_is_plain(item) for item in value.items)
    if isinstance(value, v.ConstDictVariable):
        return all(_is_plain(item) for item in value.items.values())
    return getattr(value, "source", None) is not None
