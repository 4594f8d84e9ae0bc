"""``voir sql``: a run's tables, what a query gets of them, and what it may not do."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import pytest

from overseer.errors import VoirError
from overseer.rundir import tables
from overseer.rundir.steps import COMPILED, DEVICE_CLOCK, LOADED, ROW, header
from overseer.trace.reading import CounterTrack, ProcessTracks, Slice, Thread, Trace
from voir.runs import open_database, read_run

from .said import said

FACTS = {
    "started": "1970-01-01T00:00:01Z",
    "argv": ["voir", "main.py"],
    "tasks": {
        "train": {
            "steps": 3,
            "rate": {"wall": 12.5},
            "steady": {"verdict": "steady"},
            "means": [1, 2.5],
        },
        "eval": {"steps": 2, "loss": {"last": "NaN"}, "Steps": "the same column"},
    },
    "provenance": {"git": {"sha": "abc", "dirty": True}},
}
EVENTS = [
    {"t": 0.5, "loss": 2.0},
    {"t": 1.5, "n": 300, "loss": "Infinity", "task": "train", "step": 7},
    {"cpudata": {"load": 50, "memory": [1, 2]}, "t": 2.0, "big": 1 << 70},
]
S = 10**9


def put(directory: Path, facts: object) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "run.json").write_text(json.dumps(facts))
    lines = "".join(json.dumps(event) + "\n" for event in EVENTS)
    (directory / "metrics.jsonl").write_text(lines + '{"torn')


@pytest.fixture
def run(tmp_path: Path) -> Path:
    put(tmp_path / "run", FACTS)
    return tmp_path / "run"


@pytest.fixture
def traced(run: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A run whose trace has two steps with their parts, an instant and a counter."""
    parts = [Slice("loading", "steps", 2 * S, S), Slice("compute", "steps", 3 * S, 2 * S)]
    steps = [
        Slice("step", "steps", 2 * S, 3 * S, {"step": 0, "items": 8}, parts),
        Slice("step", "steps", 5 * S, None, {"step": 1}),
        Slice("step", "steps", 6 * S, S, {"step": 2}, [Slice("compute", "steps", 6 * S, S)]),
        Slice("step", "steps", 7 * S, S, {"step": 3}, [Slice("pause", "steps", 7 * S, 0)]),
    ]
    row = Thread("train steps", None, steps, [Slice("epoch 0", "app", 4 * S, None, {"lr": 0.1})])
    loss = {"loss": CounterTrack("loss", "nats", [(3 * S, 2.0), (4 * S, float("nan"))])}
    trace = Trace(run / "trace.pftrace", [ProcessTracks("main.py", 7, [row, Thread("eval")], loss)])
    trace.path.touch()
    monkeypatch.setattr(tables, "open_trace", lambda path: trace)
    return run


def rows(run: Path, query: str, *more: str) -> list[tuple[object, ...]]:
    answered = json.loads(said("sql", str(run), query, "--json", *more))
    return [tuple(row.values()) for row in answered]


def test_every_value_of_the_record_has_its_path_and_tasks_a_row_each(run: Path) -> None:
    found = dict(rows(run, "select key, value from run"))  # type: ignore[arg-type]
    known = ("provenance.git.sha", "provenance.git.dirty", "argv.1", "tasks.train.rate.wall")
    assert [found[key] for key in known] == ["abc", 1, "main.py", 12.5]
    train, evaluation = ("train", 3, 12.5, "steady", None), ("eval", 2, None, None, None)
    assert rows(run, "select means from tasks") == [("[1, 2.5]",), (None,)]
    query = "select task, steps, rate_wall, steady_verdict, loss_last from tasks"
    assert rows(run, query) == [train, evaluation]


def test_events_are_there_whole_and_value_by_value(run: Path) -> None:
    found = [
        (0, 0.5, None, None, None, "loss", 2.0),
        (1, 1.5, 300, "train", 7, "loss", float("inf")),
        (2, 2.0, None, None, None, "cpudata.load", 50),
        (2, 2.0, None, None, None, "cpudata.memory.0", 1),
        (2, 2.0, None, None, None, "cpudata.memory.1", 2),
        (2, 2.0, None, None, None, "big", float(1 << 70)),
    ]
    query = "select event, t, n, task, step, key, value from metrics"
    assert rows(run, query) == found
    put(run, {**FACTS, "started": "1970-01-01T00:00:00Z", "schema": 2})  # Times are of the epoch.
    assert rows(run, query) == found
    assert [json.loads(str(text)) for (text,) in rows(run, "select json from events")] == EVENTS


