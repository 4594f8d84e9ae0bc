"""Samples that are written out as lists of numbers are counted, and tokens found where they lie."""

from __future__ import annotations

from collections import UserDict
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest

from overseer.measure.counts import Counts
from overseer.measure.items import TOKEN_KEYS, Sizer, batch_size

from .program import Tensor
from .test_items import Pair, X, Y, counted
from .test_items_samples import SAME, Sample

ROWS = [[1] * 7] * 4
RAGGED = [[1] * 7, [1] * 3, [1] * 5, [1] * 2]
PICTURES = [[[[0.0] * 9] * 8] * 3] * 4


@pytest.mark.parametrize(
    ("batch", "items"),
    [
        ([[0.0] * 10] * 32, 32),
        ([[1] * 7] * 6, 6),
        ([[[0.5] * 3] * 9] * 8, 8),
        (PICTURES * 2, 8),
        ([[[0.0] * 10, 1]] * 32, 32),
        ([["a", "b"]] * 9, 9),
        (RAGGED, 4),
        ([[1, 2], [3]], 2),
        ([[1, 2], []], 2),
        ([(1, 2), (3, 4, 5), (6,)], 3),
        ([["to", "be"], ["or", "not", "to"]], 2),
        ((RAGGED,), 4),
        (([[0.0] * 10] * 32, [[1.0]] * 32), 32),
    ],
)
def test_lists_of_numbers_are_samples_where_they_are_many_or_differ_in_length(
    batch: Any, items: int
) -> None:
    assert batch_size(batch) == items
    assert counted(batch, batch, batch) == [items] * 3


@pytest.mark.parametrize(
    ("batch", "items"),
    [
        ([[1, 2, 3], [0, 1, 0]], 3),
        ([["a", "b", "c"], [0, 1, 0]], 3),
        ([[1] * 9] * 5, 9),
        (([1] * 7, [0] * 7), 7),
        (([1] * 7, [0] * 3), 7),
        (([1] * 7,) * 8, 7),
        (ROWS, 7),
        ([ROWS, [0] * 4], 4),
        ([ROWS, ROWS, [0] * 4, [1] * 4, [2] * 4, [3] * 4], 4),
        ([[1, 2, 3], None, [4]], 3),
    ],
)
def test_few_lists_as_long_as_each_other_are_inputs_and_targets(batch: Any, items: int) -> None:
    assert batch_size(batch) == items
    assert counted(batch, batch, batch) == [items] * 3


@pytest.mark.parametrize(
    ("batch", "items"),
    [
        ({"input_ids": ROWS}, 4),
        ({"input_ids": ROWS, "attention_mask": ROWS}, 4),
        ({"input_ids": RAGGED, "attention_mask": RAGGED}, 4),
        ({"epoch": 3, "input_ids": ROWS, "name": "train"}, 4),
        ({"input_ids": ROWS, "labels": [0] * 4}, 4),
        ({"inputs": {"input_ids": ROWS}, "n": 9}, 4),
        ({"image": PICTURES}, 4),
        ({"image": PICTURES[:1]}, 1),
        (UserDict(input_ids=ROWS), 4),
        (({"input_ids": ROWS}, [0] * 4), 4),
        ([{"input_ids": ROWS}, [0] * 4], 4),
        (Sample(ROWS, 5), 4),
        (Sample(ROWS, None), 4),
        (Pair(ROWS, 5), 4),
        (Pair(ROWS, ROWS), 4),
        ((ROWS, ROWS), 4),
        ([ROWS, ROWS], 4),
        ((ROWS, ROWS, [0] * 4), 4),
        ((ROWS, ROWS, 0.5), 4),
        ((tuple(RAGGED), tuple(RAGGED)), 4),
        ((ROWS, [0] * 4), 4),
        ({"pair": (ROWS, ROWS)}, 4),
    ],
)
def test_lists_of_numbers_in_a_part_that_has_a_name_are_samples(batch: Any, items: int) -> None:
    assert batch_size(batch) == items
    assert counted(batch, batch, batch) == [items] * 3


@pytest.mark.parametrize(
    ("batch", "items"),
    [
        ({"input_ids": ROWS, "x": X}, 32),
        ({"x": X, "input_ids": ROWS}, 32),
        ((ROWS, Tensor(4)), 4),
        ((ROWS, X), 32),
        (Sample(ROWS, X), 32),
        (([Tensor(32, 8)] * 2, [[0] * 32] * 2), 32),
        ({"x": [Tensor(32, 8)] * 2, "y": [[0] * 32] * 2}, 32),
        ((SAME * 2, [[0, 1], [1]]), 2),
        ({"x": [[X, X], [X, X]]}, 32),
    ],
)
def test_tensors_decide_beside_lists_of_numbers(batch: Any, items: int) -> None:
    assert batch_size(batch) == items
    assert counted(batch, batch, batch) == [items] * 3


