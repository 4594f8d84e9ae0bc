"""Runs the fold: a timer drains events, folds them into steps and passes these to readers."""

from __future__ import annotations

import math
from _thread import allocate_lock
from collections.abc import Callable, Generator
from weakref import WeakKeyDictionary

from overseer import Overseer
from overseer.boundary import Guarded, name_of
from overseer.clock import sleep
from overseer.engine.bus import Own
from overseer.engine.ending import STEP_KINDS
from overseer.errors import Problem, VoirError
from overseer.imports import on_import
from overseer.recorder import recorder, table
from overseer.recorder import sites as k
from overseer.recorder.sites import WORD_BEAT, WORD_STEPPED, WORD_STEPS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from overseer.model.fold import Fold
    from overseer.model.rates import Rates, Window
    from overseer.model.spans import Span
    from overseer.model.steps import Step
    from overseer.model.summary import Summary
    from overseer.recorder.device import Marks
    from overseer.rundir.stepsfile import StepsFile

    Sink = Callable[[list[Step]], object]
    Raw = Callable[[bytes], object]

#: How often events are folded, in seconds, off the script's thread; of so many at a time, with a
#: rest in which the script's thread has the interpreter to itself; and for how long at most.
TICK_SECONDS, CHUNK, REST_SECONDS, FOLDING_NS = 0.1, 1024, 0.0005, 20_000_000
#: As many events as there are.
ALL = 1 << 40
#: Bytes of events that wait to be folded at most; of more, some are lost.
BACKLOG = 1 << 26
#: Events of so many steps are in the record; after that one a second is.
WHOLE, SAMPLED_NS = 100, 1_000_000_000
#: How large ``steps.npy`` gets, in megabytes; and how large it may.
STEPS_MB, MOST_MB = 64.0, 12_000.0


class Windows:
    """A way to look at the steps: windows of ``interval``, from behind ``skip``.

    Attributes:
        interval: The length of a window.
        skip: What to leave out at the beginning of each task.
        logged: The keys under which each window is logged: ``train_rate``, ``loading_rate``, ...
        given: Whether each window is given, as ``rate`` with ``units``.
        tasks: Those of which there has been a window.
        told: The keys that have been logged.
    """

    def __init__(
        self, interval: Span, skip: Span | None, logged: tuple[str, ...] = (), given: bool = True
    ) -> None:
        self.interval, self.skip, self.logged, self.given = interval, skip, logged, given
        self.tasks: set[str] = set()
        self.told: set[str] = set()


