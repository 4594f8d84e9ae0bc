"""On a device the device's own clock decides, late, and nobody waits for it on the way."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import pytest

from overseer.boundary import StopProgram
from overseer.clock import FakeClock
from overseer.measure.accelerator import TorchDevice, find_device
from overseer.measure.device import FakeDevice, HostDevice, LeftAlone
from overseer.measure.losses import Losses
from overseer.measure.notes import BATCH
from overseer.measure.steps import LATE, StepModel
from overseer.measure.timeline import Timeline

from .program import FORMS, Program, Tensor

WATCHED = [form for form in FORMS if "loader" in form]


def on_device(form: str, **epoch: Any) -> Program:
    program = Program(form, device=True)
    for turn in range(3):
        program.epoch(100, **{"compute": lambda step: 1.0 if step == 0 else 0.010, **epoch})
        if turn < 2:
            program.pause(2.0)
    program.finish()
    return program


@pytest.mark.parametrize("form", WATCHED)
def test_shares_are_the_devices_within_one_percent(form: str) -> None:
    """The host loads for 4 ms a step; the device waits only after the script has read a loss."""
    program = on_device(form)
    section = program.section()
    assert section["rate"]["clock"] == "fake events"
    idle = program.loading - 0.004
    assert section["loading"]["seconds"] == pytest.approx(idle, rel=0.01)
    assert section["compute"]["seconds"] == pytest.approx(299 * 0.010, rel=0.01)
    assert section["rate"]["steady"] == pytest.approx(299 * 32 / (idle + 2.99), rel=0.01)


@pytest.mark.parametrize("form", FORMS)
def test_pauses_are_the_devices_within_one_percent(form: str) -> None:
    pause = on_device(form, checkpoint=lambda step: 0.5 if step % 50 == 24 else 0).section()[
        "pause"
    ]
    assert 0 < pause.pop("unexplained") <= 8  # Their length is all there is to tell them by.
    assert pause == {"seconds": pytest.approx(7.0, rel=0.01), "count": 8}


@pytest.mark.parametrize("form", [form for form in FORMS if form != "step"])
def test_the_first_step_is_the_devices(form: str) -> None:
    first = on_device(form).section()["first_step_seconds"]
    assert first == pytest.approx(1.004 if "loader" in form else 1.0)


def test_the_hosts_clock_would_have_been_wrong() -> None:
    """What lightly-train#749 reports: 60 % data wait by the host's clock, 10 % in truth."""
    program = Program("pair", device=True)
    program.epoch(400)
    host = Program("pair")
    host.epoch(400, compute=0.000_005)
    for each in (program, host):
        each.finish()
    assert host.section()["loading"]["share"] > 0.99
    assert program.section()["loading"]["share"] < 0.1


def test_nothing_waits_for_the_device_before_the_end() -> None:
    program = Program("loader, pair", device=True)
    program.epoch(50)
    assert program.device is not None
    assert program.device.waited == 0
    program.finish()
    assert program.device.waited == 1


def test_steps_come_when_the_device_has_passed_them_and_not_before() -> None:
    program = Program("pair", device=True)
    assert program.device is not None
    program.epoch(3, compute=10.0)
    program.model.drain()
    assert program.steps == []
    program.clock.advance(25)
    program.model.drain()
    assert len(program.steps) == 1
    program.finish()
    assert len(program.steps) == 3


def test_a_step_that_is_told_of_late_ended_when_the_device_had_passed_its_mark() -> None:
    program = Program("step", device=True)
    told: list[dict[str, Any]] = []
    for _ in range(5):
        program.work(0.010)
        now = program.clock.now_ns()
        late, told = told, [{"$ended": now, "$mark": program.model.mark(now)}]
        program.clock.advance(0.002)
        for event in late:  # Of each step the next one tells.
            program.give(**event, step=True, batch=Tensor(8))
        program.synchronize()
    program.give(**told[0], step=True, batch=Tensor(8))
    program.finish()
    times = [step.busy_ns for step in program.steps[1:]]
    assert times == [10_000_000] * 4


def test_without_a_device_there_is_no_mark() -> None:
    program = Program("step")
    assert program.model.mark(program.clock.now_ns()) is None


def test_marks_go_back_to_the_device() -> None:
    program = Program("loader, pair, step", device=True)
    program.epoch(200)
    program.finish()
    assert program.device is not None
    assert program.device.released == program.device.recorded - 1


def test_boundaries_with_nothing_between_share_a_mark() -> None:
    program = Program("loader, pair, step", device=True)
    program.epoch(200)
    program.finish()
    assert program.device is not None
    assert program.device.recorded <= 2 * 200 + 200 // 4 + 3  # Every fourth step waits.


