"""The sides that ``voir compare`` is given: runs, directories of runs, tags, benches, baselines."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from string import ascii_uppercase
from typing import Any, NamedTuple, TypeVar

from ..bench import record
from ..bench.baseline import DIRECTORY
from ..bench.sides import CONTROL
from ..errors import UsageError, VoirError
from ..model.catalogue import RUN_METRICS, TASK_METRICS
from ..model.comparability import ComparedSide
from ..model.facts import at, entries, number, part
from ..rundir.differences import Difference
from ..rundir.git import is_commit, repository
from ..rundir.losses import losses_by_step
from ..rundir.reading import Metrics, Run
from .runs import facts_of, finished_run, is_run, labelled, run_directory, warn

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..model.comparison import Comparison
    from ..model.facts import Facts

T = TypeVar("T")
#: Time limit of git, for a diff.
GIT_SECONDS = 2.0
#: Runs of a side whose losses are read.
MOST_CURVES = 10


class NamedSide(NamedTuple):
    """A side as people named it.

    Attributes:
        named: What the command line, or the bench, calls it.
        side: What is compared.
        paths: The directories of its runs.
        threshold: The smallest difference to report, of its bench; None if that is not known.
    """

    named: str
    side: ComparedSide
    paths: Sequence[str]
    threshold: float | None = None


def sides_of(names: Sequence[str], baseline: str | None) -> tuple[list[NamedSide], int]:
    """The sides that a command line names, and the place of the reference among them.

    A bench stands for all of its sides.

    Args:
        names: Runs, groups of runs and benches.
        baseline: The one that the others are compared with; None: the first.

    Raises:
        VoirError: One of them is not there or cannot be read, or there is nothing to compare.
    """
    if baseline is not None and baseline not in names:
        names = [baseline, *(names or ["-1"])]
    found = [(name, one) for name in names or ["-2", "-1"] for one in _found(name)]
    if len(found) == 1 and "-1" not in names and not found[0][1].side.bench:
        found += [("-1", one) for one in _found("-1")]
    every = [one for _, one in found]
    if len(every) < 2:
        what = f"{every[0].named} alone has nothing to be compared with"
        raise UsageError("usage", what, "Name another run.")
    return _lettered(every), next(
        at for at, (name, _) in enumerate(found) if baseline in (None, name)
    )


def between_commits(
    sides: Sequence[Sequence[Facts]],
    found: Comparison,
    diff: Callable[[Path, Sequence[str], Mapping[str, str], float], T],
) -> list[T | None]:
    """The diff from the reference's commit to that of each side, by the current directory's git.

    Not that of a directory that a record names: it may be another user's.

    Args:
        sides: The facts of the runs of each side that is no control.
        found: Their comparison.
        diff: Asks git: the repository, two commits, the environment, seconds.

    Returns:
        None for a side of the same commit, or of none or several.
    """
    commits = [{str(at(run, "provenance.git.sha")) for run in side} for side in sides]
    ones = [each.pop() if len(each) == 1 else "" for each in commits]
    first = ones[found.plain.index(found.sides[found.reference])]
    top = repository(Path.cwd())
    return [
        diff(top, (first, one), os.environ, GIT_SECONDS)
        if top is not None and one != first and is_commit(first) and is_commit(one)
        else None
        for one in ones
    ]


def commits_differ(sizes: Sequence[str | None]) -> list[Difference]:
    """The sizes of the diffs of :func:`between_commits` as a difference, if there is one."""
    return [Difference("code", "git.diff", [it or "-" for it in sizes])] if any(sizes) else []


def _lettered(every: Sequence[NamedSide]) -> list[NamedSide]:
    """The sides, named A, B, ...; a control as the side that it repeats: A2."""
    made = list[NamedSide]()
    letters, first = iter(ascii_uppercase), dict[str, str]()
    for place, one in enumerate(every):
        bench = one.side.bench
        control = one.side.control and bench in first  # Without its reference it is any side.
        name = f"{first[bench]}2" if control else next(letters, f"S{place + 1}")
        first.setdefault(bench, name)
        made.append(one._replace(side=one.side._replace(name=name, control=control)))
    return made


def _found(named: str) -> Iterator[NamedSide]:
    """The sides of one name."""
    for path in (Path(named, record.FILE), Path(named), Path(DIRECTORY, f"{named}.json")):
        if path.suffix == ".json" and path.name != "run.json" and path.is_file():
            yield from _of_bench(named, path)
            return
    runs = [finished_run(run) for path in named.split(",") if path for run in _repeats(path)]
    if not runs:
        raise UsageError("usage", "voir compare: a side names no run", "Name run directories.")
    yield _side(named, runs)


def _side(named: str, runs: Sequence[Run], **more: Any) -> NamedSide:
    losses = [losses_by_step(run, warn) for run in runs[:MOST_CURVES]]
    side = ComparedSide("", [facts_of(run) for run in runs], losses=losses, **more)
    paths = [str(run.path) for run in runs]
    return NamedSide(named if len(paths) > 1 or side.bench else paths[0], side, paths)


def _repeats(named: str) -> list[Path]:
    """The runs in a directory of runs, or else the named run."""
    inside = sorted(file.parent for file in Path(named).glob("*/run.json"))
    ranks = any(directory.name.startswith("rank") for directory in inside)
    held = inside and not ranks and not (Path(named) / "run.json").exists()
    if not held and not Path(named).exists():
        with suppress(VoirError):  # A tag names all of its runs; -2 is not one.
            return labelled(named)
    return inside if held else [run_directory(named)]


# Benches


def _of_bench(named: str, path: Path) -> Iterator[NamedSide]:
    """The sides of a bench, with the processes that count.

    Rounds count in which no process failed, and that were not repeated; round 0 warms up. Of runs
    that are no longer there, as those of a stored baseline, only the bench's metric is known.
    """
    facts = record.read(path)
    every, counted = (
        [each for each in entries(facts, "processes") if record.round_of(each)],
        record.counted(facts),
    )
    known = {str(side.get("name")): side for side in entries(facts, "sides")}
    if not any("run" in each for each in counted):
        what = f"{path}: none of its rounds counts: it was ended early, or a process of each failed"
        raise UsageError("usage", what, "Name another bench.")
    for name in dict.fromkeys([*known, *(str(each.get("side")) for each in every)]):
        own = [each for each in every if str(each.get("side")) == name]
        kept = [each for each in counted if str(each.get("side")) == name]
        runs = [
            (run, each) for each in kept if (run := _run(path.parent, each, part(facts, "metric")))
        ]
        if not runs:
            continue
        about, notes = known.get(name, {}), []
        if len(runs) < len(own):
            notes.append(f"{len(own) - len(runs)} of {len(own)} processes are not counted")
        if bad := sum(bool(each.get("disturbed")) for _, each in runs):
            notes.append(f"{bad} of {len(runs)} processes were disturbed")
        made = _side(
            f"{about.get('label') or ('control' if name == CONTROL else name)} · {named}",
            [run for run, _ in runs],
            bench=str(path.resolve()),
            rounds=[record.round_of(each) for _, each in runs],
            control=name == CONTROL or bool(about.get("control")),
            notes=[*notes, *_verdict_of(facts, name)],
        )
        yield made._replace(threshold=number(facts, "threshold"))


def _verdict_of(bench: Facts, side: str) -> Iterator[str]:
    """What a bench said of a side, if its metric is no rate, by which sides are compared."""
    key = str(part(bench, "metric").get("key"))
    whole = part(bench, "verdict")
    for said in entries(whole, "verdicts") or [whole]:
        if said.get("side") == side and ".rate." not in key:
            yield f"the bench judged {key}: {said.get('verdict')}, {said.get('why')}"


def _run(bench: Path, process: Facts, metric: Facts) -> Run | None:
    """The run of a process; one with the bench's metric alone if it is not there."""
    directory = bench / str(process.get("run"))
    try:
        if is_run(directory):
            return finished_run(directory)
    except OSError:  # It is too long for a file's name.
        return None
    key, value = str(metric.get("key")), number(process, "value")
    if value is None:
        return None
    task, _, path = key.partition(".")
    kept = {
        name: process[name] for name in ("started", "seconds", "exit_status") if name in process
    }
    facts: dict[str, Any] = {**kept, "ended": process.get("started")}
    if path in TASK_METRICS:
        unit = str(metric.get("unit", "")).removesuffix("/s")
        facts["tasks"] = {task: {"units": unit, **_nested(path, value)}}
    elif key in RUN_METRICS:
        facts |= _nested(key, value)
    return Run(directory, facts, Metrics(directory / "metrics.jsonl"))


def _nested(path: str, value: float) -> dict[str, Any]:
    key, _, rest = path.partition(".")
    return {key: _nested(rest, value) if rest else value}
