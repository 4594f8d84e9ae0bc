"""What a run measured, as rows: its tasks, the machine, the verdicts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ..measure.diagnosis import main_task
from ..measure.parts import as_parts, breakdown, part
from .amounts import count, duration, figure, gibibytes, number, percent, rates
from .rows import TO, Piece, Row, clean, row

_BAR = 16
#: What goes first where there is too little room: the highest.
OTHER, HOST, RATE, TREE, TASK = 6, 5, 4, 3, 2
#: Labels of the rows of a rate: with its verdict, and how its steps spread.
_RATES = ("rate", "")
#: What parts of a step are called on a screen.
_NAMES = {"transfer": "copy"}
#: How many progress bars are shown.
_BARS = 4


def entries(of: Mapping[str, Any], key: str) -> list[Mapping[str, Any]]:
    """The mappings in the list under ``key``."""
    found = of.get(key)
    return [e for e in found if isinstance(e, Mapping)] if isinstance(found, list) else []


def tasks(run: Mapping[str, Any]) -> Iterator[Row]:
    """Steps, rate, shares and loss of each task."""
    shown = [(name, task) for name, task in part(run, "tasks").items() if isinstance(task, Mapping)]
    main = main_task(run)
    for name, task in shown:
        rows = _task(clean(name), task, task is main)
        yield from rows if task is main or len(shown) == 1 else map(_spare, rows)


def _spare(row: Row) -> Row:
    """A row of a task that is not the main one: its rate goes last, but for its name."""
    if not row.depth:
        return row._replace(spare=TASK)
    return row._replace(spare=RATE if row.label in _RATES else OTHER + row.spare)


def progress(run: Mapping[str, Any]) -> Iterator[Row]:
    """How far the script's progress bars got, unless steps tell more."""
    if part(run, "tasks"):
        return
    for bar in entries(run, "progress")[:_BARS]:
        done, total, seconds = (number(bar.get(key)) for key in ("done", "total", "seconds"))
        if done is not None:
            of = f"{done:,.0f}" + (f" of {total:,.0f}" if total is not None else "")
            pace = rates(done / seconds) if done and seconds else []
            yield row(clean(bar.get("task") or "progress"), of, *(f"{each}/s" for each in pace))


def _task(name: str, task: Mapping[str, Any], main: bool) -> Iterator[Row]:
    units = clean(task.get("units") or "items").removesuffix("/s")
    first = duration(task.get("first_step_seconds"))
    items = count(task.get("items"), units, units) if units != "steps" else None
    steps, pauses = count(task.get("steps"), "step"), _pauses(task, main)
    if steps is None and _path(part(task, "loss")):
        steps = "no steps seen"  # So that the loss below stands under its task's name.
    compiled = _compiled(part(task, "compiled"))
    yield row(name, steps, items, first and f"first step {first}", compiled, pauses)
    yield _rate(part(task, "rate"), part(task, "steady"), units)
    yield _spread(part(task, "rate"))
    time = _time(task)
    yield time
    yield _tree(task, below=bool(time.pieces))
    yield _loss(part(task, "loss"), part(task, "losses"))


def _rate(rate: Mapping[str, Any], steady: Mapping[str, Any], units: str) -> Row:
    verdict = Piece(*_verdict(steady))
    shown, now = rates(rate.get("steady"), rate.get("wall")), rates(rate.get("now"))
    if now:  # Of a run that goes on.
        return _sub("rate", Piece(f"{now[0]} {units}/s", "bold"), "in the last window")
    # What was looked at in detail was slower than it is by itself.
    steps = count(rate.get("profiled"), "step")
    profiled = Piece(f"{steps} profiled", "warn") if steps else None
    if len(shown) == 2:
        steady_rate = Piece(f"{shown[0]} {units}/s", "bold")
        return _sub("rate", steady_rate, verdict, f"{shown[1]} overall", profiled)
    overall = " overall" if number(rate.get("steady")) is None else ""
    best = Piece(f"{shown[0]} {units}/s{overall}", "bold") if shown else None
    return _sub("rate", best, verdict, profiled)


def _verdict(steady: Mapping[str, Any]) -> tuple[str, str]:
    verdict = clean(steady.get("verdict") or "")
    start = number(steady.get("from_step"))
    if verdict.startswith("steady"):
        if steady.get("late"):  # And not from where --skip ends.
            return f"steady only from step {start or 0:,.0f}", "warn"
        return (f"steady from step {start:,.0f}" if start is not None else verdict), "good"
    return verdict, "warn"


def _spread(rate: Mapping[str, Any]) -> Row:
    values = rates(rate.get("median"), rate.get("q1"), rate.get("q3"))
    if not values:
        return row("")
    median = f"median {values[0]}" + (f" ({values[1]}{TO}{values[2]})" if values[2:] else "")
    steps, skipped = number(rate.get("n")), number(rate.get("skipped"))
    sample = f"n {steps:,.0f}" if steps is not None else ""
    sample += f", skipped {skipped:,.0f}" if sample and skipped is not None else ""
    clock = f"{clean(rate['clock'])} clock" if rate.get("clock") else None
    return _sub("", median, sample, clock)


def _time(task: Mapping[str, Any]) -> Row:
    parts = {name: part(task, name) for name in ("loading", "compute")}
    shares = [text for name, part in parts.items() if (text := _share(name, part))]
    share = number(parts["loading"].get("share"))
    if share is not None and len(shares) == 2:
        shares[0] = f"{_bar(share)}  {shares[0]}"
    return _sub("time", *shares)


