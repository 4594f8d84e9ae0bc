"""Finishes the record of a killed run. Nothing else writes to an old run."""

from __future__ import annotations

import os
from contextlib import suppress
from stat import S_IWUSR

from ..recorder.log import header_paths
from .killed import is_ours
from .runfile import write_run

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from .reading import Run


def finish_run(run: Run, progress: Callable[[float], object] = lambda share: None) -> str:
    """Write the end of a run that was killed into ``run.json``, and make its trace of its log.

    Directories of other users, or without write permission, are left alone.

    Args:
        run: The run; of a job, all ranks are finished, also those of earlier attempts.
        progress: Receives the share of a trace that is done.

    Returns:
        What was done, in one line; empty if nothing.
    """
    every = [one for tried in (*run.attempts, run) for one in tried.ranks or (tried,)]
    done = [one for one in every if one.unfinished and _finish(one, progress)]
    if not done:
        return ""
    by = str(done[0].facts["ended_by"])
    who = f"{len(done)} ranks were killed, the first one {by}" if len(done) > 1 else f"it was {by}"
    return f"{(run if len(done) > 1 else done[0]).path}: {who}; its record is finished now"


def _finish(run: Run, progress: Callable[[float], object]) -> bool:
    """Finish one process's record; returns whether that was possible."""
    if not _writable(run) or not write_run(run.path / "run.json", run.facts, lambda problem: None):
        return False
    with suppress(Exception):  # The trace can still be made later.
        from ..trace.finishing import finish

        finish(run.path, progress)
    for each in header_paths(os.fspath(run.path)):
        with suppress(OSError):
            os.unlink(each)
    return True


def _writable(run: Run) -> bool:
    """Whether the run's directory is the user's own and writable, also for root."""
    with suppress(OSError):
        allowed = os.stat(run.path).st_mode & S_IWUSR and os.access(run.path, os.W_OK)
        return bool(allowed) and is_ours(run.path)
    return False
