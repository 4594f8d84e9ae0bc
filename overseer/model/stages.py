"""Times the stages of a pipeline in one process, from the marks of a schedule and other events.

A *run* of a schedule passes the micro-batches of one call through the stages. A *pass* of a stage,
for example the forward pass of one micro-batch, begins at its mark. It ends at the next mark, or
where the process sends, receives or waits. On a device, its time is that of the spans within it.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Sequence
from statistics import median
from typing import Any, NamedTuple

from ..recorder import sites as k
from .events import RECORD

#: Runs that are kept, and spans whose times on a device have not arrived.
MOST_RUNS, MOST_AWAITED = 256, 1 << 16
#: Spans that a device times.
_TIMED = frozenset(kind.number for kind in k.KINDS.values() if kind.nests)
_NEVER = 1 << 63


class Pass(NamedTuple):
    """A pass of a stage.

    Attributes:
        stage: The stage's number, from 0.
        name: ``forward``, ``backward``, or ``weight`` for gradients of weights alone.
        start, end: When, in ns.
        own: Its time without communication within it, in ns.
    """

    stage: int
    name: str
    start: int
    end: int
    own: int


class Passes:
    """Cuts the events of a thread into passes."""

    def __init__(self) -> None:
        self._open: tuple[int, str, int] | None = None
        self._waited = self._until = 0

    def mark(self, row: dict[str, Any], start: int) -> Pass | None:
        """Read a mark: that of a pass opens it. Returns the pass that ends.

        Args:
            row: The mark's site.
            start: When.
        """
        ended = self.end(start)
        if "stage" in row:
            self._open, self._waited = (int(row["stage"]), str(row["label"]), start), 0
        return ended

    def communication(self, start: int, ns: int, depth: int) -> Pass | None:
        """Read a send, a receive, a collective or a wait. Returns the pass that ends.

        Args:
            start, ns: When, and for how long.
            depth: Number of spans around it: within one, it is part of the pass.
        """
        if not depth:
            return self.end(start)
        if start >= self._until:  # Otherwise within another one.
            self._waited, self._until = self._waited + ns, start + ns
        return None

    def end(self, at: int) -> Pass | None:
        """End the open pass, if any, and return it."""
        opened, self._open = self._open, None
        if opened is None or at <= opened[2]:
            return None
        stage, name, start = opened
        return Pass(stage, name, start, at, max(at - start - self._waited, 0))

    @property
    def open(self) -> tuple[int, str] | None:
        """The stage and name of the open pass."""
        return self._open and self._open[:2]


class _Run:
    """One run of a schedule: its times, by stage and name of the pass."""

    def __init__(self, start: int, about: dict[str, Any]) -> None:
        self.start = self.last = start
        self.about, self.rows = about, dict[int, float]()
        self.ns = self.device_ns = 0.0
        self.learns = False
        self.own: dict[tuple[int, str], float] = defaultdict(float)
        self.on_device: dict[tuple[int, str], float] = defaultdict(float)
        self.pending: dict[tuple[int, int], tuple[int, str] | None] = {}

    def arrived(self, key: tuple[int, int], gap: float, ns: int, first: bool) -> None:
        """Add a device's time of a span: its own, and that before it unless it is the first."""
        of = self.pending.pop(key)
        self.device_ns += ns + (0.0 if first or gap != gap else gap)
        if of is not None:
            self.on_device[of] += ns

    def times(self) -> tuple[float, dict[tuple[int, str], float]]:
        """Its ns, and those of its passes: a device's, if it has timed any."""
        return (self.device_ns, self.on_device) if self.on_device else (self.ns, self.own)


