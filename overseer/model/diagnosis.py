"""Diagnoses a run from its figures: one verdict, the reason, and what to try next.

All evidence is in ``run.json``. Bottlenecks are ranked by the share of time that they cost. Doubts
about the figures come first unless a bottleneck dominates. Weak evidence gives no verdict.
"""

from __future__ import annotations

from .facts import (
    HOST_CLOCK,
    WORKERS_IDLE,
    at,
    breakdown,
    duration,
    entries,
    main_task,
    number,
    others_share,
    part,
    pause_share,
    percent,
    size,
    wall_seconds,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from .facts import Facts

#: Minimum steps and seconds for a verdict.
MIN_DIAGNOSED_STEPS, MIN_DIAGNOSED_SECONDS = 12, 0.25
#: Shares of time from which a verdict is given.
LOADER_LIMIT, HOST_LIMIT, PAUSE_LIMIT, COMPUTE_LIMIT, WAITING_LIMIT = 0.25, 0.35, 0.3, 0.75, 0.25
#: A bottleneck of this share outranks doubts about the figures.
DOMINANT = 0.5
#: Parts of shorter steps may be mostly voir's own cost; seconds.
MIN_STEP_SECONDS = 40e-6
#: Work shorter than this per step, in seconds, may be mostly overhead of calls on the host.
SMALL_WORK = 2e-3
#: A forward this many times as long as its backward consists mostly of calls that do not train. If
#: no forward was seen, *other* up to the second ratio may contain it.
ACTING_RATIO, UNSEEN_RATIO = 1.5, 3
#: Distance from a limit at which the next run is on the same side of it; the second if other
#: programs fill the processors, which slows work but not waiting.
MARGIN, CROWDED_MARGIN = 0.02, 0.15
#: The share of the processors from which other programs disturb; and the total load, in percent.
CPU_SHARED, CPU_FULL = 0.25, 75
#: Utilisation above which a GPU limits the run, below which it waits, and below which it is unused.
GPU_BUSY, GPU_IDLE, GPU_USED = 0.85, 0.5, 0.02
#: Share of time with reduced clocks that is reported; power caps are usual under full load.
THROTTLED, POWER_CAPPED = 0.1, 0.5
#: Share of the steps' time from which a call that waits for a CPU "device" is reported.
COSTLY_SYNC = 0.05
#: Ratio of the quartiles of step times that other programs alone can cause.
NOISY_QUARTILES = 1.5
#: Verdicts that too many threads can cause.
_SLOWED = ("compute-bound", "host-bound", "never steady")
#: What to try, by kind of pause.
_SHORTER = {
    "evaluation": "evaluate less often, or on fewer batches",
    "acting": "if they evaluate, do so less often; if they collect data, act in larger batches",
    "checkpoint": "save less often, or in a separate thread or process",
    "declared": "do less often what the script or the voirfile declares as a pause",
    "between epochs": "look at what runs between epochs: restarted loaders, metrics, plots",
    "unexplained": "voir --trace shows what these steps do; voir init how to declare it",
}


class Diagnosis:
    """One verdict.

    Attributes:
        verdict: One of ``loader-bound``, ``compute-bound``, ``host-bound``, ``pause-heavy``,
            ``memory growing``, ``throttled``, ``never steady``, ``waiting for other ranks``,
            ``no bottleneck found``, ``hang``; of a job also ``straggler``,
            ``communication-bound``, ``pipeline imbalance``, ``pipeline bubble``.
        why: The figure that shows it.
        next: What to try, if anything.
    """

    __slots__ = ("next", "verdict", "why")

    def __init__(self, verdict: str, why: str, then: str | None = None) -> None:
        self.verdict, self.why, self.next = verdict, why, then

    def as_facts(self) -> dict[str, str]:
        """The ``diagnosis`` of ``run.json``."""
        facts = {"verdict": self.verdict, "why": self.why}
        return facts if self.next is None else {**facts, "next": self.next}


class _TimeShares:
    """Shares of a task's time: of parts in the time of steps, of ``pause`` in all time.

    Attributes:
        steps: The number of steps, and ``seconds`` their time.
        settled: The seconds of typical steps, without the first one.
        parts: The share of each part; empty if unknown or if steps are too short.
        loading, other, work: Shares; None if unknown.
    """

    def __init__(self, facts: Facts) -> None:
        self.facts, self.parts = facts, breakdown(facts)
        self.steps = number(facts, "rate.n") or number(facts, "steps") or 0.0
        self.pause = pause_share(facts) or 0.0
        self.wall = wall_seconds(facts) or 0.0
        first = number(facts, "first_step_seconds") or 0.0
        loading, compute = number(facts, "loading.seconds"), number(facts, "compute.seconds")
        seconds = (loading or 0.0) + (compute or 0.0)
        if not seconds and self.parts:
            seconds = sum(number(part(facts, "breakdown"), name) or 0.0 for name in self.parts)
        self.known = seconds > 0 and seconds >= MIN_STEP_SECONDS * self.steps
        if not self.known:
            self.parts, loading = {}, None
            seconds, first = self.wall * (1 - self.pause) - first, 0.0
        self.seconds = seconds
        self.settled = seconds - (0.0 if at(facts, "steady.verdict") == "steady" else first)
        longest, median = (number(facts, f"step_seconds.{key}") for key in ("max", "median"))
        self._odd = max(0.0, (longest or 0.0) - (median or 0.0)) if seconds else 0.0
        split = loading is not None and compute is not None
        self.loading = (loading or 0.0) / seconds if split else self.parts.get("loading")
        self.work = sum(map(self._share, ("forward", "backward", "optimizer"))) or None
        self.other = self.parts.get("other")
        if "forward" not in self.parts and (self.other or 0.0) <= UNSEEN_RATIO * self._share(
            "backward"
        ):
            self.other = None  # It may contain an unseen forward.

    def _share(self, name: str) -> float:
        return self.parts.get(name, 0.0)

    def exceeds(self, share: float, limit: float, slack: float) -> bool:
        """Whether a share exceeds its limit by ``slack``, even without the longest step.

        A negative ``slack`` asks whether it might exceed the limit.
        """
        rest = self.seconds - self._odd
        if slack > 0 and rest > 0:
            share = min(share, (share * self.seconds - self._odd) / rest)
        return share >= limit + slack

    def each(self, share: float) -> float:
        """The seconds per step of a share."""
        return share * self.seconds / self.steps


def diagnose(run: Facts) -> Diagnosis | None:
    """Diagnose a run; None if the evidence is weak or close to a limit.

    Args:
        run: The contents of ``run.json``: ``tasks``, ``host``, ``devices``, ``seconds``, ``syncs``.
    """
    found = main_task(run)
    chosen = _diagnosed(run, found) if found is not None else None
    if chosen is not None and chosen.verdict in _SLOWED and (advice := _fewer_threads(run)):
        chosen.next = advice
    return chosen


def _diagnosed(run: Facts, found: Facts) -> Diagnosis | None:
    task = _TimeShares(found)
    if task.steps < MIN_DIAGNOSED_STEPS:
        return None
    unsteady = _never_steady(run, task)
    if task.settled < MIN_DIAGNOSED_SECONDS:
        mostly = task.pause >= DOMINANT and task.pause * task.wall >= 2 * MIN_DIAGNOSED_SECONDS
        return _pauses(task) if mostly else unsteady
    load = number(run, "host.cpu.mean") or 0.0
    slack = CROWDED_MARGIN if _disturbed(run) and load >= CPU_FULL else MARGIN
    losses = sorted(_losses(run, task, slack), key=lambda loss: loss[0], reverse=True)
    doubts = [*_growing(run, task), *_throttled(run)]
    lost = [diagnosis for _, diagnosis in losses]
    if lost and (not doubts or (losses[0][0] >= DOMINANT and lost[0].verdict != "host-bound")):
        return _first([*lost[:1], *doubts, *lost[1:]])
    if doubts:  # Before a small host-bound share too, whose loss is uncertain.
        return _first([*doubts, *lost])
    if unsteady is not None or any(_losses(run, task, -slack)) or not task.known:
        return unsteady
    if compute := _compute(run, task, slack):
        return compute
    uncertain = (
        at(task.facts, "steady.verdict") == "never steady"  # Perhaps due to other programs.
        or _compute(run, task, -slack) is not None
        or _device_busy(run, task) is not None
        or task.parts.get("communication", 0.0) >= WAITING_LIMIT - slack
    )
    return None if uncertain else _nothing(task)


def _first(ranked: list[Diagnosis]) -> Diagnosis:
    """The first verdict; its reason also names the others."""
    chosen = ranked[0]
    others = dict.fromkeys(d.verdict for d in ranked if d.verdict != chosen.verdict)
    also = f"; also {', '.join(others)}" if others else ""
    return Diagnosis(chosen.verdict, chosen.why + also, chosen.next)


# Where time goes


def _losses(run: Facts, task: _TimeShares, slack: float) -> Iterator[tuple[float, Diagnosis]]:
    """Yield the bottlenecks whose shares exceed their limits by ``slack``, with those shares."""
    stepping, busy, loading = 1 - task.pause, _device_busy(run, task), task.loading or 0.0
    if task.exceeds(loading, LOADER_LIMIT, slack):
        yield loading * stepping, _loader(run, task, loading)
    if task.pause >= PAUSE_LIMIT + slack:
        yield task.pause, _pauses(task)
    waiting = task.parts.get("communication", 0.0)
    if (number(run, "world_size") or 0) > 1 and task.exceeds(waiting, WAITING_LIMIT, slack):
        yield waiting * stepping, _waiting(task, waiting)
    if task.other is not None and task.exceeds(task.other, HOST_LIMIT, slack):
        # It may be waiting for a busy device.
        on_host = at(task.facts, "rate.clock") in (None, HOST_CLOCK)
        if busy < GPU_BUSY - slack if busy is not None else on_host:
            yield task.other * stepping, _host(run, task, task.other)
    elif (
        task.known
        and loading < LOADER_LIMIT + slack
        and (1.0 if busy is None else busy) < GPU_IDLE - slack
    ):
        why = f"the GPU is busy {percent(busy or 0.0)} of the time, and batches are ready"
        yield (1 - (busy or 0.0)) * stepping, Diagnosis("host-bound", why, _less_waiting(run))


def _loader(run: Facts, task: _TimeShares, share: float) -> Diagnosis:
    of = "the steps' time" if task.pause >= 0.01 else "the time"
    why = f"{percent(share)} of {of} waits for batches, {duration(task.each(share))} a step"
    busy = number(run, "loader_workers.busy")
    then = "prefetch (more num_workers of the DataLoader), or do less for each item"
    if busy is not None and busy < WORKERS_IDLE:
        then = f"fewer, larger tensors per batch: workers are {percent(busy)} busy, passing is slow"
    if (number(run, "host.cpu.mean") or 0.0) >= 90 and not _disturbed(run):
        then = "do less for each item, or preprocess once: the processors are full"
    return Diagnosis("loader-bound", why, then)


def _waiting(task: _TimeShares, share: float) -> Diagnosis:
    why = f"{percent(share)} of a step, {duration(task.each(share))}, waits for other ranks"
    return Diagnosis(
        "waiting for other ranks", why, "voir show of the whole job names the last one"
    )


def _pauses(task: _TimeShares) -> Diagnosis:
    kinds = part(task.facts, "pause", "kinds")
    seconds = {kind: number(kinds, f"{kind}.seconds") or 0.0 for kind in kinds}
    whole, count = sum(seconds.values()), number(task.facts, "pause.count") or 0.0
    ranked = sorted((kind for kind in seconds if seconds[kind]), key=lambda kind: -seconds[kind])
    shares = [f"{kind} {percent(seconds[kind] / whole * task.pause)}" for kind in ranked]
    named = ", ".join(ranked if len(ranked) == 1 else shares)
    times = f"{count:,.0f} pause{'s' if count != 1 else ''}"
    why = f"{percent(task.pause)} of the time is in {times}{': ' if named else ''}{named}"
    chief = ranked[0] if ranked else "unexplained"
    if chief == "evaluation" and number(task.facts, "loading.seconds") is None:
        chief = "acting"  # Without a loader it may be an RL agent.
    return Diagnosis("pause-heavy", why, _SHORTER.get(chief, _SHORTER["unexplained"]))


def _host(run: Facts, task: _TimeShares, share: float) -> Diagnosis:
    why = f"{percent(share)} of a step, {duration(task.each(share))}, is the loss and Python code"
    if task.loading is None and not run.get("syncs"):
        then = "voir init shows how to separate these; prefetch, or do less in Python"
        return Diagnosis("host-bound", f"{why}, or makes batches", then)
    return Diagnosis("host-bound", why, _less_waiting(run))


def _less_waiting(run: Facts) -> str:
    """The advice against a slow host: the calls that wait for the device, if counted."""
    if "syncs" not in run and _used(run):
        return "fewer .item(), print and log calls each step: voir --verify names those that wait"
    waits = [
        call
        for call in entries(run, "syncs")
        if call.get("device") != "cpu" or (number(call, "share") or 0.0) > COSTLY_SYNC
    ]
    if not waits:
        return "voir --profile shows which code it is: run it less often, or on larger batches"
    each, more = number(waits[0], "each") or 1.0, len(waits) - 1
    often = f"{each:,.0f}" if each >= 10 else f"{each:.2g}"
    also = f" and {more} more" if more else ""
    place = f"{waits[0].get('call')} at {waits[0].get('where')}"
    return f"{place}, {often} a step{also}: read tensors rarely"


def _compute(run: Facts, task: _TimeShares, slack: float) -> Diagnosis | None:
    busy, work = _device_busy(run, task), task.work or 0.0
    if busy is not None and busy >= GPU_BUSY + (MARGIN if slack > 0 else -MARGIN):
        why = f"the GPU is busy {percent(busy)} of the time"
    elif busy is None and work * (1 - task.pause) >= COMPUTE_LIMIT + slack:
        named = (n for n in ("forward", "backward", "optimizer") if task.parts.get(n))
        why = f"{', '.join(f'{n} {100 * task.parts[n]:.0f} %' for n in named)} of a step"
    else:
        return None
    forward, backward = (task.parts.get(name, 0.0) for name in ("forward", "backward"))
    if not _used(run) and backward and forward >= ACTING_RATIO * backward:
        times = f"forward takes {forward / backward:.1f} times as long as backward"
        then = f"{times}: larger batches where nothing trains (acting, frozen parts)"
    elif entries(run, "devices") and not _used(run):
        then = 'use the idle GPU: model.to("cuda"), and each batch'
    elif not _used(run) and task.each(work) < SMALL_WORK:
        short = duration(task.each(work))
        then = f"larger batches, torch.compile: {short} a step may be mostly call overhead"
    else:
        gpu = "" if _used(run) else "a GPU, "
        then = f"{gpu}bfloat16, torch.compile, a smaller model: all else is small"
    return Diagnosis("compute-bound", why, then)


def _nothing(task: _TimeShares) -> Diagnosis:
    shares = {
        "loading": task.loading,
        "communication": task.parts.get("communication") or None,
        "pauses": task.pause or None,
    }
    known = [f"{name} {percent(share)}" for name, share in shares.items() if share is not None]
    why = f"{', '.join(known)} of the time" if known else "no part of a step stands out"
    return Diagnosis("no bottleneck found", why)


# Doubts about the figures


def _growing(run: Facts, task: _TimeShares) -> Iterator[Diagnosis]:
    first, made = number(task.facts, "first_step_seconds"), number(task.facts, "steps") or 0.0
    stepping = task.wall - (first or 0.0)  # Growth is measured after the first step.
    pace = (made - (first is not None)) / stepping if stepping > 0 else 0.0
    grown = [("the script", part(run, "host", "memory", "process", "growth"))]
    grown += [("the GPU's memory", part(device, "memory", "growth")) for device in _used(run)]
    for what, growth in grown:
        grew, seconds = number(growth, "bytes"), number(growth, "seconds")
        if grew and seconds:
            steps = pace * seconds
            each = f", {size(grew / steps)} a step" if steps >= 1 else ""
            why = f"{what} grew by {size(grew)} in {duration(seconds)}{each}"
            advice = "look for objects kept each step: a list of losses keeps their graphs"
            yield Diagnosis("memory growing", why, advice)


def _throttled(run: Facts) -> Iterator[Diagnosis]:
    held = [
        (share, str(reason), device)
        for device in _used(run)
        for reason, value in part(device, "throttled").items()
        if (share := number(value))
        and share >= (POWER_CAPPED if reason == "power cap" else THROTTLED)
    ]
    if held:
        share, reason, device = max(held, key=lambda each: each[0])
        why = f"gpu {device.get('index', 0)} was throttled {percent(share)} of the time: {reason}"
        advice = "check cooling and power limit; do not compare this run's rates"
        yield Diagnosis("throttled", why, advice)


def _never_steady(run: Facts, task: _TimeShares) -> Diagnosis | None:
    if at(task.facts, "steady.verdict") != "never steady":
        return None
    q1, q3 = number(task.facts, "rate.q1"), number(task.facts, "rate.q3")
    units = str(task.facts.get("units") or "items").removesuffix("/s")
    why = f"{task.steps:,.0f} steps without a stable level"
    if q1 and q3:
        why = f"half of {task.steps:,.0f} steps between {q1:,.0f} and {q3:,.0f} {units}/s"
    advice = "run longer, or find what varies: batch shapes, data, logging"
    if _disturbed(run):
        if q1 and q3 and q3 < NOISY_QUARTILES * q1:
            return None  # Other programs explain this much.
        used = percent(others_share(run) or 0.0)
        advice = f"a quieter machine: other programs use {used} of the processors"
    return Diagnosis("never steady", why, advice)


# The machine


def _fewer_threads(run: Facts) -> str | None:
    """The advice if torch has more threads than processors."""
    threads = number(run, "provenance.torch.threads") or 0.0
    cores = number(run, "host.cpu.cores") or threads
    if threads <= cores or _used(run):
        return None
    of = f"{cores:.2g} processor{'s' if cores != 1 else ''}"
    return f"OMP_NUM_THREADS={max(1, int(cores))}: torch has {threads:,.0f} threads for {of}"


def _disturbed(run: Facts) -> bool:
    return (others_share(run) or 0.0) >= CPU_SHARED


def _used(run: Facts) -> list[Facts]:
    """The devices that the run used."""
    means = [(device, number(device, "utilisation.mean")) for device in entries(run, "devices")]
    return [device for device, mean in means if mean is None or mean >= GPU_USED]


def _device_busy(run: Facts, task: _TimeShares) -> float | None:
    """The utilisation of the busiest GPU; None if steps fill too little of the run."""
    seconds = number(run, "seconds")
    if not seconds or task.seconds < 0.6 * seconds or task.seconds < 3:
        return None
    means = [number(device, "utilisation.mean") for device in _used(run)]
    return max((mean for mean in means if mean is not None), default=None)
