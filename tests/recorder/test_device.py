"""A device's own clock decides, late; nothing waits for it, or shows in the script."""

from __future__ import annotations

import ctypes
import os
import sys
from functools import partial
from types import SimpleNamespace

import pytest

from overseer.model.fold import Fold
from overseer.recorder import device as on
from overseer.recorder import sites as k
from overseer.recorder.device import ASKED, Marks, find_device, find_exchange, harmless
from overseer.recorder.values import Values

from .fake_torch import GLOBAL, RELAXED, THREAD_LOCAL, FakeCuda, fake_torch

MS = 1_000_000


class Script:
    """A training on fake GPUs, recorded, marked and folded; times are milliseconds.

    The recorder's clock is the fake one: only :meth:`wait` and what runs let time pass.
    """

    def __init__(self, recorded, cuda):
        self.recorder, self.cuda, self._read = recorded.module, cuda, recorded.data
        self.said, self.steps, self.slept, self.interrupted = [], [], 0.0, False
        self.marks = Marks(self.said.append, exchange=lambda: cuda.exchange, sleep=self._sleep)
        self.fold = Fold(k.table.rows, self.steps.append)
        add, span = k.table.add, self.recorder.span
        owned = {k.LOADING: 0, k.FORWARD: 0, k.BACKWARD: -1, k.SAVE: -1}
        self._spans = {
            kind: span(add(kind, "x"), kind, self._run, 0, at) for kind, at in owned.items()
        }
        self._step = self.recorder.Site(add(k.OPTIMIZER, "step"), k.OPTIMIZER)
        self.recorder.put(0, k.MADE, add(k.MADE, "made"), 1, 0, 0.0, 1, 0)

    def _sleep(self, seconds):
        if self.interrupted:
            raise KeyboardInterrupt
        self.slept += seconds
        self.cuda.now += round(seconds * 1e9)

    def _run(self, of, host, device=0.0, then=lambda: None):
        self.cuda.current_stream().launch(round(device * MS))
        self.cuda.now += round(host * MS)
        then()

    def span(self, kind, *took):
        self._spans[kind](self, *took)

    def other(self, *took):
        self._run(None, *took)

    def model(self):
        self.span(k.FORWARD, 0.2, 3.0)
        self.other(0.1, 0.5)
        self.span(k.BACKWARD, 0.2, 5.0)

    def optimize(self, within=lambda: None):
        self._step.enter(self)
        within()
        self.other(0.2, 1.0)
        self._step.leave(self)

    def wait(self):
        """The script reads its loss: it waits for the device."""
        self.cuda.now = max(self.cuda.now, self.cuda.current_stream().free_at)

    def run(self, n, tick=True, load=0.1, wait=False):
        """Steps of 10 ms on the device, and 1 ms on the host, with voir's timer after each."""
        for _ in range(n):
            self.span(k.LOADING, load)
            self.other(0.1, 0.5)
            self.model()
            self.optimize()
            if wait:
                self.wait()
            if tick:
                self.tick()

    def tick(self):
        self.cuda.thread = "voir"
        self.marks.tick()
        self.fold.feed(self._read())
        self.cuda.thread = "script"

    def finish(self):
        self.marks.finish()
        self.fold.feed(self._read())
        self.fold.finish()
        return len(self.steps)

    def parts(self, at):
        """Loading, forward, backward, optimizer, communication, other, in whole tenths."""
        return [round(ns / MS, 1) for ns in self.steps[at].parts]

    def lasted(self):
        """How often the training has paused, and how long steps took."""
        steps = {round(step.ns / MS) for step in self.steps[1:]}
        return self.fold.tasks["train"].pauses.count, steps


@pytest.fixture
def cuda(monkeypatch):
    made = FakeCuda()
    monkeypatch.setitem(sys.modules, "torch", fake_torch(made))
    return made


@pytest.fixture
def script(recorded, cuda, monkeypatch):
    monkeypatch.setattr(on, "recorder", recorded.module)
    monkeypatch.setattr(on, "SAME_NS", 0)  # The recorder's clock is the machine's.
    monkeypatch.setattr(on, "values", Values())
    made = Script(recorded, cuda)
    made.tick()
    yield made
    recorded.module.marker(0, None)
    assert cuda.broken == []


# What a step is on a device


def test_a_script_that_runs_ahead_is_timed_by_its_device_without_waiting_for_it(script):
    """The host takes 1 ms a step and never waits for its loader as the device sees it."""
    script.run(50)
    assert (len(script.steps) < 10, script.slept) == (True, 0), "a step waits for its times"
    assert script.finish() == 50
    assert script.parts(10) == [0.0, 3.0, 5.0, 1.0, 0.0, 1.0]
    assert (script.marks.clock, script.said) == ("cuda events", [])
    task = script.fold.tasks["train"]
    assert task.end - task.start > 50 * 9 * MS, "what the device does at the end is part of it"