class Measuring:
    """What is to be measured of a run, and the fold that does it, once there is anything.

    Attributes:
        ov: The run.
        interval: The length of the windows that are given when nobody asked for others.
        skip: What to leave out at the beginning of a task, in place of finding its warm-up.
        logged: The keys under which those windows are logged.
        multiplier: Items of a step are counted this many times.
        method: ``step``: pairs do not count as steps; ``wrap``: only pairs do; None: both.
        batch_size: Computes the number of items in a batch; or that number.
        steps_mb: How many megabytes of steps are written; 0: none.
        windows: What voirfiles asked for.
        fold: The fold; None as long as nothing was recorded that it could read.
    """

    def __init__(self, ov: Overseer) -> None:
        self.ov = ov
        self.interval: str | float = "1s"
        self.skip: str | float | None = None
        self.logged: tuple[str, ...] = ()
        self.multiplier = 1
        self.method: str | None = None
        self.batch_size: Callable[[Any], Any] | int | None = None
        self.steps_mb = STEPS_MB
        self.windows: list[Windows] = []
        self.fold: Fold | None = None
        self._marks: Marks | None = None
        self._file: StepsFile | None = None
        self._summary: Summary | None = None
        self._rates: list[Rates] = []
        self._sinks: list[Sink] = []
        self._raw: list[Raw] = []
        self._summed: list[Callable[[], object]] = []
        # Not reentrant: nothing under them runs the script's code. The fold's, and the ring's.
        self._lock, self._ring = allocate_lock(), allocate_lock()
        # Events that wait to be folded: bytes from an offset on, and what has come since.
        self._at = self._offset = self._backlog = self._lost = 0
        self._buffer, self._pending = b"", list[bytes]()
        self._first = len(table.rows)
        self._new: list[Step] = []
        self._timer: Any = None
        self._sampled: tuple[int, int] = (0, 0)
        self._due = self._ready = False
        self._wish: BaseException | None = None
        self._stops: list[tuple[int, str | None, Callable[[], object], bool]] = []
        ov.bus.on_steps.append(self.begin)
        ov.context.live["tasks"] = self.facts

    def run(self) -> Generator[Any, Any, None]:
        """Measure until the script has ended; then sum up."""
        watches = [on_import(name, _known) for name in ("torch", "numpy", "jax")]
        try:
            # Until then voirfiles say what they want; what is recorded meanwhile waits.
            yield self.ov.phases.load_script(priority=-50)
            self._ready = True
            if self.batch_size is not None:
                recorder.sizes(self._sizes(self.batch_size))
            if self._due or self.logged:  # What was asked for and never came is reported.
                self._begin()
            yield self.ov.phases.run_script(priority=50)  # Before others reduce what it gives.
        finally:
            for watch in watches:
                watch.dispose()
            self.close()

    # What others ask for

    def also(self, sink: Sink, summed: Callable[[], object] | None = None) -> None:
        """Hand finished steps to ``sink`` too, on the timer's thread.

        Args:
            sink: Is given lists of them, in order.
            summed: Called when the script has ended and ``tasks`` are in the summary.
        """
        self._sinks.append(sink)
        if summed is not None:
            self._summed.append(summed)

    def read(self, raw: Raw) -> None:
        """Hand events of the structure ring to ``raw`` as they are drained."""
        self._raw.append(raw)

    @property
    def stepped(self) -> tuple[float, float] | None:
        """From when to when steps have been made, in seconds, the first one apart; None: never."""
        return None if self._summary is None else self._summary.stepped

    def facts(self, final: bool = False) -> dict[str, Any]:
        """The ``tasks`` of ``run.json``, as they are by now."""
        summary = self._summary
        if summary is None:
            return {}
        with self._lock:
            return summary.section(self._marks.clock if self._marks is not None else None, final)

    def begin(self) -> None:
        """Measure what is recorded, from the beginning of the script on."""
        self._due = True
        if self._ready and self.fold is None:
            self._begin()

    def _begin(self) -> None:
        from overseer.model.fold import Fold
        from overseer.model.rates import Rates
        from overseer.model.spans import parse_span
        from overseer.model.summary import Summary
        from overseer.recorder.device import Marks

        skip = None if self.skip is None else parse_span(self.skip, "--skip")
        own = Windows(parse_span(self.interval, "--interval", least=1), skip, self.logged)
        own.given = not self.windows
        if own.given or own.logged:
            self.windows.append(own)
        with self._lock:
            if self.fold is not None:
                return
            self._marks = Marks(self._untimed)
            new = self._new.append
            fold = self.fold = Fold(table.rows, new, self.method, self._first, together=new)
            self._summary = Summary(fold, skip, self.multiplier)
            self._file = self._steps_file()
            self._rates = [
                Rates(self._emitter(one), one.interval, one.skip, self.multiplier)
                for one in self.windows
            ]
        self._arm()
        recorder.when_full(self._spill)
        self._timer = self.ov.every(TICK_SECONDS, self.tick, first=TICK_SECONDS)
        self._timer.__enter__()

    def _steps_file(self) -> StepsFile | None:
        """What writes the steps of a run that is recorded."""
        ov, recording = self.ov, self.ov.recording
        if recording is None or ov.options.no_record or not self.steps_mb:
            return None
        from overseer.rundir.stepsfile import StepsFile

        file = StepsFile(
            lambda: recording.directory.path,
            ov.report, self.steps_mb, recording.started, self.multiplier,
        )  # fmt: skip
        ov.context.live["steps"] = file.section
        return file

    def _untimed(self, what: str) -> None:
        """The script is on a device, but its clock is not to be used."""
        self.ov.report(Problem("device-clock", "step model", what))

    def _sizes(self, given: Callable[[Any], Any] | int) -> Callable[[Any], float]:
        """What tells the items of a given batch, on the script's thread."""
        count = given if callable(given) else lambda batch: given
        guarded = Guarded(count, name_of(count), self.ov.report)

        def size(batch: Any) -> float:
            found = guarded(batch) if batch is not None else None  # A batch that is waited for.
            return float(found) if isinstance(found, (int, float)) else math.nan

        return size

    # At work

    def tick(self) -> None:
        """Fold what has come, in pieces, and tell the readers."""
        if self._marks is not None:
            self._marks.tick()
        until = recorder.now() + FOLDING_NS
        while self.catch_up(CHUNK) and recorder.now() < until:
            sleep(REST_SECONDS)
        self._tell()
        if self._file is not None:
            self._file.tick(recorder.now())
        self._beat()
        self._wished()

    def _beat(self) -> None:
        """Write into the header how far the run is, for whoever looks at it after a kill."""
        fold, summary = self.fold, self._summary
        main = summary.main if summary is not None else None
        if fold is not None and main is not None:
            recorder.control(WORD_STEPS, fold.tasks[main].steps)
            recorder.control(WORD_STEPPED, fold.tasks[main].end)
        recorder.control(WORD_BEAT, recorder.now())

    def catch_up(self, most: int = ALL) -> bool:
        """Fold what has come, ``most`` events of it; returns whether there is more."""
        fold = self.fold
        if fold is None:
            return False
        with self._lock:
            data, lost = self._taken(most)
            fold.feed(data, lost)
            for raw in self._raw:
                raw(data)
            return bool(self._backlog)

    def _taken(self, most: int) -> tuple[bytes, int]:
        """The next events, and how many were lost by now."""
        with self._ring:
            self._drain()
            if self._offset >= len(self._buffer) or most == ALL:
                self._pending.insert(0, self._buffer[self._offset :])
                self._buffer, self._offset = b"".join(self._pending), 0
                self._pending.clear()
            data = self._buffer[self._offset : self._offset + most * 32]
            self._offset += len(data)
            self._backlog -= len(data)
            lost, self._lost = self._lost, 0
        return data, lost

    def _drain(self) -> None:
        """Take what has come out of the ring."""
        data, self._at, lost = recorder.drain(k.STRUCTURE, self._at)
        self._pending.append(data)
        self._backlog += len(data)
        self._lost += lost

    def _spill(self) -> None:
        """The ring is nearly full: events come faster than the timer's thread folds them."""
        with self._ring:
            if self._backlog < BACKLOG:
                self._drain()

    def _tell(self) -> None:
        """Hand finished steps to the summary, the windows and whoever else asked for them."""
        with self._lock:
            steps = self._new[:]
            self._new.clear()
            if steps and self._summary is not None:
                self._summary.add(steps)
        if not steps or (self.fold is not None and self.fold.lost):
            return
        if self._file is not None:
            self._file.add(steps)
        for rates in self._rates:
            rates.add(steps)
        if self._sinks:
            single = self._each(steps)
            for sink in self._sinks:
                sink(single)
        self._publish(steps)

    def _each(self, steps: list[Step]) -> list[Step]:
        """Steps one by one, also those that were counted together."""
        from overseer.model.alike import each

        return each(steps)

    def _publish(self, steps: list[Step]) -> None:
        """Give the steps that hooks have found, to whoever subscribes; and some to the record."""
        ov, fold = self.ov, self.fold
        assert fold is not None
        wanted = ov.bus.wants(("task", "step", "batch_size", "loss"))
        if not wanted:
            if not self._samples(steps[-1].end):
                return
            steps = [step for step in steps if self._samples(step.end)]
        marked = {task for lane in fold.lanes.values() for task in lane.told_tasks}
        for step in self._each(steps):
            if step.task in marked or not (wanted or self._samples(step.end)):
                continue
            event: dict[str, Any] = {"task": step.task, "step": step.number}
            if step.items == step.items:
                event["batch_size"] = int(step.items)
            if step.backwards and not step.late and step.loss == step.loss:
                event["loss"] = step.loss
            if wanted:
                self._hand(ov.bus.push, Own(event))  # Not recorded: it was told from what is.
            elif ov.bus.samplers:
                self._sampled = self._sampled[0] + 1, step.end
                ov.bus.keep(event, event["step"])

    def _hand(self, to: Callable[[Any], object], event: dict[str, Any]) -> None:
        """Hand an event on; who wants the run ended for it waits until all else has been done."""
        try:
            to(event)
        except BaseException as error:
            self._wish = self._wish or error

    def _wished(self) -> None:
        wish, self._wish = self._wish, None
        if wish is not None and self.ov.stopping.requested is None:  # Else it ends already.
            raise wish

    def _samples(self, at: int) -> bool:
        """Whether the record has the event of a step that ends at ``at``."""
        n, last = self._sampled
        return bool(self.ov.bus.samplers) and (n < WHOLE or at - last >= SAMPLED_NS)

    def _emitter(self, windows: Windows) -> Callable[[Window], object]:
        def emit(window: Window) -> None:
            """Say what one window came to."""
            windows.tasks.add(window.task)
            of = self.fold.tasks[window.task] if self.fold is not None else None
            if of is None or of.items != of.items:
                window.items = math.nan
            task, rate, units = window.task, window.rate, f"{window.units}/s"
            if windows.given and rate is not None:
                event: dict[str, Any] = {"task": task, "rate": rate, "units": units}
                share = window.loading_share
                if share is not None:
                    event["loading_share"], event["compute_share"] = share, 1 - share
                self._hand(self.ov.bus.push, self._own(event, window))
            for key in windows.logged:
                value = rate if key == "train_rate" else getattr(window, key)
                if value is not None:
                    windows.told.add(key)
                    share = getattr(window, key.replace("_rate", "_share"), None)
                    more = {} if share is None else {key.replace("_rate", "_share"): share}
                    told = {"task": task, key: value, "units": units, **more}
                    self._hand(self.ov.log, self._own(told, window))

        return emit

    def _own(self, event: dict[str, Any], window: Window) -> Own:
        """An event of a window, which is of its last step."""
        own = Own(event)
        own.of_step = window.first + window.steps - 1
        return own

    # Stopping

    def stop_at(
        self, n: int, task: str | None, reached: Callable[[], object], once: bool = False
    ) -> None:
        """Call ``reached`` in the script's thread when there are ``n`` steps, as the rules say.

        Args:
            n: How many.
            task: Of this task; None: of training, or of all tasks where nothing learns.
            reached: It may raise what ends the script.
            once: Whether it is called once; else at each step from there on.
        """
        self._stops.append((n, task, reached, once))
        self._arm()
        self.begin()

    def _arm(self) -> None:
        if self.fold is not None and self._stops:
            left = min(n - self.fold.steps(task) for n, task, _, _ in self._stops)
            self.ov.alarm.set("steps", self._telling(), max(left, 1), self._counted)

    def _counted(self) -> None:
        fold = self.fold
        assert fold is not None
        self.catch_up()
        due = [stop for stop in self._stops if stop[0] <= fold.steps(stop[1])]
        self._stops = [stop for stop in self._stops if not (stop in due and stop[3])]
        self._arm()
        for _, _, reached, _ in due:
            reached()

    def _telling(self) -> tuple[int, ...]:
        """Kinds of which each event may tell a step, as far as is known by now."""
        fold = self.fold
        learns = fold is None or fold.made or fold.told_by != "batches"
        return STEP_KINDS if learns else (*STEP_KINDS, k.LOADING)

    # The end

    def close(self) -> None:
        """The script has ended: fold the rest, and say what it came to."""
        fold, timer = self.fold, self._timer
        self.ov.alarm.off("steps")
        if fold is None or timer is None:
            return
        self._timer = None
        timer.__exit__(None, None, None)
        if self._marks is not None:
            self._marks.finish()
        self.catch_up()
        with self._lock:
            fold.finish()
        self._tell()
        for rates in self._rates:
            rates.finish()
        self.ov.summary["tasks"] = self.facts(final=True)
        if self._file is not None:
            self._file.flush()
            self.ov.summary["steps"] = self._file.section()
        for summed in self._summed:
            summed()
        from .unknown import problems

        for problem in problems(self, fold):
            self.ov.report(problem)
        self._wished()


