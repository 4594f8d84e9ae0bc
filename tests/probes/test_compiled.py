"""The tests in ``compiled.py``, where torch is imported."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

from tests.running import environment

HERE = Path(__file__).parent


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="needs torch")
def test_probes_in_code_that_torch_compiles() -> None:
    tests = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", HERE / "compiled.py"]
    done = subprocess.run(
        tests, cwd=HERE.parents[1], env=environment(), capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-2000:]
    assert "passed" in done.stdout
    assert "skipped" not in done.stdout
