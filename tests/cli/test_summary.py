"""The summary at the end of a run: what people read, at the widths they read it.

Golden files are in ``tests/golden/summary``: ``NAME.json`` is a ``run.json``, ``NAME.WIDTH.txt``
its summary. On a mismatch the actual text is saved in ``actual/`` beside them. To make what is
shown now the golden text, run this file with ``VOIR_UPDATE_GOLDEN=1``, and look at the difference
before committing it.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from overseer.cli import amounts, rows
from overseer.cli.summary import render

GOLDEN = Path(__file__).parents[1] / "golden" / "summary"
NAMES = ["training", "empty", "failed", "killed", "stopped", "tasks", "display"]
ESCAPE = re.compile(r"\x1b\[[\d;]*m")


def load(name):
    return json.loads((GOLDEN / f"{name}.json").read_text(encoding="utf-8"))


def compare(name, actual):
    path, saved = GOLDEN / name, GOLDEN / "actual" / name
    if os.environ.get("VOIR_UPDATE_GOLDEN"):
        path.write_text(actual, encoding="utf-8")
    expected = path.read_text(encoding="utf-8") if path.exists() else ""
    if actual != expected:
        saved.parent.mkdir(exist_ok=True)
        saved.write_text(actual, encoding="utf-8")
    assert actual == expected, f"compare {path} with {saved}"


@pytest.mark.parametrize("width", [80, 120])
@pytest.mark.parametrize("name", NAMES)
def test_the_summary_looks_as_it_should(name, width):
    compare(f"{name}.{width}.txt", render(load(name), width, False))


@pytest.mark.parametrize("width", [40, 60, 80, 100, 120, 200])
@pytest.mark.parametrize("name", NAMES)
def test_no_line_is_wider_than_the_terminal_but_for_a_word_that_is(name, width):
    for line in render(load(name), width, False).splitlines():
        assert rows.cells(line) <= width or len(line.split()) <= 2, line


@pytest.mark.parametrize("name", NAMES)
def test_colours_change_nothing_but_colours(name):
    plain, coloured = (render(load(name), 80, colour) for colour in (False, True))
    assert "\x1b" not in plain
    assert ESCAPE.sub("", coloured) == plain
    assert coloured.count("\x1b[0m") * 2 == coloured.count("\x1b")


@pytest.mark.parametrize("name", NAMES)
def test_a_terminal_without_unicode_gets_ascii(name):
    text = render(load(name), 80, False, ascii_only=True)
    assert text.isascii()
    assert len(text.splitlines()) == len(render(load(name), 80, False).splitlines())


def test_a_good_run_fits_on_a_screen():
    assert len(render(load("training"), 80, False).splitlines()) <= 14
    assert len(render(load("training"), 120, False).splitlines()) <= 12


def test_a_run_that_measured_nothing_is_a_line_or_two():
    assert len(render(load("empty"), 80, False).splitlines()) <= 2
    assert "nothing measured" in render(load("empty"), 80, False)


def lines(run, width=120):
    return render({"script": "main.py", **run}, width, False).splitlines()


@pytest.mark.parametrize(
    ("facts", "said"),
    [
        ({"exit_status": 0}, "finished"),
        ({"exit_status": 3}, "exit status 3"),
        ({"exit_status": -9}, "killed by SIGKILL"),
        ({"exit_status": -200}, "killed by signal 200"),
        ({"exit_status": 0, "stopped_early": True}, "stopped early"),
        ({"exit_status": 1, "stopped_early": True}, "exit status 1"),
        ({}, "did not finish"),
    ],
)
def test_the_first_line_says_how_the_run_ended(facts, said):
    assert lines(facts)[0].startswith(f"voir: main.py · {said}")


@pytest.mark.parametrize(
    ("facts", "said"),
    [
        ({"rank": 1, "world_size": 2}, "rank 1 of 2 · "),
        ({"rank": 0, "world_size": None}, "rank 0 · "),
        ({"rank": None, "world_size": None}, ""),
    ],
)
def test_of_a_job_each_process_says_which_it_was(facts, said):
    assert lines({**facts, "exit_status": 0})[0].startswith(f"voir: main.py · {said}finished")


def test_the_time_is_what_the_monotonic_clock_says_where_it_is_told():
    moments = {"started": "2026-01-05T09:30:00.500000Z", "ended": "2026-01-05T09:30:02.000000Z"}
    assert "· 1.50 s" in lines(moments)[0]
    assert "· 7.00 s" in lines({**moments, "seconds": 7})[0]
    assert lines({"started": "yesterday", "ended": 3})[0].startswith("voir: main.py · finished")


def test_probes_that_captured_nothing_are_named_with_place_and_hint():
    probe = {
        "selector": "//f > x",
        "where": "voirfile.py:3",
        "state": "never fired",
        "hint": "try y",
    }
    text = "\n".join(lines({"probes": [probe]}))
    assert "//f > x · never fired, set at voirfile.py:3 · try y" in text


@pytest.mark.parametrize("width", [80, 120])
def test_what_went_wrong_takes_no_line_from_how_a_rate_is_to_be_read(width):
    run = load("tasks")
    probe = {"selector": "//f > x", "where": "voirfile.py:3", "state": "never fired"}
    run["probes"] = [{**probe, "hint": "its place in f, a.py:1875, was never reached " * 6}]
    text = render(run, width, False)
    assert f"median 1,033 (1,022{rows.TO}1,040) · n 4,990, skipped 10 · monotonic clock" in text
    assert "  host " not in text
    assert "never fired, set at voirfile.py:3" in text


def test_the_parts_of_a_step_stand_below_its_time_or_in_its_place():
    task = load("training")["tasks"]["train"]
    assert [line.split()[:2] for line in lines({"tasks": {"train": task}})[4:6]] == [
        ["time", "▒▒▒█████████████"],
        ["└", "copy"],
    ]
    bare = {key: value for key, value in task.items() if key not in ("loading", "compute")}
    assert lines({"tasks": {"train": bare}})[4].split()[:2] == ["time", "copy"]


def test_many_failures_are_counted_and_the_first_named():
    probes = [{"selector": f"//f{n} > x", "state": "unresolved"} for n in range(44)]
    shown = lines({"probes": probes})
    assert sum("unresolved" in line for line in shown) == 40
    assert any("and 4 more probes that captured nothing" in line for line in shown)


def test_what_the_script_named_cannot_touch_the_terminal():
    evil = "\x1b[2J\r\n\u202eevil\udc80"
    run = {
        "script": evil,
        "tasks": {evil: {"steps": 1, "units": evil, "rate": {"wall": 1.0, "clock": evil}}},
        "probes": [{"selector": evil, "where": evil, "state": "unresolved", "hint": evil}],
        "instruments": [{"name": evil, "state": "failed", "error": evil}],
        "devices": [{"name": evil, "throttled": {evil: 0.5}}],
    }
    text = render(run, 80, False)
    assert not re.search(r"[\x00-\x09\x0b-\x1f\u202e\udc80]", text)
    text.encode("utf-8")


def test_figures_that_are_not_numbers_are_not_invented():
    task = {"steps": "many", "rate": {"wall": None}, "loss": {"last": "NaN"}, "loading": 3}
    shown = [line.split() for line in lines({"tasks": {"train": task}})[1:]]
    assert shown == [["train", "no", "steps", "seen"], ["loss", "NaN"]]


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
KEYS = [
    "script", "exit_status", "stopped_early", "started", "ended", "seconds", "probes",
    "instruments", "tasks", "devices", "host", "diagnosis", "overhead", "trace", "verify",
    "directory",
]  # fmt: skip
INNER = [
    "steps", "items", "units", "loss", "first", "last", "min", "rate", "wall", "steady", "median",
    "q1", "q3", "n", "skipped", "clock", "verdict", "from_step", "loading", "compute", "pause",
    "seconds", "share", "count", "cpu", "memory", "mean", "peak", "total", "process", "state",
    "selector", "where", "hint", "name", "error", "index", "utilisation", "power", "limit",
    "throttled", "path", "dropped", "events", "why", "next", "fired", "first_step_seconds",
]  # fmt: skip
shapes = st.recursive(
    json_values,
    lambda inner: (
        st.dictionaries(st.sampled_from(INNER), inner, max_size=6) | st.lists(inner, max_size=3)
    ),
    max_leaves=20,
)


@given(st.dictionaries(st.sampled_from(KEYS), shapes), st.integers(-1, 200), st.booleans())
def test_no_record_whatever_it_holds_makes_the_summary_fail(run, width, colour):
    text = render(run, width, colour)
    assert text.startswith("\x1b[1mvoir:" if colour else "voir:")
    assert text.endswith("\n")


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 ms"), (0.00004, "0.04 ms"), (0.0034, "3.4 ms"), (0.0342, "34 ms"), (0.0994, "99 ms"),
        (0.0996, "0.10 s"), (9.994, "9.99 s"), (9.996, "10.0 s"), (59.94, "59.9 s"),
        (59.96, "1 min 00 s"), (3599.4, "59 min 59 s"), (3599.6, "1 h 00 min"),
        (90_000, "25 h 00 min"), ("x", None), (None, None), (float("nan"), None),
    ],
)  # fmt: skip
def test_durations_read_well_at_every_size(seconds, text):
    assert amounts.duration(seconds) == text


@pytest.mark.parametrize(
    ("fraction", "text"),
    [
        (0, "0 %"), (0.00055, "0.055 %"), (0.0094, "0.94 %"), (0.0096, "1 %"), (0.21, "21 %"),
        (0.998, "99.8 %"), (0.9996, "100 %"), (1, "100 %"), (None, None),
    ],
)  # fmt: skip
def test_shares_are_not_rounded_to_none_or_all(fraction, text):
    assert amounts.percent(fraction) == text


@pytest.mark.parametrize(
    ("used", "total", "text"),
    [
        (13 << 20, None, "0.013 GiB"), (2254857830, None, "2.1 GiB"),
        (9876543210, 128 << 30, "9.2/128 GiB"), (0, None, "0 GiB"), (None, 5, None),
    ],
)  # fmt: skip
def test_memory_is_told_in_gib_whatever_its_size(used, total, text):
    assert amounts.gibibytes(used, total) == text


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ((1412.2, 1387.6), ["1,412", "1,388"]),
        ((24.13, 9.87), ["24.13", "9.87"]),
        ((1412.2, 13.474), ["1,412.2", "13.5"]),
        ((140.2, 0.0), ["140", "0"]),
        ((2.5, None), ["2.50"]),
        ((0.0312,), ["0.031"]),
        (("NaN", True, "3"), []),
    ],
)
def test_rates_that_stand_side_by_side_have_the_same_decimals(values, text):
    assert amounts.rates(*values) == text


def test_wide_characters_are_counted_as_terminals_show_them():
    assert rows.cells("训练") == 4
    assert rows.cells("e\u0301") == 1
    assert rows.cells("plain") == 5


def test_it_imports_nothing_heavy():
    code = (
        "import sys, overseer.cli\n"
        "before = set(sys.modules)\n"
        "from overseer.cli.summary import render\n"
        "render({'script': 'x.py', 'exit_status': 0, 'seconds': 1.0}, 80, True)\n"
        "heavy = {'rich', 'dataclasses', 'inspect', 'json', 'datetime', 'overseer.record.encode'}\n"
        "print(sorted(heavy & (set(sys.modules) - before)))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("width", [80, 120])
def test_tasks_that_there_is_no_room_for_are_counted(width):
    task = {"steps": 10, "items": 40, "rate": {"steady": 10.0, "wall": 9.0}}
    run = {"exit_status": 0, "tasks": {f"task{number}": dict(task) for number in range(14)}}
    text = render({**run, "directory": "/run"}, width, False)
    shown = len(re.findall(r"^  task\d", text, re.MULTILINE))
    assert f"{14 - shown} more tasks in run.json\n" in text
    assert shown > 3
    assert len(text.splitlines()) <= 14


def test_losses_that_were_not_finite_are_counted():
    task = {"steps": 10, "loss": {"first": 2.0, "last": 1.0, "min": 1.0, "not_finite": 3}}
    assert "loss    2 → 1 · lowest 1 · 3 not finite\n" in render(
        {"tasks": {"train": task}}, 80, False
    )


def test_the_rate_of_evaluation_stays_where_there_is_room_for_it_or_for_the_machine():
    rate = {"steady": 10.0, "wall": 9.0, "median": 10.0, "q1": 9.0, "q3": 11.0, "n": 90}
    times = {"loading": {"share": 0.5, "seconds": 1.0}, "compute": {"share": 0.5, "seconds": 1.0}}
    task = {"steps": 100, "rate": rate, **times, "loss": {"first": 2.0, "last": 1.0}}
    host = {"cpu": {"mean": 50.0, "cores": 2}, "memory": {"max": 2e9, "total": 8e9}}
    why = {"verdict": "loader-bound", "why": "half of a step is loading", "next": "more " * 40}
    both = {"train": task, "eval": task}
    run = {"exit_status": 0, "tasks": both, "host": host, "diagnosis": why}
    assert "  host " in render({**run, "tasks": {"train": task}}, 80, False)
    lines = render(run, 80, False).splitlines()
    behind = lines[next(i for i, line in enumerate(lines) if line.startswith("  eval ")) :]
    assert any("median 10" in line for line in behind)
    assert not any("  host " in line for line in lines)


def test_where_every_task_is_shown_none_is_counted():
    run = {"exit_status": 0, "tasks": {f"task{number}": {"steps": 10} for number in range(3)}}
    assert "more task" not in render(run, 80, False)