def _known(library: Any) -> None:
    """Have the recorder read a library's tensors."""
    from overseer.recorder.values import values

    values.know(library)


_all: WeakKeyDictionary[Overseer, Measuring] = WeakKeyDictionary()


def measuring_of(ov: Overseer) -> Measuring:
    """The one :class:`Measuring` of a run."""
    found = _all.get(ov)
    if found is None:
        found = _all[ov] = Measuring(ov)
    return found


def stepped_in(ov: Overseer) -> tuple[float, float] | None:
    """From when to when steps have been made in a run; None: never, or none yet."""
    measuring = _all.get(ov)
    return None if measuring is None else measuring.stepped


# The instrument, and its options


#: Flags, by the key under which they log a figure of each window.
FLAGS = {
    "train_rate": "log items a second, window by window",
    "loading_rate": "how fast the loader alone is, and its share of time",
    "compute_rate": "how fast the work alone is, and its share of time",
}


def instrument_rates(ov: Overseer) -> Generator[Any, Any, None]:
    """Measure steps whenever a script or a voirfile shows any."""
    yield ov.phases.init
    _add_options(ov.argparser)
    yield ov.phases.parse_args
    options, measuring = ov.options, measuring_of(ov)
    # No defaults of argparse's: it would check them at every start, and import what that needs.
    measuring.interval = options.interval or measuring.interval
    measuring.skip = options.skip if options.skip is not None else measuring.skip
    measuring.multiplier = options.items_per_step
    measuring.steps_mb = options.steps_max_mb
    measuring.method = options.metric or measuring.method
    logged = (key for key in FLAGS if getattr(options, key))
    measuring.logged = tuple(logged) or (("train_rate",) if options.metric else ())
    yield from measuring.run()


