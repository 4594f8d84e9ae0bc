"""Spans around callables and loops: the callable is as before, and each call is recorded."""

from __future__ import annotations

import inspect
import math
import pickle
import threading
import time
import traceback
from collections import UserDict

import pytest

from overseer.recorder import sites as k


def doubled(value: int, *, times: int = 2) -> int:
    """Multiply."""
    return value * times


class Owner:
    def method(self, value):
        return self, value


def test_a_span_looks_like_what_it_stands_around(recorded, monkeypatch):
    span = recorded.module.span(1, k.SAVE, doubled)
    assert (span(3), span(value=3, times=5)) == (6, 15)
    assert (span.__name__, span.__doc__, span.__module__) == ("doubled", "Multiply.", __name__)
    assert inspect.signature(span) == inspect.signature(doubled)
    assert inspect.unwrap(span) is doubled
    with pytest.raises(TypeError, match="doubled"):
        span()
    monkeypatch.setattr(f"{__name__}.doubled", span)
    assert pickle.loads(pickle.dumps(span)) is span


def test_a_span_in_a_class_is_a_method(recorded, monkeypatch):
    monkeypatch.setattr(Owner, "method", recorded.module.span(1, k.SAVE, Owner.method, argument=0))
    owner = Owner()
    bound = owner.method
    called = [owner.method(3), Owner.method(owner, 4), bound(5)]
    assert called == [(owner, value) for value in (3, 4, 5)]
    assert [e.object for e in recorded.take()] == [recorded.module.identity(owner)] * 3


def test_an_exception_passes_and_is_flagged(recorded):
    def fail(error):
        raise error

    span = recorded.module.span(1, k.LOADING, fail, k.RESULT)
    for error in (StopIteration(), KeyboardInterrupt(), ZeroDivisionError("no")):
        with pytest.raises(type(error)) as caught:
            span(error)
        assert caught.value is error
        names = [entry.name for entry in traceback.extract_tb(caught.tb)]
        assert names == ["test_an_exception_passes_and_is_flagged", "fail"] or not recorded.in_c
    assert [e.flags for e in recorded.take()] == [k.ENDED, k.FAILED, k.FAILED]


def test_spans_nest_and_their_depth_saturates_and_comes_back(recorded):
    span = recorded.module.span(1, k.BACKWARD, lambda n: span(n - 1) if n else 0)
    for _ in range(2):
        span(400)
        found = recorded.take()
        assert [e.depth for e in found] == [min(depth, 255) for depth in range(400, -1, -1)]
        assert [e.start for e in found] == sorted((e.start for e in found), reverse=True)
        assert [e.ns for e in found] == sorted(e.ns for e in found)


def test_the_header_shows_what_is_open(recorded):
    span = recorded.module.span(1, k.BACKWARD, lambda: recorded.header().threads[0])
    before = time.perf_counter_ns()
    thread = span()
    assert (thread.kind, thread.native) == (k.BACKWARD, threading.get_native_id())
    assert before <= thread.since <= time.perf_counter_ns()
    assert recorded.header().threads[0].kind == 0


def test_a_result_is_measured_or_named(recorded):
    batches, thing = [{"x": [1, 2, 3]}, UserDict(x=[1, 2])], object()
    span = recorded.module.span(1, k.LOADING, batches.pop, k.RESULT)
    span()
    span()
    recorded.module.span(1, k.ITERATE, lambda: thing, k.IDENTITY)()
    assert recorded.values() == [2.0, 3.0, float(recorded.module.identity(thing))]


class Module:
    """What the recorder reads of a module of torch's."""

    def __init__(self, training=True, parameters=1, **modules):
        self.training = training
        self._parameters = {"weight": parameters} if parameters else {}
        self._modules = modules

    def forward(self, *inputs):
        for module in self._modules.values():
            CALL(module, *inputs)


CALL = Module.forward


@pytest.fixture
def call(recorded, monkeypatch):
    """``Module.__call__`` with a span around it; gradients are on."""
    span = recorded.module.span(1, k.FORWARD, Module.forward, k.MODULE_CALL, 0, inner_site=2)
    monkeypatch.setattr(f"{__name__}.CALL", span)
    recorded.module.tensors({}, {}, lambda: True, None)
    return span


def test_only_root_modules_are_recorded(recorded, call):
    call(Module(False, inner=Module()), {"x": [1, 2]})
    call(Module(parameters=0), [1, 2, 3])
    (event,) = recorded.take()
    assert (event.flags, event.value) == (k.GRAD | k.MODEL, 2.0), "a loss is no model"
    recorded.module.span(3, k.BACKWARD, lambda: call(Module(), [1]))()
    assert [e.site for e in recorded.take()] == [3], "backward calls modules again"


def test_modules_within_are_recorded_on_demand(recorded, call):
    inner, loss, named = Module(), Module(parameters=0), []
    root = Module(inner=inner)
    recorded.module.submodules(True, named.append)
    for module in (root, root, loss):
        call(module, [1])
    identities = [recorded.module.identity(one) for one in (inner, root, inner, root, loss)]
    assert [(e.site, e.object) for e in recorded.take(k.VALUES)] == [(2, i) for i in identities]
    assert named == [root, inner, loss], "each is named once, before its first call"
    recorded.module.forget(identities[0])
    call(root, [1])
    assert named[3:] == [inner], "an address may be another's"
    recorded.take(k.VALUES)
    recorded.module.submodules(False)
    call(root, [1])
    assert recorded.take(k.VALUES) == []
    assert len(recorded.take()) == 4, "roots are steps' business all the same"


