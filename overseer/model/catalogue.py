"""The catalogue of all metrics: name, unit, kind, and the better direction.

Views, exports, monitors and comparisons use it. Keys are those of ``run.json``
(docs/run.schema.json) and ``metrics.jsonl``; ``*`` stands for any one key of a mapping.
"""

from __future__ import annotations

from .facts import duration, figure, percent, size

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

#: The better direction: up, down, or neither.
UP, DOWN, NEUTRAL = "up", "down", ""
#: Kinds decide how a metric is shown. A total grows and is shown as a rate per second.
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
    """A metric.

    Attributes:
        key: Its dotted path in a record.
        name: Its name in tables.
        kind: Its kind, which decides how it is shown.
        better: ``up``, ``down``, or empty.
        about: Its description.
        unit: The unit of recorded values; ``1`` for plain numbers. A rate's items are the task's.
        curve: Whether a monitor's values are plotted over time.
    """

    __slots__ = ("about", "better", "curve", "key", "kind", "name", "unit")

    def __init__(
        self, key: str, name: str, kind: str, better: str, about: str, unit: str = "",
        curve: bool = False,
    ) -> None:  # fmt: skip
        self.key, self.name, self.kind, self.better, self.about = key, name, kind, better, about
        self.unit, self.curve = unit or _UNITS[kind], curve

    def text(self, value: object) -> str:
        """Format a value for people; empty if it is not a number."""
        shown = _TEXT.get(self.kind) or figure
        return shown(value) or ""


def _by_key(metrics: Iterable[Metric]) -> dict[str, Metric]:
    return {metric.key: metric for metric in metrics}


#: Metrics of a task.
TASK_METRICS = _by_key((
    Metric("steps", "steps", COUNT, NEUTRAL, "steps of the task"),
    Metric("steps_at_least", "steps seen", COUNT, NEUTRAL, "steps seen, if events were lost"),
    Metric("items", "items", COUNT, NEUTRAL, "items of all steps"),
    Metric("first_step_seconds", "first step", SECONDS, DOWN, "the first step"),
    Metric("compiled.steps", "compiled", COUNT, DOWN, "steps in which something was compiled"),
    Metric("compiled.seconds", "compiling", SECONDS, DOWN, "the time of these steps"),
    Metric("rate.steady", "steady", RATE, UP, "items of the steady steps over their seconds"),
    Metric("rate.wall", "overall", RATE, UP, "items over all the time, pauses included"),
    Metric("rate.median", "median rate", RATE, UP, "median of the rates of single steps"),
    Metric("rate.q1", "first quartile", RATE, UP, "first quartile of these rates"),
    Metric("rate.q3", "third quartile", RATE, UP, "third quartile of these rates"),
    Metric("rate.n", "sample", COUNT, NEUTRAL, "steps in the rate"),
    Metric("rate.skipped", "skipped", COUNT, NEUTRAL, "steps left out of the rate"),
    Metric("rate.profiled", "profiled", COUNT, NEUTRAL, "steps recorded in detail"),
    Metric("step_seconds.median", "step", SECONDS, DOWN, "median time of a step"),
    Metric("step_seconds.q1", "step, q1", SECONDS, DOWN, "first quartile of the time of a step"),
    Metric("step_seconds.q3", "step, q3", SECONDS, DOWN, "third quartile of the time of a step"),
    Metric("step_seconds.p95", "step, p95", SECONDS, DOWN, "95th percentile of a step's time"),
    Metric("step_seconds.p99", "step, p99", SECONDS, DOWN, "99th percentile of a step's time"),
    Metric("step_seconds.max", "longest step", SECONDS, DOWN, "time of the longest step"),
    Metric("steady.from_step", "steady from", COUNT, DOWN, "the first steady step"),
    Metric("loading.seconds", "loading time", SECONDS, DOWN, "time waiting for batches"),
    Metric("loading.share", "loading", SHARE, DOWN, "loading divided by loading and compute"),
    Metric("compute.seconds", "compute time", SECONDS, DOWN, "time working on batches"),
    Metric("compute.share", "compute", SHARE, UP, "compute divided by loading and compute"),
    Metric("breakdown.loading", "loading time", SECONDS, DOWN, "waiting for batches"),
    Metric("breakdown.forward", "forward", SECONDS, DOWN, "calls of the model"),
    Metric("breakdown.backward", "backward", SECONDS, DOWN, "computing gradients"),
    Metric("breakdown.optimizer", "optimizer", SECONDS, DOWN, "steps of the optimizer"),
    Metric("breakdown.communication", "communication", SECONDS, DOWN, "collectives between ranks"),
    Metric("breakdown.other", "other", SECONDS, DOWN, "the rest of steps"),
    Metric("pause.seconds", "pauses", SECONDS, DOWN, "time that belongs to no step"),
    Metric("pause.count", "pause count", COUNT, NEUTRAL, "number of pauses"),
    Metric("pause.kinds.*.seconds", "pauses", SECONDS, DOWN, "pauses of one kind"),
    Metric("pause.kinds.*.count", "pause count", COUNT, NEUTRAL, "number of pauses of one kind"),
    Metric("loss.first", "first loss", SCALAR, NEUTRAL, "the first loss"),
    Metric("loss.last", "last loss", SCALAR, DOWN, "the last loss"),
    Metric("loss.min", "lowest loss", SCALAR, DOWN, "the lowest loss"),
    Metric("loss.not_finite", "not finite", COUNT, DOWN, "losses that were NaN or infinite"),
))  # fmt: skip

