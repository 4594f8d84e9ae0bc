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
#: Steps that ``--profile`` looks into unless told.
PROFILE_STEPS = 2
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
        rank: The only rank of a job that is traced; None for all.
        ring: In a file that is full, what is new takes the place of the oldest.
    """

    directory: str | None = None
    channels: tuple[str, ...] = ("*",)
    duration: float | None = None
    steps: tuple[int, int | None] | None = None
    every: int = 1
    max_mb: float = MAX_MB
    level: str = "step"
    modules: str = "*"
    rank: int | None = None
    ring: bool = False


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
    "rank": "trace_rank",
    "ring": "trace_ring",
    "profile": "profile",
    "profile_steps": "profile_steps",
    "profile_skip": "profile_skip",
    "profile_every": "profile_every",
    "profile_rank": "profile_rank",
}


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
    found = {name: value for name, value in found.items() if value is not None}
    unknown = sorted(found.keys() - KEYS.keys() - {"enable"})
    if unknown:
        raise _wrong(f"VOIR_TRACE has no setting {unknown[0]!r}")
    enabled = str(found.get("enable", True)).lower()
    if enabled not in TRUE + FALSE:
        raise _wrong(f"VOIR_TRACE: enable is {found['enable']!r}")
    parsed = {name: _parse(name, value) for name, value in found.items() if name in KEYS}
    if enabled in FALSE:
        parsed.pop("profile", None)
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
    found = _found(options)
    enabled = (found.pop("enable", False) or found["profile"]) and not found.pop("never", False)
    found = _without_profile(found)
    level = found.get("level", "step")
    if not enabled or level == "off":
        return None
    if level == "op" and "steps" not in found:
        found["steps"] = OP_STEPS
    return Settings(**found)


def around_parts(options: argparse.Namespace) -> Settings:
    """How the parts are traced that a script asks for by itself: where to, and of what."""
    found = _found(options)
    names = ("directory", "channels", "max_mb", "modules", "ring")
    return Settings(**{name: found[name] for name in names if name in found})


def switched_off(options: argparse.Namespace) -> bool:
    """Whether the options say that nothing is traced, whatever the script asks for."""
    found = _found(options)
    return settings_of(options) is None and ("enable" in found or found.get("level") == "off")


def _found(options: argparse.Namespace) -> dict[str, Any]:
    """The settings by name: options go before the variable."""
    found = {"profile": False, **(options.trace or {})}
    chosen = {name: getattr(options, dest) for name, dest in KEYS.items()}
    found.update((name, value) for name, value in chosen.items() if value is not None)
    return found


def _without_profile(found: dict[str, Any]) -> dict[str, Any]:
    """What ``--profile`` and its kin stand for; the settings that are not theirs go before."""
    asked = {name: found.pop(name) for name in KEYS if name.startswith("profile") and name in found}
    if not asked["profile"]:
        return found
    every = found.get("every") or asked.get("profile_every") or 1
    window = window_of(
        asked.get("profile_steps", PROFILE_STEPS), asked.get("profile_skip", 0), every
    )
    stands = {"level": "op", "steps": window, "every": every, "rank": asked.get("profile_rank")}
    return {**stands, **found}


def window_of(count: int | None, skip: int, every: int) -> tuple[int, int | None]:
    """The steps from ``skip`` on of which one in ``every`` is recorded, ``count`` in all."""
    return skip, None if count is None else skip + count * every


def _parse(name: str, value: Any) -> Any:
    if name == "channels" and isinstance(value, list) and value:
        value = ",".join(each if isinstance(each, str) else repr(each) for each in value)
    if name == "steps" and isinstance(value, list) and len(value) == 2:
        value = f"{value[0]}:{value[1]}"
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, list | dict) or (name in TEXTS and not isinstance(value, str)):
        raise _wrong(f"VOIR_TRACE: {name} is {value!r:.60}")
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


def _yes(name: str) -> Any:
    def parse(text: str) -> bool:
        if text.lower() not in TRUE + FALSE:
            raise UsageError("trace-settings", f"{name} is {text!r}", "Say true or false.")
        return text.lower() in TRUE

    return parse


def _directory(text: str) -> str:
    if not text.strip():
        remedy = "Name one, or leave it out: then it is the run directory."
        raise UsageError("trace-settings", f"the trace's directory is {text!r}", remedy)
    return text


#: Settings that JSON has as text, and as nothing else.
TEXTS = ("directory", "modules", "level", "channels")
PARSERS: dict[str, Any] = {
    "directory": _directory,
    "channels": _patterns,
    "duration": _number("the duration in seconds", 0.001),
    "steps": steps,
    "every": _number("one step in so many", 1, whole=True),
    "max_mb": _number("the largest size in megabytes", 1),
    "level": _level,
    "modules": str,
    "rank": _number("the rank", 0, whole=True),
    "ring": _yes("ring"),
    "profile": _yes("profile"),
    "profile_steps": _number("the number of steps to profile", 1, whole=True),
    "profile_skip": _number("the number of steps to skip", 0, whole=True),
    "profile_every": _number("one step in so many", 1, whole=True),
    "profile_rank": _number("the rank", 0, whole=True),
}
