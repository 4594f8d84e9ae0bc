"""A run's one step model at work: what it hears, and what becomes of its steps."""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator, Iterator
from functools import partial
from itertools import chain
from time import sleep
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import WeakKeyDictionary

from overseer import Overseer
from overseer.errors import Problem

from .compiling import Compiling
from .first import First
from .loader import REMEDY, Loaders

if TYPE_CHECKING:
    from overseer.measure.device import Device
    from overseer.measure.losses import Losses
    from overseer.measure.rates import Rates, Reading
    from overseer.measure.spans import Span
    from overseer.measure.steps import StepModel
    from overseer.stream import Subscription

Sink = Callable[[Any], object]
Event = dict[str, Any]
Listener = Callable[[Event], object]
#: How often steps are worked off and losses are read, in seconds, off the script's thread.
TICK_SECONDS = 0.1
#: How long the script's thread has the interpreter to itself between two chunks of that work.
REST_SECONDS = 0.0003
#: So many ticks are there at first, in which events are weighed too, for a run may be short; then
#: every so many-th does for all, unless so many boundaries wait: at one go it costs a fifth.
EAGER, PATIENT, CROWD = 10, 10, 4096
#: An event with any of these has to do with steps.
KEYS = frozenset({"step", "$wrap", "loss", "batch", "batch_size", "loader", "compute_start"})
#: The task of steps that name none.
TRAIN = "train"
#: The clock of steps where no device has one.
HOST = "perf_counter"
#: What to do to have a figure known, by the key that it is logged under.
NEEDED = {
    "train_rate": "Give step with batch at the end of each step; voir.iterate: report_batch=True.",
    "loading_rate": "Give the loader, or the pair compute_start and compute_end.",
    "compute_rate": "Give the pair compute_start and compute_end around the work on a batch.",
}
#: What to do where a rate of a voirfile skips all.
FEWER = "Skip fewer: rate(skip=N) counts windows, rate(skip='5s') seconds."
#: What to do to have items known.
ALONG = (
    'Give the batch along: ov.probe("//train(inp as batch) > #endloop_inp as step").give();'
    " voir.iterate: report_batch=True."
)


class Windows(NamedTuple):
    """A way to look at the steps: windows of ``interval``, from behind ``skip``.

    Attributes:
        logged: The keys under which each window is logged: ``train_rate``, ``loading_rate``, ...
        given: Whether each window is given, as ``rate`` with ``units``.
    """

    interval: Span
    skip: Span
    logged: tuple[str, ...] = ()
    given: bool = True


