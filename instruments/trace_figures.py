"""Records figures in the trace that no site records: rates, progress, monitors' samples."""

from __future__ import annotations

from typing import Any

from overseer import Overseer
from overseer.model.catalogue import METRIC_GROUPS, SHARE, TOTAL, curve
from overseer.recorder import recorder
from overseer.rundir.tensorboard import leaves
from overseer.trace.channels import channel

Event = dict[str, Any]
#: Keys of monitors' samples; the machine's memory is in ``cpudata`` too.
MONITORED = {key: source.name for key, source in METRIC_GROUPS.items() if key != "memdata"}
#: Progress of at most this many turns is marked; longer loops are loops of steps.
MAX_TURNS = 1000


class Figures:
    """Listens to a run's rates, progress and samples, and records them in channels.

    Args:
        ov: The run.
    """

    def __init__(self, ov: Overseer) -> None:
        self._metrics, self._machine = channel("metrics"), channel("machine", always=True)
        self._marks = channel("progress", always=True)
        self._totals: dict[str, tuple[int, float]] = {}
        heard = {"rate": self._rate, "progress": self._progress, "accuracy": self._accuracy}
        heard |= dict.fromkeys(MONITORED, self._sampled)
        self._listening = [ov.listen(listener, key) for key, listener in heard.items()]

    def close(self) -> None:
        """Stop listening."""
        for listening in self._listening:
            listening.dispose()

    def _accuracy(self, event: Event) -> None:
        if len(event) > 1:  # Given alone, it has a site of its own.
            self._metrics.counter(_of_task("accuracy", event)).add(event["accuracy"])

    def _rate(self, event: Event) -> None:
        unit = str(event.get("units", "items/s"))
        self._metrics.counter(_of_task("rate", event), unit).add(event["rate"])

    def _progress(self, event: Event) -> None:
        progress = event["progress"]
        if isinstance(progress, tuple | list) and len(progress) == 2 and progress[0]:
            done, total = progress
            if isinstance(total, int) and total <= MAX_TURNS:
                self._marks.instant(f"{event.get('task', 'train')} {done} of {total}")

    def _sampled(self, event: Event) -> None:
        for key, name in MONITORED.items():
            for path, value in leaves(name, event.get(key)):
                metric = curve(key, path.rpartition(".")[2])
                if metric.kind == TOTAL:
                    self._flow(path, value, f"{metric.unit}/s")
                elif metric.kind == SHARE:
                    self._machine.counter(path, "%").add(value * 100)
                else:
                    self._machine.counter(path, metric.unit).add(value)

    def _flow(self, path: str, total: float, unit: str) -> None:
        """Record the rate at which a total grows."""
        now = recorder.now()
        since, before = self._totals.get(path, (now, total))
        self._totals[path] = now, total
        if now > since:
            self._machine.counter(path, unit).add((total - before) / (now - since) * 1e9)


def _of_task(name: str, event: Event) -> str:
    task = event.get("task", "train")
    return name if task == "train" else f"{name} ({task})"
