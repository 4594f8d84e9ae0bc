"""The layout holds for any size and any content."""

from dataclasses import replace

import pytest
from boards import BOARDS, EIGHT_GPUS, TRAINING
from hypothesis import given, settings
from hypothesis import strategies as st

from instruments.dash.board import Board, Flow, Given, Meter, Task, Trend
from instruments.dash.drawing import length, plain
from instruments.dash.rows import together
from instruments.dash.view import height, lay_out

words = st.text(max_size=20).map(lambda s: "".join(c for c in s if c.isprintable()))
figure = st.floats() | st.integers(-(10**18), 10**18).map(float)
positive = st.floats(0, 1e18)
trend = st.builds(
    Trend,
    points=st.lists(figure, min_size=1, max_size=80).map(tuple),
    last=figure,
    first=st.none() | figure,
    low=st.none() | figure,
)
part = st.none() | st.floats(0, 1)
task = st.builds(
    Task,
    name=words,
    done=st.none() | positive,
    total=st.none() | positive,
    left=st.none() | st.floats(0, 1e9),
    through=part,
    steps=st.integers(0, 10**15),
    loss=st.none() | trend,
    rate=st.none() | trend,
    units=words,
    loading=part,
    compute=part,
)
meter = st.builds(
    Meter,
    label=words,
    load=st.none() | st.floats(0, 100),
    used=st.none() | positive,
    total=st.none() | positive,
    notes=st.lists(words, max_size=4).map(tuple),
)
flow = st.builds(
    Flow, label=words, ways=st.lists(st.tuples(words, positive), max_size=3).map(tuple)
)
cell = st.builds(Given, label=words, value=words, count=st.integers(0, 10**15))


def some(strategy, most):
    return st.lists(strategy, max_size=most).map(tuple)


boards = st.builds(
    Board,
    title=words,
    elapsed=st.floats(0, 1e9),
    tasks=some(task, 5),
    host=some(meter, 2),
    gpus=some(meter, 20),
    flows=some(flow, 3),
    given=some(cell, 40),
)


@settings(max_examples=60, deadline=None)
@given(boards, st.integers(2, 200), st.integers(0, 45))
def test_no_row_wraps_and_there_are_never_too_many(board, columns, most):
    lines = lay_out(board, columns, most)
    assert len(lines) <= most
    assert all(length(line) <= columns - 1 for line in lines)


@pytest.mark.parametrize("columns", [60, 80, 100, 120, 140, 200])
def test_values_stand_in_one_column(columns):
    lines = [plain(line) for line in lay_out(TRAINING, columns, 20)]
    ends = {line.index(value) + len(value) for line, value in zip(lines[1:7], VALUES, strict=True)}
    assert len(ends) == 1


VALUES = ["62 %", "0.2200", "1,184", "32 %", "48 %", "91 %"]


def test_the_script_keeps_most_of_the_screen():
    assert [height(rows) for rows in (3, 4, 6, 8, 11, 12, 24, 40, 100)] == [
        0, 1, 2, 3, 3, 6, 12, 20, 24,
    ]  # fmt: skip


def test_given_keys_go_before_traffic_when_there_is_no_room():
    text = "\n".join(plain(line) for line in lay_out(EIGHT_GPUS, 80, 12))
    assert "acc" in text
    assert "disk" not in text


def test_traffic_keeps_its_unit_in_a_narrow_window():
    flow = Flow("disk", (("read", 1.5e6), ("write", 2.5e8)))
    rows = [plain(line) for line in lay_out(Board("x", 1.0, flows=(flow,), host=HOST), 40, 12)]
    assert rows[-1] == " disk       read 1.5 write 250.0 MB/s"


HOST = (Meter("cpu", 50.0),)


def test_keys_without_room_are_counted():
    board = replace(TRAINING, given=tuple(Given(f"k{i}", "1", 1) for i in range(50)))
    for columns in (50, 80, 120):
        lines = [plain(line) for line in lay_out(board, columns, 12)]
        shown = sum(f" k{i} " in line for line in lines for i in range(50))
        assert lines[-1].endswith(f"+ {50 - shown} more")


def test_many_gpus_in_a_narrow_window_are_one_row():
    total = together(EIGHT_GPUS.gpus)
    assert total.label == "8 gpus"
    assert total.load == pytest.approx(sum(g.load for g in EIGHT_GPUS.gpus) / 8)
    assert total.used == sum(g.used for g in EIGHT_GPUS.gpus)
    assert any("8 gpus" in plain(line) for line in lay_out(EIGHT_GPUS, 50, 12))


def test_of_many_tasks_the_running_ones_are_shown():
    tasks = tuple(Task(f"epoch{i}", done=min(i, 5), total=5) for i in range(12, 0, -1))
    text = "\n".join(plain(line) for line in lay_out(Board("x", 1, tasks=tasks), 80, 12))
    assert "epoch1 " in text
    assert "epoch4 " in text
    assert "epoch12" not in text


def test_a_task_without_progress_counts_its_steps():
    line = lay_out(Board("x", 1.0, tasks=(Task("train", steps=1234),)), 80, 12)[1]
    assert plain(line).split() == ["train", "1,234", "steps"]


def test_a_diverged_loss_is_seen():
    trend = Trend((1.0, 2.0, float("nan")), float("nan"), 1.0, 1.0)
    line = lay_out(Board("x", 1.0, tasks=(Task("train", loss=trend),)), 80, 12)[2]
    assert ("\N{MULTIPLICATION SIGN}", "bad") in line
    assert " nan " in plain(line)


@pytest.mark.parametrize("board", BOARDS)
def test_a_later_frame_has_its_rows_in_the_same_places(board):
    later = replace(BOARDS[board], elapsed=5000.0)
    first, second = (lay_out(b, 80, 12) for b in (BOARDS[board], later))
    assert [plain(line)[:12] for line in first] == [plain(line)[:12] for line in second]
