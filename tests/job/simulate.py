"""Simulates jobs whose truth is known: their steps, and the records of their ranks.

Ranks work on a step, wait for the last one in a collective at the end of backward, and then step
their optimizers. Work varies as it does on machines: from step to step, between parts, with heavy
tails, and slowly over time; the first steps are slow. Each rank has a clock of its own.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from overseer.job.straggler import OWN_PARTS, RankSteps
from overseer.rundir.steps import FIELDS, LOADED, OF_BACKWARD, header

np = pytest.importorskip("numpy")

#: Seconds of the parts of a typical step.
STEP = {"loading": 0.004, "forward": 0.03, "backward": 0.05, "optimizer": 0.01, "other": 0.006}
BEFORE = ("loading", "forward", "backward", "other", "pause")


@dataclass(frozen=True)
class Slow:
    """Additional work of a rank.

    Attributes:
        rank: The rank; None for another one in each step.
        share: Of the time of a typical step.
        part: The part that becomes longer.
        every: In every so-manieth step.
        steps: In these steps only: the first one, and the one after the last.
    """

    rank: int | None
    share: float = 0.1
    part: str = "backward"
    every: int = 1
    steps: tuple[int, int] = (1, 1 << 40)


@dataclass(frozen=True)
class Clock:
    """A rank's clock: seconds ahead of the true time, and seconds per second that it gains."""

    offset: float = 0.0
    drift: float = 0.0


@dataclass(frozen=True)
class SimulatedJob:
    """A job of some ranks.

    Attributes:
        ranks: Their number.
        steps: Steps of each.
        seed: Of all chance.
        noise: Standard deviation of a step's logarithm, and half of that for each part.
        tails: Share of steps with a delay of half a step on average, exponentially distributed.
        drift: Standard deviation of a rank's slow variation.
        hosts: Standard deviation of the constant speed of ranks.
        slow: Additional work.
        stages: Work of each rank relative to the others', as in a pipeline.
        collective: Seconds that each collective takes; None: ranks do not wait for each other.
        losses: Whether the loss of a step is known.
    """

    ranks: int = 8
    steps: int = 300
    seed: int = 0
    noise: float = 0.05
    tails: float = 0.01
    drift: float = 0.01
    hosts: float = 0.0
    slow: Sequence[Slow] = ()
    stages: Sequence[float] = ()
    collective: float | None = 0.002
    losses: bool = True
    parts: Mapping[str, float] = field(default_factory=lambda: STEP)

    def columns(self) -> dict[str, Any]:
        """Seconds of each part and of ``communication``, and the ``start`` of each step.

        Arrays of ranks by steps.
        """
        chance = np.random.default_rng(self.seed)
        shape = self.ranks, self.steps
        typical = sum(self.parts.values())
        factor = np.exp(self.noise * chance.standard_normal(shape))
        factor *= np.exp(self.hosts * chance.standard_normal((self.ranks, 1)))
        if self.drift:
            innovations = chance.standard_normal(shape) * self.drift * np.sqrt(1 - 0.98**2)
            slowly = np.zeros(self.ranks)
            for at in range(self.steps):
                slowly = 0.98 * slowly + innovations[:, at]
                factor[:, at] *= np.exp(slowly)
        if self.stages:
            factor *= np.resize(np.array(self.stages), self.ranks)[:, None]
        first = np.array([8.0, 2.0, 1.3])[: self.steps]
        factor[:, : len(first)] *= first * np.exp(0.3 * chance.standard_normal((self.ranks, 1)))
        made = {
            name: seconds * factor * np.exp(self.noise / 2 * chance.standard_normal(shape))
            for name, seconds in self.parts.items()
        }
        made["pause"] = np.zeros(shape)
        delays = chance.exponential(typical / 2, shape) * (chance.random(shape) < self.tails)
        where = chance.integers(len(self.parts), size=shape)
        for at, name in enumerate(self.parts):
            made[name] += delays * (where == at)
        numbers = np.arange(1, self.steps + 1)
        for slow in self.slow:
            late = (numbers % slow.every == 0) & (numbers >= slow.steps[0])
            late &= numbers < slow.steps[1]
            ranks = slow.rank
            if ranks is None:
                ranks = chance.integers(self.ranks, size=self.steps)[late]
            made[slow.part][ranks, np.flatnonzero(late)] += slow.share * typical
        return self._wait(made, chance)

    def _wait(self, made: dict[str, Any], chance: Any) -> dict[str, Any]:
        """Add what ranks wait for each other, and when their steps begin."""
        shape = self.ranks, self.steps
        made["start"], made["communication"] = np.zeros(shape), np.zeros(shape)
        before = sum(made[name] for name in BEFORE)
        now = np.zeros(self.ranks)
        for at in range(self.steps):
            made["start"][:, at] = now
            now = now + before[:, at]
            if self.collective is not None:
                takes = self.collective * np.exp(0.1 * chance.standard_normal())
                together = now.max() + takes
                made["communication"][:, at] = together - now
                now = np.full(self.ranks, together)
            now = now + made["optimizer"][:, at]
        return made

    def rank_steps(self, strides: Mapping[int, int] | None = None) -> list[RankSteps]:
        """The steps as the search for stragglers reads them; ``strides`` by rank."""
        made = self.columns()
        ns = {name: (made[name] * 1e9).astype(np.int64) for name in (*OWN_PARTS, "communication")}
        found = []
        for rank in range(self.ranks):
            stride = (strides or {}).get(rank, 1)
            kept = slice(stride - 1, None, stride)
            numbers = [*range(stride, self.steps + 1, stride)]
            parts = {name: values[rank, kept].tolist() for name, values in ns.items()}
            found.append(RankSteps(rank, numbers, parts))
        return found

    def write(
        self,
        directory: Path,
        *,
        clocks: Mapping[int, Clock] | None = None,
        strides: Mapping[int, int] | None = None,
        missing: Collection[int] = (),
        killed: Mapping[int, int] | None = None,
        torn: Collection[int] = (),
        facts: Mapping[int, Mapping[str, Any]] | None = None,
        same_losses: bool = False,
        between: bool = False,
        repeat: int = 1,
    ) -> Path:
        """Write the records of the ranks.

        Args:
            directory: The job's; returned.
            clocks: Of ranks whose clocks are not the true one.
            strides: Of ranks that recorded every so-manieth step.
            missing: Ranks without a record.
            killed: The last step of ranks that were killed.
            torn: Ranks whose ``steps.npy`` ends within a row.
            facts: More facts of ranks.
            same_losses: Whether all ranks see the same batch.
            between: Whether pauses are known ones, which lie between two steps.
            repeat: How often the steps are written one after another, for large files.
        """
        made, chance = self.columns(), np.random.default_rng(self.seed)
        losses = chance.random((1 if same_losses else self.ranks, self.steps))
        for rank in range(self.ranks):
            if rank in missing:
                continue
            at = directory / f"rank{rank}"
            at.mkdir(parents=True)
            clock, stride = (clocks or {}).get(rank, Clock()), (strides or {}).get(rank, 1)
            last = (killed or {}).get(rank, self.steps)
            kept = slice(stride - 1, last, stride)
            rows = np.zeros(len(range(stride, last + 1, stride)), np.dtype(FIELDS))
            rows["step"], rows["task"] = range(stride, last + 1, stride), b"train"
            rows["items"], rows["loss"] = 32.0, losses[rank % len(losses), kept]
            if not self.losses:
                rows["loss"] = np.nan
            rows["flags"], rows["thread"] = LOADED | OF_BACKWARD, 1
            took = np.zeros(self.steps)
            for name in (*OWN_PARTS, "communication"):
                took += made[name][rank]
                rows[name] = made[name][rank, kept] * (1 + clock.drift) * 1e9
            starts = made["start"][rank] * (1 + clock.drift) + clock.offset + 1000
            rows["start"] = starts[kept] * 1e9
            rows["end"] = (starts + took * (1 + clock.drift))[kept] * 1e9
            if between:
                rows["start"] += rows["pause"]
                rows["pause"] = 0
            if repeat > 1:
                again = np.repeat(np.arange(repeat), len(rows))
                whole = rows["end"][-1] - rows["start"][0]
                rows = np.tile(rows, repeat)
                rows["step"] += again * self.steps
                rows["start"] += again * whole
                rows["end"] += again * whole
            data = header(len(rows)) + rows.tobytes()
            (at / "steps.npy").write_bytes(data[: len(data) - (60 if rank in torn else 0)])
            seconds = {name: made[name][rank, :last] for name in (*OWN_PARTS, "communication")}
            known = _facts(self, rank, seconds, stride, len(rows), rank not in (killed or {}))
            (at / "run.json").write_text(json.dumps({**known, **(facts or {}).get(rank, {})}))
        return directory


