"""Every metric that voir records: its name, unit, kind, and whether more of it is better.

Views, exports, monitors and comparisons take these from here. Keys are those of ``run.json``
(docs/run.schema.json) and ``metrics.jsonl``; ``*`` stands for any one key of a mapping.
"""

from __future__ import annotations

from .amounts import duration, figure, percent, size

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

#: What is better: more, less, or neither.
UP, DOWN, NEUTRAL = "up", "down", ""
#: Kinds: how a metric is shown. A total grows; what of it comes a second is shown.
RATE, SECONDS, SHARE, PERCENT, BYTES = "rate", "seconds", "share", "percent", "bytes"
SCALAR, COUNT, TOTAL = "number", "count", "total"
_UNITS = {
    RATE: "items/s", SECONDS: "s", SHARE: "1", PERCENT: "%", BYTES: "B", SCALAR: "1", COUNT: "1",
    TOTAL: "B",
}  # fmt: skip
_TEXT: dict[str, Callable[[object], str | None]] = {
    SECONDS: duration, SHARE: percent, BYTES: size, TOTAL: size,
}  # fmt: skip


class Metric:
    """Something that is measured.

    Attributes:
        key: Where it is recorded.
        name: What it is called in tables.
        kind: How it is shown.
        better: ``up``, ``down``, or empty.
        about: What it is.
        unit: Of the recorded value; ``1`` of a plain number. The items of a rate are the task's.
        curve: Whether what a monitor gives is shown over time.
    """

    __slots__ = ("about", "better", "curve", "key", "kind", "name", "unit")

    def __init__(
        self, key: str, name: str, kind: str, better: str, about: str, unit: str = "",
        curve: bool = False,
    ) -> None:  # fmt: skip
        self.key, self.name, self.kind, self.better, self.about = key, name, kind, better, about
        self.unit, self.curve = unit or _UNITS[kind], curve

    def text(self, value: object) -> str:
        """The value for people; empty if it is no number."""
        shown = _TEXT.get(self.kind) or figure
        return shown(value) or ""


def _by_key(metrics: Iterable[Metric]) -> dict[str, Metric]:
    return {metric.key: metric for metric in metrics}


