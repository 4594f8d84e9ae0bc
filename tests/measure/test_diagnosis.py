"""The verdict on a run: right where the evidence is, silent where it is thin.

``tests/golden/diagnosis.txt`` shows what is said of each run below. On a mismatch the actual text
is saved beside it; ``VOIR_UPDATE_GOLDEN=1`` makes what is said now the golden text.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from overseer.measure.diagnosis import diagnose
from overseer.measure.growth import Growth

GOLDEN = Path(__file__).parents[1] / "golden" / "diagnosis.txt"


def run(
    loading=0.2, compute=9.8, pause=0.0, pauses=0, steps=1000, verdict="steady", parts=None, **more
):
    """What ``run.json`` says of a run of 1,000 steps of 32 items, ten seconds of them."""
    whole = loading + compute
    task = {
        "steps": steps,
        "items": 32 * steps,
        "units": "items",
        "rate": {
            "wall": 32 * steps / (whole + pause),
            "n": steps,
            "q1": 2900.0,
            "q3": 3400.0,
        },
        "steady": {"verdict": verdict},
        "loading": {"seconds": loading, "share": loading / whole},
        "compute": {"seconds": compute, "share": compute / whole},
        "pause": {"seconds": pause, "count": pauses},
    }
    if parts is not None:
        task["breakdown"] = parts
    return {"seconds": whole + pause + 0.5, "tasks": {"train": task}, **more}


def parts(**seconds):
    return {"loading": 0.2, "transfer": 0.0, "forward": 1.0, "backward": 1.0, **seconds}


def gpu(busy=0.9, **more):
    return {"kind": "cuda", "index": 0, "utilisation": {"mean": busy, "max": 1.0}, **more}


LEAK = {"memory": {"process": {"peak": 9 << 30, "growth": {"bytes": 3 << 30, "seconds": 9.0}}}}
BUSY = {"cpu": {"mean": 100.0, "cores": 2, "process": {"mean": 28.0}}}
HOT = {"thermal slowdown (software)": 0.4}


def _by_events(facts):
    """The steps are timed by a device's clock."""
    facts["tasks"]["train"]["rate"]["clock"] = "cuda events"
    return facts


def _between(q1, facts):
    facts["tasks"]["train"]["rate"]["q1"] = q1
    return facts


def _with_first(facts):
    facts["tasks"]["train"]["first_step_seconds"] = 0.9
    return facts


def _unloaded(facts):
    """Nothing shows where batches come from."""
    task = facts["tasks"]["train"]
    del task["loading"], task["compute"], task["breakdown"]["loading"]
    task["breakdown"]["steps"] = 500
    return facts


def _ends_only(facts):
    """The ends of steps were seen, and no more."""
    task = facts["tasks"]["train"]
    del task["loading"], task["compute"]
    return facts


def _operating(count, seconds, facts):
    """Steps of ``count`` operations that take so many ``seconds`` of nothing but work."""
    facts["tasks"]["train"]["breakdown"]["operations"] = count
    facts["tasks"]["train"]["step_seconds"] = {"q1": seconds, "median": 3 * seconds}
    return facts


def _small(seconds, verdict="steady", **more):
    facts = run(verdict=verdict, parts=parts(forward=2.9, backward=5.9, optimizer=0.9), **more)
    return _operating(83, seconds, facts)


