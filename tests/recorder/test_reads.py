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


@pytest.fixture(params=["described", "by getters"])
def values(request, recorded, monkeypatch):
    monkeypatch.setattr("overseer.recorder.values.recorder", recorded.module)
    values = Values()
    values.know(torch)
    values.know(np)
    if request.param == "by getters":  # Once a tensor without memory was not described.
        recorded.module.length(torch.zeros(2, device="meta"))
    return values


def known(value):
    return None if math.isnan(value) else value


class Lying:
    """An object whose attributes raise, and one whose do not end."""

    def __getattr__(self, name):
        raise RuntimeError(name)

    __len__ = __getitem__ = __getattr__


class LyingList(list):
    __len__ = __getitem__ = __iter__ = lambda *args: 1 / 0


def x(*shape):
    return torch.zeros(shape)


ENDLESS = []
ENDLESS.append(ENDLESS)
GRAPHS = SimpleNamespace(num_graphs=5, shape=(70, 3))
BOXES = ({"boxes": x(1, 4)}, {"boxes": x(2, 4)})
RAGGED = [x(3, 10), x(5, 10), x(4, 10)], [x(3, 5, 5), x(3, 6, 5), x(3, 5, 6), x(3, 7, 7)]
WEIGHTS = {"weights": x(3), "x": x(8, 4), "y": x(8)}
#: Samples side by side, which no two tensors of one length say.
SAMPLES = [[("a", 1), ("b", 2), ("c", 3)], [(x(5), 1), (x(5), 2), (x(5), 3)], [[1, 2], [3], [4]]]
#: What may be samples side by side, and may be columns.
EITHER = [
    [[1.0, 2.0], [3.0, 4.0]],
    [x(32, 32)] * 8,
    [np.zeros(3), np.ones(4)],
    {"a": x(2), "b": x(3)},
]
#: By its length: batches.
LENGTHS = {
    5: [GRAPHS, x(5, 3), torch.nn.Parameter(x(5, 2)), np.zeros((5, 2)), x(5, 4).to_sparse()],
    6: [x(6, 4).to("meta"), SimpleNamespace(batch_size=torch.Size([6, 2])), (x(6, 3), x(6))],
    16: [[x(16, 3), [x(16)]], Pair(x(16, 1), x(16)), LyingList([x(16, 1), x(16)])],
    8: [
        {"ids": x(8, 20), "labels": x(8)},
        OrderedDict(a="text", b=x(8, 1)),
        UserDict(a=x(8, 5)),
        WEIGHTS,
    ],
    2: [[{"x": x(3)}, {"x": x(4)}], ((x(3, 5, 5), x(3, 6, 5)), BOXES)],
    3: [(x(3, 5, 5), x(3, 5, 5)), ["one", "two", "three"], ([1, 2, 3],), *SAMPLES],
    None: [x(), 7, "text", None, [], Lying(), ENDLESS, (x(7, 32), x(32)), *RAGGED, *EITHER],
}


@pytest.mark.parametrize("expected", LENGTHS)
def test_the_length_of_a_batch(recorded, values, expected):
    found = [known(recorded.module.length(batch)) for batch in LENGTHS[expected]]
    assert found == [expected] * len(found)


class Subclass(torch.Tensor):
    @classmethod
    def __torch_function__(cls, *args, **kwargs):
        raise AssertionError("a subclass is never read")


class Hearing(torch.Tensor):
    heard = 0

    @classmethod
    def __torch_function__(cls, *args, **kwargs):
        cls.heard += 1
        return super().__torch_function__(*args, **kwargs)


def test_a_subclass_of_tensors_is_never_read(recorded, values):
    one = x(4, 2).as_subclass(Hearing)
    Hearing.heard = 0
    for read in (recorded.module.number, recorded.module.length):
        for value in (one, [one], {"a": one}, (one, x(4))):
            read(value)
    assert Hearing.heard == 0


def typed(value, *names):
    return [torch.tensor(value, dtype=getattr(torch, name)) for name in names]


UNREAD = [x().to("meta"), x().as_subclass(Subclass), x(2), x().to(torch.complex64)]
#: By what they are: numbers.
NUMBERS = {
    1.0: [True, 1, 1.0, *typed(1, "int64", "bool", "float16", "bfloat16")],
    2.0: [torch.ones((), requires_grad=True) * 2],
    1.5: [np.float32(1.5), np.float64(1.5), *typed(1.5, "float32", "float64")],
    7.0: [torch.arange(10.0)[7], torch.tensor([[7.0]]), [torch.tensor(7.0)]],
    None: [10**400, "1.0", None, Lying(), *UNREAD],
}


@pytest.mark.parametrize("expected", NUMBERS)
def test_a_number(recorded, values, expected):
    found = [known(recorded.module.number(value)) for value in NUMBERS[expected]]
    assert found == [expected] * len(found)


