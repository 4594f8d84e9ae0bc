"""The summary at the end of a run, from the facts of ``run.json``.

On a terminal with too few rows, lines are omitted in this order: loading, compute and losses of
tasks other than the main one; their rates; the parts of a step; given values; ``app``. All other
lines stay, such as ``host`` and each task's first line.
"""

from __future__ import annotations

import os

from ..errors import clean
from ..model.facts import (
    HOST_CLOCK,
    WORKERS_IDLE,
    at,
    breakdown,
    count,
    duration,
    entries,
    figure,
    main_task,
    number,
    part,
    pause_share,
    percent,
    rates,
    signalled,
    size,
)
from .text import TO, Layout, Piece, Row, cut, row

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ..model.facts import Facts

#: Probes or instruments, values of the user, and progress bars that are shown.
MOST, OWN, BARS = 40, 8, 4
#: The order in which rows are omitted: the highest first.
_OTHER, _RATE, _TREE, _VALUES, _APP = 5, 4, 3, 2, 1
_BAR = 16
#: The share of busy workers from which more of them help, if loading has at least this share.
WORKERS_FULL, LOADING_MATTERS = 0.9, 0.1


def render(
    run: Facts, width: int, colour: bool = False, height: int = 0, whole: bool = False
) -> str:
    """Render the end of a run in a few lines, each ended by a newline.

    Missing figures and malformed parts are left out; the summary never fails.

    Args:
        run: The facts of ``run.json``, and optionally ``directory``.
        width: The terminal's, in cells.
        colour: Whether to use colours.
        height: The terminal's, in lines; 0: unlimited.
        whole: Show all bars, probes and values of the user.
    """
    layout = Layout(width, colour)
    first, rows = summary_rows(run, whole)
    head = layout.head("voir:", first)
    # The shell needs the last line.
    return head + layout.text(
        layout.fitted(rows, height - 1 - head.count("\n")) if height > 0 and not whole else rows
    )


def summary_rows(run: Facts, whole: bool = True) -> tuple[list[Piece], list[Row]]:
    """The first line of a summary, and its rows.

    Args:
        run: The facts.
        whole: With all bars, probes and values of the user.
    """
    most, tasks = 1 << 30 if whole else 0, [*_tasks(run)]
    rest = [*_progress(run, most), _values(run, most), *_machine(run), *_verdict(run)]
    if "job" in run:
        from .job import of_job

        rest = [*of_job(run), *rest]
    first = head_of(run)
    if not any(each.pieces for each in (*tasks, *rest)):
        rest = [_fired(run)]
        if not rest[0].pieces and "state" not in run:
            first.append(Piece("nothing measured", "dim"))
    elif not tasks and not entries(run, "probes") and run.get("exit_status") == 0:
        script = clean(run.get("script") or "SCRIPT")
        told = f"voir init {_short(script)} writes what would give them"
        rest.append(row("steps", Piece("none seen", "dim"), Piece(told, "dim")))
    rest += [*_probes(run, most), *_instruments(run, most), _app(run, most), *record(run)]
    return first, [*tasks, *rest]


def failure(run: Facts, width: int, colour: bool = False) -> str:
    """Render two lines for a failed run whose figures the dashboard has left on the screen."""
    layout, name = Layout(width, colour), _short(clean(run.get("directory") or ""))
    record = row("record", name, Piece("voir show prints its summary" if name else "", "dim"))
    return layout.head("voir:", head_of(run)) + layout.text([record])


# The first line


def head_of(run: Facts) -> list[Piece]:
    """The first line: script, outcome, duration."""
    rank, world = run.get("rank"), run.get("world_size")
    ranked = f"rank {rank}" + (f" of {world}" if isinstance(world, int) else "")
    script = _short(clean(run.get("script") or "the script"))
    pieces = [Piece(script, "bold"), Piece(cut(run.get("name") or "", 40))]
    pieces.append(Piece(ranked if isinstance(rank, int) else ""))
    ended = outcome(run)
    if "job" in run:
        from .job import first_failed, job_head

        pieces += map(Piece, job_head(run))
        ended.text = f"{first_failed(run)}{ended.text}"
    pieces += [ended, Piece(duration(seconds(run)) or "")]
    return [piece for piece in pieces if piece.text]


def outcome(run: Facts) -> Piece:
    """The run's outcome, or its ``state`` if it goes on."""
    status, stopped, by = run.get("exit_status"), run.get("stopped_early"), run.get("ended_by")
    if isinstance(status, int) and status < 0:
        by = by or signalled(-status)
    if by:
        return Piece(clean(by), "bad" if str(by).startswith("killed") else "warn")
    if "ended" not in run and status is None:
        state = clean(run.get("state") or "did not finish")
        return Piece(state, "good" if "state" in run else "bad")
    if stopped and not status:
        reason = f": {clean(stopped)}" if isinstance(stopped, str) else ""
        return Piece(f"stopped early{reason}", "warn")
    if status:
        # The exit status of an uncaught exception is always 1.
        error = cut(run.get("error") or f"exit status {clean(status)}", 120)
        return Piece(error, "bad")
    return Piece("finished", "good")


