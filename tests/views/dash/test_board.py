"""What the dashboard takes up: steps, given figures, monitors, scalars."""

from __future__ import annotations

import math
from types import SimpleNamespace

import numpy
import pytest
from runs import step, training

from overseer.recorder.values import values
from overseer.views.dash.board import Board, History
from overseer.views.dash.layout import lay_out, words


@pytest.fixture
def board():
    made = Board("main.py", clock=lambda: made.clock)
    made.clock = 0.0
    return made


def read(board, now=0.0):
    board.read(now, dict, last=True)
    return board


def course(board, start, end, n):
    """The known means of the loss."""
    losses = read(board).tasks["train"].loss.over(start, end, n)
    return [value for value in losses if value is not None]


@pytest.mark.parametrize("n", [1, 3, 16, 17, 1000, 100_000])
def test_a_history_is_bounded_and_keeps_the_mean_of_each_part(n):
    history = History(capacity=16, length=0.5)
    for at in range(n):
        history.add(at, float(at))
    assert history.points <= 16
    means = [mean for mean in history.over(0, history.end, 8) if mean is not None]
    assert means == sorted(means)
    assert 0 <= means[0] <= means[-1] <= n - 1
    assert math.isclose(sum(means) / len(means), (n - 1) / 2, rel_tol=0.2, abs_tol=1)


def test_between_two_known_values_a_history_is_a_line():
    history = History(capacity=100, length=0.1)
    history.add(1.0, 10.0)
    history.add(3.0, 30.0)
    assert history.over(0.0, 4.0, 8) == [None, None, 10.0, 15.0, 20.0, 25.0, 30.0, None]


def test_a_value_that_is_no_number_stays_seen():
    history = History(capacity=16, length=1.0)
    for at in range(64):
        history.add(at, math.inf if at == 20 else -math.inf if at == 21 else 1.0)
    assert [at for at, value in enumerate(history.over(0, 63, 16)) if value != value] == [5]


def test_losses_come_with_the_steps_and_one_on_a_device_is_waited_for_in_order(board):
    late = SimpleNamespace(arrived=False, value=math.nan)
    board.take([step(1, 1.0, 0.5, late=[late]), step(2, 2.0), step(3, 3.0, 1.0)])
    assert not read(board).tasks
    late.arrived, late.value = True, 2.0
    assert course(board, 1.0, 3.0, 2) == [2.5, 1.0]


def test_training_stands_first_and_other_tasks_as_they_came(board):
    for task in ("b", "train", "a"):
        board.hear({"rate": 1.0, "task": task})
    assert list(read(board).tasks) == ["train", "b", "a"]


def test_where_the_script_gives_losses_they_count_and_not_those_of_steps():
    given, now = [5.0, 4.5, 4.0], [0]
    board = Board("main.py", given=lambda task: given[now[0]], clock=lambda: float(now[0]))
    for now[0] in range(3):
        board.take([step(1, 1.0, 3.0), step(2, 1.0, 2.0)])
    assert course(board, 0.0, 2.0, 3) == given


def test_figures_are_computed_once_a_second(board):
    looks = []
    for tenth in range(40):
        board.read(tenth / 10, lambda: looks.append(1) or {})
    assert len(looks) == 4


@pytest.mark.parametrize(
    ("heard", "total", "left"),
    [
        ([(0, 0), (10, 1)], 10, 90.0),
        ([(0, 0), (10, 1), (20, 3)], 10, 140 / 3),
        ([(0, 50), (10, 60), (20, 0), (30, 50)], 100, 10.0),  # It began again.
        ([(14, 1)], 10, 90.0),  # The first epoch began with the first step.
        ([(0, 10)], 10, None),
        ([(0, 0), (10, 10)], 10, None),
    ],
)
def test_the_time_left(board, heard, total, left):
    board.take([step(1, 5.0, seconds=1.0)])
    read(board)
    for board.clock, done in heard:
        board.hear({"progress": (done, total)})
    assert read(board).tasks["train"].left(board.clock) == (left and pytest.approx(left))


