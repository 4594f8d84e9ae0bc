"""The figures of a job, in the form of ``run.json``, from the records of its processes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ..errors import VoirError
from ..model.diagnosis import diagnose
from ..model.facts import at, entries, main_task, number, ordered, part, wall_seconds
from ..recorder.sites import PARTS
from ..rundir.reading import OF_PROCESS, Run
from .checks import checks_of
from .divergence import Divergence, divergence
from .idle import idle_ranks
from .members import (
    MemberSteps,
    index_of,
    main_task_of,
    members_of,
    same_losses,
    steps_of_members,
    why_failed,
)
from .stages import batches_of, pipeline_of, places_of, straggler_in
from .straggler import CONSTANT, examine
from .verdict import described, verdict

#: Problems and names of ranks that are kept of a job.
MOST_PROBLEMS = 200
#: Facts that a job has from its first process.
_OF_FIRST = (
    "schema", "name", "tags", "argv", "script", "voirfiles", "world_size", "version", "app",
    "provenance", "stopped_early", "progress", "values", "loader_workers",
    "instruments",
)  # fmt: skip
#: States of a probe: of several ranks the first of these counts.
_PROBED = ("fired", "compiled away", "never fired", "unresolved")
#: Why the items of ranks do not add up.
UNTOLD = "nothing tells whether the ranks see different batches: ov.data_parallel(index, size)"


def job_facts(run: Run, report: Callable[[VoirError], object] = bool) -> dict[str, Any]:
    """The facts of a whole job; of a run in one process, its own.

    The keys are those of ``run.json``, and:

    - ``job``: ``ranks`` (the number of processes with a record), ``kind`` (``process`` if they are
      no ranks), ``world_size``, ``missing`` ranks, ``hosts``, ``attempt``, the ``earlier`` ones
      (``attempt``, ``ranks``, ``steps``, ``why``), ``versions`` if they differ, ``parallel`` (the
      number of different batches at a time, and ``by`` what it is known), ``failed`` (the processes
      that failed, the first one first: ``rank``, ``why``), ``running``, and ``idle``, see
      :func:`~overseer.job.idle.idle_ranks`.
    - in a task, ``ranks``: the least and the greatest ``rate`` and number of ``steps`` of a rank,
      the ``slowest`` rank and the ``waiting`` of the least and the most waiting one, as shares of
      their steps; of the main task also ``together``, the share of time in which all ranks wait at
      once, and ``each``: see :class:`~overseer.job.straggler.RankLateness`. Stages of a pipeline
      have no ``each``, as they differ by design.
    - in the ``loss`` of a task, the ``rank`` whose loss it is: the first one that has any.
    - in the main task of a pipeline, ``pipeline``: see
      :func:`~overseer.job.stages.pipeline_of`.
    - in the main task, ``straggler``: see :class:`~overseer.job.straggler.Straggler`.
    - in a problem, ``ranks``: those that have it, unless all do.
    - in a check, the ``rank`` that made it, see :func:`~overseer.job.checks.checks_of`.

    Items per second of ranks that see different batches add up; those of ranks that see the same
    one count once; if that is unknown, so is the job's rate.

    Args:
        run: The job.
        report: Receives the errors of damaged steps files, which are left out.
    """
    members = members_of(run)
    if len(members) < 2 and not (members and _missing(run)):
        checks = {"verify": made} if run.starter is not None and (made := checks_of(run)) else {}
        return {**(members[0].facts if members else run.facts), **checks}
    every = [member.facts for member in members]
    main = main_task_of(members)
    steps = steps_of_members(members, main, report) if main else []
    groups, by = _groups(members, steps)
    found, together, lateness = examine([each.of for each in steps])
    places = places_of(members)
    if places and found is not None and found.kind == CONSTANT:  # Stages differ by design.
        found = straggler_in(places, [each.of for each in steps])
    tasks = {}
    for name in ordered({name: None for facts in every for name in part(facts, "tasks")}):
        those = [(m, part(m.facts, "tasks", name)) for m in members if part(m.facts, "tasks", name)]
        seen = {m.path: groups[at] for at, m in enumerate(members)} if groups is not None else None
        tasks[name] = _task(those, seen)
    if main is not None and found is not None:
        told = found.as_facts()
        tasks[main]["straggler"] = {**told, "why": described(told, kind_of(members))}
    if main is not None and places:
        tasks[main]["pipeline"] = pipeline_of(members, main)
    if main is not None and together is not None:
        tasks[main]["ranks"].setdefault("waiting", {})["together"] = together
    if main is not None and not places and lateness:
        tasks[main]["ranks"]["each"] = [_known(each._asdict()) for each in lateness]
    first = every[0]
    facts: dict[str, Any] = {key: first[key] for key in _OF_FIRST if key in first}
    facts["started"] = min(filter(None, (each.get("started") for each in every)), default=None)
    if all("ended" in each for each in every):
        facts["ended"] = max(str(each["ended"]) for each in every)
    whole = [*every, *([run.starter.facts] if run.starter is not None else [])]
    facts["seconds"] = max((number(each, "seconds") or 0.0 for each in whole), default=0.0)
    facts |= _outcome(members, run.starter)
    facts["tasks"] = tasks
    facts["problems"] = _problems(members)
    facts["verify"] = checks_of(run)
    facts["host"], facts["probes"] = _host(run, every), _probes(every)
    devices = [device for each in every for device in entries(each, "devices")]
    named = {str(one.get("uuid", number)): one for number, one in enumerate(devices)}
    facts["devices"] = [*named.values()]
    facts["overhead"] = max(
        (part(each, "overhead") for each in every),
        key=lambda each: number(each, "share") or 0.0,
    )
    facts["job"] = _job(run, members, groups, by)
    if (parted := _parted(facts["job"], members)) is not None:
        facts["job"]["divergence"] = parted.as_facts()
    facts["diagnosis"] = verdict(facts) or _diagnosed(facts)
    return {key: value for key, value in facts.items() if value not in (None, [], {})}


def _diagnosed(facts: Mapping[str, Any]) -> dict[str, Any] | None:
    found = diagnose(facts)
    return found.as_facts() if found is not None else None


# Which ranks see the same batch


def _groups(
    members: Sequence[Run], steps: Sequence[MemberSteps]
) -> tuple[dict[int, int] | None, str]:
    """For each process, by its place in ``members``, the batch that it sees; and what tells.

    None if that is unknown.
    """
    told = {at: index_of(member) for at, member in enumerate(members)}
    if all(index is not None for index in told.values()):
        by = {str(part(member.facts, "parallel").get("by")) for member in members}
        return {at: index for at, index in told.items() if index is not None}, ", ".join(sorted(by))
    if (batches := batches_of(members)) is not None:
        return batches, "pipeline"
    same = same_losses(list(steps)) if len(steps) > 1 else None
    if same is None:
        return None, ""
    return {
        at: 0 if same else at for at in told
    }, f"their losses are {'equal' if same else 'unlike'}"


# Tasks


def _task(
    those: list[tuple[Run, Mapping[str, Any]]], groups: Mapping[Path, int] | None
) -> dict[str, Any]:
    """A task of the job, from that of each process that has it.

    Args:
        those: The processes and their tasks.
        groups: The batch that each process sees, by its directory.
    """
    tasks = [task for _, task in those]
    first = tasks[0]
    one_each: list[Mapping[str, Any]] | None = None
    if groups is not None:
        seen: dict[int, Mapping[str, Any]] = {}
        for member, task in those:
            seen.setdefault(groups[member.path], task)
        one_each = [*seen.values()]
    made: dict[str, Any] = {
        "steps": _most(tasks, "steps"),
        "units": first.get("units"),
        "items_unknown": first.get("items_unknown"),
        "first_step_seconds": _most(tasks, "first_step_seconds"),
        "compiled": first.get("compiled"),
        "rate": _rate(tasks, one_each),
        "step_seconds": {
            key: _most(tasks, f"step_seconds.{key}") for key in ("median", "p95", "p99", "max")
        },
        "steady": _steady(tasks),
        "loading": _split(tasks, "loading"),
        "compute": _split(tasks, "compute"),
        "breakdown": {name: _mean(tasks, f"breakdown.{name}") for name in PARTS},
        "pause": max(tasks, key=lambda task: number(task, "pause.seconds") or 0.0).get("pause"),
        "loss": next(
            ({**part(task, "loss"), "rank": m.rank} for m, task in those if task.get("loss")), None
        ),
        "ranks": _range(those),
    }
    if one_each is not None:
        made["items"] = _sum(one_each, "items")
    elif first.get("items") is not None:
        made["items_unknown"] = UNTOLD
        made["units"] = "items"
    return _known(made)


def _known(made: dict[str, Any]) -> dict[str, Any]:
    """The values that are known."""
    inner = {
        key: {k: v for k, v in value.items() if v is not None} if isinstance(value, dict) else value
        for key, value in made.items()
    }
    return {key: value for key, value in inner.items() if value not in (None, {})}


def _rate(
    tasks: list[Mapping[str, Any]], one_each: list[Mapping[str, Any]] | None
) -> dict[str, Any]:
    """The job's rate: the sum over different batches; None if these are unknown.

    The overall rate is that of all items, in the time of the rank that trained longest.
    """
    made: dict[str, Any] = {
        "n": min((n for task in tasks if (n := number(task, "rate.n")) is not None), default=None),
        "skipped": _most(tasks, "rate.skipped"),
        "clock": at(tasks[0], "rate.clock"),
    }
    for key in ("steady", "median"):
        made[key] = _sum(one_each, f"rate.{key}") if one_each is not None else None
    items = _sum(one_each, "items") if one_each is not None else None
    seconds = max((each for task in tasks if (each := wall_seconds(task))), default=None)
    made["wall"] = items / seconds if items and seconds else None
    return made


def _steady(tasks: list[Mapping[str, Any]]) -> dict[str, Any]:
    """The latest rank decides: the job is steady from its step on, and only if all ranks are."""
    verdicts = [str(at(task, "steady.verdict")) for task in tasks]
    unlike = next((v for v in verdicts if v != "steady"), "steady")
    known = unlike if at(tasks[0], "steady.verdict") is not None else None
    return {"verdict": known, "from_step": _most(tasks, "steady.from_step")}


def _split(tasks: list[Mapping[str, Any]], name: str) -> dict[str, Any]:
    return {key: _mean(tasks, f"{name}.{key}") for key in ("seconds", "share")}


def _range(those: list[tuple[Run, Mapping[str, Any]]]) -> dict[str, Any] | None:
    """The range of steps, rates and waiting over the ranks: steady rates only if all have one."""
    steady = all(number(task, "rate.steady") is not None for _, task in those)
    path = "rate.steady" if steady else "rate.wall"
    rates = [
        (rate, member.rank) for member, task in those if (rate := number(task, path)) is not None
    ]
    waiting = [share for _, task in those if (share := waiting_share(task)) is not None]
    made: dict[str, Any] = {"n": len(those)}
    if steps := [n for _, task in those if (n := number(task, "steps")) is not None]:
        made["steps"] = {"min": int(min(steps)), "max": int(max(steps))}
    if rates:
        made["rate"] = {"min": min(rates)[0], "max": max(rates)[0]}
        made["slowest"] = min(rates)[1]
    if waiting:
        made["waiting"] = {"min": min(waiting), "max": max(waiting)}
    return made


def waiting_share(task: Mapping[str, Any]) -> float | None:
    """The share of a task's steps in which its process waited for others."""
    parts = [number(task, f"breakdown.{name}") or 0.0 for name in PARTS]
    waits = number(task, "breakdown.communication")
    return waits / sum(parts) if waits is not None and sum(parts) > 0 else None


