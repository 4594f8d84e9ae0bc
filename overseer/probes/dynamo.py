"""Keeps code that ``torch.compile`` compiles whole: tells Dynamo what inserted calls are.

Dynamo knows logging functions, which it may move behind the graph. It loses those of functions that
it inlines, and gives up on arguments that are neither tensors nor constants; so it is told here how
to treat a site. Events are kept until the graph has run; a relay's value goes through untouched.
What happens inside a graph has no time of its own, so markers and pairs make no events there, and
the probe is told. Sites stay known when a run has ended: compiled code goes on calling them.
"""

from __future__ import annotations

import sys
import threading
from contextlib import suppress
from importlib import import_module
from types import BuiltinFunctionType, FunctionType

from ..imports import on_import
from .names import put
from .probe import PlacedProbe, alone
from .selector import ALSO, LOOP_MARKERS, PAIR_END

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..imports import Watch

#: Stands for values that cannot be taken out of a graph.
NOT_SEEN = "<not seen inside torch.compile>"
#: What a callable returns its first argument for, and the probe to tell if it makes no events.
_known: dict[Any, tuple[bool, PlacedProbe | None]] = {}
#: Callables that say where a loop begins: in a graph they do nothing.
_entrances: set[Any] = set()
#: Halves of spans, which are recorded when the graph has run.
_halves: set[Any] = set()
_prepared = threading.Event()
_CALLED = (BuiltinFunctionType, FunctionType)


def watch() -> Watch:
    """Prepare Dynamo when it is imported; at once if it is."""
    return on_import("torch._dynamo", prepare)


def know(placed: PlacedProbe) -> None:
    """Tell Dynamo of a probe's sites, now or when it is imported."""
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
    """Tell Dynamo, which is imported, of all that is known by now."""
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
        # Not its setting, which the script may read and which inductor writes out as source.
        logs = variable.is_reorderable_logging_function
        variable.is_reorderable_logging_function = staticmethod(
            lambda value: _is_ours(value) or logs(value)
        )
    put("compiling", sys.modules["torch"].compiler.is_dynamo_compiling)
    for method in (PlacedProbe.hand, PlacedProbe.replaced, alone(print, bool)):
        leave_alone(method)
    _prepared.set()
    for function in (*_known, *_entrances, *_halves):
        _register(function)


def record_behind(site: Any) -> None:
    """Tell Dynamo of a span's halves."""
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
        leave_alone(function)


def leave_alone(function: Any) -> None:
    """Let Dynamo compile neither ``function`` nor what it calls, where it runs between graphs."""
    with suppress(ImportError, AttributeError):  # An older torch compiles them, or tries to.
        types, skip = import_module("torch._dynamo.types"), "torch._C._dynamo.eval_frame"
        strategy = types.FrameExecStrategy(types.FrameAction.SKIP, types.FrameAction.SKIP)
        import_module(skip).set_code_exec_strategy(function.__code__, strategy)


def _call(variable: Any, tx: Any, args: Any, passes: bool, unseen: PlacedProbe | None) -> Any:
    """What a call of a site is in a graph: nothing, and an event behind it."""
    if unseen is not None:
        unseen.unseen = True
    elif not tx.export:
        # The frame that is compiled replays them; those of an inlined frame would be lost.
        tx.output.root_tx.debug_locals.append((variable, [_outside(arg) for arg in args]))
    return args[0] if passes else _variables().ConstantVariable.create(None)


def _variables() -> Any:
    return sys.modules["torch._dynamo.variables"]


def _outside(value: Any) -> Any:
    """``value`` if it can be made again behind the graph, or what says that it cannot."""
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
