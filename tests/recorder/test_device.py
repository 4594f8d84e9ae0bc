"""A device's own clock decides, late; nothing waits for it, or shows in the script."""

from __future__ import annotations

import ctypes
import os
import sys
from types import SimpleNamespace
from typing import Any

import pytest

from overseer.model.fold import Fold
from overseer.model.steps import Step
from overseer.recorder import device as on
from overseer.recorder import sites as k
from overseer.recorder.device import ASKED, Marks, find_device, find_exchange, harmless
from overseer.recorder.values import Values

from .conftest import Recorded
from .fake_torch import GLOBAL, RELAXED, THREAD_LOCAL, FakeCuda, fake_torch

MS = 1_000_000
LOADING, FORWARD, BACKWARD, OPTIMIZER, COMMUNICATION, OTHER = range(6)


class Script:
    """A training on fake GPUs, recorded, marked and folded.

    The recorder's clock is the fake one: only :meth:`work` and :meth:`host` let time pass.
    """

    def __init__(self, recorded: Recorded, cuda: FakeCuda) -> None:
        self.recorder, self.cuda = recorded.module, cuda
        self.said: list[str] = []
        self.slept = 0.0
        self.interrupted = False
        self.marks = Marks(self.said.append, exchange=lambda: cuda.exchange, sleep=self.sleep)
        self.steps: list[Step] = []
        self.sites = [dict(row) for row in k.table.rows]
        self.fold = Fold(k.table.rows, self.steps.append)
        self._read = recorded.data
        self._loader, self._model, self._optimizer = object(), object(), object()
        spans = {k.LOADING: 1, k.FORWARD: 1, k.BACKWARD: -1, k.SAVE: -1, k.COMMUNICATION: -1}
        span, add = self.recorder.span, k.table.add
        self._spans = {
            kind: span(add(kind, "x"), kind, self._run, 0, 0 if at > 0 else -1)
            for kind, at in spans.items()
        }
        self._step = self.recorder.Site(k.table.add(k.OPTIMIZER, "step"), k.OPTIMIZER)
        self.recorder.put(0, k.MADE, k.table.add(k.MADE, "made"), 1, 0, 0.0, 1, 0)

    def sleep(self, seconds: float) -> None:
        if self.interrupted:
            raise KeyboardInterrupt
        self.slept += seconds
        self.cuda.now += round(seconds * 1e9)

    def _run(self, of: object, host: float, device: float, then: Any = None) -> None:
        self.cuda.current_stream().launch(round(device * MS))
        self.cuda.now += round(host * MS)
        if then is not None:
            then()

    def span(self, kind: int, host: float, device: float = 0.0, then: Any = None) -> None:
        of = self._loader if kind == k.LOADING else self._model
        self._spans[kind](of, host, device, then)

    def optimize(self, host: float, device: float, within: Any = None) -> None:
        self._step.enter(self._optimizer)
        if within is not None:
            within()
        self._run(None, host, device)
        self._step.leave(self._optimizer)

    def other(self, host: float, device: float = 0.0) -> None:
        self._run(None, host, device)

    def wait(self) -> None:
        """The script reads its loss: it waits for the device."""
        self.cuda.now = max(self.cuda.now, self.cuda.current_stream().free_at)

    def step(self, load: float = 0.1, wait: bool = False) -> None:
        """10 ms on the device, and about 1 ms on the host without loading."""
        self.span(k.LOADING, load)
        self.other(0.1, 0.5)
        self.span(k.FORWARD, 0.2, 3.0)
        self.other(0.1, 0.5)
        self.span(k.BACKWARD, 0.2, 5.0)
        self.optimize(0.2, 1.0)
        if wait:
            self.wait()

    def tick(self) -> None:
        """What voir's timer does."""
        before, self.cuda.thread = self.cuda.thread, "voir"
        self.marks.tick()
        self.feed()
        self.cuda.thread = before

    def feed(self) -> None:
        self.fold.feed(self._read())

    def finish(self) -> list[Step]:
        self.marks.finish()
        self.feed()
        self.fold.finish()
        return self.steps

    def parts(self, at: int) -> list[float]:
        """The parts of a finished step, in ms of whole tenths."""
        return [round(ns / MS, 1) for ns in self.steps[at].parts]


@pytest.fixture
def cuda(monkeypatch: pytest.MonkeyPatch) -> FakeCuda:
    made = FakeCuda(gpus=2)
    monkeypatch.setitem(sys.modules, "torch", fake_torch(made))
    return made


