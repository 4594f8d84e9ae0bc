"""Sites: what inserted code and hooks call records events, counts them and hands them over."""

from __future__ import annotations

import asyncio
import os
import threading
import time

import pytest

from overseer.recorder import sites as k


def site(recorded, *keys, **more):
    """A site, and what it hands over from now on."""
    made, heard = recorded.module.Site(7, k.VALUE, keys=keys, **more), []
    made.bus, made.hand = heard.append, -1
    return made, heard


def loss(recorded):
    """A site that records its value too."""
    made, heard = site(recorded, "loss")
    made.record(9, k.LOSS, k.STRUCTURE, 0, k.NUMBER)
    return made, heard


def on_a_thread(call, *arguments):
    thread = threading.Thread(target=call, args=arguments)
    thread.start()
    thread.join()


def test_a_site_that_nobody_asked_for_records_nothing_nor_does_a_silent_one(recorded):
    one = recorded.module.Site(1, k.STEP, keys=(), name=None)
    one.event()
    assert (one.name, one.fired, recorded.take(), recorded.take(1)) == (None, 1, [], [])
    one.record(1, k.STEP, k.STRUCTURE, -1, k.NOTHING)
    one.event()
    assert len(recorded.take()) == 1
    silent, heard = loss(recorded)
    silent.silent = 1
    silent.event(1.0)
    silent.mark()
    with silent:
        pass
    assert (silent.fired, recorded.take(), heard) == (0, [], [])


@pytest.mark.parametrize("wrong", [{"keys": ("a",), "focus": 1}, {"ring": 2}])
def test_a_site_that_cannot_be_is_refused(recorded, wrong):
    with pytest.raises(ValueError, match="ring is 0 or 1"):
        recorded.module.Site(1, k.VALUE, **wrong)


def test_a_value_is_recorded_with_its_moment_and_site(recorded):
    one, heard = loss(recorded)
    before = recorded.module.now()
    one.event(0.25)
    after = recorded.module.now()
    (event,) = recorded.take()
    assert (event.value, event.site, event.ns, event.depth) == (0.25, 9, 0, 0)
    assert before <= event.start <= after
    assert (one.fired, heard) == (1, [{"loss": 0.25}])
    one.hand = 0
    for value in (2.5, 3, True, 10**400, "x", [4]):
        one.event(value)
    assert recorded.values() == [2.5, 3.0, 1.0, None, None, 4.0]
    assert (one.fired, len(heard)) == (7, 1)


def test_each_record_reads_the_value_under_its_key_or_the_focus_alone(recorded):
    step, heard = site(recorded, "batch", "step", "loss", focus=2)
    step.record(1, k.STEP, k.STRUCTURE, 0, k.LENGTH)
    step.record(2, k.LOSS, k.STRUCTURE, 2, k.NUMBER)
    step.record(3, k.VALUE, k.VALUES, -1, k.NOTHING)
    step.event([1, 2, 3], True, 0.5)
    assert [(e.site, e.value) for e in recorded.take()] == [(1, 3.0), (2, 0.5)]
    assert recorded.values(k.VALUES) == [None]
    step.event(1.5)
    assert (recorded.values(), heard[1:]) == ([None, 1.5], [{"loss": 1.5}])


def test_events_are_handed_over_as_often_as_was_asked(recorded):
    one, heard = site(recorded, "a", "b")
    one.hand = 2
    for value in range(4):
        one.event(value, -value)
    assert (one.hand, one.fired) == (0, 4)
    one.hand = -1
    one.event(5, 6)
    assert heard == [{"a": 0, "b": 0}, {"a": 1, "b": -1}, {"a": 5, "b": 6}]


def test_what_the_bus_raises_reaches_the_script(recorded):
    def refuse(event):
        raise LookupError("asked for")

    one, _ = loss(recorded)
    one.bus = refuse
    for call in (one.event, one.relay):
        with pytest.raises(LookupError, match="asked for"):
            call(1.0)
    assert recorded.values() == [1.0, 1.0]


def test_a_given_event_is_read_by_its_keys_and_handed_on_itself(recorded):
    one, heard = loss(recorded)
    event = {"loss": 2, "task": "train"}
    one.given(event)
    assert (heard[0] is event, recorded.values()) == (True, [2.0])
    with pytest.raises(TypeError):
        one.given([1])


def test_a_relay_returns_its_value_or_what_replaces_it(recorded):
    one = recorded.module.Site(7, k.VALUE, keys=("scale", "value", "more"), focus=1)
    one.record(4, k.LOSS, k.STRUCTURE, 1, k.NUMBER)
    assert one.relay(3.0, 2.0, 1.0) == 3.0
    one.intercept = lambda event, value: (event, value)
    assert one.relay(3.0, 2.0, 1.0) == ({"scale": 2.0, "value": 3.0, "more": 1.0}, 3.0)
    assert one.relay(4.0) == ({"value": 4.0}, 4.0)
    assert recorded.values() == [3.0, 3.0, 4.0]
    one.silent = 1
    assert (one.relay(5.0, 2.0, 1.0), one.fired) == (5.0, 3)


def pair(recorded, number=1):
    halves = []
    for role, key in ((k.BEGINS, "a"), (k.ENDS, "b")):
        half, heard = site(recorded, key, "batch", role=role, pair=number, name="a")
        begins = role == k.BEGINS
        kind = k.PAIR_BEGINS if begins else k.PAIR
        half.record(4 if begins else 5, kind, k.STRUCTURE, 1, k.LENGTH)
        halves.append((half, heard))
    (begin, began), (end, ended) = halves
    return begin.event, end.event, began, ended


