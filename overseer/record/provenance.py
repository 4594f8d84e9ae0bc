"""Where a run's numbers come from: code, command, environment, machine.

Taken in two steps, so that it costs no start-up: what is cheap or may change is taken at the
start, with nothing started and nothing imported; the rest at the end, on threads, within a time
limit. What is not known by then is absent. No process is started while the script runs, since the
script could see it (``os.wait``, ``SIGCHLD``).
"""

from __future__ import annotations

import importlib
import os
import sys
from _thread import allocate_lock, get_ident, start_new_thread
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from . import machine
from .redact import redact_arguments, relevant_environment

#: How long the end of a run may wait for the slow part, in seconds.
PATIENCE = 0.15


# Values of sys.flags that nobody asked for; they vary by release.
_AT_REST: Mapping[str, tuple[object, ...]] = {
    "hash_randomization": (0, 1),
    "utf8_mode": (0, 1),
    "int_max_str_digits": (0, -1, 4300),
    "gil": (0, 1),
}


class Provenance:
    """Collects a run's provenance; every value in it is known, none is invented.

    Args:
        argv: The whole command line, as ``sys.argv`` was.
        version: voir's own.
        environ: The environment the run was started with.
        voirfiles: The voirfiles that apply.
        script: The script's file, when it has one: whose repository is meant.
    """

    def __init__(
        self,
        argv: Iterable[str],
        version: str,
        environ: Mapping[str, str],
        voirfiles: Iterable[Path] = (),
        script: Path | None = None,
    ) -> None:
        self._argv = list(argv)
        self._version = version
        self._environ = dict(environ)
        self._voirfiles = list(voirfiles)
        self._script = script
        self._path: tuple[str, ...] = tuple(sys.path)
        self._top: Path | None = None
        self._early: dict[str, object] = {}
        self._slow: dict[str, _Later] = {}

    def at_start(self) -> dict[str, object]:
        """What is taken before the script runs: a few file reads; asked again, the same."""
        from .git import head, repository

        if self._early:
            return self._early
        at = _absolute(self._script.parent if self._script else Path())
        self._top = repository(at) if at else None
        self._early = machine.known(
            {
                "voir": self._version,
                "command": _shown(redact_arguments(self._argv)),
                "cwd": os.fspath(at) if (at := _absolute(Path())) else None,
                "hostname": os.uname().nodename,
                "kernel": machine.kernel(),
                "python": python(),
                "env": relevant_environment(self._environ),
                "seed": machine.known({"PYTHONHASHSEED": self._environ.get("PYTHONHASHSEED")})
                or None,
                "voirfiles": [_hashed(path) for path in self._voirfiles] or None,
                "git": (head(self._top) or None) if self._top else None,
                "cpu": machine.cpu(),
                "memory": machine.known({"total": machine.memory_bytes()}) or None,
                "load_average": machine.load_average(),
                "container": machine.container(self._environ),
            }
        )
        return self._early

    def prepare(self) -> None:
        """Begin with what is slow and starts no process, on a thread: worth it in a long run."""
        from .accelerators import nvidia
        from .packages import installed

        for name, read in (
            ("packages", lambda: installed([*sys.path, *self._path])),
            ("gpu", nvidia),
        ):
            if name not in self._slow:
                self._slow[name] = _Later(read)

    def at_end(self, seconds: float = PATIENCE) -> dict[str, object]:
        """All of it, at the end of the run; whatever takes longer than ``seconds`` is absent."""
        from ..clock import monotonic
        from .accelerators import torch_facts

        until = monotonic() + seconds
        self.prepare()
        if "git" not in self._slow:
            self._slow["git"] = _Later(lambda: self._git(seconds))
        torch = torch_facts()
        slow = {name: later.result(until - monotonic()) for name, later in self._slow.items()}
        return {**self._early, **machine.known({**slow, "torch": torch}), **self._seed(torch)}

    def _git(self, seconds: float) -> dict[str, object] | None:
        """The state at the end, said of the commit at the start; nothing if that has moved on."""
        from .git import state

        if self._top is None:
            return None
        early: Any = self._early.get("git", {})
        late = state(self._top, self._script, self._environ, seconds)
        if early.get("sha", late.get("sha")) != late.get("sha"):
            return {**early, "moved_to": late["sha"]} if "sha" in late else early or None
        return {**late, **early} or None

    def _seed(self, torch: Mapping[str, object] | None) -> dict[str, object]:
        early: Any = self._early.get("seed", {})
        seeds = machine.known({**early, "torch": (torch or {}).get("seed")})
        return {"seed": seeds} if seeds else {}


class _Later:
    """A value read on a thread of its own; a failure to read it is a value that is not known.

    One that nobody waits for to begin, as ``threading`` does: it may not, when memory is full.
    """

    def __init__(self, read: Callable[[], object]) -> None:
        self._read = read
        self._value: object = None
        self._done = allocate_lock()
        self._done.acquire()
        try:
            _need_room()
            start_new_thread(self._run, ())
        except (ImportError, OSError, MemoryError, RuntimeError):  # There can be no more threads.
            self._done.release()

    def _run(self) -> None:
        try:
            self._value = self._read()
        except Exception:
            self._value = None
        finally:
            # Who asks for the current thread in there has made threading list one.
            getattr(sys.modules.get("threading"), "_active", {}).pop(get_ident(), None)
            self._done.release()

    def result(self, seconds: float) -> object:
        """The value, or ``None`` when it is not there within ``seconds``."""
        if self._done.acquire(timeout=max(seconds, 0.0)):
            self._done.release()
        return self._value


def _need_room() -> None:
    """Raise where a thread could not begin: python would say so on stderr, of each.

    Raises:
        OSError: Memory is full.
        ImportError: The same.
    """
    import mmap

    mmap.mmap(-1, 1 << 20).close()


def python() -> dict[str, object]:
    """The interpreter: version, implementation, build, and the flags that are not at rest."""
    flags = {n: getattr(sys.flags, n) for n in dir(sys.flags) if n[:1] != "_" and n[:2] != "n_"}
    switched = {
        n: v for n, v in flags.items() if not callable(v) and v not in _AT_REST.get(n, (0,))
    }
    return machine.known(
        {
            "version": sys.version.split()[0],
            "implementation": sys.implementation.name,
            "build": " ".join(sys.version.split()[1:]),
            "executable": sys.executable or None,
            "flags": switched or None,
            "debug": True if hasattr(sys, "gettotalrefcount") else None,
            "gil": getattr(sys, "_is_gil_enabled", lambda: None)(),
        }
    )


def _shown(arguments: list[str]) -> str:
    from shlex import join

    return join(arguments)


def _absolute(path: Path) -> Path | None:
    try:
        return path.absolute()
    except OSError:  # The current directory has been deleted.
        return None


def _hashed(path: Path) -> dict[str, object]:
    try:
        content = path.read_bytes()
    except OSError:
        return {"path": os.fspath(path)}
    return machine.known({"path": os.fspath(path), "sha256": _sha256(content)})


def _sha256(content: bytes) -> str | None:
    """The hash of ``content``; None where what computes it can't be loaded."""
    # hashlib would load OpenSSL, which costs more than everything else at the start.
    for name in ("_sha2", "_sha256", "hashlib"):  # 3.12 and later; before; some builds.
        try:
            return str(importlib.import_module(name).sha256(content).hexdigest())
        except ModuleNotFoundError:
            continue
        except Exception:  # Memory is full; hashlib would say so of each hash it knows.
            return None
    return None
