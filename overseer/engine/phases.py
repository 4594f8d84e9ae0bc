"""Phases, and the scheduler: resumes instruments when the phase that they wait for has ended.

An instrument is a callable that takes the overseer. When it returns a generator, each ``yield``
names the phase whose end it waits for. Instruments waiting for the same phase resume in order of
priority (higher first), then in the order in which they were required.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator, Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import wraps
from itertools import chain, count

from ..boundary import (
    SWITCHED_OFF,
    OverseerAbort,
    StopProgram,
    acting,
    code_of,
    current,
    here,
    is_requested_stop,
    name_of,
    problem,
)
from ..clock import monotonic
from ..errors import InternalError, Problem, VoirError
from ..files import bounded

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any, NoReturn

    Instrument = Callable[..., Any]

#: How often in a row an instrument may ask for phases that have ended already.
MOST_AT_ONCE = 1000
#: What raising an exception changes of it; the last one because setting the cause sets it.
_LINKS = ("__traceback__", "__cause__", "__context__", "__suppress_context__")


class Phase:
    """One stage of a run; ``value`` or ``exception`` tell how it ended.

    Attributes:
        name: For example ``run_script``.
        status: ``pending``, ``running`` (its instruments are being resumed) or ``done``; each is
            also an attribute, whether it is that.
        value: What the phase produced; for ``run_script`` the script's value.
        exception: What ended it, or ``None``.
    """

    def __init__(self, name: str, status: str = "pending") -> None:
        self.name = name
        self.status = status
        self.value: object = None
        self.exception: BaseException | None = None

    def __call__(self, priority: float = 0) -> PhaseWithPriority:
        """Wait for this phase with a priority: higher is resumed first.

        Raises:
            TypeError: The priority is not a number.
        """
        if not isinstance(priority, (int, float)) or math.isnan(priority):
            raise TypeError(f"the priority of {self.name} must be a number, not {priority!r}")
        return PhaseWithPriority(self, priority)

    def __repr__(self) -> str:
        return f"<phase {self.name}: {self.status}>"

    pending = property(lambda self: self.status == "pending")
    running = property(lambda self: self.status == "running")
    done = property(lambda self: self.status == "done")


class PhaseWithPriority:
    """A phase to wait for, and how early among those who wait to be resumed."""

    def __init__(self, phase: Phase, priority: float) -> None:
        self.phase = phase
        self.priority = priority

    def __repr__(self) -> str:
        return f"{self.phase!r}(priority={self.priority})"


class PhaseSequence:
    """The phases of a run in order, each also an attribute; ``IMMEDIATE`` never waits.

    Args:
        names: Phases to make.
        phases: Phases that are there already, by name; they come after those.
    """

    def __init__(self, names: Iterable[str] = (), **phases: Phase) -> None:
        self._boot = Phase("_boot", status="done")
        self.IMMEDIATE = self._boot(0)
        self._sequence = [*map(Phase, names), *phases.values()]
        self.__dict__.update({phase.name: phase for phase in self._sequence})

    def __getattr__(self, name: str) -> Any:
        known = ", ".join(phase.name for phase in vars(self).get("_sequence", ()))
        raise AttributeError(f"there is no phase {name!r}; the phases are {known}")

    def __iter__(self) -> Iterator[Phase]:
        return iter(self._sequence)


class Misuse(VoirError):
    """An instrument is not written as instruments are.

    Attributes:
        place: ``file:line`` of the fault; None: where the instrument is defined.
    """

    def __init__(self, slug: str, what: str, remedy: str, place: str | None = None) -> None:
        super().__init__(slug, what, remedy)
        self.place = place


def instrument_definition(fn: Callable[..., Any]) -> Callable[..., Instrument]:
    """Turn ``fn(ov, *args, **kwargs)`` into a factory: ``fn(*args, **kwargs)`` is an instrument."""

    @wraps(fn)
    def make(*args: Any, **kwargs: Any) -> Instrument:
        @wraps(fn)
        def instrument(ov: Any) -> Any:
            return fn(ov, *args, **kwargs)

        instrument.__made_at__ = here()  # type: ignore[attr-defined]
        return instrument

    return make


#: The code that every such factory runs, whatever it has been made of.
_MAKES = getattr(instrument_definition(callable), "__code__", None)


def makes_instruments(value: object) -> bool:
    """Whether ``value`` is such a factory: it is none itself, but would take the overseer."""
    return getattr(value, "__code__", None) is _MAKES


def uncalled(name: str) -> str:
    """What to write in place of the bare ``name`` of such a factory."""
    return f"Write {name}(...): its parentheses are missing, with arguments or without."


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
        kwargs: The same by name.

    Attributes:
        phases: The phases, to be yielded by instruments.
        states: What became of each instrument, by the name that it goes by.
        busy: The instrument that is at work, and since when; None: none.
    """

    def __init__(
        self,
        phase_names: Iterable[str],
        *,
        args: Iterable[object] = (),
        kwargs: Mapping[str, object] | None = None,
    ) -> None:
        self.phases = PhaseSequence(phase_names)
        self._args, self._kwargs = args, kwargs or {}
        self.busy: tuple[str, float] | None = None
        self._order = count()
        everyone = (self.phases._boot, *self.phases)
        self._heaps: dict[Phase, list[tuple[float, int, _Waiting]]] = {p: [] for p in everyone}
        # Unhashable instruments are told apart by their ids, and must not die before the run.
        self._required: dict[object, Instrument] = {}
        self.states: dict[str, dict[str, object]] = {}

    # Starting instruments

    def require(self, *instruments: Instrument) -> Any:
        """Start instruments, each once; the state of the only one, or a list of states.

        An instrument runs at once up to the first phase that has not ended. Its state is its
        ``__state__``; itself, if it has none.
        """
        states = [self._require(instrument) for instrument in instruments]
        return states[0] if len(states) == 1 else states

    def _require(self, instrument: Instrument) -> object:
        key: object = instrument
        try:
            hash(instrument)
        except Exception:
            key = "unhashable", id(instrument)
        if key not in self._required:
            self._required[key] = instrument
            self._start(instrument)
        return getattr(instrument, "__state__", instrument)

    def _start(self, instrument: Instrument) -> None:
        who, requirer = self._register(instrument), current()
        result = self._guard(who, lambda: self._call(instrument, requirer))
        if isinstance(result, Generator):
            self._resume(_Waiting(who, result, next(self._order)), self.phases._boot)

    def _register(self, instrument: Instrument) -> str:
        name = name_of(instrument)
        names = chain([name], (f"{name}#{number}" for number in count(2)))
        who = next(each for each in names if each not in self.states)
        entry: dict[str, object] = {"name": who, "state": "ok"}
        if (made := getattr(instrument, "__made_at__", None)) is not None:
            entry["where"] = made
        elif (code := code_of(instrument)) is not None:
            entry["where"] = f"{code.co_filename}:{code.co_firstlineno}"
        self.states[who] = entry
        return who

    def _call(self, instrument: Instrument, requirer: str | None) -> object:
        if makes_instruments(instrument):
            what = "it is no instrument: it makes one when it is called"
            place = here() if requirer is not None else None
            raise Misuse("not-an-instrument", what, uncalled(name_of(instrument)), place)
        result = instrument(*self._args, **self._kwargs)
        if isinstance(result, (Coroutine, AsyncGenerator)):
            if isinstance(result, Coroutine):
                result.close()
            what = "it is an async function, and nothing here would await it"
            remedy = f"Write 'def' where it has 'async def'. {SWITCHED_OFF}"
            raise Misuse("async-instrument", what, remedy)
        if isinstance(result, (Phase, PhaseWithPriority)):
            phase = result if isinstance(result, Phase) else result.phase
            what = f"it returned the phase {phase.name}, and is over: it did not wait for it"
            raise Misuse("not-a-phase", what, "Write 'yield' where it has 'return'.")
        return result

    # Resuming them

    def _resume(self, waiting: _Waiting, phase: Phase) -> None:
        with bounded():  # What it imports python may write, compiled.
            wanted = self._guard(waiting.who, lambda: self._advance(waiting, phase))
        if isinstance(wanted, PhaseWithPriority):
            waiting.priority = wanted.priority
            entry = (-wanted.priority, waiting.order, waiting)
            heapq.heappush(self._heaps[wanted.phase], entry)

    def _advance(self, waiting: _Waiting, ended: Phase) -> PhaseWithPriority | None:
        """Step the generator until it waits for a phase that has not ended for it."""
        wanted = self._step(waiting.generator, ended)
        # A phase whose instruments are being resumed may be waited for again, but only further
        # back in the queue: anything else would go round for ever.
        for _ in range(MOST_AT_ONCE):
            if wanted is None or not (
                wanted.phase.done or (wanted.phase is ended and wanted.priority >= waiting.priority)
            ):
                return wanted
            wanted = self._step(waiting.generator, wanted.phase)
        often = f"it asked {MOST_AT_ONCE} times in a row"
        what = f"{often} for phases that have ended, such as {wanted}"
        raise Misuse("stuck", what, f"It would have gone on for ever. {SWITCHED_OFF}")

    def _step(self, generator: Generator[Any, Any, Any], ended: Phase) -> PhaseWithPriority | None:
        try:
            if ended.exception is None:
                wanted = generator.send(ended.value)
            else:
                wanted = _throw(generator, ended.exception)
        except StopIteration:
            return None
        if isinstance(wanted, Phase):
            wanted = wanted(0)
        if isinstance(wanted, PhaseWithPriority) and wanted.phase in self._heaps:
            return wanted
        place = _line(generator)
        with suppress(Exception):  # That it fails to clean up too is not worth another report.
            generator.close()
        foreign = isinstance(wanted, PhaseWithPriority)
        fault = "a phase of another overseer" if foreign else "not a phase"
        names = ", ".join(f"ov.phases.{phase.name}" for phase in self.phases)
        what = f"it yielded {wanted!r:.80}, which is {fault}"
        raise Misuse("not-a-phase", what, f"Yield one of {names}. {SWITCHED_OFF}", place)

    def _guard(self, who: str, call: Callable[[], object]) -> object:
        """Call on behalf of ``who``; a failure is reported."""
        before, self.busy = self.busy, (who, monotonic())
        try:
            with acting(who):
                return call()
        except BaseException as error:
            if is_requested_stop(error):
                raise
            self._failing(who, error)
            return None
        finally:
            self.busy = before

    def _failing(self, who: str, error: BaseException) -> None:
        """What to do about ``error``, which the instrument ``who`` ended by."""
        near: Any = getattr(error, "place", None) or self.states[who].get("where")
        self.report(problem("instrument", who, error, near=near))

    def report(self, problem: Problem) -> None:
        """Note what is wrong; if it is with an instrument, that this has failed."""
        entry = self.states.get(problem.who)
        if entry is not None:
            entry.update(state="failed", error=problem.what)
            if problem.where:
                entry.setdefault("failed_at", problem.where)

    # Ending phases, or all of the run

    def stop(self, value: object = None) -> NoReturn:
        """End the run here, in good order."""
        raise StopProgram(value)

    def abort(self, exc: BaseException) -> NoReturn:
        """Fail the run with ``exc``, as if the script had raised it."""
        raise OverseerAbort(exc)

    @contextmanager
    def run_phase(self, phase: Phase) -> Iterator[Callable[[object], None]]:
        """The body is the phase: when it has run, those who wait for the phase are resumed.

        What the block gets is called with the value of the phase, if it has one. What the body
        raises ends the phase, and is raised again when everybody has been told.
        """
        values: list[object] = [None]
        error: BaseException | None = None
        try:
            yield values.append
        except BaseException as caught:
            error = caught
        self.end(phase, values[-1], error)
        if error is not None:
            raise error

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
        try:
            _each(self._heaps[phase], lambda waiting: self._resume(waiting, phase))
        finally:
            phase.status = "done"

    def close(self) -> None:
        """Close instruments that wait for a phase that will not come.

        Raises:
            BaseException: What an instrument asked for while it was closed.
        """
        waiting = sorted(chain(*self._heaps.values()))
        _each(waiting, lambda w: self._guard(w.who, w.generator.close))


