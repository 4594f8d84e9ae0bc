"""Arguments of the benchmarks; only a small one runs here."""

from __future__ import annotations

import sys
from pathlib import Path
from runpy import run_path

import pytest

from tests.running import Place

BENCHMARKS = Path(__file__).resolve().parents[2] / "benchmarks"
OPTIONS = [
    ("overhead", "--upstream"),
    ("overhead", "--traceml"),
    ("probes", "--upstream"),
    ("multiplexer", "--peer"),
]


@pytest.mark.parametrize(("name", "option"), OPTIONS)
def test_a_missing_python_is_named_in_the_error(tmp_path: Path, name: str, option: str) -> None:
    ran = Place(tmp_path).python(str(BENCHMARKS / f"{name}.py"), option, "there/bin/python")
    assert (ran.status, ran.stdout) == (1, "")
    assert ran.stderr == f"there is no file {tmp_path / 'there/bin/python'}\n"


def test_a_relative_path_is_made_absolute_and_a_link_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    existing = run_path(str(BENCHMARKS / "overhead.py"))["existing"]
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/python").symlink_to(sys.executable)
    monkeypatch.chdir(tmp_path)
    assert existing("bin/python") == str(tmp_path / "bin/python")
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    assert existing("python") == str(tmp_path / "bin/python")


def test_the_collector_benchmark_counts_tracked_objects(tmp_path: Path) -> None:
    once = run_path(str(BENCHMARKS / "collector.py"))["once"]
    script = tmp_path / "main.py"
    script.write_text("import gc\nprint(0, 0, len(gc.get_objects()), 0)\n")
    tracked = [once(side, script, "time")[2] for side in ("voir", "python", "voir, nothing frozen")]
    assert tracked == sorted(tracked)


def test_the_trace_benchmark_runs(tmp_path: Path) -> None:
    options = ("--rounds", "0", "--seconds", "0.01", "--events", "2400")
    ran = Place(tmp_path).python(str(BENCHMARKS / "trace.py"), *options)
    assert ran.status == 0, ran.stderr
    assert "| span, two arguments, not tracing |" in ran.stdout
    assert "\n2,400 events of 100 steps in " in ran.stdout


def test_the_benchmark_of_comparing_runs(tmp_path: Path) -> None:
    options = ("--runs", "6", "--steps", "20", "--rounds", "1")
    ran = Place(tmp_path).python(str(BENCHMARKS / "compared.py"), *options)
    assert ran.status == 0, ran.stderr
    assert "\n| 6 | " in ran.stdout