def test_work_launched_in_an_instant_is_seen() -> None:
    """A CUDA graph: one launch of a few microseconds holds the whole step."""
    program = Program("pair", device=True)
    program.epoch(50, load=0.0, compute=0.01)
    program.finish()
    assert program.section()["compute"]["seconds"] == pytest.approx(49 * 0.01)


def test_a_lost_device_is_reported_once_and_the_host_goes_on() -> None:
    program = Program("pair", device=True)
    assert program.device is not None
    program.epoch(30)
    program.device.lost = True
    program.device = None
    program.epoch(30)
    program.finish()
    assert program.section()["steps"] == 60
    assert [problem.slug for problem in program.problems] == ["device-clock"]
    assert "device lost" in program.problems[0].what
    assert program.model.clock_name == "perf_counter"


def test_a_device_library_that_fails_to_load_is_reported_and_the_host_goes_on() -> None:
    def broken() -> None:
        raise OSError("libcuda.so.1: cannot open shared object file")

    problems: list[Any] = []
    model = StepModel(FakeClock(), find_device=broken, report=problems.append)
    for _ in range(3):
        model({"step": True, "batch_size": 8})
    model.finish()
    assert len(problems) == 1
    assert "libcuda" in problems[0].what


def test_a_device_that_passes_nothing_does_not_fill_the_memory() -> None:
    program = Program("step", device=True)
    assert program.device is not None
    program.device.launch(1e6)
    for _ in range(2 * LATE + BATCH):
        program.clock.advance(0.01)
        program.give(step=True, batch_size=8)
    assert program.model.waiting <= LATE + BATCH
    assert len(program.steps) >= LATE - 64


def test_a_device_that_comes_into_use_later_is_found() -> None:
    clock = FakeClock()
    found: list[FakeDevice] = []
    model = StepModel(clock, find_device=lambda: found[0] if found else None)
    model({"step": True, "batch_size": 8})
    model.drain()
    assert model.clock_name == "perf_counter"
    found.append(FakeDevice(clock))
    model.drain()
    assert model.clock_name == "fake events"


def test_a_host_device_is_the_clock() -> None:
    clock = FakeClock()
    device = HostDevice(clock)
    first = device.mark()
    clock.advance(1.5)
    assert device.elapsed_ns(first, device.mark()) == 1_500_000_000
    assert device.done(first)


def test_a_timeline_sums_device_times_and_never_runs_back() -> None:
    clock = FakeClock(now_ns=1000)
    device, line = FakeDevice(clock), Timeline(1000)
    first = device.mark()
    device.launch(2.0)
    second = device.mark()
    assert line.marked(1000, first, device) == 1000
    assert line.marked(1500, second, device) == 2_000_001_000
    assert line.unmarked(1600) == 2_000_001_100
    assert line.unmarked(100) == 2_000_001_100


def test_what_passes_between_two_marks_is_the_devices_time_alone() -> None:
    clock = FakeClock()
    device, line = FakeDevice(clock), Timeline(0)
    line.marked(0, device.mark(), device)
    clock.advance(0.5)
    assert line.unmarked(500_000_000) == 500_000_000
    device.launch(1.5)
    assert line.marked(500_000_000, device.mark(), device) == 2_000_000_000


class Event:
    """A torch event on a stream that is ``now`` seconds along."""

    now = 0.0
    made = 0

    def __init__(self, enable_timing: bool = False, device: str = "") -> None:
        assert enable_timing
        Event.made += 1

    def record(self) -> None:
        self.at = Event.now

    def query(self) -> bool:
        return True

    def elapsed_time(self, end: Event) -> float:
        return (end.at - self.at) * 1e3


def torch(kind: str = "cuda", initialized: bool = True, **module: Any) -> Any:
    inner = SimpleNamespace(
        Event=Event, is_initialized=lambda: initialized, synchronize=lambda: None, **module
    )
    accelerator = SimpleNamespace(
        current_accelerator=lambda: SimpleNamespace(type=kind), synchronize=lambda: None
    )
    return SimpleNamespace(Event=Event, accelerator=accelerator, **{kind: inner})


def test_torch_events_are_recorded_read_in_nanoseconds_and_used_again() -> None:
    Event.made, Event.now = 0, 0.0
    device = TorchDevice(torch(), "cuda")
    first = device.mark()
    Event.now = 0.25
    second = device.mark()
    assert device.done(first)
    assert device.elapsed_ns(first, second) == 250_000_000
    device.release(first)
    assert device.mark() is first
    assert Event.made == 2


