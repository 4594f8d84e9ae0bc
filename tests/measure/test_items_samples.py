"""Lists of samples are as long as they are; inputs and targets are as long as their tensors."""

from __future__ import annotations

from collections import UserDict, namedtuple
from dataclasses import dataclass
from typing import Any

import pytest

from overseer.measure.items import Sizer, batch_size

from .program import Tensor
from .test_items import Angry, Encoding, Graphs, Pair, Sized, X, Y, counted

Packed = namedtuple("Packed", "data batch_sizes")


class Size(list):  # type: ignore[type-arg]
    """Like torch's."""


PACKED = Packed(Tensor(90), Size([5]))


class Picture:
    """Like one of PIL's: neither shape nor length."""

    size, mode = (640, 480), "RGB"


class Jpeg(Picture):
    """Another class of picture."""


@dataclass
class Sample:
    x: Any
    y: Any


@dataclass
class Outputs:
    z: Any


class Graph(UserDict):  # type: ignore[type-arg]
    """A sample of its own kind that has keys."""


def pictures(count: int, channels: int = 3) -> list[Tensor]:
    return [Tensor(channels, 30 + n, 20) for n in range(count)]


def targets(count: int) -> list[dict[str, Tensor]]:
    """What torchvision's detection models are told about as many pictures."""
    return [{"boxes": Tensor(n + 1, 4), "labels": Tensor(n + 1)} for n in range(count)]


SAME = [Tensor(3, 64, 64)]
CAPTIONS = {"ids": [[1, 2], [3, 4], [5, 6]], "labels": [0, 1, 1], "epoch": 7}


@pytest.mark.parametrize(
    ("batch", "items"),
    [
        ([Picture()] * 6, 6),
        ((Picture(),) * 6, 6),
        ([Picture()], 1),
        ([Picture(), Jpeg(), Picture()], 3),
        ([Jpeg(), Picture()], 2),
        ({"image": [Picture()] * 6}, 6),
        ([[Picture()] * 6, [0] * 6], 6),
        (([Picture()] * 6, [Tensor(3)] * 6), 6),
        (([Picture()] * 6, Tensor(6)), 6),
        ([(Picture(), n) for n in range(4)], 4),
        ([Sample(1, 2)] * 6, 6),
        ([Sample(Tensor(3), 2)] * 6, 6),
        ([Sample("text", None)], 1),
        ((Sample(1, 2),) * 6, 6),
        ([Graph(x=Tensor(9, 4)), Graph(x=Tensor(5, 4))], 2),
    ],
)
def test_a_list_of_things_of_one_kind_is_as_long_as_it_is(batch: Any, items: int) -> None:
    assert batch_size(batch) == items
    assert counted(batch, batch, batch) == [items] * 3


