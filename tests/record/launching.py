"""A launcher of ranks, and what each rank does: find its directory and write a line there.

As a rank: ``python launching.py [SECONDS_LATE]`` prints the directory. As a launcher:
``python launching.py launch WORLD_SIZE COMMAND...`` runs the command once a rank, all at once.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time

NAME = "train.py"


def be_rank(late: float) -> None:
    from overseer.errors import Problem
    from overseer.record.directory import RunDirectory
    from overseer.record.metrics import MetricsLog

    def report(problem: Problem) -> None:
        print(f"{problem}", file=sys.stderr)

    started = time.time_ns() + round(late * 1e9)
    directory = RunDirectory(NAME, os.getpid(), started, report=report, environ=os.environ)
    directory.check()
    path = directory.path
    if path is not None:
        MetricsLog(path / "metrics.jsonl", report).write({"pid": os.getpid()})
    os.write(1, f"{path}\n".encode())  # One write: the ranks share the pipe.


def launch(world: int, command: list[str]) -> None:
    ranks = []
    for rank in range(world):
        env = {**os.environ, "RANK": str(rank), "WORLD_SIZE": str(world)}
        ranks.append(subprocess.Popen(command, env=env))
    sys.exit(max(rank.wait() for rank in ranks))


if __name__ == "__main__":
    if sys.argv[1:2] == ["launch"]:
        launch(int(sys.argv[2]), sys.argv[3:])
    else:
        be_rank(float(sys.argv[1]) if sys.argv[1:] else 0.0)
