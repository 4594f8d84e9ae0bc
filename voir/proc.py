"""Runs programs and merges their output and logged events into one stream."""

from __future__ import annotations

import builtins
import io
import json
import os
import select
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

from overseer.recorder.encode import simplify
from overseer.rundir.smuggle import Separator

__all__ = ["LogEntry", "Multiplexer", "Source", "run"]

Argv = str | Sequence[Any]
Process = subprocess.Popen[bytes]

#: Bytes per read, and the size that pipes are set to.
PIPE_BYTES = 1 << 20
#: Reads from a program that has ended: at most what a pipe holds.
LAST_READS = 2 + PIPE_BYTES // 65536
#: Polling interval for the end of a program without a pidfd, in milliseconds.
ASK_EVERY = 50.0


@dataclass
class LogEntry:
    """One event of one program.

    Attributes:
        event: ``start``, ``line`` (of text), ``data`` (a logged object), ``binary`` (a line that
            is not UTF-8), ``format_error`` (a line of the data stream that is not an object),
            ``end``; or the name that the program logged as ``$event``.
        data: The line with its newline, the object, or a dict.
        pipe: ``stdout``, ``stderr`` or ``data``; ``None`` for ``start`` and ``end``.
    """

    event: str
    data: Any
    pipe: str | None = None

    def get(self, item: str, default: object = None) -> Any:
        """The attribute ``item``, or ``default`` if it is missing."""
        return getattr(self, item, default)

    def dict(self) -> builtins.dict[str, Any]:
        """The attributes as a dict."""
        return builtins.dict(vars(self))

    def json(self) -> str:
        """The attributes as one line of strict JSON."""
        return json.dumps(simplify(self.dict()), allow_nan=False)


class Lines:
    """Splits a stream of bytes into entries, one per line.

    Args:
        entry: Makes an entry from ``event`` and ``data``.
        deserializer: Parses a line into an object; without it the line itself is the data.
    """

    def __init__(self, entry: Callable[..., Any], deserializer: Any = None) -> None:
        self._entry, self._deserializer = entry, deserializer
        self._begun = bytearray()  # Grows in place: a line may be very long.

    def feed(self, chunk: bytes, last: bool = False) -> list[Any]:
        """The entries of the lines that ``chunk`` completes; with ``last``, of the rest too."""
        end = len(chunk) if last else chunk.rfind(b"\n") + 1
        if not end and not last:
            self._begun += chunk
            return []
        whole = b"".join((self._begun, memoryview(chunk)[:end]))
        self._begun = bytearray(chunk[end:])
        try:
            lines = [line.decode() for line in io.BytesIO(whole)]  # Only newlines end a line.
        except UnicodeDecodeError:
            return [self._of_bytes(line) for line in io.BytesIO(whole)]
        if self._deserializer is not None:
            return [self._of_text(line) for line in lines]
        make_line = partial(self._entry, event="line")
        return [make_line(data=line) for line in lines]

    def _of_bytes(self, line: bytes) -> Any:
        try:
            return self._of_text(line.decode())
        except UnicodeDecodeError:
            return self._entry(event="binary", data=line)

    def _of_text(self, line: str) -> Any:
        if self._deserializer is None:
            return self._entry(event="line", data=line)
        try:
            found = self._deserializer(line)
            if not isinstance(found, (dict, list)):
                raise TypeError(f"an object is expected, not {type(found).__name__}")
            if "$event" not in found or isinstance(found, list):
                return self._entry(event="data", data=found)
            event, data = found.pop("$event"), found.pop("$data", None)
            return self._entry(event=event, data=data, **found)
        except Exception as error:
            said = {"line": line, "type": type(error).__name__, "message": str(error)}
            return self._entry(event="format_error", data=said)


