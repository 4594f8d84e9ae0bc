"""Events that inserted code notes by itself, by functions in C alone.

Between two steps of a script its own work fills the caches, and there a call of a function in
Python costs ten times what it costs in a tight loop; one in C costs little more. So where a
listener only notes an event's time and the size of its batch, inserted code does that without it:
a branch beside the ordinary way, which is taken as long as nothing stands against it.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Container, Mapping
from functools import cache
from itertools import repeat
from typing import Any, NamedTuple

from ..ways import Offer
from .hidden import Hidden

#: An event may be noted in this way when there is, on average, no more than one in so many ns:
#: a loop that does nothing else has the caches to itself, and notes faster than anybody reads.
SPARSE_NS = 20_000
#: One in so many may fail; with more, none is noted in this way any more.
MISSES = 8
#: Names that stand for the same in all lanes.
COMMON = frozenset(
    {"cpu", "cut", "empty", "frame", "id", "ident", "item", "next", "now", "put", "size"}
)
_MANY = 1 << 60


class Noting(NamedTuple):
    """What to insert besides a call.

    Attributes:
        code: An expression, of the event's own keys and of names.
        names: The hidden name for each of these.
        on: The hidden name of what is true while events are noted in this way.
        missed: That of the iterator that takes a step each time when this has failed.
    """

    code: str
    names: Mapping[str, str]
    on: str
    missed: str


@cache
def _names(code: str) -> frozenset[str]:
    nodes = ast.walk(ast.parse(code, mode="eval"))
    return frozenset(node.id for node in nodes if isinstance(node, ast.Name))


class Quick:
    """Whether one lane's events are noted by inserted code itself.

    Args:
        hidden: Where the names are kept.
        label: The lane's, within them.
        tally: The hidden name of what counts the probe's events.
        fired: Returns how many there have been.

    """

    def __init__(self, hidden: Hidden, label: str, tally: str, fired: Callable[[], int]) -> None:
        self._hidden, self._label, self._tally, self._fired = hidden, label, tally, fired
        self._on_name = hidden.put(f"{label} noting", False)
        self._missed = repeat(None, _MANY)
        self._missed_name = hidden.put(f"{label} missed", self._missed)
        self._offer: Offer | None = None
        self._values: dict[str, Any] = {}
        self._on = self._calm = self._refused = False
        self._version = self._began = self._noted = 0
        self._seen: tuple[int, int, int] | None = None

    def noting(self, code: str, keys: Container[str]) -> Noting:
        """What to insert for an expression of these keys of an event, and of names."""
        names = {name: self._name(name) for name in _names(code) if name not in keys}
        return Noting(code, names, self._on_name, self._missed_name)

    def _name(self, name: str) -> str:
        if name == "tally":
            return self._tally
        return self._hidden.name(name if name in COMMON else f"{self._label} {name}")

    @property
    def noted(self) -> int:
        """How many events were noted in this way."""
        on, began = self._on, self._began
        return self._noted + (self._fired() - began if on else 0)

    def offer(self, offer: Offer) -> None:
        """From now on events may be noted as it says."""
        self._offer = offer
        self.resume()

    def withdraw(self) -> None:
        """Whoever offered takes no notes any more."""
        self.end()
        self._offer = None

    def consider(self, now: int) -> None:
        """Begin or end, by how many events there are and what the listener says.

        Args:
            now: The time, in ns.
        """
        offer = self._offer
        if offer is None:
            return
        fired, seen = self._fired(), self._seen
        missed = _MANY - self._missed.__length_hint__()
        self._seen = fired, missed, now
        if seen is not None and fired > seen[0]:
            self._calm = (fired - seen[0]) * SPARSE_NS < now - seen[2]
            # Whether what comes is not of the kind that can be noted.
            self._refused |= (missed - seen[1]) * MISSES > fired - seen[0]
        if self._calm and not self._refused and offer.ready():
            self.resume()
        else:
            self.end()

    def resume(self) -> None:
        """Begin, unless something stands against it."""
        version, offer = self._version, self._offer
        if self._on or self._refused or not self._calm or offer is None or not offer.ready():
            return
        kept = self._values
        for name, value in offer.values().items():
            if kept.get(name, self) is not value:
                kept[name] = value
                self._hidden.store(self._name(name), value)
        self._on, self._began = True, self._fired()
        self._hidden.store(self._on_name, True)
        if version != self._version:  # Another thread has ended it meanwhile.
            self.end()

    def end(self) -> None:
        """End: the next event comes the ordinary way."""
        self._version += 1
        self._hidden.store(self._on_name, False)
        on, self._on = self._on, False
        if on:
            self._noted += self._fired() - self._began
            if self._offer is not None:
                self._offer.over()
