"""The options and variables of ``--trace``, and what they come to."""

from __future__ import annotations

from argparse import BooleanOptionalAction

from overseer.errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Mapping
    from typing import Any

LEVELS = ("off", "step", "module", "op")
#: What the log may grow to, in megabytes, unless told.
MAX_MB = 256
#: Steps that ``op`` traces unless told, for PyTorch's profiler is too heavy for a whole run.
OP_STEPS = (2, 7)
#: How many steps ``--profile`` looks into unless told.
PROFILE_STEPS = 2
#: Options that mean nothing unless the run is traced, and those that also mean something to a
#: script that has parts of itself traced.
OF_RUNS = (
    "trace_duration", "trace_steps", "trace_every", "trace_rank", "trace_level",
    "profile_steps",
)  # fmt: skip
BESIDE = ("trace_dir", "trace_channels", "trace_max_mb", "trace_modules", "trace_ring")
#: Settings in VOIR_TRACE's object: each is the variable of an option.
TRACES = ("channels", "duration", "steps", "every", "max_mb", "level", "modules", "rank", "ring")
PROFILES = ("profile", "profile_steps")
VARIABLES = {
    "enable": "VOIR_TRACE",
    "directory": "VOIR_TRACE_DIR",
    **{name: f"VOIR_TRACE_{name.upper()}" for name in TRACES},
    **{name: f"VOIR_{name.upper()}" for name in PROFILES},
}


def expanded(environ: Mapping[str, str]) -> dict[str, str]:
    """The environment, with the JSON object in ``VOIR_TRACE`` as variables of the options.

    Raises:
        UsageError: It is no object, or names a setting that there is not.
    """
    text = environ.get("VOIR_TRACE", "").strip()
    if not text.startswith(("{", "[")):
        return dict(environ)
    import json

    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise _wrong(f"VOIR_TRACE is no JSON object: {error}") from None
    if not isinstance(found, dict):
        raise _wrong(f"VOIR_TRACE is {text:.60}, which is no JSON object")
    made = {"VOIR_TRACE": "1"}
    for name, value in found.items():
        if name not in VARIABLES:
            raise _wrong(f"VOIR_TRACE has no setting {name!r}")
        if value is not None:
            made[VARIABLES[name]] = _text(name, value)
    return {**made, **{name: value for name, value in environ.items() if name != "VOIR_TRACE"}}


def _text(name: str, value: Any) -> str:
    if isinstance(value, bool):
        return str(int(value))
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if name == "steps" and isinstance(value, list) and len(value) == 2:
        return f"{value[0]}:{value[1]}"
    if name == "channels" and isinstance(value, list) and all(isinstance(n, str) for n in value):
        return ",".join(value)
    if isinstance(value, list | dict):
        raise _wrong(f"VOIR_TRACE: {name} is {value!r:.60}")
    return str(value)


def _wrong(what: str) -> UsageError:
    example = 'VOIR_TRACE=\'{"enable": true, "directory": "traces", "steps": "10:20"}\''
    settings = ", ".join(name for name in VARIABLES if name != "enable")
    return UsageError(
        "trace-settings", what[:300], f"For example: {example}; settings are {settings}."
    )


# Values of options


def _steps(text: str) -> tuple[int, int | None]:
    """``A:B``: steps from A on, before B; either may be missing."""
    first, colon, last = text.partition(":")
    try:
        found = int(first or 0), int(last) if last else None
    except ValueError:
        found = -1, None
    if not colon or found[0] < 0 or (found[1] is not None and found[1] <= found[0]):
        what = f"the steps to trace are {text!r}, which is no A:B"
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
    """How much detail."""
    if text not in LEVELS:
        remedy = f"Levels are {', '.join(LEVELS)}."
        raise UsageError("trace-settings", f"the level is {text!r}", remedy)
    return text


def _patterns(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip()) or ("*",)


def _directory(text: str) -> str:
    if not text.strip():
        remedy = "Name one, or leave it out: then it is the run directory."
        raise UsageError("trace-settings", f"the trace's directory is {text!r}", remedy)
    return text


def add_options(parser: Any) -> None:
    """Add ``--trace``, ``--profile`` and their kin."""
    for name, kind, metavar, what in (
        ("trace", None, "", "write a timeline, trace.pftrace, for Perfetto"),
        ("trace-dir", _directory, "DIR", "where the trace goes (default: the run directory)"),
        ("trace-channels", _patterns, "A,B", "record only these channels; patterns are allowed"),
        ("trace-duration", _number("the duration in seconds", 0.001, float), "S",
         "record for so many seconds"),
        ("trace-steps", _steps, "A:B", "record the steps from A on, before B"),
        ("trace-every", _number("one step in so many", 1), "N", "record one step in N"),
        ("trace-max-mb", _number("the largest size in megabytes", 1, float), "MB",
         f"size of the log; first and last are kept (default: {MAX_MB})"),
        ("trace-level", level_of, "off|step|module|op", "how much detail (default: step)"),
        ("trace-modules", str, "PATTERN", "at level module, only modules of such names"),
        ("trace-rank", _number("the rank", 0), "R", "trace only this rank of a job"),
        ("profile", None, "",
         "everything, in detail, of the first steps: --trace --trace-level op"),
        ("profile-steps", _number("the number of steps to profile", 1), "N",
         f"with --profile: how many steps (default: {PROFILE_STEPS})"),
    ):  # fmt: skip
        if kind is None:
            parser.add_argument(f"--{name}", action=BooleanOptionalAction, default=None, help=what)
        else:
            parser.add_argument(f"--{name}", type=kind, metavar=metavar, help=what)
    what = "in a full log keep the last events, not first and last"
    parser.add_argument("--trace-ring", action="store_const", const=True, help=what)


class Settings:
    """What is traced, and where it goes.

    Args:
        options: The run's.

    Attributes:
        directory: Where the file goes; None for the run directory.
        channels: Patterns of the names of channels that record.
        duration: Seconds of the script after which nothing more is recorded.
        steps: The first step, and the one before which it ends; None for any.
        every: One step in so many.
        max_mb: What the log may grow to.
        level: How much detail.
        modules: A pattern of the names of the modules that ``module`` shows.
        rank: The only rank of a job that is traced; None for all.
        ring: Keep the latest events only.
    """

    def __init__(self, options: Namespace) -> None:
        profile = bool(options.profile)
        self.directory: str | None = options.trace_dir
        self.channels: tuple[str, ...] = options.trace_channels or ("*",)
        self.duration: float | None = options.trace_duration
        self.every: int = options.trace_every or 1
        self.max_mb: float = options.trace_max_mb or MAX_MB
        self.level: str = options.trace_level or ("op" if profile else "step")
        self.modules: str = options.trace_modules or "*"
        self.rank: int | None = options.trace_rank
        self.ring = bool(options.trace_ring)
        self.steps: tuple[int, int | None] | None = options.trace_steps
        if profile and self.steps is None:
            self.steps = 0, (options.profile_steps or PROFILE_STEPS) * self.every
        elif self.level == "op" and self.steps is None:
            self.steps = OP_STEPS

    @staticmethod
    def wanted(options: Namespace) -> bool:
        """Whether the run is traced."""
        on = options.trace or (options.trace is None and options.profile)
        return bool(on) and options.trace_level != "off"

    @staticmethod
    def refused(options: Namespace) -> bool:
        """Whether nothing is traced, whatever the script asks for."""
        return options.trace is False or options.trace_level == "off"
