"""Says where voir must be installed when a script's packages are in another environment."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator, Mapping

from ..boundary import Report
from ..errors import Problem

#: How long another python may take to answer, in seconds.
PATIENCE = 5.0
#: Whether it has a package; only whether: the package is not run.
ASKED = "import importlib.util, sys; sys.exit(importlib.util.find_spec(sys.argv[1]) is None)"


def look_beside(name: str | None, environ: Mapping[str, str], report: Report) -> None:
    """Report it where a module that the script lacks is there for another python.

    Args:
        name: The module.
        environ: The environment: its ``VIRTUAL_ENV`` is asked first, then what is on ``PATH``.
        report: Told which python has the module.
    """
    if not isinstance(name, str) or not name.isidentifier():  # A dot: its package is here.
        return
    for python in filter(None, dict.fromkeys(_others(environ))):
        if _has(python, name):
            what = f"{name} is not installed for {sys.executable}, which runs voir; {python} has it"
            remedy = f"Install voir beside the script's packages: {python} -m pip install"
            report(Problem("other-python", "the script", what, None, f"{remedy} voir-overseer"))
            return


def _others(environ: Mapping[str, str]) -> Iterator[str | None]:
    active, path = environ.get("VIRTUAL_ENV"), environ.get("PATH")
    for at in filter(None, (active and os.path.join(active, "bin"), path)):
        yield shutil.which("python", path=at)
    yield shutil.which("python3", path=path)


def _has(python: str, name: str) -> bool:
    import subprocess

    command, null = [python, "-c", ASKED, name], subprocess.DEVNULL
    try:
        done = subprocess.run(command, cwd="/", stdin=null, capture_output=True, timeout=PATIENCE)
    except (OSError, subprocess.SubprocessError):
        return False
    return done.returncode == 0