@pytest.fixture
def script(recorded: Recorded, cuda: FakeCuda, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(on, "recorder", recorded.module)
    monkeypatch.setattr(on, "SAME_NS", 0)  # The recorder's clock is the machine's.
    monkeypatch.setattr(on, "values", Values())
    made = Script(recorded, cuda)
    made.tick()
    yield made
    recorded.module.marker(0, None)
    assert cuda.broken == []


# What a step is on a device


def test_a_script_that_runs_ahead_is_timed_by_its_device(script: Script) -> None:
    """The host takes 1 ms a step and never waits for its loader as the device sees it."""
    for _ in range(20):
        script.step()
        script.tick()
    assert len(script.steps) < 5, "a step waits for its times"
    script.cuda.now += 300 * MS
    script.finish()
    assert len(script.steps) == 20
    assert script.parts(10) == [0.0, 3.0, 5.0, 1.0, 0.0, 1.0]
    assert script.marks.clock == "cuda events"
    assert script.said == []


def test_loading_is_the_time_in_which_the_device_had_nothing_to_do(script: Script) -> None:
    for _ in range(5):
        script.step(load=4.0, wait=True)
    script.finish()
    assert script.parts(3) == [4.0, 3.0, 5.0, 1.0, 0.0, 1.0]


def test_a_wait_now_and_then_is_no_pause(script: Script) -> None:
    """The host reads its loss in every tenth step, which takes it 100 ms; the device 10 ms."""
    for number in range(100):
        script.step(wait=number % 10 == 9)
        script.tick()
    script.finish()
    assert not script.fold.tasks["train"].pauses.count
    assert {round(step.ns / MS) for step in script.steps[1:]} == {10}


def test_the_work_of_an_optimizers_closure_is_no_part_of_the_optimizer(script: Script) -> None:
    """As Lightning does: forward and backward lie within the optimizer's step."""

    def closure() -> None:
        script.span(k.FORWARD, 0.1, 3.0)
        script.other(0.1, 0.5)
        script.span(k.BACKWARD, 0.1, 5.0)

    for _ in range(3):
        script.span(k.LOADING, 0.1)
        script.optimize(0.1, 1.0, closure)
    script.cuda.now += 100 * MS
    script.finish()
    assert script.parts(1) == [0.0, 3.0, 5.0, 1.5, 0.0, 0.0]


def test_saving_is_no_part_of_a_step(script: Script) -> None:
    for number in range(4):
        script.step(wait=True)
        if number == 1:
            script.span(k.SAVE, 500.0)
    script.finish()
    assert [round(step.ns / MS) for step in script.steps[1:]] == [10, 10, 10]
    assert script.fold.tasks["train"].pauses.count == 1


def test_what_the_script_waits_for_in_a_for_is_loading(script: Script) -> None:
    def batches() -> Any:
        for _ in range(4):
            script.cuda.now += 4 * MS
            yield [1]

    for _ in script.recorder.loop(k.table.add(k.LOOP, "for"), batches()):
        script.span(k.FORWARD, 0.2, 3.0)
        script.span(k.BACKWARD, 0.2, 5.0)
        script.optimize(0.2, 1.0)
        script.wait()
        script.other(2.0)
    script.finish()
    assert script.parts(2) == [4.0, 3.0, 5.0, 1.0, 0.0, 2.0]


def test_pairs_and_steps_that_are_given_are_timed_by_the_device(script: Script) -> None:
    """Without hooks: a pair splits a step; ``pause`` is none of it."""
    pair, ends = (
        script.recorder.Site(0, k.VALUE, ring=1, keys=("x",), role=role, pair=7, name="step")
        for role in (k.BEGINS, k.ENDS)
    )
    pause, resumed = (
        script.recorder.Site(0, k.VALUE, ring=1, keys=("x",), role=role, pair=8, name="pause")
        for role in (k.BEGINS, k.ENDS)
    )
    for site, kind in ((pair, k.PAIR), (ends, k.PAIR), (pause, k.PAUSE), (resumed, k.PAUSE)):
        site.record(k.table.add(kind, "given"), kind, 0, -1, k.NOTHING)
    for number in range(5):
        script.other(4.0)
        pair.event(1)
        script.other(0.1, 6.0)
        script.wait()
        ends.event(1)
        if number == 2:
            pause.event(1)
            script.other(300.0)
            resumed.event(1)
    script.finish()
    assert [script.parts(at)[LOADING] for at in range(1, 5)] == [4.0] * 4
    assert [round(step.ns / MS) for step in script.steps[1:]] == [10] * 4


def test_what_the_device_has_to_do_at_the_end_is_part_of_the_run(script: Script) -> None:
    for _ in range(50):
        script.step()
    script.finish()
    task = script.fold.tasks["train"]
    assert task.end - task.start > 50 * 9 * MS


# Nothing shows in the script


def test_nothing_waits_for_the_device_on_the_way(script: Script) -> None:
    for _ in range(20):
        script.step()
        script.tick()
    assert script.slept == 0


@pytest.mark.parametrize("mode", [GLOBAL, THREAD_LOCAL])
def test_a_graph_that_is_being_captured_is_not_spoilt(script: Script, mode: int) -> None:
    """PyTorch's own watchdog did that: pytorch/pytorch#104487."""
    for _ in range(5):
        script.step(wait=True)
    with script.cuda.graph(mode):
        script.step()
        script.tick()
    script.span(k.LOADING, 0.1, then=lambda: script.cuda.graph(mode).__enter__())
    script.tick()
    assert script.cuda.broken == []
    script.cuda._captured = None
    for _ in range(5):
        script.step(wait=True)
    script.finish()
    assert len(script.steps) == 11
    assert (script.said, script.marks.clock) == ([], "cuda events")


def test_events_are_used_again(script: Script) -> None:
    for _ in range(300):
        script.step(wait=True)
        script.tick()
    assert script.cuda.made < 50


def test_boundaries_with_nothing_between_share_a_mark(
    script: Script, monkeypatch: pytest.MonkeyPatch
) -> None:
    marks, device = script.marks, script.marks.device
    assert device is not None
    monkeypatch.setattr(on, "SAME_NS", 10_000)
    for at, edge in ((0, k.BEGINS), (5_000_000, k.ENDS), (5_004_000, k.BEGINS)):
        assert marks.mark(1, at, at, edge, 0)
    assert script.cuda.made == 2


def test_another_device_that_becomes_the_current_one_is_no_failure(script: Script) -> None:
    """An event belongs to the device that it was first recorded on; so does a pool of them."""
    assert script.marks.device is not None
    script.marks.device._instead.clear()  # It has tensors on both.
    for gpu in (0, 1, 0, 1):
        script.cuda.set_device(gpu)
        for _ in range(20):
            script.step(wait=True)
        script.tick()
    script.finish()
    assert (len(script.steps), script.said) == (80, [])
    assert script.parts(30) == [0.1, 3.0, 5.0, 1.0, 0.0, 1.0]


def test_a_device_that_is_not_the_current_one_is_found_by_its_memory(
    recorded: Recorded, cuda: FakeCuda, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A model on cuda:1 in a script that never calls set_device: nothing may be put on cuda:0."""
    cuda.gpus[0].context, cuda.gpus[0].allocated, cuda.gpus[1].allocated = False, 0, 1 << 30
    device = find_device()
    assert isinstance(device, on.Device)
    assert device.mark().device.index == 1
    assert not cuda.gpus[0].context


# Which device is in use


@pytest.mark.parametrize(
    ("change", "found"),
    [
        ({}, "cuda events"),
        ({"initialized": False}, None),
        ({"allocated": 0, "context": False}, None),
        ({"allocated": 0, "context": True}, "cuda events"),  # An allocator that does not count.
    ],
)
def test_a_device_is_in_use_once_something_is_on_it(
    cuda: FakeCuda, change: dict[str, Any], found: str | None
) -> None:
    for name, value in change.items():
        setattr(cuda if name == "initialized" else cuda.gpus[0], name, value)
    device = find_device()
    assert (device.name if isinstance(device, on.Device) else device) == found


@pytest.mark.parametrize("torch", [None, SimpleNamespace(__spec__=None)])
def test_torch_is_not_imported_to_look_for_a_device(
    torch: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    if torch is not None:
        monkeypatch.setitem(sys.modules, "torch", torch)  # Half imported.
    assert find_device() is None
    assert sys.modules.get("torch") is torch


def test_torch_before_it_had_accelerators_is_asked_what_was_started(
    cuda: FakeCuda, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(sys.modules["torch"], "accelerator")
    assert isinstance(find_device(), on.Device)


@pytest.mark.parametrize("kind", ["mps", "npu", "hpu"])
def test_a_device_whose_clock_would_show_is_left_alone_and_that_is_said_once(
    kind: str, recorded: Recorded, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(on, "recorder", recorded.module)
    module = SimpleNamespace(current_allocated_memory=lambda: 1024)
    monkeypatch.setitem(sys.modules, "torch", fake_torch(module, kind))
    said: list[str] = []
    marks = Marks(said.append)
    for _ in range(3):
        marks.tick()
    assert (len(said), marks.clock, marks.device) == (1, None, None)
    assert f"is left alone ({kind}: " in said[0]
    assert not Values().hold(SimpleNamespace(device=SimpleNamespace(type=kind), shape=()), 1, 1)


# Devices that fail


def test_a_lost_device_is_said_once_and_the_host_goes_on(script: Script) -> None:
    for _ in range(20):
        script.step(wait=True)
    script.tick()
    script.cuda.lost = True
    for _ in range(20):
        script.step(wait=True)
        script.tick()
    script.finish()
    assert len(script.steps) == 40
    assert len(script.said) == 1
    assert "unspecified launch failure" in script.said[0]
    assert script.marks.clock is None


def test_a_library_that_fails_to_look_is_said_once(script: Script) -> None:
    def broken() -> None:
        raise OSError("libcuda.so.1: cannot open shared object file")

    marks = Marks(script.said.append, find=broken)
    assert (marks.tick(), marks.tick()) == (0, 0)
    assert len(script.said) == 1


@pytest.mark.parametrize("interrupted", [False, True])
def test_the_end_does_not_wait_for_ever_for_a_device_that_hangs(
    script: Script, interrupted: bool
) -> None:
    """A collective that the other ranks never join: Ctrl-C must end the run all the same."""
    for _ in range(20):
        script.step(wait=True)
    script.other(0.1, 1e9)
    script.step()
    script.interrupted = interrupted
    script.finish()
    assert len(script.steps) == 21
    assert round(script.slept, 3) <= ASKED / 1000
    assert len(script.said) == 1
    assert ("interrupted" if interrupted else "5 s after") in script.said[0]
    assert script.marks.clock is None


def test_a_run_whose_device_is_done_does_not_wait(script: Script) -> None:
    script.step(wait=True)
    script.finish()
    assert script.slept == 0


def test_a_device_that_passes_nothing_fills_no_memory(
    script: Script, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(on, "PENDING", 64)
    script.other(0.1, 1e9)
    for _ in range(100):
        script.step()
        script.tick()
    assert len(script.marks._pending) <= 64 + 8
    script.interrupted = True
    assert len(script.finish()) == 100


def test_a_ctrl_c_in_a_mark_passes_on(recorded: Recorded) -> None:
    def interrupted(*args: int) -> bool:
        raise KeyboardInterrupt

    span = recorded.module.span(k.table.add(k.SAVE, "x"), k.SAVE, abs)
    recorded.module.marker(on.KINDS, interrupted)
    with pytest.raises(KeyboardInterrupt):
        span(-1)
    recorded.module.marker(on.KINDS, lambda *args: 1 / 0)
    assert span(-1) == 1
    recorded.module.marker(0, None)
    assert span(-1) == 1
    assert [(e.depth, e.flags & k.MARKED) for e in recorded.take()][-2:] == [(0, 0), (0, 0)]


def test_a_mark_is_asked_for_with_an_exception_on_its_way(recorded: Recorded) -> None:
    asked: list[tuple[int, ...]] = []

    def mark(*args: int) -> bool:
        asked.append(args)
        return True

    def fails() -> None:
        raise ZeroDivisionError("no")

    recorded.module.marker(on.KINDS, mark)
    with pytest.raises(ZeroDivisionError, match="no"):
        recorded.module.span(k.table.add(k.SAVE, "x"), k.SAVE, fails)()
    (event,) = recorded.take()
    assert event.flags == k.FAILED | k.MARKED
    begin, end = asked
    assert begin == (event.thread, event.start, event.start, k.BEGINS, 0)
    assert end == (event.thread, event.start, event.start + event.ns, k.ENDS, 0)


# The mode of a thread


@pytest.fixture
def mode(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The calling thread's mode, as CUDA's driver has it."""
    held = [GLOBAL]

    def swap(reference: Any) -> int:
        given = reference._obj
        held[0], given.value = given.value, held[0]
        return 0

    def load(name: str, mode: int) -> Any:
        assert mode == os.RTLD_NOLOAD, "no driver is loaded for it"
        if name != "libcuda.so.1":
            raise OSError(name)
        return SimpleNamespace(cuThreadExchangeStreamCaptureMode=swap)

    monkeypatch.setattr(ctypes, "CDLL", load)
    return held


@pytest.mark.parametrize("before", [GLOBAL, THREAD_LOCAL])
def test_a_threads_mode_is_set_by_the_driver_and_is_then_as_before(
    mode: list[int], before: int
) -> None:
    mode[0] = before
    with pytest.raises(ValueError, match="lost"), harmless(find_exchange()):
        assert mode == [RELAXED]
        raise ValueError("lost")
    assert mode == [before]


def test_without_a_driver_the_device_is_asked_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    def load(name: str, mode: int) -> Any:
        raise OSError("not loaded")

    monkeypatch.setattr(ctypes, "CDLL", load)
    assert find_exchange() is None
    with harmless(None):
        pass
