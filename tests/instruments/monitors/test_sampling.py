"""The rules that all monitors keep: when they sample, what they give, when they are silent."""

from __future__ import annotations

import argparse
import math
import sys
from pathlib import Path
from typing import Any

import pytest

from instruments import sampling
from instruments.monitoring import instrument_monitors
from instruments.monitors.gpu import Gpu
from instruments.monitors.host import Cpu, Disk, Memory, Network
from instruments.monitors.process import ProcessTree
from instruments.sampling import MachineMonitor, checked_interval
from overseer.errors import UsageError
from tests.running import Place

from .conftest import FakeOverseer


class Echoing(MachineMonitor):
    """Answers what a test has put there; an exception is raised."""

    key, tells = "echo", "echoes"
    emits = {"echo.loud": "dB"}  # noqa: RUF012
    answers: list[Any] = []  # noqa: RUF012

    def read(self, now_ns: int) -> Any:
        answer = Echoing.answers.pop(0)
        if isinstance(answer, BaseException):
            raise answer
        return answer

    def summarise(self, summary: dict[str, Any], now_ns: int | None) -> None:
        summary["left"] = len(Echoing.answers)


class Quiet(Echoing):
    silent = True


def by_default(ov: Any, *monitors: MachineMonitor) -> None:
    sampling.sampling_of(ov, "host").by_default(ov, 1.0, lambda: monitors)


def test_sampling_starts_soon_after_the_script_and_ends_with_it(ov: FakeOverseer) -> None:
    Echoing.answers = ["first", None, "third", "fourth"]
    ov.start(Echoing(10.0))
    (timer,) = ov.timers
    assert (timer.first, timer.seconds, timer.open) == (0.25, 10.0, True)
    ov.tick(0.25)
    assert ov.events == [{"task": "main", "time": ov.clock.wall_ns() / 1e9, "echo": "first"}]
    ov.tick(10, times=2)
    ov.end("run_script")
    assert (timer.open, ov.given("echo"), ov.summary) == (False, ["first", "third"], {"left": 1})


@pytest.mark.parametrize("early", [True, False])
def test_a_default_monitor_makes_way_for_one_that_was_asked_for(
    ov: FakeOverseer, early: bool
) -> None:
    Echoing.answers = [1, 2, 3]
    ov.require(*[Echoing()] * early)
    by_default(ov, Echoing(by_default=True), Quiet(by_default=True))
    ov.start(Echoing())
    ov.tick()
    assert ov.given("echo") == [1]


FILE, SELF = FileNotFoundError("/proc/x"), ZeroDivisionError("oh")
#: Readings of a monitor, what is given, and what is said at the end.
FAILING: list[tuple[MachineMonitor, list[Any], list[int], str]] = [
    (Echoing(by_default=True), [1, FILE, FILE, 2], [1, 2], ""),
    (Echoing(by_default=True), [1, FILE, FILE, FILE, 2], [1], "FileNotFoundError: /proc/x"),
    (Echoing(by_default=True), [FILE], [], "FileNotFoundError: /proc/x"),
    (Quiet(by_default=True), [FILE, FILE, FILE], [], ""),
    (Quiet(by_default=True), [NotImplementedError()], [], ""),
    (Quiet(by_default=True), [SELF, SELF, SELF], [], "ZeroDivisionError: oh"),
    (Quiet(), [FILE, FILE, FILE], [], "FileNotFoundError: /proc/x"),  # It was asked for.
]


@pytest.mark.parametrize(("monitor", "answers", "given", "why"), FAILING)
def test_what_fails_is_absent_and_three_samples_that_fail_are_the_end(
    ov: FakeOverseer, monitor: MachineMonitor, answers: list[Any], given: list[int], why: str
) -> None:
    Echoing.answers = [*answers]
    by_default(ov, monitor)
    ov.start()
    ov.tick(times=len(answers))
    assert ov.problems == []
    ov.end("run_script")
    said = [(problem.slug, problem.what) for problem in ov.problems]
    expected = [("not-sampled", f"echoes could not be sampled: {why}")] if why else []
    assert (ov.given("echo"), said) == (given, expected)


def test_what_takes_long_is_read_less_often(ov: FakeOverseer, monkeypatch: Any) -> None:
    Echoing.answers = [*range(100)]

    def slow(self: Echoing, now_ns: int) -> Any:  # Three hundred processes: 20 ms.
        ov.clock.advance(0.020)
        return Echoing.answers.pop(0)

    monkeypatch.setattr(Echoing, "read", slow)
    ov.start(Echoing(1.0))
    ov.tick(times=1 + 36)
    assert len(ov.events) == 1 + 6  # The first one imports things.


