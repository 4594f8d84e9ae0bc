"""Phases, priorities, and the scheduler that resumes instruments when a phase has ended.

An instrument is a callable that takes the overseer. When it returns a generator, each ``yield``
names the phase whose end it waits for. Instruments waiting for the same phase resume in order of
priority (higher first), then in the order in which they were required.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Generator, Iterator
from itertools import count
from types import GeneratorType
from typing import Any

from .boundary import SWITCHED_OFF, Report, acting, asked_for, name_of, problem
from .deadline import Deadline
from .errors import InternalError, Problem, VoirError

Instrument = Callable[..., Any]


class Phase:
    """One stage of a run; ``value`` or ``exception`` tell how it ended.

    Attributes:
        name: For example ``run_script``.
        status: ``pending``, ``running`` (its instruments are being resumed) or ``done``.
        value: What the phase produced; for ``run_script`` the script's value.
        exception: What ended it, or ``None``.
    """

    def __init__(self, name: str, status: str = "pending") -> None:
        self.name = name
        self.status = status
        self.value: object = None
        self.exception: BaseException | None = None

    def __call__(self, priority: float = 0) -> PhaseWithPriority:
        """Wait for this phase with a priority: higher is resumed first."""
        return PhaseWithPriority(self, priority)

    def __repr__(self) -> str:
        return f"<phase {self.name}: {self.status}>"

    @property
    def pending(self) -> bool:
        """Whether the phase has not ended yet."""
        return self.status == "pending"

    @property
    def running(self) -> bool:
        """Whether the instruments that wait for the phase are being resumed."""
        return self.status == "running"

    @property
    def done(self) -> bool:
        """Whether the phase has ended and everybody who waited has been resumed."""
        return self.status == "done"


class PhaseWithPriority:
    """A phase to wait for, and how early among those who wait to be resumed."""

    def __init__(self, phase: Phase, priority: float) -> None:
        self.phase = phase
        self.priority = priority


class PhaseSequence:
    """The phases of a run in order, each also an attribute; ``IMMEDIATE`` never waits."""

    def __init__(self, **phases: Phase) -> None:
        self._sequence = list(phases.values())
        self.__dict__.update(phases)

    def __getattr__(self, name: str) -> Any:
        known = ", ".join(p.name for p in self._sequence if not p.name.startswith("_"))
        raise AttributeError(f"there is no phase {name!r}; the phases are {known}")

    def __iter__(self) -> Iterator[Phase]:
        return iter(self._sequence)


class _Waiting:
    """An instrument's generator, between two of its phases."""

    def __init__(self, who: str, generator: Generator[Any, Any, Any], order: int) -> None:
        self.who = who
        self.generator = generator
        self.order = order
        self.priority: float = math.inf


