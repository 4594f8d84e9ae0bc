"""What is read of values: exact tensors, containers, stated sizes; nothing of the script's runs."""

from __future__ import annotations

import math
from collections import OrderedDict, UserDict, namedtuple
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import pytest

from overseer.recorder import sites as k
from overseer.recorder.values import Values

from .conftest import Recorded

torch = pytest.importorskip("torch")
np = pytest.importorskip("numpy")
Pair = namedtuple("Pair", ["x", "y"])


@pytest.fixture
def reads(recorded: Recorded, monkeypatch: pytest.MonkeyPatch) -> Iterator[Recorded]:
    monkeypatch.setattr("overseer.recorder.values.recorder", recorded.module)
    values = Values()
    values.know(torch)
    values.know(np)
    yield recorded


def length(reads: Recorded, batch: Any) -> float | None:
    found: float = reads.module.length(batch)
    return None if math.isnan(found) else found


def number(reads: Recorded, value: Any) -> float | None:
    found: float = reads.module.number(value)
    return None if math.isnan(found) else found


class Lying:
    """An object whose attributes raise, and one whose do not end."""

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError(name)

    def __len__(self) -> int:
        raise RuntimeError

    def __getitem__(self, at: Any) -> Any:
        raise RuntimeError


class LyingList(list):  # type: ignore[type-arg]
    def __len__(self) -> int:
        return 99

    def __getitem__(self, at: Any) -> Any:
        raise RuntimeError

    def __iter__(self) -> Any:
        raise RuntimeError


class Graphs:
    num_graphs = 4
    shape = (70, 3)


class TensorDict:
    batch_size = torch.Size([6, 2])


def x(*shape: int) -> Any:
    return torch.zeros(shape)


LENGTHS = [
    (lambda: x(32, 3), 32),
    (lambda: x(), None),
    (lambda: torch.nn.Parameter(x(5, 2)), 5),
    (lambda: np.zeros((7, 2)), 7),
    (lambda: (x(32, 3), x(32)), 32),
    (lambda: [x(16, 3), [x(16)]], 16),
    (lambda: {"ids": x(8, 20), "labels": x(8)}, 8),
    (lambda: OrderedDict(a="text", b=x(9, 1)), 9),
    (lambda: UserDict(input_ids=x(10, 5)), 10),
    (lambda: Pair(x(11, 1), x(11)), 11),
    (lambda: [{"x": x(3)}, {"x": x(4)}], 2),
    (lambda: [x(3, 10), x(5, 10), x(4, 10)], None),
    (lambda: (x(7, 32), x(32)), None),
    (lambda: [x(3, 5, 5), x(3, 6, 5), x(3, 5, 6), x(3, 7, 7)], None),
    (lambda: ((x(3, 5, 5), x(3, 6, 5)), ({"boxes": x(1, 4)}, {"boxes": x(2, 4)})), 2),
    (lambda: (x(3, 5, 5), x(3, 5, 5)), 3),
    (lambda: Graphs(), 4),
    (lambda: TensorDict(), 6),
    (lambda: ["one", "two", "three"], 3),
    (lambda: ([1, 2, 3, 4],), 4),
    (lambda: 5, None),
    (lambda: "text", None),
    (lambda: None, None),
    (lambda: [], None),
    (lambda: Lying(), None),
    (lambda: LyingList([x(12, 1), x(12)]), 12),
    (lambda: x(4, 4).to_sparse(), 4),
    (lambda: x(4, 4).to("meta"), 4),
]


@pytest.mark.parametrize("at", range(len(LENGTHS)))
def test_the_length_of_a_batch(reads: Recorded, at: int) -> None:
    make, expected = LENGTHS[at]
    assert length(reads, make()) == expected


def test_a_container_of_itself_has_no_length(reads: Recorded) -> None:
    endless: list[Any] = []
    endless.append(endless)
    assert length(reads, endless) is None


class Subclass(torch.Tensor):  # type: ignore[misc]
    @classmethod
    def __torch_function__(cls, *args: Any, **kwargs: Any) -> Any:
        raise AssertionError("a subclass is never read")


NUMBERS = [
    (lambda: 0.5, 0.5),
    (lambda: True, 1.0),
    (lambda: 3, 3.0),
    (lambda: 10**400, None),
    (lambda: np.float32(1.5), 1.5),
    (lambda: np.float64(2.5), 2.5),
    (lambda: torch.tensor(1.25), 1.25),
    (lambda: torch.tensor([[1.25]]), 1.25),
    (lambda: torch.arange(10.0)[7], 7.0),
    (lambda: torch.tensor(3, dtype=torch.int64), 3.0),
    (lambda: torch.tensor(2.5, dtype=torch.float64), 2.5),
    (lambda: torch.tensor(1.5, dtype=torch.bfloat16), 1.5),
    (lambda: torch.tensor(0.5, dtype=torch.float16), 0.5),
    (lambda: torch.tensor(True), 1.0),
    (lambda: torch.tensor(0.5, requires_grad=True) * 2, 1.0),
    (lambda: [torch.tensor(4.0)], 4.0),
    (lambda: torch.tensor(1.0 + 2j), None),
    (lambda: torch.tensor([1.0, 2.0]), None),
    (lambda: torch.tensor(1.0).to("meta"), None),
    (lambda: torch.tensor(1.0).as_subclass(Subclass), None),
    (lambda: "1.0", None),
    (lambda: None, None),
    (lambda: Lying(), None),
]


