"""What a selector asks for, in voir's own terms."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

#: The script, as a module.
MAIN = "__main__"
#: Markers that stand for a place in a function.
MARKERS = ("#enter", "#exit", "#value", "#error", "#yield", "#receive")
#: Markers that stand for a loop; the loop variable's name follows.
LOOPS = ("#loop_", "#endloop_")
#: Markers that carry a value of the script; all others are ``True``.
VALUED = ("#value", "#error", "#yield", "#receive")

#: Markers that say when something happens, which means nothing inside a compiled graph.
TIMES = ("#enter", "#exit")

FOCUS, END, ALSO = "focus", "end", "also"


@dataclass(frozen=True)
class Capture:
    """One variable or marker of a selector.

    Attributes:
        name: As it stands in the code, or a marker.
        key: The key under which events carry it.
        role: ``focus`` fires the event; ``end`` fires the end of a pair; ``also`` comes along.
        test: Whether an event with this value is wanted; ``None``: any.
    """

    name: str
    key: str
    role: str = ALSO
    test: Callable[[object], bool] | None = None

    @property
    def is_marker(self) -> bool:
        """Whether this is a place in the code rather than a variable."""
        return self.name.startswith("#")


@dataclass(frozen=True, eq=False)
class Asked:
    """What somebody asked for, as ptera has it.

    Attributes:
        selector: A string, or a selector that ptera made.
        env: Where its symbols are looked up.
        raw: Whether events are to carry ptera's Capture objects.
        probe_type: ``immediate``, ``total`` or ``None``.
    """

    selector: Any
    env: Mapping[str, Any] = field(default_factory=dict)
    raw: bool = False
    probe_type: str | None = None


@dataclass(frozen=True, eq=False)
class Wish:
    """A selector that was read.

    Attributes:
        text: The selector.
        module: The module that has the code; ``__main__`` for the script.
        path: Functions and classes from the module down to the code; empty for the top level.
        captures: What events carry, in order.
        function: The function itself, when the selector names it by a symbol.
        slow: Why only ptera can do this one; ``None`` when the compiled engine does.
    """

    text: str
    module: str
    path: tuple[str, ...]
    captures: tuple[Capture, ...]
    function: Any = None  # A FunctionType; mypy takes that for a method of this class.
    slow: str | None = None

    @cached_property
    def triggers(self) -> tuple[Capture, ...]:
        """The captures that fire events."""
        return tuple(c for c in self.captures if c.role != ALSO)

    @cached_property
    def paired(self) -> bool:
        """Whether events come in begin/end pairs."""
        return any(c.role == END for c in self.captures)

    @cached_property
    def tests(self) -> dict[str, Callable[[object], bool]]:
        """The conditions on captured values, by key."""
        return {c.key: c.test for c in self.captures if c.test is not None}

    @property
    def reference(self) -> str:
        """The code this names, as one would type it."""
        return reference(self.module, self.path)


def reference(module: str, path: tuple[str, ...]) -> str:
    """How to type the code at ``path`` of ``module`` in a selector."""
    prefix = "//" if module == MAIN else f"/{module}/"
    return prefix + "/".join(path) if path or module == MAIN else f"/{module}"


__all__ = [
    "ALSO",
    "END",
    "FOCUS",
    "LOOPS",
    "MAIN",
    "MARKERS",
    "TIMES",
    "VALUED",
    "Asked",
    "Capture",
    "Wish",
    "reference",
]
