"""The dashboard of a job has a row for each rank, read from its record."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime

from overseer.job.live import LiveRanks
from overseer.views.dash.board import Board
from overseer.views.dash.layout import lay_out


def put(directory, rank, rate, **facts):
    directory.mkdir(exist_ok=True)
    task = {"steps": 9, "rate": {"wall": rate}, "loss": {"last": 0.5}, "units": "items"}
    task["breakdown"] = {"forward": 1.0, "backward": 2.0, "communication": 1.0}
    begun = {
        "rank": rank, "pid": os.getpid(), "started": f"{datetime.now(UTC):%FT%T.%fZ}",
        "provenance": {"hostname": os.uname().nodename}, "tasks": {"train": task},
    }  # fmt: skip
    (directory / "run.json").write_text(json.dumps(begun | facts))


def test_each_rank_has_a_row_and_the_slowest_come_first(tmp_path):
    put(tmp_path / "rank0", 0, 120.0)
    put(tmp_path / "rank1", 1, 90.0, ended="now", exit_status=1)
    put(tmp_path / "rank2", 2, 100.0, pid=2**22 + 1)
    (tmp_path / "rank3").mkdir()
    rows = LiveRanks(tmp_path)()
    assert [row.rank for row in rows] == [3, 1, 2, 0]
    assert [row.state for row in rows] == ["", "exit status 1", "killed", ""]
    assert [row.waiting for row in rows] == [None, 0.25, 0.25, 0.25]
    board = Board("main.py")
    board.ranks = rows
    lines = ["".join(text for text, _ in line).rstrip() for line in lay_out(board, 80, 20)]
    assert lines[1:] == [
        " rank 3",
        " rank 1         90.00 items/s  loss 0.5000    waiting 25 %  exit status 1",
        " rank 2         100.0 items/s  loss 0.5000    waiting 25 %  killed",
        " rank 0         120.0 items/s  loss 0.5000    waiting 25 %",
    ]
    board.ranks = rows * 30
    lines = ["".join(text for text, _ in line) for line in lay_out(board, 60, 20)]
    assert lines[-1].startswith(" + 115 more ranks") and max(map(len, lines)) < 60
    board.ranks = rows[:1]
    assert len(lay_out(board, 80, 20)) == 1


def test_the_process_that_started_the_others_may_be_a_rank_and_all_are_read_in_turns(
    tmp_path, monkeypatch
):
    monkeypatch.setattr("overseer.job.live.READ_RANKS", 3)
    put(tmp_path, 0, 5.0)
    for rank in range(1, 6):
        put(tmp_path / f"rank{rank}", rank, 10.0 * rank)
    live = LiveRanks(tmp_path)
    assert [[row.rank for row in live()] for _ in range(2)] == [[0, 1, 2, 3], [0, 1, 2, 3, 4, 5]]


def test_a_rank_that_makes_no_step_says_where_it_is(tmp_path, monkeypatch):
    idle = {"file": "/a/data.py", "line": 34, "function": "load", "call": "read"}
    put(tmp_path / "rank0", 0, 5.0, idle=idle)
    monkeypatch.setattr("overseer.job.live.read_header", lambda directory: object())
    monkeypatch.setattr("overseer.job.live.lives", lambda header: True)
    monkeypatch.setattr("overseer.rundir.killed.now_doing", lambda header: "in loading for 12 s")
    (row,) = LiveRanks(tmp_path)()
    assert row.state == "in loading for 12 s: in read, /a/data.py:34 in load"
