"""The findings of ``voir doctor`` about the installation: versions, recorder, shared memory."""

from __future__ import annotations

import os
import sys
import sysconfig
from collections.abc import Iterator
from importlib.metadata import distributions
from mmap import mmap
from pathlib import Path
from tempfile import TemporaryFile

from .. import version
from ..model import fold
from ..recorder import reason
from ..recorder.log import PAGE, SHM
from ..rundir.provenance import installed
from .findings import BAD, GOOD, WARNING, Finding

BASE = ("ptera", "giving", "rich", "psutil")
#: Shown if installed, because much of the record depends on it.
OPTIONAL = ("torch",)
#: pip caches a wheel that it built without a compiler under the same name as one built with it.
_FORCED = "pip install --force-reinstall --no-cache-dir --no-deps voir-overseer"
_ALSO = "(or the directory that it was installed from)"
_REBUILD = f"With a C compiler and Python's headers: {_FORCED} {_ALSO}"
_FREE_THREADED = "The recorder in C needs the GIL, which this Python lacks."


def installation() -> Iterator[Finding]:
    """Findings about voir, Python, the packages, and how events are recorded."""
    yield Finding(GOOD, "voir", f"{version} in {Path(__file__).parents[2]}")
    yield from another_voir(sys.path)
    system, python = os.uname(), f"{sys.version.split()[0]} ({sys.implementation.name})"
    where = f"{system.sysname} {system.machine}, {sys.executable}"
    yield Finding(GOOD, "python", f"{python} on {where}")
    found = installed(sys.path)
    if missing := [name for name in BASE if name not in found]:
        remedy = f"pip install {' '.join(missing)}"
        yield Finding(BAD, "packages", f"{', '.join(missing)}: not installed", remedy)
    else:
        said = ", ".join(f"{name} {found[name]}" for name in (*BASE, *OPTIONAL) if name in found)
        yield Finding(GOOD, "packages", said)
    yield from compiled(reason, fold.__file__)
    yield shared_memory(SHM)


def another_voir(paths: list[str]) -> Iterator[Finding]:
    """Report the distribution ``voir``, if installed: each overwrites files of the other."""
    for found in distributions(name="voir", path=paths):
        said = f"{found.version} is installed too, and both have the package voir"
        yield Finding(BAD, "voir", said, f"pip uninstall voir; then {_FORCED} {_ALSO}")


def compiled(why: str, fold_file: str) -> Iterator[Finding]:
    """Report whether the code on the hot path is compiled.

    Args:
        why: The reason why the recorder is not the one in C; empty if it is.
        fold_file: The file that the fold was imported from.
    """
    rebuild = _FREE_THREADED if sysconfig.get_config_var("Py_GIL_DISABLED") else _REBUILD
    slower = f"in Python, which is slower: {why}"
    forced = "Unset VOIR_RECORDER." if os.environ.get("VOIR_RECORDER") == "python" else rebuild
    yield Finding(*((WARNING, "recorder", slower, forced) if why else (GOOD, "recorder", "in C")))
    python = (WARNING, "fold", "in Python, which is slower", rebuild)
    yield Finding(*(python if fold_file.endswith(".py") else (GOOD, "fold", "compiled")))


def shared_memory(directory: str) -> Finding:
    """Report whether ``directory`` can hold the state of a run, which is then not on a disk."""
    try:
        with TemporaryFile(dir=directory) as file:
            file.write(bytes(PAGE))
            file.flush()
            mmap(file.fileno(), PAGE).close()
    except OSError as error:
        said = f"cannot be used: {error.strerror}"
        return Finding(WARNING, directory, said, "A file in the run's directory is used instead.")
    return Finding(GOOD, directory, "can be used")
