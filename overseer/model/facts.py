"""Reads values from the contents of a ``run.json``, and formats them; never raises.

An absent value, or one of another type than expected, is unknown and has no text.
"""

from __future__ import annotations

import math

from ..recorder.sites import PARTS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any, TypeVar

    Facts = Mapping[str, Any]
    T = TypeVar("T")

#: The clock of steps without a device's clock.
HOST_CLOCK = "perf_counter"
#: Share of busy workers of a loader below which batches are ready in time.
WORKERS_IDLE = 0.5
_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")


def part(of: object, *keys: str) -> Facts:
    """The mapping under nested ``keys``; an empty one if absent."""
    for key in keys:
        of = of.get(key) if isinstance(of, dict) else None
    return of if isinstance(of, dict) else {}


def at(facts: object, path: str) -> object:
    """The value under a dotted path, with indices for lists; None if absent."""
    for key in path.split("."):
        if isinstance(facts, dict):
            facts = facts.get(key)
        elif isinstance(facts, list) and key.isdecimal() and int(key) < len(facts):
            facts = facts[int(key)]
        else:
            return None
    return facts


def number(facts: object, path: str = "") -> float | None:
    """The finite number under a dotted path, or ``facts`` itself; otherwise None."""
    value = at(facts, path) if path else facts
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    try:
        return float(value) if math.isfinite(value) else None
    except OverflowError:  # An integer too large for a float.
        return None


def entries(of: object, key: str) -> list[Facts]:
    """The mappings in the list under ``key``."""
    found = of.get(key) if isinstance(of, dict) else None
    return [each for each in found if isinstance(each, dict)] if isinstance(found, list) else []


def ordered(tasks: Mapping[str, T]) -> dict[str, T]:
    """Tasks in display order: ``train`` first, the others as they began."""
    return dict(sorted(tasks.items(), key=lambda task: task[0] != "train"))


def main_name(steps: Mapping[str, float]) -> str | None:
    """The main task of a run, by the steps of each; None without steps.

    ``train``, otherwise the task with the most steps; evaluation only without any other.
    """
    made = {name: (name == "train", name != "eval", n) for name, n in steps.items() if n}
    return max(made, key=lambda name: made[name], default=None)


def main_task_name(run: Facts) -> str | None:
    """The name of a run's main task."""
    tasks = part(run, "tasks")
    return main_name({name: number(part(tasks, name), "steps") or 0 for name in tasks})


def main_task(run: Facts) -> Facts | None:
    """The facts of a run's main task."""
    main = main_task_name(run)
    return None if main is None else part(run, "tasks", main)


def breakdown(task: Facts) -> dict[str, float]:
    """The share of each known part of a step; the shares add up to 1."""
    shown = part(task, "breakdown")
    known = {name: number(shown.get(name)) for name in PARTS}
    seconds = {name: max(0.0, value) for name, value in known.items() if value is not None}
    whole = sum(seconds.values())
    return {name: value / whole for name, value in seconds.items()} if whole > 0 else {}


def wall_seconds(task: Facts) -> float | None:
    """Seconds from a task's first step to its last, pauses included."""
    rate, amount = number(task, "rate.wall"), number(task, "items") or number(task, "steps")
    return amount / rate if rate and amount else None


def pause_share(task: Facts) -> float | None:
    """The share of a task's wall time in pauses."""
    wall, paused = wall_seconds(task), number(task, "pause.seconds")
    return max(0.0, paused / max(wall, paused)) if wall and paused is not None else None


def others_share(run: Facts) -> float | None:
    """The share of the processors that other programs used; None if not known.

    The record of one of several ranks does not tell them from other programs, unless the rank has
    processors of its own.
    """
    several = run.get("rank") is not None and run.get("world_size") != 1
    if several and at(run, "host.cpu.limited_by") != "affinity":
        return None
    whole, own = number(run, "host.cpu.mean"), number(run, "host.cpu.process.mean")
    return max(0.0, whole - own) / 100 if whole is not None and own is not None else None