def _add_options(parser: Any) -> None:
    add = parser.add_argument
    for key, what in FLAGS.items():
        add(f"--{key.replace('_', '-')}", action="store_true", help=what)
    add("--metric", choices=("step", "wrap"), metavar="step|wrap",
        help="take only steps, or only pairs, for steps; logs --train-rate")  # fmt: skip
    add("--interval", "--metric-interval", type=_span("--interval", 1),
        metavar="N|Ns", help="length of a window, in steps or seconds (1s)")  # fmt: skip
    add("--skip", "--metric-skip", type=_span("--skip", 0), metavar="N|Ns",
        help="leave out so many steps or seconds, instead of finding the warm-up")  # fmt: skip
    add("--items-per-step", type=_positive, default=1, metavar="K",
        help="count the items of a batch K times: gradient accumulation and the like")  # fmt: skip
    add("--steps-max-mb", type=_megabytes, default=STEPS_MB, metavar="MB",
        help=f"size of steps.npy; above it, every second step (default: {STEPS_MB:g}; 0: no file)")  # fmt: skip # noqa: E501


def _positive(text: str) -> int:
    if not text.isdecimal() or len(text) > 7 or not 1 <= int(text) <= 10**6:
        what = f"--items-per-step is {text!r}, which is no number to count items by"
        remedy = "Give a whole number from 1 to 1000000, for example 4."
        raise VoirError("option-value", what, remedy)
    return int(text)


def _megabytes(text: str) -> float:
    try:
        found = float(text)
    except ValueError:
        found = -1.0
    if not 0 <= found <= MOST_MB:
        what = f"--steps-max-mb is {text!r}, which is no size of a file"
        raise VoirError("option-value", what, f"Give megabytes, from 0 to {MOST_MB:g}.")
    return found


def _span(option: str, least: int) -> Callable[[str], str]:
    def checked(text: str) -> str:
        from overseer.model.spans import parse_span

        parse_span(text, option, least)
        return text

    return checked