@pytest.mark.parametrize(
    ("heard", "said"),
    [
        ([(0, 0, (1, 4)), (10, 50, (1, 4)), (20, 100, (1, 4))], "0:01:00 left"),
        ([(0, 0, (1, 2)), (10, 100, (1, 2)), (15, 0, (2, 2)), (20, 50, (2, 2))], "0:00:07 left"),
        ([(0, 0, (2, 2)), (10, 100, (2, 2))], ""),
        ([(0, 0, (1, 2))], ""),
        ([(0, 0, None), (10, 50, None)], "0:00:10 left of this bar"),
        ([(0, 0, ...), (10, 50, ...)], "0:00:10 left"),
    ],
)
def test_the_time_left_of_a_bar_is_the_runs_where_the_epoch_is_known(board, heard, said):
    for board.clock, done, turn in heard:
        of = {} if turn is ... else {"turn": turn}
        board.hear({"progress": (done, 100), "task": "Epoch", **of})
    board.read(board.clock, dict)
    _, told = words(board)
    assert (said in told, "left" in told) == (True, bool(said))
    assert ("epoch 2/2" in told) == (turn == (2, 2))


def refuse(self):
    raise RuntimeError


NUMBERS = [(3, 3), (0.25, 0.25), (math.nan, math.nan), (-math.inf, -math.inf), (10**400, math.inf)]
NUMBERS += [(numpy.float32(0.5), 0.5), (numpy.int64(7), 7), (numpy.array(2.0), 2.0)]
OTHERS = [numpy.zeros(3), True, None, "x" * 1_000_000, [1, 2], SimpleNamespace(a=1)]
OTHERS += [type("Odd", (), {"__module__": "numpy", "shape": property(refuse)})()]


def test_only_numbers_are_shown(board):
    board.keep({f"key{n}": value for n, (value, _) in enumerate(NUMBERS)})
    board.keep({f"other{n}": value for n, value in enumerate(OTHERS)})
    assert repr([value for _, value in board.scalars]) == repr([shown for _, shown in NUMBERS])


def test_keys_have_the_task_before_them_and_are_bounded(board):
    board.keep({"task": "eval", "accuracy": 0.5, "loss": 1.0, "step": 3, "batch": 1, "$began": 7})
    board.keep({"task": "train", "lr": 0.1})
    board.keep({"$event": "phase", "n": 1})
    assert board.scalars == [("eval/accuracy", 0.5), ("lr", 0.1)]
    board.keep({f"key{n}": n for n in range(10_000)})
    for n in range(100):
        board.hear({"task": f"task{n}", "rate": 1.0})
    assert (len(read(board).scalars) <= 512, len(board.tasks)) == (True, 32)


def test_tensors_are_kept_without_their_graphs_and_seldom(board):
    torch = pytest.importorskip("torch")
    weight, meta = torch.ones((), requires_grad=True), torch.ones((), device="meta")
    for n in (1.0, 2.0, 3.0):
        board.keep({"norm": weight * n, "many": torch.zeros(2), "meta": meta})
    assert board.scalars == [("norm", 1.0)]
    read(board)
    board.keep({"norm": weight * 4, "flag": torch.tensor(True)})
    assert board.scalars == [("norm", 4.0)]


def test_a_number_on_a_device_is_shown_when_it_has_arrived(board, monkeypatch):
    kind = type("Tensor", (), {"__module__": "torch", "numel": lambda self: 1})
    kind.device, asked = SimpleNamespace(type="cuda"), []
    monkeypatch.setattr(values, "later", lambda tensor, arrived: not asked.append(arrived))
    board.keep({"norm": kind()})
    assert board.scalars == [("norm", None)]
    asked[0](-math.inf)
    monkeypatch.setattr(values, "later", lambda tensor, arrived: False)
    board.keep({"captured": kind()})
    assert board.scalars == [("norm", -math.inf)]


ODD = [
    *({"progress": it} for it in ((1, 0), "half", (1, 2, 3), (math.nan, 3))),
    {"rate": "fast"}, {"gpudata": None}, {"gpudata": {0: None, "x" * 10_000: {"memory": [1, 0]}}},
    {"cpudata": {"load": "high", "memory": "much"}}, {"iodata": {"read_bytes": {"deep": 3}}},
    {"task": ["no", "name"], "rate": math.inf, "units": None},
    {"task": "\x1b[2J" * 1000, "rate": 1.0, "units": "\x07" * 1000},
]  # fmt: skip


def test_odd_events_are_drawn_or_left_out():
    board = training(seconds=2)
    board.keep({"\x1b]0;title\x07": 1.0, "a/b\nc": 2.0, "x" * 10_000: 3.0})
    for event in ODD:
        board.hear(event)
        text = "".join(t for line in lay_out(read(board, 106.0), 200, 40) for t, _ in line)
        assert "title" in text
        assert not set(text) & {"\x1b", "\x07", "\n"}