@pytest.mark.parametrize(
    ("batch", "items"),
    [
        (pictures(4), 4),
        (pictures(8), 8),
        (tuple(pictures(8)), 8),
        (pictures(5, channels=1), 5),
        (pictures(7, channels=4), 7),
        ([*pictures(2), *pictures(2, channels=1)], 4),
        (SAME * 4, 4),
        (SAME * 8, 8),
        ([Tensor(30 + n // 2, 20, 3) for n in range(4)], 4),
        ([Tensor(30 + n, 20 + n, 9) for n in range(8)], 8),
        ([Tensor(n, 8) for n in (5, 9, 2, 7)], 4),
        ((pictures(4), targets(4)), 4),
        ([pictures(2), targets(2)], 2),
        ((tuple(pictures(2)), tuple(targets(2))), 2),
        ((targets(2), pictures(2)), 2),
        ((tuple(targets(2)), pictures(2)), 2),
        ((SAME * 2, targets(2)), 2),
        ((SAME, targets(1)), 1),
        ((SAME * 2, targets(2), None), 2),
        ((SAME * 2, tuple(targets(2)), Tensor(2)), 2),
        ((tuple(targets(2)), SAME * 2, Tensor(2)), 2),
        ({"images": SAME * 2, "targets": targets(2)}, 2),
        ({"images": tuple(SAME * 2), "targets": tuple(targets(2)), "step": 4}, 2),
        (Pair(SAME * 2, targets(2)), 2),
        (Sample(SAME * 2, targets(2)), 2),
        ({"images": SAME * 2, "boxes": [Tensor(2, 4), Tensor(3, 4)]}, 2),
        ({"images": SAME * 2, "masks": [Tensor(1, 64, 64)] * 2}, 2),
        (UserDict(images=SAME * 2, labels=Tensor(2)), 2),
        ({"images": pictures(4), "labels": Tensor(4)}, 4),
        ({"images": pictures(2), "labels": Tensor(2)}, 2),
        ({"labels": Tensor(2), "images": pictures(2)}, 2),
        ((SAME * 2, Tensor(2)), 2),
        (([Tensor(32, 8)] * 2, Tensor(2, 5)), 2),
        (({"images": SAME * 2, "labels": Tensor(2)}, None), 2),
        (Sample([Tensor(3)] * 6, [2] * 6), 6),
        ({"x": [Tensor(3)] * 6, "y": Tensor(6)}, 6),
        ({"x": [Tensor(3)] * 6, "y": (Tensor(),) * 6}, 6),
        (CAPTIONS, 3),
    ],
)
def test_tensors_that_are_not_stacked_are_as_many_as_the_list_has(batch: Any, items: int) -> None:
    assert batch_size(batch) == items
    assert counted(batch, batch, batch) == [items] * 3


@pytest.mark.parametrize(
    ("batch", "items"),
    [
        ([X], 32),
        ([X, Y], 32),
        ([Tensor(32, 10), Tensor(32, 3), Tensor(32, 7)], 32),
        ([Tensor(32, 10), Tensor(32, 3), Tensor(32, 7), Tensor(32, 2)], 32),
        ([Tensor(32, 8, 9), Tensor(32, 8, 7), Tensor(32, 6, 7), Tensor(32, 8, 8)], 32),
        ([Tensor(3, 50, 512), Tensor(3, 40, 512)], 3),
        ([Tensor(4, 50, 512), Tensor(4, 40, 512), Tensor(4, 40, 512)], 4),
        (([Tensor(1, 50, 512)] * 4, Tensor(1)), 1),
        (([Tensor(32, 8)] * 2, Tensor(32)), 32),
        (([Tensor(32, 8)] * 2, Tensor(2, 5), Tensor(32)), 32),
        (((X, Y), Tensor(2)), 32),
        (([Tensor(32, 8)] * 2, [Tensor(32)] * 2), 32),
        (([Tensor(32, 8)] * 2, [Tensor(2, 32, 64)] * 2), 32),
        (([Tensor(32, 8)] * 2, [Tensor(1, 32, 64)] * 2), 32),
        (([X, X], Angry()), 32),
        ([(X, X), Y], 32),
        ([{"x": X}, Y], 32),
        ([{"x": X}, {"y": Y}], 32),
        ([{"x": X}, {"x": X}], 2),
        (({"x": X}, {"y": Y}), 32),
        ([PACKED, Y], 5),
        ([PACKED, PACKED], 5),
        ((PACKED, [1, 2, 3, 4, 5]), 5),
        ([Graphs(), Graphs()], 12),
        ([Sample(X, Y), Outputs(Y)], 32),
        ((Sample(X, Y), Sample(X, Y)), 32),
        ((Sample(X, Y), Y), 32),
        ([Sized(), Sized()], 9),
        ([Encoding(x=X), Y], 32),
        ([Tensor(900, 16), Tensor(2, 400), Tensor(400, 8), Tensor(12, 1)], 900),
        ([Tensor(32), Tensor(999), Tensor(33)], 32),
        ([*[Tensor(32, 8)] * 5, Tensor(999, 4)], 32),
    ],
)
def test_inputs_and_targets_are_as_long_as_the_first_of_them(batch: Any, items: int) -> None:
    assert batch_size(batch) == items
    assert counted(batch, batch, batch) == [items] * 3


def encoded(*shape: int, count: int = 2) -> list[dict[str, Tensor]]:
    """Questions, answers and the like, each in a dictionary as sentence-transformers has them."""
    return [{"input_ids": Tensor(*shape), "attention_mask": Tensor(*shape)} for _ in range(count)]


def boxes(count: int) -> list[dict[str, Tensor]]:
    """As :func:`targets`, with as many on each picture as on the others."""
    return [{"boxes": Tensor(7, 4), "labels": Tensor(7)} for _ in range(count)]


@pytest.mark.parametrize(
    ("batch", "items"),
    [
        (encoded(16, 12), 16),
        (encoded(16, 12, count=3), 16),
        (encoded(16, 12, count=5), 16),
        ([*encoded(16, 12, count=1), *encoded(16, 30, count=1)], 16),
        ([UserDict(each) for each in encoded(16, 12)], 16),
        ([{"x": X, "valid": Y}] * 2, 32),
        ((encoded(16, 12), Tensor(16)), 16),
        ((encoded(16, 12, count=3), Tensor(16)), 16),
        ([encoded(16, 12), Tensor(16)], 16),
        ((encoded(16, 12), [0] * 16), 16),
        ((encoded(16, 12), None), 16),
        ((encoded(16, 12),), 16),
        ((encoded(1, 12), Tensor(1)), 1),
        ({"features": encoded(16, 12), "labels": Tensor(16)}, 16),
        ({"labels": Tensor(16), "features": encoded(16, 12)}, 16),
        (Pair(encoded(16, 12), Tensor(16)), 16),
        ((encoded(16, 12), Tensor(16), Tensor(2)), 16),
        (([{"x": X}] * 2, Tensor(32)), 32),
        ((tuple(encoded(16, 12)), Tensor(16)), 16),
    ],
)
def test_a_few_dictionaries_of_equally_long_tensors_are_as_long_as_these(
    batch: Any, items: int
) -> None:
    assert batch_size(batch) == items
    assert counted(batch, batch, batch) == [items] * 3


@pytest.mark.parametrize(
    ("batch", "items"),
    [
        (encoded(16, 12, count=6), 6),
        (encoded(16, 12, count=1), 1),
        (encoded(12), 2),
        ((encoded(12), Tensor(2)), 2),
        ([*encoded(16, 12), *encoded(15, 12)], 4),
        ([{**each, "label": 1} for each in encoded(16, 12)], 2),
        ([{**each, "label": Tensor()} for each in encoded(16, 12)], 2),
        ([{**each, "text": "a"} for each in encoded(16, 12)], 2),
        ([{"image": Tensor(3, 64, 64), **each} for each in targets(2)], 2),
        ([{"image": Tensor(3, 64, 64), "boxes": Tensor(3, 4)}] * 2, 2),
        ([{"image": Tensor(64, 48, 3), "mask": Tensor(64, 48)}] * 2, 2),
        ([{"boxes": Tensor(0, 4), "labels": Tensor(0)}] * 2, 2),
        ([{"x": Tensor(None, 4), "y": Tensor(None)}] * 2, 2),
        ((encoded(16, 12), Tensor(2)), 2),
        ((encoded(16, 12), [0, 1]), 2),
        ({"samples": encoded(16, 12), "labels": Tensor(2)}, 2),
        ((boxes(2), pictures(2)), 2),
        ((boxes(2), SAME * 2, Tensor(2)), 2),
        ((pictures(2), boxes(2)), 2),
        (([Picture()] * 2, boxes(2)), 2),
        ((Picture(), boxes(2)), 2),
        ((boxes(2), boxes(2)), 2),
    ],
)
def test_dictionaries_of_one_sample_each_are_as_many_as_the_list_has(
    batch: Any, items: int
) -> None:
    assert batch_size(batch) == items
    assert counted(batch, batch, batch) == [items] * 3


def test_tokens_are_those_of_the_first_dictionary_unless_it_is_a_sample() -> None:
    assert Sizer().size(encoded(16, 12)).tokens == 16 * 12
    assert Sizer().size(encoded(16, 12, count=6)).tokens is None


@pytest.mark.parametrize(
    "batch", [(Picture(), 5), [Picture(), Outputs(1)], [iter([1]), iter([2])], (Picture(), None)]
)
def test_a_sample_alone_and_things_of_many_kinds_have_no_size(batch: Any) -> None:
    assert Sizer().size(batch).items is None


def test_only_the_way_to_a_tensor_that_gives_the_size_is_remembered() -> None:
    sizer = Sizer()
    assert sizer.size({"images": SAME * 2, "labels": Tensor(2)}).items == 2
    assert sizer.size((pictures(4), targets(4))).items == 4
    assert sizer.leads == {}
    assert sizer.size((X, Y)).items == 32
    assert list(sizer.leads) == [tuple]


def test_pictures_of_numpy_are_counted() -> None:
    numpy = pytest.importorskip("numpy")
    images = [numpy.zeros((3, 30 + n, 20)) for n in range(4)]
    assert batch_size(images) == 4
    assert batch_size({"images": images[:2], "labels": numpy.zeros(2)}) == 2
    assert batch_size(numpy.array([object()] * 4)) == 4


def test_what_torch_collates_is_counted() -> None:
    torch = pytest.importorskip("torch")
    data = torch.utils.data
    rows = [({"x": torch.zeros(3)}, {"y": torch.zeros(())}) for _ in range(4)]
    assert batch_size(data.default_collate(rows)) == 4  # A list of two dictionaries.
    assert batch_size(data.default_collate([((row, row), 1) for row in torch.zeros(5, 3)])) == 5
    (only,) = data.DataLoader(data.TensorDataset(torch.zeros(6, 3)), batch_size=6)
    assert batch_size(only) == 6
    packed = torch.nn.utils.rnn.pack_sequence([torch.ones(3), torch.ones(2)])
    assert batch_size([packed, torch.zeros(2)]) == 2
    assert batch_size(([torch.zeros(3, 9, 9)] * 2, [{"boxes": torch.zeros(5, 4)}] * 2)) == 2


@pytest.mark.parametrize(
    ("shape", "count"), [((224, 224, 3), 4), ((224, 160, 3), 6), ((28, 28), 16), ((100, 12), 32)]
)
@pytest.mark.parametrize("kind", [list, tuple])
def test_many_tensors_of_one_shape_are_samples(
    shape: tuple[int, ...], count: int, kind: type
) -> None:
    batch = kind(Tensor(*shape) for _ in range(count))
    assert batch_size(batch) == count
    assert batch_size({"pictures": batch}) == count


@pytest.mark.parametrize(
    ("shape", "count"), [((32, 100, 3), 5), ((28, 28), 15), ((256,), 20), ((8, 8), 3)]
)
def test_a_few_tensors_of_one_shape_are_inputs_and_targets(
    shape: tuple[int, ...], count: int
) -> None:
    """So are many columns of numbers, as PyTorch's loaders make them of samples of numbers."""
    assert batch_size([Tensor(*shape) for _ in range(count)]) == shape[0]


def test_many_arrays_of_numpy_s_are_samples_where_they_are_vectors() -> None:
    numpy = pytest.importorskip("numpy", reason="NumPy comes with the extra [examples]")
    assert batch_size([numpy.zeros(300) for _ in range(64)]) == 64
    assert batch_size([numpy.zeros(300) for _ in range(3)]) == 300
    assert batch_size([numpy.zeros((28, 28)) for _ in range(32)]) == 32
