"""Tensors of torch and numpy become their number or their shape."""

from __future__ import annotations

import json
import weakref

import pytest

from overseer.record.encode import encode, snapshot

torch = pytest.importorskip("torch", reason="torch comes with the extra [examples]")
np = pytest.importorskip("numpy", reason="numpy comes with the extra [examples]")


def read_back(value):
    return json.loads(encode(value))


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (torch.tensor(0.5), 0.5),
        (torch.tensor([[3]]), 3),
        (torch.tensor(float("nan")), "NaN"),
        (torch.tensor(True), True),
        (torch.tensor(0.5, requires_grad=True) * 2, 1.0),
        (torch.ones(3, 4, dtype=torch.bfloat16), {"shape": [3, 4], "dtype": "bfloat16"}),
        (torch.ones(0), {"shape": [0], "dtype": "float32"}),
        (torch.empty((), device="meta"), {"shape": [], "dtype": "float32", "device": "meta"}),
        (np.float32(0.5), 0.5),
        (np.float64("inf"), "Infinity"),
        (np.int64(7), 7),
        (np.bool_(True), True),
        (np.array([2.5]), 2.5),
        (np.zeros((2, 3), dtype=np.int16), {"shape": [2, 3], "dtype": "int16"}),
        (np.str_("text"), "text"),
    ],
    ids=str,
)
def test_a_tensor_is_its_number_or_its_shape(value, expected):
    assert read_back({"x": value}) == {"x": expected}


def test_a_snapshot_shows_the_number_of_its_moment():
    total, history = torch.tensor(1.0), [1]
    event = {"total": snapshot(total), "history": snapshot(history), "step": snapshot(3)}
    total += 1
    history.append(2)
    assert read_back(event) == {"total": 1.0, "history": [1], "step": 3}


def test_a_snapshot_keeps_no_graph_alive():
    loss = (torch.ones(3, requires_grad=True) * 2).sum()
    gone = weakref.ref(loss)
    taken = [snapshot(loss), snapshot(loss.expand(2))]
    del loss
    assert gone() is None
    assert read_back(taken) == [6.0, {"shape": [2], "dtype": "float32"}]