class Source:
    """The output of one pipe, read without blocking.

    Args:
        pipe: A file with a descriptor.
        info: Further fields of its entries: ``{"pipe": "stdout"}``.
        deserializer: Parses a line into an object; without it the line itself is the data.
        smuggled: The ``info`` of data hidden in the text; None if there cannot be any.
    """

    def __init__(
        self,
        pipe: Any,
        info: dict[str, Any],
        deserializer: Callable[[str], Any] | None = None,
        smuggled: dict[str, Any] | None = None,
    ) -> None:
        self.pipe, self.info, self.deserializer, self.smuggled = pipe, info, deserializer, smuggled
        self.open = True

    def bind(self, entry: Callable[..., Any], info: dict[str, Any]) -> None:
        """Make entries with ``entry``, and add the program's ``info`` to each."""
        self._separator = Separator() if self.smuggled is not None else None
        self._shown = Lines(partial(entry, **info, **self.info), self.deserializer)
        self._hidden = Lines(partial(entry, **info, **(self.smuggled or {})), json.loads)
        os.set_blocking(self.fileno(), False)
        with suppress(ImportError, OSError):  # Not Linux, not a pipe, or over the user's limit.
            from fcntl import F_SETPIPE_SZ, fcntl

            fcntl(self.fileno(), F_SETPIPE_SZ, PIPE_BYTES)  # Fewer wake-ups on both sides.

    def fileno(self) -> int:
        """The descriptor."""
        return int(self.pipe.fileno())

    def read(self) -> list[Any]:
        """The entries available now; the pipe is closed at the end of the stream."""
        if not self.open:
            return []
        try:
            chunk = os.read(self.fileno(), PIPE_BYTES)
        except BlockingIOError:
            return []
        except OSError:  # The other side of a terminal has gone.
            chunk = b""
        if not chunk:
            return self.finish()
        if self._separator is None:
            return self._shown.feed(chunk)
        shown, hidden = self._separator.feed(chunk)
        return self._hidden.feed(hidden) + self._shown.feed(shown)

    def finish(self) -> list[Any]:
        """Close the pipe; the entries of an unfinished last line."""
        if not self.open:
            return []
        self.open = False
        self.pipe.close()
        kept = self._separator.rest() if self._separator is not None else b""
        return self._shown.feed(kept, last=True) + self._hidden.feed(b"", last=True)


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
        info: Further fields of every entry, as keyword arguments of ``constructor``.
        timeout: As in :class:`Multiplexer`.
        constructor: Makes an entry.
        env: The environment.
        options: As in :meth:`Multiplexer.start`.
    """
    multiplexer = Multiplexer(timeout=timeout, constructor=constructor)
    multiplexer.start(argv, info=info, env=env, **options)
    return multiplexer


class Multiplexer:
    """Runs programs and yields an entry for every line they write, in the order of each stream.

    A program's entries begin with ``start`` and end with ``end``, which has its ``return_code``.
    Programs may be started while entries are read. Waiting uses no processor time.

    Args:
        timeout: ``None``: wait for entries. A number: wait at most this many milliseconds at a
            time, and yield ``None`` each time, so that the caller can do other work.
        constructor: Called with ``event``, ``data``, ``pipe`` and the ``info`` given to ``start``.

    Attributes:
        processes: For each running program: its sources, command, info, and ``None`` or a
            descriptor that is closed with them.
        buffer: Entries to yield first.
    """

    def __init__(
        self, timeout: float | None = 0, constructor: Callable[..., Any] | None = None
    ) -> None:
        self.processes: dict[Process, tuple[list[Source], Argv, dict[str, Any], int | None]] = {}
        self.blocking = timeout is None
        self.timeout = timeout
        self.constructor = constructor or LogEntry
        self.buffer: list[Any] = []
        self._pidfds: dict[Process, int | None] = {}

    def start(
        self,
        argv: Argv,
        info: Mapping[str, Any] | None = None,
        env: Mapping[str, str] | None = None,
        use_stdout: bool = False,
        buffered: bool = True,
        **options: Any,
    ) -> Process:
        """Start a program; events that it logs through ``DATA_FD`` become entries too.

        Args:
            argv: The command.
            info: Further fields of its entries.
            env: Its environment; by default, this process's.
            use_stdout: Have it hide logged events in its stdout: for programs on other machines,
                which no other stream reaches.
            buffered: Set ``PYTHONUNBUFFERED`` to 1, so that python's lines arrive at once;
                ``False`` sets it to 0. (The name says the opposite, and programs rely on it.)
            options: As in ``subprocess.Popen``.
        """
        env = {**(os.environ if env is None else env), "PYTHONUNBUFFERED": "01"[buffered]}
        options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options}
        reading, writing = os.pipe()
        try:
            if use_stdout:
                env["DATA_FD"] = "1"
            else:
                env["DATA_FD"] = str(writing)
                options["pass_fds"] = [*options.get("pass_fds", ()), writing]
            process = subprocess.Popen(argv, env=env, **options)
        except BaseException:
            os.close(reading)
            raise
        finally:
            os.close(writing)  # The stream ends only when no process can write to it.
        data = {"pipe": "data"}
        streams = [
            Source(process.stdout, {"pipe": "stdout"}, smuggled=data if use_stdout else None),
            Source(process.stderr, {"pipe": "stderr"}),
            Source(os.fdopen(reading, "rb", buffering=0), data, json.loads),
        ]
        info = dict(info or {})
        self.add_process(proc=process, info=info, argv=argv, streams=streams, w=None)
        begun = {"command": argv, "time": time.time()}
        self.buffer.append(self.constructor(event="start", data=begun, **info))
        return process

    def add_process(
        self,
        *,
        proc: Process,
        info: Mapping[str, Any],
        argv: Argv,
        streams: Sequence[Source],
        w: int | None = None,
    ) -> None:
        """Read a program that was started elsewhere.

        Args:
            proc: The process.
            info: Further fields of its entries.
            argv: Its command, for ``start`` and ``end``.
            streams: The pipes to read.
            w: A descriptor to close when the program has ended.
        """
        sources = [source for source in streams if source.pipe is not None]
        for source in sources:
            source.bind(self.constructor, dict(info))
        self.processes[proc] = (sources, argv, dict(info), w)
        self._pidfds[proc] = _pidfd(proc)

    def __iter__(self) -> Iterator[Any]:
        """Yield the entries of all programs until the last one has ended."""
        while self.processes or self.buffer:
            while self.buffer:
                yield self.buffer.pop(0)
            ready = self._wait() if self.processes else set()
            for proc, (sources, _, _, _) in list(self.processes.items()):
                for source in sources:
                    if source.open and source.fileno() in ready:
                        yield from source.read()
                if proc.poll() is not None:
                    yield from self._end(proc)
            if not self.blocking:
                yield None

    def _wait(self) -> set[int]:
        """Wait for a readable descriptor or the end of a program; return those readable."""
        sources = [source for found in self.processes.values() for source in found[0]]
        waited = [source.fileno() for source in sources if source.open]
        poll, patience = select.poll(), self.timeout
        for descriptor in [*waited, *self._pidfds.values()]:
            if descriptor is None:
                patience = min(ASK_EVERY, ASK_EVERY if self.timeout is None else self.timeout)
            else:
                poll.register(descriptor, select.POLLIN | select.POLLPRI)
        return {descriptor for descriptor, _ in poll.poll(patience)}

    def _end(self, proc: Process) -> Iterator[Any]:
        """Yield the last entries of a program that has ended.

        A child of the program may keep a pipe open: its later output is not waited for.
        """
        sources, argv, info, w = self.processes.pop(proc)
        for source in sources:
            for _ in range(LAST_READS):
                yield from source.read()
            yield from source.finish()
        for descriptor in (self._pidfds.pop(proc), w):
            if descriptor is not None:
                with suppress(OSError):  # The caller has closed it.
                    os.close(descriptor)
        ended = {"command": argv, "time": time.time(), "return_code": proc.returncode}
        yield self.constructor(event="end", data=ended, **info)


def _pidfd(process: Process) -> int | None:
    """A pidfd, readable when the process ends; None where there is none."""
    try:
        return os.pidfd_open(process.pid) if process.returncode is None else None
    except (AttributeError, OSError):  # Not Linux, an old kernel, or the process has ended.
        return None
