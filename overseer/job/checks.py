"""The checks of ``--verify`` over all processes of a job."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ..model.facts import entries
from ..rundir.reading import Run
from .members import members_of, why_failed

#: From the one that matters least.
_VERDICTS = ("SKIP", "PASS", "WARN", "FAIL")


def checks_of(run: Run) -> list[dict[str, Any]]:
    """The checks of a job: each as its worst process made it.

    Each process checks what it has recorded. Of equal verdicts that of the first process counts; a
    process that only started the others comes last. Checks that a process did not
    make are skipped, with the reason.

    Returns:
        The checks; ``rank`` is that of the process, unless it only started the others.
    """
    members = members_of(run)
    last = run.starter if run.starter is not None and run.starter not in members else None
    worst: dict[tuple[str, int], dict[str, Any]] = {}
    for each in (*members, *([last] if last is not None else [])):
        made_by = {} if each is last else {"rank": each.rank}
        for key, check in _numbered(each.facts):
            if key not in worst or _badness(check) > _badness(worst[key]):
                worst[key] = {**check, **made_by}
    if not worst:
        return []
    return [*worst.values(), *(_skipped(each) for each in members if not each.facts.get("verify"))]


def _numbered(facts: Mapping[str, Any]) -> Iterator[tuple[tuple[str, int], Mapping[str, Any]]]:
    """The checks of a process, by name and number among those of that name."""
    seen: dict[str, int] = {}
    for check in entries(facts, "verify"):
        name = str(check.get("check"))
        seen[name] = seen.get(name, -1) + 1
        yield (name, seen[name]), check


def _badness(check: Mapping[str, Any]) -> int:
    verdict = str(check.get("verdict"))
    return _VERDICTS.index(verdict) if verdict in _VERDICTS else 0


def _skipped(member: Run) -> dict[str, Any]:
    facts = member.facts
    if facts.get("now"):
        why = f"it still runs: {facts['now']}"
    else:
        why = f"it ended without checks: {why_failed(facts)}"
    return {"check": "all", "verdict": "SKIP", "evidence": why, "rank": member.rank}
