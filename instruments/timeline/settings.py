"""What is to be traced: ``--trace`` and its kin, and ``VOIR_TRACE`` as one JSON object."""

from __future__ import annotations

import argparse
import math
from typing import Any, NamedTuple

from overseer.errors import UsageError

LEVELS = ("off", "step", "module", "op")
#: What the file may grow to, in megabytes, unless told.
MAX_MB = 256
#: Steps that ``op`` traces unless told: PyTorch's profiler is too heavy for a whole run.
OP_STEPS = (2, 7)
TRUE, FALSE = ("1", "true", "yes", "on", "y"), ("0", "false", "no", "off", "n", "")


class Settings(NamedTuple):
    """What is traced, and where it goes.

    Attributes:
        directory: Where the file goes; None for the run directory.
        channels: Patterns of the names of channels that record.
        duration: Seconds of the script after which nothing more is recorded.
        steps: The first step, and the one before which it ends; None for any.
        every: One step in so many.
        max_mb: What the file may grow to.
        level: How much detail.
        modules: A pattern of the names of the modules that ``module`` shows.
    """

    directory: str | None = None
    channels: tuple[str, ...] = ("*",)
    duration: float | None = None
    steps: tuple[int, int | None] | None = None
    every: int = 1
    max_mb: float = MAX_MB
    level: str = "step"
    modules: str = "*"


#: Names in VOIR_TRACE's object, and the options that they stand for.
KEYS = {
    "directory": "trace_dir",
    "channels": "trace_channels",
    "duration": "trace_duration",
    "steps": "trace_steps",
    "every": "trace_every",
    "max_mb": "trace_max_mb",
    "level": "trace_level",
    "modules": "trace_modules",
}


class TraceSwitch(argparse.Action):
    """``--trace``; its variable ``VOIR_TRACE`` may be a JSON object of settings too."""

    def __init__(self, option_strings: Any, dest: str, **keywords: Any) -> None:
        super().__init__(option_strings, dest, nargs=0, type=switch, **keywords)

    def __call__(
        self, parser: Any, namespace: argparse.Namespace, values: Any, option: str | None = None
    ) -> None:
        """Switch it on, keeping what else the environment asks for."""
        known = getattr(namespace, self.dest) or {}
        setattr(namespace, self.dest, {**known, "enable": True})


def switch(text: str) -> dict[str, Any]:
    """The settings in ``VOIR_TRACE``: a JSON object, or just yes or no.

    Raises:
        UsageError: It is neither, or names a setting that there is not.
    """
    plain = text.strip().lower()
    if plain in TRUE + FALSE:
        return {"enable": plain in TRUE}
    import json

    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise _wrong(f"VOIR_TRACE is no JSON object: {error}") from None
    if not isinstance(found, dict):
        raise _wrong(f"VOIR_TRACE is {text:.60}, which is no JSON object")
    unknown = sorted(found.keys() - KEYS.keys() - {"enable"})
    if unknown:
        raise _wrong(f"VOIR_TRACE has no setting {unknown[0]!r}")
    enabled = str(found.get("enable", True)).lower()
    if enabled not in TRUE + FALSE:
        raise _wrong(f"VOIR_TRACE: enable is {found['enable']!r}")
    parsed = {name: _parse(name, value) for name, value in found.items() if name in KEYS}
    return {**parsed, "enable": enabled in TRUE}


def _wrong(what: str) -> UsageError:
    return UsageError(
        "trace-settings",
        what[:300],
        'For example: VOIR_TRACE=\'{"enable": true, "directory": "traces", "steps": "10:20"}\'; '
        f"settings are {', '.join(KEYS)}.",
    )


def settings_of(options: argparse.Namespace) -> Settings | None:
    """What the options ask for; ``None`` when nothing is to be traced."""
    found = dict(options.trace or {})
    enabled = found.pop("enable", False)
    chosen = {name: getattr(options, dest) for name, dest in KEYS.items()}
    found.update((name, value) for name, value in chosen.items() if value is not None)
    level = found.get("level", "step")
    if not enabled or level == "off":
        return None
    if level == "op" and "steps" not in found:
        found["steps"] = OP_STEPS
    return Settings(**found)


def _parse(name: str, value: Any) -> Any:
    if name == "channels" and isinstance(value, list):
        value = ",".join(map(str, value))
    try:
        return PARSERS[name](str(value))
    except UsageError as error:
        raise _wrong(f"VOIR_TRACE: {error.what}") from None


def steps(text: str) -> tuple[int, int | None]:
    """``A:B``: steps from A on, before B; either may be missing."""
    first, colon, last = text.partition(":")
    try:
        found = int(first or 0), int(last) if last else None
    except ValueError:
        found = -1, None
    if not colon or found[0] < 0 or (found[1] is not None and found[1] <= found[0]):
        raise UsageError(
            "trace-settings",
            f"the steps to trace are {text!r}, which is no A:B",
            "Write --trace-steps 10:20 for the steps 10 to 19, counted from 0.",
        )
    return found


def _number(what: str, least: float, whole: bool = False) -> Any:
    def parse(text: str) -> float:
        try:
            found: float = int(text) if whole else float(text)
        except ValueError:
            found = math.nan
        if not least <= found < math.inf:
            remedy = f"Give a {'whole ' if whole else ''}number from {least:g}."
            raise UsageError("trace-settings", f"{what} is {text!r}", remedy)
        return found

    return parse


def _level(text: str) -> str:
    if text not in LEVELS:
        what = f"the level is {text!r}"
        raise UsageError("trace-settings", what, f"Levels are {', '.join(LEVELS)}.")
    return text


def _patterns(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip()) or ("*",)


PARSERS: dict[str, Any] = {
    "directory": str,
    "channels": _patterns,
    "duration": _number("the duration in seconds", 0.001),
    "steps": steps,
    "every": _number("one step in so many", 1, whole=True),
    "max_mb": _number("the largest size in megabytes", 1),
    "level": _level,
    "modules": str,
}


def add_options(parser: Any) -> None:
    """Add ``--trace`` and its kin."""
    add = parser.add_argument
    add("--trace", action=TraceSwitch, help="write a timeline, trace.pftrace, for Perfetto")
    add("--trace-dir", metavar="DIR", help="where the trace goes (default: the run directory)")
    for name, metavar, what in (
        ("channels", "A,B", "record only these channels; patterns are allowed"),
        ("duration", "S", "record for so many seconds"),
        ("steps", "A:B", "record the steps from A on, before B"),
        ("every", "N", "record one step in N"),
        ("max-mb", "MB", f"size of the file; first and last are kept (default: {MAX_MB})"),
        ("level", "off|step|module|op", "how much detail (default: step)"),
        ("modules", "PATTERN", "at level module, only modules of such names"),
    ):
        key = name.replace("-", "_")
        add(f"--trace-{name}", type=PARSERS[key], metavar=metavar, help=what)
