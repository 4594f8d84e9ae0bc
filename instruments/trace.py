"""``--trace``: a timeline of the run, and ``voir.profile`` for parts of it."""

from __future__ import annotations

from argparse import BooleanOptionalAction
from types import WrapperDescriptorType

from overseer.engine.options import ranks_option
from overseer.errors import Problem, UsageError
from overseer.recorder.sites import WORD_TRACE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Callable, Generator
    from typing import Any

    from overseer import Overseer

    from .tracing import Session

LEVELS = ("off", "step", "module", "op")
#: Default size limit of the log in megabytes, and default number of steps for ``--profile``.
MAX_MB, PROFILE_STEPS = 256, 2
#: Options that need ``--trace``; those of ``BESIDE`` also apply to ``voir.profile`` blocks.
OF_RUNS = (
    "trace_duration", "trace_steps", "trace_every", "trace_rank", "trace_level",
    "profile_steps", "profile_rank",
)  # fmt: skip
BESIDE = ("trace_dir", "trace_channels", "trace_max_mb", "trace_modules", "trace_ring")
#: Types whose ``str()`` runs no code of the script.
_PLAIN = (str, int, float, bool, type(None))


def _is_clean_exit(error: BaseException) -> bool:
    """Whether the script exited with status 0; runs no code of the script."""
    if not isinstance(error, SystemExit):
        return False
    code = vars(SystemExit)["code"].__get__(error)
    return code is None or (type(code) in (int, bool) and not code)


def _message(error: BaseException) -> str:
    """The error's text, or empty if the script's code would compute it."""
    arguments = vars(BaseException)["args"].__get__(error)
    builtin = isinstance(type(error).__str__, WrapperDescriptorType)
    return str(error) if builtin and all(type(one) in _PLAIN for one in arguments) else ""


def instrument_trace(ov: Overseer) -> Generator[Any, Any, None]:
    """Write ``trace.pftrace`` if the options or the script request it."""
    begun = ov.clock.now_ns()
    yield ov.phases.init
    if ov.argparser.environ.get("VOIR_TRACE", "").lstrip().startswith(("{", "[")):
        from .trace_options import expanded

        try:
            ov.argparser.environ = expanded(ov.argparser.environ)
        except UsageError as error:
            ov.abort(error)
    add_options(ov.argparser)
    initialized = ov.clock.now_ns()
    yield ov.phases.parse_args
    tracer = _Tracer(ov)
    tracer.complain(OF_RUNS)
    if wanted(ov.options) and _is_traced(ov):
        session = tracer.begin(False)
        if session is not None:
            session.span("phases", "init", begun, initialized)
            session.span("phases", "parse_args", initialized, ov.clock.now_ns())
            tracer.phase("load_script")
    try:
        if not refused(ov.options):
            ov.profilers.append(tracer.profile)
            ov.context.controls[WORD_TRACE] = tracer.steps
        yield from _watch(ov, tracer)
        ov.profilers.clear()
        ov.context.controls.pop(WORD_TRACE, None)
        yield ov.phases.finalize(
            priority=-100
        )  # Includes what other instruments record at the end.
    finally:
        tracer.close()


def _watch(ov: Overseer, tracer: _Tracer) -> Generator[Any, Any, None]:
    """Mark the phases until the script has ended, and its error or early stop."""
    try:
        yield ov.phases.load_script(priority=-100)  # After all other instruments.
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
    """Creates the run's session when it is first needed."""

    def __init__(self, ov: Overseer) -> None:
        self._ov = ov
        self._session: Session | None = None
        self._phase = ("", 0)

    def begin(self, parts: bool) -> Session | None:
        """Return the session, and begin it if needed; ``None`` if it cannot be written.

        Args:
            parts: Trace only ``voir.profile`` blocks.
        """
        from .trace_options import Settings
        from .tracing import Session

        with self._ov.bus.lock:  # Two threads may be first at the same time.
            if self._session is None:
                settings = Settings(self._ov.options, MAX_MB, PROFILE_STEPS)
                self._session = Session.start(self._ov, settings, parts)
        return self._session

    def profile(self, level: str, ms_duration: float | None) -> Callable[[], object]:
        """Trace from here on; call what this returns to end it."""
        session = self.begin(True) if level_of(level) != "off" else None
        if session is None:
            return lambda: None
        return session.part(level, ms_duration and ms_duration / 1e3)

    def steps(self, n: int) -> None:
        """Trace the next ``n`` steps in detail, as ``voir trace RUN --steps`` asks."""
        session = self.begin(True)
        if session is not None:
            session.steps(n)

    def phase(self, name: str) -> None:
        """Begin the phase ``name``, and end the one before."""
        now = self._ov.clock.now_ns()
        if self._session is not None:
            if self._phase[0]:
                self._session.span("phases", *self._phase, now)
            if name == "run_script":
                self._session.script_begins()
        self._phase = name, now

    def failed(self, error: BaseException) -> None:
        """Mark the error that ended the script."""
        from overseer import StopProgram

        if self._session is None or isinstance(error, StopProgram):
            return
        if not _is_clean_exit(error):
            self.mark("error", type=type(error).__name__, message=_message(error))

    def mark(self, label: str, **arguments: str) -> None:
        """Add an instant to the trace."""
        if self._session is not None:
            from overseer.trace import channel

            channel("voir", always=True).instant(label, **arguments)

    def close(self) -> None:
        """Write the trace."""
        if self._session is not None:
            self.phase("")
            self._session.close()
        else:
            self.complain(BESIDE)

    def complain(self, names: tuple[str, ...]) -> None:
        """Report options that have no effect because nothing is traced."""
        options, parser = self._ov.options, self._ov.argparser
        if refused(options) or wanted(options):
            return
        idle = [name for name in names if name in parser.given]
        switch = "--profile" if idle and idle[0].startswith("profile") else "--trace"
        if idle:
            what = f"it has no effect without {switch}: this run is not traced"
            name = f"--{idle[0].replace('_', '-')}"
            remedy = f"Write {switch} {name} ..., or leave it out."
            self._ov.report(Problem("trace-unasked", name, what, remedy=remedy))