def seconds(run: Facts) -> float | None:
    """The run's duration by the monotonic clock, otherwise by the time of day."""
    told = number(run, "seconds")
    if told is not None:
        return told
    from datetime import datetime

    try:
        started, ended = (datetime.fromisoformat(run[k].rstrip("Z")) for k in ("started", "ended"))
        return (ended - started).total_seconds()
    except (KeyError, ValueError, AttributeError, TypeError):
        return None


# What was measured


def _tasks(run: Facts) -> Iterator[Row]:
    """The rows of each task: steps, rate, shares, loss."""
    tasks = {name: task for name, task in part(run, "tasks").items() if isinstance(task, dict)}
    main, kind = main_task(run), str(part(run, "job").get("kind") or "rank")
    for name, task in tasks.items():
        rows = [*_task(clean(name), task, task is main, clean(kind))]
        if "ranks" in task:
            from .job import of_task

            rows += of_task(run, task)
        for each in rows:
            if task is not main and each.depth:
                each.optional = _RATE if each.label in ("rate", "") else _OTHER
            yield each


def _task(name: str, task: Facts, main: bool, kind: str) -> Iterator[Row]:
    units = clean(task.get("units") or "items").removesuffix("/s")
    first = duration(task.get("first_step_seconds"))
    items = count(task.get("items"), units, units) if units != "steps" else None
    loss, steps = losses(task), count(task.get("steps"), "step")
    if steps is None and loss:
        steps = "no steps seen"  # The loss below then stands under its task's name.
    compiled, took = number(task, "compiled.steps") or 0, duration(at(task, "compiled.seconds"))
    again = f"{compiled:,.0f} compile, {took}" if compiled > 1 and took else None
    why = at(task, "items_unknown")
    if items is None and isinstance(why, str):
        items = "items unknown"
    yield row(name, steps, items, first and f"first step {first}", again, _pauses(task, main))
    yield from _rate(task)
    yield _step(task)
    yield from _time(task)
    lowest, bad = figure(at(task, "loss.min")), number(task, "loss.not_finite")
    rank = number(task, "loss.rank")  # Of a job.
    yield _sub(
        "loss",
        loss and Piece(loss, "bad" if number(task, "loss.last") is None else "bold"),
        loss and lowest and f"lowest {lowest}",
        f"of {kind} {rank:.0f}" if loss and rank is not None else None,
        Piece(f"{bad:,.0f} not finite", "bad") if loss and bad else None,
    )


def losses(task: Facts) -> str | None:
    """A task's first, last and lowest loss."""
    first, last = figure(at(task, "loss.first")), figure(at(task, "loss.last"))
    return f"{first} → {last}" if first is not None and last is not None else last


def _pauses(task: Facts, main: bool) -> str | None:
    times = count(number(task, "pause.count") or None, "pause")
    took, share = duration(at(task, "pause.seconds")), pause_share(task) if main else None
    worth = f", {percent(share)}" if share is not None and share >= 0.05 else ""
    return f"{times}, {took}{worth}" if times and took else times


def rate(task: Facts) -> list[str]:
    """The steady and the overall rate, labelled; the overall one alone without a steady one."""
    units = clean(task.get("units") or "items").removesuffix("/s")
    steady, wall = number(task, "rate.steady"), number(task, "rate.wall")
    shown = rates(steady, wall)
    if steady is None:
        return [f"{each} {units}/s overall" for each in shown]
    return [f"{shown[0]} {units}/s", *(f"{each} overall" for each in shown[1:])]


def _rate(task: Facts) -> Iterator[Row]:
    said, profiled = rate(task), number(task, "rate.profiled")
    # Detailed tracing has slowed these steps down.
    slow = Piece(f"{count(profiled, 'step')} profiled", "warn") if profiled else None
    yield _sub("rate", Piece(said[0], "bold") if said else None, _steady(task), *said[1:], slow)
    spread = rates(*(at(task, f"rate.{key}") for key in ("median", "q1", "q3")))
    if not spread:
        return
    median = f"median {spread[0]}"
    median += f" ({spread[1]}{TO}{spread[2]})" if len(spread) == 3 else ""
    n, skipped = number(task, "rate.n"), number(task, "rate.skipped")
    sample = f"n {n:,.0f}" if n is not None else ""
    sample += f", skipped {skipped:,.0f}" if sample and skipped is not None else ""
    clock = clean(at(task, "rate.clock") or "")
    # Only a device's clock is named.
    yield _sub("", median, sample, f"{clock} clock" if clock not in ("", HOST_CLOCK) else None)


