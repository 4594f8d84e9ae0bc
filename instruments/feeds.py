"""Watches generators: what a script waits for is their code between two yields.

A generator that was made runs on as it was, so those of a script are watched before they are
made: its text tells which functions its loops take batches from, and the ``__next__`` of which
classes. Of any other, given as ``loader``, later ones of the same function are watched, those of
later epochs.
"""

from __future__ import annotations

import gc
import os
import re
from _thread import get_ident
from collections import deque
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping
from types import CodeType, FunctionType, GeneratorType
from typing import TYPE_CHECKING, Any

from overseer import Overseer
from overseer.errors import Problem, VoirError
from overseer.foreseen import may_learn

from .several import HANDED, Names

if TYPE_CHECKING:
    from overseer.measure.audience import Audience
    from overseer.reading.feeds import Feed, Kind

#: What listens, by the marker.
Markers = Mapping[str, Callable[[dict[str, Any]], object]]
#: Places markers in the code that a selector names; returns what takes them out.
Place = Callable[[str, Markers, Mapping[str, Any]], list[Callable[[], object]]]
#: Listens to a ``__next__`` and, where there is one, the ``__iter__`` with it, by their selectors.
Answers = Callable[[str, str | None], object]
#: How many functions are watched; a script that makes up more has them unwatched.
KINDS = 64
#: How many loaders that were given are remembered by name.
GIVEN = 1024
#: So many in a row that no model works on are samples, not batches.
SAMPLES = 4
#: Waits within one for a generator that are told apart, at most.
PARTS = 1024
#: Keys of events that show steps.
STEPS = frozenset({"step", "compute", "compute_start"})
#: What to do where it is not plain which generator is the loader.
REMEDY = "Probe the end of a step: //FUNCTION(X as batch) > #endloop_X as step, for X in its loop."
#: Where PyTorch's DataLoader lives, in every version; its package is imported when it is.
TORCH = "torch.utils.data.dataloader"
#: The name of the code of a generator that is an expression: no function makes a later one.
EXPRESSION = "<genexpr>"
#: What the keys begin with of what a generator goes over.
OVER = "over"
#: From when until when something was waited for, in nanoseconds.
Span = tuple[int, int]


class Within:
    """What each thread waits for while it waits for a generator: loaders, and other generators.

    Args:
        now: Reads the clock, in nanoseconds.
    """

    def __init__(self, now: Callable[[], int]) -> None:
        self._now = now
        self._open: dict[int, list[tuple[Hashable, int, deque[Span]]]] = {}
        self._since: dict[int, int] = {}

    def begins(self, source: Hashable) -> None:
        """A loader is asked for a batch."""
        thread = get_ident()
        if self._open.get(thread):
            self._since[thread] = self._now()

    def ends(self, source: Hashable, exhausted: bool) -> None:
        """It has answered; of a wait in vain nobody else is told."""
        thread = get_ident()
        since, waiting = self._since.pop(thread, None), self._open.get(thread)
        if since is not None and waiting and not exhausted:
            waiting[-1][2].append((since, self._now()))

    def asked(self, name: Hashable) -> None:
        """A generator is asked for a batch."""
        self._open.setdefault(get_ident(), []).append((name, self._now(), deque(maxlen=PARTS)))

    def answered(self, name: Hashable, now: int) -> list[Span] | None:
        """It answers: its wait but for those that it consists of; None if it was not asked."""
        thread = get_ident()
        waiting = self._open.get(thread, [])
        while waiting:
            asked, begun, spans = waiting.pop()
            if not waiting:
                del self._open[thread]
            if asked == name:
                if waiting:
                    waiting[-1][2].append((begun, now))
                return list(_between(begun, now, spans))
        return None


def _between(begun: int, ended: int, spans: Collection[Span]) -> Iterator[Span]:
    """The parts of a time that lie in none of the spans in it."""
    at = begun
    for since, until in spans:
        if since > at:
            yield at, since
        at = until
    if ended > at or not spans:
        yield at, ended


