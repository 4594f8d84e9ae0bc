"""``--verify`` and ``--verify-json FILE``: collect evidence, stop the script, judge at the end."""

from __future__ import annotations

import re

from overseer.boundary import StopProgram
from overseer.errors import Problem
from overseer.model.facts import at
from overseer.recorder import recorder, table
from overseer.recorder import sites as k

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Generator
    from typing import Any

    from overseer import Overseer
    from overseer.model.fold import Fold
    from overseer.model.steps import Step

    from .checks import Evidence

#: The script is stopped after this many steps, or earlier with this many losses.
MAX_STEPS, LOSSES = 200, 20
#: Interval over which voir's own share is computed, in seconds; the first one includes start-up.
STRETCH = 0.5
_TRAIN = "train"
#: Kinds of events given by a voirfile, which the hooks alone do not see.
GIVEN_KINDS = frozenset(kind.number for kind in k.KINDS.values() if kind.given)


def instrument_verify(ov: Overseer) -> Generator[Any, Any, None]:
    """Add ``--verify``: check what voir sees of a run; exit with status 3 if a check fails."""
    yield ov.phases.init
    add = ov.argparser.add_argument
    add("--verify", action="store_true",
        help="check what voir sees; status 3 if a check fails")  # fmt: skip
    add("--verify-json", metavar="FILE", help="also write the checks to FILE; implies --verify")
    add("--verify-loss", type=float, metavar="X",
        help="with --verify: the loss must come down to X")  # fmt: skip
    yield ov.phases.parse_args
    if not (ov.options.verify or ov.options.verify_json):
        return
    from .syncs import Syncs

    witness, syncs = Witness(ov), Syncs()
    try:
        yield ov.phases.load_script
        witness.begin()
        with syncs:
            yield ov.phases.run_script(priority=1000)
    except GeneratorExit:
        raise
    except BaseException:
        pass  # The script's own exception.
    yield ov.phases.finalize(priority=-1000)
    task = ov.summary.get("tasks", {}).get(_TRAIN, {})
    ov.summary["syncs"] = syncs.facts(task)  # Used by the diagnosis.
    _judge(ov, witness)


class HooksOnly:
    """The table of sites without those of voirfiles, for a fold of the hooks alone."""

    def __len__(self) -> int:
        return len(table.rows)

    def __getitem__(self, number: Any) -> Any:
        row = table.rows[number]
        return {"kind": 0} if row["kind"] in GIVEN_KINDS else row


class Witness:
    """Collects evidence during a run, and stops the run when there is enough.

    Args:
        ov: The run.
    """

    def __init__(self, ov: Overseer) -> None:
        from overseer.model.fold import Fold
        from overseer.model.summary import Summary

        self._ov, self.measuring = ov, ov.measuring
        self.hooks = Fold(HooksOnly(), lambda step: self.seen.add([step]))  # type: ignore[arg-type]
        self.seen = Summary(self.hooks, None, self.measuring.multiplier)
        self.given = self.elsewhere = self.sizeless = 0
        #: Count of training steps by source, for marks and for pairs.
        self.told: dict[int, dict[str, int]] = {k.STEP: {}, k.PAIR: {}}
        self.own_shares: list[float] = []
        self._since = (0, 0)
        #: For each thread: whether the last model call evaluated, and whether a loss followed it.
        self._threads: dict[int, tuple[bool, bool]] = {}
        self._kinds: list[tuple[int, bool, bool]] = []
        self._keys: set[str] = set()
        self.measuring.read(self._raw)
        self.measuring.also(self._stepped)

    def begin(self) -> None:
        """Start: voirfiles have declared their keys, and the script is about to run."""
        ov = self._ov
        if self.promised:
            ov.listen(self._note)
        if getattr(ov.options, "stop", None) is None:
            self.measuring.stop_at(MAX_STEPS, None, self._reached)

    @property
    def promised(self) -> list[tuple[str, str]]:
        """Keys declared by the instruments that the user chose: instrument and key."""
        return [
            (getattr(one, "__name__", type(one).__name__), key)
            for one in self._ov.required
            if not getattr(one, "by_default", False)
            for key in getattr(one, "emits", ())
        ]

    @property
    def unkept(self) -> list[tuple[str, str]]:
        """The declared keys that were never given."""
        return [(who, key) for who, key in self.promised if key not in self._keys]

    def _note(self, event: dict[str, Any]) -> None:
        """Note the keys of an event, nested ones included."""
        for key, value in event.items() if len(self._keys) < MAX_KEYS else ():
            self._keys.add(key)
            for inner, deeper in value.items() if isinstance(value, dict) else ():
                self._keys.add(f"{key}.{inner}")
                if isinstance(deeper, dict):
                    self._keys.update(f"{key}.{name}" for name in deeper)

    def _raw(self, data: bytes) -> None:
        """Fold the hooks' events, and count the given losses that belong to evaluations.

        A loss belongs to an evaluation if the last model call was one, and no backward follows
        before the next call or batch.
        """
        from overseer.recorder.log import events

        self.hooks.feed(data)
        if len(self._kinds) < len(table.rows):
            self._kinds = [
                (row["kind"], row.get("task") in (None, _TRAIN), "batch" in row.get("keys", ()))
                for row in table.rows
            ]
        for event in events(data):
            kind, ours, batch = self._kinds[event.site]
            if kind in self.told and ours:
                source = table.rows[event.site].get("selector", "")
                self.told[kind][source] = self.told[kind].get(source, 0) + 1
                self.sizeless += batch and event.value != event.value
            if kind not in (k.LOSS, k.FORWARD, k.BACKWARD, k.LOADING):
                continue
            looked, doubtful = self._threads.get(event.thread, (False, False))
            if kind == k.BACKWARD:
                looked = doubtful = False
            elif kind != k.LOSS or ours:
                self.elsewhere, doubtful = self.elsewhere + doubtful, False
            if kind == k.FORWARD:
                looked = k.call(event.flags) != k.LEARNING
            elif kind == k.LOSS and ours:
                self.given, doubtful = self.given + 1, looked
            self._threads[event.thread] = looked, doubtful

    # Stopping

    def _reached(self) -> None:
        ov = self._ov
        ov.stopped_early = ov.stopped_early or f"after {MAX_STEPS} steps"
        ov.stop(agreed=True)

    def _stepped(self, steps: list[Step]) -> None:
        """Take finished steps, on a timer's thread: compute voir's share; maybe stop."""
        from overseer.recorder.log import header

        ov, end = self._ov, steps[-1].end
        own = ov.overhead.total_ns(header(recorder.header()).own)
        since, before = self._since
        whole = bool(since) and end - since >= STRETCH * 1e9
        if whole:
            self.own_shares.append((own - before) / (end - since))
        if whole or not since:
            self._since = end, own
        if getattr(ov.options, "stop", None) is not None:
            return
        lost = self.hooks.steps() > 2 * MAX_STEPS  # The voirfile gives few steps or none.
        fold, going = self.measuring.fold, ov.stopped_early is None
        if going and fold is not None and (lost or (whole and self._enough(fold))):
            stop, ov.stopped_early = StopProgram(fold.steps()), f"after {fold.steps()} steps"
            several = ov.recording is not None and ov.recording.several
            if not several:
                ov.stopping.request(stop)
            elif not ov.stopping.put_off(stop):  # Ranks must stop at the same step.
                ov.stopped_early = None

    def _enough(self, fold: Fold) -> bool:
        """Whether every check has its evidence."""
        train = fold.tasks.get(_TRAIN)
        if train is None or train.losses.n < LOSSES or len(self.own_shares) < 2 or self.unkept:
            return False
        waiting = ("unresolved", "never fired")
        if any(probe["state"] in waiting for probe in self._ov.probe_verdicts()):
            return False
        return at(self.measuring.facts(), f"{_TRAIN}.steady.verdict") == "steady"


