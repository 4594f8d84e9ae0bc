"""A list means inputs and targets here and samples there: each is counted as if it came alone."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from overseer.measure.counts import Counts
from overseer.measure.items import Sizer

from .program import Tensor
from .test_items import Pair, X, Y, counted

Make = Callable[..., Any]
Four = namedtuple("Four", "a b c d")
#: Lengths of utterances, of which eight are a batch.
LENGTHS = (1500, 1023, 1999, 1042, 1876, 1311, 1250, 1004)


def _made_by(library: str) -> Make:
    if library == "shape":
        return Tensor
    module = pytest.importorskip(library)
    return lambda *shape: module.zeros(shape)


@pytest.fixture(params=["shape", "numpy", "torch"])
def make(request: pytest.FixtureRequest) -> Make:
    """Makes a tensor of a shape."""
    return _made_by(request.param)


def utterances(make: Make, count: int = 8) -> list[Any]:
    return [make(length) for length in LENGTHS[:count]]


def images(make: Make, count: int = 8) -> list[Any]:
    """Of different sizes, and of as many channels as each other."""
    return [make(3, 30 + number, 20 + number) for number in range(count)]


@pytest.mark.parametrize("samples", [utterances, images])
@pytest.mark.parametrize("count", [4, 5, 8])
@pytest.mark.parametrize("of", [list, tuple])
@pytest.mark.parametrize("order", ["PPSSS", "SSPPS", "PSPSPS", "SPSPSP"])
def test_samples_and_pairs_in_any_order(
    make: Make, samples: Callable[..., list[Any]], count: int, of: type, order: str
) -> None:
    pair, many = of([make(32, 10), make(32)]), of(samples(make, count))
    batches = [pair if each == "P" else many for each in order]
    assert counted(*batches) == [32 if each == "P" else count for each in order]


def test_a_task_of_samples_beside_one_of_pairs(make: Make) -> None:
    counts = Counts(1, None, "auto", lambda reason: None)
    for _ in range(2):  # Two epochs.
        for pair in ([make(32, 10), make(32)], (make(16, 10), make(16))) * 3:
            assert counts({"batch": pair}, "train") == pair[1].shape[0]
        for samples in (utterances(make), tuple(images(make)), images(make), [make()] * 8) * 3:
            assert counts({"batch": samples}, "eval") == 8


def test_tuples_with_names_and_dictionaries_in_between(make: Make) -> None:
    x, y, samples = make(32, 10), make(32), utterances(make)
    batches = [
        (Pair(x, y), 32),
        ({"x": x, "y": y}, 32),
        ([x, y], 32),
        ((x, y), 32),
        (Four(x, x, x, x), 32),
        ({"x": samples}, 8),
        (samples, 8),
        (tuple(samples), 8),
        (Pair(samples, [0] * 8), 8),
        ([samples, make(8)], 8),
        (Four(*samples[:4]), 4),
    ]
    for order in (batches, batches[::-1], [*batches, *batches]):
        assert counted(*[batch for batch, _ in order]) == [items for _, items in order]


def test_only_the_first_list_of_samples_that_are_as_long_as_each_other_is_misread(
    make: Make,
) -> None:
    """Of arrays, which PyTorch's loaders make no columns of, so many are samples."""
    alike, array = [make(150)] * 8, type(make(150)).__module__ == "numpy"
    first = 8 if array else 150
    assert counted(alike, *[utterances(make)] * 3, alike) == [first, 8, 8, 8, first]


@pytest.mark.parametrize(
    "batch",
    [
        [Tensor(32, 9)] * 4,
        [*[Tensor(32, 9)] * 3, Y],
        [Tensor(32, 9), Tensor(32, 7), Tensor(32, 5), Tensor(32, 3)],
        [Tensor(32, 9, 9)] * 5,
        [Tensor(32, 9)] * 7,
        [X, Y, None, ["a"] * 32],
        [X, None, ["a"] * 32, Y],
        [X, None, ["a"] * 32, X],
        [Tensor(32), Tensor(33), Tensor(34), Tensor(32)],
        [Tensor(32, 9), Tensor(900, 2), Tensor(900, 8), Tensor(32, 1)],
        [Tensor(32, 9), Tensor(900, 2), Tensor(900, 8), Tensor(12, 1)],
        Four(X, Y, X, Y),
    ],
)
def test_many_inputs_and_targets_are_as_long_as_the_first(batch: Any) -> None:
    assert counted([X, Y], (X, Y), batch, batch, batch) == [32] * 5


def test_the_way_that_is_remembered_leads_to_no_sample() -> None:
    sizer = Sizer()
    for of in (list, tuple):
        assert sizer.size(of([X, Y])).items == 32
        lead = sizer.leads[of]
        assert lead is not None
        assert lead(of([X, Y])) is X
        assert lead(of(utterances(Tensor))) is lead(of(images(Tensor, 4))) is None


SHAPES = st.lists(st.sampled_from([1, 3, 5, 8, 9]), max_size=3)
PARTS = st.one_of(
    *[st.builds(lambda shape: Tensor(*shape), SHAPES)] * 4,
    st.sampled_from([None, 7, "text", [1, 2], [X, X], {"x": X}]),
)
BATCHES = st.lists(PARTS, min_size=1, max_size=8)


@given(st.lists(st.tuples(st.sampled_from([list, tuple]), BATCHES), min_size=1, max_size=4))
def test_what_came_before_makes_no_difference(batches: list[tuple[type, list[Any]]]) -> None:
    made = [of(parts) for of, parts in batches]
    assert counted([X, Y], (X, Y), *made)[2:] == [Sizer().size(batch).items for batch in made]


def test_many_samples_of_one_shape_are_known_behind_inputs_and_targets(make: Make) -> None:
    pair = [make(32, 10), make(32)]
    pictures, many = [make(28, 28, 3)] * 8, [make(50, 30)] * 16
    assert counted(pair, pictures, many, pair, many) == [32, 8, 16, 32, 16]