class Watched:
    """A function that is watched, and who is told of it.

    What the text alone shows to be the source of batches may yet yield single samples, so often
    that watching would show: it is on trial until a model is at work.

    Args:
        name: Its name.
        audience: Who is told of waits.
        within: Knows what it waits for itself, so that this is not told twice.
        now: Reads the clock, in nanoseconds.
        state: ``IDLE``: nobody is told, unless it is given as ``loader``; ``TRIAL``; ``WAITS``: it
            is on trial no more, and the model is told of waits; ``LOADER``: everybody is told of
            its batches, too. After ``DROPPED`` it is watched no more.

    Attributes:
        names: Names its generators, unless they have the names of objects.
        undo: What ends the watching.
    """

    DROPPED, IDLE, TRIAL, WAITS, LOADER = range(5)

    def __init__(
        self,
        name: Hashable,
        audience: Audience,
        now: Callable[[], int],
        state: int,
        within: Within | None = None,
    ) -> None:
        self.name, self.state = name, state
        self._audience, self._now = audience, now
        self._within = within if within is not None else Within(now)
        self._waits: list[tuple[Hashable, list[Span]]] = []
        self.names: Names | None = None
        self.undo: list[Callable[[], object]] = []

    def begins(self, name: Hashable) -> None:
        """A generator of this function, of this name, is asked for the first time."""
        if name is HANDED:
            self._is_handed_on()
            return
        if self.state in (self.WAITS, self.LOADER):
            self._audience.begun(name)
        self.asked(name)

    def asked(self, name: Hashable) -> None:
        """It is asked for a batch."""
        if name is HANDED:
            return
        if self.state == self.LOADER:
            self._audience.asked(name)
        elif self.state > self.IDLE:
            self._within.asked(name)
            if self.state == self.WAITS:
                self._audience.waits(name)

    def answered(self, name: Hashable, batch: Any) -> None:
        """It yields one."""
        if name is HANDED:
            return
        if self.state == self.LOADER:
            self._audience.answered(name, batch)
        elif self.state > self.IDLE:
            now = self._now()
            spans = self._within.answered(name, now) or [(now, now)]
            if self.state == self.WAITS:
                self._tell(name, spans)
                return
            self._waits.append((name, spans))
            if len(self._waits) >= SAMPLES:
                self.state, self._waits = self.DROPPED, []
                for undo in self.undo:
                    undo()

    def over(self, name: Hashable) -> None:
        """It ends, or is closed."""
        if name is HANDED:
            return
        if self.state == self.LOADER:
            if not self._audience.awaits:
                self._audience.asked(name)  # It is closed: its last batch has been worked on.
            self._audience.failed(name, True)
        elif self.state > self.IDLE:
            self._within.answered(name, self._now())
            if self.state == self.WAITS:
                self._audience.exhausted(name)

    def _is_handed_on(self) -> None:
        """One hands on what a loader gives, which is told of by itself: those are batches."""
        if self.state == self.TRIAL:
            self.confirm()
            self.state = self.WAITS

    def _tell(self, name: Hashable, spans: list[Span]) -> None:
        """Tell of a wait; the model knows of those within it, and that they are part of it."""
        for begun, ended in spans[:-1]:
            for waited in self._audience.waited_for:
                waited(begun, ended)
        self._audience.waited(name, *spans[-1])

    def confirm(self) -> None:
        """A model is at work on what it has yielded: that is a batch."""
        if self.state == self.TRIAL and self._waits:
            self.state = self.WAITS
            waits, self._waits = self._waits, []
            for name, spans in waits:
                for begun, ended in spans:
                    self._audience.waited(name, begun, ended, late=True)