#: Distinct keys that are noted.
MAX_KEYS = 4096


def _judge(ov: Overseer, witness: Witness) -> None:
    from .checks import FAIL, judge

    checks = judge(_gathered(ov, witness))
    ov.summary["verify"] = [check.as_facts() for check in checks]
    if ov.context.joins:  # The process that started this one fails for all of them.
        return
    every = _of_all(ov)
    ov.failed_checks = sum(check["verdict"] == FAIL for check in every)
    if ov.options.verify_json:
        _write(ov, every)


def _of_all(ov: Overseer) -> list[dict[str, Any]]:
    """The checks of this process and of those that it has started."""
    where = ov.recording.directory.path if ov.recording and ov.recording.joined else None
    if where is not None:
        from overseer.job.checks import checks_of
        from overseer.rundir.reading import read_run

        if checks := checks_of(read_run(where, ov.facts())):
            return checks
    own: list[dict[str, Any]] = ov.summary["verify"]
    return own


def _gathered(ov: Overseer, witness: Witness) -> Evidence:
    """The evidence of the run."""
    from ..advice import Advice
    from ..unknown import ignored
    from .checks import Evidence

    witness.hooks.finish()
    fold, advice = witness.measuring.fold, Advice(ov)
    found: dict[str, Any] = {}
    if fold is not None:
        if (
            ov.stopped_early and getattr(ov.options, "stop", None) is None
        ):  # The script made some more steps before the stop took effect.
            now = f"after {fold.steps()} steps"
            ov.stopped_early = re.sub(r"^after \d+ steps", now, ov.stopped_early)
        given = _TRAIN in {task for lane in fold.lanes.values() for task in lane.told_tasks}
        found["told_by"] = "marks" if given else fold.told_by
        if _TRAIN in fold.tasks:
            losses = fold.tasks[_TRAIN].losses
            found.update(losses=losses.n, not_finite=losses.not_finite)
        if not fold.lost:
            found["hooks"] = witness.seen.section(final=True).get(_TRAIN, {})
    rows = [row for row in table.rows if row["kind"] in (k.STEP, k.PAIR)]
    return Evidence(
        run=ov.facts(),
        batches=any("batch" in row.get("keys", ()) for row in rows),
        sizeless=witness.sizeless,
        marks=witness.told[k.STEP],
        pairs=witness.told[k.PAIR],
        given=witness.given,
        elsewhere=witness.elsewhere,
        loss_limit=ov.options.verify_loss,
        own_shares=tuple(witness.own_shares[1:]),
        promised=len(witness.promised),
        unkept=tuple(witness.unkept),
        ignored=ignored(witness.measuring.method),
        cut=ov.stopped_early is not None,
        children=ov.recording is not None and ov.recording.joined,
        line=advice.line,
        instead=advice.instead,
        **found,
    )


def _write(ov: Overseer, checks: list[dict[str, Any]]) -> None:
    import json

    facts = {
        "script": ov.options.SCRIPT or ov.options.MODULE,
        "verdict": "FAIL" if ov.failed_checks else "PASS",
        "verify": checks,
    }
    try:
        with open(ov.options.verify_json, "w", encoding="utf-8") as file:
            file.write(json.dumps(facts, indent=2) + "\n")
    except OSError as error:
        what = f"it cannot be written: {error.strerror}"
        remedy = "Name a file in a directory that exists and can be written to."
        ov.report(Problem("verify-json", ov.options.verify_json, what, remedy=remedy))