def test_nothing_is_recorded_into_a_graph_that_is_being_captured() -> None:
    device = TorchDevice(torch(is_current_stream_capturing=lambda: True), "cuda")
    assert device.mark() is None


@pytest.mark.parametrize("kind", ["cuda", "xpu", "mtia"])
def test_an_accelerator_in_use_is_found_by_its_name(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "torch", torch(kind))
    found = find_device()
    assert found is not None
    assert found.name == f"{kind} events"


def test_an_accelerator_that_the_script_does_not_use_is_left_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "torch", torch(initialized=False))
    assert find_device() is None


def test_memory_tells_where_a_library_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = torch("other")
    del fake.other.is_initialized
    fake.other.current_allocated_memory = lambda: 1024
    monkeypatch.setitem(sys.modules, "torch", fake)
    found = find_device()
    assert found is not None
    assert found.kind == "other"


@pytest.mark.parametrize("kind", ["mps", "npu", "hpu"])
def test_a_clock_that_would_hold_up_the_script_is_left_alone_and_that_is_said(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    Event.made = 0
    monkeypatch.setitem(sys.modules, "torch", torch(kind))
    problems: list[Any] = []
    model = StepModel(FakeClock(), find_device=find_device, report=problems.append)
    for _ in range(3):
        model({"step": True, "batch_size": 8})
        model.drain()
    model.finish()
    assert Event.made == 0
    assert [problem.slug for problem in problems] == ["device-clock"]
    assert f"left alone ({kind}: " in problems[0].what
    assert "loading and compute are the script's time" in problems[0].what
    assert model.clock_name == "perf_counter"


def test_such_a_device_is_left_alone_only_when_it_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = torch("mps")
    del fake.mps.is_initialized
    fake.mps.current_allocated_memory = lambda: 0
    monkeypatch.setitem(sys.modules, "torch", fake)
    assert find_device() is None
    fake.mps.current_allocated_memory = lambda: 1024
    with pytest.raises(LeftAlone):
        find_device()


class OnDevice:
    """A loss on a device; ``read`` counts who waited for it."""

    read = 0
    is_cpu = False
    shape = ()

    def detach(self) -> OnDevice:
        return self

    def item(self) -> float:
        OnDevice.read += 1
        return 0.5


def test_losses_on_a_device_that_is_left_alone_are_read_at_the_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    OnDevice.read = 0
    monkeypatch.setitem(sys.modules, "torch", torch("mps"))
    model, losses = StepModel(FakeClock(), find_device=find_device), Losses()
    for _ in range(3):
        model({"step": True, "batch_size": 8})
        losses({"loss": OnDevice()})
        losses({"loss": 0.25})
        model.drain()
        losses.keep_up(model)
    assert OnDevice.read == 0
    model.finish()
    assert losses.read_all(model)
    assert OnDevice.read == 3
    assert losses.summary()["train"].n == 6


def test_numbers_are_read_on_the_way_where_a_device_is_left_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "torch", torch("mps"))
    model, losses = StepModel(FakeClock(), find_device=find_device), Losses()
    model({"step": True, "batch_size": 8})
    losses({"loss": 0.25})
    losses.keep_up(model)
    assert losses.summary()["train"].last == 0.25


class Odd(BaseException):
    """No ``Exception``, and nobody's wish."""


@pytest.mark.parametrize("name", ["mark", "done", "elapsed_ns", "wait"])
def test_whatever_a_device_raises_it_is_lost_and_every_step_counts(name: str) -> None:
    program = Program("pair", device=True)
    device = program.device
    assert device is not None

    def odd(*args: object) -> None:
        raise Odd("odd")

    program.epoch(30)
    setattr(device, name, odd)
    program.epoch(30)
    program.finish()
    assert program.section()["steps"] == 60
    assert [problem.slug for problem in program.problems] == ["device-clock"]


@pytest.mark.parametrize("wish", [KeyboardInterrupt, StopProgram])
def test_a_wish_that_comes_while_a_device_is_asked_is_heard(wish: type[BaseException]) -> None:
    program = Program("pair", device=True)
    assert program.device is not None

    def stopped() -> None:
        raise wish

    program.epoch(3)
    setattr(program.device, "mark", stopped)  # noqa: B010 - Its class has it otherwise.
    with pytest.raises(wish):
        program.epoch(1)


def test_torch_is_not_imported_to_look_for_a_device(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    assert find_device() is None
    assert "torch" not in sys.modules


def test_torch_half_imported_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(__spec__=None))
    assert find_device() is None