def test_loading_is_the_time_in_which_the_device_had_nothing_to_do(script):
    script.run(300, load=4.0, wait=True)
    script.finish()
    assert script.parts(3) == [4.0, 3.0, 5.0, 1.0, 0.0, 1.0]
    assert script.slept == 0, "nothing is waited for where the device is done"
    assert script.cuda.made < 50, "events are used again"


def test_a_wait_now_and_then_is_no_pause_and_saving_is_no_part_of_a_step(script):
    """The host reads its loss in every tenth step, which takes it 100 ms; the device 10 ms."""
    for _ in range(10):
        script.run(9)
        script.run(1, wait=True)
    script.span(k.SAVE, 500.0)
    script.run(2, tick=False, wait=True)
    assert (script.finish(), script.lasted()) == (102, (1, {10}))


def test_the_work_of_an_optimizers_closure_is_no_part_of_the_optimizer(script):
    """As Lightning does: forward and backward lie within the optimizer's step."""
    for _ in range(3):
        script.span(k.LOADING, 0.1)
        script.optimize(script.model)
    script.cuda.now += 100 * MS
    script.finish()
    assert script.parts(1) == [0.0, 3.0, 5.0, 1.5, 0.0, 0.0]


def asynchronously(recorder, site, batches):
    """As the hooks record an ``async for``."""
    recorder.asks(site)
    for batch in batches:
        recorder.came(site, batch)
        yield batch
        recorder.asks(site)
    recorder.came(site)


@pytest.mark.parametrize("how", ["for", "async for"])
def test_what_the_script_waits_for_in_a_for_is_loading(script, how):
    loop = script.recorder.loop if how == "for" else partial(asynchronously, script.recorder)

    def batches():
        for _ in range(4):
            script.cuda.now += 4 * MS
            yield [1]

    for _ in loop(k.table.add(k.LOOP, "for"), batches()):
        script.model()
        script.optimize()
        script.wait()
        script.other(2.0)
    script.finish()
    assert script.parts(2) == [4.0, 3.0, 5.0, 1.0, 0.0, 2.5]


def test_pairs_and_steps_that_are_given_are_timed_by_the_device(script):
    """Without hooks: a pair splits a step; ``pause`` is none of it."""

    def given(kind, role):
        pair = k.PAIR if kind in (k.PAIR, k.PAIR_BEGINS) else k.PAUSE
        site = script.recorder.Site(0, k.VALUE, ring=1, keys=("x",), role=role, pair=pair, name="x")
        site.record(k.table.add(kind, "given"), kind, 0, -1, k.NOTHING)
        return site

    begins, ends = given(k.PAIR_BEGINS, k.BEGINS), given(k.PAIR, k.ENDS)
    pause, resumed = given(k.PAUSE_BEGINS, k.BEGINS), given(k.PAUSE, k.ENDS)
    for number in range(5):
        script.other(4.0)
        begins.event(1)
        script.other(0.1, 6.0)
        script.wait()
        ends.event(1)
        if number == 2:
            pause.event(1)
            script.other(300.0)
            resumed.event(1)
    assert script.finish() == 5
    assert [script.parts(at)[0] for at in range(1, 5)] == [4.0] * 4
    assert script.lasted()[1] == {10}


# Nothing shows in the script


@pytest.mark.parametrize("mode", [GLOBAL, THREAD_LOCAL])
def test_a_graph_that_is_being_captured_is_not_spoilt(script, mode):
    """PyTorch's own watchdog did that: pytorch/pytorch#104487."""
    script.run(5, tick=False, wait=True)
    with script.cuda.graph(mode):
        script.run(1)
    script.span(k.LOADING, 0.1, 0.0, lambda: script.cuda.graph(mode).__enter__())
    script.tick()
    assert script.cuda.broken == []
    script.cuda.captured = None
    script.run(5, tick=False, wait=True)
    assert (script.finish(), script.said, script.marks.clock) == (11, [], "cuda events")


def test_boundaries_with_nothing_between_share_a_mark(script, monkeypatch):
    monkeypatch.setattr(on, "SAME_NS", 10_000)
    for at, edge in ((0, k.BEGINS), (5_000_000, k.ENDS), (5_004_000, k.BEGINS)):
        assert script.marks.mark(1, at, at, edge, 0)
    assert script.cuda.made == 2


def test_another_device_that_becomes_the_current_one_is_no_failure(script):
    """An event belongs to the device that it was first recorded on; so does a pool of them."""
    script.marks.device._instead.clear()  # It has tensors on both.
    for gpu in (0, 1, 0, 1):
        script.cuda.set_device(gpu)
        script.run(20, tick=False, wait=True)
        script.tick()
    assert (script.finish(), script.said) == (80, [])
    assert script.parts(30) == [0.1, 3.0, 5.0, 1.0, 0.0, 1.0]


