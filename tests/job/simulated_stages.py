"""Simulates pipelines whose truth is known, and the events that their ranks record."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

from overseer.model.events import RECORD
from overseer.model.stages import StageTimes
from overseer.recorder import sites as k

#: A pass: ``F`` or ``B``, the stage, and the micro-batch.
Order = list[tuple[str, int, int]]
LIBRARY = "torch.distributed.pipelining"


def gpipe(rank: int, ranks: int, stages: int, several: int) -> Order:
    """All forward passes, then all backward passes; stage after stage."""
    mine = range(rank, stages, ranks)
    forward = [("F", stage, n) for stage in mine for n in range(several)]
    return forward + [("B", stage, n) for stage in reversed(mine) for n in range(several)]


def interleaved(rank: int, ranks: int, stages: int, several: int) -> Order:
    """One forward pass, one backward pass, after a warm-up; ``several`` in groups of ``ranks``."""
    chunks = stages // ranks
    forward, backward = Order(), Order()
    for at in range(several * chunks):
        group, within = divmod(at, ranks * chunks)
        chunk, n = within // ranks, group * ranks + within % ranks
        forward.append(("F", chunk * ranks + rank, n))
        backward.append(("B", (chunks - 1 - chunk) * ranks + rank, n))
    ahead = ranks - rank if chunks == 1 else 2 * (ranks - rank - 1) + (chunks - 1) * ranks + 1
    ahead = min(ahead, len(forward))
    order = forward[: ahead - 1]
    for at in range(len(forward)):
        order += forward[ahead - 1 + at : ahead + at]
        order.append(backward[at])
    return order


SCHEDULES: dict[str, Callable[[int, int, int, int], Order]] = {
    "GPipe": gpipe, "1F1B": interleaved, "Interleaved1F1B": interleaved, "LoopedBFS": gpipe,
}  # fmt: skip


@dataclass(frozen=True)
class SimulatedPipeline:
    """Ranks that run the stages of one model.

    Attributes:
        schedule: A key of ``SCHEDULES``, or another name, which runs as GPipe.
        forward, backward: Seconds of a pass, by stage.
        ranks: Their number.
        micro_batches: Of one run.
        steps: Their number; ``accumulated``: runs of each.
        message: Seconds that each message takes.
        noise: Standard deviation of the logarithm of a pass.
        device: Whether a device works, and the host only queues.
    """

    schedule: str = "1F1B"
    forward: Sequence[float] = (0.01,) * 4
    backward: Sequence[float] = (0.02,) * 4
    ranks: int = 4
    micro_batches: int = 8
    steps: int = 10
    accumulated: int = 1
    message: float = 0.0
    noise: float = 0.0
    seed: int = 0
    device: bool = False
    sites: list[dict[str, Any]] = field(default_factory=list)

    @property
    def stages(self) -> int:
        return len(self.forward)

    def run(self, chance: random.Random) -> list[list[tuple[str, int, float, float]]]:
        """One run: by rank, each pass with its stage, begin and end in seconds."""
        order = SCHEDULES.get(self.schedule, gpipe)
        left = [order(r, self.ranks, self.stages, self.micro_batches) for r in range(self.ranks)]
        done: dict[tuple[str, int, int], float] = {}
        found: list[list[tuple[str, int, float, float]]] = [[] for _ in left]
        now = [0.0] * self.ranks
        while any(left):
            before = sum(map(len, left))
            for rank, todo in enumerate(left):
                while todo and (since := self._ready(todo[0], done)) is not None:
                    name, stage, n = todo.pop(0)
                    begin = max(now[rank], since)
                    takes = (self.forward if name == "F" else self.backward)[stage]
                    takes *= chance.lognormvariate(0, self.noise)
                    now[rank] = done[name, stage, n] = begin + takes
                    found[rank].append((name, stage, begin, now[rank]))
            assert sum(map(len, left)) < before, "the order of passes is impossible"
        return found

    def _ready(self, one: tuple[str, int, int], done: dict[Any, float]) -> float | None:
        """When the input of a pass arrives; None if it is not known yet."""
        name, stage, n = one
        first = name == "F" and stage == 0
        if first:
            return 0.0
        if name == "F":
            after = "F", stage - 1, n
        elif stage < self.stages - 1:
            after = "B", stage + 1, n
        else:
            return done.get(("F", stage, n))
        return done[after] + self.message if after in done else None

    def bubble(self) -> float:
        """The true share of idle time in a run without noise."""
        ran = self.run(random.Random(0)) if not self.noise else None
        assert ran is not None
        whole = max(end for each in ran for *_, end in each)
        return 1 - sum(end - begin for each in ran for *_, begin, end in each) / whole / len(ran)

    def members(self, **more: Any) -> list[Any]:
        """The ranks' records, as the figures of a job read them, from the events of each."""
        made = []
        for rank, data in enumerate(self.events()):
            times = StageTimes(self.sites)
            for at in range(0, len(data), 7 * RECORD.size):
                times.read(data[at : at + 7 * RECORD.size])
            facts = {"pipeline": times.section(), "tasks": {"train": {"steps": self.steps}}, **more}
            made.append(SimpleNamespace(rank=rank, facts=facts))
        return made

    def events(self) -> list[bytes]:
        """The events of each rank, by a clock of its own."""
        chance, now = random.Random(self.seed), 1.0
        recorders = [_Recorder(self, 1e4 * rank) for rank in range(self.ranks)]
        for _ in range(self.steps):
            for _ in range(self.accumulated):
                ran = self.run(chance)
                for recorder, passes in zip(recorders, ran, strict=True):
                    recorder.ran(now, passes)
                now += max(end for each in ran for *_, end in each)
            for recorder in recorders:
                recorder.add(k.OPTIMIZER, now, now + 0.001)
            now += 0.002
        return [b"".join(recorder.data) for recorder in recorders]