#: What is recorded of a task.
TASK_METRICS = _by_key((
    Metric("steps", "steps", COUNT, NEUTRAL, "steps of the task"),
    Metric("steps_at_least", "steps seen", COUNT, NEUTRAL, "steps seen where events were lost"),
    Metric("items", "items", COUNT, NEUTRAL, "items of all steps"),
    Metric("first_step_seconds", "first step", SECONDS, DOWN, "the first step"),
    Metric("compiled.steps", "compiled", COUNT, DOWN, "steps in which something was compiled"),
    Metric("compiled.seconds", "compiling", SECONDS, DOWN, "these steps"),
    Metric("rate.steady", "steady", RATE, UP, "items of the steady steps over their seconds"),
    Metric("rate.wall", "overall", RATE, UP, "items over all the time, pauses included"),
    Metric("rate.median", "median rate", RATE, UP, "median of the rates of single steps"),
    Metric("rate.q1", "first quartile", RATE, UP, "first quartile of these rates"),
    Metric("rate.q3", "third quartile", RATE, UP, "third quartile of these rates"),
    Metric("rate.n", "sample", COUNT, NEUTRAL, "steps that the rate is of"),
    Metric("rate.skipped", "skipped", COUNT, NEUTRAL, "steps left out before them"),
    Metric("rate.profiled", "profiled", COUNT, NEUTRAL, "steps recorded in detail"),
    Metric("step_seconds.median", "step", SECONDS, DOWN, "median time of a step"),
    Metric("step_seconds.q1", "step, q1", SECONDS, DOWN, "first quartile of the time of a step"),
    Metric("step_seconds.q3", "step, q3", SECONDS, DOWN, "third quartile of the time of a step"),
    Metric("step_seconds.p95", "step, p95", SECONDS, DOWN, "95th percentile of a step's time"),
    Metric("step_seconds.p99", "step, p99", SECONDS, DOWN, "99th percentile of a step's time"),
    Metric("step_seconds.max", "longest step", SECONDS, DOWN, "time of the longest step"),
    Metric("step_seconds.course.steps", "steps a mean", COUNT, NEUTRAL, "steps of each mean"),
    Metric("step_seconds.course.means", "means", SECONDS, DOWN, "mean times of steps, in order"),
    Metric("steady.from_step", "steady from", COUNT, DOWN, "the first steady step"),
    Metric("loading.seconds", "loading time", SECONDS, DOWN, "time waiting for batches"),
    Metric("loading.share", "loading", SHARE, DOWN, "waiting, of loading and compute"),
    Metric("compute.seconds", "compute time", SECONDS, DOWN, "time working on batches"),
    Metric("compute.share", "compute", SHARE, UP, "work, of loading and compute"),
    Metric("breakdown.loading", "loading time", SECONDS, DOWN, "waiting for batches"),
    Metric("breakdown.forward", "forward", SECONDS, DOWN, "calls of the model"),
    Metric("breakdown.backward", "backward", SECONDS, DOWN, "computing gradients"),
    Metric("breakdown.optimizer", "optimizer", SECONDS, DOWN, "steps of the optimizer"),
    Metric("breakdown.communication", "communication", SECONDS, DOWN, "collectives between ranks"),
    Metric("breakdown.other", "other", SECONDS, DOWN, "all else in steps"),
    Metric("pause.seconds", "pauses", SECONDS, DOWN, "time between steps that is of none"),
    Metric("pause.count", "pause count", COUNT, NEUTRAL, "how many pauses"),
    Metric("pause.kinds.*.seconds", "pauses", SECONDS, DOWN, "pauses of one kind"),
    Metric("pause.kinds.*.count", "pause count", COUNT, NEUTRAL, "how many of that kind"),
    Metric("loss.first", "first loss", SCALAR, NEUTRAL, "the first loss"),
    Metric("loss.last", "last loss", SCALAR, DOWN, "the last loss"),
    Metric("loss.min", "lowest loss", SCALAR, DOWN, "the lowest loss"),
    Metric("loss.not_finite", "not finite", COUNT, DOWN, "losses that were NaN or infinite"),
))  # fmt: skip

