"""One summary a job: the last process out on the first machine shows it."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

from ..errors import Problem
from ..files import read_json
from ..model.facts import entries, part
from ..rundir.job import place, publish
from ..rundir.killed import has_ended
from ..rundir.reading import read_run
from ..views.job import ranks_text
from .figures import job_facts

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ..model.facts import Facts

#: Left in the directory of an attempt by the process that shows its summary: the ranks in it. A
#: rank that starts later shows it again.
SUMMARY_SHOWN = "summary-shown"


def summary_facts(run: Facts) -> Facts | None:
    """The facts to summarize once a process of a job has ended: those of the whole job.

    Args:
        run: The facts of the process, with its ``directory``; its ``run.json`` has its end.

    Returns:
        The facts, with the key ``directory``; None if another process shows them: a rank of this
        machine goes on, the job's first rank is on another machine, or they have been shown.
    """
    directory = Path(run["directory"])
    if directory.name != f"rank{run.get('rank')}":  # It has started the others.
        return facts_of_job(directory)
    attempt, rank = directory.parent, int(run["rank"])
    claimed = _claim(attempt, rank) if is_last(directory) else 0
    if not claimed:
        return None
    facts = facts_of_job(attempt.parent if attempt.name.startswith("attempt") else attempt)
    if "schema" not in facts:  # No record could be written.
        return run
    if claimed > 1:
        facts["job"] = {**part(facts, "job"), "late": rank}
    return facts


def facts_of_job(directory: Path) -> dict[str, Any]:
    """The facts of the job in a directory."""
    return {**job_facts(read_run(directory)), "directory": str(directory)}


def is_last(directory: Path) -> bool:
    """Whether all other ranks of this machine have ended, and it is that of the first rank.

    Ranks that have recorded nothing, because they have not started yet or run without voir, are not
    waited for.
    """
    here, own = place(), int(directory.name[4:])
    found = (entry.name[4:] for entry in directory.parent.glob("rank*"))
    numbers = sorted(int(number) for number in found if number.isdecimal())
    if numbers and _place(directory.with_name(f"rank{numbers[0]}")) not in (here, None):
        return False
    numbers.sort(key=lambda number: abs(number - own))  # Neighbours are on the same machine.
    others = (directory.with_name(f"rank{number}") for number in numbers if number != own)
    return all(_place(each) not in (here, None) or has_ended(each) for each in others)


def _place(directory: Path) -> object:
    """The machine of a rank; None if it has no record yet."""
    with suppress(OSError, ValueError, AttributeError):
        return read_json(directory / "run.json").get("place")
    return None


def _claim(attempt: Path, rank: int) -> int:
    """Claim the next summary, unless an earlier one had this rank: its number from 1, or 0."""
    ranks = [entry.name[4:] for entry in attempt.glob("rank*") if entry.name[4:].isdecimal()]
    for number in range(1, len(ranks) + 1):
        path = attempt / (SUMMARY_SHOWN if number == 1 else f"{SUMMARY_SHOWN}-{number}")
        try:
            if publish(path, " ".join(ranks).encode()):
                return number
            if str(rank) in path.read_text().split():
                return 0
        except OSError:  # A full disk does not hide the summary.
            return number
    return 0


def problems_of_others(facts: Facts) -> list[Problem]:
    """The problems of a job that rank 0, which prints its own at once, does not have."""
    found = list[Problem]()
    missing = part(facts, "job").get("missing") or [0] * bool(facts.get("rank"))  # One rank alone.
    began = not (isinstance(missing, list) and 0 in missing)
    for one in entries(facts, "problems"):
        ranks = one.get("ranks")
        if began and (not isinstance(ranks, list) or 0 in ranks):
            continue
        text = {name: str(one.get(name) or "") for name in ("slug", "who", "what")}
        if isinstance(ranks, list):
            text["who"] = f"{ranks_text(ranks)}: {text['who']}"
        found.append(Problem(**text, where=one.get("where"), remedy=one.get("remedy")))
    return found