class Measuring:
    """What is to be measured of a run, and how; measures from the first step, loss or loader on.

    A run that shows none pays nothing, not even the import of the step model.

    Attributes:
        ov: The run.
        interval: The length of the windows that are given when nobody asked for others.
        skip: What to leave out at the beginning of a task, in place of finding its warm-up; None:
            that is found.
        logged: The keys under which those windows are logged.
        multiplier: Items of a step are counted this many times.
        method: ``step``: pairs do not count as steps; ``wrap``: only pairs do; None: both.
        batch_size: Computes the number of items in a batch; or that number.
        windows: What voirfiles asked for.
        loaders: The loaders that are watched.
        sinks: Whom else new steps are handed to.
        summed: To be called when all is summed up.
        works: Tells whether PyTorch's hooks have seen a model at work; None without such.
    """

    # Not a dataclass: to import dataclasses is a tenth of what starting may take.
    def __init__(self, ov: Overseer) -> None:
        self.ov = ov
        self.interval: str | float = "1s"
        self.skip: str | float | None = None
        self.logged: tuple[str, ...] = ()
        self.multiplier = 1
        self.method: str | None = None
        self.batch_size: Callable[[Any], Any] | int | None = None
        self.windows: list[Windows] = []
        self.loaders = Loaders(ov)
        self.sinks: list[Sink] = []
        self.summed: list[Callable[[], object]] = []
        self.works: Callable[[], bool] | None = None
        self._further: list[Losses] = []
        self._waiting: list[Subscription] = []
        self._due = False
        self._first = First(ov)
        self._meter: Meter | None = None

    def run(self) -> Generator[Any, Any, None]:
        """Listen until the script has ended; then sum up."""
        self._waiting.append(self.ov.listen(self._consider))
        try:
            if "loading_rate" in self.logged:
                self.begin().loaders.watch_torch()
                self.loaders.feeds.expect()
            yield from self._ask()
            self.loaders.feeds.script_loaded()
            if self._meter is None:
                self._first.foresee()
            yield self.ov.phases.run_script(priority=50)  # Before others reduce what it gives.
        finally:
            self._wait_no_more()
            self._first.close()
            if self._meter is not None:
                self._meter.close()
            elif self._due:
                self.loaders.close()
            if self.ov.program is not None:  # Without a script, that is what there is to say.
                self._complain()

    def _ask(self) -> Generator[Any, Any, None]:
        """Until voirfiles have said what they want, of which some do when the script is loaded."""
        try:
            yield self.ov.phases.load_script(priority=-50)
        except GeneratorExit:
            raise
        except BaseException:
            return  # It failed. Others have to close before it is summed up: that is still to come.
        if self._due:
            self._start()

    def _consider(self, event: Event) -> None:
        """Wait for an event that has to do with steps."""
        if not KEYS.isdisjoint(event):
            meter = self._start()
            for listener, keys in meter.listeners():
                if event.keys() >= set(keys):
                    listener(event)  # Who begins to listen during an event does not hear it.

    def begin(self) -> Measuring:
        """Measure from here on, unless that has begun; returns itself.

        As long as voirfiles may still say what they want, it is from the first that there is to
        measure on: the beginning of the script, at the latest.
        """
        if self._meter is None and not self.ov.phases.parse_args.done:
            self._await()
        else:
            self._start()
        return self

    def mark(self, now: int) -> object:
        """The device's mark for what has just ended; None where there is none."""
        return self._meter.model.mark(now) if self._meter is not None else None

    def evaluation_begins(self, began: int) -> None:
        """The calling thread has begun the first step of an evaluation a while ago."""
        if self._meter is not None:
            self._meter.model.evaluation_begins(began)

    def learned(self) -> None:
        """The calling thread has learned from the batches that it was given since the last step."""
        if self._meter is not None:
            self._meter.model.learned()

    def also(self, sink: Sink, summed: Callable[[], object] | None = None) -> None:
        """Hand new steps, which it goes through as through a list, to ``sink`` too.

        Args:
            sink: Is given them.
            summed: Called when the script has ended, or failed, and ``tasks`` are in the summary.
        """
        self.sinks.append(sink)
        if summed is not None:
            self.summed.append(summed)
        if self._meter is not None:
            self._meter.model.sinks.append(sink)

    def further_losses(self) -> Losses:
        """Where to put losses that are told apart from those of tasks; they are read as those."""
        from overseer.measure.losses import Losses

        losses = Losses(self.ov.report)
        self._further.append(losses)
        return losses

    @property
    def further(self) -> tuple[Losses, ...]:
        """All of these that there are so far."""
        return tuple(self._further)

    @property
    def stepped(self) -> tuple[float, float] | None:
        """From when to when steps have been made, in seconds, the first one apart; None: never."""
        return None if self._meter is None else self._meter.stepped()

    @property
    def clock_name(self) -> str:
        """The clock that times the steps, as the run's record names it; a device's, later on."""
        return self._meter.model.clock_name if self._meter is not None else HOST

    @property
    def skipped(self) -> Span | None:
        """What to leave out at the beginning of a task; None: its warm-up, which is found."""
        if self.skip is None:
            return None
        from overseer.measure.spans import parse_span

        return parse_span(self.skip, "--skip")

    def _await(self) -> None:
        """Wait for what does not come as an event, too."""
        if not self._due:
            self._due = True
            first: Any = _First(self._start)
            self.loaders.measure(first)
            self._waiting.append(self.ov.waits.listen(self._wait))

    def _wait(self, event: Event) -> None:
        """The script waits in ``voir.iterate``."""
        self._start().awaited(event)

    def _wait_no_more(self) -> None:
        # A thread may be waiting to tell of a step: it is handed on, see _consider.
        for waiting in self._waiting:
            waiting.leave()

    def _start(self) -> Meter:
        """Measure from now on, unless that has begun; returns what measures."""
        with self.ov.undisturbed:  # Several threads may show their first step at once.
            if self._meter is None:
                begun, since = self.ov.clock.cpu_ns(), self.ov.clock.now_ns()
                self._meter = Meter(self)
                self._first.tell(self._meter.model, self.ov.clock.now_ns() - since)
                self._wait_no_more()  # Not before: a probe that nobody listens to shows nothing.
                self.ov.charge(self.ov.clock.cpu_ns() - begun)
        return self._meter

    def _complain(self) -> None:
        """Name the figures that were asked for and never came."""
        told = self._meter.told if self._meter is not None else ()
        skip = self._skips_all()
        problems = [skip] if skip is not None else []
        if skip is None or (self._meter is not None and self._meter.windows):
            problems += [self._untold(key) for key in self.logged if key not in told]
            if self.windows and not self.logged and not self._steps() and not self.loaders.told:
                problems.append(self._untold("train_rate", "rate"))
        problems += self._skipped_windows()
        silent = self.loaders.unheard or (self.loaders.unseen is not None and not self._steps())
        if (
            silent
            and not self.loaders.told
            and "unwatched-loader" not in {p.slug for p in problems}
        ):
            problems.append(self._unwatched("loader"))
        if (bare := self._bare()) is not None:
            problems.append(bare)
        for problem in problems:
            self.ov.report(problem)

    def _skips_all(self) -> Problem | None:
        """That the skip leaves out every step of training, or of all tasks; None if it does not."""
        skipped = self.skipped
        if skipped is None or skipped.nothing:
            return None
        tasks = {name: t for name, t in self.ov.summary.get("tasks", {}).items() if t.get("steps")}
        gone = [name for name, task in tasks.items() if _nothing_left(task)]
        if not _matter(gone, tasks):
            return None
        who = f"--{self.logged[0].replace('_', '-')}" if self.logged else "rate"
        of = f" of {', '.join(gone)}" if len(gone) < len(tasks) else ""
        steps = sum(tasks[name]["steps"] for name in gone)
        what = f"--skip {self.skip} leaves out all steps{of}: there were {steps}"
        return Problem("no-rate", who, what, remedy="Skip fewer; the warm-up is found anyway.")

    def _skipped_windows(self) -> Iterator[Problem]:
        """That a rate of a voirfile leaves out every step of training, or of all tasks."""
        tasks = {name: t for name, t in self.ov.summary.get("tasks", {}).items() if t.get("steps")}
        of_windows = {} if self._meter is None else self._meter.read
        for windows in dict.fromkeys(self.windows):
            read, skip = of_windows.get(windows, set()), windows.skip
            gone = [name for name in tasks if name not in read]
            if skip.nothing or not _matter(gone, tasks):
                continue
            steps = sum(tasks[name]["steps"] for name in gone)
            if skip.steps is not None and skip.steps < max(tasks[name]["steps"] for name in gone):
                continue  # Ctrl-C has cut the last window short.
            of = f" of {', '.join(gone)}" if len(gone) < len(tasks) else ""
            covered = f"{skip.seconds or 0:g} s"
            if skip.steps is not None:
                covered = f"{min(skip.steps, 10**15):,} steps"
            what = f"its skip covers {covered}, and leaves out all steps{of}: there were {steps}"
            yield Problem("no-rate", "rate", what, remedy=FEWER)

    def _bare(self) -> Problem | None:
        """That rates were asked for, and no step came with a batch; None where that is not so."""
        told = any(problem.slug == "batch-size" for problem in self.ov.problems)
        if self._meter is None or told or not (self.logged or self.windows):
            return None
        tasks, bare = self.ov.summary.get("tasks", {}), self._meter.model.counts.bare
        found = [name for name in bare if "items" not in tasks.get(name, {"items": 0})]
        if not _matter(found, tasks):
            return None
        near = [key for key in dict.fromkeys(chain(*(bare[name] for name in found))) if _near(key)]
        but = f", but with {', '.join(near)}" if near else ""
        what = (
            "how many items a batch holds is not known:"
            f" no step of {', '.join(found)} came with batch or batch_size{but}"
        )
        return Problem("batch-size", "step model", what, remedy=ALONG)

    def _steps(self) -> int:
        tasks = self.ov.summary.get("tasks", {}).values()
        return sum(task.get("steps", 0) for task in tasks)

    def _unwatched(self, who: str) -> Problem:
        kind = self.loaders.unseen
        what = f"the loader that was given is a {kind}, which cannot be watched from within"
        return Problem("unwatched-loader", who, what, remedy=REMEDY)

    def _left_out(self, who: str) -> Problem:
        """That all there was is no step, by what was said of those."""
        asked = getattr(self.ov.options, "metric", None)
        taken, left, other = ("step events", "pairs", "wrap")
        if self.method == "wrap":
            taken, left, other = ("pairs", "step events", "step")
        way = f"--metric {asked}" if asked else f"rate(method={self.method!r})"
        what = f"{way} takes only {taken} for steps, and leaves out the {left} that were given"
        instead = f"--metric {other}" if asked else f"method={other!r}"
        return Problem("no-rate", who, what, remedy=f"Leave that out, or write {instead}.")

    def _untold(self, key: str, asked: str | None = None) -> Problem:
        """Why a figure that was asked for, by its flag or otherwise, never came."""
        flag, steps = asked or f"--{key.replace('_', '-')}", self._steps()
        if steps == 1 and key == "train_rate":
            what = "there was one step, and its beginning was not seen"
            return Problem("no-rate", flag, what, remedy="Run two steps, or give the loader.")
        if key != "train_rate" and self.loaders.unseen is not None:
            return self._unwatched(flag)
        if self._meter is not None and self._meter.left:
            return self._left_out(flag)
        what = "the run showed nothing that it could be told from"
        return Problem("no-rate", flag, what, remedy=NEEDED[key])


