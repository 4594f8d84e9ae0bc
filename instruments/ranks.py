"""Chooses the ranks of a job that record in detail: ``--ranks``, and options for one thing."""

from __future__ import annotations

from overseer.errors import Problem
from overseer.rundir.job import find_rank

TYPE_CHECKING = False
if TYPE_CHECKING:
    from overseer import Overseer


def is_chosen(ov: Overseer, option: str = "--ranks", ranks: frozenset[int] | None = None) -> bool:
    """Whether this process is one of the ranks of an option, or of ``--ranks`` without it.

    Without either option every process is. Ranks that the job lacks are reported.

    Args:
        ov: The run.
        option: The option's name.
        ranks: Its value.
    """
    rank = find_rank(ov.environ)
    own, size = (rank.rank, rank.world_size) if rank is not None else (0, 1)
    if ranks is None:
        option, ranks = "--ranks", ov.options.ranks
    if ranks is None:
        return True
    missing = next((each for each in sorted(ranks) if size is not None and each >= size), None)
    if missing is not None:
        what = f"rank {missing} does not exist: ranks are 0 to {(size or 1) - 1}"
        remedy = "Name one of these, or leave the option out for all."
        ov.report(Problem("no-such-rank", option, what, remedy=remedy))
    return own in ranks
