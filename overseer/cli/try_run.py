"""Runs the bench of ``voir try``, and judges the change by it."""

from __future__ import annotations

import json
import shlex
from collections.abc import Generator
from contextlib import ExitStack, suppress
from typing import Any

from ..bench import judging, metric
from ..bench.experiment import FEWEST
from ..bench.judging import Verdict
from ..bench.process import Ended
from ..bench.same_work import EVIDENCE, OtherWork, Work, differences, work_of
from ..bench.sides import CONTROL, Side
from ..bench.trial import ACCEPT, Trial, judged_trial
from ..errors import VoirError, clean
from ..model.facts import change, figure
from ..rundir.reading import read_run
from .bench_run import BenchRun
from .runs import facts_of, warn

#: The format of ``voir try --json``.
TRIAL_SCHEMA = 1
#: Counts of the work that are printed.
_SHOWN = 4


class TryRun(BenchRun):
    """A bench of two sides, the second of which is a change to judge."""

    def _measured(self, undo: ExitStack) -> Generator[str]:
        """Run the processes, but end after a few rounds if the work is not the same."""
        running, checked = super()._measured(undo), False
        for said in running:
            if not self._options.json:
                yield said
            if not checked and len(self._experiment.processes_of("B")) == FEWEST:
                checked = True
                if any(each.sure for each in self._differences(self._works(), exact=True)):
                    running.close()

    def _execute(self, side: Side, run: str) -> Ended:
        if self._options.seed:
            added = (f"--{self._options.seed.lstrip('-')}", str(int(run.rpartition("/")[2])))
            side = side._replace(command=(*side.command, *added))
        return super()._execute(side, run)

    def _concluded(self) -> Generator[str, None, int]:
        (verdict,) = self._verdicts()
        works = self._works()
        different = self._differences(works) or self._failure(verdict)
        trial = judged_trial(verdict, different, self._spread())
        more = self._advice(trial, verdict, different)
        facts = self._trial_facts(trial, verdict, different, more)
        self._write({**self._facts_of(verdict, [verdict]), "status": trial.status, "trial": facts})
        if self._options.json:
            yield json.dumps(facts, indent=2) + "\n"
            return trial.status
        said = [("" if index else trial.verdict, why) for index, why in enumerate(trial.why)]
        if self._options.name:
            said.append(("", f"the change: {self._options.name}"))
        if works["A"] and not different:
            said.append(("", f"the same work: {_listed(works['A'][-1])}"))
        yield from self._summary(said, verdict, more)
        return trial.status

    def _works(self) -> dict[str, list[Work]]:
        """What the processes of each side did, of those that count."""
        found: dict[str, list[Work]] = {"A": [], "B": [], CONTROL: []}
        for each in self._experiment.counted():
            with suppress(VoirError):
                run = read_run(self._directory / each.run)
                found[each.side].append(work_of(run, facts_of(run), warn))
        return found

    def _differences(self, works: dict[str, list[Work]], exact: bool = False) -> list[OtherWork]:
        learned = metric.learned(self._experiment.metric.key)
        return differences([*works["A"], *works[CONTROL]], works["B"], learned, exact)

    def _failure(self, verdict: Verdict) -> list[OtherWork]:
        """The difference if only the change fails."""
        failed = [each for each in self._experiment.processes if each.failed]
        if verdict.verdict != judging.UNMEASURED or {each.side for each in failed} != {"B"}:
            return []
        return [OtherWork("exit status", 0, failed[-1].exit_status, verdict.why)]

    def _spread(self) -> bool:
        """Whether the reference's processes tell the noise of the metric."""
        experiment = self._experiment
        return not metric.learned(experiment.metric.key) or len(set(experiment.values())) > 1

    def _advice(self, trial: Trial, verdict: Verdict, different: list[OtherWork]) -> list[str]:
        if trial.verdict == ACCEPT:
            return [f"git commit -am {shlex.quote(self._options.name or 'faster')}"]
        if trial.verdict == judging.INCONCLUSIVE and verdict.verdict == judging.IMPROVEMENT:
            if any(each.what == EVIDENCE for each in different):
                return ["log a loss or a result: from voir import give; give(loss=loss)"]
            return ["--seed OPTION gives each round another seed"]
        if different:
            return [f"voir compare {clean(self._directory)}"]
        return self._next(verdict)

    def _doubts(self, whole: Verdict) -> Generator[str]:
        yield from super()._doubts(whole)
        experiment = self._experiment
        if whole.verdict != judging.IMPROVEMENT or experiment.metric.key == metric.WALL:
            return
        took = experiment.change(self._sides[1], key=metric.WALL)
        slower = judging.judged(took, "down", self._options.threshold)
        if slower.verdict == judging.REGRESSION and slower.ratio is not None:
            yield f"whole processes take {change(slower.ratio)}: the time may only have moved"

    def _trial_facts(
        self, trial: Trial, verdict: Verdict, different: list[OtherWork], more: list[str]
    ) -> dict[str, Any]:
        """The output of ``--json``; what is unknown is null."""
        return {
            "schema": TRIAL_SCHEMA, "verdict": trial.verdict, "status": trial.status,
            "change": self._options.name, "why": [*trial.why],
            "metric": self._experiment.metric.as_facts(), "threshold": self._options.threshold,
            "ratio": verdict.ratio, "interval": verdict.interval, "pairs": verdict.n,
            "work": [each._asdict() for each in different],
            "doubts": [*self._doubts(verdict), *self._notes], "next": more,
            "directory": str(self._directory),
        }  # fmt: skip


def _listed(work: Work) -> str:
    found = [f"{name} {figure(n)}" for name, n in work.counts.items()]
    return ", ".join(found[:_SHOWN]) or "nothing is recorded of it"
