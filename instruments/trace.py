"""``--trace``: a timeline of the run, and ``voir.profile`` for parts of it."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

from overseer import Overseer
from overseer.errors import Problem
from overseer.profiling import profiling_by

from .timeline.options import add_options
from .timeline.settings import Settings, around_parts, settings_of, switched_off, window_of

if TYPE_CHECKING:
    from .timeline.session import Session


#: Options that mean nothing unless the run is traced, and those that also mean something to a
#: script that has parts of itself traced.
OF_RUNS = (
    "trace_duration", "trace_steps", "trace_every", "trace_rank", "trace_level",
    "profile_steps", "profile_skip", "profile_every", "profile_rank",
)  # fmt: skip
BESIDE = ("trace_dir", "trace_channels", "trace_max_mb", "trace_modules", "trace_ring")


def instrument_trace(ov: Overseer) -> Generator[Any, Any, None]:
    """Write ``trace.pftrace`` when the options or the script ask for it."""
    begun = ov.clock.now_ns()
    yield ov.phases.init
    add_options(ov.argparser)
    initialized = ov.clock.now_ns()
    yield ov.phases.parse_args
    tracer = _Tracer(ov)
    settings = settings_of(ov.options)
    tracer.complain(OF_RUNS)
    session = tracer.begin(settings) if settings is not None and tracer.is_rank(settings) else None
    if session is not None:
        session.phases.happened("init", begun, initialized)
        session.phases.happened("parse_args", initialized, ov.clock.now_ns())
        session.phases.begin("load_script")
    profiling = nullcontext() if switched_off(ov.options) else profiling_by(tracer.profile)
    try:
        with profiling:
            yield from _watch(ov, tracer)
        yield ov.phases.finalize(priority=-100)  # What others record at the end is kept.
    finally:
        tracer.close()


def _watch(ov: Overseer, tracer: _Tracer) -> Generator[Any, Any, None]:
    """Tell the tracer of phases until the script has ended, and how it did."""
    try:
        yield ov.phases.load_script(priority=-100)  # Last before the script goes on.
        tracer.phase("run_script")
        yield ov.phases.run_script(priority=100)
    except GeneratorExit:
        raise
    except BaseException as error:
        tracer.failed(error)
    if ov.stopped_early:
        tracer.stopped(ov.stopped_early)
    tracer.phase("finalize")


class _Tracer:
    """The run's one session, made when it is first needed."""

    def __init__(self, ov: Overseer) -> None:
        self._ov = ov
        self._session: Session | None = None
        self._phase = ""

    def begin(self, settings: Settings) -> Session | None:
        """Trace from here on; ``None`` when there is nowhere to write."""
        from .timeline.session import Session

        with self._ov.undisturbed:  # Threads of the script may both be the first.
            if self._session is None:
                self._session = Session.start(self._ov, settings)
                if self._session is not None and self._phase:
                    self._session.phases.begin(self._phase)
        return self._session

    def is_rank(self, settings: Settings) -> bool:
        """Whether this process is of the rank that ``settings`` want, if they want one."""
        if settings.rank is None:
            return True
        assert self._ov.recording is not None
        known = self._ov.recording.directory.rank
        own, size = (known.rank, known.world_size) if known is not None else (0, 1)
        if size is not None and settings.rank >= size:
            what = f"there is no rank {settings.rank}: ranks are 0 to {size - 1}"
            remedy = "Name one that there is, or none: then all are traced."
            self._ov.report(Problem("trace-rank", "--trace-rank", what, remedy=remedy))
        return settings.rank == own

    def profile(
        self,
        level: str,
        ms_duration: float | None,
        steps: str | int | None,
        skip: int,
        every: int,
        rank: int | None,
    ) -> Callable[[], object]:
        """Trace a part of the script; returns what ends it."""
        from .timeline.settings import PARSERS

        seconds = ms_duration / 1000 if ms_duration is not None else None
        if isinstance(steps, str):
            window = PARSERS["steps"](steps)
        else:
            window = window_of(steps, skip, every)
        whole = window == (0, None)
        given = around_parts(self._ov.options)
        wanted = given._replace(
            level=PARSERS["level"](level),
            duration=seconds,
            steps=None if whole else window,
            every=PARSERS["every"](str(every)),
            rank=rank,
        )
        first = self._session is None
        chosen = wanted.level != "off" and self.is_rank(wanted)
        session = self.begin(given) if chosen else None
        if session is None:
            return lambda: None
        return session.profile(wanted, alone=first or session.only_profiles)

    def phase(self, name: str) -> None:
        """The run has come to the phase ``name``."""
        self._phase = name
        if self._session is not None:
            self._session.phases.begin(name)
            if name == "run_script":
                self._session.script_begins()

    def failed(self, error: BaseException) -> None:
        """What ended the script."""
        if self._session is not None:
            self._session.failed(error)

    def stopped(self, reason: str) -> None:
        """The script was stopped, as somebody asked."""
        if self._session is not None:
            self._session.mark("early stop", reason=reason)

    def close(self) -> None:
        """Write what is left."""
        if self._session is not None:
            self._session.close()
        else:
            self.complain(BESIDE)

    def complain(self, names: tuple[str, ...]) -> None:
        """Say so when the user has set options that come to nothing, for nothing is traced."""
        options, parser = self._ov.options, self._ov.argparser
        if switched_off(options) or settings_of(options) is not None:
            return
        idle = [name for name in names if name in parser.given]
        switch = "--profile" if idle and idle[0].startswith("profile") else "--trace"
        if idle:
            what = f"it does nothing without {switch}: there is no trace of this run"
            name = f"--{idle[0].replace('_', '-')}"
            remedy = f"Write {switch} {name} ..., or leave it out."
            self._ov.report(Problem("trace-unasked", name, what, remedy=remedy))
