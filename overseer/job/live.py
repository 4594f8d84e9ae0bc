"""What the ranks of a running job are doing, from their records: for the dashboard."""

from __future__ import annotations

import os
from contextlib import suppress
from typing import Any

from ..files import read_json
from ..model.facts import main_task, number, part
from ..recorder.log import lives, read_header
from ..rundir.killed import has_ended, now_at
from ..views.dash.board import RankRow

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path

#: Ranks read at a time: each record takes a fraction of a millisecond.
READ_RANKS = 64


class LiveRanks:
    """Reads the records of a job's ranks, a part of them at each call.

    Args:
        directory: That of the job, of one of its attempts, or of the process that started others.
    """

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._known: dict[int, RankRow] = {}
        self._next = 0

    def __call__(self) -> list[RankRow]:
        """All ranks as last read: first those without a rate, then the slowest."""
        numbers: list[int] = []
        with suppress(OSError):
            names = os.listdir(self._directory)
            numbers = sorted(
                int(n[4:]) for n in names if n.startswith("rank") and n[4:].isdecimal()
            )
        due = (numbers[self._next :] + numbers[: self._next])[:READ_RANKS]
        self._next = (self._next + len(due)) % max(len(numbers), 1)
        for rank in due:
            self._known[rank] = rank_row(self._directory / f"rank{rank}", rank)
        with suppress(OSError, ValueError, AttributeError):  # It may be a rank itself.
            starter = read_json(self._directory / "run.json").get("rank")
            if isinstance(starter, int):
                self._known[starter] = rank_row(self._directory, starter)
        return sorted(self._known.values(), key=lambda row: (row.rate or 0.0, row.rank))


def rank_row(directory: Path, rank: int) -> RankRow:
    """The row of one rank; without figures if its record cannot be read."""
    from .figures import waiting_share  # Only jobs pay for it.

    facts: dict[str, Any] = {}
    with suppress(OSError, ValueError, TypeError):
        facts = dict(read_json(directory / "run.json"))
    task = main_task(facts) or {}
    return RankRow(
        rank,
        number(task, "rate.steady") or number(task, "rate.wall"),
        str(task.get("units") or "items"),
        number(task, "loss.last"),
        waiting_share(task),
        _state(directory, facts),
    )


def _state(directory: Path, facts: dict[str, Any]) -> str:
    """``in loading for 12 s``, ``ended``, ``killed``, ``exit status 1``; empty if unknown."""
    if "ended" in facts:
        status = facts.get("exit_status")
        return f"exit status {status}" if status else "ended"
    header = read_header(os.fspath(directory))
    if header is not None and lives(header):
        return now_at(header, part(facts, "idle"))
    return "killed" if has_ended(directory) else ""
