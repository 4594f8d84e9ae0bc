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


def look_beside(error: BaseException | None, environ: Mapping[str, str], report: Report) -> None:
    """Report it where a module that the script lacks is there for another python.

    Args:
        error: What ended the script.
        environ: The environment: its ``VIRTUAL_ENV`` is asked first, then what is on ``PATH``.
        report: Told which python has the module.
    """
    name = error.name if isinstance(error, ModuleNotFoundError) else None
    if not isinstance(name, str) or not name.isidentifier():  # A dot: its package is here.
        return
    python = next((each for each in _others(environ) if _has(each, name)), None)
    if python is not None:
        what = f"{name} is not installed for {sys.executable}, which runs voir; {python} has it"
        remedy = f"Install voir beside the script's packages: {python} -m pip install voir-overseer"
        report(Problem("other-python", "the script", what, remedy=remedy))


def _others(environ: Mapping[str, str]) -> Iterator[str]:
    active, path = environ.get("VIRTUAL_ENV"), environ.get("PATH")
    places = [os.path.join(active, "bin")] if active else []
    found = [shutil.which("python", path=at) for at in (*places, path) if at]
    found.append(shutil.which("python3", path=path))
    yield from dict.fromkeys(one for one in found if one)


def _has(python: str, name: str) -> bool:
    import subprocess

    try:
        command, nothing = [python, "-c", ASKED, name], subprocess.DEVNULL
        done = subprocess.run(
            command, cwd="/", stdin=nothing, stdout=nothing, stderr=nothing, timeout=PATIENCE
        )
    except (OSError, subprocess.SubprocessError):
        return False
    return done.returncode == 0