def _numbers(tasks: Iterable[Mapping[str, Any]], path: str) -> list[float] | None:
    """A figure of all tasks; None if one lacks it."""
    found = [number(task, path) for task in tasks]
    known = [each for each in found if each is not None]
    return known if len(known) == len(found) and known else None


def _sum(tasks: Sequence[Mapping[str, Any]], path: str) -> float | None:
    values = _numbers(tasks, path)
    if values is None:
        return None
    total = sum(values)
    return int(total) if all(value == int(value) for value in values) and path == "items" else total


def _mean(tasks: Sequence[Mapping[str, Any]], path: str) -> float | None:
    values = [n for task in tasks if (n := number(task, path)) is not None]
    return sum(values) / len(values) if values else None


def _most(tasks: Sequence[Mapping[str, Any]], path: str) -> Any:
    values = [n for task in tasks if (n := number(task, path)) is not None]
    most = max(values, default=None)
    return int(most) if most is not None and path in ("steps", "rate.skipped") else most


# The end, and what went wrong


def _outcome(members: Sequence[Run], starter: Run | None) -> dict[str, Any]:
    """The exit status, error and end of the process that failed first.

    Processes that another one started may end with status 0 because that one was killed.
    """
    failed = _failures(members) or _failures([starter] if starter is not None else [])
    if not failed:
        status = [member.facts.get("exit_status") for member in members]
        return {"exit_status": 0} if all(each == 0 for each in status) else {}
    facts = failed[0].facts
    return {key: facts.get(key) for key in ("exit_status", "error", "ended_by")}


