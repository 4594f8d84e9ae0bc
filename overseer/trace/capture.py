"""Fills the log of a run while the script runs: events, and the facts that they refer to."""

from __future__ import annotations

import threading
from collections import deque
from functools import partial
from weakref import ref

from ..recorder import recorder, table
from ..recorder import sites as k
from ..recorder.log import EVENT, header
from .writer import STRUCTURE_TAG, VALUES_TAG, threads_in

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from .parts import Parts
    from .writer import LogWriter

    State = dict[str, Any]


class LogCapture:
    """Takes drained events from any thread; a timer's thread writes them.

    Args:
        writer: The log.
        state: The fold's snapshot; None if it has not begun.
    """

    def __init__(self, writer: LogWriter, state: State | None) -> None:
        self._writer = writer
        self._waiting: deque[tuple[bytes, bytes, State]] = deque()
        self._facts: deque[tuple[str, Any]] = deque()
        self._sites, self._threads = 0, dict[str, str]()
        self._parts: list[dict[str, Any]] | None = None
        self._rows: dict[str, int] = {}
        self._held, self._kept, self._before = b"", False, False
        self._gap, self._state = state is not None, state or {}
        self._skipped: tuple[bytes, bytes, State] | None = None
        self._at = recorder.drain(k.VALUES, 0)[1]
        self._lost = sum(header(recorder.header()).lost)

    def note(self, key: str, fact: object) -> None:
        """Add to the list of facts under ``key``."""
        self._facts.append((key, fact))

    def values(self, events: bytes) -> None:
        """Add events in the value ring's format."""
        self._waiting.append((VALUES_TAG, events, {}))

    def span(self, row: str, label: str, start: int, end: int) -> None:
        """Add a span of voir's own in a named row."""
        key = f"{row}\0{label}"
        if key not in self._rows:
            self._rows[key] = table.add(k.SPAN, label, channel="voir", row=row, always=True)
        site = self._rows[key]
        self.values(EVENT.pack(start, float("nan"), 0, site, 0, min(end - start, 2**48 - 1)))

    def structure(self, data: bytes, keep: bool, after: State) -> None:
        """Take events of the structure ring that the fold has just read.

        Args:
            data: The events.
            keep: Whether they are written.
            after: The fold's snapshot after them.
        """
        state, self._state = self._state, after
        if keep:
            if self._gap and self._skipped is not None:
                self._waiting.append(self._skipped)  # The first step kept begins in it.
                self._gap = False
            self._waiting.append(
                (STRUCTURE_TAG, data, {**state, "gap": True} if self._gap else state)
            )
            self._kept, self._gap, self._skipped = True, False, None
        else:
            for each in threads_in(data):
                self.note("numbers", each)
            if data:
                self._skipped = STRUCTURE_TAG, data, {**state, "gap": True}
            self._gap = True

    def write(self, parts: Parts) -> None:
        """Write what waits."""
        self._write_facts(parts)
        while self._waiting:
            self._writer.events(*self._waiting.popleft())
        data, self._at, _ = recorder.drain(k.VALUES, self._at)
        # The structure events of the same moment are folded later: values wait one turn for them.
        kept, self._kept = self._kept, False
        held, self._held = self._held, data
        self._writer.events(VALUES_TAG, held if kept or self._before else _always(held), {})
        self._before = kept

    def _write_facts(self, parts: Parts) -> None:
        """Write what events refer to: sites, modules, threads, parts."""
        while parts.ended:
            self.note("ended", parts.ended.popleft()._asdict())
        facts: dict[str, Any] = {}
        extents = [part.what._asdict() for part in parts]
        if extents != self._parts:
            facts["parts"] = extents
        noted = [self._facts.popleft() for _ in range(len(self._facts))]
        for key, fact in noted:
            facts.setdefault(key, []).append(fact)
        count = len(table.rows)
        if count > self._sites:
            facts["sites"] = table.rows[self._sites : count]
        listed = list(getattr(threading, "_active", {}).values())
        names = {str(tid): one.name for one in listed if (tid := getattr(one, "native_id", None))}
        fresh = {tid: name for tid, name in names.items() if self._threads.get(tid) != name}
        if fresh:
            facts["threads"] = fresh
        if facts and self._writer.rows(facts):
            self._sites, self._parts = count, extents
            self._threads |= fresh
        elif facts:
            self._facts.extendleft(reversed(noted))

    def close(self, parts: Parts) -> None:
        """Write the rest and close the log."""
        self.write(parts)
        self.write(parts)  # Values wait one turn.
        lost = sum(header(recorder.header()).lost) - self._lost
        self._writer.rows({"lost": lost, "dropped": self._writer.dropped})
        self._writer.close()


def _always(data: bytes) -> bytes:
    """Of events of the value ring, those of channels that always record."""
    rows, kept, before = table.rows, [], False
    for at in range(0, len(data), EVENT.size):
        site = int.from_bytes(data[at + 20 : at + 22], "little")
        before = before if site == 0xFFFF else bool(site < len(rows) and rows[site].get("always"))
        if before:
            kept.append(data[at : at + EVENT.size])
    return b"".join(kept)


class ModuleNames:
    """Names modules in the log when they are first called: events have their addresses only.

    Args:
        capture: The log.
    """

    def __init__(self, capture: LogCapture) -> None:
        self._capture = capture
        self._names: dict[int, tuple[str, Any]] = {}

    def add(self, module: Any) -> None:
        """Name a module; the first one of a model names all within it."""
        if id(module) not in self._names:
            root = type(module).__name__
            for path, inner in module.named_modules():
                if id(inner) not in self._names:
                    forget = partial(self._forget, id(inner), recorder.identity(inner))
                    name = f"{root}.{path}" if path else root
                    self._names[id(inner)] = name, ref(inner, forget)
        name = self._names[id(module)][0]
        named = recorder.identity(module), recorder.now(), name, type(module).__name__
        self._capture.note("names", named)

    def _forget(self, key: int, identity: int, _: object) -> None:
        self._names.pop(key, None)
        recorder.forget(identity)
