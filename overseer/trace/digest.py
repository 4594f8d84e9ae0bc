"""The digest of a trace: its labels' figures, and moments by which ranks' clocks are compared.

A rank adds it to its trace as the last packet, where Perfetto ignores it; so a job is summed up,
and its clocks are aligned, without reading all ranks' events.
"""

from __future__ import annotations

import json
import os
from array import array
from bisect import bisect_left, bisect_right
from contextlib import suppress
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path

from ..files import reading
from .reading import LabelFigures, extent, rank_of, read_trace
from .wire import message

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

    from .reading import Trace

#: TracePacket.for_testing and TestEvent.str: valid in the format, and shown by no reader.
_TESTING, _TEXT = 900, 1
_MAGIC = b"voir digest\n"
#: Maximum size of a digest in bytes, of which a reader tries the last few first.
LARGEST, _USUAL = 1 << 21, 1 << 16
#: Labels, process groups, and moments of each group that are kept.
MAX_DIGEST_LABELS, MAX_GROUPS, MAX_MOMENTS = 300, 16, 1024
#: The name of the labels beyond.
OTHERS = "(others)"
#: Durations counted together before they are added up.
_HELD = 1 << 16
#: Upper edges of the classes of durations: 16 for each doubling, so each is 4.4 % wide.
EDGES = [round(2 ** (n / 16)) for n in range(64, 63 * 16)]
#: The calls that no rank leaves before all ranks have come.
END_TOGETHER = ("all", "reduce_scatter", "barrier")
#: Key of what DDP waits for in a step.
DDP_WAITS = "DDP"
#: How soon a call that does not return before its end waits for it, in ns.
AT_ONCE = 200_000


