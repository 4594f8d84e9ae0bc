"""Watches generators: what a script waits for is their code between two yields.

A generator that was made runs on as it was, so those of a script are watched before they are
made: its text tells which functions its loops take batches from. Of any other, given as ``loader``,
later ones of the same function are watched, those of later epochs.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Callable, Hashable, Mapping
from types import CodeType, FunctionType, GeneratorType
from typing import TYPE_CHECKING, Any

from overseer import Overseer
from overseer.errors import VoirError

if TYPE_CHECKING:
    from overseer.measure.audience import Audience
    from overseer.reading.feeds import Feed, Kind

#: What listens, by the marker.
Markers = Mapping[str, Callable[[dict[str, Any]], object]]
#: Places markers in the code that a selector names.
Place = Callable[[str, Markers, Mapping[str, Any]], object]
#: How many functions are watched; a script that makes up more has them unwatched.
KINDS = 64


class _Told:
    """A function that is watched: its name, and whether anybody is told of it."""

    __slots__ = ("name", "told")

    def __init__(self, name: Hashable, told: bool) -> None:
        self.name, self.told = name, told


class Feeds:
    """Watches what a script's text shows to give batches, and generators.

    Args:
        ov: The run.
        audience: Who is told of waits.
        place: Places markers.

    Attributes:
        given: Names of those that were given as ``loader``.
    """

    def __init__(self, ov: Overseer, audience: Audience, place: Place) -> None:
        self._ov, self._audience, self._place = ov, audience, place
        self._told: dict[Kind, _Told] = {}
        self.given: set[Hashable] = set()
        self._loaded = self._wanted = self._foreseen = False

    def expect(self) -> None:
        """Where the script's loop takes its batches from is of interest."""
        self._wanted = True
        self._foresee()

    def script_loaded(self) -> None:
        """The script's text can be read, and voirfiles have said what they want."""
        self._loaded = True
        self._wanted |= self._ov.shows("loader")
        self._foresee()

    def known(self, code: CodeType) -> bool:
        """A loader is given whose code this is; whether it is watched from its first batch on."""
        told = self._told.get(kind_of(code))
        if told is not None:
            told.told = True
            self.given.add(told.name)
        return told is not None

    def watch(self, generator: GeneratorType[Any, Any, Any]) -> bool:
        """A loader is this one; whether it is watched, and not only later ones like it."""
        code = generator.gi_code
        if self.known(code):
            return True
        if len(self._told) < KINDS:
            kind = kind_of(code)
            self._told[kind] = _Told(kind, True)
            self.given.add(kind)
            markers = yielding(self._audience, lambda event: kind)
            for function in gc.get_referrers(code):
                if isinstance(function, FunctionType):
                    self._place("code", markers, {"code": function})
        return False

    def _foresee(self) -> None:
        """Watch the functions that the script's loops take batches from."""
        program = self._ov.program
        if self._foreseen or not (self._loaded and self._wanted):
            return
        self._foreseen = True
        if program is None or program.file is None:
            return
        begun = self._ov.clock.cpu_ns()
        from overseer.reading import feeds

        try:
            found = feeds(program.file)
        except (VoirError, RecursionError):
            found = []  # It is no text that could be read.
        given = self._ov.shows("loader")
        for feed in found[:KINDS]:
            if feed.learns or given:
                self._watch(feed)
        self._ov.charge(self._ov.clock.cpu_ns() - begun)

    def _watch(self, feed: Feed) -> None:
        told = _Told(feed.kinds[0], feed.learns)
        for kind in feed.kinds:
            self._told.setdefault(kind, told)

        def once(listener: Callable[[dict[str, Any]], object]) -> Callable[[dict[str, Any]], None]:
            def heard(event: dict[str, Any]) -> None:
                if told.told:
                    listener(event)

            return heard

        kind, own = feed.kinds[0], feed.own
        markers = yielding(self._audience, lambda event: id(event["self"]) if own else kind)
        capture = f"({own} as self)" if own else ""
        listeners = {marker: once(listener) for marker, listener in markers.items()}
        self._place(f"{feed.reference}{capture}", listeners, {})


def kind_of(code: CodeType) -> Kind:
    """Which function code is of."""
    return os.path.abspath(code.co_filename), code.co_firstlineno, code.co_name


def yielding(audience: Audience, name: Callable[[dict[str, Any]], Hashable]) -> Markers:
    """What listens to a generator function: from when it is asked until it yields or ends."""

    def begun(event: dict[str, Any]) -> None:
        audience.begun(name(event))
        asked(event)

    def asked(event: dict[str, Any]) -> None:
        audience.asked(name(event))

    def gave(event: dict[str, Any]) -> None:
        audience.answered(name(event), event["batch"])

    def over(event: dict[str, Any]) -> None:
        if not audience.awaits:
            asked(event)  # It is closed: its last batch has been worked on.
        audience.failed(name(event), True)

    return {"#enter": begun, "#receive": asked, "#yield as batch": gave, "#exit": over}
