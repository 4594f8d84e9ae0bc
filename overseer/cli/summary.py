"""The summary at the end of a run, from what ``run.json`` holds: a screenful at most."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ..measure.parts import part
from .amounts import count, duration, number, percent
from .measured import entries, machine, progress, tasks, verdicts
from .rows import Layout, Piece, Row, clean, row

#: How many probes or instruments that failed are shown one by one.
MOST = 40
#: How many of the user's own values are shown, and how long each may be.
OWN, LONGEST = 8, 40
#: What stands below the tasks.
_AFTER = {"host", "verdict", "app", "own cost", "trace", "record", "no data", "failed"}
#: Lines that the summary takes unless failures need more; the rest is in ``run.json``.
LINES = 14


def render(run: Mapping[str, Any], width: int, colour: bool, *, ascii_only: bool = False) -> str:
    """The end of a run in a few lines, each ended by a newline.

    A figure that is not in the record is not shown, and a part that is malformed is left out:
    the summary never fails, and invents nothing.

    Args:
        run: What ``run.json`` holds; ``seconds`` and ``directory`` may come with it.
        width: Of the terminal, in cells.
        colour: Whether to use colours.
        ascii_only: Draw with ASCII alone.
    """
    layout = Layout(width, colour, ascii_only)
    measured = [*tasks(run), *progress(run), *machine(run), *verdicts(run)]
    if not any(row.pieces for row in measured):
        measured = [_fired(run)]
    rows = [*measured, *_probes(run), *_instruments(run), app(run), *record(run)]
    head = layout.head("voir:", head_of(run))
    return head + layout.text(_fitted(layout, run, rows, LINES - head.count("\n")))


def _fitted(layout: Layout, run: Mapping[str, Any], rows: list[Row], most: int) -> list[Row]:
    """The rows there is room for; of tasks there is none for, how many they are."""
    heads = [each for each in tasks(run) if each.pieces and not each.depth]
    kept = layout.fitted(rows, most)
    if all(head in kept for head in heads):
        return kept
    kept = layout.fitted(rows, most - 1)
    left = [head for head in heads if head not in kept]
    what = f"{count(len(left), 'more task')} in run.json"
    at = next((i for i, each in enumerate(kept) if each.label in _AFTER), len(kept))
    return [*kept[:at], row("", Piece(what, "dim")), *kept[at:]]


def screen(run: Mapping[str, Any], width: int, colour: bool) -> str:
    """What stands at the end of a run: its checks under ``--verify``, else its summary."""
    if "verify" in run:
        from .verified import render as checks

        return checks(run, width, colour)
    return render(run, width, colour)


def head_of(run: Mapping[str, Any]) -> list[Piece]:
    """The script, how it ended, and how long it took."""
    script = _short(clean(run.get("script") or "the script"))
    outcome, seconds = Piece(*_outcome(run)), Piece(duration(_seconds(run)) or "")
    pieces = [Piece(script, "bold"), Piece(_rank(run)), outcome, seconds]
    if not any(run.get(key) for key in ("probes", "instruments", "tasks", "state")):
        pieces.append(Piece("nothing measured (no probe or instrument)", "dim"))
    return [piece for piece in pieces if piece.text]


def _rank(run: Mapping[str, Any]) -> str:
    """Which process of a job this was: each has a summary of its own."""
    rank, world = run.get("rank"), run.get("world_size")
    if not isinstance(rank, int):
        return ""
    return f"rank {rank} of {world}" if isinstance(world, int) else f"rank {rank}"


def _outcome(run: Mapping[str, Any]) -> tuple[str, str]:
    """How the run ended, and in which style to say so."""
    status, stopped = run.get("exit_status"), run.get("stopped_early")
    if "ended" not in run and status is None:
        state = clean(run.get("state") or "did not finish")
        return state, "bad" if state == "did not finish" else "good"
    if isinstance(status, int) and status < 0:
        return f"killed by {_signal(-status)}", "bad"
    if stopped and status in (0, None):
        reason = f": {clean(stopped)}" if isinstance(stopped, str) else ""
        return f"stopped early{reason}", "warn"
    if status in (0, None):
        return "finished", "good"
    return f"exit status {clean(status)}", "bad"


def _signal(number: int) -> str:
    import signal

    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _seconds(run: Mapping[str, Any]) -> float | None:
    told = number(run.get("seconds"))
    if told is not None:
        return told
    from datetime import datetime

    try:
        started, ended = (datetime.fromisoformat(run[k].rstrip("Z")) for k in ("started", "ended"))
        return (ended - started).total_seconds()
    except (KeyError, ValueError, AttributeError, TypeError):
        return None


def _short(path: str) -> str:
    """``path`` from the current directory, when it is below: the script may have changed that."""
    try:
        relative = os.path.relpath(path)
    except (OSError, ValueError):
        return path
    below = os.path.isabs(path) and not relative.startswith(os.pardir)
    return relative if below else path


# What went wrong


def _fired(run: Mapping[str, Any]) -> Row:
    """That probes fired, for a run whose events nobody made figures of."""
    fired = [p for p in entries(run, "probes") if p.get("state") == "fired"]
    events = sum(number(probe.get("fired")) or 0 for probe in fired)
    return row("probes", f"{len(fired)} fired" if fired else None, count(events or None, "event"))


def _probes(run: Mapping[str, Any]) -> Iterator[Row]:
    silent = [p for p in entries(run, "probes") if p.get("state") not in ("fired", None)]
    for probe in silent[:MOST]:
        state, where = clean(probe["state"]), probe.get("where")
        yield row(
            "no data",
            Piece(clean(probe.get("selector") or "a probe"), "bad"),
            f"{state}, set at {_short(clean(where))}" if where else state,
            clean(probe.get("hint") or ""),
            style="bad",
        )
    yield from _more(silent, "probes that captured nothing")


def _instruments(run: Mapping[str, Any]) -> Iterator[Row]:
    failed = [i for i in entries(run, "instruments") if i.get("state") == "failed"]
    for instrument in failed[:MOST]:
        where = instrument.get("failed_at") or instrument.get("where")
        yield row(
            "failed",
            Piece(clean(instrument.get("name") or "an instrument"), "bad"),
            f"at {_short(clean(where))}" if where else None,
            # What it raised was said when it happened; only losses become known at the end.
            clean(instrument.get("error") or "") if where is None else None,
            style="bad",
        )
    yield from _more(failed, "instruments that failed")


def _more(entries: Iterable[object], what: str) -> Iterator[Row]:
    left = len(list(entries)) - MOST
    if left > 0:
        yield row("", Piece(f"and {left} more {what}: run.json names all of them", "dim"))


# What it cost, what it is, and where


def app(run: Mapping[str, Any]) -> Row:
    """What the user has to say of the run."""
    own = part(run, "app")
    shown = [f"{clean(key)} {_value(value)}" for key, value in list(own.items())[:OWN]]
    more = f"{len(own) - OWN} more in run.json" if len(own) > OWN else None
    return row("app", *shown, more and Piece(more, "dim"), spare=1)


def _value(value: object) -> str:
    """A value of any kind on one line, not a long one."""
    import json

    text = clean(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))
    return text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"


def record(run: Mapping[str, Any]) -> Iterator[Row]:
    """What the run cost, and where it is recorded."""
    overhead, trace = part(run, "overhead"), part(run, "trace")
    share, cost = percent(overhead.get("share")), duration(overhead.get("seconds"))
    outside = duration(overhead.get("outside"))
    yield row(
        "own cost",
        f"{share} of the run, {cost}" if share and cost else share or cost,
        f"{outside} of it before and after the script" if outside else None,
    )
    if trace.get("path"):
        dropped = number(trace.get("dropped"))
        yield row(
            "trace",
            _short(clean(trace["path"])),
            count(trace.get("events"), "event"),
            Piece(f"{dropped:,.0f} dropped", "warn") if dropped else None,
        )
    if run.get("directory"):
        yield row("record", _short(clean(run["directory"])))