def _is_traced(ov: Overseer) -> bool:
    """Whether the options for ranks let this process trace; they may turn its profile off."""
    from .ranks import is_chosen

    options = ov.options
    if options.profile and not is_chosen(ov, "--profile-rank", options.profile_rank):
        options.profile = None
    return wanted(options) and is_chosen(ov, "--trace-rank", options.trace_rank)


def wanted(options: Namespace) -> bool:
    """Whether the options request a trace of the run."""
    on = options.trace or (options.trace is None and options.profile)
    return bool(on) and options.trace_level != "off"


def refused(options: Namespace) -> bool:
    """Whether the options forbid tracing, ``voir.profile`` blocks included."""
    return options.trace is False or options.trace_level == "off"


# Values of options


def _steps(text: str) -> tuple[int, int | None]:
    """Parse ``A:B``: steps from A up to, but not including, B; both are optional."""
    first, colon, last = text.partition(":")
    try:
        found = int(first or 0), int(last) if last else None
    except ValueError:
        found = -1, None
    if not colon or found[0] < 0 or (found[1] is not None and found[1] <= found[0]):
        what = f"--trace-steps is {text!r}, which is not A:B"
        remedy = "Write --trace-steps 10:20 for the steps 10 to 19, counted from 0."
        raise UsageError("trace-settings", what, remedy)
    return found


def _number(what: str, least: float, kind: type[int] | type[float] = int) -> Any:
    def parse(text: str) -> float:
        try:
            found: float = kind(text)
        except ValueError:
            found = float("nan")
        if not least <= found < float("inf"):
            remedy = f"Give a {'whole ' if kind is int else ''}number from {least:g}."
            raise UsageError("trace-settings", f"{what} is {text!r}", remedy)
        return found

    return parse


def level_of(text: str) -> str:
    """Check the level of detail."""
    if text not in LEVELS:
        remedy = f"Levels are {', '.join(LEVELS)}."
        raise UsageError("trace-settings", f"the level is {text!r}", remedy)
    return text


def _patterns(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip()) or ("*",)


def _directory(text: str) -> str:
    if not text.strip():
        remedy = "Name a directory, or leave it out for the run directory."
        raise UsageError("trace-settings", f"--trace-dir is {text!r}", remedy)
    return text


def add_options(parser: Any) -> None:
    """Add ``--trace``, ``--profile`` and their kin."""
    for name, kind, metavar, what in (
        ("trace", None, "", "write a timeline, trace.pftrace, for Perfetto"),
        ("trace-dir", _directory, "DIR", "directory of the trace (default: the run directory)"),
        ("trace-channels", _patterns, "A,B", "record only these channels, by pattern"),
        ("trace-duration", _number("--trace-duration", 0.001, float), "S",
         "stop recording after S seconds"),
        ("trace-steps", _steps, "A:B", "record the steps from A up to B, B excluded"),
        ("trace-every", _number("--trace-every", 1), "N", "record one step in N"),
        ("trace-max-mb", _number("--trace-max-mb", 1, float), "MB",
         f"size of the log; beyond it the middle is dropped (default: {MAX_MB})"),
        ("trace-level", level_of, "off|step|module|op", "level of detail (default: step)"),
        ("trace-modules", str, "PATTERN", "at level module, only modules whose name matches"),
        ("trace-rank", ranks_option("--trace-rank"), "R",
         "trace only these ranks of a job: 0,3,8-15"),
        ("profile", None, "",
         "trace the first steps at --trace-level op"),
        ("profile-steps", _number("--profile-steps", 1), "N",
         f"with --profile: number of steps (default: {PROFILE_STEPS})"),
        ("profile-rank", ranks_option("--profile-rank"), "R", "profile only these ranks of a job"),
    ):  # fmt: skip
        if kind is None:
            parser.add_argument(f"--{name}", action=BooleanOptionalAction, default=None, help=what)
        else:
            parser.add_argument(f"--{name}", type=kind, metavar=metavar, help=what)
    what = "when the log is full, keep only the latest events"
    parser.add_argument("--trace-ring", action="store_const", const=True, help=what)
