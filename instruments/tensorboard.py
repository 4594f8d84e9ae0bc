"""``--tensorboard DIR``: exports the run's curves and trace for TensorBoard."""

from __future__ import annotations

from overseer.errors import Problem

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Generator
    from pathlib import Path
    from typing import Any

    from overseer import Overseer

#: Size limit of a trace made for TensorBoard only: a browser has to load it.
TRACE_MB = 4


def instrument_tensorboard(ov: Overseer) -> Generator[Any, Any, None]:
    """Export the run at its end if the option is set."""
    yield ov.phases.init
    ov.argparser.add_argument(
        "--tensorboard",
        metavar="DIR",
        help="at the end, write curves and a trace for TensorBoard",
    )
    yield ov.phases.parse_args(priority=100)  # Before the trace reads its options.
    if not ov.options.tensorboard:
        return
    options = ov.options
    if options.trace is None and not options.profile:
        options.trace, options.trace_max_mb = True, options.trace_max_mb or TRACE_MB
    from pathlib import Path

    logs = Path(ov.options.tensorboard).expanduser().absolute()
    yield ov.phases.finalize(priority=-200)  # After the trace.
    try:
        _export(ov, logs)
    except OSError as error:
        what = f"the run is not in {logs} ({error.strerror or error})"
        remedy = "Later, too: voir trace export RUN --to tensorboard -o DIR"
        ov.report(Problem("export-unwritable", "--tensorboard", what, remedy=remedy))


def _export(ov: Overseer, logs: Path) -> None:
    from overseer.rundir.reading import read_run
    from overseer.rundir.tensorboard import export_scalars
    from overseer.trace.export import export_tensorboard
    from overseer.trace.timeline import open_trace

    assert ov.recording is not None
    ov.recording.flush()
    directory = ov.recording.directory.path if ov.recording.made else None
    if directory is None:
        what = "there is no record to put there"
        remedy = "Leave out --no-record, or have something given or logged."
        ov.report(Problem("tensorboard-nothing", "--tensorboard", what, remedy=remedy))
        return
    run = read_run(directory)
    to = logs.joinpath(*directory.parts[-ov.recording.directory.levels :])
    export_scalars(run, to)
    trace = ov.summary.get("trace")
    if isinstance(trace, dict) and trace.get("path"):
        export_tensorboard(open_trace(trace["path"]), to, run.rank)
    ov.summary["tensorboard"] = str(to)
