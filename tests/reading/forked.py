"""Runs scripts under voir in forks of one process that has imported torch once.

``python forked.py SCRIPTS PLACE NAME...`` copies each script into a directory of its own below
PLACE, runs ``voir init`` and ``voir --verify`` there, and prints what became of each as JSON.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path


def in_a_fork(here: Path, output: str, act: Callable[[], object]) -> int:
    """The exit status of a fork that does ``act`` in ``here``, its output in a file."""
    pid = os.fork()
    if not pid:
        os.chdir(here)
        descriptor = os.open(output, os.O_CREAT | os.O_WRONLY | os.O_TRUNC)
        os.dup2(descriptor, 1)
        os.dup2(descriptor, 2)
        status = 1
        try:
            act()
            status = 0
        except SystemExit as exit_:
            status = exit_.code if isinstance(exit_.code, int) else 0
        finally:
            sys.stdout.flush()
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def voir(*arguments: str) -> None:
    """``voir`` with these arguments; imported here, so that its run is this fork's."""
    from overseer.cli import main

    main(list(arguments))


def run(scripts: Path, place: Path, name: str) -> dict[str, object]:
    """Init and verify one script; what became of it."""
    here, script = place / name, f"{name}.py"
    if (scripts / name).is_dir():
        shutil.copytree(scripts / name, here)
        script = "main.py"
    else:
        here.mkdir(parents=True)
        shutil.copy(scripts / script, here)
    init = in_a_fork(here, "init.txt", lambda: voir("init", script))
    options = ["--verify", "--verify-json", "verify.json", "--run-dir", "run", script]
    verify = in_a_fork(here, "verify.txt", lambda: voir(*options))
    record = here / "run" / "run.json"
    return {
        "init": init,
        "verify": verify,
        "said": (here / "verify.txt").read_text(),
        "checks": json.loads((here / "verify.json").read_text())["verify"],
        "tasks": json.loads(record.read_text()).get("tasks", {}) if record.exists() else {},
    }


if __name__ == "__main__":
    import torch  # noqa: F401

    source, target, *names = sys.argv[1:]
    print(json.dumps({name: run(Path(source), Path(target), name) for name in names}))
