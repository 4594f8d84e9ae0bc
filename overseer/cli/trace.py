"""``voir trace summary|view|export RUN``: what is in a trace, seen, and handed on."""

from __future__ import annotations

import sys
from argparse import ArgumentTypeError, Namespace
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from ..errors import VoirError
from ..model.amounts import count, figure, size
from ..trace.reading import (
    LabelFigures,
    Node,
    Thread,
    Trace,
    by_label,
    call_tree,
    extent,
    finish,
    open_trace,
    rank_of,
    trace_files,
)
from ..trace.rows import Progress
from ..views.text import cells, clean, cut, table
from .commands import CommandParser, Terminal
from .runs import RUN, run_directory

#: What the traces of a job are called together.
MERGED = "ranks.pftrace"
#: Labels, and lines of call trees, that are shown unless told.
TOP = 30
#: How many spans within each other call trees show.
DEEPEST = 18
#: Units of bytes.
BYTES = ("B", "B/s")
_HEAD = ("label", "channel", "count", "total", "min", "mean", "p95", "max")


def trace(argv: list[str], terminal: Terminal) -> Iterator[str]:
    """Do what ``voir trace`` asks for; what to print.

    Args:
        argv: What follows ``voir trace``.
        terminal: Tables are as wide as they are.

    Raises:
        VoirError: There is no trace, or it cannot be shown or written.
    """
    options = parser().parse_args(argv)
    options.run = run_directory(options.run)
    _finish(options.run)
    if options.what == "summary":
        yield summary(open_trace(options.run), options.top)
    elif options.what == "export":
        yield _export(options)
    else:
        yield from _view(options)


def _finish(run: Path) -> None:
    """Make the trace of which a killed run has left only the log; say so where that takes long."""
    if not run.is_dir() and not (run.suffix == ".log" and run.exists()):
        return
    shown = Progress(sys.stderr)
    try:
        finish(run, shown)
    except OSError as error:
        what = f"the trace of {run} cannot be made: {error.strerror or error}"
        raise VoirError("trace-unwritable", what, "Copy the run to where you can write.") from None
    finally:
        shown.close()


def parser() -> CommandParser:
    """What ``voir trace`` takes."""
    example = "voir trace summary voir-runs/RUN"
    about = "Look at the trace that voir --trace wrote."
    made = CommandParser(prog="voir trace", description=about, example=example)
    commands = made.add_subparsers(dest="what", required=True, metavar="summary|view|export")
    parts = {
        "summary": "what the labels come to, and which spans lie within which",
        "view": "open it in Perfetto's viewer, on this machine",
        "export": "write it as JSON, for TensorBoard, or the ranks of a job as one file",
    }
    for name, what in parts.items():
        commands.add_parser(name, help=what, example=example)
    each_of = commands.choices
    for each in each_of.values():
        each.add_argument("run", metavar="RUN", nargs="?", help=RUN)
    each_of["summary"].add_argument(
        "--top", type=_positive, default=TOP, metavar="N", help="lines to show"
    )
    each_of["view"].add_argument("--port", type=int, default=0, help="where to listen (any)")
    each_of["view"].add_argument("--no-browser", action="store_true", help="only say the address")
    each_of["export"].add_argument(
        "--to", choices=(*_EXPORTS,), help="its format; without it, trace.pftrace is made"
    )
    each_of["export"].add_argument("--output", "-o", metavar="PATH", help="the file, or directory")
    return made


def _positive(text: str) -> int:
    """A number of lines."""
    if not text.isdecimal() or not int(text):
        raise ArgumentTypeError(f"{text!r} is no whole number from 1")
    return int(text)


# The summary


def summary(trace: Trace, top: int = TOP) -> str:
    """The trace in figures."""
    parts = [_first_lines(trace), _labels(by_label(trace), top), _trees(trace, top)]
    return "\n".join(part for part in [*parts, _counters(trace)] if part)


def _first_lines(trace: Trace) -> str:
    start, end = extent(trace)
    pieces = [
        clean(trace.path.name),
        count(trace.events, "event") or "",
        elapsed(end - start),
        count(len(trace.processes), "process", "processes") or "",
        count(len(trace.threads), "row") or "",
    ]
    lines = [" · ".join(pieces)]
    if trace.dropped:
        lines.append(f"{trace.dropped:,} events were dropped when it was written")
    if trace.torn_bytes or trace.broken_packets:
        lines.append(
            f"damaged: {trace.torn_bytes:,} bytes and {trace.broken_packets:,} packets "
            "could not be read"
        )
    if trace.hosts > 1:
        lines.append(f"of {trace.hosts} machines, whose clocks may differ")
    if trace.unfinished:
        lines.append(f"{count(trace.unfinished, 'span')} without an end")
    return "\n".join(lines) + "\n"


def _labels(figures: list[LabelFigures], top: int) -> str:
    if not figures:
        return ""
    shown = table([_HEAD, *map(_row, figures[:top])], [False, False, *[True] * 6])
    left = len(figures) - top
    return shown + (f"and {left:,} labels more: --top {len(figures)}\n" if left > 0 else "")


def _row(one: LabelFigures) -> tuple[str, ...]:
    times = (one.total, one.min, one.mean, one.p95, one.max)
    texts = [elapsed(time) if one.count else "-" for time in times]
    return cut(one.label, 40), cut(one.channel, 20), _number(one), *texts


