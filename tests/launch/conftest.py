"""Two sides of one table: plain python, and voir, on the same small programs."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.running import Ran

#: Without monitors: while their first sample waits for the lock, pause() can miss a signal, as it
#: can beside any thread.
VOIR = ["-m", "voir", "--no-record", "--no-monitor", "--quiet"]
#: Words between ``python FLAGS`` and ``SCRIPT ARGUMENTS`` on each side.
SIDES = {
    "python": [],
    "voir": [*VOIR, "--no-voirfile"],
    "told": [*VOIR, "--voirfile", str(Path(__file__).with_name("tell.py"))],
}


class Sides:
    """Runs programs in a directory of their own, on either side."""

    def __init__(self, root):
        self.root = root

    def write(self, files):
        for name, content in files.items():
            path = self.root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content if isinstance(content, bytes) else content.encode())

    def command(self, side, argv, flags=()):
        return [sys.executable, *flags, *SIDES[side], *argv]

    def run(self, side, argv, flags=(), stdin=b"", env=None, **options):
        environ = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
        environ |= {"PYTHONDONTWRITEBYTECODE": "1", **(env or {})}
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "cwd": self.root}
        options = {"env": environ, "timeout": 120, **pipes, **options}
        done = subprocess.run(self.command(side, argv, flags), input=stdin, **options)
        return Ran(done.returncode, _plain(done.stdout), _plain(done.stderr))

    def same(self, files, *argv, **options):
        """Both sides end alike; what they ended like."""
        self.write(files if isinstance(files, dict) else {"main.py": files})
        argv = argv or ("main.py",)
        plain = self.run("python", argv, **options)
        assert self.run("voir", argv, **options) == plain
        return plain


def _plain(output):
    """The output, but for addresses and reference counts."""
    text = (output or b"").decode(errors="backslashreplace")
    return re.sub(r"0x[0-9a-f]{6,}|(?<=object refcount : )\d+", "...", text)


@pytest.fixture
def sides(tmp_path):
    return Sides(tmp_path.resolve())


@pytest.fixture
def same(sides):
    return sides.same