class Feeds:
    """Watches what a script's text shows to give batches, and generators.

    Args:
        ov: The run.
        audience: Who is told of waits.
        place: Places markers.
        answers: Watches a ``__next__`` as that of a loader.

    Attributes:
        given: Names of those that were given as ``loader``.
        at_work: A model has been at work, or something was learned.
        in_vain: What is watched is so for PyTorch alone, which the script has yet to import.
    """

    def __init__(self, ov: Overseer, audience: Audience, place: Place, answers: Answers) -> None:
        self._ov, self._audience, self._place, self._answers = ov, audience, place, answers
        self._told: dict[Kind, Watched] = {}
        self._trials: list[Watched] = []
        self._within = Within(ov.clock.now_ns)
        self.given: set[Hashable] = set()
        self.at_work = self.in_vain = False
        self._loaded = self._wanted = self._foreseen = self._asked_for = self._hoped = False

    def expect(self, asked_for: bool = True) -> None:
        """Where the script's loop takes its batches from is of interest.

        Args:
            asked_for: Somebody asked for it; else what it gives is on trial first.
        """
        self._wanted, self.in_vain = True, False
        self._asked_for |= asked_for
        self._foresee()

    def hope(self) -> None:
        """Once the script imports PyTorch it is, which may be when it is at work.

        That is too late for functions that the code makes which is running by then.
        """
        self._hoped = True

    def confirm(self) -> None:
        """A model is at work; called in each step that is watched in full."""
        self.at_work = True
        if not self._trials:
            return
        for watched in self._trials:
            watched.confirm()
        self._trials = [each for each in self._trials if each.state == Watched.TRIAL]

    def script_loaded(self) -> None:
        """The script's text can be read, and voirfiles have said what they want."""
        self._loaded = True
        self._wanted |= self._ov.shows("loader")
        if not self._wanted:
            self._wanted = self.in_vain = self._may_learn()
        self._foresee()

    def known(self, code: CodeType) -> bool:
        """A loader is given whose code this is; whether it is watched from its first batch on."""
        watched = self._told.get(kind_of(code))
        if watched is None or watched.state == Watched.DROPPED:
            return False
        watched.state = Watched.LOADER
        self.add(watched.name)
        if watched.names is not None:
            watched.names.all_alike()
        return True

    def answers(self, code: CodeType) -> bool:
        """A loader is given whose ``__next__`` this is; whether that is watched as a loader's."""
        watched = self._told.get(kind_of(code))
        if watched is not None and watched.state != Watched.LOADER:
            watched.state = Watched.DROPPED
            for undo in watched.undo:
                undo()
        return watched is not None and watched.state == Watched.LOADER

    def add(self, name: Hashable) -> None:
        """A loader of this name is given; of very many the last are remembered."""
        self.in_vain = False
        if len(self.given) >= GIVEN:
            self.given.clear()
        self.given.add(name)

    def watch(self, generator: GeneratorType[Any, Any, Any]) -> bool:
        """A loader is this one; whether it is watched, and not only later ones like it."""
        code = generator.gi_code
        if self.known(code):
            own, frame = code.co_varnames[:1], generator.gi_frame
            if self._told[kind_of(code)].names is None and frame is not None:
                self.add(id(frame.f_locals.get(own[0])))  # It is an object's, and has its name.
            return True
        if len(self._told) < KINDS and code.co_name != EXPRESSION:
            kind = kind_of(code)
            watched = self._told[kind] = self._watched(kind, Watched.LOADER)
            self.add(kind)
            markers = yielding(watched, Names(kind, kind[1:]))
            for function in gc.get_referrers(code):
                if isinstance(function, FunctionType):
                    self._place("code", markers, {"code": function})
        return False

    def _may_learn(self) -> bool:
        """Whether the script has yet to import PyTorch, and may do that."""
        program = self._ov.program
        if not self._hoped or program is None or program.file is None:
            return False
        return may_learn(program.file)

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
            found = feeds(program.file, self._ov.shows("loader"), self._probed())
        except (VoirError, RecursionError):
            found = []  # It is no text that could be read.
        for feed in found[:KINDS]:
            # A __next__ that is given can be watched then.
            if not feed.unsure and (feed.learns or not feed.answers):
                self._watch(feed)
        self._doubt([feed.reference for feed in found if feed.unsure])
        self._ov.charge(self._ov.clock.cpu_ns() - begun)

    def _probed(self) -> list[str]:
        """The code that voirfiles have steps shown by, as selectors name it."""
        if not self._asked_for or not any(map(self._ov.shows, STEPS)):
            return []
        selectors = [str(verdict["selector"]) for verdict in self._ov.probes.verdicts()]
        shown = (each for each in selectors if not STEPS.isdisjoint(re.findall(r"\w+", each)))
        return [found[1] for each in shown if (found := re.match(r"\s*(//?[\w./]*)", each))]

    def _doubt(self, references: list[str]) -> None:
        """Say that nothing tells which generator is the loader."""
        if self._asked_for and references:
            names = f"{', '.join(references[:-1])} and {references[-1]}"
            what = f"loops go over {names}, and no name tells which of them training goes over"
            self._ov.report(Problem("unwatched-loader", "generators", what, remedy=REMEDY))

    def _watch(self, feed: Feed) -> None:
        state = Watched.IDLE
        if feed.learns:
            state = Watched.LOADER if self._asked_for else Watched.TRIAL
        kind, own = feed.kinds[0], feed.own
        watched = self._watched(kind, state)
        if state == Watched.TRIAL:
            if not self._trials:
                self._hear_loaders()
            self._trials.append(watched)
        for each in feed.kinds:
            self._told.setdefault(each, watched)
        where = f"{feed.reference}({own} as self)" if own else feed.reference
        if feed.answers:
            anew = None if feed.anew is None else "{}({} as self)".format(*feed.anew)
            if state == Watched.LOADER:
                self._answers(where, anew)
                return
            markers, begins = answering(watched)
            watched.undo = self._place(where, markers, {})
            watched.undo += self._place(anew, begins, {}) if anew is not None else []
            return
        watched.names = None if own else Names(kind, kind[1:])
        markers = yielding(watched, watched.names)
        if watched.names is not None and feed.over:
            begins = {"#enter": going_over(watched, watched.names, feed.hands_on)}
            given = (f"{name} as {OVER}{at}" for at, name in enumerate(feed.over))
            watched.undo += self._place(f"{where}({', '.join(given)})", begins, {})
            markers = {marker: heard for marker, heard in markers.items() if marker not in begins}
        watched.undo += self._place(where, markers, {})

    def _watched(self, name: Hashable, state: int) -> Watched:
        return Watched(name, self._audience, self._ov.clock.now_ns, state, self._within)

    def _hear_loaders(self) -> None:
        """Note which loaders a generator waits for that only the model is told of."""
        self._audience.begins.append(self._within.begins)
        self._audience.ends.append(self._within.ends)


