"""What ``voir doctor`` finds about the installation: versions, the recorder, shared memory."""

from __future__ import annotations

import json
import os
import shlex
import sys
import sysconfig
from collections.abc import Iterator
from importlib.metadata import distributions
from mmap import mmap
from pathlib import Path
from tempfile import TemporaryFile
from urllib.parse import urlsplit
from urllib.request import url2pathname

from .. import version
from ..model import fold
from ..record.provenance import installed
from ..recorder import reason, recorder
from ..recorder.log import PAGE, SHM
from .doctor import BAD, GOOD, WARNING, Finding

DISTRIBUTION = "voir-overseer"
BASE = ("ptera", "giving", "rich", "psutil")
#: Named where it is installed, for much of what is recorded depends on it.
OTHERS = ("torch",)


def installation() -> Iterator[Finding]:
    """What there is to say about voir, python, the packages, and how events are recorded."""
    yield Finding(GOOD, "voir", f"{version} in {Path(__file__).parents[2]}")
    yield Finding(GOOD, "python", _python())
    yield _packages(installed(sys.path))
    yield recorder_in_use(recorder.NAME, reason)
    yield fold_in_use(fold.__file__)
    yield shared_memory(SHM)


def _python() -> str:
    system = os.uname()
    said = f"{sys.version.split()[0]} ({sys.implementation.name}) on {system.sysname}"
    return f"{said} {system.machine}, {sys.executable}"


def _packages(found: dict[str, str]) -> Finding:
    said = ", ".join(f"{name} {found[name]}" for name in (*BASE, *OTHERS) if name in found)
    missing = [name for name in BASE if name not in found]
    if not missing:
        return Finding(GOOD, "packages", said)
    remedy = f"pip install {' '.join(missing)}"
    return Finding(BAD, "packages", f"{', '.join(missing)}: not installed", remedy)


def recorder_in_use(name: str, why: str) -> Finding:
    """Which recorder is used.

    Args:
        name: What it is written in.
        why: Why it is not the one in C; empty if it is.
    """
    if not why:
        return Finding(GOOD, "recorder", f"in {name}")
    forced = os.environ.get("VOIR_RECORDER") == "python"
    remedy = "Unset VOIR_RECORDER." if forced else _rebuilding()
    return Finding(WARNING, "recorder", f"in {name}, which is slower: {why}", remedy)


def fold_in_use(file: str) -> Finding:
    """Whether what makes steps of events is compiled, by the file that it was imported from."""
    if not file.endswith(".py"):
        return Finding(GOOD, "fold", "compiled")
    return Finding(WARNING, "fold", "in Python, which is slower", _rebuilding())


def _rebuilding() -> str:
    if sysconfig.get_config_var("Py_GIL_DISABLED"):
        return "The one in C needs the interpreter lock, which this python has not."
    # A wheel that pip has built without a compiler is in its cache, under the name of one with.
    options = "--force-reinstall --no-cache-dir --no-deps"
    return f"With a C compiler and Python's headers: pip install {options} {_installed_from()}"


def _installed_from() -> str:
    """What to give pip: a directory that voir was installed from, else the distribution's name."""
    for found in distributions(name=DISTRIBUTION):  # In a checkout, what building left is another.
        try:
            origin = json.loads(found.read_text("direct_url.json") or "{}")
        except ValueError:
            continue
        if "dir_info" in origin:
            directory = shlex.quote(url2pathname(urlsplit(origin["url"]).path))
            return f"-e {directory}" if origin["dir_info"].get("editable") else directory
    return DISTRIBUTION


def shared_memory(directory: str) -> Finding:
    """Whether what a run is doing can be kept in ``directory``, where writing it costs no disk."""
    try:
        with TemporaryFile(dir=directory) as file:
            file.write(bytes(PAGE))
            file.flush()
            mmap(file.fileno(), PAGE).close()
    except OSError as error:
        said = f"cannot be used: {error.strerror}"
        return Finding(WARNING, directory, said, "A file in the run's directory is used instead.")
    return Finding(GOOD, directory, "can be used")
