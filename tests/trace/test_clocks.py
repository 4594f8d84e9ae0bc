"""Clocks of machines: aligned by collectives, or said to be unknown; simulated."""

from __future__ import annotations

import random

import pytest

from overseer.trace.clocks import align, fitted, said
from overseer.trace.digest import Digest

MS, SECOND = 10**6, 10**9
WALL = 1_790_000_000 * SECOND


class Host:
    """A machine whose clock is wrong."""

    def __init__(self, name, offset=0, ppm=0.0):
        self.name, self.offset, self.ppm = name, offset, ppm

    def shown(self, time):
        """What its clock shows at a true moment."""
        return int(WALL + time + self.offset + self.ppm * 1e-6 * time)


def job(hosts, collectives, chosen, ranks=2, jitter=40_000, wild=0.05, seconds=600):
    """Digests of ranks on these machines; ends of collectives are seen late, some much too late."""
    digests = []
    for host in hosts:
        for _ in range(ranks):
            ends = {}
            for number in range(1, collectives + 1):
                late = chosen.expovariate(1 / jitter)
                late += chosen.uniform(0, 30 * MS) if chosen.random() < wild else 0
                ends[number] = host.shown(number * seconds * SECOND // collectives + late)
            begin, end = host.shown(0), host.shown(seconds * SECOND)
            known = {"begin": begin, "end": end, "moments": {"0": ends}}
            digests.append(Digest(rank=len(digests), host=host.name, boot=host.name, **known))
    return digests


@pytest.mark.parametrize("seed", range(6))
def test_clocks_5_ms_and_50_ppm_apart_are_aligned_within_100_us(seed):
    chosen = random.Random(seed)
    hosts = [Host("first", 3 * MS, -20.0)]
    hosts += [
        Host(f"host{n}", chosen.randint(-5 * MS, 5 * MS), chosen.uniform(-50, 50)) for n in range(3)
    ]
    machines = align(job(hosts, 500, chosen))
    assert [one.name for one in machines] == [one.name for one in hosts]
    for machine, host in zip(machines, hosts, strict=True):
        for time in (0, 300 * SECOND, 600 * SECOND):
            off = machine.shift.moved(host.shown(time)) - hosts[0].shown(time)
            assert abs(off) <= min(100_000, machine.shift.uncertainty)
    (line,) = said(machines)
    assert line.startswith("clocks of 4 machines aligned within ")
    assert line.endswith(" us, by 500 collectives or more")


@pytest.mark.parametrize(
    ("spoilt", "why"),
    [
        ("none", "no collectives in common"),
        ("few", "3 collectives in common"),
        ("uneven", "ms apart"),
        ("unrelated", "ms apart"),
    ],
)
def test_a_clock_that_cannot_be_aligned_is_laid_beside_and_said(spoilt, why):
    chosen, hosts = random.Random(1), [Host("a"), Host("b", 11 * SECOND), Host("c", MS)]
    digests = job(hosts, 100, chosen, ranks=1)
    ends = digests[1].moments["0"]
    digests[1].moments = {
        "none": {"7": ends},
        "few": {"0": dict(list(ends.items())[:3])},
        "uneven": {"0": {n: time + chosen.randint(0, 9 * MS) for n, time in ends.items()}},
        "unrelated": {"0": {n: WALL + (time - WALL) * 2 for n, time in ends.items()}},
    }[spoilt]
    machines = align(digests)
    assert [one.line is not None for one in machines] == [True, False, True]
    assert machines[1].shift.moved(digests[1].begin) == digests[0].begin
    beside = [line for line in said(machines) if line.startswith("b is laid beside")]
    assert len(beside) == 1 and why in beside[0]


def test_a_machine_may_be_known_by_another_one_only():
    chosen, hosts = random.Random(2), [Host("a"), Host("b", MS, 9.0), Host("c", -4 * MS, -30.0)]
    digests = job(hosts, 200, chosen, ranks=1)
    digests[1].moments["1"] = {n: time - 5 for n, time in digests[1].moments["0"].items()}
    digests[2].moments = {"1": digests[2].moments["0"]}
    machines = align(digests)
    assert abs(machines[2].shift.moved(hosts[2].shown(SECOND)) - hosts[0].shown(SECOND)) < 100_000
    assert machines[2].shift.uncertainty > machines[1].shift.uncertainty


def test_ranks_of_one_machine_that_leave_apart_tell_nothing():
    """Their clock is the same: collectives that end 15 ms apart there end so elsewhere too."""
    chosen, hosts = random.Random(3), [Host("a"), Host("b")]
    digests = job(hosts, 100, chosen)
    digests[1].moments["0"] = {n: t + 15 * MS for n, t in digests[1].moments["0"].items()}
    assert "ms apart" in said(align(digests))[0]


def test_moments_close_together_tell_hardly_a_rate():
    near = [(WALL + n * MS, WALL + n * MS + 2 * MS + n % 3 * 90_000) for n in range(20)]
    line = fitted(near, WALL, WALL + 10 * SECOND)
    assert abs(line.rate) < 20e-6
    assert line.uncertainty > 2 * MS, "the rest of the trace is far away"


def test_what_ddp_waits_for_counts_only_where_there_is_nothing_better():
    digests = job([Host("a"), Host("b", MS)], 50, random.Random(4), ranks=1)
    exact = align(digests)
    for digest in digests:
        digest.moments["DDP"] = {n: time * 2 for n, time in digest.moments["0"].items()}
    assert align(digests) == exact
    for digest in digests:
        digest.moments = {"DDP": {n: time // 2 for n, time in digest.moments["DDP"].items()}}
    assert align(digests) == exact


def test_hosts_of_the_same_name_are_told_apart():
    digests = [Digest(host="localhost", boot=boot) for boot in ("x", "y", "x")]
    assert [(m.name, m.ranks) for m in align(digests)] == [
        ("localhost", (0, 2)), ("localhost (2)", (1,)),
    ]  # fmt: skip
