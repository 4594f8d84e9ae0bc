"""Series of step times whose warm-up is known, in the kinds that real runs show."""

from __future__ import annotations

import math
from collections.abc import Callable
from random import Random

from overseer.measure.steady import TOLERANCE

#: A kind draws step times and says from which step on they are steady, or None for never.
Kind = Callable[[Random], tuple[list[float], int | None]]


def _even(random: Random, n: int, sigma: float) -> list[float]:
    return [1 + random.gauss(0, sigma) for _ in range(n)]


def _scaled(values: list[float], until: int, factor: float) -> list[float]:
    return [value * factor if i < until else value for i, value in enumerate(values)]


def flat(random: Random) -> tuple[list[float], int | None]:
    return _even(random, random.randint(60, 300), 0.01), 0


def noisy(random: Random) -> tuple[list[float], int | None]:
    return _even(random, random.randint(100, 300), 0.08), 0


def slow_first_step(random: Random) -> tuple[list[float], int | None]:
    values = _even(random, random.randint(40, 300), 0.02)
    return _scaled(values, 1, random.uniform(3, 300)), 1


def compiled_twice(random: Random) -> tuple[list[float], int | None]:
    """One to three steps that compile, then some on unoptimised code."""
    compiling = random.randint(1, 3)
    until = compiling + random.randint(4, 30)
    values = _scaled(_even(random, random.randint(110, 300), 0.02), until, random.uniform(1.3, 4))
    return _scaled(values, compiling, random.uniform(20, 300)), until


def compiled_late(random: Random) -> tuple[list[float], int | None]:
    """Once more a few steps behind the first."""
    again, noise = random.randint(3, 15), random.uniform(0.002, 0.03)
    values = _even(random, random.randint(40, 300), noise)
    values[0] *= random.uniform(20, 200)
    values[again] *= random.uniform(20, 200)
    return values, again + 1