#: What is recorded of a run as a whole.
RUN_METRICS = _by_key((
    Metric("seconds", "run", SECONDS, DOWN, "the whole run"),
    Metric("overhead.seconds", "own cost", SECONDS, DOWN, "what voir itself cost, at least"),
    Metric("overhead.share", "own cost", SHARE, DOWN, "that as a part of the run"),
    Metric("overhead.outside", "own cost outside", SECONDS, DOWN, "of it, outside of the script"),
    Metric("progress.done", "done", COUNT, UP, "how far a progress bar came"),
    Metric("progress.total", "total", COUNT, NEUTRAL, "where it ends"),
    Metric("progress.seconds", "progress time", SECONDS, DOWN, "how long it took"),
    Metric("host.cpu.mean", "cpu", PERCENT, NEUTRAL, "mean load of the processors"),
    Metric("host.cpu.max", "cpu, most", PERCENT, NEUTRAL, "highest load of the processors"),
    Metric("host.cpu.cores", "cores", COUNT, NEUTRAL, "processors that the run may use"),
    Metric("host.cpu.process.mean", "script's cpu", PERCENT, NEUTRAL, "the script's mean load"),
    Metric("host.cpu.process.max", "script's cpu, most", PERCENT, NEUTRAL, "its highest load"),
    Metric("host.memory.mean", "memory, mean", BYTES, DOWN, "mean memory in use"),
    Metric("host.memory.peak", "memory, most", BYTES, DOWN, "most memory in use"),
    Metric("host.memory.total", "memory there is", BYTES, NEUTRAL, "memory there is"),
    Metric("host.memory.process.peak", "memory", BYTES, DOWN, "most memory of the script"),
    Metric("host.memory.process.growth.bytes", "growth", BYTES, DOWN, "growth of that memory"),
    Metric("host.memory.process.growth.seconds", "growing", SECONDS, NEUTRAL, "the time it took"),
    Metric("devices.utilisation.mean", "gpu", SHARE, UP, "mean time in which a kernel ran"),
    Metric("devices.utilisation.max", "gpu, most", SHARE, UP, "highest of that"),
    Metric("devices.memory.peak", "gpu memory", BYTES, DOWN, "most memory of the device in use"),
    Metric("devices.memory.total", "gpu memory there is", BYTES, NEUTRAL, "its memory"),
    Metric("devices.memory.growth.bytes", "gpu growth", BYTES, DOWN, "growth of memory in use"),
    Metric("devices.memory.growth.seconds", "gpu growing", SECONDS, NEUTRAL, "the time it took"),
    Metric("devices.power.mean", "power", SCALAR, DOWN, "mean power", "W"),
    Metric("devices.power.max", "power, most", SCALAR, DOWN, "highest power", "W"),
    Metric("devices.power.limit", "power limit", SCALAR, NEUTRAL, "the limit of power", "W"),
    Metric("devices.temperature.mean", "temperature", SCALAR, DOWN, "mean temperature", "°C"),
    Metric("devices.temperature.max", "temperature, most", SCALAR, DOWN, "highest", "°C"),
    Metric("devices.clocks.*.mean", "clock", SCALAR, UP, "mean clock", "MHz"),
    Metric("devices.clocks.*.max", "clock, most", SCALAR, UP, "highest clock", "MHz"),
    Metric("devices.clocks.*.min", "clock, least", SCALAR, UP, "lowest clock", "MHz"),
    Metric("devices.throttled.*", "throttled", SHARE, DOWN, "samples with clocks held down"),
))  # fmt: skip

#: What voir itself understands in events, and what is common in them.
EVENT_METRICS = _by_key((
    Metric("loss", "loss", SCALAR, DOWN, "the loss"),
    Metric("rate", "rate", RATE, UP, "items a second of a window of steps"),
    Metric("loading_share", "loading", SHARE, DOWN, "waiting for batches, of a window"),
    Metric("compute_share", "compute", SHARE, UP, "work, of a window"),
    Metric("train_rate", "rate", RATE, UP, "the rate, as it is logged"),
    Metric("loading_rate", "loading rate", RATE, UP, "items a second of the loader alone"),
    Metric("compute_rate", "compute rate", RATE, UP, "items a second of the work alone"),
    Metric("accuracy", "accuracy", SCALAR, UP, "the share of right answers"),
))  # fmt: skip
#: Keys of events that say when, of what and how far; they are no metrics.
CONTEXT_KEYS = frozenset({
    "t", "n", "time", "task", "step", "batch", "batch_size", "units", "progress", "turn",
})  # fmt: skip
#: Keys that have a place of their own among the figures of a task.
FIGURES = frozenset({"loss", "rate", "loading_share", "compute_share"})
#: Numbers that are set, and not reached.
SETTINGS = frozenset({"epoch", "lr", "learning_rate"})
#: Less of a value is better if it has one of these in its name and is not known here.
LOWER = ("loss", "error", "perplexity")


def lower_is_better(name: str) -> bool:
    """Whether less of a value that a script gives is better: by its name, ``eval/val_loss``."""
    known = EVENT_METRICS.get(name.rpartition("/")[2])
    if known is not None:
        return known.better == DOWN
    return any(word in name.lower() for word in LOWER)


# What monitors give


class MetricGroup:
    """What a monitor gives under one key.

    Attributes:
        key: Of its events.
        name: What it samples, and ``short`` where there is little room.
        metrics: By their name in the event.
    """

    def __init__(self, key: str, name: str, short: str, *metrics: Metric) -> None:
        self.key, self.name, self.short, self.metrics = key, name, short, _by_key(metrics)

    @property
    def totals(self) -> list[Metric]:
        """The totals of which what comes a second is shown."""
        return [each for each in self.metrics.values() if each.kind == TOTAL and each.curve]

    @property
    def units(self) -> dict[str, str]:
        """The units by dotted key, as instruments declare what they emit."""
        return {f"{self.key}.{name}": metric.unit for name, metric in self.metrics.items()}


