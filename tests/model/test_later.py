"""Late values of a device belong to their step, in any order of arrival."""

from __future__ import annotations

import math

import pytest

from overseer.model.events import RECORD
from overseer.model.fold import Fold
from overseer.model.later import LateValues
from overseer.model.steps import Step
from overseer.recorder import sites as k
from overseer.recorder.log import EVENT

THREAD, TIMER = 1, 2
#: No place of a mark or a pair: else these are waited for.
SITES = [{"kind": 0 if kind in (k.STEP, k.PAIR) else kind} for kind in range(k.DEVICE + 2)]
MADE = (THREAD, k.MADE, 0, 0, 0.0, 1, 0)


def packed(*events: tuple[int, int, int, int, float, int, int]) -> bytes:
    """Events from thread, kind, start, ns, value, object, flags; the site is the kind."""
    return b"".join(
        EVENT.pack(start, value, what, kind, thread, ns | flags << 56)
        for thread, kind, start, ns, value, what, flags in events
    )


def step(at: int, scaled: bool = False, flags: int = k.LATER) -> list[tuple[int, ...]]:
    """One of 100 ns."""
    scale = [(THREAD, k.SCALE, at + 20, 10, math.nan, 0, flags)] if scaled else []
    return [
        (THREAD, k.FORWARD, at, 20, 4.0, 7, k.TRAINING | k.GRAD | k.MODEL),
        *scale,
        (THREAD, k.BACKWARD, at + 40, 20, math.nan, 0, flags),
        (THREAD, k.OPTIMIZER, at + 70, 30, math.nan, 9, 0),
    ]  # type: ignore[return-value]


def late(site: int, start: int, value: float) -> tuple[int, ...]:
    return (TIMER, k.LATE, start, 0, value, site, 0)  # type: ignore[return-value]


def folded(*events: tuple[int, ...]) -> tuple[Fold, list[Step]]:
    steps: list[Step] = []
    fold = Fold(SITES, steps.append)
    fold.feed(packed(MADE, *events))  # type: ignore[arg-type]
    return fold, steps


def test_an_event_is_read_as_it_is_packed() -> None:
    (read,) = RECORD.iter_unpack(packed((1, k.LATE, 5, 6, 0.5, 7, 64)))
    assert read == (5, 0.5, 7, k.LATE, 1, 6, 0, 0, 64)


def test_late_losses_keep_their_order() -> None:
    fold, steps = folded(*step(1000), *step(2000), *step(3000), *step(4000))
    assert steps == []
    fold.feed(packed(late(k.BACKWARD, 2040, 0.5)))  # type: ignore[arg-type]
    assert steps == [], "the first one waits"
    fold.feed(packed(late(k.BACKWARD, 1040, 1.5)))  # type: ignore[arg-type]
    assert [one.loss for one in steps] == [1.5, 0.5]
    fold.finish()
    losses = fold.tasks["train"].losses
    assert (len(steps), losses.n, losses.first, losses.last) == (4, 2, 1.5, 0.5)


def test_a_loss_that_arrives_before_its_event_counts() -> None:
    """A backward may last long after the device has computed what it was called on."""
    fold, steps = folded(late(k.BACKWARD, 1040, 1.5), *step(1000))
    fold.finish()
    assert [one.loss for one in steps] == [1.5]


def test_a_loss_on_a_device_counts_before_it_was_scaled() -> None:
    """Mixed precision: backward is called on 65,536 times as much."""
    fold, steps = folded(*step(1000, scaled=True))
    fold.feed(packed(late(k.SCALE, 1020, 1.5), late(k.BACKWARD, 1040, 98304.0)))  # type: ignore[arg-type]
    fold.finish()
    assert [one.loss for one in steps] == [1.5]


@pytest.mark.parametrize("first", ["event", "time"])
def test_times_belong_to_their_span_in_any_order_of_arrival(first: str) -> None:
    events = [
        (THREAD, k.FORWARD, at, 20, 4.0, 7, k.TRAINING | k.GRAD | k.MODEL | k.MARKED)
        for at in (1000, 2000)
    ]
    ends = [(THREAD, k.OPTIMIZER, at + 70, 30, math.nan, 9, k.MARKED) for at in (1000, 2000)]
    backward = [(THREAD, k.BACKWARD, at + 40, 20, 1.0, 0, 0) for at in (1000, 2000)]
    host = [one for three in zip(events, backward, ends, strict=True) for one in three]
    gaps = [math.nan, 2.0, 3.0, 4.0]
    times = [
        (TIMER, k.DEVICE, start, 500, gap, THREAD, 0)
        for start, gap in zip((1000, 1070, 2000, 2070), gaps, strict=True)
    ]
    order = [*host, *times] if first == "event" else [*times, *host]
    fold, steps = folded(*order)
    fold.finish()
    assert steps[0].ns == 100, "nothing is known of the time before the first mark"
    assert steps[1].parts == [0, 500, 0, 500, 0, 7]


def test_the_hosts_time_stands_where_the_devices_is_given_up() -> None:
    forward = (THREAD, k.FORWARD, 1000, 20, 4.0, 7, k.TRAINING | k.GRAD | k.MODEL | k.MARKED)
    others = [one for at in (2000, 3000) for one in step(at, flags=0)]
    fold, steps = folded(forward, *step(1000, flags=0)[1:], *others)
    assert steps == []
    fold.feed(packed((TIMER, k.DEVICE, 0, 0, 0.0, 0, 0)))
    assert [one.ns for one in steps] == [100]


def test_unmatched_values_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("overseer.model.later.MAX_EXPECTED", 10)
    later, got = LateValues("never"), []
    for key in range(100):
        later.arrive(key, key)
    for key in (99, 5):
        later.expect(key, got.append)
    assert got == [99]
    for key in range(100, 110):
        later.expect(key, got.append)
    assert got == [99, *["never"] * 10]