#: Metrics of a whole run.
RUN_METRICS = _by_key((
    Metric("seconds", "run", SECONDS, DOWN, "the whole run"),
    Metric("overhead.seconds", "own cost", SECONDS, DOWN, "voir's own cost, at least"),
    Metric("overhead.share", "own cost", SHARE, DOWN, "voir's own cost, as a share of the run"),
    Metric("overhead.outside", "own cost outside", SECONDS, DOWN, "own cost outside of the script"),
    Metric("progress.done", "done", COUNT, UP, "progress of the script"),
    Metric("progress.total", "total", COUNT, NEUTRAL, "the value at which it is complete"),
    Metric("progress.seconds", "progress time", SECONDS, DOWN, "time of the progress"),
    Metric("host.cpu.mean", "cpu", PERCENT, NEUTRAL, "mean load of the processors"),
    Metric("host.cpu.max", "cpu max", PERCENT, NEUTRAL, "highest load of the processors"),
    Metric("host.cpu.cores", "cores", COUNT, NEUTRAL, "processors that the run may use"),
    Metric("host.cpu.process.mean", "script's cpu", PERCENT, NEUTRAL, "the script's mean load"),
    Metric("host.cpu.process.max", "script's cpu max", PERCENT, NEUTRAL, "its highest load"),
    Metric("host.memory.mean", "memory, mean", BYTES, DOWN, "mean memory in use"),
    Metric("host.memory.peak", "memory peak", BYTES, DOWN, "peak memory in use"),
    Metric("host.memory.total", "memory total", BYTES, NEUTRAL, "installed memory"),
    Metric("host.memory.process.peak", "memory", BYTES, DOWN, "peak memory of the script"),
    Metric("host.memory.process.growth.bytes", "growth", BYTES, DOWN, "growth of that memory"),
    Metric("host.memory.process.growth.seconds", "growing", SECONDS, NEUTRAL, "time of growth"),
    Metric("devices.utilisation.mean", "gpu", SHARE, UP, "mean share of time with a kernel"),
    Metric("devices.utilisation.max", "gpu max", SHARE, UP, "highest share"),
    Metric("devices.memory.peak", "gpu memory", BYTES, DOWN, "peak device memory in use"),
    Metric("devices.memory.total", "gpu memory total", BYTES, NEUTRAL, "device memory"),
    Metric("devices.memory.growth.bytes", "gpu growth", BYTES, DOWN, "growth of memory in use"),
    Metric("devices.memory.growth.seconds", "gpu growing", SECONDS, NEUTRAL, "time of growth"),
    Metric("devices.power.mean", "power", SCALAR, DOWN, "mean power", "W"),
    Metric("devices.power.max", "power max", SCALAR, DOWN, "highest power", "W"),
    Metric("devices.power.limit", "power limit", SCALAR, NEUTRAL, "power limit", "W"),
    Metric("devices.temperature.mean", "temperature", SCALAR, DOWN, "mean temperature", "°C"),
    Metric("devices.temperature.max", "temperature max", SCALAR, DOWN, "highest", "°C"),
    Metric("devices.clocks.*.mean", "clock", SCALAR, UP, "mean clock", "MHz"),
    Metric("devices.clocks.*.max", "clock max", SCALAR, UP, "highest clock", "MHz"),
    Metric("devices.clocks.*.min", "clock min", SCALAR, UP, "lowest clock", "MHz"),
    Metric("devices.throttled.*", "throttled", SHARE, DOWN, "samples with reduced clocks"),
))  # fmt: skip

