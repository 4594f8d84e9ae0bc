"""From made logs to rows: steps, windows, epochs, names, what crosses, what is missing."""

from __future__ import annotations

import pytest

from overseer.recorder import sites as k
from overseer.trace.rows import FOREVER

from .conftest import NAN, NOW, WALL, event, row


def numbers(trace):
    return [one.args["step"] for one in row(trace, "train steps")]


def part(**what):
    return [{"begin": 0, "end": FOREVER, "steps": None, "every": 1, "level": "step", **what}]


def test_steps_have_their_parts_and_each_kind_of_span_its_row(making):
    making.steps(3)
    trace = making.trace()
    steps = row(trace, "train steps")
    times = [(one.start - WALL, one.duration) for one in steps]
    assert times == [(10, 950), (960, 1000), (1960, 1000)]
    assert [one.args for one in steps] == [{"step": n, "items": 4} for n in range(3)]
    parts = [[(c.label, c.duration) for c in one.children] for one in steps]
    assert parts == [[("loading", 100), ("compute", n)] for n in (850, 900, 900)]
    rows = ("data loader", "passes", "optimizer")
    assert [[one.label for one in row(trace, name)] for name in rows] == [
        ["loading"] * 4, ["forward", "backward"] * 3, ["optimizer"] * 3,
    ]  # fmt: skip
    assert trace.counters["loss"].values == [0.5] * 3
    marks = [(one.label, one.args) for one in trace.instants()][1:]
    assert marks == [("epoch 0 end", {"steps": 3})]
    assert (making.made.events, making.made.steps) == (trace.events, 3)
    assert [thread.name for thread in trace.threads][1] == "train steps", "tasks come first"


def test_collectives_and_waits_have_a_row_with_what_is_known_of_them(making):
    reduce = making.site(k.COMMUNICATION, "ProcessGroup.allreduce", group="3")
    wait, ddp = (making.site(k.COMMUNICATION, label) for label in ("Work.wait", "DDP"))
    making.host(event(reduce, 10, 5, 48, what=7), event(wait, 20, 5), event(ddp, 30, 5, flags=16))
    assert [(one.label, one.args) for one in row(making.trace(), "communication")] == [
        ("allreduce", {"group": "3", "number": 7, "bytes": 48}), ("wait", {}),
        ("DDP", {"failed": True}),
    ]  # fmt: skip


def test_steps_whose_loading_is_unknown_are_not_split(making):
    made, backward, optimizer = map(making.site, (k.MADE, k.BACKWARD, k.OPTIMIZER))
    making.host(event(made, 0, 5, what=9))
    for at in (10, 1010):
        making.host(event(backward, at, 300, 0.5), event(optimizer, at + 400, 100, what=9))
    assert [one.children for one in row(making.trace(), "train steps")] == [[], []]