def stepped(random: Random) -> tuple[list[float], int | None]:
    n = random.randint(100, 300)
    until = random.randint(8, n // 2)
    return _scaled(_even(random, n, 0.03), until, random.uniform(1.2, 3)), until


def stepped_and_noisy(random: Random) -> tuple[list[float], int | None]:
    n = random.randint(150, 300)
    until = random.randint(15, n // 2)
    return _scaled(_even(random, n, 0.08), until, random.uniform(1.3, 2)), until


def staircase(random: Random) -> tuple[list[float], int | None]:
    values = _even(random, random.randint(200, 300), 0.02)
    factor, until = random.uniform(2, 4), 0
    while factor > 1.15:
        landing = until + random.randint(5, 20)
        values[until:landing] = [value * factor for value in values[until:landing]]
        until, factor = landing, 1 + (factor - 1) * random.uniform(0.3, 0.6)
    return values, until


def decaying(random: Random) -> tuple[list[float], int | None]:
    """Steady once the excess is within the tolerance: that is what steady means."""
    tau, excess = random.uniform(1, 6), random.uniform(0.5, 5)
    values = _even(random, random.randint(100, 300), 0.01)
    values = [value + excess * math.exp(-i / tau) for i, value in enumerate(values)]
    return values, math.ceil(tau * math.log(excess / TOLERANCE))


def _decay(random: Random, sigma: float, excess: Callable[[int], float]) -> list[float]:
    """As long again and a half at least as the way to the tolerance is."""
    until = _within(excess)
    n = max(random.randint(100, 300), 4 * until)
    return [value + excess(i) for i, value in enumerate(_even(random, n, sigma))]


def _within(excess: Callable[[int], float]) -> int:
    return next(i for i in range(10_000) if abs(excess(i)) <= TOLERANCE)


def decaying_slowly(random: Random) -> tuple[list[float], int | None]:
    """No two steps in a row show it where it matters: it falls by less than the noise."""
    tau, by = random.uniform(6, 30), random.uniform(0.5, 5)

    def excess(i: int) -> float:
        return by * math.exp(-i / tau)

    return _decay(random, random.uniform(0.002, 0.02), excess), _within(excess)


def decaying_in_noise(random: Random) -> tuple[list[float], int | None]:
    tau, by = random.uniform(5, 20), random.uniform(0.5, 5)

    def excess(i: int) -> float:
        return by * math.exp(-i / tau)

    return _decay(random, 0.025, excess), _within(excess)


def decaying_soon(random: Random) -> tuple[list[float], int | None]:
    """Over in a dozen steps, the first of which are far from the rest."""
    n, tau, by = random.choice([60, 100, 150]), random.uniform(2, 5), random.uniform(0.5, 3)

    def excess(i: int) -> float:
        return by * math.exp(-i / tau)

    values = [1 + excess(i) for i in range(n)]
    return [v * random.gauss(1, 0.03) for v in values], _within(excess)


def decaying_twice(random: Random) -> tuple[list[float], int | None]:
    """At once by much, and slowly by a little."""
    fast, slow = random.uniform(1, 3), random.uniform(6, 15)
    much, little = random.uniform(1, 5), random.uniform(0.2, 0.6)

    def excess(i: int) -> float:
        return much * math.exp(-i / fast) + little * math.exp(-i / slow)

    return _decay(random, 0.01, excess), _within(excess)


def decaying_behind_compilation(random: Random) -> tuple[list[float], int | None]:
    tau, by, compiling = random.uniform(2, 15), random.uniform(0.3, 2), random.randint(1, 3)

    def excess(i: int) -> float:
        return by * math.exp(-(i - compiling) / tau)

    values = _decay(random, 0.01, excess)
    return _scaled(values, compiling, random.uniform(10, 200)), _within(excess)


def decaying_with_outliers(random: Random) -> tuple[list[float], int | None]:
    tau, by = random.uniform(2, 10), random.uniform(0.5, 3)

    def excess(i: int) -> float:
        return by * math.exp(-i / tau)

    values = _decay(random, 0.015, excess)
    return [
        v * (1 + random.paretovariate(1.2)) if random.random() < 0.04 else v for v in values
    ], _within(excess)


def rising_to_its_level(random: Random) -> tuple[list[float], int | None]:
    """A processor that is cooled less and less well, until it is not."""
    tau, by = random.uniform(2, 15), random.uniform(0.2, 0.7)

    def excess(i: int) -> float:
        return -by * math.exp(-i / tau)

    return _decay(random, 0.01, excess), _within(excess)


def ramp(random: Random) -> tuple[list[float], int | None]:
    length, excess = random.randint(20, 50), random.uniform(0.8, 2)
    values = _even(random, random.randint(150, 300), 0.01)
    values = [value + excess * max(0, 1 - i / length) for i, value in enumerate(values)]
    return values, math.ceil(length * (1 - TOLERANCE / excess))


def ramp_behind_a_plateau(random: Random) -> tuple[list[float], int | None]:
    """One level, then the way to another: that takes a while, and ends within the tail."""
    plateau, length = random.randint(60, 110), random.randint(10, 20)
    excess, noise = random.choice([-0.4, 0.5, 1]), random.uniform(0.001, 0.008)
    values = _even(random, plateau + length + random.randint(140, 300), noise)
    over = plateau + length
    values = [v + excess * min(1, max(0, (over - i) / length)) for i, v in enumerate(values)]
    return values, math.ceil(over - length * TOLERANCE / abs(excess))


def bimodal(random: Random) -> tuple[list[float], int | None]:
    n = random.randint(150, 300)
    until = random.randint(5, n // 3)
    other, often = random.uniform(1.2, 1.6), random.uniform(0.2, 0.5)
    values = [value * (other if random.random() < often else 1) for value in _even(random, n, 0.02)]
    return _scaled(values, until, random.uniform(2.5, 3)), until


def slow_now_and_then(random: Random) -> tuple[list[float], int | None]:
    """From the first step on, one in ten takes longer: two of the first three may."""
    n, slow = random.randint(80, 400), random.uniform(1.5, 3)
    values = _even(random, n, random.choice([0.01, 0.02, 0.03]))
    return [v * slow if random.random() < 0.1 else v for v in values], 0


def in_three_modes(random: Random) -> tuple[list[float], int | None]:
    """The slowest is as rare as outliers are, but nearer to the others than warm-up is."""
    n, until = random.randint(200, 500), random.randint(5, 40)
    modes = random.choices([1, 1.3, 1.8], [70, 18, 12], k=n)
    values = [v * mode for v, mode in zip(_even(random, n, 0.02), modes, strict=True)]
    return _scaled(values, until, 3), until


def alternating(random: Random) -> tuple[list[float], int | None]:
    n = random.randint(100, 300)
    until = random.randint(2, n // 3)
    values = [v * 1.5 if i % 2 else v for i, v in enumerate(_even(random, n, 0.02))]
    return _scaled(values, until, 2.5), until


def accumulating(random: Random) -> tuple[list[float], int | None]:
    """The optimizer steps after every few batches only."""
    n, every, other = random.randint(150, 300), random.randint(2, 8), random.uniform(1.3, 3)
    until = random.randint(2, n // 3)
    values = [v * other if i % every == 0 else v for i, v in enumerate(_even(random, n, 0.02))]
    return _scaled(values, until, other + 1.5), until


def slow_every_few_steps(random: Random) -> tuple[list[float], int | None]:
    """Warm-up is told from steady steps although single steps of them are as slow."""
    n, every = random.randint(150, 300), random.randint(3, 20)
    until = random.randint(3, n // 3)
    values = [v * 4 if i % every == 0 else v for i, v in enumerate(_even(random, n, 0.02))]
    return _scaled(values, until, 2), until


def collecting_garbage(random: Random) -> tuple[list[float], int | None]:
    """A saw whose teeth are short, and a spike at the end of each."""
    n, every = random.randint(150, 300), random.randint(10, 25)
    until = random.randint(3, n // 3)
    values = _scaled(_even(random, n, 0.02), until, 2)
    teeth = (0.06 * (i % every) / every + (0.4 if i % every == every - 1 else 0) for i in range(n))
    return [v * (1 + tooth) for v, tooth in zip(values, teeth, strict=True)], until


def checkpoints(random: Random) -> tuple[list[float], int | None]:
    """A spike every so often, which no pause took out."""
    n, every = random.randint(150, 300), random.randint(10, 60)
    until = random.randint(3, n // 3)
    values = _scaled(_even(random, n, 0.02), until, 1.8)
    for i in range(every - 1, n, every):
        values[i] += random.uniform(2, 20)
    return values, until


def outliers(random: Random) -> tuple[list[float], int | None]:
    n = random.randint(150, 300)
    until = random.randint(3, n // 3)
    values = _scaled(_even(random, n, 0.02), until, 1.6)
    return [
        v * (1 + random.paretovariate(1.2)) if random.random() < 0.04 else v for v in values
    ], until


def correlated(random: Random) -> tuple[list[float], int | None]:
    n, error = random.randint(200, 300), 0.0
    until = random.randint(5, n // 3)
    values = []
    for _ in range(n):
        error = 0.7 * error + random.gauss(0, 0.01)
        values.append(1 + error)
    return _scaled(values, until, 1.7), until


def slower(random: Random) -> tuple[list[float], int | None]:
    """Fast until a cache is full or a device's queue is."""
    n = random.randint(150, 300)
    until = random.randint(5, n // 3)
    return _scaled(_even(random, n, 0.02), until, 0.6), until


def small_last_batches(random: Random) -> tuple[list[float], int | None]:
    n, epoch, until = random.randint(150, 300), random.randint(15, 60), random.randint(2, 10)
    values = _scaled(_even(random, n, 0.015), until, 3)
    return [v * 0.4 if i % epoch == epoch - 1 else v for i, v in enumerate(values)], until


def hiccup(random: Random) -> tuple[list[float], int | None]:
    """Something else took the machine for a few steps."""
    n, until = random.randint(200, 300), random.randint(2, 20)
    values = _scaled(_even(random, n, 0.02), until, 2)
    start = random.randint(n // 2, 3 * n // 4)
    return [v * 2 if start <= i < start + 8 else v for i, v in enumerate(values)], until


def long_hiccup(random: Random) -> tuple[list[float], int | None]:
    """As many steps as are forgiven, of which the rate suffers as it may."""
    n, until = random.randint(300, 600), random.randint(2, 20)
    values = _scaled(_even(random, n, 0.02), until, 2)
    start, slow = random.randint(n // 2, 3 * n // 4), random.uniform(1.5, 5)
    return [v * slow if start <= i < start + 20 else v for i, v in enumerate(values)], until


def slow_for_a_while(random: Random) -> tuple[list[float], int | None]:
    """An epoch in the middle is another: what comes behind it is the level, for long enough."""
    n = random.randint(350, 800)
    length, other = int(n * random.uniform(0.07, 0.15)), random.choice([0.5, 1.5, 2, 3, 4.5])
    until = int(n * random.uniform(0.35, 0.6))
    values = _even(random, n, random.uniform(0.005, 0.05))
    return [v * other if until - length <= i < until else v for i, v in enumerate(values)], until


def slow_in_every_epoch(random: Random) -> tuple[list[float], int | None]:
    """What is slow for a while comes again: it is part of how the run goes on."""
    epoch, slow = random.randint(200, 300), random.uniform(1.5, 3)
    length, n = random.randint(22, 30), epoch * random.randint(2, 4)
    values = _even(random, n, 0.02)
    return [v * slow if i % epoch < length else v for i, v in enumerate(values)], length


def varied_lengths(random: Random) -> tuple[list[float], int | None]:
    """Sequences of any length, and a first step that compiles."""
    n, until = random.randint(150, 300), random.randint(1, 6)
    return _scaled([math.exp(random.gauss(0, 0.3)) for _ in range(n)], until, 8), until


def disturbed(random: Random) -> tuple[list[float], int | None]:
    """The machine does other things too: it has its better and worse moments."""
    n, error, values = random.randint(150, 300), 0.0, []
    for _ in range(n):
        error = 0.9 * error + random.gauss(0, 0.015)
        values.append(1 + error + random.gauss(0, 0.04))
    return _scaled(values, 5, 2), 5


def disturbed_for_long(random: Random) -> tuple[list[float], int | None]:
    n, error, values = random.randint(300, 1000), 0.0, []
    for _ in range(n):
        error = 0.95 * error + random.gauss(0, 0.01)
        values.append(1 + error + random.gauss(0, 0.03))
    return _scaled(values, 3, 3), 3


def slow_after_each_pause(random: Random) -> tuple[list[float], int | None]:
    """Caches are cold at the beginning of every epoch."""
    n, epoch = random.randint(130, 300), random.randint(30, 60)
    cold = [1 + 0.12 * math.exp(-(i % epoch) / 6) for i in range(n)]
    values = [v * c for v, c in zip(_even(random, n, 0.04), cold, strict=True)]
    return _scaled(values, 1, 4), 1


def _sloping(random: Random, by: float, sigma: float = 0.02) -> list[float]:
    n = random.randint(150, 400)
    return [v + by * i / n for i, v in enumerate(_even(random, n, sigma))]


def drifting_up(random: Random) -> tuple[list[float], int | None]:
    return _sloping(random, random.uniform(0.15, 1)), None


def drifting_down(random: Random) -> tuple[list[float], int | None]:
    return _sloping(random, random.uniform(-0.6, -0.15)), None


def drifting_slowly(random: Random) -> tuple[list[float], int | None]:
    return _sloping(random, random.uniform(0.1, 0.15), sigma=0.015), None


def drifting_after_warm_up(random: Random) -> tuple[list[float], int | None]:
    return _scaled(_sloping(random, random.uniform(0.15, 1)), random.randint(1, 20), 2), None


def drifting_noisily(random: Random) -> tuple[list[float], int | None]:
    return _sloping(random, random.uniform(0.4, 1), sigma=0.08), None


def drifting_in_noise(random: Random) -> tuple[list[float], int | None]:
    """No step shows what all of them do: the noise is two thirds of the rise, or a half."""
    n, by = random.randint(200, 400), random.choice([-1, 1]) * random.uniform(0.12, 0.2)
    return [v * (1 + by * i / n) for i, v in enumerate(_even(random, n, 0.08))], None


def drifting_in_two_modes(random: Random) -> tuple[list[float], int | None]:
    n, by = random.randint(200, 400), random.uniform(0.3, 0.6)
    values = [v * (1.5 if random.random() < 0.3 else 1) for v in _even(random, n, 0.03)]
    return [v * (1 + by * i / n) for i, v in enumerate(values)], None


def drifting_with_spikes(random: Random) -> tuple[list[float], int | None]:
    every = random.randint(10, 40)
    values = _sloping(random, random.uniform(0.2, 1))
    return [v * 5 if not i % every else v for i, v in enumerate(values)], None


def leaking(random: Random) -> tuple[list[float], int | None]:
    n = random.randint(200, 400)
    return [v + 0.5 * (i / n) ** 2 for i, v in enumerate(_even(random, n, 0.03))], None


def decaying_for_ever(random: Random) -> tuple[list[float], int | None]:
    n = random.randint(150, 400)
    return [v + 2 * math.exp(-2 * i / n) for i, v in enumerate(_even(random, n, 0.02))], None


def decaying_for_long(random: Random) -> tuple[list[float], int | None]:
    """It comes within the tolerance of its end, but what is left of the run is as much its fall."""
    n, times, by = random.randint(150, 400), random.uniform(2, 5), random.uniform(1, 5)
    return [
        v + by * math.exp(-times * i / n)
        for i, v in enumerate(_even(random, n, random.uniform(0.005, 0.02)))
    ], None


def drifting_behind_a_decay(random: Random) -> tuple[list[float], int | None]:
    n, tau, excess = random.randint(200, 400), random.uniform(2, 15), random.uniform(0.5, 3)
    by = random.choice([-1, 1]) * random.uniform(0.06, 0.3)
    return [
        v + excess * math.exp(-i / tau) + by * i / n
        for i, v in enumerate(_even(random, n, random.uniform(0.003, 0.01)))
    ], None


def growing_peaks(random: Random) -> tuple[list[float], int | None]:
    """Every so often a step plots all losses so far: it takes ever longer, the others do not."""
    n, every = random.randint(200, 400), random.randint(10, 20)
    peak, by = random.uniform(0.5, 2.5), random.uniform(0.1, 0.2) * every
    values = _even(random, n, 0.02)
    return [v + peak + by * i / n if not i % every else v for i, v in enumerate(values)], None


def wandering(random: Random) -> tuple[list[float], int | None]:
    value, values = 1.0, []
    for _ in range(random.randint(250, 400)):
        value *= math.exp(random.gauss(0, 0.04))
        values.append(value * (1 + random.gauss(0, 0.01)))
    return values, None


def saw_tooth(random: Random) -> tuple[list[float], int | None]:
    n = random.randint(200, 400)
    tooth = random.uniform(n / 6, n / 2.5)
    values = _even(random, n, 0.02)
    return [v + 0.3 * (i % tooth) / tooth for i, v in enumerate(values)], None


def throttled_late(random: Random) -> tuple[list[float], int | None]:
    n = random.randint(150, 400)
    start = int(n * random.uniform(0.8, 0.95))
    return [v * 1.4 if i >= start else v for i, v in enumerate(_even(random, n, 0.02))], None


def slow_at_the_end(random: Random) -> tuple[list[float], int | None]:
    """A short run: its last steps say that its mean is not what it goes on with."""
    n = random.randint(25, 40)
    last, slow = n // 6, random.uniform(1.7, 2.5)
    values = _even(random, n, random.choice([0.01, 0.02]))
    return [v * slow if i >= n - last else v for i, v in enumerate(values)], None


def slow_for_a_while_late(random: Random) -> tuple[list[float], int | None]:
    """Less than a third of the run comes behind it."""
    n = random.randint(350, 800)
    length, slow = int(n * random.uniform(0.07, 0.15)), random.choice([1.5, 2, 3, 4.5])
    until = int(n * random.uniform(0.72, 0.9))
    values = _even(random, n, random.uniform(0.005, 0.05))
    return [v * slow if until - length <= i < until else v for i, v in enumerate(values)], None


def two_speeds(random: Random) -> tuple[list[float], int | None]:
    n, turn = random.randint(250, 400), random.randint(30, 60)
    return [v * 1.3 if (i // turn) % 2 else v for i, v in enumerate(_even(random, n, 0.02))], None


def contended(random: Random) -> tuple[list[float], int | None]:
    """Something else takes the machine now and then: quartiles are three to five times apart."""
    n, sigma = random.randint(120, 400), random.uniform(0.8, 1.2)
    return [math.exp(random.gauss(0, sigma)) for _ in range(n)], None


def contended_in_bursts(random: Random) -> tuple[list[float], int | None]:
    n, slow, values = random.randint(120, 400), False, []
    for value in _even(random, n, 0.05):
        slow ^= random.random() < 0.2
        values.append(value * 4 if slow else value)
    return values, None


def two_modes_far_apart(random: Random) -> tuple[list[float], int | None]:
    n, often = random.randint(120, 400), random.uniform(0.3, 0.7)
    values = _even(random, n, 0.03)
    return [v * random.uniform(5, 6) if random.random() < often else v for v in values], None


def low_cliff(random: Random) -> tuple[list[float], int | None]:
    """A change as small as the tolerance, or a little larger."""
    n, by = random.randint(100, 400), random.choice([-1, 1]) * random.uniform(0.05, 0.08)
    until = random.randint(12, n // 2)
    return _scaled(_even(random, n, random.uniform(0.001, 0.01)), until, 1 + by), until


def lower_cliff(random: Random) -> tuple[list[float], int | None]:
    """A change within the tolerance, of which the tail would slope."""
    n, by = random.randint(100, 400), random.choice([-1, 1]) * random.uniform(0.03, 0.045)
    until = random.randint(n // 4, n // 2)
    return _scaled(_even(random, n, random.uniform(0.001, 0.007)), until, 1 + by), until


def lowest_cliff(random: Random) -> tuple[list[float], int | None]:
    """A change smaller than a drift, in noise half as large: a line through it rises by more."""
    n, by = random.randint(150, 400), random.uniform(0.018, 0.023)
    until = int(n * random.uniform(0.35, 0.65))
    values = _even(random, n, by * random.uniform(0.35, 0.5))
    return _scaled(values, until, 1 + random.choice([-by, by])), until


def low_stairs(random: Random) -> tuple[list[float], int | None]:
    """Two changes of one direction that are together smaller than a drift."""
    n, by = random.randint(150, 400), random.choice([-1, 1]) * random.uniform(0.008, 0.011)
    first, until = int(n * random.uniform(0.3, 0.4)), int(n * random.uniform(0.65, 0.7))
    values = _scaled(_even(random, n, random.uniform(0.001, 0.004)), until, 1 + by)
    return _scaled(values, first, 1 + by), until


def odd_end(random: Random) -> tuple[list[float], int | None]:
    """The last few steps are off by a little more than the tolerance, the others even."""
    n, by = random.randint(200, 600), random.choice([-1, 1]) * random.uniform(0.055, 0.08)
    until = n - random.randint(max(6, n // 40 + 1), n // 20)
    values = _even(random, n, random.uniform(0.001, 0.01))
    return [v * (1 + by) if i >= until else v for i, v in enumerate(values)], 0


def drifting_least(random: Random) -> tuple[list[float], int | None]:
    """As two levels it were no drift: they are half as far apart."""
    by = random.choice([-1, 1]) * random.uniform(0.035, 0.05)
    return _sloping(random, by, random.uniform(0.002, 0.008)), None


def bent(random: Random) -> tuple[list[float], int | None]:
    """Even first, then not."""
    n, by = random.randint(150, 400), random.choice([-1, 1]) * random.uniform(0.05, 0.1)
    values = _even(random, n, random.uniform(0.002, 0.01))
    return [v + by * max(0, 2 * i / n - 1) for i, v in enumerate(values)], None


def rising_late(random: Random) -> tuple[list[float], int | None]:
    """Odd last steps that are the end of a trend."""
    n, by = random.randint(250, 600), random.choice([-1, 1]) * random.uniform(0.08, 0.1)
    start = int(n * random.uniform(0.85, 0.9))
    values = _even(random, n, 0.003)
    return [v + by * max(0, i - start) / (n - start) for i, v in enumerate(values)], None


STEADY: tuple[Kind, ...] = (
    flat, noisy, slow_first_step, compiled_twice, compiled_late,
    stepped, stepped_and_noisy, staircase, decaying, decaying_slowly, decaying_in_noise,
    decaying_twice, decaying_behind_compilation, decaying_with_outliers,
    rising_to_its_level, in_three_modes,
    ramp, ramp_behind_a_plateau,
    bimodal, alternating, accumulating, checkpoints, outliers, correlated, slower,
    small_last_batches, hiccup, varied_lengths, slow_every_few_steps, collecting_garbage,
    low_cliff, odd_end, long_hiccup, slow_for_a_while, slow_in_every_epoch,
    decaying_soon, slow_now_and_then,
)  # fmt: skip
#: Levels that may be the same performance: steady from the first step or from the last change.
ALIKE: tuple[Kind, ...] = (lower_cliff, lowest_cliff, low_stairs)
#: Steady as a whole, with ups and downs that are a few times the noise.
RESTLESS: tuple[Kind, ...] = (disturbed, disturbed_for_long, slow_after_each_pause)
DRIFTING: tuple[Kind, ...] = (
    drifting_up, drifting_down, drifting_slowly, drifting_after_warm_up, drifting_noisily,
    drifting_in_noise, drifting_in_two_modes, drifting_with_spikes, leaking, decaying_for_ever,
    decaying_for_long, drifting_behind_a_decay, growing_peaks,
    wandering, saw_tooth, throttled_late, two_speeds, drifting_least, bent, rising_late,
    slow_for_a_while_late, slow_at_the_end,
)  # fmt: skip
#: Series that change all the time: no figure of a part of them says much of another.
ERRATIC: tuple[Kind, ...] = (contended, contended_in_bursts, two_modes_far_apart)
