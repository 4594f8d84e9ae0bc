"""``voir sql``: a run's tables, what a query gets of them, and what it may not do."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from overseer.cli.sql import sql
from overseer.errors import VoirError
from tests.running import Place
from voir.runs import open_database, read_run

from .test_trace_command import write_trace

FACTS = {
    "started": "1970-01-01T00:00:00Z",
    "exit_status": 0,
    "argv": ["voir", "main.py"],
    "tasks": {"train": {"steps": 3, "rate": {"wall": 12.5}, "steady": {"verdict": "steady"}}},
    "provenance": {"git": {"sha": "abc", "dirty": True}},
}
EVENTS = [
    {"t": 0.5, "loss": 2.0},
    {"t": 1.5, "n": 300, "loss": "NaN", "task": "train"},
    {"cpudata": {"load": 50, "memory": [1, 2]}, "t": 2.0, "big": 1 << 70},
]


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
def traced(run: Path) -> Path:
    write_trace(run / "trace.pftrace")
    return run


def rows(run: Path, query: str) -> list[tuple[object, ...]]:
    answered = json.loads("".join(sql([str(run), query, "--json"], 80)))
    return [tuple(row.values()) for row in answered]


def refused(*argv: str) -> VoirError:
    with pytest.raises(VoirError) as error:
        list(sql(list(argv), 80))
    return error.value


def test_every_value_of_the_record_has_its_path(run: Path) -> None:
    found = dict(rows(run, "select key, value from run"))  # type: ignore[arg-type]
    assert found["provenance.git.sha"] == "abc"
    assert found["provenance.git.dirty"] == 1
    assert found["argv.1"] == "main.py"
    assert found["tasks.train.rate.wall"] == 12.5


def test_a_task_is_a_row_and_what_is_not_known_is_null(run: Path) -> None:
    query = "select task, steps, rate_wall, steady_verdict, loss_last from tasks"
    assert rows(run, query) == [("train", 3, 12.5, "steady", None)]


def test_events_are_there_whole_and_value_by_value(run: Path) -> None:
    assert rows(run, "select event, t, n, task, key, value from metrics") == [
        (0, 0.5, None, None, "loss", 2.0),
        (1, 1.5, 300, "train", "loss", None),
        (2, 2.0, None, None, "cpudata.load", 50),
        (2, 2.0, None, None, "cpudata.memory.0", 1),
        (2, 2.0, None, None, "cpudata.memory.1", 2),
        (2, 2.0, None, None, "big", float(1 << 70)),
    ]
    assert [json.loads(str(text)) for (text,) in rows(run, "select json from events")] == EVENTS


def test_steps_spans_and_counters_come_from_the_trace(traced: Path) -> None:
    begun = rows(traced, "select min(t) from slices")[0][0]
    spans = "select label, count(*), count(parent), round(sum(seconds), 3) from slices group by 1"
    assert rows(traced, spans) == [
        ("epoch", 3, 0, 0.02),
        ("run_script", 1, 0, 0.031),
        ("step", 12, 12, 0.03),
    ]
    assert begun == pytest.approx((1 << 60) / 1e9)
    marks = rows(traced, "select label from instants where label like 'epoch%'")
    assert marks == [("epoch 0",), ("epoch 1",), ("epoch 2",)]
    counted = rows(traced, "select name, unit, count(*), max(value) from counters group by name")
    assert counted == [("loss", "nats", 12, 1.0)]


def test_steps_have_their_parts(tmp_path: Path) -> None:
    pytest.importorskip("perfetto")
    place = Place(tmp_path)
    place.write(
        "main.py",
        """
        from voir import iterate
        for batch in iterate("train", [[1, 2]] * 3, report_batch=True, ignore_loading=True):
            pass
        """,
    )
    assert place.voir("--trace", "--run-dir", "run", "main.py").status == 0
    found = rows(tmp_path / "run", "select task, step, items, seconds >= compute from steps")
    assert [row[:3] for row in found] == [("train", n, 2) for n in range(3)]
    (bounds,) = rows(tmp_path / "run", "select min(t) >= 0, max(t) < 60 from steps")
    assert bounds == (1, 1)


def test_a_job_has_the_rows_of_all_ranks(tmp_path: Path) -> None:
    for rank in (0, 1):
        put(tmp_path / f"job/rank{rank}", {**FACTS, "rank": rank})
    assert rows(tmp_path / "job", "select rank, task from tasks") == [(0, "train"), (1, "train")]


def test_it_is_shown_as_a_table(run: Path) -> None:
    query = "select key, value from metrics where key like 'cpu%' or key = 'loss'"
    assert "".join(sql([str(run), query], 80)).splitlines() == [
        "key               value",
        "loss                  2",
        "loss",
        "cpudata.load         50",
        "cpudata.memory.0      1",
        "cpudata.memory.1      2",
    ]


def test_without_a_query_it_says_what_there_is(traced: Path) -> None:
    lines = "".join(sql([str(traced)], 80)).splitlines()
    assert any(line.split()[:3] == ["slices", "16", "rank,"] for line in lines)
    assert max(map(len, lines)) <= 80


@pytest.mark.parametrize(
    "query",
    ["delete from run", "attach 'x' as x", "vacuum into 'x'", "pragma query_only", "nonsense",
     "select nothing from run", "select 1; select 2", "create table x (y)"],
)  # fmt: skip
def test_a_query_can_only_read(run: Path, query: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(run)
    before = sorted(run.iterdir())
    assert refused(str(run), query).slug == "sql"
    assert sorted(run.iterdir()) == before


def test_a_column_that_has_a_tables_name_asks_for_no_trace(run: Path) -> None:
    assert rows(run, "select steps from tasks") == [(3,)]


def test_a_query_that_needs_a_trace_says_so(run: Path) -> None:
    assert refused(str(run), "select * from steps").slug == "no-trace"
    assert rows(run, "select count(*) from tasks") == [(1,)]


def test_the_database_is_written_whole_and_never_over_another(traced: Path, tmp_path: Path) -> None:
    file = tmp_path / "run.db"
    assert "".join(sql([str(traced), "--to", str(file)], 80)) == f"{file}\n"
    with closing(sqlite3.connect(file)) as database:
        assert database.execute("select count(*) from slices").fetchone() == (16,)
        assert database.execute("select count(*) from metrics").fetchone() == (6,)
    assert refused(str(traced), "--to", str(file)).slug == "sql-unwritable"
    assert refused(str(traced), "--to", str(tmp_path / "no/run.db")).slug == "sql-unwritable"
    assert refused(str(traced), "select 1", "--to", "x").slug == "usage"
    assert [path.name for path in tmp_path.iterdir() if path.suffix == ".part"] == []


def test_it_opens_in_python_too(run: Path) -> None:
    with closing(open_database(read_run(run))) as database:
        assert database.execute("select value from run where key = 'exit_status'").fetchone() == (
            0,
        )
