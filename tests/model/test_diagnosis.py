"""The verdict on a run: right where the evidence is, silent where it is thin.

``tests/golden/verdicts.txt`` shows what is said of each run below. On a mismatch the actual text is
saved beside it; ``VOIR_UPDATE_GOLDEN=1`` makes what is said now the golden text.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from overseer.model.diagnosis import diagnose

GOLDEN = Path(__file__).parents[1] / "golden" / "verdicts.txt"
Facts = dict[str, Any]


def run(
    loading: float = 0.2,
    compute: float = 9.8,
    pauses: dict[str, tuple[float, int]] | None = None,
    verdict: str = "steady",
    parts: dict[str, float] | None = None,
    steps: int = 1000,
    task: Facts | None = None,
    **more: Any,
) -> Facts:
    """Facts of ``run.json`` for 1,000 steps of 32 items in ten seconds."""
    whole, kinds = loading + compute, pauses or {}
    paused, count = sum(s for s, _ in kinds.values()), sum(n for _, n in kinds.values())
    known: Facts = {
        "steps": steps,
        "items": 32 * steps,
        "units": "items",
        "rate": {"wall": 32 * steps / (whole + paused), "n": steps, "q1": 2900.0, "q3": 3400.0},
        "steady": {"verdict": verdict},
        "loading": {"seconds": loading, "share": loading / whole},
        "compute": {"seconds": compute, "share": compute / whole},
        "pause": {
            "seconds": paused,
            "count": count,
            "kinds": {kind: {"seconds": s, "count": n} for kind, (s, n) in kinds.items()},
        },
    }
    if parts is not None:
        known["breakdown"] = {"loading": loading, **parts}
    known |= task or {}
    facts = {key: value for key, value in known.items() if value is not None}
    return {"seconds": whole + paused + 0.5, "tasks": {"train": facts}, **more}


def unsplit(**more: Any) -> Facts:
    """The ends of steps were seen, and no more."""
    return run(task={"loading": None, "compute": None}, **more)


def unloaded(parts: dict[str, float], **more: Any) -> Facts:
    """Nothing shows where batches come from: there is no loading in the breakdown either."""
    return run(task={"loading": None, "compute": None, "breakdown": parts}, **more)


def gpu(busy: float = 0.9, **more: Any) -> Facts:
    return {"kind": "cuda", "index": 0, "utilisation": {"mean": busy, "max": 1.0}, **more}


LEAK = {"memory": {"process": {"peak": 9 << 30, "growth": {"bytes": 3 << 30, "seconds": 9.0}}}}
CROWD = {"cpu": {"mean": 100.0, "cores": 2, "process": {"mean": 28.0}}}
FULL = {"cpu": {"mean": 97.0, "cores": 2, "process": {"mean": 95.0}}}
THREADS = {"provenance": {"torch": {"threads": 64}}, "host": {"cpu": {"cores": 2.5}}}
HOT = {"thermal slowdown (software)": 0.4}
WORK = {"forward": 3.1, "backward": 5.9, "optimizer": 0.5, "other": 0.3}
BETWEEN = {"forward": 1.0, "backward": 1.0, "optimizer": 0.4, "other": 7.4}
CLOCK = {"rate": {"wall": 3200, "n": 1000, "clock": "cuda events"}}
ITEM = {"where": "train.py:41", "call": ".item()", "device": "cuda", "each": 3.0, "share": 0.6}


RUNS: dict[str, Facts] = {
    # loader-bound
    "a loader of unknown kind": run(6.0, 4.0),
    "a loader and full processors": run(6.0, 4.0, host=FULL),
    "a loader and a GPU that waits": run(6.0, 4.0, devices=[gpu(0.22)]),
    "a loader and a leak": run(6.0, 4.0, host=LEAK),
    "a loader and evaluations": run(6.0, 4.0, {"evaluation": (6.0, 4)}),
    "a loader and uneven steps": run(6.0, 4.0, verdict="never steady"),
    "a loader with idle workers": run(6.0, 4.0, loader_workers={"count": 2, "busy": 0.3}),
    # compute-bound
    "work on the host": run(parts=WORK),
    "work on the host while a GPU is idle": run(parts=WORK, devices=[gpu(0.0)]),
    "work of too many threads": run(parts=WORK, **THREADS),
    "work of many threads beside a GPU": run(parts=WORK, devices=[gpu(0.95)], **THREADS),
    "short steps": run(parts={k: v / 10 for k, v in WORK.items()}, steps=10_000),
    "an agent that acts in each step": run(
        parts={"forward": 7.6, "backward": 1.4, "optimizer": 0.5, "other": 0.3}),
    "inference": run(parts={"forward": 9.6, "other": 0.2}),
    "a GPU at work": run(devices=[gpu(0.95)]),
    "a GPU at its power cap now and then": run(devices=[gpu(throttled={"power cap": 0.3})]),
    # host-bound
    "loss and Python on the host": run(parts=BETWEEN),
    "loss, Python or the making of batches": unloaded(BETWEEN),
    "calls that wait": run(parts=BETWEEN, syncs=[{**ITEM, "device": "cpu"}, ITEM]),
    "no call that waits": run(parts=BETWEEN, syncs=[{**ITEM, "device": "cpu", "share": 0.01}]),
    "a GPU that is kept waiting": run(devices=[gpu(0.22)]),
    # pause-heavy
    "evaluations": run(pauses={"evaluation": (8.0, 12)}),
    "evaluations and checkpoints": run(
        pauses={"checkpoint": (2.0, 3), "evaluation": (8.0, 12), "unexplained": (0.05, 1)}),
    "a checkpoint": run(pauses={"checkpoint": (30.0, 1)}),
    "declared pauses": run(pauses={"declared": (8.0, 2)}),
    "time between epochs": run(pauses={"between epochs": (8.0, 9)}),
    "unexplained pauses": run(pauses={"unexplained": (8.0, 9)}),
    "pauses of no known kind": run(task={"pause": {"seconds": 8.0, "count": 9}, "rate": {
        "wall": 32_000 / 18, "n": 1000}}),
    "an agent that collects data": unloaded(WORK, pauses={"evaluation": (20.0, 400)}),
    "checkpoints between hardly any steps": run(0.05, 0.1, {"checkpoint": (2.7, 9)}, steps=200),
    "evaluations between steps too short to split": run(
        pauses={"evaluation": (6.0, 4)}, steps=1_000_000),
    "evaluations that outweigh a leak": unsplit(pauses={"evaluation": (14.0, 4)}, host=LEAK),
    # memory growing
    "memory that grows": run(host=LEAK),
    "memory of a GPU that grows": run(
        devices=[gpu(memory={"growth": {"bytes": 700 << 20, "seconds": 9.0}})]),
    "memory that grows beside Python": run(parts=BETWEEN, host=LEAK),
    "memory that grows in steps that are not split": unsplit(host=LEAK),
    # throttled
    "a GPU that is hot": run(devices=[gpu(throttled=HOT)]),
    "a GPU that is hot, and a loader": run(4.0, 6.0, devices=[gpu(0.5, throttled=HOT)]),
    # never steady
    "uneven steps": run(1.0, 9.0, verdict="never steady"),
    "uneven steps that are not split": unsplit(verdict="never steady"),
    "very uneven steps beside other programs": run(
        1.0, 9.0, verdict="never steady", host=CROWD,
        task={"rate": {"wall": 3200, "n": 1000, "q1": 1900.0, "q3": 3400.0}}),
    # waiting for other ranks
    "a rank that waits": run(parts={**WORK, "backward": 2.4, "communication": 3.5}, world_size=4),
    "a rank that waits, and a leak": run(
        parts={**WORK, "backward": 1.4, "communication": 4.5}, world_size=2, host=LEAK),
    # no bottleneck found
    "loading and pauses": run(1.0, 9.0, {"evaluation": (1.0, 2)}),
    "a little of everything": run(
        1.5, 8.5, parts={"forward": 2.0, "backward": 2.5, "optimizer": 2.0,
                         "communication": 1.0, "other": 1.0}),
    "many threads": run(1.0, 9.0, **THREADS),
    # (nothing)
    "losses alone": {"tasks": {"train": {"loss": {"first": 2.0, "last": 1.0}}}},
    "too few steps": run(6.0, 4.0, steps=5),
    "little time but for the first step": run(
        0.3, 0.7, steps=20, verdict="too few steps", task={"first_step_seconds": 0.9}),
    "a loader near the limit": run(2.6, 7.4),
    "one long wait": run(0.6, 0.4, steps=42, task={"step_seconds": {"median": 0.006, "max": 0.53}}),
    "work near the limit": run(parts={"forward": 5.0, "backward": 2.6, "other": 2.2}),
    "work beside evaluations": run(parts=WORK, pauses={"evaluation": (2.6, 4)}),
    "uneven steps beside other programs": run(1.0, 9.0, verdict="never steady", host=CROWD),
    "evaluations near the limit": unsplit(pauses={"evaluation": (4.4, 4)}),
    "a GPU that is neither busy nor idle": run(parts=WORK, devices=[gpu(0.7)]),
    "a GPU that is idle, and steps are not split": unsplit(devices=[gpu(0.22)]),
    "ranks that wait for each other": run(
        parts={"forward": 2.0, "backward": 3.0, "communication": 4.0, "other": 0.8}),
    # All that is the matter.
    "a leak, a loader and evaluations": run(6.0, 4.0, {"evaluation": (9.0, 4)}, host=LEAK),
    # Growth for each step is that of the steps it was seen in: 500 of 999, and a long first one.
    "growth in a sample of the steps": run(1.0, 15.0, task={
        "first_step_seconds": 6.0, "rate": {"wall": 2000, "n": 500}},
        host={"memory": {"process": {"growth": {"bytes": 999 << 20, "seconds": 5.0}}}}),
    # What waits for a device is not the host's.
    "a device's clock": run(parts=BETWEEN, task=CLOCK),
    "a device's clock, and it is busy": run(parts=BETWEEN, task=CLOCK, devices=[gpu(0.99)]),
    "a device's clock, and it is not": run(parts=BETWEEN, task=CLOCK, devices=[gpu(0.6)]),
    # A forward that was not seen may be what is beside the backward.
    "Python or a forward": run(parts={"backward": 4.1, "other": 5.5}),
    "Python beside a forward": run(parts={"forward": 0.1, "backward": 4.0, "other": 5.5}),
    "more Python than a forward": run(parts={"backward": 0.6, "other": 9.0}),
}  # fmt: skip


def said(facts: Facts) -> str:
    found = diagnose(facts)
    if found is None:
        return "(nothing)"
    return f"{found.verdict}\n  why   {found.why}\n  next  {found.next or '-'}"


def test_the_diagnosis_of_each_run() -> None:
    actual = "".join(f"{name}: {said(facts)}\n\n" for name, facts in RUNS.items())
    if os.environ.get("VOIR_UPDATE_GOLDEN"):
        GOLDEN.write_text(actual, encoding="utf-8")
    expected = GOLDEN.read_text(encoding="utf-8") if GOLDEN.exists() else ""
    if actual != expected:
        GOLDEN.with_suffix(".actual.txt").write_text(actual, encoding="utf-8")
    assert actual == expected, f"compare {GOLDEN} with {GOLDEN.with_suffix('.actual.txt')}"


def test_the_task_named_train_is_judged_and_else_the_one_with_most_steps() -> None:
    facts = run(6.0, 4.0)
    facts["tasks"]["evaluate"] = run(1.0, 9.0, steps=9000)["tasks"]["train"]
    assert said(facts).startswith("loader-bound")
    del facts["tasks"]["train"]
    assert said(facts).startswith("no bottleneck found")


def test_a_verdict_without_advice_has_no_next_in_the_record() -> None:
    found = diagnose(run(1.0, 9.0))
    assert found is not None
    assert set(found.as_facts()) == {"verdict", "why"}


KEYS = [
    "tasks", "train", "steps", "items", "rate", "wall", "n", "q1", "q3", "loading", "compute",
    "seconds", "pause", "count", "kinds", "evaluation", "breakdown", "forward", "other", "host",
    "cpu", "memory", "mean", "process", "growth", "bytes", "devices", "throttled", "utilisation",
    "steady", "verdict", "syncs",
]  # fmt: skip
values = st.none() | st.booleans() | st.floats() | st.integers() | st.text()
shapes = st.recursive(
    values,
    lambda inner: (
        st.dictionaries(st.sampled_from(KEYS), inner, max_size=6) | st.lists(inner, max_size=3)
    ),
    max_leaves=25,
)


@given(
    st.dictionaries(st.sampled_from(KEYS), shapes), st.dictionaries(st.sampled_from(KEYS), shapes)
)
def test_no_record_makes_the_diagnosis_fail(facts: Facts, task: Facts) -> None:
    diagnose(facts)
    diagnose({**facts, "tasks": {"train": {"steps": 99, **task}}})
