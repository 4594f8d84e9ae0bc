"""``--trace``: a timeline of the run, and ``voir.profile`` for parts of it."""

from __future__ import annotations

from types import WrapperDescriptorType

from overseer.errors import Problem, UsageError

from .trace_options import BESIDE, OF_RUNS, Settings, add_options, expanded, level_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Generator
    from typing import Any

    from overseer import Overseer

    from .tracing import Session

#: Types of which no script changes how they are shown.
_PLAIN = (str, int, float, bool, type(None))


def _meant(error: BaseException) -> bool:
    """Whether it is an exit without an error; the script's own code is not asked."""
    if not isinstance(error, SystemExit):
        return False
    code = vars(SystemExit)["code"].__get__(error)
    return code is None or (type(code) in (int, bool) and not code)


def _message(error: BaseException) -> str:
    """An error's text, unless the script's own code computes it."""
    arguments = vars(BaseException)["args"].__get__(error)
    builtin = isinstance(type(error).__str__, WrapperDescriptorType)
    return str(error) if builtin and all(type(one) in _PLAIN for one in arguments) else ""


def instrument_trace(ov: Overseer) -> Generator[Any, Any, None]:
    """Keep the log of a run and make ``trace.pftrace`` of it, if options or the script ask so."""
    begun = ov.clock.now_ns()
    yield ov.phases.init
    try:
        ov.argparser.environ = expanded(ov.argparser.environ)
    except UsageError as error:
        ov.abort(error)
    add_options(ov.argparser)
    initialized = ov.clock.now_ns()
    yield ov.phases.parse_args
    tracer = _Tracer(ov)
    tracer.complain(OF_RUNS)
    if Settings.wanted(ov.options) and tracer.is_rank(Settings(ov.options).rank):
        session = tracer.begin(False)
        if session is not None:
            session.span("phases", "init", begun, initialized)
            session.span("phases", "parse_args", initialized, ov.clock.now_ns())
            tracer.phase("load_script")
    try:
        if not Settings.refused(ov.options):
            ov.profilers.append(tracer.profile)
        yield from _watch(ov, tracer)
        ov.profilers.clear()
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
        tracer.mark("early stop", reason=ov.stopped_early)
    tracer.phase("finalize")


class _Tracer:
    """The run's one session, made when it is first needed."""

    def __init__(self, ov: Overseer) -> None:
        self._ov = ov
        self._session: Session | None = None
        self._phase = ("", 0)

    def begin(self, parts: bool) -> Session | None:
        """Keep a log from here on; ``None`` when there is nowhere to write.

        Args:
            parts: Whether only parts of the script are traced.
        """
        from .tracing import Session

        with self._ov.bus.lock:  # Threads of the script may both be the first.
            if self._session is None:
                self._session = Session.start(self._ov, Settings(self._ov.options), parts)
        return self._session

    def is_rank(self, rank: int | None) -> bool:
        """Whether this process is of that rank, if one is wanted."""
        if rank is None:
            return True
        assert self._ov.recording is not None
        known = self._ov.recording.directory.rank
        own, size = (known.rank, known.world_size) if known is not None else (0, 1)
        if size is not None and rank >= size:
            what = f"there is no rank {rank}: ranks are 0 to {size - 1}"
            remedy = "Name one that there is, or none: then all are traced."
            self._ov.report(Problem("trace-rank", "--trace-rank", what, remedy=remedy))
        return rank == own

    def profile(self, level: str, ms_duration: float | None) -> Callable[[], object]:
        """Trace a part of the script; returns what ends it."""
        session = self.begin(True) if level_of(level) != "off" else None
        if session is None:
            return lambda: None
        return session.part(level, ms_duration and ms_duration / 1e3)

    def phase(self, name: str) -> None:
        """The run has come to the phase ``name``."""
        now = self._ov.clock.now_ns()
        if self._session is not None:
            if self._phase[0]:
                self._session.span("phases", *self._phase, now)
            if name == "run_script":
                self._session.script_begins()
        self._phase = name, now

    def failed(self, error: BaseException) -> None:
        """What ended the script, if that was an error."""
        from overseer import StopProgram

        if self._session is None or isinstance(error, StopProgram):
            return
        if not _meant(error):
            self.mark("error", type=type(error).__name__, message=_message(error))

    def mark(self, label: str, **arguments: str) -> None:
        """Mark this moment of the run."""
        if self._session is not None:
            from overseer.trace import channel

            channel("voir", always=True).instant(label, **arguments)

    def close(self) -> None:
        """Make the trace."""
        if self._session is not None:
            self.phase("")
            self._session.close()
        else:
            self.complain(BESIDE)

    def complain(self, names: tuple[str, ...]) -> None:
        """Say so when the user has set options that come to nothing, for nothing is traced."""
        options, parser = self._ov.options, self._ov.argparser
        if Settings.refused(options) or Settings.wanted(options):
            return
        idle = [name for name in names if name in parser.given]
        switch = "--profile" if idle and idle[0].startswith("profile") else "--trace"
        if idle:
            what = f"it does nothing without {switch}: there is no trace of this run"
            name = f"--{idle[0].replace('_', '-')}"
            remedy = f"Write {switch} {name} ..., or leave it out."
            self._ov.report(Problem("trace-unasked", name, what, remedy=remedy))
