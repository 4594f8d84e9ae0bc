"""Phases, and the scheduler that runs instruments through them.

An instrument is a callable that takes the overseer. If it returns a generator, each ``yield`` names
a phase, and the instrument resumes when that phase ends. Instruments that wait for the same phase
resume by priority (higher first), then in the order in which they were required.
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

#: Number of already ended phases that an instrument may yield in a row.
MOST_AT_ONCE = 1000
#: Attributes that raising an exception changes; the last one changes with the cause.
_LINKS = ("__traceback__", "__cause__", "__context__", "__suppress_context__")


class Phase:
    """One stage of a run; ``value`` or ``exception`` is its result.

    Attributes:
        name: For example ``run_script``.
        status: ``pending``, ``running`` (its instruments are being resumed) or ``done``. Each is
            also a boolean attribute.
        value: The value of the phase; for ``run_script`` the script's value.
        exception: The exception that ended it, or ``None``.
    """

    def __init__(self, name: str, status: str = "pending") -> None:
        self.name = name
        self.status = status
        self.value: object = None
        self.exception: BaseException | None = None

    def __call__(self, priority: float = 0) -> PhaseWithPriority:
        """Wait for this phase with a priority: a higher one is resumed earlier.

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
    """A phase to wait for, with the priority for being resumed."""

    def __init__(self, phase: Phase, priority: float) -> None:
        self.phase = phase
        self.priority = priority

    def __repr__(self) -> str:
        return f"{self.phase!r}(priority={self.priority})"


class PhaseSequence:
    """The phases of a run in order, each also an attribute; ``IMMEDIATE`` does not wait.

    Args:
        names: Names of phases to create.
        phases: Existing phases by name; they come after the created ones.
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
    """An instrument that breaks the rules for instruments.

    Attributes:
        place: ``file:line`` of the fault; None for the definition of the instrument.
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


#: The code that every such factory shares.
_MAKES = getattr(instrument_definition(callable), "__code__", None)


def makes_instruments(value: object) -> bool:
    """Test whether ``value`` is a factory of instruments, not an instrument."""
    return getattr(value, "__code__", None) is _MAKES


def uncalled(name: str) -> str:
    """The remedy for a factory that was not called."""
    return f"Write {name}(...): its parentheses are missing, with arguments or without."


class _Waiting:
    """An instrument's generator while it waits for a phase."""

    def __init__(self, who: str, generator: Generator[Any, Any, Any], order: int) -> None:
        self.who = who
        self.generator = generator
        self.order = order
        self.priority: float = math.inf