class _First:
    """Stands where the step model will be; who turns to it for the first time has that made.

    Args:
        start: Makes it.
    """

    def __init__(self, start: Callable[[], Meter]) -> None:
        self._start = start

    def __getattr__(self, name: str) -> Any:
        return getattr(self._start().model, name)


class LeftOut:
    """Hears what would be a step but for ``--metric``, until there is one.

    Args:
        meter: Is told.

    Attributes:
        places: Where it listens.
    """

    free = True

    def __init__(self, meter: Meter) -> None:
        self._meter = meter
        self.places: list[Subscription] = []

    def for_keys(self, keys: tuple[str, ...]) -> Listener:
        """What hears events of just these keys."""
        from overseer.ways import ignore

        return ignore if "$wrap" in keys else self

    def __call__(self, event: Event) -> None:
        """Hear an event."""
        pair = "step" not in event and self._meter.model.plain(event)
        if "$wrap" not in event and pair is self._meter.takes_steps:
            self._meter.left = True
            for place in self.places:
                place.leave()


class Meter:
    """The step model of a run at work, with those who draw conclusions from its steps.

    Args:
        asked: What is to be measured.

    Attributes:
        model: The step model.
        told: The keys of all figures that have been logged.
        windows: How many windows there have been of those that are logged.
        left: Whether there was what ``--metric`` leaves out.
        read: The tasks of which there has been any of these windows.
    """

    def __init__(self, asked: Measuring) -> None:
        from overseer.measure.counts import Counts
        from overseer.measure.losses import Losses
        from overseer.measure.plain import PlainPairs
        from overseer.measure.summary import Tasks

        from .alone import Alone

        self._asked = asked
        self._ov = ov = asked.ov
        self.model = model = _model(asked)
        self._losses = Losses(ov.report)
        self._tasks = Tasks(asked.skipped)
        windows = list(_windows(asked))
        self._rates = [self._reader(each) for each in windows]
        self._patience = min(PATIENT, *(_ticks(each.interval) for each in windows))
        self.told: set[str] = set()
        self.windows = 0
        self.left = False
        self.read: dict[Windows, set[str]] = {}
        self._ticks = 0
        once = Counts(1, asked.batch_size, "auto", model.unsized)
        self._alone = Alone(ov, asked.loaders, once, bool(asked.logged), lambda: asked.works)
        self._plain = PlainPairs(model, once, ov.give, ov.listen)
        model.sinks += [*self._rates, self._tasks, *asked.sinks]
        self._wishes: list[BaseException] = []
        model.delivered = self._grant
        asked.loaders.measure(model)
        ov.at_stop(self._stops)
        for listener, keys in self.listeners():
            place = ov.listen(listener, *keys)
            if isinstance(listener, PlainPairs | LeftOut):
                listener.places.append(place)
        ov.waits.listen(self.awaited)
        self._compiling = Compiling(model.compiled)
        self._timer = ov.every(TICK_SECONDS, self._tick, first=TICK_SECONDS)
        self._timer.__enter__()
        if asked.logged:
            self._alone.begin()

    def listeners(self) -> list[tuple[Listener, tuple[str, ...]]]:
        """What it listens to: callables, each with the keys its events have."""
        heard: list[tuple[Listener, tuple[str, ...]]] = [*self.model.listeners()]
        heard.append((self._plain, ("compute_start",)))
        method = self._asked.method
        left: Listener = LeftOut(self)
        if method == "wrap":
            pairs = {"$wrap", "progress", "compute_start"}
            heard = [(fn if pairs & {*keys} else left, keys) for fn, keys in heard]
        elif method == "step":
            instead: dict[str, Listener] = {"$wrap": self._between, "compute_start": left}
            heard = [(instead.get(keys[0], fn), keys) for fn, keys in heard]
        return [*heard, (self._losses, ("loss",)), (self._watch, ("loader",))]

    @property
    def takes_steps(self) -> bool:
        """Whether pairs are left out."""
        return self._asked.method == "step"

    def stepped(self) -> tuple[float, float] | None:
        """When the first step of the task that the run is about ended, and its last one so far."""
        found = self._tasks.stepped()
        return None if found is None else (found[0] / 1e9, found[1] / 1e9)

    def close(self) -> None:
        """The script has ended: work off what is left, and say what it came to."""
        begun = self._ov.clock.cpu_ns()
        hurried = _interrupted(partial(self._timer.__exit__, None, None, None))
        for close in (self._compiling.close, self._asked.loaders.close, self._alone.close):
            hurried |= _interrupted(close)
        self.model.delivered = list
        for finish in (self.model.finish, *(rates.finish for rates in self._rates)):
            hurried |= _interrupted(finish)
        for each in (self._losses, *self._asked.further):
            hurried = not each.read_all(self.model, self._ov.charge, hurried)
        losses = self._losses.summary()
        self._ov.summary["tasks"] = self._tasks.section(self.model.clock_name, losses)
        for summed in self._asked.summed:
            summed()
        self._ov.charge(self._ov.clock.cpu_ns() - begun)
        self._grant()

    def _stops(self) -> None:
        """What ends from here on may be a step that the stop leaves unfinished."""
        from overseer.unfinished import unfinished

        self.model.unfinished = self._alone.unfinished = unfinished

    def _between(self, event: Event) -> None:
        """Hear pairs, but for those that are steps."""
        from overseer.measure.steps import STEP_PAIRS

        if event["$wrap"].get("name") not in STEP_PAIRS:
            self.model.on_wrap(event)
        else:
            self.left = True

    def awaited(self, event: Event) -> None:
        """Hear of the waits of ``voir.iterate``; the pair it gives begins with them."""
        self._alone.only_given()
        if "exhausted" in event:
            self.model.loading_ends(event["source"], event["exhausted"])
        elif "begins" in event:
            self.model.loader_begins(event["source"])
        else:
            self.model.loading_begins(event["source"])

    def _watch(self, event: Event) -> None:
        self._asked.loaders.watch(event["loader"])
        self._alone.begin()

    def _reader(self, windows: Windows) -> Rates:
        from overseer.measure.rates import Rates

        return Rates(partial(self._emit, windows), windows.interval, windows.skip)

    def _emit(self, windows: Windows, reading: Reading) -> None:
        """Say what one window came to; who wants the run stopped for it waits for the others."""
        try:
            self._say(windows, reading)
        except BaseException as wish:  # Steps are on their way to the summary still.
            self._wishes.append(wish)

    def _grant(self) -> None:
        """Raise what was asked for meanwhile."""
        wishes, self._wishes = self._wishes, []
        if wishes:
            raise wishes[0]

    def _say(self, windows: Windows, reading: Reading) -> None:
        self.windows += bool(windows.logged)
        self.read.setdefault(windows, set()).add(reading.task)
        task, units = reading.task, f"{reading.units}/s"
        if windows.given and reading.rate is not None:
            event: dict[str, Any] = {"task": task, "rate": reading.rate, "units": units}
            if reading.loading_share is not None:
                event["loading_share"] = reading.loading_share
                event["compute_share"] = reading.compute_share
            self._ov.give(**event)
        for key in windows.logged:
            value = reading.rate if key == "train_rate" else getattr(reading, key)
            if value is not None:
                self.told.add(key)
                self._ov.log({"task": task, key: value, "units": units, **_share(reading, key)})

    def _tick(self) -> None:
        self._ticks += 1
        early = self._ticks <= EAGER
        if not early and self._ticks % self._patience and self.model.waiting < CROWD:
            return
        self.model.drain(partial(sleep, REST_SECONDS))
        for each in (self._losses, *self._asked.further):
            each.keep_up(self.model)
        self._ov.hasten()  # That a device is in use is known by now.
        if early:
            self._ov.weigh()


