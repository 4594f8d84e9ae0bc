"""Tests that depend on the interpreter pass on every supported one of this machine."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.recorder.compiler import compiler

ROOT = Path(__file__).parents[2]
SUPPORTED = [(3, minor) for minor in range(11, 15)]
#: Suites without PyTorch that may differ between interpreters: code, tracebacks, threads.
SUITES = ["recorder", "probes", "launch", "cli", "engine", "test_*.py"]
#: Those that go by the interpreter's own code objects, frames and C interface, which no two
#: versions share; of the others, what passes on the oldest and on the newest passes in between.
CLOSEST = SUITES[:3]
#: What these hold is what is said of a run that has been recorded: the same on all of them.
SAID = ["completion", "own_cost", "runs", "show", "summary", "trace_command"]
NEEDED = ["pytest", "hypothesis", "pyte", "pyyaml", "cloudpickle", "jsonschema"]
SECONDS = 900


def _interpreters() -> dict[tuple[int, int], Path]:
    """Those that work: pyenv's shims often do not."""
    folders = [Path(folder) for folder in os.environ.get("PATH", "").split(os.pathsep)]
    folders += sorted(Path.home().glob(".pyenv/versions/*/bin"))
    found: dict[tuple[int, int], Path] = {}
    for major, minor in SUPPORTED:
        for python in (folder / f"python{major}.{minor}" for folder in folders):
            try:
                subprocess.run([python, "-c", ""], capture_output=True, timeout=20, check=True)
            except (OSError, subprocess.SubprocessError):
                continue
            found.setdefault((major, minor), python)
    return found


OTHERS = {v: p for v, p in _interpreters().items() if v != sys.version_info[:2]}


def _environment(version: tuple[int, int]) -> Path:
    """An environment in the tree, kept for as long as what it was made from stays as it was."""
    home = ROOT / f".venv-{version[0]}.{version[1]}"
    # Beside the Python files: those are used where they are.
    files = [ROOT / "pyproject.toml", ROOT / "setup.py", *ROOT.glob("overseer/recorder/*.c")]
    files += ROOT.glob("overseer/model/*.py")
    made_from = hashlib.sha256(b"".join(f.read_bytes() for f in sorted(files))).hexdigest()
    stamp, python = home / "installed", home / "bin/python"
    if not stamp.exists() or stamp.read_text() != made_from:
        subprocess.run([OTHERS[version], "-m", "venv", "--clear", home], check=True, timeout=120)
        install = [python, "-m", "pip", "install", "-q", "-e", ROOT, *NEEDED]
        done = subprocess.run(install, capture_output=True, timeout=300)
        if done.returncode:
            pytest.skip(f"its packages cannot be installed: {done.stderr[-300:]!r}")
        stamp.write_text(made_from)
    return python


others = pytest.mark.parametrize("version", OTHERS, ids=lambda v: f"{v[0]}.{v[1]}")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not OTHERS, reason="there is no other supported interpreter here"),
]


def run(version: tuple[int, int], cwd: str | Path, *arguments: str) -> Any:
    """Run an interpreter with an environment in which the tree is installed."""
    environ = {k: v for k, v in os.environ.items() if not k.startswith(("VOIR", "PYTEST"))}
    options: Any = {"capture_output": True, "text": True, "timeout": SECONDS, "env": environ}
    return subprocess.run([_environment(version), *arguments], cwd=cwd, **options)


@others
def test_the_extension_is_built_for(version: tuple[int, int]) -> None:
    compiler()
    done = run(version, "/", "-c", "from overseer.recorder import reason; print(reason)")
    assert (done.returncode, done.stdout) == (0, "\n"), done.stderr


@others
def test_it_passes_on(version: tuple[int, int]) -> None:
    suites = SUITES if version in (min(OTHERS), max(OTHERS)) else CLOSEST
    paths = [str(p) for suite in suites for p in sorted(ROOT.glob(f"tests/{suite}"))]
    paths += [f"--ignore={ROOT / 'tests/cli'}/test_{name}.py" for name in SAID]
    done = run(version, ROOT, "-m", "pytest", "-q", "-p", "no:cacheprovider", *paths)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    assert " passed" in done.stdout
