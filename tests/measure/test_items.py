"""The size of a batch is found in whatever carries it, and a reason where there is none."""

from __future__ import annotations

from collections import UserDict, namedtuple
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from overseer.boundary import StopProgram, Stuck
from overseer.errors import VoirError
from overseer.measure.counts import Counts
from overseer.measure.items import Sizer, as_count, batch_size

from .program import Tensor

X, Y = Tensor(32, 3, 8, 8), Tensor(32)
Pair = namedtuple("Pair", "x y")


@dataclass
class Batch:
    name: str
    x: Tensor
    y: Tensor


class Graphs:
    """Like a torch_geometric batch: tensors of nodes, a number of graphs."""

    x = Tensor(900, 16)
    num_graphs = 12


class Neighbours:
    batch_size = 64


class Encoding(UserDict):  # type: ignore[type-arg]
    """Like transformers' BatchEncoding."""


class Sized:
    def __len__(self) -> int:
        return 9


@pytest.mark.parametrize(
    ("batch", "items"),
    [
        (X, 32),
        ((X, Y), 32),
        ([X, Y], 32),
        ((None, X), 32),
        (((X, Y), Y), 32),
        ([[X], Y], 32),
        (((X, Y), (Y, Y)), 32),
        (
            (
                [Tensor(3, 9, 9), Tensor(3, 5, 7)],
                [{"boxes": Tensor(4, 4)}, {"boxes": Tensor(1, 4)}],
            ),
            2,
        ),
        (((Tensor(1, 9, 9),) * 5, (Tensor(),) * 5), 5),
        (([Tensor(3, 9, 9)] * 4, ["cat", "dog", "cat", "cow"]), 4),
        (Pair(X, Y), 32),
        ({"x": X, "y": Y}, 32),
        ({"ids": ["a", "b"], "x": X}, 32),
        ({"meta": {}, "x": X}, 32),
        (Encoding(input_ids=Tensor(8, 16)), 8),
        (Batch("b", X, Y), 32),
        (Graphs(), 12),
        (Neighbours(), 64),
        ([Tensor(n) for n in (5, 9, 2, 9, 1, 3)], 6),
        ([Tensor(n, 8) for n in (5, 9, 2, 9, 1, 3, 3)], 7),
        ({"x": [Tensor(n) for n in (5, 9, 2, 9, 1, 3)], "y": Tensor(6)}, 6),
        ([Tensor(32), Tensor(999), Tensor(32)], 32),
        ([Tensor(32, 8)] * 8, 32),
        ([Tensor(32, 8), Tensor(32, 4), Tensor(32)], 32),
        ([1, 2, 3], 3),
        (["a", "b"], 2),
        ((["a", "b"], [0, 1]), 2),
        ([{"x": X}, {"x": X}, {"x": X}], 3),
        ([(X, 1), (X, 2)], 2),
        ([Tensor(), Tensor()], 2),
        (range(7), 7),
        ({1, 2}, 2),
        (Sized(), 9),
        ({"texts": ["a", "b", "c"], "n": 3}, 3),
    ],
)
def test_a_batch_is_as_long_as_its_first_tensor_or_as_itself(batch: Any, items: int) -> None:
    assert batch_size(batch) == items
    # By the long way, and by the short one that is remembered.
    assert counted(batch, batch, batch) == [items] * 3


def counted(*batches: Any) -> list[int | None]:
    """Their sizes as the step model counts them, one after the other."""
    counts = Counts(1, None, "auto", lambda reason: None)
    return [counts({"batch": batch}, "train") for batch in batches]


class Angry:
    def __getattr__(self, name: str) -> Any:
        raise RuntimeError("not now")


class Cyclic(list):  # type: ignore[type-arg]
    def __init__(self) -> None:
        super().__init__([self])


class Shaped:
    def __init__(self, shape: tuple[Any, ...]) -> None:
        self.shape = shape


class Stating:
    def __init__(self, size: int) -> None:
        self.batch_size = size


