"""``voir trace summary|view|export RUN``: a trace as figures, as a timeline, in other formats."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path

from ..errors import VoirError, clean
from ..files import is_own
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
from ..trace.writer import TRACE_NAME
from ..views.text import cells, cut, table
from .commands import CommandParser, Terminal, within
from .runs import RUN_HELP, finished_run, run_directory

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..trace.viewer import Viewer

#: What the traces of a job are called together.
MERGED = "ranks.pftrace"
#: Labels, and lines of call trees, that are shown unless told.
TOP = 30
#: How many spans within each other call trees show.
MAX_TREE_DEPTH = 18
#: Units of bytes.
BYTE_UNITS = ("B", "B/s")
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
    yield from {"summary": _summary, "export": _export, "view": _view}[options.what](options)


def _finish(run: Path) -> None:
    """Make the trace of which there is only the log: of a killed run, or of one that goes on."""
    if not run.is_dir() and not (run.suffix == ".log" and run.exists()):
        return
    shown = Progress(sys.stderr)
    try:
        with suppress(VoirError):  # A trace can be looked at without a run.
            finished_run(run, shown)
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

    def part(name: str, what: str) -> Callable[..., object]:
        one = commands.add_parser(name, help=what, example=example)
        one.add_argument("run", metavar="RUN", nargs="?", help=RUN_HELP)
        return one.add_argument

    add = part("summary", "what the labels come to, and which spans lie within which")
    whole = within(1, 1 << 31, "whole number from 1", int)
    add("--top", type=whole, default=TOP, metavar="N", help="lines to show")
    add = part("view", "open it in Perfetto's viewer, on this machine")
    add("--port", type=int, default=0, help="where to listen (any)")
    add("--no-browser", action="store_true", help="only say the address")
    add = part("export", "write it as JSON, for TensorBoard, or the ranks of a job as one file")
    add("--to", choices=(*_EXPORTS,),
        help="its format; without it, that of PATH, or trace.pftrace is made")  # fmt: skip
    add("--output", "-o", metavar="PATH", help="the file, or directory")
    return made


# The summary


def _summary(options: Namespace) -> Iterator[str]:
    yield summary(open_trace(options.run), options.top)


def summary(trace: Trace, top: int) -> str:
    """The trace in figures."""
    parts = [_first_lines(trace), _labels(by_label(trace), top), _trees(trace, top)]
    return "\n".join(part for part in [*parts, _counters(trace)] if part)


def _first_lines(trace: Trace) -> str:
    start, end = extent(trace)
    processes = count(len(trace.processes), "process", "processes")
    size = f"{count(trace.events, 'event')} · {elapsed(end - start)} · {processes}"
    lines = [f"{clean(trace.path.name)} · {size} · {count(len(trace.threads), 'row')}"]
    if trace.dropped:
        lines.append(f"{trace.dropped:,} events were dropped when it was written")
    if trace.torn_bytes or trace.broken_packets:
        unread = f"{trace.torn_bytes:,} bytes and {trace.broken_packets:,} packets"
        lines.append(f"damaged: {unread} could not be read")
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


def _line(name: str, number: str, text: str) -> str:
    return f"{name}{' ' * (44 - cells(name))} {number:>8}  {text}"


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
    total = elapsed(node.total) if node.count else "-"
    yield _line(name, _number(node), f"{total:>9}") if depth else name
    if depth == MAX_TREE_DEPTH and node.children:
        yield "  " * (depth + 1) + "…"
        return
    for child in sorted(node.children.values(), key=lambda one: -one.total):
        yield from _branches(child, depth + 1)


def _counters(trace: Trace) -> str:
    lines = []
    for name, counter in sorted(trace.counters.items()):
        values, unit = counter.values, counter.unit
        if values:
            ends = values[0], values[-1], min(values), max(values)
            if unit in BYTE_UNITS:
                shown, unit = [f"{size(each)}{unit[1:]}" for each in ends], ""
            else:
                shown = [str(figure(each)) for each in ends]
            first, last, least, most = shown
            text = f"{first} → {last}, from {least} to {most} {clean(unit)}".rstrip()
            lines.append(_line(cut(name, 40), f"{len(values):,}", text))
    return "\n".join(lines) + "\n" if lines else ""


def elapsed(nanoseconds: float) -> str:
    """``820 ns``, ``3.10 us``, ``42.3 ms``, ``12.8 s``: three digits."""
    for many, unit in ((1e9, "s"), (1e6, "ms"), (1e3, "us")):
        if nanoseconds >= many * 0.9995:
            value = nanoseconds / many
            decimals = 2 if value < 9.995 else 1 if value < 99.95 else 0
            return f"{value:,.{decimals}f} {unit}"
    return f"{nanoseconds:.0f} ns"


# The others


def _export(options: Namespace) -> Iterator[str]:
    written = found = trace_files(options.run)
    place = found[0].parent if len(found) == 1 else Path(options.run)
    if options.output is None and not is_own(place):
        what = f"{place} belongs to another user, and nothing is written there"
        raise VoirError("export-unwritable", what, "Name another place: -o PATH.")
    try:
        to = options.to
        if to is None and options.output is not None:
            to = "json" if options.output.endswith(".json") else "perfetto"
        if to is not None:
            written = _EXPORTS[to](found, place, options.output)
    except OSError as error:
        where = getattr(error, "filename", None) or options.output or place
        what = f"{where} cannot be written: {error.strerror or error}"
        raise VoirError("export-unwritable", what, "Name another place: -o PATH.") from None
    yield "".join(f"{each}\n" for each in written)


def _json(found: list[Path], place: Path, output: str | None) -> list[Path]:
    from ..trace.export import export_json

    what = found[0] if len(found) == 1 else place / TRACE_NAME
    to = Path(output or what.with_suffix(".json"))
    export_json(open_trace(what if what in found else place), to)
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
    from tempfile import TemporaryDirectory

    from ..trace.viewer import Viewer

    found = trace_files(options.run)
    with TemporaryDirectory(prefix="voir-") as directory:
        file = found[0] if len(found) == 1 else _perfetto(found, Path(directory), None)[0]
        try:
            viewer = Viewer(file, options.port)
        except (OSError, OverflowError) as error:
            why = getattr(error, "strerror", None) or error
            what, remedy = f"port {options.port} cannot be used: {why}", "any free one is taken."
            raise VoirError("port-taken", what, f"Leave --port out: {remedy}") from None
        yield from _served(viewer, options)


def _served(viewer: Viewer, options: Namespace) -> Iterator[str]:
    yield f"{viewer.address}\nInterrupt with Ctrl-C when you have seen enough.\n"
    sys.stdout.flush()
    if not options.no_browser:
        import webbrowser

        webbrowser.open(viewer.address)
    try:
        viewer.serve()
    except KeyboardInterrupt:
        yield "\n"
