"""The rules that all monitors keep: when they sample, what they give, when they are silent."""

from __future__ import annotations

import math
import sys
from typing import Any, ClassVar

import pytest

from instruments.cpu import Cpu
from instruments.disk import Disk
from instruments.gpu import Gpu
from instruments.memory import Memory
from instruments.network import Network
from instruments.process import Process
from instruments.sampling import Monitor, Running, checked_interval
from overseer.errors import UsageError

ALL = (Cpu, Memory, Disk, Network, Process, Gpu)


class Recorder:
    def __init__(self, answers: list[Any]) -> None:
        self.answers = answers
        self.started = 0
        self.reads = 0

    def start(self) -> None:
        self.started += 1

    def read(self) -> Any:
        self.reads += 1
        answer = self.answers.pop(0) if self.answers else None
        if isinstance(answer, BaseException):
            raise answer
        return answer

    def summarise(self, summary: dict[str, Any]) -> None:
        summary["reads"] = self.reads


class Echo(Monitor):
    key: ClassVar[str] = "echo"
    emits: ClassVar[dict[str, str]] = {"echo": "1"}
    recorder: ClassVar[Recorder]

    def sampler(self, ov: Any) -> Recorder:
        return self.recorder


@pytest.fixture
def recorder() -> Recorder:
    Echo.recorder = Recorder(["first", "second", "third"])
    return Echo.recorder


def test_the_first_sample_comes_within_a_three_second_run(ov: Any, recorder: Recorder) -> None:
    ov.require(Echo(10.0))
    ov.walk_to_script()
    (timer,) = ov.timers
    assert (timer.first, timer.seconds) == (0.25, 10.0)


def test_sampling_starts_with_the_script_and_ends_with_it(ov: Any, recorder: Recorder) -> None:
    ov.require(Echo())
    assert ov.timers == [] and recorder.started == 0
    ov.walk_to_script()
    assert ov.timers[0].open and recorder.started == 1
    ov.end_script()
    assert not ov.timers[0].open


def test_a_sample_is_given_at_the_tick_that_took_it(ov: Any, recorder: Recorder) -> None:
    ov.require(Echo())
    ov.walk_to_script()
    ov.tick(0.25)
    now = ov.clock.wall_ns() / 1e9
    assert ov.events == [{"task": "main", "time": now, "echo": "first"}]


def test_a_reading_of_nothing_gives_no_event(ov: Any) -> None:
    Echo.recorder = Recorder([None, "something"])
    ov.require(Echo())
    ov.walk_to_script()
    ov.tick()
    assert ov.events == []
    ov.tick()
    assert ov.given("echo") == ["something"]


def test_the_summary_is_made_even_when_the_script_raises(ov: Any, recorder: Recorder) -> None:
    ov.require(Echo())
    ov.walk_to_script()
    ov.tick()
    ov.end_script(ValueError("the script's own"))
    assert ov.summary == {"reads": 1}
    assert ov.problems == []


@pytest.mark.parametrize("default_first", [True, False])
def test_a_default_monitor_makes_way_for_one_that_was_asked_for(
    ov: Any, recorder: Recorder, default_first: bool
) -> None:
    both = [Echo(1.0, by_default=True), Echo(5.0)]
    ov.require(*(both if default_first else reversed(both)))
    ov.walk_to_script()
    assert [timer.seconds for timer in ov.timers] == [5.0]


def test_monitors_of_two_runs_do_not_make_way_for_each_other(ov: Any, recorder: Recorder) -> None:
    other = type(ov)()
    other.require(Echo())
    ov.require(Echo(by_default=True))
    ov.walk_to_script()
    assert len(ov.timers) == 1


@pytest.mark.parametrize("error", [NotImplementedError("no disks"), FileNotFoundError("/proc/x")])
def test_a_default_monitor_is_silent_for_good_where_the_machine_cannot_tell(
    ov: Any, error: Exception
) -> None:
    recorder = Echo.recorder = Recorder([error, "never read"])
    ov.require(Echo(by_default=True))
    ov.walk_to_script()
    ov.tick()
    ov.tick()
    assert recorder.reads == 1
    assert ov.events == [] and ov.problems == []


def test_a_monitor_that_was_asked_for_lets_the_error_out_to_be_reported(ov: Any) -> None:
    Echo.recorder = Recorder([FileNotFoundError("/proc/x")])
    ov.require(Echo())
    ov.walk_to_script()
    with pytest.raises(FileNotFoundError):
        ov.tick()


def test_a_mistake_in_a_default_sampler_is_not_hidden(ov: Any) -> None:
    Echo.recorder = Recorder([ZeroDivisionError()])
    ov.require(Echo(by_default=True))
    ov.walk_to_script()
    with pytest.raises(ZeroDivisionError):
        ov.tick()


def test_a_run_that_ends_before_the_first_sample_imports_neither_psutil_nor_pynvml(
    ov: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in ("psutil", "pynvml"):
        monkeypatch.setitem(sys.modules, module, None)  # Importing it would raise ImportError.
    ov.require(*(kind() for kind in ALL))
    ov.walk_to_script()
    ov.end_script()
    assert len(ov.timers) == len(ALL)
    assert ov.problems == [] and ov.summary == {}


@pytest.mark.parametrize("kind", ALL)
def test_a_monitor_declares_the_units_of_what_it_gives(kind: type[Monitor]) -> None:
    assert kind.emits
    assert all(name.split(".")[0] == kind.key and unit for name, unit in kind.emits.items())


@pytest.mark.parametrize(
    "seconds", [0, -1, math.nan, math.inf, -math.inf, 1e9, 0.001, "soon", None]
)
def test_an_impossible_interval_is_refused_with_its_name(seconds: object) -> None:
    with pytest.raises(UsageError) as caught:
        checked_interval(seconds, "--poll-gpu")
    assert caught.value.slug == "bad-interval"
    assert "--poll-gpu" in caught.value.what
    assert caught.value.remedy


@pytest.mark.parametrize(("text", "seconds"), [("0.5", 0.5), (2, 2.0), ("86400", 86400.0)])
def test_a_sensible_interval_is_taken(text: object, seconds: float) -> None:
    assert checked_interval(text, "x") == seconds


@pytest.mark.parametrize("kind", ALL)
def test_a_constructor_refuses_an_impossible_interval(kind: type[Monitor]) -> None:
    with pytest.raises(UsageError, match=kind.__name__):
        kind(0)


def test_running_figures_keep_no_list() -> None:
    running = Running()
    for value in (4.0, 1.0, None, 7.0):
        running.add(value)
    assert (running.n, running.mean, running.least, running.greatest) == (3, 4.0, 1.0, 7.0)
    assert running.mean_max() == {"mean": 4.0, "max": 7.0}
    assert Running().mean_max() == {}