class _Recorder:
    """Records the events of a rank whose clock is ``ahead`` seconds ahead."""

    def __init__(self, of: SimulatedPipeline, ahead: float) -> None:
        self._of, self._ahead, self.data = of, ahead, list[bytes]()

    def site(self, kind: int, label: str = "", **more: Any) -> int:
        row = {"kind": kind, "label": label, **more}
        if row not in self._of.sites:
            self._of.sites.append(row)
        return self._of.sites.index(row)

    def add(
        self, kind: int, begin: float, end: float, depth: int = 0, value: float = float("nan"),
        flags: int = 0, site: int | None = None, what: int = 0,
    ) -> None:  # fmt: skip
        start, ns = round((begin + self._ahead) * 1e9), round((end - begin) * 1e9)
        of = self.site(kind) if site is None else site
        self.data.append(RECORD.pack(start, value, what, of, 1, ns, 0, depth, flags))

    def mark(self, at: float, label: str, **more: Any) -> None:
        self.add(k.STAGE, at, at, site=self.site(k.STAGE, label, **more))

    def ran(self, at: float, passes: list[tuple[str, int, float, float]]) -> None:
        """Record a run that begins at ``at``: marks, messages, and spans of the passes."""
        of, last = self._of, at
        self.mark(at, of.schedule, by=LIBRARY, stages=of.stages, micro_batches=of.micro_batches)
        marks = k.MARKED if of.device else 0
        arrive: list[tuple[float, float, int]] = []
        for name, stage, begin, end in passes:
            begin, end = at + begin, at + end
            # With a device, the host queues everything within a moment.
            since, until = (last, last + 1e-5) if of.device else (begin, end)
            wait = last, last + 1e-6 if of.device else begin
            self.add(k.COMMUNICATION, *wait, flags=marks)
            arrive.append(
                (wait[0], 0.0, round(1e9 * max(0.0, begin - at - sum(self._busy(arrive)))))
            )
            since = max(since, wait[1])
            self.mark(since, "forward" if name == "F" else "backward", stage=stage)
            kind = k.FORWARD if name == "F" else k.BACKWARD
            self.add(kind, since, until, value=2.0 if name == "F" else float("nan"), flags=marks)
            arrive.append((since, 0.0, round(1e9 * (end - begin))))
            last = until
            self.add(k.COMMUNICATION, last, last)
        self.mark(last, "end")
        for start, gap, ns in arrive if of.device else ():
            site = self.site(k.DEVICE)
            event = round((start + self._ahead) * 1e9), gap, 1, site, 1, ns, 0, 0, 0
            self.data.append(RECORD.pack(*event))

    @staticmethod
    def _busy(arrived: list[tuple[float, float, int]]) -> list[float]:
        return [ns / 1e9 for _, _, ns in arrived]