def test_a_model_that_fails_leaves_no_depth_behind(recorded, call):
    for _ in range(3):
        with pytest.raises(AttributeError):
            call(Module(bad=object()), [1])
    call(Module(), [1])
    found = [(e.depth, bool(e.flags & k.FAILED)) for e in recorded.take()]
    assert found == [*[(0, True)] * 3, (0, False)]


def test_a_loop_marks_each_wait(recorded):
    batches = (batch for batch in ([1, 2], {"x": [1, 2, 3]}))
    assert len(list(recorded.module.loop(4, batches))) == 2
    found = recorded.take()
    assert [e.flags for e in found] == [0, k.CAME, 0, k.CAME, 0, k.CAME | k.ENDED]
    assert [e.value for e in found if e.value == e.value] == [2.0, 3.0]
    assert len({(e.site, e.object) for e in found}) == 1


def test_a_loop_is_over_what_the_script_said(recorded):
    with pytest.raises(TypeError, match="not iterable"):
        recorded.module.loop(1, 3)
    loop = iter(recorded.module.loop(1, map(int, ["1", "no"])))
    assert next(loop) == 1
    with pytest.raises(ValueError, match="invalid literal"):
        next(loop)
    values = {"a": 1}
    with pytest.raises(RuntimeError, match="changed size"):
        for _ in recorded.module.loop(1, values):
            values["b"] = 2


@pytest.mark.parametrize("iterable", [range(2), [1, 2], (1, 2), {1: 2, 2: 3}])
def test_over_what_never_waits_nothing_is_recorded(recorded, iterable):
    assert list(recorded.module.loop(1, iterable)) == list(iterable)
    assert recorded.take() == []


def test_a_loader_that_is_recorded_itself_is_recorded_once(recorded):
    class Batches:
        left = iter([[1], [0]])

        def __iter__(self):
            return self

        def __next__(self):
            return next(self.left)

    Batches.__next__ = recorded.module.span(2, k.LOADING, Batches.__next__, k.RESULT, 0)
    assert list(recorded.module.loop(1, Batches())) == [[1], [0]]
    assert [(e.site, e.flags) for e in recorded.take()] == [(2, 0), (2, 0), (2, k.ENDED)]


def test_a_backward_of_gradients_that_are_given_has_no_loss(recorded):
    def backward(loss, grad_tensors=None, inputs=None):
        return loss

    span = recorded.module.span(2, k.BACKWARD, backward, k.NUMBER, 0)
    assert (span(1.0, inputs=None), span([2.0], grad_tensors=[None])) == (1.0, [2.0])
    first, second = recorded.take()
    assert (first.value, math.isnan(second.value)) == (1.0, True)


def test_zero_grad_is_told_with_the_next_backward(recorded):
    zero = recorded.module.span(1, k.ZERO_GRAD, abs)
    backward = recorded.module.span(2, k.BACKWARD, abs, k.NUMBER, 0)
    backward(1)
    assert zero(-1) == 1
    backward(2)
    backward(3)
    assert [(e.value, e.flags) for e in recorded.take()] == [(1, 0), (2, k.ZEROED), (3, 0)]


# Waits of DDP's reducer


@pytest.mark.parametrize("elsewhere", [False, True], ids=["its own thread", "the engine's thread"])
def test_the_end_of_backward_is_communication_from_when_its_gradients_are_done(recorded, elsewhere):
    module, queued, marks = recorded.module, [], []
    reduced = module.span(3, k.COMMUNICATION, lambda: None)

    def run(work):
        thread = threading.Thread(target=work)
        (thread.start if elsewhere else work)()
        if elsewhere:
            thread.join()

    def engine():
        for _ in range(2):  # Of two gradients, the first one queues.
            run(lambda: module.gradient(()))
        (at_end,) = queued
        run(lambda: (at_end(), reduced()))

    module.reducer(2, queued.append)
    module.marker(1 << k.BACKWARD | 1 << k.COMMUNICATION, lambda *args: marks.append(args) or True)
    backward = module.span(1, k.BACKWARD, engine)
    backward()
    *inner, wait, around = [e for e in recorded.take() if e.site]
    assert (wait.site, around.site, wait.depth, around.depth) == (2, 1, 1, 0)
    assert (wait.thread, wait.flags & k.MARKED) == (around.thread, k.MARKED)
    assert wait.start + wait.ns == around.start + around.ns
    assert [e.depth for e in inner] == ([0] if elsewhere else [2])
    own = [(start, edge, depth) for thread, start, _, edge, depth in marks if thread == wait.thread]
    nested = [] if elsewhere else [(inner[0].start, k.BEGINS, 2), (inner[0].start, k.ENDS, 2)]
    assert own == [
        (around.start, k.BEGINS, 0), (wait.start, k.BEGINS, 1), *nested,
        (wait.start, k.ENDS, 1), (around.start, k.ENDS, 0),
    ]  # fmt: skip


def test_a_backward_that_fails_leaves_no_wait_open(recorded):
    module, queued = recorded.module, []

    def fail():
        module.gradient(())
        waits.append(module.waiting()[1])
        queued.pop()()
        waits.append(module.waiting()[1])
        raise ArithmeticError

    waits = []
    module.reducer(2, queued.append)
    with pytest.raises(ArithmeticError):
        module.span(1, k.BACKWARD, fail)()
    module.span(1, k.BACKWARD, lambda: None)()
    module.gradient(())
    assert not queued
    events = [(e.site, e.depth, e.flags) for e in recorded.take() if e.site]
    assert events == [(2, 1, k.FAILED), (1, 0, k.FAILED), (1, 0, 0)]
    assert (waits, module.waiting()[1]) == ([False, True], False)
    module.reducer(0, None)