@pytest.mark.parametrize(
    ("initialized", "memory", "context", "found"),
    [
        (True, (1024, 0), True, 0),
        (False, (1024, 0), True, None),
        (True, (0, 0), False, None),
        (True, (0, 0), True, 0),  # The script's allocator does not count.
        (True, (0, 1024), False, 1),  # A model on cuda:1, without set_device.
    ],
)
@pytest.mark.parametrize("accelerator", [True, False], ids=["torch", "torch before 2.6"])
def test_a_device_is_in_use_once_something_is_on_it_and_no_other_is_touched(
    cuda, monkeypatch, initialized, memory, context, found, accelerator
):
    cuda.initialized, cuda.gpus[0].context = initialized, context
    cuda.gpus[0].allocated, cuda.gpus[1].allocated = memory
    if not accelerator:
        monkeypatch.delattr(sys.modules["torch"], "accelerator")
    device = find_device()
    assert (device and device.mark().device.index) == found
    assert cuda.gpus[0].context == context


def test_torch_is_not_imported_to_look_for_a_device(monkeypatch):
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    assert (find_device(), "torch" in sys.modules) == (None, False)
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(__spec__=None))  # Half imported.
    assert find_device() is None


@pytest.mark.parametrize("kind", ["mps", "npu", "hpu"])
def test_a_device_whose_clock_would_show_is_left_alone_and_that_is_said_once(
    kind, script, monkeypatch
):
    module = SimpleNamespace(current_allocated_memory=lambda: 1024)
    monkeypatch.setitem(sys.modules, "torch", fake_torch(module, kind))
    marks = Marks(script.said.append)
    for _ in range(3):
        marks.tick()
    (said,) = script.said
    assert (f"is not used ({kind}: " in said, marks.clock, marks.device) == (True, None, None)
    assert not Values().hold(SimpleNamespace(device=SimpleNamespace(type=kind), shape=()), 1, 1)


# Devices that fail


def test_a_lost_device_is_said_once_and_the_host_goes_on(script):
    script.run(20, tick=False, wait=True)
    script.tick()
    script.cuda.lost = True
    script.run(20, wait=True)
    assert (script.finish(), script.marks.clock) == (40, None)
    (said,) = script.said
    assert "unspecified launch failure" in said
    library = Marks(script.said.append, find=lambda: 1 / 0)
    assert (library.tick(), library.tick(), len(script.said)) == (0, 0, 2)


@pytest.mark.parametrize(("interrupted", "words"), [(False, "5 s after"), (True, "interrupted")])
def test_the_end_does_not_wait_for_ever_for_a_device_that_hangs(
    script, monkeypatch, interrupted, words
):
    """A collective that the other ranks never join: Ctrl-C must end the run all the same."""
    monkeypatch.setattr(on, "MOST_PENDING_MARKS", 64)
    script.other(0.1, 1e9)
    script.run(100)
    assert len(script.marks._pending) <= 64 + 8, "it fills no memory"
    script.interrupted = interrupted
    assert (script.finish(), script.marks.clock) == (100, None)
    assert round(script.slept, 3) <= ASKED / 1000
    (said,) = script.said
    assert words in said


def test_a_ctrl_c_in_a_mark_passes_on(recorded):
    def interrupted(*args):
        raise KeyboardInterrupt

    span = recorded.module.span(k.table.add(k.SAVE, "x"), k.SAVE, abs)
    recorded.module.marker(on.MARKED_KINDS, interrupted)
    with pytest.raises(KeyboardInterrupt):
        span(-1)
    for mark in (lambda *args: 1 / 0, None):
        recorded.module.marker(on.MARKED_KINDS if mark else 0, mark)
        assert span(-1) == 1
    assert [(e.depth, e.flags & k.MARKED) for e in recorded.take()][-2:] == [(0, 0), (0, 0)]


def test_a_mark_is_asked_for_with_an_exception_on_its_way(recorded):
    asked = []
    recorded.module.marker(on.MARKED_KINDS, lambda *args: asked.append(args) or True)
    with pytest.raises(ValueError, match="invalid literal"):
        recorded.module.span(k.table.add(k.SAVE, "x"), k.SAVE, int)("no")
    (event,) = recorded.take()
    assert event.flags == k.FAILED | k.MARKED
    edges = [(event.start, k.BEGINS, 0), (event.start + event.ns, k.ENDS, 0)]
    assert asked == [(event.thread, event.start, *edge) for edge in edges]


# The mode of a thread


@pytest.mark.parametrize("before", [GLOBAL, THREAD_LOCAL])
@pytest.mark.parametrize("driver", ["libcuda.so.1", None])
def test_a_threads_mode_is_set_by_the_driver_if_there_is_one_and_is_then_as_before(
    monkeypatch, before, driver
):
    mode = [before]

    def swap(reference):
        mode[0], reference._obj.value = reference._obj.value, mode[0]

    def load(name, mode):
        assert mode == os.RTLD_NOLOAD, "no driver is loaded for it"
        if name != driver:
            raise OSError(name)
        return SimpleNamespace(cuThreadExchangeStreamCaptureMode=swap)

    monkeypatch.setattr(ctypes, "CDLL", load)
    with pytest.raises(ValueError, match="lost"), harmless(find_exchange()):
        assert mode == [RELAXED if driver else before]
        raise ValueError("lost")
    assert mode == [before]