def test_texts_that_torch_collates_stay_what_they_were() -> None:
    torch = pytest.importorskip("torch")
    collate = torch.utils.data.default_collate
    assert batch_size(collate([(["a", "b"], 1) for _ in range(4)])) == 4
    assert batch_size(collate([{"ids": [1, 2, 3]} for _ in range(4)])) == 4


# Tokens


@dataclass
class Tokens:
    num_tokens: Any
    x: Any = None


@dataclass
class Ids:
    input_ids: Any
    labels: Any = None


@dataclass
class Slotted:
    __slots__ = ("ntokens",)
    ntokens: int


class Counted(NamedTuple):
    x: Any
    ntokens: Any = None


class Encoded(NamedTuple):
    input_ids: Any


@dataclass
class Property:
    x: Any

    @property
    def num_tokens(self) -> int:
        raise AssertionError("a property was asked")


class Stated(Tensor):
    """What has a shape, and says besides how many tokens it holds."""

    def __init__(self, tokens: Any, *shape: int) -> None:
        super().__init__(*shape)
        self.num_tokens = tokens


class Wary(Tensor):
    """A tensor that is not to be asked for tokens."""

    def __getattr__(self, name: str) -> Any:
        if name in (*TOKEN_KEYS, "input_ids", "get"):
            raise AssertionError(f"a tensor was asked for {name}")
        raise AttributeError(name)


IDS = Tensor(4, 16)


@pytest.mark.parametrize(
    ("batch", "tokens", "stated"),
    [
        (Tokens(100, X), 100, True),
        (Tokens(None, X), None, False),
        (Slotted(50), 50, True),
        (Ids(IDS), 64, False),
        (Ids(Y), None, False),
        (Counted(X, 100), 100, True),
        (Counted(X), None, False),
        (Encoded(IDS), 64, False),
        (SimpleNamespace(n_tokens=100, x=X), 100, True),
        (SimpleNamespace(input_ids=IDS), 64, False),
        (({"num_tokens": 100, "x": X}, Y), 100, True),
        ([{"num_tokens": 100, "x": X}, Y], 100, True),
        (({"input_ids": IDS}, Tensor(4)), 64, False),
        ((Tokens(100, X), Y), 100, True),
        ((SimpleNamespace(num_tokens=100), Y), 100, True),
        (Counted({"num_tokens": 100, "x": X}), 100, True),
        ((Y, {"num_tokens": 100}), None, False),
        ([{"num_tokens": 100}, {"num_tokens": 90}], None, False),
        ([Tokens(100), Tokens(90)], None, False),
        (Property(X), None, False),
        (Stated(300, 4, 100), 300, True),
        ((Stated(300, 4, 100), Tensor(4)), 300, True),
        (Stated(None, 4, 100), None, False),
        (Wary(32, 3), None, False),
        ((Wary(32, 3), Wary(32)), None, False),
        ({"x": Wary(32, 3)}, None, False),
        (Tokens, None, False),
    ],
)
def test_tokens_are_found_in_fields_and_in_the_first_of_several_parts(
    batch: Any, tokens: int | None, stated: bool
) -> None:
    size = Sizer().size(batch)
    assert (size.tokens, size.stated) == (tokens, stated)
    assert "asked" not in (size.reason or "")


def test_what_is_found_beside_tokens_is_as_long_as_ever() -> None:
    assert Sizer().size(Tokens(100, X)).items == 32
    assert Sizer().size(({"num_tokens": 100, "x": X}, Y)).items == 32
    assert Sizer().size(Wary(32, 3)).items == 32


def test_an_object_of_unknown_size_that_states_its_tokens_is_counted_in_them() -> None:
    told: list[str] = []
    counts = Counts(1, None, "auto", told.append)
    batches = [SimpleNamespace(num_tokens=number, x=X) for number in (100, 90, 80)]
    assert [counts({"batch": batch}, "train") for batch in batches] == [100, 90, 80]
    assert (counts.units("train"), told) == ("tokens", [])


@pytest.mark.parametrize(
    "batches",
    [
        [({"num_tokens": n, "x": X}, Y) for n in (100, 90, 80)],
        [Tokens(n, X) for n in (100, 90, 80)],
        [Counted(X, n) for n in (100, 90, 80)],
    ],
    ids=["tuple", "dataclass", "named"],
)
def test_each_batch_is_asked_for_the_tokens_that_it_states(batches: list[Any]) -> None:
    assert counted(*batches) == [100, 90, 80]


@pytest.mark.parametrize("last", [1, 2, 5])
def test_a_last_smaller_batch_of_the_same_lists_is_of_samples_too(last: int) -> None:
    row = [0.5] * 3
    assert counted([row] * 16, [row] * 16, [row] * last) == [16, 16, last]
    assert counted([[1, 2, 3], [0, 1, 0]], [row] * 16, [row] * last) == [3, 16, last]
    assert counted([row] * 16, [[1] * 9, [0] * 9]) == [16, 9]