def _share(name: str, part: Mapping[str, Any]) -> str | None:
    shown, took = percent(part.get("share")), duration(part.get("seconds"))
    if shown is None:
        return f"{name} {took}" if took else None
    return f"{name} {shown}" + (f", {took}" if took else "")


def _bar(share: float) -> str:
    filled = round(_BAR * min(max(share, 0.0), 1.0))
    # Something that is there shows, however little it is.
    filled = min(max(filled, 1 if share > 0 else 0), _BAR - (1 if share < 1 else 0))
    return "▒" * filled + "█" * (_BAR - filled)


def _tree(task: Mapping[str, Any], below: bool) -> Row:
    """The parts of the compute above it; of all of a step, like the shares of that row.

    Args:
        task: The task.
        below: There is that row; else this one stands in its place.
    """
    shares = breakdown(task)
    shares.pop("loading", None)
    known = [(_NAMES.get(name, name), share) for name, share in shares.items() if share >= 0.005]
    if len(known) < 2:
        return row("")
    label = "      └" if below else "time"
    return _sub(label, *(f"{name} {100 * s:.0f} %" for name, s in known))._replace(spare=TREE)


def _pauses(task: Mapping[str, Any], main: bool) -> str | None:
    pause = part(task, "pause")
    times, took = count(pause.get("count"), "pause"), duration(pause.get("seconds"))
    if not number(pause.get("count")):
        return None
    parts = as_parts(task)
    worth = main and parts is not None and parts.pause >= 0.05
    share = f", {percent(parts.pause)}" if worth and parts is not None else ""
    return f"{times}, {took}{share}" if took else times


def _compiled(compiled: Mapping[str, Any]) -> str | None:
    """Steps in which something was compiled; the first one alone needs no word."""
    steps, took = number(compiled.get("steps")) or 0, duration(compiled.get("seconds"))
    return f"{steps:,.0f} compile, {took}" if steps > 1 and took else None


def _loss(loss: Mapping[str, Any], others: Mapping[str, Any]) -> Row:
    """The loss, and those of other optimizers of the same steps."""
    path, broken = _path(loss), number(loss.get("last")) is None
    if path is None:
        return row("")
    least, lost = figure(loss.get("min")), number(loss.get("not_finite"))
    bad = Piece(f"{lost:,.0f} not finite", "bad") if lost else None
    more = (f"of {clean(name)}: {_path(part(others, name))}" for name in others)
    return _sub(
        "loss", Piece(path, "bad" if broken else "bold"), least and f"lowest {least}", bad, *more
    )


def _path(loss: Mapping[str, Any]) -> str | None:
    first, last = figure(loss.get("first")), figure(loss.get("last"))
    return f"{first} → {last}" if first is not None and last is not None else last


def _sub(label: str, *pieces: Piece | str | None) -> Row:
    return row(label, *pieces, depth=1, style="")


def machine(run: Mapping[str, Any]) -> Iterator[Row]:
    """Load and memory of the host, and each device."""
    host = part(run, "host")
    yield row("host", _cpu(part(host, "cpu")), _memory(part(host, "memory")), spare=HOST)
    for index, device in enumerate(entries(run, "devices")):
        yield _device(index, device)


def _cpu(cpu: Mapping[str, Any]) -> str | None:
    mean, cores = number(cpu.get("mean")), count(cpu.get("cores"), "core")
    own = number(part(cpu, "process").get("mean"))
    if mean is None:
        return f"script's cpu {own:.0f} %" if own is not None else None
    script = f" (script {own:.0f} %)" if own is not None else ""
    return f"cpu {mean:.0f} %{script}" + (f" of {cores}" if cores else "")


def _memory(memory: Mapping[str, Any]) -> str | None:
    used = gibibytes(memory.get("peak"), memory.get("total"))
    own = gibibytes(part(memory, "process").get("peak"))
    if used is None:
        return f"script's memory {own}" if own else None
    return f"memory {used}" + (f" (script {own.removesuffix(' GiB')})" if own else "")


def _device(index: int, device: Mapping[str, Any]) -> Row:
    number_ = device.get("index", index)
    load = percent(part(device, "utilisation").get("mean"))
    power, limit = (number(part(device, "power").get(key)) for key in ("mean", "limit"))
    watts = f"{power:.0f}" + (f"/{limit:.0f} W" if limit else " W") if power is not None else None
    return row(
        f"gpu {clean(number_)}",
        clean(device.get("name") or device.get("kind") or ""),
        load and f"busy {load}",
        _memory(part(device, "memory")),
        watts,
        *_throttled(device.get("throttled")),
    )


def _throttled(reasons: object) -> Iterator[Piece]:
    if isinstance(reasons, Mapping) and reasons:
        each = (f"{clean(reason)} {percent(share) or ''}" for reason, share in reasons.items())
        yield Piece(f"throttled: {', '.join(each)}".strip(), "warn")


def verdicts(run: Mapping[str, Any]) -> Iterator[Row]:
    """The diagnosis, and how many checks passed."""
    diagnosis = part(run, "diagnosis")
    yield row(
        "verdict",
        Piece(clean(diagnosis.get("verdict") or ""), "bold"),
        clean(diagnosis.get("why") or ""),
    )
    yield _sub("next", clean(diagnosis.get("next") or ""))
    checks = entries(run, "verify")
    results = [str(check.get("verdict")) for check in checks]
    styles = {"PASS": "good", "FAIL": "bad", "SKIP": "dim"}
    yield row(
        "verify",
        *(
            Piece(f"{results.count(kind)} {kind}", style)
            for kind, style in styles.items()
            if kind in results
        ),
    )
