"""``--dash`` and ``dash``: a live view of the run on stderr."""

from __future__ import annotations

import atexit
import os
from collections.abc import Generator, Mapping

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from overseer import Overseer
    from overseer.job.live import LiveRanks

#: Interval at which the records of other ranks are read.
LOOK_SECONDS = 1.0


def instrument_dash(ov: Overseer) -> Generator[Any, Any, None]:
    """Offer ``--dash``."""
    yield ov.phases.init
    ov.argparser.add_argument(
        "--dash", action="store_true", help="show progress, figures and plots live on stderr"
    )
    yield ov.phases.parse_args
    if ov.options.dash and "--dash" not in ov.argparser.taken:
        ov.require(dash)


def dash(ov: Overseer) -> Generator[Any, Any, None]:
    """Show the run live on stderr: rows at the bottom of a terminal, plain lines elsewhere.

    Shown are the figures of each task as they stand in the run's record, ``progress``, what the
    monitors give, and every other number that is given or logged; of a job, a row for each rank.
    """
    yield ov.phases.parse_args
    # Imported here: a run without a dashboard does not pay for it.
    from overseer.launch import exit_status
    from overseer.rundir.job import find_rank
    from overseer.views.dash.board import HEARD, Board
    from overseer.views.dash.dash import FRAME_SECONDS, Dashboard, sink_for

    from .monitors.host import machine_of

    rank = find_rank(os.environ)
    sink = sink_for(ov.stderr, os.environ)
    if sink is None or (rank is not None and rank.rank):  # The first one shows the job.
        return
    measuring = ov.measuring
    machine_of(ov).by_core = True

    def now() -> float:
        return ov.clock.now_ns() / 1e9

    def given(task: str) -> float | None:
        known = measuring.fold.tasks.get(task) if measuring.fold is not None else None
        return known.losses.last if known is not None and known.given else None

    def facts() -> Mapping[str, Any]:
        ov.bus.sample()  # The next event of each probe is for the next frame.
        return ov.summary.get("tasks") or measuring.facts()

    assert ov.recording is not None
    live: LiveRanks | None = None

    def look() -> None:
        """Read the records of the job's ranks."""
        nonlocal live
        directory = ov.recording.directory if ov.recording is not None else None
        path = directory.path if directory is not None and directory.made else None
        if live is None and path is not None and directory is not None:
            from overseer.job.live import LiveRanks

            own = directory.rank is not None and path.name == f"rank{directory.rank.rank}"
            live = LiveRanks(path.parent if own else path)
        board.ranks = live() if live is not None else []

    board = Board(os.path.basename(ov.recording.title) or "voir", now(), given, now)
    dashboard = Dashboard(sink, board, facts, ov.clock, ov.report)
    measuring.also(board.take)
    heard = [ov.listen(board.hear, key) for key in HEARD]
    heard.append(ov.listen_log(board.keep))

    def failed(error: BaseException | None) -> None:
        """Show the last frame before the traceback, which then stands below it."""
        if exit_status(error) > 0:
            ov.dashed = dashboard.on_screen
            dashboard.close()

    ov.bus.samplers.append(lambda event, seen: board.keep(event))
    ov.ending.before.append(failed)
    atexit.register(dashboard.close)
    try:
        dashboard.watch()
        with ov.every(LOOK_SECONDS, look), ov.every(FRAME_SECONDS, dashboard.tick):
            # Last of all, so that what others reduce at the end is on the last frame.
            yield ov.phases.finalize(priority=-1000)
    finally:
        dashboard.close(summed=not ov.options.quiet)
        atexit.unregister(dashboard.close)
        for subscription in heard:
            subscription.dispose()