def _each(heap: list[tuple[float, int, _Waiting]], act: Callable[[_Waiting], object]) -> None:
    """Act on all who wait; the first requested is raised when all have been seen to.

    An instrument may meanwhile require others that wait for the same phase.
    """
    requested: BaseException | None = None
    while heap:
        try:
            act(heapq.heappop(heap)[2])
        except BaseException as error:
            requested = requested or error
    if requested is not None:
        raise requested


def _throw(generator: Generator[Any, Any, Any], thrown: BaseException) -> object:
    """What the generator yields when ``thrown`` is raised in it.

    That it lets it through is not its failure: it did not want to know how the script ended.

    Raises:
        StopIteration: It has ended.
    """
    kept = [getattr(thrown, name) for name in _LINKS]
    try:
        return generator.throw(thrown)
    except BaseException as error:
        # A StopIteration cannot leave a generator but as the cause of a RuntimeError.
        wrapped = isinstance(thrown, StopIteration) and error.__cause__ is thrown
        if error is not thrown and not wrapped:
            raise
    finally:  # Its traceback is the script's, for the user to see.
        for name, value in zip(_LINKS, kept, strict=True):
            setattr(thrown, name, value)
    raise StopIteration


def _line(generator: Any) -> str | None:
    """``file:line`` of the ``yield`` that the generator, or one it delegates to, stands at."""
    place = None
    while (frame := getattr(generator, "gi_frame", None)) is not None:
        place = f"{frame.f_code.co_filename}:{frame.f_lineno}"
        generator = generator.gi_yieldfrom
    return place