# Numbers for people, the same in every view


def figure(value: Any) -> str | None:
    """A number with four digits: ``0.08712``, ``28.41``, ``1,412``, ``NaN``."""
    found = number(value)
    if found is None:  # NaN and the infinities are strings in JSON.
        return str(value) if isinstance(value, float) or value in _NO_NUMBERS else None
    if abs(found) >= 999.5:
        return f"{found:,.0f}" if abs(found) < 1e9 else f"{found:.3g}"
    return f"{found:.4g}"


_NO_NUMBERS = ("NaN", "Infinity", "-Infinity")


def rates(*values: Any) -> list[str]:
    """Format figures shown side by side, with the decimals that the smallest needs."""
    found = [value for value in map(number, values) if value is not None]
    sizes = [abs(value) for value in found if value] or [0.0]
    least, most = min(sizes), max(sizes)
    decimals = 0 if least >= 100 else 1 if least >= 10 or most >= 1000 else 2 if least >= 1 else 3
    return [f"{value:,.{decimals}f}" for value in found]


def count(value: Any, singular: str, plural: str | None = None) -> str | None:
    """``1 step``, ``1,875 steps``."""
    found = number(value)
    if found is None:
        return None
    return f"{found:,.0f} {singular if found == 1 else plural or singular + 's'}"


def percent(fraction: Any) -> str | None:
    """A fraction as a percentage; only 0 and 1 are shown as 0 % and 100 %."""
    found = number(fraction)
    if found is None:
        return None
    whole = 100 * found
    if 0 < whole < 0.95:
        return f"{whole:.2g} %"
    return f"{whole:.1f} %" if 99.05 <= whole < 99.95 else f"{whole:.0f} %"


def duration(value: Any) -> str | None:
    """Seconds as ``3.1 ms``, ``42.3 s``, ``12 min 05 s`` or ``3 h 12 min``."""
    seconds = number(value)
    if seconds is None:
        return None
    if seconds < 0.0995:
        return f"{1000 * seconds:.2g} ms" if seconds < 0.00995 else f"{1000 * seconds:.0f} ms"
    if seconds < 59.95:
        return f"{seconds:.2f} s" if seconds < 9.995 else f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest:02} s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02} min"


def size(value: Any, total: Any = None) -> str | None:
    """Bytes, optionally with a total: ``640 MiB``, ``9.2/128 GiB``."""
    found, whole = number(value), number(total) or None
    if found is None:
        return None
    power = next((p for p in (4, 3, 2, 1) if abs(whole or found) >= 999.5 * 1024 ** (p - 1)), 0)
    shown = [f"{round(each / 1024**power, 3):.3g}" for each in (found, whole) if each is not None]
    return f"{'/'.join(shown)} {_UNITS[power]}"


def signalled(number: int) -> str:
    """How a process ended that a signal killed."""
    import signal

    if number == signal.SIGINT:
        return "interrupted"
    try:
        return f"killed by {signal.Signals(number).name}"
    except ValueError:
        return f"killed by signal {number}"


#: Larger changes, in percent, are shown as this: intervals over two values can be that wide.
_LARGEST_CHANGE = 999


def change(ratio: float) -> str:
    """A ratio as a signed change: ``+3.1 %``."""
    return f"{_signed(ratio)} %"


def changes(interval: tuple[float, float]) -> str:
    """An interval of ratios as signed changes, without the unit: ``-0.4 to +3.1``."""
    return " to ".join(map(_signed, interval))


def _signed(ratio: float) -> str:
    changed = round(100 * (ratio - 1), 1) + 0.0  # Avoids -0.
    if changed > _LARGEST_CHANGE:
        return f">+{_LARGEST_CHANGE}"
    return f"{changed:+.0f}" if abs(changed) >= 10 else f"{changed:+.1f}"