@dataclass
class LabelDigest:
    """Spans of one label; times in ns.

    Attributes:
        classes: Count of spans by class of duration, see :data:`EDGES`.
    """

    label: str
    channel: str
    count: int = 0
    total: int = 0
    min: int = 0
    max: int = 0
    unfinished: int = 0
    classes: dict[int, int] = field(default_factory=dict)

    def add(self, durations: array[int]) -> None:
        """Count spans; ``durations`` is empty afterwards."""
        if not durations:
            return
        found = sorted(durations)
        del durations[:]
        self.min = min(self.min, found[0]) if self.count else found[0]
        self.max = max(self.max, found[-1])
        self.count += len(found)
        self.total += sum(found)
        at = 0
        while at < len(found):
            edge = bisect_left(EDGES, found[at])
            until = bisect_right(found, EDGES[edge]) if edge < len(EDGES) else len(found)
            self.classes[edge] = self.classes.get(edge, 0) + until - at
            at = until

    def merge(self, other: LabelDigest) -> None:
        """Count another rank's spans too."""
        if other.count:
            self.min = min(self.min, other.min) if self.count else other.min
        self.max = max(self.max, other.max)
        self.count, self.total = self.count + other.count, self.total + other.total
        self.unfinished += other.unfinished
        for edge, n in other.classes.items():
            self.classes[edge] = self.classes.get(edge, 0) + n

    def figures(self) -> LabelFigures:
        """Its figures; the percentile is at most 2.2 % off."""
        left, p95 = -(-95 * self.count // 100), self.max
        for edge in sorted(self.classes):
            left -= self.classes[edge]
            if left <= 0 and self.count >= 20:  # Of fewer it is the longest.
                high = EDGES[min(edge, len(EDGES) - 1)]
                p95 = min(max(round(high * 2 ** (-1 / 32)), self.min), self.max)
                break
        mean = self.total / self.count if self.count else 0.0
        least, most = (self.min, self.max) if self.count else (0, 0)
        times = self.total, least, mean, p95, most
        return LabelFigures(self.label, self.channel, self.count, *times, self.unfinished)


@dataclass
class Digest:
    """What a job's readers need of one rank's trace.

    Attributes:
        name: The process, as the trace names it.
        host: The machine's name; ``boot`` tells machines apart.
        anchor: Nanoseconds from the machine's monotonic clock to the trace's.
        begin: The first moment, ns since the epoch; ``end`` is the last.
        size: The trace's bytes without the digest.
        moments: By process group: numbers of collectives and when each ended.
    """

    rank: int = 0
    name: str = ""
    host: str = ""
    boot: str = ""
    anchor: int = 0
    begin: int = 0
    end: int = 0
    events: int = 0
    dropped: int = 0
    rows: int = 0
    size: int = 0
    torn: int = 0
    labels: list[LabelDigest] = field(default_factory=list)
    moments: dict[str, dict[int, int]] = field(default_factory=dict)

    def packet(self) -> bytes:
        """The digest as a packet at the end of a trace."""
        known = asdict(self)
        known["labels"] = [
            [*(each[f.name] for f in fields(LabelDigest)[:-1]), *map(list, each["classes"].items())]
            for each in known["labels"]
        ]
        known["moments"] = {
            group: [list(each), [time - self.begin for time in each.values()]]
            for group, each in self.moments.items()
        }
        return _packet(json.dumps(known, separators=(",", ":")).encode())


def _packet(content: bytes) -> bytes:
    return message(1, message(_TESTING, message(_TEXT, _MAGIC + content)))


class Digester:
    """Collects the digest while a trace is made."""

    def __init__(self) -> None:
        self._labels: dict[tuple[str, str], tuple[LabelDigest, array[int]]] = {}
        self._moments: dict[str, dict[int, int]] = {}
        self._strides: dict[str, int] = {}
        self._called: dict[int, tuple[int, str, int]] = {}
        self.device = False

    def took(self, label: str, channel: str) -> Callable[[int], object]:
        """Adds the duration of a span of this label, in ns."""
        key = label, channel
        if key not in self._labels:
            if len(self._labels) >= 10 * MAX_DIGEST_LABELS:
                key = OTHERS, channel
            self._labels.setdefault(key, (LabelDigest(*key), array("q")))
        return self._labels[key][1].append

    def flush(self) -> None:
        """Add up what was collected where it is much."""
        for label, durations in self._labels.values():
            if len(durations) > _HELD:
                label.add(durations)

    def communicated(
        self, label: str, group: str, number: int, thread: int, start: int, end: int
    ) -> None:
        """Take a collective, or a wait, in the order of a thread's events.

        The host leaves a wait for a device's collective before that has ended, so then only
        barriers count.
        """
        if number:
            kind = label.lstrip("_")
            if kind.startswith(END_TOGETHER) and (not self.device or kind.startswith("barrier")):
                self._called[thread] = end, group, number
            else:
                self._called.pop(thread, None)
        elif label.startswith("wait") and thread in self._called:
            called, group, number = self._called.pop(thread)
            if start - called <= AT_ONCE:
                self.moment(group, number, end)

    def moment(self, group: str, number: int, end: int) -> None:
        """Keep when a collective ended; of many, those whose numbers are multiples of 2, 4, ..."""
        kept = self._moments.get(group)
        if kept is None:
            if len(self._moments) >= MAX_GROUPS:
                return
            kept = self._moments[group] = {}
        stride = self._strides.get(group, 1)
        if number % stride:
            return
        kept[number] = end
        if len(kept) > MAX_MOMENTS:
            self._strides[group] = stride = 2 * stride
            self._moments[group] = {n: time for n, time in kept.items() if not n % stride}

    def digest(self, offset: int, **known: Any) -> Digest:
        """The digest.

        Args:
            offset: Nanoseconds from the recorder's clock to the epoch.
            known: Further attributes.
        """
        every = []
        for label, durations in self._labels.values():
            label.add(durations)
            every.append(label)
        every.sort(key=lambda one: -one.total)
        rest: dict[str, LabelDigest] = {}
        for label in every[MAX_DIGEST_LABELS:]:
            rest.setdefault(label.channel, LabelDigest(OTHERS, label.channel)).merge(label)
        moments = self._moments
        # Steps of several groups of DDP need not end together.
        chosen = [DDP_WAITS] if self.device or moments.keys() - {DDP_WAITS, "0"} else []
        return Digest(
            **known,
            labels=[*every[:MAX_DIGEST_LABELS], *rest.values()],
            moments={
                group: {n: time + offset for n, time in each.items()}
                for group, each in moments.items()
                if group not in chosen
            },
        )


# Reading


def read_digest(file: Path) -> Digest:
    """The digest of a trace; of one without, as earlier versions made them, all is read.

    Raises:
        VoirError: The file cannot be read, or is not a trace.
    """
    with suppress(OSError, ValueError, KeyError, TypeError, IndexError):
        for most in (_USUAL, LARGEST):
            if (found := _at_the_end(file, most)) is not None:
                return found
    return digest_of(read_trace(file))


def _at_the_end(file: Path, most: int) -> Digest | None:
    with reading(file) as opened:
        size = opened.seek(0, os.SEEK_END)
        opened.seek(max(size - most, 0))
        tail = opened.read(most)
    at = tail.rfind(_MAGIC)
    if at < 0 or not tail.endswith(packet := _packet(tail[at + len(_MAGIC) :])):
        return None
    known = json.loads(tail[at + len(_MAGIC) :])
    names = [each.name for each in fields(LabelDigest)[:-1]]
    known["labels"] = [
        LabelDigest(
            **dict(zip(names, one, strict=False)),
            classes={int(edge): int(n) for edge, n in one[len(names) :]},
        )
        for one in known["labels"]
    ]
    known["moments"] = {
        group: {int(n): int(time) + known["begin"] for n, time in zip(*each, strict=True)}
        for group, each in known["moments"].items()
    }
    return Digest(**{**known, "size": size - len(packet)})


def digest_of(trace: Trace) -> Digest:
    """The digest of a trace that has been read, without moments."""
    made, anchors = Digester(), trace.anchors
    unfinished: dict[tuple[str, str], int] = {}
    for one in trace.slices():
        took, key = made.took(one.label, one.channel), (one.label, one.channel)
        if one.duration is None:
            unfinished[key] = unfinished.get(key, 0) + 1
        else:
            took(one.duration)
    begin, end = extent(trace)
    wall, now = (anchors.get(key) for key in ("realtime_ns", "monotonic_ns"))
    found = made.digest(
        0,
        rank=rank_of(trace),
        name=trace.processes[0].name if trace.processes else "",
        host=str(anchors.get("host") or ""),
        boot=str(anchors.get("boot_id") or ""),
        anchor=wall - now if isinstance(wall, int) and isinstance(now, int) else 0,
        begin=begin,
        end=end,
        events=trace.events,
        dropped=trace.dropped,
        rows=len(trace.threads),
        size=trace.path.stat().st_size,
        torn=trace.torn_bytes,
    )
    for label in found.labels:
        label.unfinished = unfinished.get((label.label, label.channel), 0)
    return found


# Figures of a job


def summed(digests: Iterable[Digest]) -> list[LabelFigures]:
    """Figures of each label over all ranks, by total time, longest first."""
    found: dict[tuple[str, str], LabelDigest] = {}
    for digest in digests:
        for one in digest.labels:
            key = one.label, one.channel
            found.setdefault(key, LabelDigest(*key)).merge(one)
    figures = [one.figures() for one in found.values()]
    return sorted(figures, key=lambda one: (-one.total, one.label, one.channel))


def by_rank_total(digests: Iterable[Digest]) -> dict[tuple[str, str], list[tuple[int, str]]]:
    """For each label and channel, the total time in each process, shortest first, in ns."""
    found: dict[tuple[str, str], list[tuple[int, str]]] = {}
    for digest in digests:
        for one in digest.labels:
            found.setdefault((one.label, one.channel), []).append((one.total, digest.name))
    return {key: sorted(totals) for key, totals in found.items()}