def _facts(
    job: SimulatedJob, rank: int, seconds: Mapping[str, Any], stride: int, rows: int, ended: bool
) -> dict[str, Any]:
    """A ``run.json`` as a rank writes it."""
    own = sum(seconds.values())
    steps, wall = len(own), float(own.sum())
    parts = {name: float(each.sum()) for name, each in seconds.items() if name != "pause"}
    compute = sum(parts.values()) - parts["loading"]
    rate = 32 * (steps - 1) / float(own[1:].sum())
    made: dict[str, Any] = {
        "schema": 2, "version": "2.0.0", "script": "/job/train.py", "argv": ["train.py"],
        "rank": rank, "local_rank": rank % 8, "world_size": job.ranks,
        "place": f"node{rank // 8} 0123", "pid": 1000 + rank,
        "started": "2026-11-01T10:00:00.000+00:00", "seconds": wall + 3,
        "provenance": {"hostname": f"node{rank // 8}"},
        "steps": {"path": "steps.npy", "rows": rows, "stride": stride, "start": 990_000_000_000},
        "tasks": {
            "train": {
                "steps": steps, "items": 32 * steps, "units": "items/s",
                "first_step_seconds": float(own[0]),
                "rate": {"wall": 32 * steps / wall, "steady": rate, "median": rate, "n": steps - 1,
                         "skipped": 1, "clock": "perf_counter"},
                "step_seconds": {
                    "median": float(np.median(own)), "p95": float(np.quantile(own, 0.95)),
                    "p99": float(np.quantile(own, 0.99)), "max": float(own[1:].max(initial=0)),
                },
                "steady": {"verdict": "steady", "from_step": 12},
                "loading": {"seconds": parts["loading"], "share": parts["loading"] / wall},
                "compute": {"seconds": compute, "share": compute / wall},
                "breakdown": parts,
                "loss": {"first": 1.0, "last": 0.5},
            }
        },
    }  # fmt: skip
    if ended:
        made |= {"ended": "2026-11-01T10:10:00.000+00:00", "exit_status": 0}
    return made
