"""Runs one process of a bench: its output goes to a file, its record to a run directory."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

from ..clock import perf_counter
from ..errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import NoReturn

    from .sides import Side

#: Bytes at the end of a failed process's output that are shown.
TAIL_BYTES = 4096


class Ended(NamedTuple):
    """How a process ended: seconds, exit status (negative for a signal)."""

    seconds: float
    exit_status: int


def command(side: Side, run: Path, options: Sequence[str]) -> list[str]:
    """The command line of a process.

    Args:
        side: Its side.
        run: Its run directory.
        options: More options of ``voir``.
    """
    if side.plain:
        return [side.python, *side.command]
    beside = Path(side.python).parent / "voir"  # `-m voir` would find a voir.py of the user's.
    start = [str(beside)] if beside.exists() else [side.python, "-m", "voir"]
    return [*start, "--quiet", "--run-dir", str(run), *options, *side.command]


#: Signals that end a bench.
_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interrupts:
    """Lets a bench end in order on Ctrl-C and SIGTERM; a context manager.

    Ctrl-C reaches the script too, as it is in the same process group. The bench waits for its end;
    a second Ctrl-C kills it. SIGTERM ends the script.

    Args:
        terminate: The handler of SIGTERM and SIGHUP, which raises an exception.

    Attributes:
        asked: Whether the bench is to end.
    """

    def __init__(self, terminate: Callable[[int, object], NoReturn]) -> None:
        self.asked, self._terminate = False, terminate
        self._running: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Interrupts:
        handlers = [self._interrupt, self._terminate, self._terminate]
        self._before = [*map(signal.signal, _ENDING, handlers)]
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in zip(_ENDING, self._before, strict=True):
            signal.signal(number, handler)

    def _interrupt(self, signum: int, frame: object) -> None:
        if self.asked and self._running is not None:
            self._running.kill()
        self.asked = True

    def execute(self, line: Sequence[str], side: Side, directory: Path, output: Path) -> Ended:
        """Run a command line to its end.

        Args:
            line: The command line.
            side: Its side, for the environment.
            directory: Where it runs.
            output: The file for its stdout and stderr. Its stdin is empty.

        Raises:
            KeyboardInterrupt: The bench is to end; after the process has ended.
            OSError: It cannot be started, or the file cannot be written.
        """
        if self.asked:
            raise KeyboardInterrupt
        with output.open("wb") as file:
            began = perf_counter()
            self._running = process = subprocess.Popen(line, cwd=directory,
                env={**os.environ, **side.env}, stdin=subprocess.DEVNULL, stdout=file,
                stderr=subprocess.STDOUT)  # fmt: skip
            try:
                status = process.wait()
            except BaseException:
                process.terminate()
                process.wait()
                raise
            finally:
                self._running = None
        if self.asked:
            raise KeyboardInterrupt
        return Ended(perf_counter() - began, status)


def check_interpreters(pythons: Iterable[str]) -> None:
    """Check that interpreters can run voir.

    Raises:
        UsageError: One of them is missing, or voir is not installed for it.
    """
    for python in set(pythons) - {sys.executable}:
        try:
            found = subprocess.run([python, "-c", "import voir"], capture_output=True, check=False,
                stdin=subprocess.DEVNULL)  # fmt: skip
        except OSError as error:
            remedy = "Name an interpreter: --python .venv/bin/python"
            what = f"voir bench --python {python}: {error.strerror}"
            raise UsageError("usage", what, remedy) from None
        if found.returncode:
            what = f"voir bench --python {python}: voir is not installed there"
            raise UsageError("usage", what, f"Install it: {python} -m pip install voir-overseer")


def tail(output: Path) -> str:
    """The end of a process's output; empty if it wrote nothing."""
    try:
        with output.open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - TAIL_BYTES))
            return file.read().decode("utf-8", "replace").strip()
    except OSError:
        return ""


def claim() -> Callable[[], object] | None:
    """Mark that a bench runs on this machine; None if another one of this user does.

    Returns:
        A function that takes the mark away. The kernel does so if the process is killed.
    """
    path = Path(tempfile.gettempdir()) / f"voir-bench-{os.getuid()}.lock"
    try:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except OSError:
        return bool  # Nobody could mark it.
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(fd)
        return None
    return lambda: os.close(fd)