ITEM = {"where": "train.py:41", "call": ".item()", "device": "cuda", "each": 3.0, "share": 0.6}
RUNS = {
    "a loader with eight cores to use": run(6.0, 4.0, host={"cpu": {"cores": 8, "mean": 20.0}}),
    "a loader with two full cores": run(6.0, 4.0, host={"cpu": {"cores": 2, "mean": 97.0}}),
    "a loader beside programs that fill the cores": run(
        6.0, 4.0, host={"cpu": {"cores": 8, "mean": 97.0, "process": {"mean": 12.0}}}
    ),
    "a loader and a leak": run(6.0, 4.0, host=LEAK),
    "a loader and long evaluations": run(6.0, 4.0, pause=6.0, pauses=4),
    "a loader and longer evaluations, and a leak": run(6.0, 4.0, pause=9.0, pauses=4, host=LEAK),
    "longer evaluations than there are steps, a loader and a leak": run(
        6.0, 4.0, pause=12.0, pauses=4, host=LEAK
    ),
    "a loader and a pause of no length": run(6.0, 4.0, pause=0.05, pauses=1),
    "work of the model": run(parts=parts(forward=3.1, backward=5.9, optimizer=0.5, other=0.3)),
    "a GPU at work": run(devices=[gpu(0.95)]),
    "python around the model or in front of it": _unloaded(
        run(parts=parts(loading=0.0, optimizer=0.4, other=7.4))
    ),
    "python around the model": run(parts=parts(optimizer=0.4, other=7.4)),
    "python around the model, no call that waits": run(
        parts=parts(optimizer=0.4, other=7.4), syncs=[{**ITEM, "device": "cpu", "share": 0.01}]
    ),
    "python around the model, calls that wait": run(
        parts=parts(optimizer=0.4, other=7.4), syncs=[{**ITEM, "device": "cpu"}, ITEM]
    ),
    "a GPU that calls wait for": run(devices=[gpu(0.22)], syncs=[{**ITEM, "share": 0.0}]),
    "a GPU that is kept waiting": run(devices=[gpu(0.22)]),
    "a GPU that waits for batches": run(6.0, 4.0, devices=[gpu(0.22)]),
    "operations of no length": _small(9e-4),
    "operations of no length, in steps of all lengths": _small(9e-4, "never steady"),
    "operations of no length, and a loader": _operating(
        83, 9e-4, run(6.0, 4.0, parts=parts(forward=1.4, backward=2.1, loading=6.0))
    ),
    "operations that are long": _small(9e-2),
    "operations of which nobody can say": _small(3e-3),
    "operations of no length on a GPU at work": _small(9e-4, devices=[gpu(0.95)]),
    "long evaluations": run(pause=8.0, pauses=12),
    "one long checkpoint": run(pause=30.0, pauses=1),
    "checkpoints between steps of no length": run(0.05, 0.1, pause=2.7, pauses=9, steps=200),
    "memory that grows": run(host=LEAK),
    "memory of the GPU that grows": run(
        devices=[gpu(memory={"growth": {"bytes": 700 << 20, "seconds": 9.0}})]
    ),
    "a GPU that is hot": run(devices=[gpu(throttled=HOT)]),
    "a GPU that is hot, and a loader": run(4.0, 6.0, devices=[gpu(0.5, throttled=HOT)]),
    "a GPU that is hot, and idle": run(
        parts=parts(forward=3.1, backward=5.9), devices=[gpu(0.0, throttled=HOT)]
    ),
    "python around the model, and a leak": run(parts=parts(optimizer=0.4, other=7.4), host=LEAK),
    "a GPU at its power cap now and then": run(devices=[gpu(throttled={"power cap": 0.12})]),
    "steps of all lengths": run(verdict="never steady"),
    "steps of all lengths, by a loader": run(6.0, 4.0, verdict="never steady"),
    "steps of all lengths on a busy machine": _between(
        1900.0, run(verdict="never steady", host=BUSY)
    ),
    "steps that a busy machine makes vary a little": run(
        verdict="never steady",
        host=BUSY,
        parts=parts(forward=3.1, backward=5.9),
    ),
    "steps that a busy machine makes vary, and nothing else": run(
        1.0, 9.0, verdict="never steady", host=BUSY
    ),
    "nothing in particular": run(1.5, 8.5, parts=parts(loading=1.5, optimizer=2.5, other=2.5)),
    "nothing but steps": run(1.0, 9.0),
    "nothing, with pauses": run(1.0, 9.0, pause=1.0, pauses=2),
    "a loader that matters in every other run": run(2.6, 7.4),
    "a loader that does not matter in every other run": run(2.4, 7.6),
    "work that is most of a step in every other run": run(parts=parts(forward=6.6, other=2.2)),
    "work on a busy machine": run(host=BUSY, parts=parts(forward=6.6, other=1.6)),
    "a loader on a busy machine": run(3.5, 6.5, host=BUSY),
    "python around the model on a busy machine": run(
        host=BUSY, parts=parts(forward=3.6, other=4.4)
    ),
    "nothing in particular on a busy machine": run(
        1.5, 8.5, host=BUSY, parts=parts(loading=1.5, optimizer=2.5, other=2.5)
    ),
    "long evaluations between steps that nobody could split": _ends_only(run(pause=6.0, pauses=4)),
    "a leak in steps that nobody could split": _ends_only(run(host=LEAK)),
    "a leak in steps of all lengths that nobody could split": _ends_only(
        run(verdict="never steady", host=LEAK)
    ),
    "long evaluations and a leak, and nobody could split the steps": _ends_only(
        run(pause=6.0, pauses=4, host=LEAK)
    ),
    "evaluations that outweigh a leak, and nobody could split the steps": _ends_only(
        run(pause=14.0, pauses=4, host=LEAK)
    ),
    "long evaluations between steps too short to split": run(pause=6.0, pauses=4, steps=1_000_000),
    "a GPU that is idle, and nobody could split the steps": _ends_only(run(devices=[gpu(0.22)])),
    "evaluations that nobody could split from the limit": _ends_only(run(pause=4.4, pauses=4)),
    "evaluations on a busy machine, and nobody could split the steps": _ends_only(
        run(pause=7.0, pauses=4, host=BUSY)
    ),
    "too few steps that nobody could split": _ends_only(
        run(pause=9.0, pauses=4, steps=5, host=LEAK)
    ),
    "too little time that nobody could split": _ends_only(
        run(0.06, 0.04, pause=0.2, pauses=4, host=LEAK)
    ),
    "little time but for the first step, and nobody could split it": _with_first(
        _ends_only(run(0.3, 0.7, pause=0.8, pauses=4, steps=20, verdict="too few steps"))
    ),
    "too few steps": run(6.0, 4.0, steps=5),
    "too little time": run(0.06, 0.04),
    "little time but for the first step": _with_first(
        run(0.3, 0.7, steps=20, verdict="too few steps")
    ),
    "steps that nobody could split": {
        "tasks": {"train": {"steps": 500, "rate": {"n": 500}, "steady": {"verdict": "steady"}}}
    },
    "losses alone": {"tasks": {"train": {"loss": {"first": 2.0, "last": 1.0}}}},
    "no tasks": {},
}