class Scheduler:
    """Runs instruments through phases, and isolates their failures.

    Args:
        phase_names: In the order in which they will be run.
        args: Positional arguments for instruments; usually the overseer.
        kwargs: Keyword arguments for instruments.

    Attributes:
        phases: The phases, for instruments to yield.
        states: The state of each instrument, by its name in messages.
        busy: The running instrument and its start time, if any.
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
        # Unhashable instruments are identified by their ids, so they must live as long as the run.
        self._required: dict[object, Instrument] = {}
        self.states: dict[str, dict[str, object]] = {}

    # Starting instruments

    def require(self, *instruments: Instrument) -> Any:
        """Start instruments, each once; return the only one's state, or a list of states.

        An instrument runs at once, up to the first phase that has not ended. Its state is its
        attribute ``__state__``, or else the instrument itself.
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
            what = "it is not an instrument: calling it makes one"
            place = here() if requirer is not None else None
            raise Misuse("not-an-instrument", what, uncalled(name_of(instrument)), place)
        result = instrument(*self._args, **self._kwargs)
        if isinstance(result, (Coroutine, AsyncGenerator)):
            if isinstance(result, Coroutine):
                result.close()
            what = "it is an async function, which voir does not await"
            remedy = f"Write 'def' where it has 'async def'. {SWITCHED_OFF}"
            raise Misuse("async-instrument", what, remedy)
        if isinstance(result, (Phase, PhaseWithPriority)):
            phase = result if isinstance(result, Phase) else result.phase
            what = f"it returned the phase {phase.name}, and ended without waiting for it"
            raise Misuse("not-a-phase", what, "Write 'yield' where it has 'return'.")
        return result

    # Resuming instruments

    def _resume(self, waiting: _Waiting, phase: Phase) -> None:
        with bounded():  # Imports write byte code.
            wanted = self._guard(waiting.who, lambda: self._advance(waiting, phase))
        if isinstance(wanted, PhaseWithPriority):
            waiting.priority = wanted.priority
            entry = (-wanted.priority, waiting.order, waiting)
            heapq.heappush(self._heaps[wanted.phase], entry)

    def _advance(self, waiting: _Waiting, ended: Phase) -> PhaseWithPriority | None:
        """Advance the generator until it waits for a phase that has not ended."""
        wanted = self._step(waiting.generator, ended)
        # It may wait again for the phase whose instruments are being resumed, but only with a lower
        # priority: otherwise it would loop for ever.
        for _ in range(MOST_AT_ONCE):
            if wanted is None or not (
                wanted.phase.done or (wanted.phase is ended and wanted.priority >= waiting.priority)
            ):
                return wanted
            wanted = self._step(waiting.generator, wanted.phase)
        often = f"it asked {MOST_AT_ONCE} times in a row"
        what = f"{often} for phases that have ended, such as {wanted}"
        raise Misuse("stuck", what, f"It would loop for ever. {SWITCHED_OFF}")

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
        with suppress(Exception):  # If its cleanup fails too, one report is enough.
            generator.close()
        foreign = isinstance(wanted, PhaseWithPriority)
        fault = "a phase of another overseer" if foreign else "not a phase"
        names = ", ".join(f"ov.phases.{phase.name}" for phase in self.phases)
        what = f"it yielded {wanted!r:.80}, which is {fault}"
        raise Misuse("not-a-phase", what, f"Yield one of {names}. {SWITCHED_OFF}", place)

    def _guard(self, who: str, call: Callable[[], object]) -> object:
        """Call on behalf of ``who``; report a failure."""
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
        """Report ``error``, which the instrument ``who`` raised."""
        near: Any = getattr(error, "place", None) or self.states[who].get("where")
        self.report(problem("instrument", who, error, near=near))

    def report(self, problem: Problem) -> None:
        """Record a problem; if its culprit is an instrument, mark that as failed."""
        entry = self.states.get(problem.who)
        if entry is not None:
            entry.update(state="failed", error=problem.what)
            if problem.where:
                entry.setdefault("failed_at", problem.where)

    # Ending phases and the run

    def stop(self, value: object = None) -> NoReturn:
        """End the run here, cleanly."""
        raise StopProgram(value)

    def abort(self, exc: BaseException) -> NoReturn:
        """Fail the run with ``exc``, as if the script had raised it."""
        raise OverseerAbort(exc)

    @contextmanager
    def run_phase(self, phase: Phase) -> Iterator[Callable[[object], None]]:
        """Run the block as the phase, then resume the instruments that wait for it.

        Call the object that ``with`` returns to set the phase's value. An exception in the block
        ends the phase, and is raised again after the instruments have been resumed.
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
        """End ``phase``: resume all instruments that wait for it, in order.

        Raises:
            BaseException: A stop or abort that an instrument requested while it was resumed; the
                instruments after it are still resumed.
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
            BaseException: A stop or abort that an instrument requested while it was closed.
        """
        waiting = sorted(chain(*self._heaps.values()))
        _each(waiting, lambda w: self._guard(w.who, w.generator.close))


def _each(heap: list[tuple[float, int, _Waiting]], act: Callable[[_Waiting], object]) -> None:
    """Call ``act`` for each waiting instrument; then raise the first stop that was requested.

    Meanwhile an instrument may require others that wait for the same phase.
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
    """Raise ``thrown`` in the generator; return what it yields.

    Letting the exception pass is not a failure: the instrument need not handle the script's end.

    Raises:
        StopIteration: The generator has ended.
    """
    kept = [getattr(thrown, name) for name in _LINKS]
    try:
        return generator.throw(thrown)
    except BaseException as error:
        # A StopIteration leaves a generator only as the cause of a RuntimeError.
        wrapped = isinstance(thrown, StopIteration) and error.__cause__ is thrown
        if error is not thrown and not wrapped:
            raise
    finally:  # Keep the script's traceback as it was, for the user.
        for name, value in zip(_LINKS, kept, strict=True):
            setattr(thrown, name, value)
    raise StopIteration


def _line(generator: Any) -> str | None:
    """``file:line`` of the current ``yield`` in the generator, or in one that it delegates to."""
    place = None
    while (frame := getattr(generator, "gi_frame", None)) is not None:
        place = f"{frame.f_code.co_filename}:{frame.f_lineno}"
        generator = generator.gi_yieldfrom
    return place
