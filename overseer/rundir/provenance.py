"""Collects a run's provenance: code, command, environment, machine.

Cheap and changeable facts are collected at the start, without imports or processes; the rest at the
end, on threads, within a time limit. Facts unknown by then are absent. No process is started while
the script runs, since the script could see it (``os.wait``, ``SIGCHLD``).
"""

from __future__ import annotations

import os
import re
import sys
from _thread import allocate_lock, get_ident
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from ..model.facts import part
from ..timers import start
from . import machine
from .git import diff, head, repository, state
from .machine import known, text, value
from .redact import redact_arguments, relevant_environment

#: Longest wait for the slow facts at the end of a run, in seconds.
SLOW_FACTS_SECONDS = 0.15
#: The file in a run's directory with what is not committed.
DIFF_FILE = "changes.diff"
# Defaults of sys.flags, which vary by release.
_AT_REST: Mapping[str, tuple[object, ...]] = {
    "hash_randomization": (0, 1),
    "utf8_mode": (0, 1),
    "int_max_str_digits": (0, -1, 4300),
    "gil": (0, 1),
}
_METADATA = re.compile(r"(.+?)-([^-]+)(?:-py\d[\w.]*)?\.(?:dist-info|egg-info)\Z")


class Provenance:
    """Collects a run's provenance; unknown values are absent.

    Args:
        argv: The whole command line, as in ``sys.argv``.
        version: voir's.
        environ: The environment the run was started with.
        voirfiles: The voirfiles that apply.
        script: The script's file, if any: its repository is recorded.

    Attributes:
        diff: At the end, what is not committed, as a diff; empty if it is not known.
    """

    def __init__(
        self,
        argv: Iterable[str],
        version: str,
        environ: Mapping[str, str],
        voirfiles: Iterable[Path] = (),
        script: Path | None = None,
    ) -> None:
        self._argv, self._version, self._environ = list(argv), version, dict(environ)
        self._voirfiles, self._script = list(voirfiles), script
        self._path = tuple(sys.path)
        self._top: Path | None = None
        self._early: dict[str, Any] = {}
        self.diff = ""

    def at_start(self) -> dict[str, object]:
        """The facts before the script runs, from a few file reads; later calls return the same."""
        if self._early:
            return self._early
        from shlex import join

        here = value(os.getcwd)  # None: deleted.
        at = self._script.parent if self._script else Path()
        self._top = repository(Path(here or "", at)) if here or at.is_absolute() else None
        seed = self._environ.get("PYTHONHASHSEED")
        self._early = known(
            {
                "voir": self._version,
                "command": join(redact_arguments(self._argv)),
                "cwd": here,
                "hostname": os.uname().nodename,
                "kernel": machine.kernel(),
                "python": python(),
                "env": relevant_environment(self._environ),
                "seed": {"PYTHONHASHSEED": seed} if seed is not None else None,
                "voirfiles": [_hashed(path) for path in self._voirfiles] or None,
                "git": (head(self._top) or None) if self._top else None,
                "cpu": machine.cpu(),
                "memory": known({"total": machine.memory_bytes()}) or None,
                "load_average": machine.load_average(),
                "container": machine.container(self._environ),
            }
        )
        return self._early

    def at_end(self, seconds: float = SLOW_FACTS_SECONDS) -> dict[str, object]:
        """All facts at the end of the run, without those that take longer than ``seconds``."""
        from ..clock import monotonic

        until, early = monotonic() + seconds, self.at_start()
        later = {
            "packages": _ThreadResult(lambda: installed([*sys.path, *self._path])),
            "gpu": _ThreadResult(machine.gpus),
            "git": _ThreadResult(lambda: self._git(seconds)),
        }
        torch = torch_facts() or {}
        slow = {name: each.result(until - monotonic()) for name, each in later.items()}
        left = until - monotonic()  # The text takes git twice as long as its size.
        if self._top is not None and left > 0 and "changes" in part(slow, "git"):
            self.diff = diff(self._top, ("HEAD",), self._environ, left)[1]
        seeds = known({**self._early.get("seed", {}), "torch": torch.get("seed")})
        return known({**early, **known(slow), "torch": torch or None, "seed": seeds or None})

    def _git(self, seconds: float) -> dict[str, object] | None:
        """The state at the end, if the commit is still that of the start."""
        if self._top is None:
            return None
        early = self._early.get("git", {})
        late = state(self._top, self._script, self._environ, seconds)
        if early.get("sha", late.get("sha")) != late.get("sha"):
            return {**early, "moved_to": late["sha"]} if "sha" in late else early or None
        return {**late, **early} or None