def test_steps_spans_and_counters_come_from_the_trace(traced: Path) -> None:
    assert rows(
        traced, "select rank, task, step, t, seconds, loading, compute, items from steps"
    ) == [
        (0, "train", 0, 1.0, 3.0, 1.0, 2.0, 8),
        (0, "train", 1, 4.0, None, None, None, None),
        (0, "train", 2, 5.0, 1.0, 0.0, 1.0, None),
        (0, "train", 3, 6.0, 1.0, None, None, None),
    ]
    assert rows(traced, "select id, parent, label, depth, t, seconds from SLICES") == [
        (1, None, "step", 0, 1.0, 3.0),
        (2, 1, "loading", 1, 1.0, 1.0),
        (3, 1, "compute", 1, 2.0, 2.0),
        (4, None, "step", 0, 4.0, None),
        (5, None, "step", 0, 5.0, 1.0),
        (6, 5, "compute", 1, 5.0, 1.0),
        (7, None, "step", 0, 6.0, 1.0),
        (8, 7, "pause", 1, 6.0, 0.0),
    ]
    assert rows(traced, "select label, t, args from instants") == [("epoch 0", 3.0, '{"lr": 0.1}')]
    counters = [("loss", "nats", 2.0, 2.0), ("loss", "nats", 3.0, None)]
    assert rows(traced, "select name, unit, t, value from counters") == counters