def _interrupted(act: Callable[[], object]) -> bool:
    """Whether Ctrl-C cuts ``act`` short: what has been measured by then is still to be told."""
    try:
        act()
    except KeyboardInterrupt:
        return True
    return False


def _model(asked: Measuring) -> StepModel:
    from overseer.measure.steps import StepModel

    return StepModel(
        asked.ov.clock,
        multiplier=asked.multiplier,
        batch_size=asked.batch_size,
        find_device=_device,
        report=asked.ov.report,
        charge=asked.ov.charge,
    )


def _device() -> Device | None:
    """The accelerator in use; torch is not asked while another thread is importing it."""
    spec = getattr(sys.modules.get("torch"), "__spec__", None)
    if spec is None or getattr(spec, "_initializing", False):
        return None
    from overseer.measure.accelerator import find_device

    return find_device()


def _windows(asked: Measuring) -> Iterator[Windows]:
    """What voirfiles asked for; without any, windows to give; and in any case those to log."""
    from overseer.measure.spans import NOTHING, parse_span

    yield from asked.windows
    if asked.logged or not asked.windows:
        interval = parse_span(asked.interval, "--interval", least=1)
        skip = asked.skipped or NOTHING
        yield Windows(interval, skip, asked.logged, given=not asked.windows)


def _ticks(interval: Span) -> int:
    """How many ticks a window may be late; one of steps, half as many as any."""
    if interval.seconds is None:
        return PATIENT // 2
    return max(1, int(interval.seconds / TICK_SECONDS))