def test_a_number_inside_vmap_is_unknown(recorded, values):
    seen, number = [], recorded.module.number
    torch.func.vmap(lambda x: seen.append(known(number(x))) or x)(torch.arange(3.0))
    assert seen == [None]


class Mode(torch.overrides.TorchFunctionMode):
    """A mode that hears of all that is done with tensors."""

    heard = 0

    def __torch_function__(self, function, types, args=(), kwargs=None):
        self.heard += 1
        return function(*args, **kwargs or {})


def test_a_mode_of_the_scripts_hears_nothing_of_a_read(recorded, values):
    read = recorded.module.number, recorded.module.length
    with Mode() as mode:
        found = [read[0](value) for value in (torch.tensor(1.5), [torch.tensor([2.5])])]
        assert (found, read[1](x(5, 3))) == ([1.5, 2.5], 5)
        assert known(read[1]([x(6, 3, 5, 5)] * 5)) is None
        assert mode.heard == 4, "of the tensors being made, by the test itself"


def test_nothing_is_read_while_torch_traces(recorded, values):
    def traced(value):
        seen.append(known(recorded.module.length(value)))
        seen.append(known(recorded.module.number(value.sum())))
        return value * 2

    def graph(function):
        with pytest.warns(DeprecationWarning):
            return (
                str(torch.jit.trace(function, x(5, 3), check_trace=False).graph)
                .replace("\n", "")
                .split("#")[0]
            )

    seen = []
    assert graph(traced) == graph(lambda value: (value.sum(), value * 2)[1])
    assert set(seen) == {None}


def test_what_cannot_be_read_is_flagged_and_its_type_named(recorded, values):
    loss, batch = (
        recorded.module.Site(1, k.LOSS, keys=("loss",)),
        recorded.module.Site(2, k.BATCH, keys=("batch",)),
    )
    loss.record(1, k.LOSS, k.STRUCTURE, 0, k.NUMBER)
    batch.record(2, k.BATCH, k.STRUCTURE, 0, k.LENGTH)
    for value in (1.5, Lying(), "1.5", torch.ones(2)):
        loss.event(value)
    batch.event(Lying())
    assert [event.flags & k.FAILED > 0 for event in recorded.take()][:4] == [
        False,
        True,
        True,
        True,
    ]
    assert recorded.module.unread() == ("Lying", "Lying")


class Interrupting:
    """A Ctrl-C arrives while the size that it states is read."""

    @property
    def num_graphs(self):
        raise KeyboardInterrupt


def test_a_ctrl_c_that_arrives_in_a_read_passes_on(recorded):
    site = recorded.module.Site(1, k.STEP, keys=("batch",))
    site.record(1, k.STEP, k.STRUCTURE, 0, k.LENGTH)
    with pytest.raises(KeyboardInterrupt):
        site.event(Interrupting())
    with pytest.raises(KeyboardInterrupt):
        recorded.module.span(1, k.LOADING, Interrupting, k.RESULT)()
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
        return SimpleNamespace(record=["stream of cuda:0"].index, query=lambda: self.done)


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


def test_a_number_on_a_device_comes_late(recorded, values, monkeypatch):
    device = Device()
    monkeypatch.setattr(torch, "get_device_module", lambda which: device)
    recorded.module.tensors({OnDevice: 1}, {}, None, values.hold)
    loss, number = recorded.module.Site(0, k.LOSS, keys=("loss",)), k.table.add(k.LOSS, "loss")
    loss.record(number, k.LOSS, k.STRUCTURE, 0, k.NUMBER)
    loss.event(OnDevice(1.5))
    loss.event(OnDevice(2.5))
    told = recorded.take()
    assert [e.flags for e in told] == [k.LATER, k.LATER]
    assert values.collect(nullcontext) == 2
    device.done = True
    assert values.collect(nullcontext) == 0
    backward = k.table.add(k.BACKWARD, "backward")
    recorded.module.span(backward, k.BACKWARD, id, k.NUMBER, 0)(OnDevice(3.5))
    assert device.made == 2, "events are used again"
    *late, span = recorded.take()
    values.collect(nullcontext)
    late += recorded.take()
    starts = [event.start for event in (*told, span)]
    assert [e.start for e in late] == starts
    assert [(e.value, e.object) for e in late] == [(1.5, number), (2.5, number), (3.5, backward)]
    assert {k.table.rows[e.site]["kind"] for e in late} == {k.LATE}
    device.capturing = True
    loss.event(OnDevice(4.5))
    assert (span.flags, [e.flags for e in recorded.take()]) == (k.LATER, [k.FAILED])


@pytest.mark.parametrize("name", ["torch", "numpy", "jax"])
def test_a_file_of_the_scripts_with_the_name_of_a_library_is_left_alone(recorded, name):
    values = Values()
    values.know(ModuleType(name))
    assert values._types == {}
