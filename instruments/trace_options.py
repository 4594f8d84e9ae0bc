"""Settings of a trace: from the options, and from the JSON object in ``VOIR_TRACE``."""

from __future__ import annotations

from overseer.errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Mapping
    from typing import Any

#: Default steps at level ``op``: PyTorch's profiler is too slow for a whole run.
OP_STEPS = (2, 7)
#: Settings in the object ``VOIR_TRACE``; each stands for the variable of an option.
TRACES = ("channels", "duration", "steps", "every", "max_mb", "level", "modules", "rank", "ring")
PROFILES = ("profile", "profile_steps", "profile_rank")
VARIABLES = {
    "enable": "VOIR_TRACE",
    "directory": "VOIR_TRACE_DIR",
    **{name: f"VOIR_TRACE_{name.upper()}" for name in TRACES},
    **{name: f"VOIR_{name.upper()}" for name in PROFILES},
}


def expanded(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the environment with the JSON in ``VOIR_TRACE`` as variables of the options.

    Raises:
        UsageError: The JSON is not an object, or an unknown setting is in it.
    """
    import json

    text = environ["VOIR_TRACE"].strip()
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise _wrong(f"VOIR_TRACE is not a JSON object: {error}") from None
    if not isinstance(found, dict):
        raise _wrong(f"VOIR_TRACE is {text:.60}, which is not a JSON object")
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


class Settings:
    """Settings of a trace.

    Args:
        options: The run's options.
        max_mb: Default size limit of the log, in megabytes.
        profile_steps: Default number of steps for ``--profile``.

    Attributes:
        directory: Directory of the trace; None: the run directory.
        channels: Name patterns of the channels to record.
        duration: Seconds after which recording ends.
        steps: First step, and end (excluded); None: all.
        every: Record one step in this many.
        max_mb: Size limit of the log, in megabytes.
        level: Level of detail.
        modules: Name pattern of the modules to show at level ``module``.
        ring: Keep the latest events only.
    """

    def __init__(self, options: Namespace, max_mb: float, profile_steps: int) -> None:
        profile = bool(options.profile)
        self.directory: str | None = options.trace_dir
        self.channels: tuple[str, ...] = options.trace_channels or ("*",)
        self.duration: float | None = options.trace_duration
        self.every: int = options.trace_every or 1
        self.max_mb: float = options.trace_max_mb or max_mb
        self.level: str = options.trace_level or ("op" if profile else "step")
        self.modules: str = options.trace_modules or "*"
        self.ring = bool(options.trace_ring)
        self.steps: tuple[int, int | None] | None = options.trace_steps
        if profile and self.steps is None:
            self.steps = 0, (options.profile_steps or profile_steps) * self.every
        elif self.level == "op" and self.steps is None:
            self.steps = OP_STEPS