def first_failed(members: Sequence[Run]) -> Run | None:
    """The process that failed first; None if none has."""
    return next(iter(_failures(members)), None)


def _failures(members: Sequence[Run]) -> list[Run]:
    """The processes that failed, in the order of their exceptions, or ends."""
    failed = [m for m in members if m.facts.get("exit_status") or m.facts.get("ended_by")]
    return sorted(failed, key=_failed_at)


def _failed_at(member: Run) -> str:
    raised = part(member.facts, "error_at").get("at")
    return str(raised or member.facts.get("ended") or "~")


def _where(facts: Mapping[str, Any]) -> dict[str, str]:
    at = part(facts, "error_at")
    return {"where": f"{at['file']}:{at.get('line')}"} if "file" in at else {}


def _missing(run: Run) -> list[int]:
    """The ranks without a readable record."""
    return sorted({*run.missing_ranks, *(one.rank for one in run.ranks if not one.facts)})


def _job(
    run: Run, members: Sequence[Run], groups: dict[int, int] | None, by: str
) -> dict[str, Any]:
    facts = [member.facts for member in members]
    hosts = sorted({str(part(each, "provenance").get("hostname")) for each in facts})
    versions = sorted({str(each.get("version")) for each in facts})
    failed = [
        {"rank": m.rank, "why": why_failed(m.facts), **_where(m.facts)} for m in _failures(members)
    ]
    running = [{"rank": m.rank, "now": str(m.facts["now"])} for m in members if m.facts.get("now")]
    made = {
        "ranks": len(members),
        "kind": "process" if kind_of(members) == "process" else None,
        "world_size": next((n for each in facts if (n := each.get("world_size"))), None),
        "missing": _missing(run)[:MOST_PROBLEMS],
        "hosts": hosts,
        "attempt": facts[0].get("attempt"),
        "earlier": [_attempt(each) for each in run.attempts],
        "versions": versions if len(versions) > 1 else None,
        "parallel": {"size": len(set(groups.values())), "by": by} if groups is not None else None,
        "failed": failed[:MOST_PROBLEMS],
        "running": running[:MOST_PROBLEMS],
        "idle": idle_ranks(members),
    }
    return {key: value for key, value in made.items() if value not in (None, [])}