def _near(key: str) -> bool:
    """Whether a key may be meant for the batch, or for its size."""
    from difflib import get_close_matches

    return bool(get_close_matches(key, ("batch", "batch_size"), 1, 0.75))


def _matter(found: list[str], tasks: dict[str, Any]) -> bool:
    """Whether what is so of these tasks is of the one the run is about, or of all there are."""
    return TRAIN in found or (bool(found) and len(found) >= len(tasks))


def _nothing_left(task: dict[str, Any]) -> bool:
    """Whether the skip leaves out all steps of a task; those that compiled are out anyway."""
    compiled = task.get("compiled", {}).get("steps", 0)
    return bool(task["rate"]["skipped"] - compiled >= task["steps"])


def _share(reading: Reading, key: str) -> dict[str, float]:
    """The share that belongs to a rate: of loading or compute, in both together."""
    share = getattr(reading, key.replace("_rate", "_share"), None)
    return {} if share is None else {"share": share}


_measuring: WeakKeyDictionary[Overseer, Measuring] = WeakKeyDictionary()


def measuring_of(ov: Overseer) -> Measuring:
    """What is measured of the run; one for all instruments, for its steps are worked out once."""
    return _measuring.setdefault(ov, Measuring(ov))


def stepped_in(ov: Overseer) -> tuple[float, float] | None:
    """From when to when the run has made steps so far, in seconds; None before, or if none are."""
    measuring = _measuring.get(ov)
    return None if measuring is None else measuring.stepped
