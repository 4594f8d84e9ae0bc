"""What is read of values: exact tensors, containers, stated sizes; nothing of the script's runs."""

from __future__ import annotations

import math
from collections import OrderedDict, UserDict, namedtuple
from contextlib import nullcontext
from types import ModuleType, SimpleNamespace

import pytest

from overseer.recorder import sites as k
from overseer.recorder.values import Values

torch = pytest.importorskip("torch")
np = pytest.importorskip("numpy")
Pair = namedtuple("Pair", ["x", "y"])


@pytest.fixture
def reads(recorded, monkeypatch):
    monkeypatch.setattr("overseer.recorder.values.recorder", recorded.module)
    values = Values()
    values.know(torch)
    values.know(np)
    return recorded.module


def known(value):
    return None if math.isnan(value) else value


class Lying:
    """An object whose attributes raise, and one whose do not end."""

    def __getattr__(self, name):
        raise RuntimeError(name)

    def __len__(self):
        raise RuntimeError

    def __getitem__(self, at):
        raise RuntimeError


class LyingList(list):
    __len__ = __getitem__ = __iter__ = lambda *args: 1 / 0


class Graphs:
    num_graphs, shape = 4, (70, 3)


class TensorDict:
    batch_size = torch.Size([6, 2])


def x(*shape):
    return torch.zeros(shape)


ENDLESS = []
ENDLESS.append(ENDLESS)
LENGTHS = [
    (x(32, 3), 32),
    (x(), None),
    (torch.nn.Parameter(x(5, 2)), 5),
    (np.zeros((7, 2)), 7),
    ((x(32, 3), x(32)), 32),
    ([x(16, 3), [x(16)]], 16),
    ({"ids": x(8, 20), "labels": x(8)}, 8),
    (OrderedDict(a="text", b=x(9, 1)), 9),
    (UserDict(input_ids=x(10, 5)), 10),
    (Pair(x(11, 1), x(11)), 11),
    ([{"x": x(3)}, {"x": x(4)}], 2),
    ([x(3, 10), x(5, 10), x(4, 10)], None),
    ((x(7, 32), x(32)), None),
    ([x(3, 5, 5), x(3, 6, 5), x(3, 5, 6), x(3, 7, 7)], None),
    (((x(3, 5, 5), x(3, 6, 5)), ({"boxes": x(1, 4)}, {"boxes": x(2, 4)})), 2),
    ((x(3, 5, 5), x(3, 5, 5)), 3),
    (Graphs(), 4),
    (TensorDict(), 6),
    (["one", "two", "three"], 3),
    (([1, 2, 3, 4],), 4),
    *((one, None) for one in (5, "text", None, [], Lying(), ENDLESS)),
    (LyingList([x(12, 1), x(12)]), 12),
    (x(4, 4).to_sparse(), 4),
    (x(4, 4).to("meta"), 4),
]


@pytest.mark.parametrize("at", range(len(LENGTHS)))
def test_the_length_of_a_batch(reads, at):
    batch, expected = LENGTHS[at]
    assert known(reads.length(batch)) == expected


class Subclass(torch.Tensor):
    @classmethod
    def __torch_function__(cls, *args, **kwargs):
        raise AssertionError("a subclass is never read")


NUMBERS = [
    (0.5, 0.5),
    (True, 1.0),
    (3, 3.0),
    (np.float32(1.5), 1.5),
    (np.float64(2.5), 2.5),
    (torch.tensor(1.25), 1.25),
    (torch.tensor([[1.25]]), 1.25),
    (torch.arange(10.0)[7], 7.0),
    (torch.tensor(3, dtype=torch.int64), 3.0),
    (torch.tensor(2.5, dtype=torch.float64), 2.5),
    (torch.tensor(1.5, dtype=torch.bfloat16), 1.5),
    (torch.tensor(0.5, dtype=torch.float16), 0.5),
    (torch.tensor(True), 1.0),
    (torch.tensor(0.5, requires_grad=True) * 2, 1.0),
    ([torch.tensor(4.0)], 4.0),
    *((one, None) for one in (10**400, "1.0", None, Lying())),
    (torch.tensor(1.0 + 2j), None),
    (torch.tensor([1.0, 2.0]), None),
    (torch.tensor(1.0).to("meta"), None),
    (torch.tensor(1.0).as_subclass(Subclass), None),
]


@pytest.mark.parametrize("at", range(len(NUMBERS)))
def test_a_number(reads, at):
    value, expected = NUMBERS[at]
    assert known(reads.number(value)) == expected


def test_a_number_inside_vmap_is_unknown(reads):
    seen = []
    torch.func.vmap(lambda x: seen.append(known(reads.number(x))) or x)(torch.arange(3.0))
    assert seen == [None]


class Interrupting:
    """A Ctrl-C arrives while the size that it states is read."""

    @property
    def num_graphs(self):
        raise KeyboardInterrupt


def test_a_ctrl_c_that_arrives_in_a_read_passes_on(reads):
    site = reads.Site(1, k.STEP, keys=("batch",))
    site.record(1, k.STEP, k.STRUCTURE, 0, k.LENGTH)
    with pytest.raises(KeyboardInterrupt):
        site.event(Interrupting())
    with pytest.raises(KeyboardInterrupt):
        reads.span(1, k.LOADING, Interrupting, k.RESULT)()
    assert site.event([1, 2]) is None


class Device:
    """A device's streams and events, whose queue is worked off when a test says so."""

    done = capturing = False
    made = 0

    def is_current_stream_capturing(self):
        return self.capturing

    def current_stream(self, device):
        return f"stream of {device}"

    def Event(self):
        self.made += 1
        return SimpleNamespace(record=self.record, query=lambda: self.done)

    def record(self, stream):
        assert stream == "stream of cuda:0"


class OnDevice:
    """A number on a device, as far as the recorder looks at it."""

    shape, is_cpu, device = (), False, torch.device("cuda:0")

    def __init__(self, value):
        self.value = value

    def detach(self):
        return self

    def to(self, device, non_blocking):
        assert (device, non_blocking) == ("cpu", True)
        return torch.tensor(self.value)


def test_a_number_on_a_device_comes_late(recorded, monkeypatch):
    device, values = Device(), Values()
    monkeypatch.setattr("overseer.recorder.values.recorder", recorded.module)
    monkeypatch.setattr(torch, "get_device_module", lambda which: device)
    values.know(torch)
    recorded.module.tensors({OnDevice: 1}, {}, None, values.hold)
    loss, number = recorded.module.Site(0, k.LOSS, keys=("loss",)), k.table.add(k.LOSS, "loss")
    loss.record(number, k.LOSS, k.STRUCTURE, 0, k.NUMBER)
    for value in (1.5, 2.5):
        loss.event(OnDevice(value))
    told = recorded.take()
    assert [e.flags for e in told] == [k.LATER, k.LATER]
    assert values.collect(nullcontext) == 2
    device.done = True
    assert values.collect(nullcontext) == 0
    late = recorded.take()
    assert [(e.start, e.value, e.object) for e in late] == [
        (told[0].start, 1.5, number),
        (told[1].start, 2.5, number),
    ]
    assert {k.table.rows[e.site]["kind"] for e in late} == {k.LATE}
    backward = k.table.add(k.BACKWARD, "backward")
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
def test_a_file_of_the_scripts_with_the_name_of_a_library_is_left_alone(recorded, name):
    values = Values()
    values.know(ModuleType(name))
    assert values._types == {}