def kind_of(code: CodeType) -> Kind:
    """Which function code is of."""
    return os.path.abspath(code.co_filename), code.co_firstlineno, code.co_name


def yielding(watched: Watched, names: Names | None) -> Markers:
    """What listens to a generator function: from when it is asked until it yields or ends.

    Args:
        watched: The function.
        names: Names its generators; None: it is a method, and they have the object's name.
    """

    def begins(event: dict[str, Any]) -> None:
        watched.begins(id(event["self"]) if names is None else names.begins())

    def asked(event: dict[str, Any]) -> None:
        watched.asked(id(event["self"]) if names is None else names.asked())

    def answered(event: dict[str, Any]) -> None:
        name = id(event["self"]) if names is None else names.answered()
        watched.answered(name, event["batch"])

    def over(event: dict[str, Any]) -> None:
        watched.over(id(event["self"]) if names is None else names.over())

    return {"#enter": begins, "#receive": asked, "#yield as batch": answered, "#exit": over}


def going_over(
    watched: Watched, names: Names, hands_on: bool
) -> Callable[[dict[str, Any]], object]:
    """What listens to a generator function's beginning, with the variables that it goes over.

    Args:
        watched: The function.
        names: Names its generators: those over different loaders are different.
        hands_on: It does nothing with what they give, so that there is no wait but for these.
    """

    def begins(event: dict[str, Any]) -> None:
        over = [value for key, value in event.items() if key.startswith(OVER)]
        if hands_on and over and all(map(_is_loader, over)):
            watched.begins(names.begins(HANDED))
        else:
            loaders = tuple(name for value in over for name in _loaders(value))
            watched.begins(names.begins(loaders))

    return begins


def _is_loader(value: object) -> bool:
    """Whether this is a DataLoader that gives its batches as they come, or an iterator of one."""
    own = getattr(type(value), "__iter__", None)
    return is_torchs(value) and getattr(own, "__module__", None) == TORCH


def is_torchs(value: object) -> bool:
    """Whether this is of a class of PyTorch's DataLoader's module, or of one made from such."""
    return any(base.__module__ == TORCH for base in type(value).__mro__)


def _loaders(value: object) -> Iterator[Hashable]:
    """The names of the DataLoaders that something is, or has as its attributes."""
    from overseer.measure.waiting import name_of

    held = getattr(value, "__dict__", None)
    if is_torchs(value):
        yield name_of(value)
    elif isinstance(held, dict):
        yield from (name_of(each) for each in tuple(held.values()) if is_torchs(each))


def answering(watched: Watched) -> tuple[Markers, Markers]:
    """What listens to a ``__next__`` on trial; and what to the ``__iter__`` with it."""
    from overseer.measure.waiting import name_of

    def asked(event: dict[str, Any]) -> None:
        watched.asked(name_of(event["self"]))

    def answered(event: dict[str, Any]) -> None:
        watched.answered(name_of(event["self"]), event["batch"])

    def over(event: dict[str, Any]) -> None:
        watched.over(name_of(event["self"]))

    def begins(event: dict[str, Any]) -> None:
        watched.begins(name_of(event["self"]))

    answers = {"#enter": asked, "#value as batch": answered, "#error as error": over}
    return answers, {"#enter": begins}