def _step(task: Facts) -> Row:
    """The times of the steps in the rate."""
    kinds = {"median": "median", "p95": "p95", "p99": "p99", "max": "longest"}
    times = {name: duration(at(task, f"step_seconds.{key}")) for key, name in kinds.items()}
    return _sub("step", *(f"{name} {took}" for name, took in times.items() if took))


def _steady(task: Facts) -> Piece:
    verdict, start = clean(at(task, "steady.verdict") or ""), number(task, "steady.from_step")
    if verdict != "steady":
        return Piece(verdict, "warn")
    if at(task, "steady.late"):  # Not the end of --skip.
        return Piece(f"steady only from step {start or 0:,.0f}", "warn")
    return Piece(verdict if start is None else f"steady from step {start:,.0f}", "good")


def _time(task: Facts) -> Iterator[Row]:
    """Loading and compute, then the parts of a step; or the reason why they are unknown."""
    said = []
    for name in ("loading", "compute"):
        share, took = (at(task, f"{name}.{key}") for key in ("share", "seconds"))
        if shown := ", ".join(each for each in (percent(share), duration(took)) if each):
            said.append(f"{name} {shown}")
    loading = number(task, "loading.share")
    if loading is not None and len(said) == 2:
        said[0] = f"{_bar(loading)}  {said[0]}"
    yield _sub("time", *said)
    parts = {name: share for name, share in breakdown(task).items() if share >= 0.005}
    parts.pop("loading", None)
    if len(parts) > 1:
        label = "      └" if said else "time"
        yield _sub(label, *(f"{name} {100 * s:.0f} %" for name, s in parts.items()), optional=_TREE)


def _bar(share: float) -> str:
    filled = round(_BAR * min(max(share, 0.0), 1.0))
    # A part above zero gets at least one cell.
    filled = min(max(filled, 1 if share > 0 else 0), _BAR - (1 if share < 1 else 0))
    return "▒" * filled + "█" * (_BAR - filled)


def _sub(label: str, *pieces: Piece | str | None, optional: int = 0) -> Row:
    return row(label, *pieces, depth=1, style="", optional=optional)


def _progress(run: Facts, most: int) -> Iterator[Row]:
    """The state of the script's progress bars, unless steps show more."""
    for bar in entries(run, "progress")[: most or BARS] if most or not part(run, "tasks") else ():
        done, total, took = (number(bar, key) for key in ("done", "total", "seconds"))
        if done is not None:
            of = f"{done:,.0f}" + (f" of {total:,.0f}" if total is not None else "")
            pace = f"{rates(done / took)[0]}/s" if done and took else None
            yield row(clean(bar.get("task") or "progress"), of, pace)


def _values(run: Facts, most: int) -> Row:
    """The last value of each given key, and the best one if it differs."""
    own, most = part(run, "values"), most or OWN
    shown = []
    for name, of in list(own.items())[:most]:
        last, best = figure(at(of, "last")), figure(at(of, "best"))
        if last is not None:
            better = f", best {best}" if best not in (None, last) else ""
            shown.append(f"{clean(name)} {last}{better}")
    more = f"{len(own) - most} more in run.json" if len(own) > most else None
    return row("given", *shown, more and Piece(more, "dim"), optional=_VALUES)


def _machine(run: Facts) -> Iterator[Row]:
    """The loader's workers; load and memory of the host and of each device."""
    yield row("loader", _workers(run))
    yield row("host", _cpu(part(run, "host", "cpu")), _memory(run.get("host")))
    for index, device in enumerate(entries(run, "devices")):
        load = percent(at(device, "utilisation.mean"))
        power, limit = number(device, "power.mean"), number(device, "power.limit")
        of = f"/{limit:.0f} W" if limit else " W"
        held = part(device, "throttled").items()
        why = ", ".join(f"{clean(reason)} {percent(share) or ''}".strip() for reason, share in held)
        yield row(
            f"gpu {clean(device.get('index', index))}",
            clean(device.get("name") or device.get("kind") or ""),
            load and f"busy {load}",
            _memory(device),
            f"{power:.0f}{of}" if power is not None else None,
            Piece(f"throttled: {why}", "warn") if held else None,
        )