_LOAD = Metric("load", "load", PERCENT, NEUTRAL, "load of the processors", curve=True)
_MEMORY = Metric("memory", "memory", BYTES, DOWN, "used, and how much there is", curve=True)
_READ = Metric("read_bytes", "read", TOTAL, NEUTRAL, "bytes read", curve=True)
_WRITTEN = Metric("write_bytes", "write", TOTAL, NEUTRAL, "bytes written", curve=True)

METRIC_GROUPS = {source.key: source for source in (
    MetricGroup("cpudata", "cpu", "cpu", _LOAD, _MEMORY),
    MetricGroup("memdata", "memory", "memory", _MEMORY,
        Metric("available", "available", BYTES, UP, "memory that programs could have")),
    MetricGroup("gpudata", "gpu", "gpu",
        Metric("load", "load", SHARE, UP, "time in which a kernel ran", curve=True),
        Metric("memory", "memory", SCALAR, DOWN, "used, and how much there is", "MiB", curve=True),
        Metric("temperature", "temperature", SCALAR, DOWN, "temperature", "°C", curve=True),
        Metric("power", "power", SCALAR, DOWN, "power", "W", curve=True),
        Metric("power_limit", "power limit", SCALAR, NEUTRAL, "the limit of power", "W"),
        Metric("clocks", "clocks", SCALAR, UP, "clocks by their name", "MHz"),
        Metric("throttle", "throttled", SCALAR, NEUTRAL, "why clocks are held down", "reasons")),
    MetricGroup("iodata", "disk", "disk",
        Metric("read_count", "reads", COUNT, NEUTRAL, "reads"),
        Metric("write_count", "writes", COUNT, NEUTRAL, "writes"),
        _READ, _WRITTEN,
        Metric("read_time", "read time", SCALAR, DOWN, "time in reads", "ms"),
        Metric("write_time", "write time", SCALAR, DOWN, "time in writes", "ms"),
        Metric("busy_time", "busy time", SCALAR, NEUTRAL, "time in which disks worked", "ms")),
    MetricGroup("netdata", "network", "net",
        Metric("bytes_recv", "in", TOTAL, NEUTRAL, "bytes received", curve=True),
        Metric("bytes_sent", "out", TOTAL, NEUTRAL, "bytes sent", curve=True),
        Metric("packets_sent", "packets out", COUNT, NEUTRAL, "packets sent"),
        Metric("packets_recv", "packets in", COUNT, NEUTRAL, "packets received"),
        Metric("errin", "errors in", COUNT, DOWN, "errors while receiving"),
        Metric("errout", "errors out", COUNT, DOWN, "errors while sending"),
        Metric("dropin", "drops in", COUNT, DOWN, "packets dropped while receiving"),
        Metric("dropout", "drops out", COUNT, DOWN, "packets dropped while sending")),
    MetricGroup("process", "process", "script", _LOAD, _MEMORY, _READ, _WRITTEN,
        Metric("read_chars", "read, cache too", TOTAL, NEUTRAL, "bytes read, from cache too"),
        Metric("write_chars", "written, cache too", TOTAL, NEUTRAL, "bytes written, to cache too"),
        Metric("children", "children", COUNT, NEUTRAL, "processes below the script's")),
)}  # fmt: skip
#: Bytes in a unit of memory.
BYTES_IN = {"B": 1.0, "MiB": 1024.0**2}
#: Those that are shown over time, by name alone: of another monitor's data too.
CURVES = {
    name: metric for source in reversed(METRIC_GROUPS.values())
    for name, metric in source.metrics.items() if metric.curve
}  # fmt: skip


def curve(key: str, name: str) -> Metric:
    """What is shown over time of an event's ``key``, by its ``name`` there, one of CURVES."""
    return METRIC_GROUPS[key].metrics.get(name) or CURVES[name]