def _parted(job: Mapping[str, Any], members: Sequence[Run]) -> Divergence | None:
    """The first difference between the ranks of a job that hangs, or of which one failed."""
    if not (job.get("failed") or job.get("idle")):
        return None
    return divergence({member.rank: member.facts for member in members}, bool(job.get("idle")))


def kind_of(members: Sequence[Run]) -> str:
    """``rank``, or ``process`` if none of the processes is a rank."""
    ranks = any(isinstance(member.facts.get("rank"), int) for member in members)
    return "rank" if ranks or not members[0].path.name.startswith(OF_PROCESS) else "process"


def _attempt(run: Run) -> dict[str, Any]:
    """An earlier attempt: its steps, and how it ended."""
    members = members_of(run)
    failed = _failures(members)
    steps = [number(main_task(member.facts) or {}, "steps") for member in members]
    made = {
        "attempt": members[0].facts.get("attempt") or 1,
        "ranks": len(members),
        "steps": int(max(filter(None, steps), default=0)),
        "why": f"rank {failed[0].rank}: {why_failed(failed[0].facts)}" if failed else None,
    }
    return {key: value for key, value in made.items() if value is not None}


def _host(run: Run, every: Sequence[Mapping[str, Any]]) -> dict[str, Any] | None:
    """The first machine, sampled by its first rank, with the use of all ranks there as script's."""
    if run.starter is not None:  # What it started is among its processes.
        host = {name: {**part(run.starter.facts, "host", name)} for name in
            part(run.starter.facts, "host")}  # fmt: skip
        if process := part(host.get("memory"), "process"):  # It grows as these start.
            host["memory"]["process"] = {k: v for k, v in process.items() if k != "growth"}
        return host or None
    first = every[0]
    host = {name: {**part(first, "host", name)} for name in part(first, "host")}
    if not host or at(first, "host.cpu.limited_by") == "affinity":  # Each rank may have its own.
        return host or None
    here = [each for each in every if each.get("place") == first.get("place")]
    for kind, keys in {"cpu": ("mean", "max"), "memory": ("peak", "growth")}.items():
        sums = {key: _sum(here, f"host.{kind}.process.{key}") for key in keys}
        known = {key: value for key, value in sums.items() if value is not None}
        if known and kind in host:
            top = number(host[kind], "max" if kind == "cpu" else "total")
            host[kind]["process"] = {
                key: value if top is None else min(value, top) for key, value in known.items()
            }
    return host


