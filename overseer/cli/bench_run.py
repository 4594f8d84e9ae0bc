"""Runs one bench, shows it as it goes, and records it."""

from __future__ import annotations

import os
from argparse import Namespace
from collections.abc import Generator
from contextlib import ExitStack, suppress
from datetime import UTC, datetime
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

from ..bench import baseline, judging, record
from ..bench.experiment import Experiment, Limits
from ..bench.judging import Verdict
from ..bench.metric import Process
from ..bench.process import Ended, Interrupts, claim, command, tail
from ..bench.record import Measured
from ..bench.sides import CONTROL, Side
from ..bench.worktrees import HERE, Worktrees
from ..errors import VoirError, clean
from ..model.comparability import ComparedSide, doubts
from ..model.facts import number
from ..rundir.reading import read_run
from ..views.bench import SideFigures, conclusion, line, sides_table, text_of
from .commands import INTERRUPTED, Terminal
from .runs import facts_of

#: Half the width of the interval of one side that ends a bench.
UNTIL = 0.01


class BenchRun:
    """One bench of the command line: runs it, shows it, records it.

    Args:
        options: Those of the command line.
        argv: The command line.
        compared: The sides.
        trees: The worktrees of commits; None without any.
        directory: The bench's directory.
        terminal: The output's.
    """

    def __init__(
        self, options: Namespace, argv: list[str], compared: list[Side], trees: Worktrees | None,
        directory: Path, terminal: Terminal,
    ) -> None:  # fmt: skip
        self._options, self._argv, self._trees = options, argv, trees
        self._directory, self._terminal = directory, terminal
        self._notes = list[str]()
        self._started = datetime.now(UTC).isoformat()
        self._interrupts = Interrupts(_terminated)
        until = options.until or (UNTIL if len(compared) == 1 else None)
        self._base = baseline.read(options.baseline) if options.baseline else None
        self._interrupted = False
        self._experiment = Experiment(
            compared, Limits(options.runs, until, options.max_time), options.threshold,
            options.metric, self._execute, self._read, self._swap, better=options.better or "",
        )  # fmt: skip
        self._until, self._sides = until, compared

    def run(self, undo: ExitStack) -> Generator[str, None, int]:
        """Run it; yield the output, return the exit status."""
        yield from self._measured(undo)
        return (yield from self._concluded())

    def _measured(self, undo: ExitStack) -> Generator[str]:
        """Run the processes; yield a line for each."""
        self._prepare(undo)
        from .progress import ProgressBar

        experiment, options = self._experiment, self._options
        yield f"bench {clean(self._directory)}\n"
        for side in self._sides if len(self._sides) > 1 else []:
            yield f"  {side.name:<9} {clean(side.label)}\n"
        try:
            with self._interrupts, ProgressBar(options.runs) as progress:
                for done in experiment.run():
                    self._write()
                    shown = self._line(done)
                    progress.clear()
                    yield shown
                    progress.show(done.round, self._so_far())
                    if done.round and self._unlike_base(done):
                        break  # More rounds would tell nothing.
        except KeyboardInterrupt:
            self._notes.append("interrupted: only what had ended counts")
            self._interrupted = True

    def _unlike_base(self, done: Measured) -> bool:
        base, found = self._base, self._experiment.metric
        return bool(base and not done.failed and baseline.is_of_another_metric(base, found))

    def _concluded(self) -> Generator[str, None, int]:
        """Record and show the verdict; return the exit status."""
        verdicts = self._verdicts()
        whole = judging.overall(verdicts)
        status = judging.status(whole, self._options.fail_on == "difference")
        if self._interrupted and whole.verdict == judging.UNMEASURED:
            status = INTERRUPTED
        self._write({**self._facts_of(whole, verdicts), "status": status})
        several = len(verdicts) > 1
        said = [(f"{one.side}: {one.verdict}" if several else one.verdict, self._why(one))
            for one in verdicts]  # fmt: skip
        yield from self._summary(said, whole, self._next(whole))
        return status

    def _prepare(self, undo: ExitStack) -> None:
        release = claim()
        if release is None:
            self._notes.append("another bench runs on this machine: each disturbs the other")
        else:
            undo.callback(release)
        refs = [side.ref for side in self._sides]
        if self._trees and HERE not in refs and self._trees.dirty():
            self._notes.append("uncommitted changes are on no side: --ref . compares them")
        for side in self._sides:
            (self._directory / side.name).mkdir(parents=True, exist_ok=True)
            if self._trees:
                self._trees.add(side.name, side.sha)
        if len(self._sides) > 1:
            (self._directory / CONTROL).mkdir(exist_ok=True)
            if self._trees:
                self._trees.add(CONTROL, self._sides[0].sha)

    # What the experiment calls

    def _execute(self, side: Side, run: str) -> Ended:
        where = self._trees.directory(side.name) if self._trees else Path.cwd()
        stop = ["--stop", str(self._options.steps)] if self._options.steps else []
        path = (self._directory / run).absolute()
        try:
            line, output = command(side, path, stop), path.with_suffix(".out")
            return self._interrupts.execute(line, side, where, output)
        except OSError as error:
            what = f"voir bench: {error.filename or side.python}: {error.strerror}"
            raise VoirError("record-unwritable", what, "Free or choose another disk.") from None

    def _read(self, run: str, seconds: float) -> Process:
        path = self._directory / run
        facts: dict[str, Any] = {}
        with suppress(VoirError):
            facts = facts_of(read_run(path))
        return Process(facts, seconds, partial(_given, path))

    def _swap(self) -> None:
        if self._trees and len(self._sides) > 1:
            self._trees.swap(self._sides[0].name, self._sides[1].name)

    # What is shown

    def _line(self, done: Measured) -> str:
        experiment = self._experiment
        value = experiment.value(done)
        shown = "" if value is None else text_of(value, experiment.metric.unit)
        notes = list(done.disturbed)
        if done.failed:
            notes.append(f"exit status {done.exit_status}")
        if not done.round:
            notes.append("warm-up, not counted")
        if done.repeats:
            notes.append(f"repeats round {done.repeats}")
        said = line(done.side, done.round, done.seconds, shown, notes)
        if done.failed:
            output = tail((self._directory / done.run).with_suffix(".out"))
            said += "".join(f"        {clean(each)}\n" for each in output.splitlines()[-20:])
        return said

    def _so_far(self) -> str:
        experiment = self._experiment
        if len(self._sides) == 1:
            return judging.measured(experiment.values(), None).why
        found = experiment.change(self._sides[1])
        return judging.judged(found, "", 0.0).why.partition(":")[0] if found.interval else ""

    def _verdicts(self) -> list[Verdict]:
        found = self._experiment.verdicts()
        if getattr(self._options, "own_cost", False):  # A figure, and no version of the script.
            differ = (judging.REGRESSION, judging.IMPROVEMENT)
            found = [one._replace(verdict=judging.MEASURED) if one.verdict in differ else one
                for one in found]  # fmt: skip
        if self._base is None or found[0].verdict == judging.UNMEASURED:
            return found
        chosen, options = self._experiment.metric, self._options
        return [baseline.judged(self._base, chosen, self._experiment.values(), options.threshold)]

    def _summary(
        self, said: list[tuple[str, str]], whole: Verdict, more: list[str]
    ) -> Generator[str]:
        """The table of sides, and the verdicts with their reasons and next commands."""
        experiment, options = self._experiment, self._options
        if whole.verdict != judging.UNMEASURED:
            yield "\n" + sides_table(self._figures(), experiment.metric.unit, self._terminal.width)
        better = {"up": ", more is better", "down": ", less is better"}
        chosen = experiment.metric
        rules = f"{chosen.key}{better.get(chosen.better, '')}; 95 % intervals over {whole.over}"
        if whole.verdict == judging.UNMEASURED:
            rules = ""
        elif len(self._sides) > 1 or self._base:
            rules += f"; less than {judging.percent(options.threshold)} is no difference"
        notes = [*self._doubts(whole), *self._notes]
        yield "\n" + conclusion(said, rules, notes, more, *self._terminal[:2])

    def _why(self, one: Verdict) -> str:
        if one.ratio is None:
            return one.why
        against = f"{one.side} against A" if one.side else "A against the baseline"
        return f"{against}: {one.why}"

    def _figures(self) -> list[SideFigures]:
        experiment = self._experiment
        found = list[SideFigures]()
        for side in self._sides:
            change = experiment.change(side) if found else None
            ratio, interval = (change.ratio, change.interval) if change else (None, None)
            values = experiment.values(side.name)
            found.append(SideFigures(side.name, side.label, values, ratio, interval))
        control = experiment.control
        if control is not None:
            values = experiment.values(CONTROL)
            label = "A again"
            found.append(SideFigures(CONTROL, label, values, control.ratio, control.interval))
        return found

    def _doubts(self, whole: Verdict) -> Generator[str]:
        experiment = self._experiment
        if whole.verdict == judging.UNMEASURED:
            yield from self._hints()
            return
        if experiment.metric.note:
            yield experiment.metric.note
        for each in experiment.processes:
            if each.failed:
                yield f"{each.run} ended with exit status {each.exit_status}, and does not count"
        bad = [each for each in experiment.processes if each.disturbed and each.round]
        again = {each.repeats: each.round for each in experiment.processes if each.repeats}
        if bad:
            rounds = dict.fromkeys(each.round for each in bad)
            named = ", ".join(f"{n} (again: {again[n]})" if n in again else str(n) for n in rounds)
            why = max((each.disturbed[0] for each in bad), key=len)
            yield f"disturbed rounds: {named}; for example, {why}. Those run again do not count"
        runs = {side.name: [each.facts for each in experiment.processes_of(side.name)]
            for side in self._sides}  # fmt: skip
        if all(facts for each in runs.values() for facts in each):  # Not of plain python.
            rounds_of = {name: range(len(each)) for name, each in runs.items()}
            sides = [ComparedSide(name, each, str(self._directory), rounds_of[name])
                for name, each in runs.items()]  # fmt: skip
            yield from (each for each in doubts(sides) if "other programs" not in each)
        if self._base is not None:
            yield from baseline.doubts(self._base)

    def _hints(self) -> Generator[str]:
        experiment, asked = self._experiment, self._options.metric
        last = experiment.processes[-1] if experiment.processes else None
        if last is None:
            return
        if last.failed and self._trees:
            lacks = self._trees.missing()
            named = f": {', '.join(lacks[:5])}" if lacks else ""
            yield f"a worktree has committed files only{named}; --link PATH adds an untracked one"
        if last.failed and "EOFError" in tail((self._directory / last.run).with_suffix(".out")):
            yield "stdin is empty in a bench"
        if asked and not last.failed and experiment.value(last) is None:
            known = experiment.known()
            near = get_close_matches(asked, known, n=3, cutoff=0.4)
            listed = dict.fromkeys([*near, *known])
            yield f"the last process has {', '.join([*listed][:12])}"

    def _next(self, whole: Verdict) -> list[str]:
        path = clean(os.path.relpath(self._directory))
        if whole.verdict == judging.UNMEASURED:
            failed = [each.run for each in self._experiment.processes if each.failed]
            return [f"read its output: {path}/{failed[-1]}.out"] if failed else []
        if whole.more and self._options.runs < judging.MANY:
            return [f"--runs {self._options.runs + whole.more}"]
        if whole.verdict == judging.INCONCLUSIVE and whole.tells and not whole.more:
            return [f"--threshold {judging.percent(whole.tells).replace(' ', '')}"]
        return [f"voir compare {path}"] if len(self._sides) > 1 else []

    # The record

    def _facts_of(self, whole: Verdict, verdicts: list[Verdict]) -> dict[str, Any]:
        experiment = self._experiment
        control = experiment.control if len(self._sides) > 1 else None
        facts = {
            "schema": record.BENCH_SCHEMA, **whole.as_facts(),
            "metric": experiment.metric.as_facts(),
            "threshold": self._options.threshold, "directory": str(self._directory),
            "sides": [side.name for side in self._sides],
        }  # fmt: skip
        if control is not None:
            facts["control"] = {"ratio": control.ratio, "interval": control.interval,
                "pairs": control.n}  # fmt: skip
        if len(verdicts) > 1:
            facts["verdicts"] = [each.as_facts() for each in verdicts]
        return facts

    def _write(self, verdict: dict[str, Any] | None = None) -> None:
        """Replace bench.json; with a verdict, also the file of ``--verdict``."""
        experiment, options = self._experiment, self._options
        key = experiment.metric.key
        processes = [each._replace(value=experiment.value(each, key))
            for each in experiment.processes]  # fmt: skip
        facts = {
            "schema": record.BENCH_SCHEMA, **({"name": options.name} if options.name else {}),
            "started": self._started, "argv": self._argv,
            "metric": experiment.metric.as_facts(), "threshold": options.threshold,
            "until": self._until, "sides": [side.as_facts() for side in self._sides],
            "processes": [each.as_facts() for each in processes],
        }  # fmt: skip
        if verdict is not None:
            facts |= {"ended": datetime.now(UTC).isoformat(), "verdict": verdict}
        try:
            record.write(self._directory, facts)
            if verdict is not None and options.verdict:
                path = Path(options.verdict)
                record.write(path.parent, verdict, path.name)
            if verdict is not None and options.save_baseline:
                baseline.save(options.save_baseline, facts)
        except OSError as error:
            what = f"{error.filename or self._directory}: {error.strerror}"
            self._notes = [*self._notes, f"not everything is recorded: {what}"][-5:]


def _terminated(signum: int, frame: object) -> NoReturn:
    """Leave by an exception on SIGTERM, so that worktrees are removed."""
    raise SystemExit(128 + signum)


def _given(path: Path, key: str) -> Generator[float]:
    """The values of a given key, in order."""
    for event in read_run(path).metrics:
        found = number(event, key)
        if found is not None:
            yield found
