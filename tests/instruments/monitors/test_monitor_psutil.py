"""Monitors say what is wrong with psutil, not what became of it."""

from __future__ import annotations

from pathlib import Path

from tests.running import Place


def test_every_monitor_names_the_error_by_which_psutil_cannot_be_imported(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.write("psutil.py", "import time; time.sleep(0.1); raise RuntimeError('psutil broken')")
    place.write("main.py", "import time; time.sleep(1.5)")
    ran = place.voir("--no-record", "main.py", env={"PYTHONPATH": str(tmp_path)})
    assert ran.status == 0
    assert "RuntimeError: psutil broken" in ran.stderr
    assert "has no attribute" not in ran.stderr
