"""Probes in code that ``torch.compile`` compiles.

Dynamo knows logging functions that it may move behind the graph. In their place, it is told here
what a lane or relay is: the events of a call are kept until the graph has run, whatever values
they carry and however deep the function is inlined; a relay's value goes through untouched. What
happens inside a graph has no time of its own, so markers and pairs are dropped there, and said to
be. None of this touches torch until the script compiles something.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ..imports import Watch, on_import

#: Stands for values that cannot be taken out of a graph.
NOT_SEEN = "<not seen inside torch.compile>"


@dataclass(frozen=True)
class Known:
    """What Dynamo has to know about a lane or relay.

    Attributes:
        passes: Whether it returns its first argument.
        unseen: Called when a call in a graph will not be seen; ``None``: they are seen.
    """

    passes: bool
    unseen: Callable[[], None] | None = None


_known: dict[Any, Known] = {}


#: Called, in order, when something is to be compiled; of each run that goes on.
_starts: list[Callable[[], None]] = []


def when_compiling(start: Callable[[], None]) -> Watch:
    """Call ``start()`` each time the script asks for something to be compiled; now if it has."""
    loading = on_import("torch._dynamo.eval_frame", lambda module: _watch(module, start))

    def dispose() -> None:
        loading.dispose()
        if start in _starts:
            _starts.remove(start)

    return Watch(dispose)


def _watch(module: Any, start: Callable[[], None]) -> None:
    context = getattr(module, "OptimizeContext", None)
    if context is None:
        return
    _starts.append(start)
    if not hasattr(context.__init__, "__voir__"):
        _tell(context)
    if any(callable(backend) for backend in getattr(module, "cached_backends", {}).values()):
        start()


def _tell(context: Any) -> None:
    before = context.__init__

    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        for start in tuple(_starts):
            start()
        before(self, *args, **kwargs)

    __init__.__voir__ = True  # type: ignore[attr-defined]
    context.__init__ = __init__


def opaque(function: Callable[..., object], known: Known) -> bool:
    """Let Dynamo take calls of ``function`` for what they are; ``False``: this torch cannot."""
    if not _patched():
        return False
    _known[function] = known
    _leave_alone(function)
    sys.modules["torch._dynamo"].config.reorderable_logging_functions.add(function)
    return True


def _leave_alone(function: Any) -> None:
    """Let Dynamo compile neither ``function`` nor what it calls: after a break, it is called."""
    try:
        from torch._C._dynamo import eval_frame  # type: ignore[import-not-found,unused-ignore]
        from torch._dynamo import types  # type: ignore[import-not-found,unused-ignore]

        kinds: Any = types
        skip = kinds.FrameExecStrategy(kinds.FrameAction.SKIP, kinds.FrameAction.SKIP)
        eval_frame.set_code_exec_strategy(function.__code__, skip)
    except (ImportError, AttributeError):
        return  # An older torch: it compiles them, or tries to, and all still works.


def forget(function: Callable[..., object]) -> None:
    """Take ``function`` out of Dynamo's knowledge."""
    if _known.pop(function, None) is not None:
        sys.modules["torch._dynamo"].config.reorderable_logging_functions.discard(function)


def is_compiling() -> Callable[[], bool]:
    """The function that Dynamo knows to be true while it traces."""
    compiler: Any = sys.modules["torch"].compiler
    found: Callable[[], bool] = getattr(compiler, "is_dynamo_compiling", compiler.is_compiling)
    return found


def _patched() -> bool:
    """Whether Dynamo asks :func:`_call` about our functions; it is arranged at first."""
    try:
        from torch._dynamo.variables import misc  # type: ignore[import-not-found,unused-ignore]

        variable = misc.DebuggingVariable
        if not hasattr(variable.call_function, "__voir__"):
            _patch(variable)
    except (ImportError, AttributeError):
        return False
    return True


def _patch(variable: Any) -> None:
    before = variable.call_function

    def call_function(self: Any, tx: Any, args: Any, kwargs: Any) -> Any:
        known = _known.get(self.value)
        return before(self, tx, args, kwargs) if known is None else _call(self, tx, args, known)

    call_function.__voir__ = True  # type: ignore[attr-defined]
    variable.call_function = call_function


def _call(variable: Any, tx: Any, args: Any, known: Known) -> Any:
    """What a call of a lane or relay is in a graph: nothing, and an event behind it."""
    from torch._dynamo.variables import ConstantVariable

    if known.unseen is not None:
        known.unseen()
    elif not tx.export:
        # The frame that is compiled replays them; those of an inlined frame would be lost.
        tx.output.root_tx.debug_locals.append((variable, [_outside(arg) for arg in args]))
    return args[0] if known.passes else ConstantVariable.create(None)


def _outside(value: Any) -> Any:
    """``value`` if it can be made again behind the graph, or what says that it cannot."""
    from torch._dynamo.variables import ConstantVariable, ConstDictVariable

    if isinstance(value, ConstDictVariable):
        return value.clone(items={key: _outside(inner) for key, inner in value.items.items()})
    return value if _is_plain(value) else ConstantVariable.create(NOT_SEEN)


def _is_plain(value: Any) -> bool:
    from torch._dynamo import variables

    simple = ("TensorVariable", "ConstantVariable", "SymNodeVariable")
    if isinstance(value, tuple(getattr(variables, name) for name in simple)):
        return True
    if isinstance(value, (variables.ListVariable, variables.TupleVariable)):
        return all(_is_plain(item) for item in value.items)
    if isinstance(value, variables.ConstDictVariable):
        return all(_is_plain(item) for item in value.items.values())
    return getattr(value, "source", None) is not None


__all__ = ["NOT_SEEN", "Known", "forget", "is_compiling", "opaque", "when_compiling"]
