"""Runs ``python -m voir`` in forks of a process that has imported it: see ``forkserver.py``."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from functools import cache
from marshal import dumps, loads
from pathlib import Path
from select import select
from signal import SIGKILL
from subprocess import CompletedProcess, TimeoutExpired
from time import monotonic
from typing import Any

#: Variables that python and libraries read when they are loaded, by how their names begin.
AT_START = ("PYTHON", "LC_", "LANG", "LD_", "OMP_", "MKL_", "KMP_", "MALLOC_", "TORCH", "VOIR_REC")
#: Seconds after which a process that hangs fails its test.
PATIENCE = 60
#: A script that prints what is imported when voir starts a script.
IMPORTED = "import sys\nprint(*[name for name in sys.modules if name != '__main__'])\n"


class ForkServer:
    """A process that has imported voir, and forks for each run of it.

    Args:
        env: Its environment.
        modules: What it imports besides.
    """

    def __init__(self, env: Mapping[str, str], *modules: str) -> None:
        self._at_start = _at_start(env)
        self._lock = threading.Lock()
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        program = str(Path(__file__).with_name("forkserver.py"))
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, program, str(theirs.fileno()), *_imported(env), *modules],
                env=env,
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
            )
        threads, imported = self._answer()
        assert threads == 1, "a process that has threads must not fork"
        self._names = {name.partition(".")[0] for name in imported}

    def stands_for(self, place: Path, env: Mapping[str, str]) -> bool:
        """Whether a process in ``place`` with ``env`` would have imported the same.

        It would not if a file there has the name of one of the modules.
        """
        names = {n.partition(".")[0] for _, dirs, files in os.walk(place) for n in dirs + files}
        return not names & self._names and _at_start(env) == self._at_start

    def run(
        self, arguments: Sequence[str], place: Path, env: Mapping[str, str], data: bytes
    ) -> CompletedProcess[bytes]:
        """Run ``python -m voir`` with ``arguments`` as ``subprocess.run`` would.

        Args:
            arguments: Those of voir.
            place: Where it runs.
            env: Its environment.
            data: What it can read from stdin, as much as fits into a pipe.

        Raises:
            TimeoutExpired: It has been killed.
        """
        command = dumps({"argv": list(arguments), "cwd": str(place), "env": dict(env)})
        with self._lock, ExitStack() as ours:
            with ExitStack() as theirs:
                stdin, feed = _pipe(theirs, theirs)
                out, stdout = _pipe(ours, theirs)
                err, stderr = _pipe(ours, theirs)
                assert os.write(feed, data) == len(data)
                socket.send_fds(self._control, [command], [stdin, stdout, stderr])
            pid, status = self._answer(), None
            output = {out: b"", err: b""}
            waiting = {self._control.fileno(), out, err}
            until = monotonic() + PATIENCE
            while waiting:
                ready, _, _ = select(waiting, [], [], max(until - monotonic(), 0))
                for end in ready:
                    if end in output:
                        more = os.read(end, 1 << 16)
                        output[end] += more
                    else:
                        status, more = self._answer(), b""
                    if not more:
                        waiting.remove(end)
                if not ready:
                    if status is None:
                        os.kill(pid, SIGKILL)
                        self._answer()
                    raise TimeoutExpired("voir", PATIENCE, output[out], output[err])
        return CompletedProcess("voir", os.waitstatus_to_exitcode(status), *output.values())

    def close(self) -> None:
        """End the process."""
        self._control.close()
        self._process.wait()

    def _answer(self) -> Any:
        message = self._control.recv(1 << 20)
        if not message:
            raise RuntimeError("the fork server has ended")
        return loads(message)


#: The servers that have been started; :func:`close_all` ends them.
_servers: list[ForkServer] = []


@cache
def server(*modules: str) -> ForkServer | None:
    """The fork server that has imported ``modules``; none where there is to be none.

    ``FORK_SERVER=off`` in the environment of the tests makes every run a process of its own.
    """
    if sys.platform != "linux" or os.environ.get("FORK_SERVER") == "off":
        return None
    from tests.running import environment

    _servers.append(ForkServer(environment(), *modules))
    return _servers[-1]


def close_all() -> None:
    """End the servers that have been started."""
    while _servers:
        _servers.pop().close()


def _at_start(env: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in env.items() if name.startswith(AT_START)}


def _imported(env: Mapping[str, str]) -> list[str]:
    with tempfile.TemporaryDirectory() as place:
        Path(place, "script.py").write_text(IMPORTED)
        command = [sys.executable, "-m", "voir", "--no-voirfile", "script.py"]
        done = subprocess.run(command, cwd=place, env=env, capture_output=True, text=True)
        return done.stdout.split()


def _pipe(read: ExitStack, write: ExitStack) -> tuple[int, int]:
    """A pipe whose ends these stacks close."""
    ends = os.pipe()
    read.callback(os.close, ends[0])
    write.callback(os.close, ends[1])
    return ends
