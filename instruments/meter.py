"""A run's one step model at work: what it hears, and what becomes of its steps."""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator, Iterator
from functools import partial
from time import sleep
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import WeakKeyDictionary

from overseer import Overseer

from .compiling import Compiling
from .first import First
from .loader import Loaders
from .seldom import Seldom
from .untold import Untold

if TYPE_CHECKING:
    from overseer.engine.bus import Subscription
    from overseer.measure.device import Device
    from overseer.measure.losses import Losses
    from overseer.measure.rates import Rates, Reading
    from overseer.measure.spans import Span
    from overseer.measure.steps import StepModel

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
#: The clock of steps where no device has one.
HOST = "perf_counter"


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
        at_once: Somebody counts what is given of steps, to stop the script there: each step is
            worked off as soon as it ends, by the script's own thread.
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
        self.at_once = False
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
                for problem in Untold(self, self._meter).problems():
                    self.ov.report(problem)

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

    def evaluation_ends(self, ended: int) -> None:
        """The calling thread's evaluation, whose last step has ended, went on until then."""
        if self._meter is not None:
            self._meter.model.evaluation_ends(ended)

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
        seldom: Has heard whether there were more pairs than steps.
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
        self._plain = PlainPairs(model, once, ov.publish, ov.listen)
        self.seldom = Seldom(ov, model.thread)
        model.sinks += [*self._rates, self._tasks, *asked.sinks]
        self._wishes: list[BaseException] = []
        model.delivered = self._grant
        asked.loaders.measure(model)
        ov.at_stop(self._stops)
        for listener, keys in self.listeners():
            place = ov.listen(listener, *keys)
            if isinstance(listener, PlainPairs | LeftOut | Seldom):
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
        else:
            heard += [(self.seldom, ("step",)), (self.seldom, ("$wrap",))]
        if self._asked.at_once:  # Behind those that note it.
            heard += [(self._work_off, ("step",)), (self._work_off, ("$wrap",))]
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
        from overseer.unfinished import unfinished, unfinished_since

        self.model.unfinished = unfinished_since(self._ov.stopped_on)
        self._alone.unfinished = unfinished  # On other threads a step is told still: it stops them.

    def _between(self, event: Event) -> None:
        """Hear pairs, but for those that are steps."""
        from overseer.measure.steps import STEP_PAIRS

        if event["$wrap"].get("name") not in STEP_PAIRS:
            self.model.on_wrap(event)
        else:
            self.left = True

    def _work_off(self, event: Event) -> None:
        """Hear that a step may have ended."""
        if "$wrap" not in event or event["$wrap"].get("step") != "begin":
            self.model.full()

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
            self._ov.publish(**event)
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
        if not self._asked.at_once or self.model.waiting >= CROWD:
            self.model.drain(partial(sleep, REST_SECONDS))
        for each in (self._losses, *self._asked.further):
            each.keep_up(self.model)


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


def _share(reading: Reading, key: str) -> dict[str, float]:
    """The share that belongs to a rate: of loading or compute, in both together."""
    share = getattr(reading, key.replace("_rate", "_share"), None)
    return {} if share is None else {"share": share}


_measuring: WeakKeyDictionary[Overseer, Measuring] = WeakKeyDictionary()


def measuring_of(ov: Overseer) -> Measuring:
    """What is measured of the run; one for all instruments, for its steps are worked out once."""
    return _measuring.setdefault(ov, Measuring(ov))


def method_in(ov: Overseer) -> str | None:
    """What is a step in the run: ``step`` events, ``wrap``, pairs, alone; None: both."""
    measuring = _measuring.get(ov)
    return None if measuring is None else measuring.method


def stepped_in(ov: Overseer) -> tuple[float, float] | None:
    """From when to when the run has made steps so far, in seconds; None before, or if none are."""
    measuring = _measuring.get(ov)
    return None if measuring is None else measuring.stepped
