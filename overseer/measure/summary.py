"""The ``tasks`` section of ``run.json``: what each task did, in constant memory."""

from __future__ import annotations

from bisect import bisect_left
from typing import Any

from .columns import Columns, Rows, Steps, Sums
from .hearing import TASK
from .losses import Loss
from .rates import concurrency, share
from .series import Series
from .spans import NOTHING, Span
from .statistics import Sample, quartiles
from .steady import Verdict, find_steady
from .step import COMPILED, Step

_BUSY, _ESTIMATED = Step._fields.index("busy_ns"), Step._fields.index("estimated")
_TASKS = 256
_THREADS = 256
#: That close to its true beginning the steady state is found.
_CLOSE = 2
#: Of how many parts a run's series of step times is, at most.
_PARTS = 100


class TaskRecord:
    """Everything the summary needs of one task.

    Args:
        skip: What to leave out of rates and shares, in place of the warm-up that is found; None:
            that is found.
    """

    def __init__(self, skip: Span | None = None) -> None:
        self._fixed, self._skip = skip is not None, skip or NOTHING
        self._sums = Sums()
        self._skipped = 0
        self._compiled = self._compiled_ns = 0
        self._series = Series()
        self._sample: Sample[tuple[Any, ...]] = Sample()
        self._spans: dict[int, tuple[int, int]] = {}
        self._unseen: dict[int, tuple[int, int]] = {}
        self._first: Step | None = None
        self._units = "items"
        self._verdict: tuple[int, Verdict] | None = None

    def add(self, columns: Columns, first: Step) -> None:
        """Take in steps, of which ``first`` is the first."""
        if self._first is None:
            self._first, self._units = first, first.units
        self._sums = self._sums.plus(columns.sums)
        self._span(columns, first)
        at = self._left_out(columns)
        self._skipped += at
        if at < len(columns.task):
            self._keep(columns.part(at, len(columns.task)))

    def verdict(self, growth: float = 1.25) -> Verdict:
        """Whether and when the task became steady.

        Args:
            growth: How much longer the series must be for the search to be made anew; it takes
                some hundredths of a second.
        """
        n = self._series.steps
        if self._verdict is None or n > self._verdict[0] * growth:
            self._verdict = (n, find_steady(self._series))
        return self._verdict[1]

    @property
    def steps(self) -> int:
        """How many steps it has had."""
        return self._sums.steps

    @property
    def stepped(self) -> tuple[int, int] | None:
        """When its first step ended, and its last one, in nanoseconds; None before that."""
        first, ends = self._first, [end for _, end in list(self._spans.values())]
        return (first.end_ns, max(ends)) if first is not None and ends else None

    def section(self, clock_name: str) -> dict[str, Any]:
        """The task's part of ``run.json`` but for its loss; what is not known is absent.

        Loading, compute and all of ``rate`` but ``wall`` are of the same steps: the steady ones;
        those after the skip, when one was given; all, when the task never became steady.
        """
        of = self._sums
        verdict = self.verdict(growth=1.0)
        judged = self._judged(verdict, clock_name)
        return present(
            {
                "steps": of.steps,
                "items": of.items if of.sized else None,
                "units": self._units if of.sized else "steps",
                "first_step_seconds": self._first_step_seconds(),
                "compiled": self._compiled_steps(),
                "rate": judged["rate"],
                "step_seconds": judged["step_seconds"],
                "steady": {
                    "verdict": verdict.verdict,
                    "from_step": verdict.from_step,
                    "late": self._late(verdict) or None,
                },
                "loading": judged["loading"],
                "compute": judged["compute"],
                "pause": {
                    "seconds": of.pause_ns / 1e9,
                    "count": of.pauses,
                    "unexplained": of.unexplained or None,
                },
            }
        )

    def _late(self, verdict: Verdict) -> bool:
        """Whether the fixed skip has left steps in from before the steady state."""
        numbers, found = self._series.numbers, verdict.from_step
        return self._fixed and found is not None and found > numbers[0] + _CLOSE

    def _judged(self, verdict: Verdict, clock_name: str) -> dict[str, dict[str, Any]]:
        found = verdict.from_step if not self._fixed else None
        of = self._series.totals(found or 0)
        abreast = concurrency(self._spans.values())
        items, ns = (of.items, of.counted_ns) if self._sums.sized else (of.n, of.busy_ns)
        settled = (self._fixed or found is not None) and ns > 0
        loading, compute = of.loading_ns / 1e9, of.compute_ns / 1e9
        part = share(loading, compute)
        rate = {
            "wall": self._wall(),
            "steady": items * 1e9 / ns * abreast if settled else None,
            **self._quartiles(found or 0, abreast),
            "n": of.n,
            "skipped": self._series.steps - of.n + self._skipped + self._compiled,
            "clock": clock_name,
        }
        return {
            "rate": rate,
            "step_seconds": self._times(found or 0),
            "loading": {"seconds": loading, "share": part} if part is not None else {},
            "compute": {"seconds": compute, "share": 1 - part} if part is not None else {},
        }

    def _quartiles(self, first: int, abreast: float) -> dict[str, float]:
        by_step = not self._sums.sized
        rates = sorted(
            (1 if by_step else items or 0) * 1e9 / ns * abreast
            for items, ns in self._sample.since(first)
            if ns > 0 and (by_step or items is not None)
        )
        if not rates:
            return {}
        q1, median, q3 = quartiles(rates)
        return {"median": median, "q1": q1, "q3": q3}

    def _times(self, first: int) -> dict[str, Any]:
        """How long steps took from ``first`` on: quartiles, and their course in parts."""
        times = sorted(ns / 1e9 for _, ns in self._sample.since(first))
        if not times:
            return {}
        q1, median, q3 = quartiles(times)
        length, means = self._series.parts(first, _PARTS)
        course = {"steps": length, "means": [float(f"{ns / 1e9:.4g}") for ns in means]}
        return {"median": median, "q1": q1, "q3": q3, "course": course}

    def _wall(self) -> float | None:
        """Items over all the time from the first step's beginning to the last one's end.

        Of a thread's first step whose wait for a batch was not seen, items and work are left out;
        a pause in it is not.
        """
        of, spans, unseen = self._sums, self._spans, self._unseen
        if not spans:
            return None
        begin = min(unseen[key][0] if key in unseen else span[0] for key, span in spans.items())
        ns = max(end for _, end in spans.values()) - begin
        # Those of threads that begin later lie in the time.
        out = [items for key, (_, items) in unseen.items() if spans[key][0] <= begin]
        items = of.items - sum(out) if of.sized else of.steps - len(out)
        return items * 1e9 / ns if ns > 0 and of.steps > len(out) else None

    def _first_step_seconds(self) -> float | None:
        first = self._first
        ns = None if first is None else first.busy_ns or first.compute_ns
        return None if ns is None else ns / 1e9

    def _compiled_steps(self) -> dict[str, float]:
        """The steps in which something was compiled: they are in no other figure."""
        if not self._compiled:
            return {}
        return {"steps": self._compiled, "seconds": self._compiled_ns / 1e9}

    def _left_out(self, columns: Columns) -> int:
        """How many of the steps the fixed skip leaves out."""
        if self._skip.steps is not None:
            return bisect_left(columns.number, self._skip.steps)
        began = self._first.start_ns if self._first is not None else 0
        return bisect_left(columns.start_ns, began + round((self._skip.seconds or 0) * 1e9))

    def _keep(self, columns: Columns) -> None:
        if columns.sums.timed < columns.rows or COMPILED in columns.estimated:
            timed = [row for row in zip(*columns, strict=True) if row[_BUSY] is not None]
            compiled = [row for row in timed if row[_ESTIMATED] == COMPILED]
            self._compiled += len(compiled)
            self._compiled_ns += sum(row[_BUSY] for row in compiled)
            timed = [row for row in timed if row[_ESTIMATED] != COMPILED]
            if not timed:
                return
            columns = Columns.of(timed)
        number, items, busy = columns.number, columns.items, columns.busy_ns
        self._series.extend(number, busy, items, columns.loading_ns, columns.compute_ns)  # type: ignore[arg-type]
        self._sample.extend(number, Rows(items, busy))

    def _span(self, columns: Columns, first: Step) -> None:
        if columns.thread.count(first.thread) == columns.rows:
            self._widen(first.thread, first.start_ns, columns.end_ns[-1])
            if first.busy_ns is None:
                self._begins_unseen(first)
            return
        for thread, start, end in zip(
            columns.thread, columns.start_ns, columns.end_ns, strict=True
        ):
            self._widen(thread, start, end)
        if columns.sums.timed < columns.rows:
            for step in columns.steps():
                if step.busy_ns is None:
                    self._begins_unseen(step)

    def _begins_unseen(self, step: Step) -> None:
        """Keep what is not known of a step, if it is the first of its thread."""
        thread, span = step.thread, self._spans.get(step.thread)
        if span is not None and span[0] == step.start_ns and thread not in self._unseen:
            self._unseen[thread] = (max(span[0], step.end_ns - step.pause_ns), step.items or 0)

    def _widen(self, thread: int, start: int, end: int) -> None:
        begin, _ = self._spans.get(thread, (start, end))
        if thread not in self._spans and len(self._spans) >= _THREADS:
            thread, begin = next(iter(self._spans)), self._spans[next(iter(self._spans))][0]
        self._spans[thread] = (begin, end)


