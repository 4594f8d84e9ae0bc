"""What a trace comes to: figures for each label, and which spans lie within which."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from .reading import Slice, Thread, Trace


@dataclass(frozen=True)
class LabelFigures:
    """The spans of one label; times are nanoseconds, spans without an end left out.

    Attributes:
        unfinished: Spans that have no end; not in ``count``.
    """

    label: str
    channel: str
    count: int
    total: int
    min: int
    mean: float
    p95: int
    max: int
    unfinished: int = 0


@dataclass
class Node:
    """Spans of one label in one place of the call tree.

    Attributes:
        count: Those that have ended.
        total: Their time, in nanoseconds.
        unfinished: Those that have not.
    """

    label: str
    count: int = 0
    total: int = 0
    unfinished: int = 0
    children: dict[str, Node] = field(default_factory=dict)


def by_label(trace: Trace) -> list[LabelFigures]:
    """Figures for each label of each channel, the most time first."""
    times: dict[tuple[str, str], list[int]] = {}
    unfinished: dict[tuple[str, str], int] = {}
    for one in trace.slices():
        key = one.label, one.channel
        times.setdefault(key, [])
        if one.duration is None:
            unfinished[key] = unfinished.get(key, 0) + 1
        else:
            times[key].append(one.duration)
    found = [_figures(key, took, unfinished.get(key, 0)) for key, took in times.items()]
    return sorted(found, key=lambda figures: (-figures.total, figures.label, figures.channel))


def _figures(key: tuple[str, str], took: list[int], unfinished: int) -> LabelFigures:
    label, channel = key
    if not took:
        return LabelFigures(label, channel, 0, 0, 0, 0.0, 0, 0, unfinished)
    took.sort()
    total = sum(took)
    p95 = took[max(-(-95 * len(took) // 100) - 1, 0)]  # The nearest rank.
    mean = total / len(took)
    return LabelFigures(label, channel, len(took), total, took[0], mean, p95, took[-1], unfinished)


def call_tree(thread: Thread) -> Node:
    """The spans of one row, those of the same label in the same place as one node."""
    root = Node(thread.name)
    waiting: list[tuple[Node, Iterable[Slice]]] = [(root, thread.slices)]
    while waiting:
        parent, slices = waiting.pop()
        for one in slices:
            node = parent.children.setdefault(one.label, Node(one.label))
            if one.duration is None:
                node.unfinished += 1
            else:
                node.count += 1
                node.total += one.duration
            if one.children:
                waiting.append((node, one.children))
    return root


def extent(trace: Trace) -> tuple[int, int]:
    """The first and the last moment in the trace; ``(0, 0)`` when it is empty."""
    times = [one.start for one in trace.slices()]
    times += [one.start + one.duration for one in trace.slices() if one.duration is not None]
    times += [one.start for one in trace.instants()]
    for process in trace.processes:
        for counter in process.counters.values():
            times += [time for time, _ in counter.samples]
    return (min(times), max(times)) if times else (0, 0)
