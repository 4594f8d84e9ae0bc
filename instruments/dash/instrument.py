"""``--dash`` and ``dash``: a live view of the run on stderr."""

from __future__ import annotations

import atexit
import os
from collections.abc import Callable, Generator, Mapping
from contextlib import AbstractContextManager
from typing import Any, Protocol, TextIO

from overseer.clock import Clock
from overseer.errors import Problem


class Host(Protocol):
    """What the dashboard uses of the overseer."""

    phases: Any
    argparser: Any
    options: Any
    clock: Clock
    stderr: TextIO
    summary: dict[str, Any]

    def listen(self, fn: Callable[[dict[str, Any]], object]) -> Any:
        """Call ``fn`` with every given event."""

    def listen_log(self, fn: Callable[[dict[str, Any]], object]) -> Any:
        """Call ``fn`` with every logged event."""

    def every(self, seconds: float, fn: Callable[[], object]) -> AbstractContextManager[Any]:
        """Call ``fn`` every ``seconds`` on a thread."""

    def report(self, problem: Problem) -> None:
        """Tell the user about ``problem``."""

    def require(self, *instruments: Any) -> object:
        """Start other instruments."""


def instrument_dash(ov: Host) -> Generator[Any, Any, None]:
    """Offer ``--dash``."""
    yield ov.phases.init
    ov.argparser.add_argument(
        "--dash", action="store_true", help="show progress and every given value live on stderr"
    )
    yield ov.phases.parse_args
    if ov.options.dash and "--dash" not in ov.argparser.taken:
        ov.require(dash)


def dash(ov: Host) -> Generator[Any, Any, None]:
    """Show the run live on stderr: rows at the bottom of a terminal, plain lines elsewhere.

    Everything that is given or logged appears. ``progress``, ``loss``, ``rate`` with ``units``,
    ``loading_share`` and what monitors emit have rows of their own, for each ``task``; other keys
    are shown with their last value and count. The script's own output is left alone.
    """
    yield ov.phases.parse_args
    # Imported here: a run without a dashboard does not pay for it.
    from instruments.dash.dashboard import TICK_SECONDS, Dashboard, sink_for

    sink = sink_for(ov.stderr, os.environ)
    if sink is None:
        return
    dashboard = Dashboard(sink, ov.clock, _title(ov.options), lambda: _tasks(ov), ov.report)
    heard = (ov.listen(dashboard.given.hear), ov.listen_log(dashboard.logged.hear))
    atexit.register(dashboard.close)
    try:
        with ov.every(TICK_SECONDS, dashboard.tick):
            # Last of all, so that what others reduce at the end is on the last frame.
            yield ov.phases.finalize(-1000)
    finally:
        dashboard.close()
        atexit.unregister(dashboard.close)
        for subscription in heard:
            subscription.dispose()


def _title(options: Any) -> str:
    name = getattr(options, "SCRIPT", None) or getattr(options, "MODULE", None) or ""
    return os.path.basename(name) or "voir"


def _tasks(ov: Host) -> Mapping[str, object]:
    tasks = ov.summary.get("tasks")
    return tasks if isinstance(tasks, dict) else {}