class Tasks:
    """The record of every task; a sink of the step model.

    Args:
        skip: What to leave out at the beginning of each task, in place of finding its warm-up;
            None: that is found.
    """

    def __init__(self, skip: Span | None = None) -> None:
        self._skip = skip
        self.records: dict[str, TaskRecord] = {}

    def __call__(self, steps: Steps) -> None:
        """Take in steps."""
        for columns in steps.by_task():
            task = columns.task[0]
            record = self.records.get(task)
            if record is None:
                if len(self.records) >= _TASKS:
                    continue
                record = self.records[task] = TaskRecord(self._skip)
            record.add(columns, Step._make(column[0] for column in columns))

    def stepped(self) -> tuple[int, int] | None:
        """When the first step of the task that a run is about ended, and its last one."""
        records = dict(self.records)  # Others may ask while steps come in.
        most = max(records.values(), default=None, key=lambda record: record.steps)
        main = records.get(TASK, most)
        return None if main is None else main.stepped

    def section(
        self, clock_name: str = "perf_counter", losses: dict[str, Loss] | None = None
    ) -> dict[str, Any]:
        """The ``tasks`` of ``run.json``.

        Args:
            clock_name: The clock that timed the steps.
            losses: What is known of each task's loss.
        """
        tasks = {name: record.section(clock_name) for name, record in self.records.items()}
        for name, loss in (losses or {}).items():
            said = present({
                "first": loss.first, "last": loss.last, "min": loss.min,
                "not_finite": loss.not_finite or None,
            })  # fmt: skip
            tasks.setdefault(name, {})["loss"] = said
        return tasks


def present(values: dict[str, Any]) -> dict[str, Any]:
    """``values`` without what is not known, at any depth; empty sections are absent too."""
    kept = {
        key: present(value) if isinstance(value, dict) else value for key, value in values.items()
    }
    return {key: value for key, value in kept.items() if value is not None and value != {}}