#: Values of events that voir knows.
EVENT_METRICS = _by_key((
    Metric("loss", "loss", SCALAR, DOWN, "the loss"),
    Metric("rate", "rate", RATE, UP, "items per second in a window of steps"),
    Metric("loading_share", "loading", SHARE, DOWN, "share of loading in a window"),
    Metric("compute_share", "compute", SHARE, UP, "share of compute in a window"),
    Metric("train_rate", "rate", RATE, UP, "the rate, as logged"),
    Metric("loading_rate", "loading rate", RATE, UP, "items per second of loading"),
    Metric("compute_rate", "compute rate", RATE, UP, "items per second of compute"),
    Metric("accuracy", "accuracy", SCALAR, UP, "share of correct predictions"),
))  # fmt: skip
#: Keys that give an event's time, task or progress, not a metric.
CONTEXT_KEYS = frozenset({
    "t", "n", "time", "task", "step", "batch", "batch_size", "units", "progress", "turn",
})  # fmt: skip
#: Keys that views show among the figures of a task.
FIGURES = frozenset({"loss", "rate", "loading_share", "compute_share"})
#: Keys of settings, which are not results.
SETTINGS = frozenset({"epoch", "lr", "learning_rate"})
#: Parts of names of unknown metrics of which less is better.
LOWER = ("loss", "error", "perplexity")


def lower_is_better(name: str) -> bool:
    """Whether less of a script's metric is better, by its name: ``eval/val_loss``."""
    known = EVENT_METRICS.get(name.rpartition("/")[2])
    if known is not None:
        return known.better == DOWN
    return any(word in name.lower() for word in LOWER)


# Metrics of monitors


class MetricGroup:
    """The metrics that a monitor gives under one key.

    Attributes:
        key: The key of its events.
        name: The name of what it samples; ``short`` is for narrow views.
        metrics: Metrics by name in the event.
    """

    def __init__(self, key: str, name: str, short: str, *metrics: Metric) -> None:
        self.key, self.name, self.short, self.metrics = key, name, short, _by_key(metrics)

    @property
    def totals(self) -> list[Metric]:
        """The totals that are plotted as rates."""
        return [each for each in self.metrics.values() if each.kind == TOTAL and each.curve]

    @property
    def units(self) -> dict[str, str]:
        """Units by dotted key, in the form of an instrument's ``emits``."""
        return {f"{self.key}.{name}": metric.unit for name, metric in self.metrics.items()}


_LOAD = Metric("load", "load", PERCENT, NEUTRAL, "load of the processors", curve=True)
_MEMORY = Metric("memory", "memory", BYTES, DOWN, "used and total", curve=True)
_READ = Metric("read_bytes", "read", TOTAL, NEUTRAL, "bytes read", curve=True)
_WRITTEN = Metric("write_bytes", "write", TOTAL, NEUTRAL, "bytes written", curve=True)

METRIC_GROUPS = {source.key: source for source in (
    MetricGroup("cpudata", "cpu", "cpu", _LOAD, _MEMORY),
    MetricGroup("memdata", "memory", "memory", _MEMORY,
        Metric("available", "available", BYTES, UP, "memory available to programs")),
    MetricGroup("gpudata", "gpu", "gpu",
        Metric("load", "load", SHARE, UP, "share of time with a kernel", curve=True),
        Metric("memory", "memory", SCALAR, DOWN, "used and total", "MiB", curve=True),
        Metric("temperature", "temperature", SCALAR, DOWN, "temperature", "°C", curve=True),
        Metric("power", "power", SCALAR, DOWN, "power", "W", curve=True),
        Metric("power_limit", "power limit", SCALAR, NEUTRAL, "power limit", "W"),
        Metric("clocks", "clocks", SCALAR, UP, "clocks by name", "MHz"),
        Metric("throttle", "throttled", SCALAR, NEUTRAL, "reasons for reduced clocks", "reasons")),
    MetricGroup("iodata", "disk", "disk",
        Metric("read_count", "reads", COUNT, NEUTRAL, "reads"),
        Metric("write_count", "writes", COUNT, NEUTRAL, "writes"),
        _READ, _WRITTEN,
        Metric("read_time", "read time", SCALAR, DOWN, "time in reads", "ms"),
        Metric("write_time", "write time", SCALAR, DOWN, "time in writes", "ms"),
        Metric("busy_time", "busy time", SCALAR, NEUTRAL, "time in which disks were busy", "ms")),
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
        Metric("read_chars", "read, cache too", TOTAL, NEUTRAL, "bytes read with cache"),
        Metric("write_chars", "written, cache too", TOTAL, NEUTRAL, "bytes written with cache"),
        Metric("children", "children", COUNT, NEUTRAL, "child processes of the script")),
)}  # fmt: skip
#: Bytes in a unit of memory.
BYTES_IN = {"B": 1.0, "MiB": 1024.0**2}
#: Plotted metrics by name alone, for the data of unknown monitors.
CURVES = {
    name: metric for source in reversed(METRIC_GROUPS.values())
    for name, metric in source.metrics.items() if metric.curve
}  # fmt: skip


def curve(key: str, name: str) -> Metric:
    """The plotted metric ``name``, one of CURVES, of events under ``key``."""
    return METRIC_GROUPS[key].metrics.get(name) or CURVES[name]
