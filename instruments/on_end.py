"""``--on-end COMMAND``: runs a command when the run has ended, hangs or diverges.

A process of its own, ``overseer.job.on_end``, waits for that and runs the command, so that it runs
after SIGKILL too. It is started just before the script's first code.
"""

from __future__ import annotations

import os
import sys

from overseer.clock import process_start
from overseer.errors import Problem, UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Generator, Mapping
    from pathlib import Path
    from typing import Any

    from overseer import Overseer

#: Where voir is found.
_HOME = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
#: The watcher needs no site-packages, and nothing of the user's that Python would import.
_WATCHER = """import sys
sys.path.append(sys.argv.pop(1))
from overseer.job.on_end import main
main()"""
#: The shell ends at once, so the watcher is no child of the script's, which may wait for all.
_DETACHED = '"$@" < /dev/null &'
_STDERR = 2


def instrument_on_end(ov: Overseer) -> Generator[Any, Any, None]:
    """Offer ``--on-end COMMAND``."""
    yield ov.phases.init
    ov.argparser.add_argument(
        "--on-end", metavar="COMMAND", help="run this when the run has ended, hangs or diverges"
    )
    yield ov.phases.parse_args
    command = ov.options.on_end
    if not command or "--on-end" in ov.argparser.taken:
        return
    if ov.options.no_record:
        what = "--on-end needs the record of the run, and --no-record asks for none"
        ov.abort(UsageError("usage", what, "Leave out one of them."))
    # With a file's command, one that runs voir would start itself for ever.
    if "VOIR_ENDED" not in ov.environ or "on_end" in ov.argparser.given:
        ov.on_ready.append(lambda: _start(ov, command))


def _start(ov: Overseer, command: str) -> None:
    """Start the process that runs the command, unless another rank of the job does."""
    assert ov.recording is not None
    directory = ov.recording.directory
    rank = directory.rank
    if rank is not None and rank.rank:
        return
    ov.recording.flush()  # It follows the record, which exists from here on.
    own = directory.path
    try:
        if own is None:
            raise OSError("the run is not recorded")
        job = own.parent if rank is not None and own.name == f"rank{rank.rank}" else own
        _watch(job, own, {**ov.environ, "VOIR_ON_END": command})
    except OSError as error:
        what = f"the command will not run: {error.strerror or error}"
        remedy = "The script runs as usual."
        ov.report(Problem("on-end", "--on-end", what, remedy=remedy))


def _watch(job: Path, own: Path, environ: Mapping[str, str]) -> None:
    """Start the watcher.

    Args:
        job: The directory of the run.
        own: That of this process: the same one, or a rank's.
        environ: Its environment. It has the command, so that the list of processes does not: it may
            have a secret in it.

    Raises:
        OSError: It cannot be started.
    """
    from subprocess import DEVNULL, Popen

    if not sys.executable:
        raise OSError("Python does not know its own interpreter")
    pid = os.getpid()
    watcher = [sys.executable, "-I", "-S", "-c", _WATCHER, _HOME]
    words = [str(job), str(own), str(pid), str(process_start(pid))]
    output = _STDERR if _has_stderr() else DEVNULL
    Popen(
        ["/bin/sh", "-c", _DETACHED, "voir", *watcher, *words], stdin=DEVNULL, stdout=output,
        stderr=output, env=environ, start_new_session=True,
    ).wait()  # fmt: skip


def _has_stderr() -> bool:
    """Whether descriptor 2 is stderr: if that is closed, it may be any file."""
    try:
        return os.get_inheritable(_STDERR)
    except OSError:
        return False
