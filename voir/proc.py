"""Running programs as processes, and reading what they print and log as one stream of events."""

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

#: How much is read at once, and asked for as the size of a pipe.
CHUNK = 1 << 20
#: How often to read from a program that has ended: no more than fits into a pipe.
LAST_READS = 2 + CHUNK // 65536
#: How often to ask whether a program has ended where no descriptor tells it, in milliseconds.
ASK_EVERY = 50.0


@dataclass
class LogEntry:
    """One event of one program.

    Attributes:
        event: ``start``, ``line`` (of text), ``data`` (an object that was logged), ``binary`` (a
            line that is no UTF-8), ``format_error`` (a line on the data stream that is no object),
            ``end``; or the name of an event that the program itself logged as ``$event``.
        data: What belongs to it: the line with its newline, the object, a dict.
        pipe: ``stdout``, ``stderr`` or ``data``; ``None`` for ``start`` and ``end``.
    """

    event: str
    data: Any
    pipe: str | None = None

    def get(self, item: str, default: object = None) -> Any:
        """The attribute ``item``, or ``default`` without it."""
        return getattr(self, item, default)

    def dict(self) -> builtins.dict[str, Any]:
        """The attributes as a dict."""
        return builtins.dict(vars(self))

    def json(self) -> str:
        """The attributes as one line of strict JSON, whatever they are."""
        return json.dumps(simplify(self.dict()), allow_nan=False)


class Lines:
    """Makes entries of a stream of bytes, one of each line.

    Args:
        entry: Makes an entry of ``event`` and ``data``.
        deserializer: Makes an object of a line; without it the line itself is the data.
    """

    def __init__(self, entry: Callable[..., Any], deserializer: Any = None) -> None:
        self._entry, self._deserializer = entry, deserializer
        self._begun = bytearray()  # Its size changes in place: a line may be very long.

    def feed(self, chunk: bytes, last: bool = False) -> list[Any]:
        """The entries of the lines that ``chunk`` completes; all that there is with ``last``."""
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
    """What comes out of one pipe, read without blocking.

    Args:
        pipe: A file with a descriptor.
        info: What its entries have besides ``event`` and ``data``: ``{"pipe": "stdout"}``.
        deserializer: Makes an object of a line; without it the line itself is the data.
        smuggled: ``info`` of the data that is hidden in the text, if there may be any.
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
        """Make entries with ``entry``; each gets ``info`` of the program."""
        self._separator = Separator() if self.smuggled is not None else None
        self._shown = Lines(partial(entry, **info, **self.info), self.deserializer)
        self._hidden = Lines(partial(entry, **info, **(self.smuggled or {})), json.loads)
        os.set_blocking(self.fileno(), False)
        with suppress(ImportError, OSError):  # Not Linux, no pipe, or one too many that is large.
            from fcntl import F_SETPIPE_SZ, fcntl

            fcntl(self.fileno(), F_SETPIPE_SZ, CHUNK)  # So neither side wakes for every few lines.

    def fileno(self) -> int:
        """The descriptor."""
        return int(self.pipe.fileno())

    def read(self) -> list[Any]:
        """The entries of what there is to read now; at the end of the stream it is closed."""
        if not self.open:
            return []
        try:
            chunk = os.read(self.fileno(), CHUNK)
        except BlockingIOError:
            return []
        except OSError:  # A terminal whose other side is gone says so by an error.
            chunk = b""
        if not chunk:
            return self.finish()
        if self._separator is None:
            return self._shown.feed(chunk)
        shown, hidden = self._separator.feed(chunk)
        return self._hidden.feed(hidden) + self._shown.feed(shown)

    def finish(self) -> list[Any]:
        """Close it; the entries of a line without an end, which nothing will complete any more."""
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
            os.close(writing)  # The end of the stream shows only when nobody can write any more.
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
            info: What its entries have besides.
            argv: Its command, for ``start`` and ``end``.
            streams: What to read.
            w: A descriptor to close when it has ended.
        """
        sources = [source for source in streams if source.pipe is not None]
        for source in sources:
            source.bind(self.constructor, dict(info))
        self.processes[proc] = (sources, argv, dict(info), w)
        self._pidfds[proc] = _pidfd(proc)

    def __iter__(self) -> Iterator[Any]:
        """The entries of all programs, until the last of them has ended."""
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
        """The descriptors that can be read; waits for one, or for the end of a program."""
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
        """The last entries of a program that has ended.

        A process that it started may hold a pipe open and write on; nobody waits for that.
        """
        sources, argv, info, w = self.processes.pop(proc)
        for source in sources:
            for _ in range(LAST_READS):
                yield from source.read()
            yield from source.finish()
        for descriptor in (self._pidfds.pop(proc), w):
            if descriptor is not None:
                with suppress(OSError):  # Whoever opened it has closed it.
                    os.close(descriptor)
        ended = {"command": argv, "time": time.time(), "return_code": proc.returncode}
        yield self.constructor(event="end", data=ended, **info)


def _pidfd(process: Process) -> int | None:
    """A descriptor that becomes readable when the process ends, where the system has such."""
    try:
        return os.pidfd_open(process.pid) if process.returncode is None else None
    except (AttributeError, OSError):  # Not Linux, an old one, or the process has gone already.
        return None
