"""``voir trace summary|view|export RUN``: shows and exports a trace; ``--steps`` begins one."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path

from ..errors import VoirError, clean
from ..files import is_own
from ..model.facts import count, figure, size
from ..recorder.log import read_header
from ..recorder.sites import WORD_STEPS, WORD_TRACE
from ..trace.digest import by_rank_total, summed
from ..trace.finishing import finish
from ..trace.reading import (
    LabelFigures,
    Node,
    Thread,
    Trace,
    by_label,
    by_process,
    call_tree,
    extent,
    rank_of,
    read_trace,
    trace_files,
)
from ..trace.rows import Progress
from ..trace.timeline import Timeline
from ..trace.writer import TRACE_NAME
from ..views.text import cells, cut, table
from .commands import CommandParser, Terminal, within
from .live import LIVE_HELP, live_job, request, short
from .runs import RUN_HELP, finished_run, run_directory

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..trace.viewer import Viewer

#: File name of a job's merged traces.
MERGED = "ranks.pftrace"
#: Steps of a live run that are traced at most.
_MAX_STEPS = 10_000
#: Default number of labels, and of lines in each call tree.
TOP = 30
#: Nesting levels shown in call trees.
MAX_TREE_DEPTH = 18
#: Units of bytes.
BYTE_UNITS = ("B", "B/s")
_HEAD = ("label", "channel", "count", "total", "min", "mean", "p95", "max")


def trace(argv: list[str], terminal: Terminal) -> Iterator[str]:
    """Run a command of ``voir trace``; yield the output.

    Args:
        argv: The arguments of ``voir trace``.
        terminal: The output's terminal; tables ignore its width.

    Raises:
        VoirError: There is no trace, or it cannot be shown or written.
    """
    if any(each == "--steps" or each.startswith("--steps=") for each in argv):
        yield _begin(argv)
        return
    options = parser().parse_args(argv)
    options.run = run_directory(options.run)
    _finish(options.run)
    yield from {"summary": _summary, "export": _export, "view": _view}[options.what](options)


def _begin(argv: list[str]) -> str:
    """Start to trace some steps of a live run."""
    example = "voir trace voir-runs/RUN --steps 5"
    about = "Trace the next steps of a live run in detail."
    made = CommandParser(prog="voir trace", description=about, example=example)
    made.add_argument("run", metavar="RUN", nargs="?", help=LIVE_HELP)
    number = within(1, _MAX_STEPS, f"number of steps up to {_MAX_STEPS:,}", int)
    made.add_argument("--steps", type=number, required=True, metavar="N", help="number of steps")
    options = made.parse_args(argv)
    path, asked = live_job(options.run)
    request(asked, WORD_TRACE, options.steps)
    who = f"{len(asked)} ranks trace" if len(asked) > 1 else "the run traces"
    steps = count(options.steps, "step")
    seen = any((found := read_header(str(each))) and found.control[WORD_STEPS] for each in asked)
    note = "" if seen else "no step of it has been seen so far\n"
    return f"{who} the next {steps}; once they are done: voir trace view {short(path)}\n{note}"


def _finish(run: Path) -> None:
    """Write the trace of a run that has only the log, because it was killed or is running."""
    if not run.is_dir() and not (run.suffix == ".log" and run.exists()):
        return
    shown = Progress(sys.stderr)
    try:
        with suppress(VoirError):  # A trace can be shown without its run.
            finished_run(run, shown)
        finish(run, shown)
    except OSError as error:
        what = f"the trace of {run} cannot be written: {error.strerror or error}"
        raise VoirError("trace-unwritable", what, "Copy the run to a writable directory.") from None
    finally:
        shown.close()


def parser() -> CommandParser:
    """The parser of ``voir trace``."""
    example = "voir trace summary voir-runs/RUN"
    about = (
        "Show or export the trace that voir --trace wrote. Of a live run, also of one that was "
        "started without, `voir trace RUN --steps 5` traces the next steps."
    )
    made = CommandParser(prog="voir trace", description=about, example=example)
    commands = made.add_subparsers(dest="what", required=True, metavar="summary|view|export")

    def part(name: str, what: str) -> Callable[..., object]:
        one = commands.add_parser(name, help=what, example=example)
        one.add_argument("run", metavar="RUN", nargs="?", help=RUN_HELP)
        return one.add_argument

    add = part("summary", "show times by label, and the call tree of each thread")
    whole = within(1, 1 << 31, "whole number from 1", int)
    add("--top", type=whole, default=TOP, metavar="N", help="lines to show")
    add = part("view", "open it in Perfetto's viewer, served from this machine")
    add("--port", type=int, default=0, help="port to listen on (default: any free port)")
    add("--no-browser", action="store_true", help="only print the address")
    add = part("export", "convert it to JSON or for TensorBoard, or merge the ranks of a job")
    add("--to", choices=(*_EXPORTS,),
        help="output format (default: by PATH, else trace.pftrace is written)")  # fmt: skip
    add("--output", "-o", metavar="PATH", help="output file or directory")
    return made


# Summary


def _summary(options: Namespace) -> Iterator[str]:
    files = trace_files(options.run)
    if len(files) == 1:
        yield summary(read_trace(files[0]), options.top)
    else:
        yield job_summary(Timeline(files), Path(options.run), options.top)


def summary(trace: Trace, top: int) -> str:
    """The summary of a trace."""
    start, end = extent(trace)
    counts = len(trace.processes), len(trace.threads)
    lines = [_first_line(trace.path, trace.events, end - start, *counts)]
    lines += _faults(trace.dropped, trace.torn_bytes, trace.broken_packets)
    if trace.unfinished:
        lines.append(f"{count(trace.unfinished, 'span')} without an end")
    figures = by_label(trace)
    parts = ["\n".join(lines) + "\n", _labels(figures, top)]
    if len(trace.processes) > 1:
        parts.append(_processes(figures[:top], by_process(trace)))
    return "\n".join(filter(None, [*parts, _trees(trace, top), _counters(trace)]))


def job_summary(timeline: Timeline, job: Path, top: int) -> str:
    """The summary of a job's traces."""
    start, end = timeline.extent
    digests = timeline.digests
    events, rows = (sum(getattr(one, name) for one in digests) for name in ("events", "rows"))
    lines = [_first_line(job, events, end - start, len(digests), rows), *timeline.said]
    lines += _faults(sum(one.dropped for one in digests), sum(one.torn for one in digests), 0)
    figures = summed(digests)
    parts = ["\n".join(lines) + "\n", _labels(figures, top)]
    parts.append(_processes(figures[:top], by_rank_total(digests)))
    one = clean(str(timeline.files[0].parent))
    parts.append(f"call trees and counters of one rank: voir trace summary {one}\n")
    return "\n".join(filter(None, parts))


