"""Watches generators: what a script waits for is their code between two yields.

A generator that was made runs on as it was, so those of a script are watched before they are
made: its text tells which functions its loops take batches from. Of any other, given as ``loader``,
later ones of the same function are watched, those of later epochs.
"""

from __future__ import annotations

import gc
import os
from _thread import get_ident
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
#: Places markers in the code that a selector names; returns what takes them out.
Place = Callable[[str, Markers, Mapping[str, Any]], list[Callable[[], object]]]
#: How many functions are watched; a script that makes up more has them unwatched.
KINDS = 64
#: How many loaders that were given are remembered by name.
GIVEN = 1024
#: So many in a row that no model works on are samples, not batches.
SAMPLES = 4


class Watched:
    """A function that is watched, and who is told of it.

    What the text alone shows to be the source of batches may yet yield single samples, so often
    that watching would show: it is on trial until a model is at work.

    Args:
        name: Its name.
        audience: Who is told of waits.
        now: Reads the clock, in nanoseconds.
        state: ``IDLE``: nobody is told, unless it is given as ``loader``; ``TRIAL``; ``WAITS``: it
            is on trial no more, and the model is told of waits; ``LOADER``: everybody is told of
            its batches, too. After ``DROPPED`` it is watched no more.

    Attributes:
        undo: What ends the watching.
    """

    DROPPED, IDLE, TRIAL, WAITS, LOADER = range(5)

    def __init__(
        self, name: Hashable, audience: Audience, now: Callable[[], int], state: int
    ) -> None:
        self.name, self.state = name, state
        self._audience, self._now = audience, now
        self._begun: dict[int, int] = {}
        self._waits: list[tuple[int, int]] = []
        self.undo: list[Callable[[], object]] = []

    def begins(self, name: Hashable) -> None:
        """A generator of this function, of this name, is asked for the first time."""
        if self.state in (self.WAITS, self.LOADER):
            self._audience.begun(name)
        self.asked(name)

    def asked(self, name: Hashable) -> None:
        """It is asked for a batch."""
        if self.state == self.LOADER:
            self._audience.asked(name)
        elif self.state > self.IDLE:
            self._begun[get_ident()] = self._now()
            if self.state == self.WAITS:
                self._audience.waits(name)

    def answered(self, name: Hashable, batch: Any) -> None:
        """It yields one."""
        if self.state == self.LOADER:
            self._audience.answered(name, batch)
        elif self.state > self.IDLE:
            now = self._now()
            begun = self._begun.pop(get_ident(), now)
            if self.state == self.WAITS:
                self._audience.waited(name, begun, now)
                return
            self._waits.append((begun, now))
            if len(self._waits) >= SAMPLES:
                self.state, self._waits = self.DROPPED, []
                for undo in self.undo:
                    undo()

    def over(self, name: Hashable) -> None:
        """It ends, or is closed."""
        if self.state == self.LOADER:
            if not self._audience.awaits:
                self._audience.asked(name)  # It is closed: its last batch has been worked on.
            self._audience.failed(name, True)
        elif self.state == self.WAITS:
            self._audience.exhausted(name)

    def confirm(self) -> None:
        """A model is at work on what it has yielded: that is a batch."""
        if self.state == self.TRIAL and self._waits:
            self.state = self.WAITS
            waits, self._waits = self._waits, []
            for begun, ended in waits:
                self._audience.waited(self.name, begun, ended, late=True)


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
        self._told: dict[Kind, Watched] = {}
        self._trials: list[Watched] = []
        self.given: set[Hashable] = set()
        self._loaded = self._wanted = self._foreseen = self._asked_for = False

    def expect(self, asked_for: bool = True) -> None:
        """Where the script's loop takes its batches from is of interest.

        Args:
            asked_for: Somebody asked for it; else what it gives is on trial first.
        """
        self._wanted = True
        self._asked_for |= asked_for
        self._foresee()

    def confirm(self) -> None:
        """A model is at work; called in each step that is watched in full."""
        if not self._trials:
            return
        for watched in self._trials:
            watched.confirm()
        self._trials = [each for each in self._trials if each.state == Watched.TRIAL]

    def script_loaded(self) -> None:
        """The script's text can be read, and voirfiles have said what they want."""
        self._loaded = True
        self._wanted |= self._ov.shows("loader")
        self._foresee()

    def known(self, code: CodeType) -> bool:
        """A loader is given whose code this is; whether it is watched from its first batch on."""
        watched = self._told.get(kind_of(code))
        if watched is None or watched.state == Watched.DROPPED:
            return False
        watched.state = Watched.LOADER
        self.add(watched.name)
        return True

    def add(self, name: Hashable) -> None:
        """A loader of this name is given; of very many the last are remembered."""
        if len(self.given) >= GIVEN:
            self.given.clear()
        self.given.add(name)

    def watch(self, generator: GeneratorType[Any, Any, Any]) -> bool:
        """A loader is this one; whether it is watched, and not only later ones like it."""
        code = generator.gi_code
        if self.known(code):
            return True
        if len(self._told) < KINDS:
            kind = kind_of(code)
            watched = self._told[kind] = self._watched(kind, Watched.LOADER)
            self.add(kind)
            markers = yielding(watched, lambda event: kind)
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
            found = feeds(program.file, every=self._ov.shows("loader"))
        except (VoirError, RecursionError):
            found = []  # It is no text that could be read.
        for feed in found[:KINDS]:
            self._watch(feed)
        self._ov.charge(self._ov.clock.cpu_ns() - begun)

    def _watch(self, feed: Feed) -> None:
        state = Watched.IDLE
        if feed.learns:
            state = Watched.LOADER if self._asked_for else Watched.TRIAL
        kind, own = feed.kinds[0], feed.own
        watched = self._watched(kind, state)
        if state == Watched.TRIAL:
            self._trials.append(watched)
        for each in feed.kinds:
            self._told.setdefault(each, watched)
        markers = yielding(watched, lambda event: id(event["self"]) if own else kind)
        where = f"{feed.reference}({own} as self)" if own else feed.reference
        watched.undo = self._place(where, markers, {})

    def _watched(self, name: Hashable, state: int) -> Watched:
        return Watched(name, self._audience, self._ov.clock.now_ns, state)


def kind_of(code: CodeType) -> Kind:
    """Which function code is of."""
    return os.path.abspath(code.co_filename), code.co_firstlineno, code.co_name


def yielding(watched: Watched, name: Callable[[dict[str, Any]], Hashable]) -> Markers:
    """What listens to a generator function: from when it is asked until it yields or ends."""

    def begins(event: dict[str, Any]) -> None:
        watched.begins(name(event))

    def asked(event: dict[str, Any]) -> None:
        watched.asked(name(event))

    def answered(event: dict[str, Any]) -> None:
        watched.answered(name(event), event["batch"])

    def over(event: dict[str, Any]) -> None:
        watched.over(name(event))

    return {"#enter": begins, "#receive": asked, "#yield as batch": answered, "#exit": over}