class Failing:
    def __init__(self, error: BaseException) -> None:
        self.error = error

    def __len__(self) -> int:
        raise self.error


@pytest.mark.parametrize("error", [KeyboardInterrupt(), StopProgram(), Stuck(VoirError("a", "b"))])
def test_what_was_wished_for_while_a_batch_is_looked_at_is_no_reason(error: BaseException) -> None:
    with pytest.raises(type(error)):
        Sizer().size(Failing(error))


def test_a_batch_that_exits_when_it_is_counted_is_a_step_without_items() -> None:
    def fails(batch: Any) -> int:
        raise SystemExit(7)

    reasons: list[str] = []
    sized, by_function = (Counts(1, size, "auto", reasons.append) for size in (None, fails))
    assert sized({"batch": Failing(SystemExit(7))}, "train") is None
    assert by_function({"batch": [1]}, "train") is None
    assert len(reasons) == 2
    assert "fails raised SystemExit: 7" in reasons


@pytest.mark.parametrize(
    ("batch", "reason"),
    [
        (Tensor(), "no batch dimension"),
        (Tensor(0, 3), "empty"),
        ((), "empty"),
        ([], "empty"),
        ({}, "empty"),
        (None, "NoneType is not a batch"),
        ("text", "str is not a batch"),
        (b"bytes", "bytes is not a batch"),
        (5, "int is not a batch"),
        ((i for i in range(3)), "read only once"),
        (iter([1]), "read only once"),
        (object(), "neither shape nor length"),
        (Tensor, "neither shape nor length"),
        (Cyclic(), "nested too deeply"),
        (Tensor(-3, 2), "-3 is negative"),
        ({"x": Tensor(-3, 2)}, "-3 is negative"),
        (Shaped((2.5,)), "2.5 is not a whole number"),
        (Shaped((float("nan"),)), "not a whole number"),
        (Shaped((None, 3)), "NoneType is not a number"),
        (Stating(-3), "-3 is negative"),
        (Failing(RuntimeError("no length yet")), "Failing: RuntimeError: no length yet"),
        (Failing(NotImplementedError()), "Failing: NotImplementedError"),
        (Failing(RecursionError("too deep")), "Failing: RecursionError: too deep"),
        (Failing(SystemExit(7)), "Failing: SystemExit: 7"),
        (Failing(GeneratorExit()), "Failing: GeneratorExit"),
    ],
)
def test_a_batch_of_unknown_size_has_a_reason_and_no_exception(batch: Any, reason: str) -> None:
    size = Sizer().size(batch)
    assert size.items is None
    assert size.reason is not None
    assert reason in size.reason


def test_a_nested_tensor_has_the_size_that_it_says() -> None:
    class Nested:
        @property
        def shape(self) -> Any:
            raise RuntimeError("no sizes")

        def __len__(self) -> int:
            raise RuntimeError("no sizes")

        def size(self, dimension: int) -> int:
            return 5 if dimension == 0 else 0

    assert batch_size(Nested()) == 5


@pytest.mark.parametrize("count", [10**13, 10**30, 10**400, 1e300])
def test_no_batch_holds_more_than_a_run_can_add_up(count: float) -> None:
    reason = as_count(count)
    assert isinstance(reason, str)
    assert "more than a batch can hold" in reason or "too large" in reason


def test_an_object_that_raises_when_looked_at_is_a_reason() -> None:
    size = Sizer().size(Angry())
    assert size.reason is not None
    assert "not now" in size.reason


def test_a_generator_is_not_read() -> None:
    batches = iter([1, 2])
    Sizer().size(batches)
    assert list(batches) == [1, 2]


def test_what_is_remembered_of_a_kind_does_not_hold_for_another_of_it() -> None:
    assert counted({"x": X}, {"x": X}, {"ids": Tensor(4, 9)}, {"x": X}) == [32, 32, 4, 32]
    assert counted([X, Y], [X, Y], [1, 2, 3], [X, Y], ["a"]) == [32, 32, 3, 32, 1]