@pytest.mark.parametrize(
    ("what", "expected"),
    [
        ({"steps": [3, 6]}, [3, 4, 5]),
        ({"steps": [8, None]}, [8, 9]),
        ({"every": 4}, [0, 4, 8]),
        ({"steps": [2, 9], "every": 3}, [2, 5, 8]),
        ({"begin": NOW + 4010}, [4, 5, 6, 7, 8, 9]),
        ({"end": NOW + 3010}, [0, 1, 2]),
        ({"steps": [100, 110]}, []),
    ],
)
def test_only_what_lies_in_the_steps_asked_for_is_kept(making, what, expected):
    making.steps(10)
    span = making.site(k.SPAN, "span", channel="app")
    always = making.site(k.INSTANT, "always", channel="machine", always=True)
    for n in range(10):
        making.values(event(span, 1000 * n + 300, 50), event(always, 1000 * n + 350))
    trace = making.trace(parts=part(**what))
    assert numbers(trace) == expected
    assert ("loss" in trace.counters) == bool(expected)
    assert [one.label for one in row(trace, "passes")] == ["forward", "backward"] * len(expected)
    assert [(one.start - WALL) // 1000 for one in trace.slices() if one.label == "span"] == expected
    inside = range(what.get("begin", 0), what.get("end", FOREVER))
    kept = sum(one.label == "always" for one in trace.instants())
    assert kept == sum(NOW + 1000 * n + 350 in inside for n in range(10))
    assert making.made.kept == len(expected)


def test_parts_that_have_ended_are_shown_with_those_that_go_on(making):
    making.steps(10)
    ended = [one for n in (1, 4) for one in part(begin=NOW + 1000 * n, end=NOW + 1000 * n + 1500)]
    assert numbers(making.trace(ended=ended, parts=part(begin=NOW + 8000))) == [1, 4, 8, 9]
    assert making.made.kept == 4
    assert numbers(making.trace(ended=ended, parts=[])) == [1, 4]


def test_a_gap_goes_on_with_the_numbers_the_fold_had_and_what_was_lost_is_said(making):
    making.steps(3)
    making.host(
        event(2, 900_010, 100, 4.0, what=5), event(3, 900_200, 100, 4.0, what=6, flags=7),
        event(4, 900_400, 100, 1.0), event(5, 900_600, 100, what=9),
        made=True, steps={"train": 899}, gap=True,
    )  # fmt: skip
    trace = making.trace(lost=5, dropped=7)
    assert numbers(trace) == [0, 1, 2, 899]
    assert (trace.dropped, making.made.dropped) == (5, 5), "the writer's own count comes last"
    assert "5 events dropped" in [one.label for one in trace.instants()]


def test_channels_and_modules_are_chosen_by_patterns(making):
    making.steps(2)
    module = making.site(k.MODULE)
    making.values(
        event(module, 250, 50, what=21), event(module, 310, 50, what=22),
        event(module, 210, 200, what=20),
    )  # fmt: skip
    names = [[20, NOW, "Net", "Net"], [21, NOW, "Net.fc", "Linear"], [22, NOW, "Net.act", "ReLU"]]
    trace = making.trace(names=names, modules="Net.fc")
    assert [one.label for one in trace.slices() if one.channel == "modules"] == ["Net.fc"]
    trace = making.trace(names=names, patterns=["modu*", "voir"])
    assert {one.channel for one in trace.slices()} == {"modules"}
    (net,) = row(trace, "MainThread")
    assert [(one.label, one.args) for one in net.children] == [
        ("Net.fc", {"module": "Linear"}), ("Net.act", {"module": "ReLU"}),
    ]  # fmt: skip
    assert trace.counters == {}


def test_addresses_and_thread_numbers_are_used_again(making):
    module, span = making.site(k.MODULE), making.site(k.SPAN, "span", channel="app")
    making.values(event(module, 100, 10, what=20), event(span, 100, 10, thread=2))
    making.host(event(0, 500, value=78.0, thread=2))
    making.values(event(module, 900, 10, what=20), event(span, 900, 10, thread=2))
    making.host(event(0, 0, value=79.0, thread=3))
    names = [[20, NOW, "First", "A"], [20, NOW + 500, "Second", "B"]]
    trace = making.trace(names=names, threads={"78": "helper"}, numbers=[[2, 76]])
    assert [one.label for one in row(trace, "MainThread")] == ["First", "Second"]
    assert len(row(trace, "helper")) == len(row(trace, "thread 76")) == 1


def test_spans_that_cross_go_beside(making):
    span = making.site(k.SPAN, "span", channel="app")
    times = [(10, 20), (30, 10), (25, 30), (5, 100), (200, 10), (205, 10), (200, 30), (205, 40)]
    making.values(*(event(span, start, ns) for start, ns in times))
    trace = making.trace()
    found = sorted((one.start - WALL, one.duration) for one in trace.slices())
    # Two that begin at once would be taken for each other: the later one begins 1 ns before.
    assert found == sorted([*times[:-2], (199, 31), (204, 41)])
    shown = {thread.name for thread in trace.threads if thread.slices}
    assert (shown, trace.unfinished) == ({"MainThread", "MainThread (2)"}, 0)


def test_given_numbers_late_numbers_rows_of_ones_own_and_ranks(making):
    given = making.site(k.VALUE, "accuracy", keys=["accuracy"], task="eval")
    loss = making.site(k.LOSS, "", keys=["loss"])
    late = making.site(k.LATE, "")
    probe = making.site(k.VALUE, "//f > x", selector="//f > x", keys=["x", "y"])
    named = making.site(k.SPAN, "aten::mm", channel="operators", row="operators 1")
    pair = making.site(k.SPAN, "work")
    making.host(event(loss, 5, value=0.25), event(loss, 6, flags=k.LATER))
    making.host(event(late, 6, value=0.5, what=loss))
    making.values(
        event(given, 10, value=0.75), event(given, 11, flags=k.LATER), event(given, 12, value=NAN),
        event(late, 11, value=1.0, what=given), event(probe, 13, value=1.0),
        event(named, 10, 5), event(pair, 10, 5),
    )  # fmt: skip
    trace = making.trace()
    assert trace.counters["accuracy (eval)"].values == [0.75, 1.0]
    assert trace.counters["loss"].values == [0.25, 0.5]
    assert "accuracy (eval): nan" in [one.label for one in trace.instants()]
    assert [(one.label, one.channel) for one in row(trace, "MainThread")] == [("work", "given")]
    (operator,) = row(trace, "operators 1")
    assert (operator.label, operator.channel, len(trace.counters)) == ("aten::mm", "operators", 2)
    ranked = making.trace(rank=2)
    assert [(one.name, one.pid) for one in trace.processes] == [("made", 77)]
    assert [(one.name, one.pid) for one in ranked.processes] == [("rank 2: made", 77)]
    assert ranked.anchors["rank"] == 2


def test_each_stage_of_a_pipeline_has_a_row_of_its_passes(making):
    begin = making.site(k.STAGE, "1F1B", stages=4, micro_batches=2)
    passes = [
        making.site(k.STAGE, name, stage=n) for n in (1, 3) for name in ("forward", "backward")
    ]
    recv, end = making.site(k.COMMUNICATION, "Work.wait"), making.site(k.STAGE, "end")
    for at in (0, 1000):
        making.host(
            event(begin, at), event(recv, at + 5, 15), event(passes[0], at + 20),
            event(recv, at + 50, 10), event(passes[0], at + 70), event(passes[2], at + 100),
            event(passes[1], at + 130), event(end, at + 190),
        )  # fmt: skip
    trace = making.trace()
    for name, times in {
        "stage 1": [("forward", 20, 30, 0), ("forward", 70, 30, 1), ("backward", 130, 60, 0)],
        "stage 3": [("forward", 100, 30, 0)],
    }.items():
        found = [
            (one.label, one.start - WALL, one.duration, one.args["micro-batch"])
            for one in row(trace, name)
        ]
        again = [(label, at + 1000, ns, n) for label, at, ns, n in times]
        assert found == times + again