class StageTimes:
    """Reads the events of a process that runs stages of a pipeline.

    Runs without a backward pass, as in evaluation, are left out, and so is the first one, in
    which the stages exchange shapes.

    Args:
        sites: The table of sites, indexed by number; it may grow.
    """

    def __init__(self, sites: Sequence[dict[str, Any]]) -> None:
        self._sites, self._passes = sites, Passes()
        self._thread = self.runs = 0
        self._run: _Run | None = None
        self._done: deque[_Run] = deque(maxlen=MOST_RUNS)
        self._pending: dict[tuple[int, int], _Run] = {}

    def read(self, data: bytes) -> None:
        """Read the next events of the structure ring."""
        sites = self._sites
        for start, value, what, site, thread, low, high, depth, flags in RECORD.iter_unpack(data):
            row = sites[site]
            kind, ns = row["kind"], low + (high << 32)
            if kind == k.STAGE:
                self._mark(row, start, thread)
            elif kind == k.DEVICE:
                self._arrived(what, start, value, ns)
            elif self._run is not None and thread == self._thread:
                self._event(kind, start, ns, value, depth, flags)

    def _mark(self, row: dict[str, Any], start: int, thread: int) -> None:
        if "stages" in row:
            self._end()
            self._run, self._thread = _Run(start, row), thread
        elif self._run is not None and thread == self._thread:
            self._passed(self._passes.mark(row, start))
            if "stage" not in row:
                self._run.last = start
                self._end()

    def _event(self, kind: int, start: int, ns: int, value: float, depth: int, flags: int) -> None:
        run, of = self._run, self._passes.open
        assert run is not None
        if flags & k.MARKED and kind in _TIMED:
            key = self._thread, start
            run.pending[key] = None if kind == k.COMMUNICATION else of
            self._pending[key] = run
        if kind == k.COMMUNICATION:
            self._passed(self._passes.communication(start, ns, depth))
            run.last = max(run.last, start + ns)
        elif kind in (k.BACKWARD, k.GRADIENTS):
            run.learns = True
        elif kind == k.FORWARD and of is not None and value == value:
            run.rows[of[0]] = value
        elif kind == k.OPTIMIZER:  # A schedule of one's own, which has no mark at its end.
            self._passed(self._passes.end(start))
            self._end()

    def _passed(self, one: Pass | None) -> None:
        if one is not None and self._run is not None:
            self._run.own[one.stage, one.name] += one.own
            self._run.last = max(self._run.last, one.end)

    def _end(self) -> None:
        run, self._run = self._run, None
        self._passes.end(_NEVER)
        if run is None or not (run.learns and run.own):
            return
        run.ns = run.last - run.start
        self.runs += 1
        if self.runs > 1 or not self._done:
            self._done.append(run)
        if self.runs == 2:
            self._done.popleft()
        while len(self._pending) > MOST_AWAITED:  # A device that has stopped.
            self._pending.pop(next(iter(self._pending)))

    def _arrived(self, thread: int, start: int, gap: float, ns: int) -> None:
        run = self._pending.pop((thread, start), None)
        if run is not None and (thread, start) in run.pending:
            run.arrived((thread, start), gap, ns, first=not run.device_ns)

    def section(self) -> dict[str, Any] | None:
        """The ``pipeline`` of ``run.json``; None before the first run.

        Returns:
            ``by``, ``schedule``, ``stages`` and ``micro_batches`` of the schedule; ``batch``, the
            rows of a micro-batch; the number of ``runs``; the ``seconds`` of one (median); ``own``,
            by stage, the seconds of its passes in a run, by name.
        """
        done = tuple(self._done)
        if not done:
            return None
        about, rows = done[-1].about, done[-1].rows
        made = {key: v for key, v in about.items() if key not in ("kind", "label")}
        if about["label"]:
            made["schedule"] = about["label"]
        known = [run.times() for run in done if not run.pending]
        if rows:
            made["batch"] = int(rows[min(rows)])
        made["runs"] = self.runs
        if known:
            made["seconds"] = median([ns for ns, _ in known]) / 1e9
            own: dict[str, dict[str, float]] = {}
            for stage, name in sorted({of for _, times in known for of in times}):
                ns = median([times.get((stage, name), 0.0) for _, times in known])
                own.setdefault(str(stage), {})[name] = ns / 1e9
            made["own"] = own
        return made