def said(facts):
    found = diagnose(facts)
    if found is None:
        return "(nothing)"
    return f"{found.verdict}\n  why   {found.why}\n  next  {found.next or '-'}"


def test_what_is_said_of_each_run():
    actual = "".join(f"{name}: {said(facts)}\n\n" for name, facts in RUNS.items())
    if os.environ.get("VOIR_UPDATE_GOLDEN"):
        GOLDEN.write_text(actual, encoding="utf-8")
    expected = GOLDEN.read_text(encoding="utf-8") if GOLDEN.exists() else ""
    if actual != expected:
        GOLDEN.with_suffix(".actual.txt").write_text(actual, encoding="utf-8")
    assert actual == expected, f"compare {GOLDEN} with {GOLDEN.with_suffix('.actual.txt')}"


VERDICTS = {
    "loader-bound": ["a loader with eight cores to use", "steps of all lengths, by a loader"],
    "compute-bound": ["work of the model", "a GPU at work"],
    "host-bound": [
        "python around the model",
        "python around the model, no call that waits",
        "a GPU that calls wait for",
        "a GPU that is kept waiting",
        "operations of no length",
        "operations of no length, in steps of all lengths",
    ],
    "pause-heavy": [
        "long evaluations",
        "one long checkpoint",
        "long evaluations between steps that nobody could split",
        "long evaluations between steps too short to split",
    ],
    "memory growing": [
        "memory that grows",
        "python around the model, and a leak",
        "memory of the GPU that grows",
        "a leak in steps that nobody could split",
        "a leak in steps of all lengths that nobody could split",
    ],
    "throttled": ["a GPU that is hot", "a GPU that is hot, and a loader"],
    "never steady": ["steps of all lengths"],
    "nothing to complain of": ["nothing in particular", "nothing but steps"],
}


@pytest.mark.parametrize("verdict", VERDICTS)
def test_each_verdict_has_its_runs(verdict):
    for name in VERDICTS[verdict]:
        assert diagnose(RUNS[name]).verdict == verdict, name