class _ThreadResult:
    """The result of a function on another thread; unknown if it fails.

    Unlike ``threading``, it does not wait for the thread to begin: it may not, if memory is full.
    """

    def __init__(self, read: Callable[[], object]) -> None:
        self._read, self._value = read, None
        self._done = allocate_lock()
        self._done.acquire()
        try:
            start(self._run)
        except (RuntimeError, MemoryError):  # No more threads are possible.
            self._done.release()

    def _run(self) -> None:
        self._value = value(self._read)
        # A call of current_thread() there has listed the thread in threading.
        getattr(sys.modules.get("threading"), "_active", {}).pop(get_ident(), None)
        self._done.release()

    def result(self, seconds: float) -> object:
        """The result, or ``None`` after ``seconds``."""
        if self._done.acquire(timeout=max(seconds, 0.0)):
            self._done.release()
        return self._value


def python() -> dict[str, object]:
    """The interpreter: version, implementation, build, and flags other than the defaults."""
    flags = {n: getattr(sys.flags, n) for n in dir(sys.flags) if n[:1] != "_" and n[:2] != "n_"}
    switched = {
        n: v for n, v in flags.items() if not callable(v) and v not in _AT_REST.get(n, (0,))
    }
    return known(
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


def torch_facts() -> dict[str, object] | None:
    """Facts about torch, if the script has imported it; nothing is imported or initialised here."""
    torch = sys.modules.get("torch")
    if torch is None:  # Builds differ, and scripts may replace attributes.
        return None
    facts = {
        "version": text(lambda: torch.__version__),
        "cuda": text(lambda: torch.version.cuda),
        "hip": text(lambda: torch.version.hip),
        "cudnn": text(lambda: torch.backends.cudnn.version()),
        "nccl": text(lambda: ".".join(map(str, sys.modules["torch.cuda.nccl"].version()))),
        "threads": value(lambda: int(torch.get_num_threads())),
        "seed": value(lambda: int(torch.initial_seed())),
    }
    return known(facts) or None


def installed(paths: Iterable[str]) -> dict[str, str]:
    """Map packages installed on ``paths`` to their versions; the first one counts, as in imports.

    Only names of directories are read: a hundred times faster than reading their metadata.
    """
    found: dict[str, str] = {}
    for path in dict.fromkeys(paths):
        with suppress(OSError):  # A zip file, or a missing directory.
            for entry in os.listdir(path or "."):
                match = _METADATA.match(entry)
                if match:
                    found.setdefault(re.sub(r"[-_.]+", "-", match[1]).lower(), match[2])
    return dict(sorted(found.items()))


def _hashed(path: Path) -> dict[str, object]:
    return known({"path": os.fspath(path), "sha256": value(lambda: _sha256(path.read_bytes()))})


def _sha256(content: bytes) -> str | None:
    """The hash of ``content``; None if no module for it can be loaded."""
    # hashlib would load OpenSSL, the most expensive import at the start.
    for name in ("_sha2", "_sha256", "hashlib"):  # 3.12 and later; earlier; some builds.
        with suppress(ImportError):
            return str(__import__(name).sha256(content).hexdigest())
    return None
