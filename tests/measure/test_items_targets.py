"""Targets of one dictionary a picture beside an object that nothing is known of, as in DETR."""

from __future__ import annotations

from typing import Any

import pytest

from overseer.measure.items import batch_size

from .program import Tensor
from .test_items import X, Y, counted
from .test_items_samples import Picture, pictures


class Padded:
    """Like DETR's NestedTensor: an ordinary object that holds tensors; no length, no shape."""

    def __init__(self, count: int) -> None:
        self.decoded = None
        self.tensors, self.mask = Tensor(count, 3, 64, 48), Tensor(count, 64, 48)


class Points:
    """Like a sparse tensor: its first dimension is of points."""

    def __init__(self) -> None:
        self.features = Tensor(900, 16)


class Slots:
    __slots__ = ()


def targets(count: int, boxes: int = 1, more: int = 0) -> list[dict[str, Any]]:
    numbers = [boxes + more * n for n in range(count)]
    return [{"boxes": Tensor(n, 4), "labels": Tensor(n)} for n in numbers]


COUNTS = [1, 2, 3, 4, 5, 6, 16]


@pytest.mark.parametrize("of", [tuple, list])
@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize(("boxes", "more"), [(1, 0), (7, 0), (7, 1), (0, 0), (0, 2)])
def test_targets_beside_an_unknown_object_are_samples(
    of: type, count: int, boxes: int, more: int
) -> None:
    told = of(targets(count, boxes, more))
    batches: list[Any] = [
        (Padded(count), told),
        [Padded(count), told],
        (told, Padded(count)),
        (Padded(count), told, ["a"] * count),
        {"x": Padded(count), "targets": told},
        {"targets": told, "x": Padded(count)},
        (Points(), told),
        (Slots(), told),
    ]
    for batch in batches:
        assert batch_size(batch) == count
    assert counted(*batches) == [count] * len(batches)


@pytest.mark.parametrize("of", [tuple, list])
@pytest.mark.parametrize("within", [tuple, list])
@pytest.mark.parametrize("count", COUNTS)
def test_pictures_and_their_targets_are_as_many_as_there_are_pictures(
    of: type, within: type, count: int
) -> None:
    for images in (pictures(count), [Tensor(3, 64, 48)] * count, [Picture()] * count):
        batch = of([within(images), within(targets(count, 3))])
        assert counted(batch, batch) == [count] * 2
        batch = of([within(targets(count, 3)), within(images)])
        assert counted(batch, batch) == [count] * 2


def test_targets_between_other_batches_of_their_kind() -> None:
    some: list[tuple[Any, int]] = [
        ((X, Y), 32),
        ((Padded(4), tuple(targets(4))), 4),
        ([X, Y], 32),
        ([Padded(2), tuple(targets(2, 7))], 2),
        ((Padded(1), tuple(targets(1, 7))), 1),
        ({"x": X, "targets": tuple(targets(2))}, 32),
        ({"x": Padded(3), "targets": tuple(targets(3, 2))}, 3),
        (tuple(pictures(8)), 8),
    ]
    for order in (some, some[::-1], [*some, *some]):
        assert counted(*[batch for batch, _ in order]) == [items for _, items in order]


SAMPLE = {"image": Tensor(3, 64, 48), "label": Tensor()}


@pytest.mark.parametrize(
    ("batch", "items"),
    [
        ((SAMPLE,), 1),
        ((SAMPLE,) * 2, 2),
        ((SAMPLE,) * 5, 5),
        (({"text": "a", "label": 1},) * 3, 3),
        ((Padded(2), ({"text": "a", "label": 1},) * 2), 2),
        ((Padded(2), ((Tensor(5, 4), Tensor(5)),) * 2), 2),
        ((Tensor(2, 3, 9, 9), ((Tensor(5, 4), Tensor(5)),) * 2), 2),
        ((((Tensor(5, 4), Tensor(5)),) * 2, Tensor(2, 3, 9, 9)), 2),
        ((Padded(3), [Tensor(5, 4), Tensor(2, 4), Tensor(7, 4)]), 3),
        ((Padded(3), Tensor(3)), 3),
    ],
)
def test_short_tuples_that_are_clearly_samples(batch: Any, items: int) -> None:
    assert counted(batch, batch, (X, Y), batch) == [items, items, 32, items]


TOKENS = {"input_ids": Tensor(32, 9), "attention_mask": Tensor(32, 9)}


@pytest.mark.parametrize(
    "batch",
    [
        (TOKENS,),
        (TOKENS, TOKENS),
        ({"x": X, "temperature": Tensor()},),
        ({**TOKENS, "weights": Tensor(4)},) * 2,
        (TOKENS, {"input_ids": Tensor(64, 7), "attention_mask": Tensor(64, 7)}),
        ((TOKENS, TOKENS), Y),
        (({**TOKENS, "weights": Tensor(4)},) * 2, Y),
        (({"x": X, "weights": Tensor(4)},) * 2, Y),
        (({"scale": Tensor()},) * 2, Y),
        ({"x": X}, {"y": Y}),
        ((X, Y), (X, Y)),
        (((X, Y), (X, Y)), Y),
    ],
)
def test_views_of_a_batch_are_as_long_as_the_first(batch: Any) -> None:
    """What an encoder made of questions and of answers has the same keys, and is no sample."""
    assert counted(batch, batch, (X, Y), batch) == [32] * 4


@pytest.mark.parametrize("batch", [Padded(4), (Padded(4), None)])
def test_an_unknown_object_that_nothing_speaks_for_has_no_size(batch: Any) -> None:
    assert batch_size(batch) is None
