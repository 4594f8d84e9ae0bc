"""A process that has imported what voir imports, and forks for each run of it.

``python tests/forkserver.py DESCRIPTOR MODULE ...`` imports the modules, then takes commands from
the socket: a dictionary (``argv``, ``cwd``, ``env``) with three descriptors is a ``python -m
voir``. It answers with the child's pid, then with the child's wait status.

A child must not differ from a new process. So nothing is imported here that python has not
imported before it runs a script, except ``_socket``; and the child leaves :func:`serve` and ends as
the interpreter ends, not through ``os._exit``.
"""

from __future__ import annotations

import _socket
import gc
import io
import os
import runpy
import sys
import time
from contextlib import suppress
from importlib import import_module
from marshal import dumps, loads
from types import ModuleType

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def serve(control: _socket.socket, modules: list[str]) -> tuple[dict[str, Any], list[int]]:
    """Answer commands until the socket is closed.

    Returns:
        In each child: its command and its descriptors.
    """
    sys.path[0] = os.devnull  # Packages of tests have the names of what they test.
    for name in ["voir", "overseer.cli", *modules]:
        with suppress(ImportError):  # Some names in sys.modules are no modules, as typing.io.
            import_module(name)
    if "torch" in sys.modules:
        gc.freeze()  # Else each child goes through a million objects as it ends, and copies them.
        sys.modules["torch"].manual_seed(0)  # Else a loss goes up, now and then.
    imported = [name for name in sys.modules if name != "_socket"]
    control.send(dumps((len(os.listdir("/proc/self/task")), imported)))
    while True:
        message, ancillary, _, _ = control.recvmsg(1 << 20, _socket.CMSG_SPACE(3 * 4))
        if not message:
            os._exit(0)
        descriptors = memoryview(ancillary[0][2]).cast("i").tolist()
        pid = os.fork()
        if not pid:
            return loads(message), descriptors
        for descriptor in descriptors:
            os.close(descriptor)
        control.send(dumps(pid))
        control.send(dumps(os.waitpid(pid, 0)[1]))


def become(command: dict[str, Any], descriptors: list[int]) -> None:
    """Make this process what ``python -m voir`` is when it starts."""
    for number, descriptor in enumerate(descriptors):
        os.dup2(descriptor, number)
    os.closerange(3, max(descriptors) + 1)
    os.chdir(command["cwd"])
    os.environ.clear()
    os.environ.update(command["env"])
    time.tzset()
    sys.argv = ["-m", *command["argv"]]
    sys.orig_argv = [sys.executable, "-m", "voir", *command["argv"]]
    sys.path[0] = os.getcwd()
    sys.path_importer_cache.clear()
    sys.stdin = sys.__stdin__ = _stream(0, "r", sys.stdin)
    sys.stdout = sys.__stdout__ = _stream(1, "w", sys.stdout)
    sys.stderr = sys.__stderr__ = _stream(2, "w", sys.stderr)
    del sys.modules["_socket"]
    sys.modules["__main__"] = ModuleType("__main__")
    renew(os.getppid())


def _stream(number: int, mode: str, model: io.TextIOWrapper) -> io.TextIOWrapper:
    """A standard stream as python makes it; encoding and errors are those of ``model``."""
    binary = open(number, mode + "b", closefd=False)  # noqa: SIM115
    binary.raw.name = model.name
    by_lines = number == 2 or binary.isatty()
    stream = io.TextIOWrapper(binary, model.encoding, model.errors, "\n", by_lines)
    stream.mode = mode
    return stream


def renew(server: int) -> None:
    """Replace what modules have kept of the process that imported them: its pid, its clock."""
    for name in [n for n in sys.modules if n.startswith(("overseer", "instruments"))]:
        for key, value in list(vars(sys.modules[name]).items()):
            if type(value) is int and value == server:
                setattr(sys.modules[name], key, os.getpid())
            elif key == "BEGUN_CPU_NS":
                setattr(sys.modules[name], key, time.thread_time_ns())


if __name__ == "__main__":
    _control = _socket.socket(fileno=int(sys.argv[1]))
    _command, _descriptors = serve(_control, sys.argv[2:])
    _control.close()
    become(_command, _descriptors)
    runpy._run_module_as_main("voir")
