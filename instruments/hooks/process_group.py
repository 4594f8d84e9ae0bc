"""Notes the rank of this process when a process group is made."""

from __future__ import annotations

import os
from functools import wraps

from overseer.engine.overseer import active
from overseer.rundir.job import Rank

from .distributed import number_groups

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from overseer import Overseer

    from ..places import Places


def place(ov: Overseer, places: Places, c10d: Any) -> None:
    """Note the rank in the first default process group.

    ``init_process_group`` stays as it is: it raises errors, whose tracebacks would change.

    Args:
        ov: The run.
        places: Where callables are placed.
        c10d: ``torch.distributed.distributed_c10d``.
    """
    inner = vars(c10d).get("_update_default_pg")
    if inner is None:
        return

    pid = os.getpid()

    @wraps(inner)
    def _update_default_pg(group: Any) -> Any:
        try:
            run = active() or ov  # A forked process has a run of its own.
            if group is not None and os.getpid() != pid:  # Its recorder is a new one.
                number_groups()
            if group is not None and run.context.rank is None:
                run.context.rank = rank_in(group)
                if run.context.rank is not None and not run.is_inherited:
                    run.join_job()
        except Exception:  # Then the launcher's variables tell the rank.
            pass
        return inner(group)

    places.put(c10d, "_update_default_pg", _update_default_pg)


def rank_in(group: Any) -> Rank | None:
    """The rank of this process in a process group; None if it is the only one."""
    rank, size = int(group.rank()), int(group.size())
    local = os.environ.get("LOCAL_RANK", "")
    job = "process group"
    return Rank(rank, size, int(local) if local.isdecimal() else None, job) if size > 1 else None