def test_every_step_is_there_with_a_trace_and_without(
    run: Path, request: pytest.FixtureRequest
) -> None:
    assert rows(run, "select * from steps") == []
    ns = (1 * S, 2 * S, 3 * S, 0, 0, S // 2)
    known, unknown = COMPILED | DEVICE_CLOCK | LOADED, 0
    put(run, {**FACTS, "steps": {"start": 5 * S, "names": {"a~1": "a long name"}}})
    (run / "steps.npy").write_bytes(
        header(2)
        + ROW.pack(1, b"train", 6 * S, 9 * S, 8.0, 0.5, *ns, S // 4, 2, known)
        + ROW.pack(7, b"a~1", 7 * S, 8 * S, float("nan"), float("nan"), *ns, 0, 3, unknown)
    )
    expected = [
        (0, "train", 1, 1.0, 6.5, 1.0, 5.5, 8.0, 0.5, 2.0, 3.0, 0, 0, 0.5, 0.25, 2, 1, "device",
         2.0),
        (0, "a long name", 7, 2.0, 6.5, None, None, None, None, 2.0, 3.0, 0, 0, 0.5, 0, 3, 0,
         "host", 3.0),
    ]  # fmt: skip
    assert rows(run, "select * from steps") == expected
    slowest = "select step, t, seconds, loading from steps order by seconds desc limit 10"
    assert rows(run, slowest) == [(1, 1.0, 6.5, 1.0), (7, 2.0, 6.5, None)]
    traced = request.getfixturevalue("traced")
    assert rows(traced, "select * from steps") == expected
    assert rows(traced, "select count(*) from slices") == [(8,)]
    put(run, FACTS)  # A run that was killed before it said when it began.
    assert rows(run, "select t, seconds from steps limit 1") == [(None, 6.5)]


def test_the_documented_queries_count_each_second_once(traced: Path) -> None:
    page = (Path(__file__).parents[2] / "docs/run-directory.md").read_text()
    slowest, spans = page.split("```sql\n")[1].split("```")[0].split(";\n")[:2]
    assert rows(traced, slowest)[0] == (0, 1.0, 3.0, 1.0)
    found = {label: (n, own) for _, label, n, own in rows(traced, spans)}
    assert found == {"step": (4, 1.0), "loading": (1, 1.0), "compute": (2, 3.0), "pause": (1, 0.0)}
    whole = rows(traced, "select sum(seconds) from slices where depth = 0")
    assert [(sum(own for _, own in found.values()),)] == whole  # type: ignore[misc]


def test_the_catalogue_tells_the_unit_of_each_value(run: Path) -> None:
    query = """
        select metrics.key, value, unit, better from metrics
        join catalogue on of = 'metrics' and catalogue.key = metrics.key
        """
    assert rows(run, query) == [
        ("loss", 2.0, "1", "down"),
        ("loss", float("inf"), "1", "down"),
        ("cpudata.load", 50, "%", None),
    ]
    query = "select key, unit, better from catalogue where of = 'tasks' and name = 'steady'"
    assert rows(run, query) == [("rate_steady", "items/s", "up")]


def test_a_job_has_the_rows_of_all_ranks(tmp_path: Path) -> None:
    for rank in (0, 1):
        put(tmp_path / f"job/rank{rank}", {**FACTS, "rank": rank})
    found = rows(tmp_path / "job", "select rank, task from tasks")
    assert found == [(0, "train"), (0, "eval"), (1, "train"), (1, "eval")]


def test_ranks_of_a_machine_share_a_clock_and_others_have_their_own(tmp_path: Path) -> None:
    anchor = {"monotonic": 5_000_000_000, "epoch": 1_000_000_000_000_000_000, "place": "a boot"}
    for rank, place, start in ((0, "a boot", 6), (1, "a boot", 7), (2, "b boot", 6)):
        host = {"hostname": place[0]}
        facts = {**FACTS, "rank": rank, "place": place, "provenance": host, "pid": 7}
        facts |= {"started": "2026-01-05T09:00:00Z", "steps": {"start": start * 10**9}}
        put(tmp_path / f"job/rank{rank}", facts)
    (tmp_path / "job/job.json").write_text(json.dumps({"anchor": anchor}))
    began = datetime(2026, 1, 5, 9, tzinfo=UTC).timestamp()
    assert rows(tmp_path / "job", "select rank, host, pid, epoch from ranks") == [
        (0, "a", 7, 1e9 + 1), (1, "a", 7, 1e9 + 2), (2, "b", 7, began),
    ]  # fmt: skip


def test_rows_are_shown_as_a_table_and_without_a_query_what_there_is(traced: Path) -> None:
    query = (
        "select key, value from metrics where event < 2 and key = 'loss' or key = 'cpudata.load'"
    )
    table = "key           value\nloss              2\nloss            inf\ncpudata.load     50\n"
    assert said("sql", str(traced), query) == table
    lines = said("sql", str(traced)).splitlines()
    counts = [line.split()[:3] for line in lines]
    assert ["slices", "8", "rank,"] in counts and ["tasks", "2", "rank,"] in counts
    assert max(map(len, lines)) <= 80
    assert lines[-1] == 'For example: voir sql RUN "select * from tasks"'


def test_options_may_stand_anywhere_and_the_latest_run_is_meant_if_none_is_named(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(run.parent)
    monkeypatch.setenv("VOIR_RUN_DIR", str(run.parent))
    query, answer = "select steps from tasks", [{"steps": 3}, {"steps": 2}]
    for argv in (["--json", "run", query], ["run", "--json", query], ["run", query, "--json"],
                 [query, "--json"], ["--json", "-1", query], ["-1", "--json", query]):  # fmt: skip
        assert json.loads(said("sql", *argv)) == answer


def test_a_query_can_only_read(run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(run)
    before = sorted(run.iterdir())
    for query in (
        "delete from run", "attach 'x' as x", "vacuum into 'x'", "pragma query_only = 0; select 1",
        "nonsense", "select nothing from run", "select 1; select 2", "create table x (y)",
        "select * from slices",
    ):  # fmt: skip
        with pytest.raises(VoirError) as refused:
            said("sql", str(run), query)
        assert refused.value.slug == ("no-trace" if "slices" in query else "sql")
    assert rows(run, "select steps from tasks") == [(3,), (2,)]  # A column of its name.
    assert sorted(run.iterdir()) == before


def test_the_database_is_written_whole(traced: Path, tmp_path: Path) -> None:
    file = tmp_path / "run.db"
    assert said("sql", str(traced), "--to", str(file)) == f"{file}\n"
    for database in (sqlite3.connect(file), open_database(read_run(traced))):
        with closing(database):
            assert database.execute("select count(*) from slices").fetchone() == (8,)
            assert database.execute("select count(*) from metrics").fetchone() == (6,)
    assert [path.name for path in tmp_path.iterdir() if path.suffix == ".part"] == []