@pytest.mark.parametrize(
    "name",
    [
        "too few steps",
        "too little time",
        "little time but for the first step",
        "steps that nobody could split",
        "a GPU that is idle, and nobody could split the steps",
        "evaluations that nobody could split from the limit",
        "evaluations on a busy machine, and nobody could split the steps",
        "too few steps that nobody could split",
        "too little time that nobody could split",
        "little time but for the first step, and nobody could split it",
        "losses alone",
        "operations of which nobody can say",
        "a loader that matters in every other run",
        "a loader that does not matter in every other run",
        "work that is most of a step in every other run",
        "work on a busy machine",
        "a loader on a busy machine",
        "python around the model on a busy machine",
        "nothing in particular on a busy machine",
        "steps that a busy machine makes vary, and nothing else",
    ],
)
def test_thin_evidence_gives_no_verdict(name):
    assert diagnose(RUNS[name]) is None


def test_the_task_named_train_is_the_one_judged():
    facts = run(6.0, 4.0)
    facts["tasks"]["evaluate"] = run(steps=9000)["tasks"]["train"]
    assert diagnose(facts).verdict == "loader-bound"
    del facts["tasks"]["train"]
    assert diagnose(facts).verdict == "nothing to complain of"


@pytest.mark.parametrize(
    ("other", "verdict"), [(5.5, "nothing to complain of"), (9.0, "host-bound")]
)
def test_a_forward_that_was_not_seen_may_be_what_is_beside_the_work(other, verdict):
    facts = run(parts=parts(backward=9.6 - other, other=other))
    del facts["tasks"]["train"]["breakdown"]["forward"]
    assert diagnose(facts).verdict == verdict
    facts["tasks"]["train"]["breakdown"]["forward"] = 0.1
    assert diagnose(facts).verdict == "host-bound"


def test_a_parts_share_decides_not_its_seconds():
    few = run(0.6, 0.4)
    assert diagnose(few).verdict == "loader-bound"
    assert "60 %" in diagnose(few).why


@pytest.mark.parametrize(
    ("name", "verdict", "also"),
    [
        ("a loader and long evaluations", "loader-bound", "pause-heavy"),
        (
            "a loader and longer evaluations, and a leak",
            "memory growing",
            "pause-heavy, loader-bound",
        ),
        (
            "longer evaluations than there are steps, a loader and a leak",
            "pause-heavy",
            "memory growing, loader-bound",
        ),
        (
            "long evaluations and a leak, and nobody could split the steps",
            "memory growing",
            "pause-heavy",
        ),
        (
            "evaluations that outweigh a leak, and nobody could split the steps",
            "pause-heavy",
            "memory growing",
        ),
    ],
)
def test_all_that_is_the_matter_is_told(name, verdict, also):
    found = diagnose(RUNS[name])
    assert found.verdict == verdict
    assert found.why.endswith(f"; also {also}")


@pytest.mark.parametrize(("pause", "of"), [(0.0, "the time"), (1.0, "the steps' time")])
def test_shares_of_the_steps_and_of_all_time_are_not_to_be_added(pause, of):
    assert (
        diagnose(run(6.0, 4.0, pause=pause)).why == f"60 % of {of} waits for batches, 6 ms a step"
    )


values = st.none() | st.booleans() | st.floats() | st.integers() | st.text()
KEYS = [
    "tasks", "train", "steps", "items", "rate", "wall", "n", "q1", "q3", "loading", "compute",
    "seconds", "pause", "count", "breakdown", "forward", "other", "host", "cpu", "memory", "mean",
    "process", "growth", "bytes", "devices", "throttled", "utilisation", "steady", "verdict",
]  # fmt: skip
shapes = st.recursive(
    values,
    lambda inner: (
        st.dictionaries(st.sampled_from(KEYS), inner, max_size=6) | st.lists(inner, max_size=3)
    ),
    max_leaves=25,
)


@pytest.mark.parametrize(
    ("busy", "verdict"),
    [(None, "nothing to complain of"), (0.99, "compute-bound"), (0.6, "host-bound")],
)
def test_what_waits_for_a_device_is_no_python_around_the_model(busy, verdict) -> None:
    devices = {} if busy is None else {"devices": [gpu(busy)]}
    found = diagnose(_by_events(run(parts=parts(optimizer=0.4, other=7.4), **devices)))
    assert found is not None
    assert found.verdict == verdict


