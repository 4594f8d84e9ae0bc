"""The summary at the end of a run: what people read, at the widths they read it.

Golden files are in ``tests/golden/summary``: ``NAME.json`` is a ``run.json``, ``NAME.WIDTH.txt``
its summary. On a mismatch the actual text is saved in ``actual/`` beside them; with
``VOIR_UPDATE_GOLDEN=1`` what is shown now becomes the golden text.
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from overseer.views.summary import failure, render
from overseer.views.text import cells, encodable
from tests.running import SCHEMA

GOLDEN = Path(__file__).parents[1] / "golden"
NAMES = ["training", "empty", "failed", "killed", "stopped", "tasks", "display"]
Facts = dict[str, Any]


def load(name: str) -> Facts:
    facts: Facts = json.loads((GOLDEN / f"summary/{name}.json").read_text(encoding="utf-8"))
    return facts


def golden(name: str, actual: str) -> None:
    """Compare what is shown with what people have looked at."""
    path = GOLDEN / name
    saved = path.parent / "actual" / path.name
    if os.environ.get("VOIR_UPDATE_GOLDEN"):
        path.write_text(actual, encoding="utf-8")
    expected = path.read_text(encoding="utf-8") if path.exists() else ""
    if actual != expected:
        saved.parent.mkdir(exist_ok=True)
        saved.write_text(actual, encoding="utf-8")
    assert actual == expected, f"compare {path} with {saved}"


def lines(run: Facts, width: int = 120) -> list[str]:
    return render({"script": "main.py", **run}, width).splitlines()


@pytest.mark.parametrize("width", [-1, 40, 60, 80, 100, 120, 200])
@pytest.mark.parametrize("name", NAMES)
def test_it_looks_as_it_should_fits_and_colours_change_nothing_else(name: str, width: int) -> None:
    plain, coloured = (render(load(name), width, colour) for colour in (False, True))
    if width in (80, 120):
        golden(f"summary/{name}.{width}.txt", plain)
    for line in plain.splitlines():
        assert cells(line) <= max(width, 40) or len(line.split()) <= 2, line
    assert "\x1b" not in plain
    assert re.sub(r"\x1b\[[\d;]*m", "", coloured) == plain
    assert coloured.count("\x1b[0m") * 2 == coloured.count("\x1b")
    assert encodable(plain, "ascii").isascii()
    assert len(encodable(plain, "ascii")) == len(plain)


@pytest.mark.parametrize(
    ("facts", "said"),
    [
        ({"exit_status": -9}, "killed by SIGKILL"),
        ({"exit_status": -200}, "killed by signal 200"),
        ({"exit_status": -2}, "interrupted"),
        ({"exit_status": 0, "stopped_early": True}, "stopped early"),
        ({"exit_status": 3, "stopped_early": True}, "exit status 3"),
        ({"exit_status": 1, "error": "RuntimeError: disk is gone"}, "RuntimeError: disk is gone"),
        ({"ended": "x", "ended_by": "replaced by another program"}, "replaced by another program"),
        ({"state": "running: in loading for 12 s"}, "running: in loading for 12 s"),
        ({}, "did not finish"),
        ({"rank": 1, "world_size": 2, "exit_status": 0}, "rank 1 of 2 · finished"),
        ({"rank": 0, "world_size": None, "exit_status": 0}, "rank 0 · finished"),
        ({"exit_status": 0, "started": "2026-01-05T09:30:00.5Z", "ended": "2026-01-05T09:30:02Z"},
         "finished · 1.50 s"),
        ({"exit_status": 0, "started": "yesterday", "ended": 3, "seconds": 7}, "finished · 7.00 s"),
    ],
)  # fmt: skip
def test_the_first_line_says_how_the_run_ended(facts: Facts, said: str) -> None:
    first = lines({**facts, "tasks": {"train": {"steps": 1}}})[0]
    assert first == f"voir: main.py · {said}"


#: Parts of a task that stand alone; together they are in the golden files.
ROWS = [
    ({"rate": {"steady": 10.0}}, "rate    10.0 items/s"),
    ({"rate": {"wall": 9.0, "profiled": 3}}, "rate    9.00 items/s overall · 3 steps profiled"),
    ({"rate": {"median": 3.0, "n": 9}}, "        median 3.00 · n 9"),
    ({"loading": {"share": 0.25, "seconds": 1.5}}, "time    loading 25 %, 1.50 s"),
    ({"breakdown": {"forward": 1.0, "backward": 3.0}}, "time    forward 25 % · backward 75 %"),
    ({"breakdown": {"loading": 2, "forward": 1, "other": 1}}, "time    forward 25 % · other 25 %"),
    ({"loss": {"first": 2, "last": 1, "not_finite": 3}}, "loss    2 → 1 · 3 not finite"),
    ({"loss": {"last": "NaN"}}, "loss    NaN"),
    ({"steady": {"verdict": "steady", "from_step": 1200}}, "rate    steady from step 1,200"),
    (
        {"steady": {"verdict": "steady", "from_step": 9, "late": 1}},
        "rate    steady only from step 9",
    ),
]


@pytest.mark.parametrize(("facts", "said"), ROWS)
def test_a_figure_is_shown_where_it_is_known_and_nothing_else(facts: Facts, said: str) -> None:
    shown = lines({"tasks": {"train": {"steps": 9, **facts}}, "overhead": {"recorder": "C"}})[1:]
    assert shown == ["  train     9 steps", f"    {said}"]


@pytest.mark.parametrize(
    ("count", "busy", "loading", "said"),
    [
        (2, 0.96, 0.5, "the 2 workers are 96 % busy: more would help"),
        (1, 0.34, 0.01, "the worker is 34 % busy: the loader is not the limit"),
        (2, 0.34, 0.6, "the 2 workers are 34 % busy"),
        (2, 0.96, 0.02, "the 2 workers are 96 % busy"),
    ],
)
def test_workers_are_the_limit_or_not(count: int, busy: float, loading: float, said: str) -> None:
    task = {"steps": 9, "loading": {"share": loading}}
    workers = {"count": count, "busy": busy}
    shown = lines({"tasks": {"train": task}, "loader_workers": workers})
    assert f"  loader    {said}" in shown


def test_figures_that_are_not_numbers_are_not_invented() -> None:
    task = {"steps": "many", "rate": {"wall": None}, "loss": {"last": "NaN"}, "loading": 3}
    shown = lines({"tasks": {"train": task}})[1:]
    assert shown == ["  train     no steps seen", "    loss    NaN"]


def test_of_many_probes_that_captured_nothing_the_rest_is_counted() -> None:
    probe = {"where": "vf.py:3", "state": "never fired"}
    shown = lines({"probes": [{**probe, "selector": f"//f{n} > x"} for n in range(44)]})
    assert sum("never fired" in line for line in shown) == 40
    assert shown[-1].strip().startswith("and 4 more probes that captured nothing")


def test_rows_leave_only_where_the_terminal_is_lower_and_in_a_stated_order() -> None:
    task = {"steps": 10, "items": 40, "rate": {"steady": 10.0, "wall": 9.0, "median": 9.5}}
    task |= {"loss": {"last": 0.5}, "loading": {"share": 0.5, "seconds": 1.0}}
    run = {"tasks": {name: dict(task) for name in ("train", "eval", "test")}, "directory": "/run"}
    run["tasks"]["train"]["breakdown"] = {"forward": 1.0, "backward": 3.0}
    run |= {"host": {"cpu": {"mean": 50.0}}, "app": {"a": 1}}
    full = render(run, 80).splitlines()
    assert render(run, 80, height=len(full) + 1).splitlines() == full
    gone = []
    for height in range(len(full), 0, -1):
        left = render(run, 80, height=height).splitlines()
        gone.append([line.split()[0] for line in full if left.count(line) < full.count(line)])
    kinds = ["loss", "rate", "└", "app"]
    firsts = [min(n for n, labels in enumerate(gone) if kind in labels) for kind in kinds]
    assert firsts == sorted(firsts)
    labels = [line.split()[0] for line in left]
    assert labels == ["voir:", "train", "rate", "median", "time", "loss", "eval", "test",
                      "host", "record"]  # fmt: skip
    assert render(run, 80, height=1, whole=True).splitlines() == full


def test_what_there_is_many_of_is_whole_where_all_is_wanted() -> None:
    bars = [{"task": f"bar{n}", "done": 30, "total": 60, "seconds": 2.0} for n in range(9)]
    probes = [{"selector": f"//f{n} > x", "state": "never fired"} for n in range(44)]
    app = {f"key{n}": n for n in range(20)}
    values = {f"value{n}": {"last": n} for n in range(20)}
    run = {"progress": bars, "probes": probes, "app": app, "tasks": {"train": {"steps": 2}}}
    run["values"] = values
    short, whole = render(run, 80), render(run, 80, whole=True)
    for name in ("bar8", "//f43", "key19", "value19"):
        assert (name in short, name in whole) == (False, True)


def test_of_what_was_given_the_last_and_the_best_are_shown() -> None:
    values = {"accuracy": {"last": 0.9, "best": 0.95}, "val_loss": {"last": 0.5, "best": 0.5}}
    assert lines({"values": values})[1] == "  given     accuracy 0.9, best 0.95 · val_loss 0.5"


def test_a_failure_below_the_dashboard_takes_two_lines() -> None:
    run = {"script": "main.py", "exit_status": 1, "error": "RuntimeError: disk is gone"}
    assert failure({**run, "directory": "/run"}, 80).splitlines() == [
        "voir: main.py · RuntimeError: disk is gone",
        "  record    /run · voir show prints its summary",
    ]
    assert failure(run, 80).count("\n") == 1


@pytest.mark.parametrize("clock", ["perf_counter", "cuda events"])
def test_a_clock_and_a_recorder_are_named_where_they_are_not_the_usual_ones(clock: str) -> None:
    usual = clock == "perf_counter"
    task = {"steps": 9, "rate": {"median": 3.0, "n": 9, "clock": clock}}
    cost = {"share": 0.01, "recorder": "C" if usual else "Python"}
    text = render({"tasks": {"train": task}, "overhead": cost}, 80)
    assert ("clock" in text, "recorded in" in text) == (not usual, not usual)


def test_progress_stands_in_for_steps_that_nobody_saw() -> None:
    bars = [{"task": f"bar{n}", "done": 30, "total": 60, "seconds": 2.0} for n in range(9)]
    assert lines({"progress": bars})[1:3] == [f"  bar{n}      30 of 60 · 15.0/s" for n in (0, 1)]
    assert len(lines({"progress": bars})) == 5
    assert "bar0" not in "".join(lines({"progress": bars, "tasks": {"train": {"steps": 2}}}))


def test_a_run_without_steps_says_how_to_see_them() -> None:
    facts = {"script": "main.py", "exit_status": 0, "host": {"cores": 2, "cpu": {"mean": 50.0}}}
    shown = " ".join(" ".join(lines(facts)).replace("·", "").split())
    assert "steps none seen voir init main.py writes what would give them" in shown


def test_what_the_script_named_cannot_touch_the_terminal() -> None:
    evil = "\x1b[2J\r\n\u202eevil\udc80"
    rate = {"wall": 1.0, "clock": evil}
    run = {
        "script": evil, "ended_by": evil, "app": {evil: {evil: evil}},
        "tasks": {evil: {"steps": 1, "units": evil, "rate": rate}},
        "probes": [{"selector": evil, "where": evil, "state": "unresolved", "hint": evil}],
        "instruments": [{"name": evil, "state": "failed", "error": evil}],
        "devices": [{"name": evil, "throttled": {evil: 0.5}}],
    }  # fmt: skip
    text = render(run, 80)
    assert not re.search(r"[\x00-\x09\x0b-\x1f\u202e\udc80]", text)
    text.encode("utf-8")


FORMAT = SCHEMA.read_text(encoding="utf-8")
KEYS = st.sampled_from([*json.loads(FORMAT)["properties"], "state", "directory"])
INNER = st.sampled_from([*{*re.findall(r'"(\w+)": \{', FORMAT)}])
anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.dictionaries(INNER, inner, max_size=6) | st.lists(inner),
    max_leaves=20,
)


@given(st.dictionaries(KEYS, anything), st.integers(-1, 200), st.booleans())
def test_no_record_whatever_it_holds_makes_the_summary_fail(
    run: Facts, width: int, colour: bool
) -> None:
    text = render(run, width, colour)
    assert text.startswith("\x1b[1mvoir:" if colour else "voir:")
    assert text.endswith("\n")
