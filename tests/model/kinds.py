"""Series of step times whose warm-up is known, in the kinds that real runs show."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from random import Random

from overseer.model.steady import TOLERANCE

#: Step times, and from which step on they are steady; None for never.
Series = tuple[list[float], int | None]
Range = tuple[float, float]


def even(random: Random, n: int, sigma: float) -> list[float]:
    return [random.gauss(1, sigma) for _ in range(n)]


def levels(
    random: Random, n: Range = (150, 300), until: Range = (0, 0), factor: Range = (1, 1),
    sigma: Range = (0.01, 0.03), compiling: int = 0,
) -> Series:  # fmt: skip
    """One level, then another; the first steps may compile."""
    steps, first = random.randint(*map(int, n)), random.uniform(*factor)
    end = round(random.uniform(*until) * (steps if until[1] <= 1 else 1))
    values = even(random, steps, random.uniform(*sigma))
    values[:end] = [v * first for v in values[:end]]
    values[:compiling] = [v * random.uniform(20, 300) for v in values[:compiling]]
    return values, max(end, compiling)


def compiled_late(random: Random) -> Series:
    values, _ = levels(random, (40, 300), sigma=(0.002, 0.03), compiling=1)
    again = random.randint(3, 15)
    values[again] *= random.uniform(20, 200)
    return values, again + 1


def staircase(random: Random) -> Series:
    values = even(random, random.randint(200, 300), 0.02)
    factor, until = random.uniform(2, 4), 0
    while factor > 1.15:
        landing = until + random.randint(5, 20)
        values[until:landing] = [value * factor for value in values[until:landing]]
        until, factor = landing, 1 + (factor - 1) * random.uniform(0.3, 0.6)
    return values, until


def way(random: Random, sigma: float, excess: Callable[[int], float], least: int = 100) -> Series:
    """Steady from where the excess is within the tolerance: that is what steady means."""
    until = next(i for i in range(10_000) if abs(excess(i)) <= TOLERANCE)
    values = even(random, max(random.randint(least, 300), 4 * until), sigma)
    return [value + excess(i) for i, value in enumerate(values)], until


def decaying(
    random: Random,
    tau: Range = (1, 15),
    by: Range = (0.5, 5),
    sigma: float = 0.01,
    often: float = 0,
) -> Series:
    """An exponential, with outliers every so often."""
    t, e = random.uniform(*tau), random.uniform(*by)
    values, until = way(random, sigma, lambda i: e * math.exp(-i / t), 60)
    return [v * random.uniform(1.5, 2.9) if random.random() < often else v for v in values], until


def decaying_twice(random: Random) -> Series:
    """At once by much, and slowly by a little."""
    fast, much = random.uniform(1, 3), random.uniform(1, 5)
    slow, little = random.uniform(6, 15), random.uniform(0.2, 0.6)
    return way(random, 0.01, lambda i: much * math.exp(-i / fast) + little * math.exp(-i / slow))


def decaying_after_compilation(random: Random) -> Series:
    values, until = decaying(random, (2, 15), (0.3, 2))
    return [values[0] * random.uniform(10, 200), *values], (until or 0) + 1


def ramp(random: Random, plateau: int = 0) -> Series:
    """A way of even slope from one level to another."""
    length = random.randint(10, 20) if plateau else random.randint(20, 50)
    excess = random.choice([-0.4, 0.5, 1]) if plateau else random.uniform(0.8, 2)
    end = plateau + length
    return way(random, 0.005, lambda i: excess * min(1, max(0, (end - i) / length)), 3 * length)


def modes(
    random: Random, factors: tuple[float, ...], weights: tuple[float, ...], first: float = 3
) -> Series:
    """Steps of several kinds, by chance."""
    values, until = levels(random, (200, 500), (5, 40), (first, first))
    drawn = random.choices(factors, weights, k=len(values))
    return [v * mode for v, mode in zip(values, drawn, strict=True)], until


def rhythm(random: Random, every: Range, slow: Range, first: float) -> Series:
    """Every so many steps one is slower, as where an optimizer steps after several batches."""
    values, until = levels(random, until=(2, 60), factor=(first, first))
    period, factor = random.randint(*map(int, every)), random.uniform(*slow)
    return [v * factor if i % period == period - 1 else v for i, v in enumerate(values)], until


def collecting_garbage(random: Random) -> Series:
    """A saw whose teeth are short, and a spike at the end of each."""
    values, until = levels(random, until=(3, 60), factor=(2, 2))
    every = random.randint(10, 25)
    teeth = (0.06 * (i % every) / every + 0.4 * (i % every == every - 1) for i in range(300))
    return [v * (1 + tooth) for v, tooth in zip(values, teeth, strict=False)], until


def outliers(random: Random) -> Series:
    values, until = levels(random, until=(3, 60), factor=(1.6, 1.6))
    return [v * (1 + random.paretovariate(1.2) * (random.random() < 0.04)) for v in values], until


def correlated(
    random: Random, n: Range = (200, 300), keeps: float = 0.7, drawn: float = 0.01,
    sigma: Range = (0.01, 0.01), first: Range = (1.7, 1.7),
) -> Series:  # fmt: skip
    """A machine with its better and worse moments."""
    values, until = levels(random, n, (5, 40), first, sigma)
    error = 0.0
    for i in range(len(values)):
        error = keeps * error + random.gauss(0, drawn)
        values[i] += error
    return values, until


def excursion(
    random: Random, length: Range, where: Range, slow: Range, n: Range = (350, 800)
) -> Series:
    """Another level for a while; lengths up to 1 and places are parts of the series."""
    values, _ = levels(random, n, sigma=(0.005, 0.04))
    steps = round(random.uniform(*length) * (len(values) if length[1] <= 1 else 1))
    end, factor = round(len(values) * random.uniform(*where)), random.uniform(*slow)
    return [v * factor if end - steps <= i < end else v for i, v in enumerate(values)], end


def hiccup(random: Random) -> Series:
    return excursion(random, (1, 20), (0.5, 0.9), (1.5, 4))[0], 0


def slow_in_every_epoch(random: Random) -> Series:
    epoch, slow = random.randint(200, 300), random.uniform(1.5, 3)
    length, n = random.randint(22, 30), epoch * random.randint(2, 4)
    return [
        v * slow if i % epoch < length else v for i, v in enumerate(even(random, n, 0.02))
    ], length


def varied_lengths(random: Random) -> Series:
    """Sequences of any length, and a first step that compiles."""
    n, until = random.randint(150, 300), random.randint(1, 6)
    return [math.exp(random.gauss(0, 0.3)) * (8 if i < until else 1) for i in range(n)], until


def odd_end(random: Random) -> Series:
    """The last few steps are off by a little more than the tolerance."""
    values, by = even(random, random.randint(200, 600), 0.005), random.choice([-0.07, 0.07])
    last = random.randint(6, len(values) // 20)
    return [*values[:-last], *(v + by for v in values[-last:])], 0


def drifting(
    random: Random, by: Range = (0.15, 1), sigma: float = 0.02, power: float = 1, begins: float = 0,
    n: Range = (200, 400), slow: float = 1, often: float = 0,
) -> Series:  # fmt: skip
    """A rise or a fall, along a power of time, from a part of the series on."""
    steps, rise = random.randint(*map(int, n)), random.uniform(*by)
    values = [
        v
        * (slow if random.random() < often else 1)
        * (1 + rise * max(0, (i / steps - begins)) ** power)
        for i, v in enumerate(even(random, steps, sigma))
    ]
    return values, None


def drifting_after_a_decay(random: Random) -> Series:
    tau, excess = random.uniform(2, 15), random.uniform(0.5, 3)
    values, _ = drifting(random, random.choice([(-0.3, -0.06), (0.06, 0.3)]), 0.006)
    return [v + excess * math.exp(-i / tau) for i, v in enumerate(values)], None


def decaying_for_ever(random: Random) -> Series:
    n, times, by = random.randint(150, 400), random.uniform(2, 5), random.uniform(1, 5)
    values = even(random, n, random.uniform(0.005, 0.02))
    return [v + by * math.exp(-times * i / n) for i, v in enumerate(values)], None


def growing_peaks(random: Random) -> Series:
    """Every so often a step plots all losses so far: it takes ever longer, the others do not."""
    n, every = random.randint(200, 400), random.randint(10, 20)
    peak, by = random.uniform(0.5, 2.5), random.uniform(0.1, 0.2) * every
    values = even(random, n, 0.02)
    return [v + peak + by * i / n if not i % every else v for i, v in enumerate(values)], None


def wandering(random: Random) -> Series:
    value, values = 1.0, []
    for _ in range(random.randint(250, 400)):
        value *= math.exp(random.gauss(0, 0.04))
        values.append(value * random.gauss(1, 0.01))
    return values, None


def saw_tooth(random: Random) -> Series:
    n = random.randint(200, 400)
    tooth = random.uniform(n / 6, n / 2.5)
    return [v + 0.3 * (i % tooth) / tooth for i, v in enumerate(even(random, n, 0.02))], None


def two_speeds(random: Random) -> Series:
    n, turn = random.randint(250, 400), random.randint(30, 60)
    return [v * 1.3 if (i // turn) % 2 else v for i, v in enumerate(even(random, n, 0.02))], None


def slow_at_the_end(random: Random) -> Series:
    """A short run: its last steps say that its mean is not what it goes on with."""
    n, slow = random.randint(25, 40), random.uniform(1.7, 2.5)
    return [v * slow if i >= n - n // 6 else v for i, v in enumerate(even(random, n, 0.01))], None


def never(kind: Callable[[Random], Series]) -> Callable[[Random], Series]:
    return lambda random: (kind(random)[0], None)


def contended(random: Random) -> Series:
    """Something else takes the machine now and then: quartiles are three to five times apart."""
    n, sigma = random.randint(120, 400), random.uniform(0.8, 1.2)
    return [math.exp(random.gauss(0, sigma)) for _ in range(n)], None


def contended_in_bursts(random: Random) -> Series:
    slow, values = False, []
    for value in even(random, random.randint(120, 400), 0.05):
        slow ^= random.random() < 0.2
        values.append(value * 4 if slow else value)
    return values, None


#: Steady from a step on.
STEADY: dict[str, Callable[[Random], Series]] = {
    "flat": partial(levels, n=(60, 300)),
    "noisy": partial(levels, sigma=(0.08, 0.08)),
    "slow first step": partial(levels, n=(40, 300), compiling=1),
    "compiled late": compiled_late,
    "slow before compiling": partial(levels, until=(5, 30), factor=(1.3, 4), compiling=3),
    "step down": partial(levels, until=(0.05, 0.5), factor=(1.2, 3)),
    "step down in noise": partial(levels, until=(0.1, 0.5), factor=(1.3, 2), sigma=(0.08, 0.08)),
    "step up": partial(levels, until=(5, 100), factor=(0.6, 0.6)),
    "small step": partial(levels, until=(12, 70), factor=(1.05, 1.08), sigma=(0.001, 0.01)),
    "staircase": staircase,
    "decay": decaying,
    "fast decay": partial(decaying, tau=(1, 6)),
    "slow decay": partial(decaying, tau=(6, 30)),
    "decay in noise": partial(decaying, tau=(2, 20), sigma=0.025),
    "decay with outliers": partial(decaying, tau=(2, 10), by=(0.5, 3), often=0.02),
    "rise to a level": partial(decaying, by=(-0.7, -0.2)),
    "two decays": decaying_twice,
    "decay after compiling": decaying_after_compilation,
    "ramp": ramp,
    "ramp after a plateau": partial(ramp, plateau=80),
    "two modes": partial(modes, factors=(1, 1.4), weights=(65, 35)),
    "three modes": partial(modes, factors=(1, 1.3, 1.8), weights=(70, 18, 12)),
    "slow now and then": partial(modes, factors=(1, 2), weights=(90, 10)),
    "alternating": partial(rhythm, every=(2, 2), slow=(1.5, 1.5), first=2.5),
    "accumulating": partial(rhythm, every=(2, 8), slow=(1.3, 3), first=4.5),
    "checkpoints": partial(rhythm, every=(10, 60), slow=(3, 20), first=1.8),
    "small last batches": partial(rhythm, every=(15, 60), slow=(0.4, 0.4), first=3),
    "collecting garbage": collecting_garbage,
    "outliers": outliers,
    "correlated": correlated,
    "hiccup": hiccup,
    "one slow epoch": partial(excursion, length=(0.07, 0.15), where=(0.35, 0.6), slow=(1.5, 4.5)),
    "slow in every epoch": slow_in_every_epoch,
    "varied lengths": varied_lengths,
    "odd end": odd_end,
}
#: Two levels that may be the same performance: steady from the first step or from the change.
ALIKE: dict[str, Callable[[Random], Series]] = {
    "step within the tolerance": partial(
        levels, until=(0.25, 0.5), factor=(1.03, 1.045), sigma=(0.001, 0.007)
    ),
    "step in noise": partial(
        levels, n=(200, 400), until=(0.35, 0.6), factor=(1.02, 1.023), sigma=(0.007, 0.01)
    ),
}
#: Steady as a whole, with ups and downs that are a few times the noise.
RESTLESS: dict[str, Callable[[Random], Series]] = {
    "disturbed": partial(correlated, keeps=0.9, drawn=0.015, sigma=(0.04, 0.04), first=(2, 2)),
    "disturbed for long": partial(
        correlated, n=(300, 1000), keeps=0.95, drawn=0.01, sigma=(0.03, 0.03), first=(3, 3)
    ),
}
#: Never steady.
DRIFTING: dict[str, Callable[[Random], Series]] = {
    "up": drifting,
    "down": partial(drifting, by=(-0.6, -0.15)),
    "slowly": partial(drifting, by=(0.1, 0.15), sigma=0.015),
    "least": partial(drifting, by=(0.036, 0.05), sigma=0.005),
    "in noise": partial(drifting, by=(0.4, 1), sigma=0.08),
    "in as much noise": partial(drifting, by=(-0.2, -0.12), sigma=0.08),
    "in two modes": partial(drifting, by=(0.3, 0.6), sigma=0.03, slow=1.5, often=0.3),
    "with spikes": partial(drifting, by=(0.2, 1), slow=5, often=0.04),
    "leaking": partial(drifting, by=(0.5, 0.5), sigma=0.03, power=2),
    "bent": partial(drifting, by=(0.1, 0.2), sigma=0.006, begins=0.5),
    "late": partial(drifting, by=(0.7, 1), sigma=0.003, begins=0.88, n=(250, 600)),
    "after a decay": drifting_after_a_decay,
    "decaying for ever": decaying_for_ever,
    "growing peaks": growing_peaks,
    "wandering": wandering,
    "saw tooth": saw_tooth,
    "two speeds": two_speeds,
    "throttled late": never(partial(levels, until=(0.8, 0.94), factor=(0.7, 0.7))),
    "slow epoch late": never(
        partial(excursion, length=(0.07, 0.15), where=(0.72, 0.9), slow=(1.5, 4.5))
    ),
    "slow at the end": slow_at_the_end,
}
#: Uneven all the time: no figure of a part of them says much of another.
ERRATIC: dict[str, Callable[[Random], Series]] = {
    "contended": contended,
    "contended in bursts": contended_in_bursts,
    "two modes far apart": never(partial(modes, factors=(1, 5.5), weights=(50, 50), first=1)),
}
