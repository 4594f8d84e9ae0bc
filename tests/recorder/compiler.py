"""Compiling the recorder's C as setup.py does, with other flags."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sysconfig
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "overseer/recorder/_recorder.c"
#: What this interpreter calls its extension.
FILE = f"_recorder{sysconfig.get_config_var('EXT_SUFFIX')}"


def compiler() -> list[str]:
    """The C compiler that builds extensions; skips the test where there is none."""
    command = shlex.split(os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc")
    if shutil.which(command[0]) is None or command[0] == "false":
        pytest.skip("there is no C compiler")
    if not Path(sysconfig.get_path("include"), "Python.h").exists():
        pytest.skip("Python's headers are not installed")
    return command


def compiled(out: Path, *flags: str, source: Path = SOURCE) -> None:
    """Compile ``source`` into the extension ``out``."""
    include = f"-I{sysconfig.get_path('include')}"
    linking = ["-undefined", "dynamic_lookup"] if os.uname().sysname == "Darwin" else []
    command = [*compiler(), "-shared", "-fPIC", include, *flags, str(source), "-o", str(out)]
    done = subprocess.run([*command, *linking], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