@pytest.mark.parametrize(("steps", "verdict"), [(100_000, "loader-bound"), (1_000_000, None)])
def test_what_such_short_steps_consist_of_may_be_voirs_own(steps, verdict) -> None:
    found = diagnose(run(6.0, 4.0, steps=steps))
    assert (found and found.verdict) == verdict


@given(st.dictionaries(st.sampled_from(KEYS), shapes))
def test_no_record_makes_the_diagnosis_fail(facts):
    diagnose(facts)


def grown(levels):
    growth = Growth()
    for second, level in enumerate(levels):
        growth.add(float(second), level * (1 << 20))
    return growth.grown()


def test_memory_that_goes_on_growing_is_told():
    found = grown([500 + 10 * n for n in range(100)])
    assert 700 << 20 < found.bytes <= 1000 << 20
    assert 70 < found.seconds < 80


@pytest.mark.parametrize(
    "levels",
    [
        [500] * 100,
        [100 * n for n in range(20)] + [2000] * 80,  # It fills, then keeps its level.
        [500, 900] * 50,  # It breathes.
        [5000 + n for n in range(100)],  # Little, beside what there is.
        [500] * 60 + [1500] * 40,  # One step up.
        [500 + 100 * n for n in range(8)],  # Too few samples.
        [],
    ],
    ids=["flat", "fills", "breathes", "little", "one step", "few", "none"],
)
def test_memory_that_finds_its_level_is_not(levels):
    assert grown(levels) is None


def test_growth_is_found_in_bounded_memory_whatever_the_length():
    growth = Growth()
    for second in range(100_000):
        growth.add(float(second), second * 10_000.0)
    assert growth.grown().bytes == pytest.approx(750_000_000, rel=0.05)
    assert len(growth._kept) <= 128


def grown_of_steps(levels, steps):
    """What growth is seen, a sample a second, when steps are made from and to these seconds."""
    begin, end, now = *steps, [0.0]
    growth = Growth(lambda: (begin, min(now[0], end)) if now[0] >= begin else None)
    for second, level in enumerate(levels):
        now[0] = float(second)
        growth.add(now[0], level * (1 << 20))
    return growth.grown()


#: A minute in which a data set is read into memory.
LOADING = [500 + 20 * n for n in range(60)]


@pytest.mark.parametrize(
    ("levels", "steps"),
    [
        (LOADING + [1700] * 40, (60.0, 99.0)),
        (LOADING + [1700] * 5, (60.0, 64.0)),
        ([500] * 40 + LOADING, (0.0, 39.0)),
        ([500] * 20 + LOADING + [1700] * 9, (5.0, 12.0)),
    ],
    ids=["before the steps", "before few steps", "behind the steps", "behind few steps"],
)
def test_what_grows_while_no_step_is_made_is_not_told(levels, steps):
    assert grown(LOADING) is not None
    assert grown_of_steps(levels, steps) is None


@pytest.mark.parametrize("before", [60, 20_000], ids=["a minute", "hours"])
def test_what_the_steps_add_is_told_apart_from_what_was_there(before):
    reading = [500 + 1200 * n // before for n in range(before)]
    levels = [*reading, *(1700 + 10 * n for n in range(60)), *[5000] * 20]
    found = grown_of_steps(levels, (float(before), before + 59.0))
    assert found.bytes == pytest.approx(440 << 20, abs=20 << 20)
    assert found.seconds == pytest.approx(44, abs=2)


def test_growth_for_each_step_is_that_of_the_steps_it_was_seen_in():
    """Sixteen seconds: a first step of six, then ten of 999 steps; a sample of them was judged."""
    leak = {"memory": {"process": {"growth": {"bytes": 999 << 20, "seconds": 5.0}}}}
    facts = run(1.0, 15.0, host=leak)
    task = facts["tasks"]["train"]
    task["first_step_seconds"], task["rate"]["n"] = 6.0, 500
    assert diagnose(facts).why == "the script grew by 999 MiB in 5.0 s, 2.0 MiB a step"
