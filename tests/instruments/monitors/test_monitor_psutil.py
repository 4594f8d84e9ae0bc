"""Monitors say what is wrong with psutil, not what became of it, and they say it once."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from instruments.cpu import Cpu
from instruments.disk import Disk
from instruments.memory import Memory
from instruments.monitors import HOST, instrument_monitors
from instruments.network import Network
from instruments.process import Process
from instruments.sampling import unread_of
from overseer.options import OptionParser
from tests.running import Place


def run(ov: Any) -> None:
    """Take the monitors that run by default to the beginning of the script."""
    ov.argparser = OptionParser(environ={})
    ov.require(instrument_monitors)
    ov._scheduler.end(ov.phases.init)
    ov.options = ov.argparser.resolve([])
    ov.walk_to_script()


def test_every_monitor_names_the_error_by_which_psutil_cannot_be_imported(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.write("psutil.py", "import time; time.sleep(0.1); raise RuntimeError('psutil broken')")
    place.write("main.py", "import time; time.sleep(1.5)")
    ran = place.voir("--no-record", "main.py", env={"PYTHONPATH": str(tmp_path)})
    assert ran.status == 0
    assert "RuntimeError: psutil broken" in ran.stderr
    assert "has no attribute" not in ran.stderr
    assert ran.stderr.count("[not-sampled]") == 1
    assert "[subscriber]" not in ran.stderr


@pytest.mark.parametrize("error", [ImportError("broken"), OSError("broken"), ValueError("broken")])
def test_that_it_cannot_be_imported_is_said_once(
    ov: Any, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def fail(name: str, *args: Any, **kwargs: Any) -> Any:
        if name == "psutil":
            raise error
        return imported(name, *args, **kwargs)

    run(ov)
    imported = __import__
    monkeypatch.delitem(sys.modules, "psutil", raising=False)
    monkeypatch.setattr("builtins.__import__", fail)
    ov.tick()
    ov.tick()
    monkeypatch.undo()
    ov.end_script()
    (problem,) = ov.problems
    assert (problem.slug, problem.who) == ("not-sampled", "instrument_monitors")
    assert f"{type(error).__name__}: broken" in problem.what


def test_monitors_that_were_asked_for_say_it_once_too(
    ov: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "psutil", None)
    ov.require(*(kind() for kind in HOST))
    ov.walk_to_script()
    ov.tick()
    ov.end_script()
    assert [(problem.slug, problem.who) for problem in ov.problems] == [("not-sampled", "Cpu")]


def broken(*args: Any) -> Any:
    raise OSError("broken psutil")


def test_what_psutil_could_not_read_is_said_once(ov: Any, psutil: Any) -> None:
    psutil.virtual_memory = psutil.Process = broken
    psutil.disk = OSError("no disks here")
    run(ov)
    for _ in range(3):
        ov.tick()
    assert ov.problems == []
    ov.end_script(ValueError("the script's own"))
    (problem,) = ov.problems
    assert (problem.slug, problem.who) == ("not-sampled", "instrument_monitors")
    assert problem.what == (
        "processors, memory and processes could not be sampled: OSError: broken psutil"
    )
    assert "host" not in ov.summary


def test_each_reason_is_said(ov: Any, psutil: Any) -> None:
    def unwilling(*args: Any) -> Any:
        raise NotImplementedError("processes")

    psutil.virtual_memory, psutil.Process = broken, unwilling
    run(ov)
    ov.tick()
    ov.end_script()
    assert [problem.what for problem in ov.problems] == [
        "processors and memory could not be sampled: OSError: broken psutil;"
        " processes could not be sampled: NotImplementedError: processes"
    ]


def test_that_a_machine_does_not_count_for_disks_or_interfaces_needs_no_telling(
    ov: Any, psutil: Any
) -> None:
    psutil.disk_io_counters = psutil.net_io_counters = broken
    ov.require(*(kind(by_default=True) for kind in (Disk, Network)))
    ov.walk_to_script()
    ov.tick()
    ov.end_script()
    unread_of(ov).say(ov)
    assert ov.problems == []


def test_counters_that_cannot_be_read_at_the_start_do_not_fail_the_monitor(
    ov: Any, psutil: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("instruments.cpu.CpuSampler.start", broken)
    run(ov)
    ov.end_script()
    assert [problem.what for problem in ov.problems] == [
        "processors could not be sampled: OSError: broken psutil"
    ]


@pytest.mark.parametrize("kind", [Cpu, Memory, Process])
def test_what_the_summary_tells_is_missed(kind: Any) -> None:
    assert kind.tells
