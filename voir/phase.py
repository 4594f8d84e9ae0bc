"""Phases, and base classes for custom runners.

A subclass of :class:`BaseOverseer` names its phases, and runs them in ``_run``::

    class Pipeline(BaseOverseer):
        def __init__(self):
            super().__init__(["read", "work"], args=(self,))

        def _run(self, source):
            with self.run_phase(self.phases.read) as set_value:
                set_value(source.read())
            with self.run_phase(self.phases.work):
                ...
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack

from overseer.boundary import OverseerAbort, StopProgram
from overseer.engine.bus import Bus
from overseer.engine.overseer import Overseer
from overseer.engine.phases import Phase, PhaseSequence, PhaseWithPriority, Scheduler
from overseer.errors import Problem, VoirError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from overseer.engine.phases import Instrument

__all__ = [
    "BaseOverseer",
    "GivenOverseer",
    "OverseerAbort",
    "Phase",
    "PhaseSequence",
    "PhaseWithPriority",
    "StopProgram",
]


class BaseOverseer(Scheduler):
    """Takes instruments through phases; call it to run.

    Instruments required before the run start with it. An instrument's exception goes to
    ``_on_instrument_error``; the others go on.

    Args:
        phase_names: In the order in which ``_run`` will run them.
        args: Positional arguments for instruments.
        kwargs: Keyword arguments for instruments.

    Attributes:
        status: ``init``, ``running``, ``stopped`` (by ``stop``) or ``done``.
    """

    def __init__(
        self,
        phase_names: Sequence[str],
        args: Sequence[object] = (),
        kwargs: Mapping[str, object] | None = None,
    ) -> None:
        super().__init__(phase_names, args=args, kwargs=kwargs)
        self.status = "init"
        self._to_require: list[Instrument] = []

    def _require(self, instrument: Instrument) -> object:
        if self.status != "init":
            return super()._require(instrument)
        self._to_require.append(instrument)
        return getattr(instrument, "__state__", instrument)

    def __call__(self, *args: Any, **kwargs: Any) -> None:
        """Run; the arguments are those of ``_run``.

        Raises:
            BaseException: The exception of ``_run``, or the one an instrument aborted with.
        """
        if self.status != "init":
            raise VoirError(
                "run-twice",
                "Can only enter runner when it has not run before; "
                f"this one's status is {self.status!r}",
                f"Make another {type(self).__name__} for another run.",
            )
        try:
            self._prepare()
            self._run(*args, **kwargs)
            self.status = "done"
        except StopProgram as stop:
            self._on_stop(*stop.args)
        except OverseerAbort as abort:
            self._on_error(abort.args[0])
            raise abort.args[0] from None
        except BaseException as error:
            self._on_error(error)
            raise
        finally:
            self._finish()
            self.close()

    # Overridden by subclasses

    def _run(self, *args: Any, **kwargs: Any) -> None:
        """Run the phases."""

    def _prepare(self) -> None:
        """Start the instruments that were required before the run."""
        self.status = "running"
        self.require(*self._to_require)

    def _on_instrument_error(self, e: BaseException) -> None:
        """Handle an instrument's exception; the instrument is disabled."""

    def _on_error(self, exc: BaseException) -> None:
        """Handle the exception that ends the run."""

    def _on_stop(self, value: object = None) -> None:
        """Handle a stop: resume the instruments that still wait for a phase."""
        self.status = "stopped"
        for phase in self.phases:
            if phase.pending:
                self.end(phase, exception=StopProgram(value))

    def _finish(self) -> None:
        """Clean up after the run, however it ended."""

    # Failures

    def _failing(self, who: str, error: BaseException) -> None:
        self.states[who]["state"] = "failed"
        self._on_instrument_error(error)

    def report(self, problem: Problem) -> None:
        """Handle a subscriber's failure."""
        super().report(problem)
        self._on_instrument_error(VoirError(problem.slug, problem.what, problem.remedy))


class GivenOverseer(BaseOverseer):
    """A runner with a stream of events: ``given``, and ``give`` from any thread.

    Args:
        args: As in :class:`BaseOverseer`.
        kwargs: As in :class:`BaseOverseer`.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.bus, self._given = Bus(self.report), None
        self._connection = ExitStack()

    given, give, queue = Overseer.given, Overseer.give, Overseer.queue

    def _prepare(self) -> None:
        from overseer.engine.operators import connected

        self._connection.enter_context(connected(self.bus))
        super()._prepare()

    def _finish(self) -> None:
        self.bus.complete()
        self._connection.close()
        self.bus.clear()
        super()._finish()