class Scheduler:
    """Runs instruments through phases, and keeps their failures from each other.

    Args:
        phase_names: In the order in which they will be run.
        args: What instruments are called with; the overseer itself, usually.
        report: Called once for each failing instrument.
        deadline: Bounds the time that one instrument may keep everybody waiting.
    """

    def __init__(
        self,
        phase_names: list[str],
        *,
        args: tuple[object, ...] = (),
        report: Report,
        deadline: Deadline | None = None,
    ) -> None:
        boot = Phase("_boot", status="done")
        self.phases = PhaseSequence(_boot=boot, **{name: Phase(name) for name in phase_names})
        self.phases.IMMEDIATE = boot(0)
        self._args = args
        self._report = report
        self._deadline = deadline or Deadline(0)
        self._order = count()
        self._heaps: dict[Phase, list[tuple[float, int, _Waiting]]] = {p: [] for p in self.phases}
        self._required: dict[object, object] = {}
        self._keep: list[object] = []  # Unhashable instruments are told apart by their ids.
        self.states: dict[str, dict[str, object]] = {}

    def require(self, instrument: Instrument) -> object:
        """Start ``instrument`` unless it runs already; its state, or itself.

        The instrument runs at once up to the first phase that has not ended.
        """
        state: object = getattr(instrument, "__state__", instrument)
        key = self._key(instrument)
        if key in self._required:
            return state
        self._required[key] = instrument
        self._start(instrument)
        return state

    def _key(self, instrument: Instrument) -> object:
        try:
            hash(instrument)
        except TypeError:
            self._keep.append(instrument)
            return ("unhashable", id(instrument))
        return instrument

    def _start(self, instrument: Instrument) -> None:
        who = self._register(instrument)
        result = self._guard(who, lambda: instrument(*self._args))
        if isinstance(result, GeneratorType):
            waiting = _Waiting(who, result, next(self._order))
            self._resume(waiting, self.phases._boot)

    def _register(self, instrument: Instrument) -> str:
        name = who = name_of(instrument)
        for number in count(2):
            if who not in self.states:
                break
            who = f"{name}#{number}"
        entry: dict[str, object] = {"name": who, "state": "ok"}
        code = getattr(instrument, "__code__", None)
        code = code or getattr(type(instrument).__call__, "__code__", None)
        if code is not None:
            entry["where"] = f"{code.co_filename}:{code.co_firstlineno}"
        self.states[who] = entry
        return who

    def _resume(self, waiting: _Waiting, phase: Phase) -> None:
        wanted = self._guard(waiting.who, lambda: self._advance(waiting, phase), waiting.generator)
        if isinstance(wanted, PhaseWithPriority):
            waiting.priority = wanted.priority
            entry = (-wanted.priority, waiting.order, waiting)
            heapq.heappush(self._heaps[wanted.phase], entry)

    def _advance(self, waiting: _Waiting, ended: Phase) -> PhaseWithPriority | None:
        """Step the generator until it waits for a phase that has not ended for it."""
        wanted = self._step(waiting, ended)
        while wanted is not None and self._over(waiting, wanted, ended):
            wanted = self._step(waiting, wanted.phase)
        return wanted

    def _over(self, waiting: _Waiting, wanted: PhaseWithPriority, ended: Phase) -> bool:
        # A phase whose instruments are being resumed may be waited for again, but only further
        # back in the queue: anything else would go round for ever.
        again = wanted.phase is ended and wanted.priority >= waiting.priority
        return wanted.phase.done or again

    def _step(self, waiting: _Waiting, ended: Phase) -> PhaseWithPriority | None:
        generator, thrown = waiting.generator, ended.exception
        try:
            if thrown is None:
                wanted = generator.send(ended.value)
            else:
                wanted = generator.throw(thrown)
        except StopIteration:
            return None
        except BaseException as error:
            if error is thrown:
                return None  # It did not want to know; the script's ending is not its failure.
            raise
        return self._check(waiting, wanted)

    def _check(self, waiting: _Waiting, wanted: object) -> PhaseWithPriority:
        if isinstance(wanted, Phase):
            wanted = wanted(0)
        if isinstance(wanted, PhaseWithPriority) and wanted.phase in self._heaps:
            return wanted
        frame = waiting.generator.gi_frame  # type: ignore[attr-defined]
        line = f", line {frame.f_lineno}" if frame is not None else ""
        waiting.generator.close()
        names = ", ".join(f"ov.phases.{p.name}" for p in self.phases if p.name != "_boot")
        raise VoirError(
            "not-a-phase",
            f"it yielded {wanted!r:.80}{line}, which is not a phase",
            f"Yield one of {names}. {SWITCHED_OFF}",
        )

    def _guard(
        self, who: str, call: Callable[[], object], generator: Generator[Any] | None = None
    ) -> object:
        try:
            with acting(who), self._deadline(who, generator):
                return call()
        except BaseException as error:
            if asked_for(error):
                raise
            self.failed(problem("instrument", who, error))
            return None

    def failed(self, trouble: Problem) -> None:
        """Mark the instrument ``trouble.who`` as failed and report it."""
        entry = self.states.setdefault(trouble.who, {"name": trouble.who})
        entry.update(state="failed", error=trouble.what)
        if trouble.where:
            entry["failed_at"] = trouble.where
        self._report(trouble)

    def end(
        self, phase: Phase, value: object = None, exception: BaseException | None = None
    ) -> None:
        """End ``phase``: resume, in order, every instrument that waits for it.

        Raises:
            BaseException: What an instrument asked for (stop, abort) while it was resumed; the
                instruments after it have been resumed all the same.
        """
        if not phase.pending:
            raise InternalError("phase-twice", f"the phase {phase.name} ended twice")
        phase.status, phase.value, phase.exception = "running", value, exception
        wish: BaseException | None = None
        heap = self._heaps[phase]
        while heap:  # A resumed instrument may require others that wait for the same phase.
            _, _, waiting = heapq.heappop(heap)
            try:
                self._resume(waiting, phase)
            except BaseException as error:
                wish = wish or error
        phase.status = "done"
        if wish is not None:
            raise wish

    def close(self) -> None:
        """Close instruments that wait for a phase that will not come."""
        for heap in self._heaps.values():
            while heap:
                _, _, waiting = heapq.heappop(heap)
                self._guard(waiting.who, waiting.generator.close, waiting.generator)