def _number(one: LabelFigures | Node) -> str:
    """How many spans there are: those that have ended, and those that have not."""
    return f"{one.count:,}" + (f"+{one.unfinished:,}" if one.unfinished else "")


def _left(text: str, width: int) -> str:
    return text + " " * (width - cells(text))


def _trees(trace: Trace, top: int) -> str:
    rows = [thread for thread in trace.threads if thread.slices]
    parts = ["\n".join(_tree(thread, top)) for thread in rows[:top]]
    if len(rows) > top:
        parts.append(f"and {len(rows) - top:,} rows more: --top {len(rows)}")
    return "\n".join(parts) + "\n" if parts else ""


def _tree(thread: Thread, top: int) -> list[str]:
    lines = list(islice(_branches(call_tree(thread), 0), top + 2))
    return lines if len(lines) < top + 2 else [*lines[: top + 1], "  …"]


def _branches(node: Node, depth: int) -> Iterator[str]:
    name = "  " * depth + cut(node.label, min(40, 44 - 2 * depth))
    if depth == 0:
        yield name
    else:
        total = elapsed(node.total) if node.count else "-"
        yield f"{_left(name, 44)} {_number(node):>8}  {total:>9}"
    if depth == DEEPEST and node.children:
        yield "  " * (depth + 1) + "…"
    elif node.children:
        for child in sorted(node.children.values(), key=lambda one: -one.total):
            yield from _branches(child, depth + 1)


def _counters(trace: Trace) -> str:
    lines = []
    for name, counter in sorted(trace.counters.items()):
        values = counter.values
        if values:
            first, last, least, most = (
                _amount(each, counter.unit)
                for each in (values[0], values[-1], min(values), max(values))
            )
            unit = counter.unit if counter.unit not in BYTES else ""
            text = f"{first} → {last}, from {least} to {most} {clean(unit)}".rstrip()
            lines.append(f"{_left(cut(name, 40), 44)} {len(values):>8,}  {text}")
    return "\n".join(lines) + "\n" if lines else ""


def _amount(value: float, unit: str) -> str | None:
    """A number, or bytes with a unit of their size."""
    if unit not in BYTES:
        return figure(value)
    return f"{size(value)}{unit[1:]}"


def elapsed(nanoseconds: float) -> str:
    """``820 ns``, ``3.10 us``, ``42.3 ms``, ``12.8 s``: three digits."""
    for many, unit in ((1e9, "s"), (1e6, "ms"), (1e3, "us")):
        if nanoseconds >= many * 0.9995:
            return f"{_digits(nanoseconds / many)} {unit}"
    return f"{nanoseconds:.0f} ns"


def _digits(value: float) -> str:
    decimals = 2 if value < 9.995 else 1 if value < 99.95 else 0
    return f"{value:,.{decimals}f}"


# The others


def _export(options: Namespace) -> str:
    found = trace_files(options.run)
    place = found[0].parent if len(found) == 1 else Path(options.run)
    if options.to is None:
        return "".join(f"{each}\n" for each in found)
    try:
        written = _EXPORTS[options.to](found, place, options.output)
    except OSError as error:
        where = getattr(error, "filename", None) or options.output or place
        what = f"{str(where).removesuffix('.part')} cannot be written: {error.strerror or error}"
        raise VoirError("export-unwritable", what, "Name another place: -o PATH.") from None
    return "".join(f"{each}\n" for each in written)


def _json(found: list[Path], place: Path, output: str | None) -> list[Path]:
    from ..trace.export import export_json

    alone = found[0].with_suffix(".json") if len(found) == 1 else place / "trace.json"
    to = Path(output or alone)
    export_json(open_trace(found[0] if len(found) == 1 else place), to)
    return [to]


def _tensorboard(found: list[Path], place: Path, output: str | None) -> list[Path]:
    from ..trace.export import export_tensorboard

    to, written = Path(output or place / "tensorboard"), []
    for file in found:
        read = open_trace(file)
        rank = rank_of(read)
        written.append(export_tensorboard(read, to, rank, max(len(found), rank + 1)))
    return written


def _perfetto(found: list[Path], place: Path, output: str | None) -> list[Path]:
    from ..trace.export import merge

    to = Path(output or place / MERGED)
    merge(found, to)
    return [to]


#: How each kind of file is written: of which traces, where, or where instead.
_EXPORTS = {"json": _json, "tensorboard": _tensorboard, "perfetto": _perfetto}


def _view(options: Namespace) -> Iterator[str]:
    found = trace_files(options.run)
    if len(found) == 1:
        yield from _served(found[0], options)
        return
    from tempfile import TemporaryDirectory

    with TemporaryDirectory(prefix="voir-") as directory:
        yield from _served(_perfetto(found, Path(directory), None)[0], options)


def _served(file: Path, options: Namespace) -> Iterator[str]:
    from ..trace.viewer import Viewer

    try:
        viewer = Viewer(file, options.port)
    except (OSError, OverflowError) as error:
        what = f"port {options.port} cannot be used: {getattr(error, 'strerror', None) or error}"
        raise VoirError("port-taken", what, "Leave --port out: any free one is taken.") from None
    yield f"{viewer.address}\nInterrupt with Ctrl-C when you have seen enough.\n"
    sys.stdout.flush()
    if not options.no_browser:
        import webbrowser

        webbrowser.open(viewer.address)
    try:
        viewer.serve()
    except KeyboardInterrupt:
        yield "\n"