def _probes(every: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The probes of all ranks, each once, with its state where it got furthest."""
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for one in (probe for facts in every for probe in entries(facts, "probes")):
        key = str(one.get("selector")), str(one.get("where"))
        known = found.get(key, one)
        states = [state for state in _PROBED if state in (known.get("state"), one.get("state"))]
        best = one if states and one.get("state") == states[0] else known
        fired = sum(int(number(each, "fired") or 0) for each in (found.get(key, {}), one))
        found[key] = {**best, "fired": fired}
    return [*found.values()]


def _problems(members: Sequence[Run]) -> list[dict[str, Any]]:
    """The problems of all processes, each once."""
    found: dict[tuple[str, ...], dict[str, Any]] = {}
    ranks: dict[tuple[str, ...], list[int]] = {}
    for member in members:
        for problem in entries(member.facts, "problems"):
            key = tuple(str(problem.get(name)) for name in ("slug", "who", "what"))
            if key in found or len(found) < MOST_PROBLEMS:
                found.setdefault(key, dict(problem))
                those = ranks.setdefault(key, [])
                if those[-1:] != [member.rank]:
                    those.append(member.rank)
    return [
        problem if len(ranks[key]) == len(members) else {**problem, "ranks": ranks[key]}
        for key, problem in found.items()
    ]