def spans(recorded):
    """The numbers of the spans of pairs."""
    return [event.value for event in recorded.take() if event.site == 5]


def test_a_pair_is_a_beginning_and_a_span_and_two_marked_events(recorded):
    begin, end, began, ended = pair(recorded)
    begin(True, [1, 2])
    end(True)
    assert spans(recorded) == [2.0], "the beginning knew the batch, the end did not"
    first, second = began[0]["$wrap"], ended[0]["$wrap"]
    assert (first["name"], first["step"], second["step"]) == ("a", "begin", "end")
    assert first["id"] == second["id"]
    assert ended == [{"b": True, "$wrap": second}]


def test_an_end_belongs_to_the_latest_beginning_of_its_pair(recorded):
    (begin, end, *_), (other, other_end, *_) = pair(recorded), pair(recorded, 2)
    begin(True, [1])
    other(True, [1, 2, 3])
    begin(True, [1, 2])
    for one in (end, end, end, other_end):
        one(True)
    assert spans(recorded) == [2.0, 1.0, 3.0]


def test_of_beginnings_without_end_the_latest_thousand_are_kept(recorded):
    begin, end, *_ = pair(recorded)
    for half in [begin] * 3000 + [end] * 3000:
        half(True, [1])
    assert recorded.take(), "the ring keeps the last"
    assert recorded.header().head[0] - 1 - 3000 <= 1100


def test_pairs_of_tasks_and_threads_are_kept_apart(recorded):
    recorded.module.tasks(asyncio._get_running_loop, asyncio.current_task)
    begin, end, *_ = pair(recorded)

    async def work(size, after, ended):
        begin(True, list(range(size)))
        await after.wait()
        end(True)
        ended.set()

    async def main():
        start, first, second, third = (asyncio.Event() for _ in range(4))
        tasks = (work(1, second, third), work(2, start, first), work(3, first, second))
        together = asyncio.gather(*tasks)
        asyncio.get_running_loop().call_soon(start.set)
        await together

    asyncio.run(main())
    assert spans(recorded) == [2.0, 3.0, 1.0]
    begin(True, [1])
    on_a_thread(end, True)
    end(True)
    assert spans(recorded) == [1.0]


def test_halves_of_a_span_are_matched_by_their_object(recorded):
    step = recorded.module.Site(3, k.OPTIMIZER)
    zero = recorded.module.Site(4, k.ZERO_GRAD)
    outer, inner, lost = object(), object(), object()
    step.enter(outer)
    step.enter(lost)  # It raises: no second half comes.
    step.enter(inner)
    zero.enter(inner)
    zero.leave(inner)
    for owner in (inner, outer, outer):
        step.leave(owner)
    found = recorded.take()
    within = [(e.site, e.depth, bool(e.flags & k.IN_OPTIMIZER)) for e in found]
    assert within == [(4, 3, True), (3, 2, True), (3, 0, False)]
    assert found[1].object == recorded.module.identity(inner)


def test_a_block_records_a_span_and_may_be_entered_again(recorded):
    block = recorded.module.Site(6, k.SPAN, ring=k.VALUES)
    with pytest.raises(ZeroDivisionError), block:
        with block:
            pass
        raise ZeroDivisionError
    inner, outer = recorded.take(k.VALUES)
    assert outer.start <= inner.start
    assert outer.start + outer.ns >= inner.start + inner.ns
    assert (inner.flags, outer.flags, recorded.take()) == (0, k.FAILED, [])


def test_python_is_called_at_the_nth_event_of_the_chosen_kinds(recorded):
    step, other = recorded.module.Site(1, k.STEP), recorded.module.Site(2, k.LOSS)
    stop = iter([]).__next__
    recorded.module.arm(1 << k.STEP | 1 << k.PAIR, 3, stop)
    for _ in range(2):
        step.mark()
        other.value(1.0)
    with pytest.raises(StopIteration):
        step.mark()
    step.mark()
    recorded.module.arm(1 << k.STEP, 1, None)
    step.mark()
    assert (step.fired, len(recorded.take())) == (5, 7)


def test_numbers_of_threads_are_used_again(recorded):
    one, every = recorded.module.Site(1, k.STEP), []
    for _ in range(600):
        on_a_thread(one.mark)
        every += recorded.take()
    assert sum(not e.site for e in every) == 600, "each tells that it is another"
    assert {e.thread for e in every} <= set(range(2, 6))
    assert len(recorded.header().threads) <= 16


def test_a_forked_child_records_nothing(recorded):
    one, heard = loss(recorded)
    child = os.fork()
    if not child:
        one.event(1.0)
        os._exit(len(recorded.take()) + len(heard))
    assert os.waitpid(child, 0)[1] == 0
    one.event(2.0)
    assert recorded.values() == [2.0]


def test_nothing_is_recorded_once_it_is_closed(recorded):
    one, _ = loss(recorded)
    span = recorded.module.span(1, k.BACKWARD, abs)
    recorded.module.close()
    one.event(1.0)
    assert (span(-2), list(recorded.module.loop(1, [1, 2]))) == (2, [1, 2])
    with pytest.raises(ValueError, match="not open"):
        recorded.module.drain(0, 0)
    recorded.module.open(8, 8)
    one.event(1.0)
    assert recorded.module.drain(0, 0)[1] == 2


def test_own_cost_is_counted(recorded):
    one, _ = loss(recorded)
    one.hand = 0
    for _ in range(1000):
        one.event(1.0)
    sampled = recorded.header().own
    assert 0 < sampled < 1_000_000_000
    one.bus, one.hand = lambda event: time.sleep(0.002), -1
    one.event(1.0)
    assert recorded.header().own - sampled >= 2_000_000