def test_the_few_samples_of_a_last_batch_are_not_what_is_remembered() -> None:
    """Two sequences may be inputs and targets; lists of more have been samples all along."""
    sizer = Sizer()
    samples = [Tensor(n) for n in (5, 9, 2, 9, 1, 3)]
    assert [sizer.size(samples).items, sizer.size(samples[:2]).items] == [6, 5]
    assert sizer.leads == {}


def test_remembered_kinds_are_told_empty_and_without_dimensions_too() -> None:
    assert counted(X, X, Tensor(), Tensor(0), X) == [32, 32, None, None, 32]


def test_a_batch_that_has_its_size_beside_it_is_not_looked_at() -> None:
    counts = Counts(2, None, "auto", lambda reason: None)
    assert counts({"batch": X}, "train") == 64
    assert counts({"batch": X, "batch_size": 5}, "train") == 10


def test_a_kind_that_the_script_sizes_itself_is_never_remembered() -> None:
    counts = Counts(1, lambda batch: 7, "auto", lambda reason: None)
    assert [counts({"batch": X}, "train") for _ in range(3)] == [7, 7, 7]


@pytest.mark.parametrize(
    ("batch", "tokens", "stated"),
    [
        ({"input_ids": Tensor(4, 16)}, 64, False),
        ({"input_ids": Tensor(4, 16), "num_tokens": 50}, 50, True),
        ({"net_input": {"x": Tensor(4, 16)}, "ntokens": 50}, 50, True),
        ({"x": X}, None, False),
        (X, None, False),
    ],
)
def test_tokens_are_those_a_batch_states_or_its_padded_ids(
    batch: Any, tokens: int | None, stated: bool
) -> None:
    size = Sizer().size(batch)
    assert (size.tokens, size.stated) == (tokens, stated)


def test_a_function_that_raises_is_a_reason() -> None:
    def rows(batch: Any) -> int:
        return batch.rows  # type: ignore[no-any-return]

    size = Sizer(rows).size(object())
    assert size.reason is not None
    assert size.reason.startswith("rows raised AttributeError")


class OnDevice:
    device = "cuda:0"

    def __int__(self) -> int:
        raise AssertionError("this would have made the script wait for its device")


def test_a_number_on_a_device_is_not_read() -> None:
    assert "cuda:0" in str(as_count(OnDevice()))
    assert Sizer().size({"ntokens": OnDevice(), "x": X}).tokens is None


@pytest.mark.parametrize("value", [-1, 2.5, "x", None, float("nan"), float("inf")])
def test_what_is_no_number_of_items_is_a_reason(value: Any) -> None:
    assert isinstance(as_count(value), str)


@pytest.mark.parametrize("value", [3, 3.0, True + 2])
def test_whole_numbers_count(value: Any) -> None:
    assert as_count(value) == 3


NESTED = st.recursive(
    st.one_of(st.none(), st.integers(), st.text(), st.builds(Tensor, st.integers(0, 4))),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.tuples(inner, inner), st.dictionaries(st.text(), inner)
    ),
    max_leaves=8,
)


@given(NESTED)
def test_whatever_is_nested_has_a_size_or_a_reason(batch: Any) -> None:
    size = Sizer().size(batch)
    assert (size.items is None) is (size.reason is not None)
    assert size.items is None or size.items > 0


def test_tensors_of_torch_are_sized() -> None:
    torch = pytest.importorskip("torch")
    packed = torch.nn.utils.rnn.pack_sequence([torch.ones(3), torch.ones(2)])
    assert batch_size(packed) == 2
    assert batch_size((torch.zeros(32, 3), torch.zeros(32))) == 32
    assert batch_size(torch.zeros(())) is None
    assert batch_size(torch.zeros(0, 3)) is None


def test_arrays_of_numpy_are_sized() -> None:
    numpy = pytest.importorskip("numpy")
    assert batch_size((numpy.zeros((16, 3)), numpy.zeros(16))) == 16
    assert as_count(numpy.int64(4)) == 4
