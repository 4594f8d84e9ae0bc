"""Makes the traces of logs that killed runs have left."""

from __future__ import annotations

from ..files import is_own
from .writer import logs

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def finish(
    directory: Path, progress: Callable[[float], object] = lambda share: None
) -> Path | None:
    """Make the traces of a run's logs; also of a run that is under way.

    Args:
        directory: The directory of a run or a job, or the log itself.
        progress: Called with the share that is done.

    Returns:
        The last trace made; None if there was no log.

    Raises:
        OSError: A trace cannot be written.
    """
    made, found = None, logs(directory) if directory.is_dir() else [directory]
    if found:
        from .rows import finished

        for path in filter(_may_be_finished, found):
            made = finished(path, progress) or made
    return made


def _may_be_finished(log: Path) -> bool:
    """Whether the trace may be written beside the log: only into the user's own directory."""
    return is_own(log.parent)
