"""Several programs at once, as one stream of entries."""

from __future__ import annotations

import json
import os
import select
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from .entry import LogEntry
from .exits import Exit
from .source import CHUNK, Source

Argv = str | Sequence[Any]


def run(
    argv: Argv,
    info: Mapping[str, Any] | None = None,
    timeout: float | None = None,
    constructor: Callable[..., Any] | None = None,
    env: Mapping[str, str] | None = None,
    **options: Any,
) -> Multiplexer:
    """Start a program; iterating over the result yields its entries.

    Args:
        argv: The command.
        info: What every entry has besides, as keyword arguments of ``constructor``.
        timeout: As :class:`Multiplexer` has it.
        constructor: Makes an entry.
        env: The environment.
        options: As :meth:`Multiplexer.start` has them.
    """
    multiplexer = Multiplexer(timeout=timeout, constructor=constructor)
    multiplexer.start(argv, info=info, env=env, **options)
    return multiplexer


class Multiplexer:
    """Runs programs and yields an entry for every line they write, in the order of each stream.

    Entries of one program begin with ``start`` and end with ``end``, which has its
    ``return_code``. Programs may be started while entries are read. While there is nothing to
    read the processor is left alone.

    Args:
        timeout: ``None``: wait for entries. A number: wait at most so many milliseconds at a time,
            and yield ``None`` each time, so that the caller can see to other things.
        constructor: Called with ``event``, ``data``, ``pipe`` and what ``start`` got as ``info``.

    Attributes:
        processes: For each program that has not ended: its sources, command and info, and ``None``
            or a descriptor that is closed with them.
        buffer: Entries to be yielded before any other.
    """

    def __init__(
        self, timeout: float | None = 0, constructor: Callable[..., Any] | None = None
    ) -> None:
        self.processes: dict[
            subprocess.Popen[bytes], tuple[list[Source], Argv, dict[str, Any], int | None]
        ] = {}
        self.blocking = timeout is None
        self.timeout = timeout
        self.constructor = constructor or LogEntry
        self.buffer: list[Any] = []
        self._exits: dict[subprocess.Popen[bytes], Exit] = {}

    def start(
        self,
        argv: Argv,
        info: Mapping[str, Any] | None = None,
        env: Mapping[str, str] | None = None,
        use_stdout: bool = False,
        buffered: bool = True,
        **options: Any,
    ) -> subprocess.Popen[bytes]:
        """Start a program; what it logs by ``DATA_FD`` becomes entries too.

        Args:
            argv: The command.
            info: What its entries have besides.
            env: Its environment; this process's own when not given.
            use_stdout: Let it hide what it logs in its stdout: for programs on other machines, to
                which no other stream leads.
            buffered: Sets ``PYTHONUNBUFFERED`` to 1, so that python's lines come at once; ``False``
                sets it to 0. (The name says the opposite; programs that use it count on this.)
            options: As ``subprocess.Popen`` has them.
        """
        env = {**(os.environ if env is None else env), "PYTHONUNBUFFERED": "01"[buffered]}
        pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options}
        begin = self._start_smuggling if use_stdout else self._start_with_pipe
        process, streams = begin(argv, env, pipes)
        info = dict(info or {})
        self.add_process(proc=process, info=info, argv=argv, streams=streams, w=None)
        begun = {"command": argv, "time": time.time()}
        self.buffer.append(self.constructor(event="start", data=begun, **info))
        return process

    def _start_smuggling(
        self, argv: Argv, env: dict[str, str], options: dict[str, Any]
    ) -> tuple[subprocess.Popen[bytes], list[Source]]:
        process = subprocess.Popen(argv, env={**env, "DATA_FD": "1"}, **options)
        out = Source(process.stdout, {"pipe": "stdout"}, smuggled={"pipe": "data"})
        return process, [out, Source(process.stderr, {"pipe": "stderr"})]

    def _start_with_pipe(
        self, argv: Argv, env: dict[str, str], options: dict[str, Any]
    ) -> tuple[subprocess.Popen[bytes], list[Source]]:
        reading, writing = os.pipe()
        passed = [*options.pop("pass_fds", ()), writing]
        try:
            env = {**env, "DATA_FD": str(writing)}
            process = subprocess.Popen(argv, env=env, pass_fds=passed, **options)
        except BaseException:
            os.close(reading)
            raise
        finally:
            os.close(writing)  # The end of the stream shows only when nobody can write any more.
        pipes = [
            Source(process.stdout, {"pipe": "stdout"}),
            Source(process.stderr, {"pipe": "stderr"}),
            Source(os.fdopen(reading, "rb", buffering=0), {"pipe": "data"}, json.loads),
        ]
        return process, pipes

    def add_process(
        self,
        *,
        proc: subprocess.Popen[bytes],
        info: Mapping[str, Any],
        argv: Argv,
        streams: Sequence[Source],
        w: int | None = None,
    ) -> None:
        """Read a program that was started elsewhere.

        Args:
            proc: The process.
            info: What its entries have besides.
            argv: Its command, for ``start`` and ``end``.
            streams: What to read.
            w: A descriptor to close when it has ended.
        """
        sources = [source for source in streams if source.pipe is not None]
        for source in sources:
            source.bind(self.constructor, dict(info))
        self.processes[proc] = (sources, argv, dict(info), w)
        self._exits[proc] = Exit(proc)

    def __iter__(self) -> Iterator[Any]:
        """The entries of all programs, until the last of them has ended."""
        while self.processes or self.buffer:
            yield from self._buffered()
            ready = self._wait() if self.processes else set()
            for proc, (sources, _, _, _) in list(self.processes.items()):
                for source in sources:
                    if source.open and source.fileno() in ready:
                        yield from source.read()
                if self._exits[proc].ended():
                    yield from self._end(proc)
            if not self.blocking:
                yield None

    def _buffered(self) -> Iterator[Any]:
        while self.buffer:
            yield self.buffer.pop(0)

    def _wait(self) -> set[int]:
        """The descriptors that can be read; waits for one, or for the end of a program."""
        poll = select.poll()
        for proc, (sources, _, _, _) in self.processes.items():
            waited = [source.fileno() for source in sources if source.open]
            for descriptor in [*waited, *self._exits[proc].descriptors()]:
                poll.register(descriptor, select.POLLIN | select.POLLPRI)
        return {descriptor for descriptor, _ in poll.poll(self._patience())}

    def _patience(self) -> float | None:
        """How long to wait at most, in milliseconds."""
        longest = [exit.patience for exit in self._exits.values() if exit.patience is not None]
        return min([*longest, *([] if self.timeout is None else [self.timeout])], default=None)

    def _end(self, proc: subprocess.Popen[bytes]) -> Iterator[Any]:
        """The last entries of a program that has ended."""
        sources, argv, info, w = self.processes.pop(proc)
        self._exits.pop(proc).close()
        for source in sources:
            yield from _drained(source)
        if w is not None:
            _close(w)
        ended = {"command": argv, "time": time.time(), "return_code": proc.returncode}
        yield self.constructor(event="end", data=ended, **info)


def _drained(source: Source) -> Iterator[Any]:
    """What a program that has ended left in a pipe: no more than fits into one.

    A process that it started may hold the pipe open and write on; nobody waits for that.
    """
    for _ in range(2 + CHUNK // 65536):
        if not source.open or not _readable(source.fileno()):
            break
        yield from source.read()
    yield from source.finish()


def _readable(descriptor: int) -> bool:
    poll = select.poll()
    poll.register(descriptor, select.POLLIN | select.POLLPRI)
    return bool(poll.poll(0))


def _close(descriptor: int) -> None:
    try:
        os.close(descriptor)
    except OSError:
        pass  # Whoever opened it has closed it.