@pytest.mark.parametrize("at", range(len(NUMBERS)))
def test_a_number(reads: Recorded, at: int) -> None:
    make, expected = NUMBERS[at]
    assert number(reads, make()) == expected


def test_a_number_inside_vmap_is_unknown(reads: Recorded) -> None:
    seen = []

    def square(value: Any) -> Any:
        seen.append(number(reads, value))
        return value * value

    torch.func.vmap(square)(torch.arange(3.0))
    assert seen == [None]


class Interrupting:
    """A Ctrl-C arrives while the size that it states is read."""

    @property
    def num_graphs(self) -> int:
        raise KeyboardInterrupt


def test_a_ctrl_c_that_arrives_in_a_read_passes_on(reads: Recorded) -> None:
    site = reads.module.Site(1, k.STEP, keys=("batch",))
    site.record(1, k.STEP, k.STRUCTURE, 0, k.LENGTH)
    with pytest.raises(KeyboardInterrupt):
        site.event(Interrupting())
    with pytest.raises(KeyboardInterrupt):
        reads.module.span(1, k.LOADING, Interrupting, k.RESULT)()
    assert site.event([1, 2]) is None


class Device:
    """A device's streams and events, whose queue is worked off when a test says so."""

    def __init__(self) -> None:
        self.done = self.capturing = False
        self.made = 0

    def is_current_stream_capturing(self) -> bool:
        return self.capturing

    def current_stream(self, device: Any) -> str:
        return f"stream of {device}"

    def Event(self) -> Any:
        self.made += 1
        device = self

        class Event:
            def record(self, stream: str) -> None:
                assert stream == "stream of cuda:0"

            def query(self) -> bool:
                return device.done

        return Event()


class OnDevice:
    """A number on a device, as far as the recorder looks at it."""

    shape = ()
    is_cpu = False
    device = torch.device("cuda:0")

    def __init__(self, value: float) -> None:
        self.value = value

    def detach(self) -> OnDevice:
        return self

    def to(self, device: str, non_blocking: bool) -> Any:
        assert (device, non_blocking) == ("cpu", True)
        return torch.tensor(self.value)


def test_a_number_on_a_device_comes_late(
    recorded: Recorded, monkeypatch: pytest.MonkeyPatch
) -> None:
    from contextlib import nullcontext

    from overseer.recorder.sites import table

    device = Device()
    monkeypatch.setattr("overseer.recorder.values.recorder", recorded.module)
    monkeypatch.setattr(torch, "get_device_module", lambda which: device)
    values = Values()
    values.know(torch)
    recorded.module.tensors({OnDevice: 1}, {}, None, values.hold)
    loss = recorded.module.Site(0, k.LOSS, keys=("loss",))
    number_ = table.add(k.LOSS, "loss")
    loss.record(number_, k.LOSS, k.STRUCTURE, 0, k.NUMBER)
    for value in (1.5, 2.5):
        loss.event(OnDevice(value))
    told = recorded.take()
    assert [e.flags for e in told] == [k.LATER, k.LATER]
    assert values.collect(nullcontext) == 2
    device.done = True
    assert values.collect(nullcontext) == 0
    late = recorded.take()
    assert [(e.start, e.value, e.object) for e in late] == [
        (told[0].start, 1.5, number_),
        (told[1].start, 2.5, number_),
    ]
    assert {table.rows[e.site]["kind"] for e in late} == {k.LATE}
    backward = table.add(k.BACKWARD, "backward")
    recorded.module.span(backward, k.BACKWARD, id, k.NUMBER, 0)(OnDevice(3.5))
    assert device.made == 2, "events are used again"
    (span,) = recorded.take()
    values.collect(nullcontext)
    (late_loss,) = recorded.take()
    assert span.flags & k.LATER
    assert (late_loss.start, late_loss.object) == (span.start, backward)
    device.capturing = True
    loss.event(OnDevice(4.5))
    assert [e.flags for e in recorded.take()] == [0]


@pytest.mark.parametrize("name", ["torch", "numpy", "jax"])
def test_a_file_of_the_scripts_with_the_name_of_a_library_is_left_alone(
    recorded: Recorded, name: str
) -> None:
    values = Values()
    values.know(ModuleType(name))
    assert values._types == {}