def test_each_monitor_has_its_own_interval_on_one_timer(ov: FakeOverseer) -> None:
    Echoing.answers = [*range(100)]
    ov.start(Echoing(1.0), Echoing(4.0))
    ov.tick(times=8)
    (timer,) = ov.timers
    assert (timer.seconds, len(ov.events)) == (1.0, 8 + 2)


def test_without_psutil_nothing_is_said_before_the_first_sample_and_then_all_at_once(
    ov: FakeOverseer, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("psutil", "pynvml"):
        monkeypatch.setitem(sys.modules, module, None)  # Importing it would raise ImportError.
    short = FakeOverseer()
    options(short)
    short.end("run_script")
    assert (len(short.timers), short.problems, short.summary) == (2, [], {})
    options(ov)
    ov.tick(times=4)
    ov.end("run_script")
    (problem,) = ov.problems
    assert (problem.slug, problem.who) == ("not-sampled", "instrument_monitors")
    missing = "processors, memory, disks, network, processes could not be sampled: ModuleNotFound"
    assert problem.what.startswith(missing)
    assert "host" not in ov.summary


@pytest.mark.parametrize("kind", [Cpu, Memory, Disk, Network, ProcessTree, Gpu])
def test_a_monitor_declares_its_units_and_refuses_an_impossible_interval(kind: Any) -> None:
    assert {name.split(".")[0] for name in kind.emits} == {kind.key}
    with pytest.raises(UsageError, match=kind.__name__):
        kind(0)
    assert {kind(2), kind(2.0), kind(3)} == {kind(2), kind(3)}


@pytest.mark.parametrize("seconds", [0, -1, math.nan, math.inf, 1e9, 0.001, "soon", None])
def test_an_impossible_interval_is_refused_with_its_name(seconds: object) -> None:
    with pytest.raises(UsageError, match="--poll-gpu") as caught:
        checked_interval(seconds, "--poll-gpu")
    assert caught.value.slug == "bad-interval"


def options(ov: Any, *argv: str) -> None:
    """Take ``instrument_monitors`` to the beginning of the script."""
    ov.argparser = argparse.ArgumentParser()
    ov.require(instrument_monitors)
    ov.end("init")
    ov.argparser.set_defaults(ranks=None)
    ov.options = ov.argparser.parse_args(argv)
    ov.end("parse_args", "load_script")


OPTIONS = {
    "": [0.25, 1.0],
    "--monitor-interval 0.1": [0.1, 0.1],
    "--monitor-interval 5": [0.25, 5.0],
    "--no-monitor": [],
    "--no-monitor --poll-gpu 3": [3.0],
    "--poll-gpu 3": [0.25, 3.0],
}


@pytest.mark.parametrize("argv", OPTIONS)
def test_the_options_say_what_is_sampled_and_how_often(ov: FakeOverseer, argv: str) -> None:
    options(ov, *argv.split())
    assert [timer.seconds for timer in ov.timers] == OPTIONS[argv]


RANK = {"RANK": "3", "LOCAL_RANK": "1", "WORLD_SIZE": "4"}


@pytest.mark.parametrize(
    ("environ", "joins", "expected"),
    [
        ({**RANK, "LOCAL_RANK": "0"}, "", [True, True]),
        (RANK, "", [False]),
        ({**RANK, "CUDA_VISIBLE_DEVICES": "0,1"}, "", [False]),
        ({**RANK, "CUDA_VISIBLE_DEVICES": "1"}, "", [False, True]),
        ({}, "/a/run", [False]),
    ],
)
def test_one_rank_samples_the_machine_and_each_its_own_processes(
    ov: FakeOverseer, environ: dict[str, str], joins: str, expected: list[bool]
) -> None:
    ov.environ, ov.context.joins = environ, joins
    options(ov)
    assert len(ov.timers) == len(expected)
    ov.tick(times=3)
    ov.end("run_script")
    cpu = ov.summary["host"]["cpu"]
    assert ("mean" in cpu, "mean" in cpu["process"]) == (expected[0], True)
    assert ("total" in ov.summary["host"]["memory"]) == expected[0]


VOIRFILE = """
    from voir.instruments import Cpu, log
    from voir.instruments.monitor import monitor

    def instrument_own(ov):
        yield ov.phases.load_script
        ov.require(Cpu(0.1), log("cpudata", "memdata"))
        yield from monitor(ov, 0.1, memdata=lambda: "own")
    """


def test_a_voirfile_replaces_a_monitor_until_the_script_begins(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.write("main.py", "import time; time.sleep(0.8)")
    place.write("voirfile.py", VOIRFILE)
    ran = place.voir("--run-dir", "run", "main.py")
    assert (ran.status, "[" in ran.stderr) == (0, False)
    logged = (tmp_path / "run/metrics.jsonl").read_text()
    assert logged.count('"cpudata"') >= 3
    assert logged.count('"memdata": "own"') >= 3
    assert "available" not in logged