def _first_line(path: Path, events: int, ns: int, processes: int, rows: int) -> str:
    size = f"{count(events, 'event')} · {elapsed(ns)} · {count(processes, 'process', 'processes')}"
    return f"{clean(path.name)} · {size} · {count(rows, 'row')}"


def _faults(dropped: int, torn: int, broken: int) -> list[str]:
    lines = [f"{dropped:,} events were dropped while recording"] if dropped else []
    if torn or broken:
        lines.append(f"damaged: {torn:,} bytes and {broken:,} packets could not be read")
    return lines


def _labels(figures: list[LabelFigures], top: int) -> str:
    if not figures:
        return ""
    shown = table([_HEAD, *map(_row, figures[:top])], [False, False, *[True] * 6])
    left = len(figures) - top
    return shown + (f"and {left:,} more labels: --top {len(figures)}\n" if left > 0 else "")


def _processes(
    figures: list[LabelFigures], totals: dict[tuple[str, str], list[tuple[int, str]]]
) -> str:
    """Of each label, the processes with the shortest and the longest total time."""
    rows = [("label", "channel", "least", "in", "most", "in")]
    for one in figures:
        times = totals[one.label, one.channel]
        (least, first), (most, last) = times[0], times[-1]
        rows.append((cut(one.label, 40), cut(one.channel, 20), elapsed(least), cut(first, 24),
                     elapsed(most), cut(last, 24)))  # fmt: skip
    return table(rows, [False, False, True, False, True, False])


def _row(one: LabelFigures) -> tuple[str, ...]:
    times = (one.total, one.min, one.mean, one.p95, one.max)
    texts = [elapsed(time) if one.count else "-" for time in times]
    return cut(one.label, 40), cut(one.channel, 20), _number(one), *texts


def _number(one: LabelFigures | Node) -> str:
    """Number of finished spans, and of unfinished ones."""
    return f"{one.count:,}" + (f"+{one.unfinished:,}" if one.unfinished else "")


def _line(name: str, number: str, text: str) -> str:
    return f"{name}{' ' * (44 - cells(name))} {number:>8}  {text}"


def _trees(trace: Trace, top: int) -> str:
    rows = [thread for thread in trace.threads if thread.slices]
    parts = ["\n".join(_tree(thread, top)) for thread in rows[:top]]
    if len(rows) > top:
        parts.append(f"and {len(rows) - top:,} more rows: --top {len(rows)}")
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
    """Format a duration with three digits: ``820 ns``, ``3.10 us``, ``42.3 ms``, ``12.8 s``."""
    for many, unit in ((1e9, "s"), (1e6, "ms"), (1e3, "us")):
        if nanoseconds >= many * 0.9995:
            value = nanoseconds / many
            decimals = 2 if value < 9.995 else 1 if value < 99.95 else 0
            return f"{value:,.{decimals}f} {unit}"
    return f"{nanoseconds:.0f} ns"


# Export and view


def _export(options: Namespace) -> Iterator[str]:
    written = found = trace_files(options.run)
    place = found[0].parent if len(found) == 1 else Path(options.run)
    if options.output is None and not is_own(place):
        what = f"{place} belongs to another user; nothing is written there"
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
    if len(found) == 1:
        trace = read_trace(found[0])
        export_json([trace], extent(trace)[0], to)
    else:
        timeline = _timeline(found)
        export_json(timeline.traces(), timeline.extent[0], to)
    return [to]


def _timeline(found: list[Path]) -> Timeline:
    """The timeline of a job; what is known of its clocks goes to stderr."""
    timeline = Timeline(found)
    for line in timeline.said:
        print(f"voir: {clean(line)}", file=sys.stderr)
    return timeline


def _tensorboard(found: list[Path], place: Path, output: str | None) -> list[Path]:
    from ..trace.export import export_tensorboard

    to, written = Path(output or place / "tensorboard"), []
    for file in found:
        read = read_trace(file)
        rank = rank_of(read)
        written.append(export_tensorboard(read, to, rank, max(len(found), rank + 1)))
    return written


def _perfetto(found: list[Path], place: Path, output: str | None) -> list[Path]:
    to = Path(output or place / MERGED)
    _timeline(found).merge(to)
    return [to]


#: Export functions by format; each takes the traces, the run's directory and the output path.
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
            what = f"port {options.port} cannot be used: {why}"
            remedy = "Leave --port out; then any free port is used."
            raise VoirError("port-taken", what, remedy) from None
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
