"""The recorder's tests, with the extension under AddressSanitizer and UndefinedBehaviourSanitizer.

Not among the tests that pytest finds by itself, as it runs all of them once more and slowly:
``./dev test-all`` names this file.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from .compiler import FILE, ROOT, compiled, compiler

FLAGS = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
LEFT_OUT = shutil.ignore_patterns("*.so", "__pycache__", "actual")
SECONDS = 1800


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A copy of the packages and tests, with an extension that is checked as it runs."""
    for name in ("overseer", "instruments", "voir", "tests"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=LEFT_OUT)
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    compiled(tmp_path / "overseer/recorder" / FILE, "-O1", "-g", "-fno-omit-frame-pointer", *FLAGS)
    return tmp_path


def library(name: str) -> str:
    """The compiler's library of this name; the name alone if it has none."""
    command = [*compiler(), f"-print-file-name={name}"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def run(tree: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run python with what the sanitizers need, since it is not built with them itself."""
    # Their report goes to files: pytest loses what a process writes while it is aborted.
    log = f"log_path={tree / 'report'}"
    asan = library("libasan.so")
    if not os.path.isabs(asan):
        pytest.skip("the compiler has no AddressSanitizer")
    env = {
        **{k: v for k, v in os.environ.items() if not k.startswith(("PYTEST", "VOIR"))},
        # PyTorch throws exceptions of C++, which the sanitizer looks for when python starts.
        "LD_PRELOAD": f"{asan} {library('libstdc++.so.6')}",
        # Python itself does not free all that it has; tests kill processes by SIGSEGV.
        "ASAN_OPTIONS": f"detect_leaks=0:handle_segv=0:{log}",
        "UBSAN_OPTIONS": f"print_stacktrace=1:{log}",
        "PYTHONMALLOC": "malloc",  # Within Python's own arenas, nothing would be found.
        "PYTHONPATH": str(tree),
    }
    command = [sys.executable, *arguments]
    return subprocess.run(
        command, cwd=tree, env=env, capture_output=True, text=True, timeout=SECONDS
    )


def reports(tree: Path) -> str:
    """What the sanitizers have found, in processes that tests have started too."""
    return "\n".join(file.read_text("utf-8", "replace") for file in tree.glob("report.*"))


def test_they_find_what_is_wrong(tree: Path) -> None:
    wrong = "import ctypes; ctypes.memset(ctypes.create_string_buffer(64), 0, 65)"
    assert run(tree, "-c", wrong).returncode != 0
    assert "heap-buffer-overflow" in reports(tree)


def test_the_recorders_tests_pass_under_them(tree: Path) -> None:
    where = "from overseer.recorder import reason, _recorder as r; print(reason or r.__file__)"
    assert run(tree, "-c", where).stdout.strip() == str(tree / "overseer/recorder" / FILE)
    done = run(tree, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/recorder")
    assert reports(tree) == ""
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    assert " passed" in done.stdout