def _workers(run: Facts) -> str | None:
    """How busy the loader's workers are, and whether more would help."""
    n, busy = number(run, "loader_workers.count"), number(run, "loader_workers.busy")
    if n is None or busy is None:
        return None
    waits = number(main_task(run) or {}, "loading.share") or 0.0
    told = f"the {n:.0f} workers are" if n > 1 else "the worker is"
    told += f" {percent(busy)} busy"
    if busy >= WORKERS_FULL and waits >= LOADING_MATTERS:
        return f"{told}: more would help"
    return f"{told}: the loader is not the limit" if busy < WORKERS_IDLE > waits else told


def _cpu(cpu: Facts) -> str | None:
    mean, own, cores = number(cpu, "mean"), number(cpu, "process.mean"), cpu.get("cores")
    if mean is None:
        return f"script's cpu {own:.0f} %" if own is not None else None
    busy = f"{count(cores, 'core') or 'cpu'} busy {mean:.0f} %"
    return busy + (f", script {own:.0f} %" if own is not None else "")


def _memory(of: object) -> str | None:
    used = size(at(of, "memory.peak"), at(of, "memory.total"))
    own = size(at(of, "memory.process.peak"))
    if used is None:
        return own and f"script's memory {own}"
    return f"memory {used}" + (f", script {own}" if own else "")


def _verdict(run: Facts) -> Iterator[Row]:
    said = {key: clean(part(run, "diagnosis").get(key) or "") for key in ("verdict", "why", "next")}
    yield row("verdict", Piece(said["verdict"], "bold"), said["why"])
    yield _sub("next", said["next"])


# What went wrong


def _fired(run: Facts) -> Row:
    """The probes that fired, for a run without figures."""
    fired = [p for p in entries(run, "probes") if p.get("state") == "fired"]
    events = sum(number(probe, "fired") or 0 for probe in fired)
    return row("probes", f"{len(fired)} fired" if fired else None, count(events or None, "event"))


def _probes(run: Facts, most: int) -> Iterator[Row]:
    silent = [p for p in entries(run, "probes") if p.get("state") not in ("fired", None)]
    for probe in silent[: most or MOST]:
        state, where = clean(probe["state"]), _short(clean(probe.get("where") or ""))
        name = Piece(clean(probe.get("selector") or "a probe"), "bad")
        said = f"{state}, set at {where}" if where else state
        yield row("no data", name, said, clean(probe.get("hint") or ""), style="bad")
    yield _more(silent, "probes that captured nothing", most)


def _instruments(run: Facts, most: int) -> Iterator[Row]:
    failed = [i for i in entries(run, "instruments") if i.get("state") == "failed"]
    for one in failed[: most or MOST]:
        where = _short(clean(one.get("failed_at") or one.get("where") or ""))
        name = Piece(clean(one.get("name") or "an instrument"), "bad")
        # Its exception was reported at once; losses are known only at the end.
        said = f"at {where}" if where else clean(one.get("error") or "")
        yield row("failed", name, said, style="bad")
    yield _more(failed, "instruments that failed", most)


def _more(found: Sequence[object], what: str, most: int) -> Row:
    left = f"and {len(found) - MOST} more {what}: run.json names all of them"
    return row("", Piece(left, "dim") if len(found) > (most or MOST) else None)


# Cost and place


def _app(run: Facts, most: int) -> Row:
    """The user's own data."""
    own, most = part(run, "app"), most or OWN
    shown = [f"{clean(key)} {_value(value)}" for key, value in list(own.items())[:most]]
    more = f"{len(own) - most} more in run.json" if len(own) > most else None
    return row("app", *shown, more and Piece(more, "dim"), optional=_APP)


def _value(value: object) -> str:
    import json

    return cut(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False), 40)


def record(run: Facts) -> Iterator[Row]:
    """voir's own cost, and the run's directory."""
    cost, trace = part(run, "overhead"), part(run, "trace")
    share, took = percent(cost.get("share")), duration(cost.get("seconds"))
    outside, dropped = duration(cost.get("outside")), number(trace, "dropped")
    name = cut(clean(cost.get("recorder") or ""), 20)
    least = ", ".join(each for each in (share, took) if each)
    yield row(
        "own cost",
        least and f"at least {least}",
        f"{outside} outside the script" if outside else None,
        f"recorded in {name}, which is slower than C" if least and name not in ("", "C") else None,
    )
    where = _short(clean(trace.get("path") or ""))
    lost = Piece(f"{dropped:,.0f} dropped", "warn") if dropped else None
    yield row("trace", where, where and count(trace.get("events"), "event"), where and lost)
    yield row("record", _short(clean(run.get("directory") or "")))


def _short(path: str) -> str:
    """``path`` relative to the current directory, if it is inside."""
    try:
        here, relative = os.getcwd(), os.path.relpath(path)
    except (OSError, ValueError):
        return path
    # From the root every path would be relative.
    below = os.path.isabs(path) and not relative.startswith(os.pardir) and here != os.sep
    return relative if below else path
