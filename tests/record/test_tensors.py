"""Numbers on a device are copied in the order of its stream, and read when they have arrived."""

from __future__ import annotations

import json
import sys
from types import SimpleNamespace

import pytest

from overseer.record import tensors
from overseer.record.encode import encode, snapshot
from overseer.record.tensors import Pending


class FakeDevice:
    """A device whose work completes when told; stands in for ``torch.cuda``."""

    def __init__(self) -> None:
        self.done = False
        self.capturing = False
        self.copies = 0
        self.events: list[str] = []

    def is_current_stream_capturing(self) -> bool:
        return self.capturing

    def current_stream(self, device: object) -> str:
        return f"the current stream of {device.type}"  # type: ignore[attr-defined]

    def Event(self) -> SimpleNamespace:
        return SimpleNamespace(record=self.events.append, query=lambda: self.done)


class FakeTensor:
    """A tensor of one element on a :class:`FakeDevice`."""

    shape: tuple[int, ...] = ()
    dtype = "torch.float32"

    def __init__(self, device: FakeDevice, where: str = "cuda") -> None:
        self._device = device
        self.device = SimpleNamespace(type=where)

    def detach(self) -> FakeTensor:
        return self

    def to(self, where: str, non_blocking: bool) -> FakeTensor:
        assert non_blocking
        self._device.copies += 1
        return FakeTensor(self._device, where)

    def item(self) -> float:
        assert self._device.done, "the script would have waited for the device here"
        return 0.25


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> FakeDevice:
    fake = FakeDevice()
    torch = SimpleNamespace(get_device_module=lambda device: fake)
    monkeypatch.setitem(sys.modules, "torch", torch)  # type: ignore[arg-type]
    return fake


def test_a_number_on_a_device_is_copied_by_the_scripts_own_stream(device):
    taken = snapshot(FakeTensor(device))
    assert isinstance(taken, Pending)
    assert device.events == ["the current stream of cuda"]


def test_it_is_written_as_its_number_once_it_has_arrived(device):
    taken = snapshot(FakeTensor(device))
    device.done = True
    assert json.loads(encode({"loss": taken})) == {"loss": 0.25}


def test_it_is_written_as_its_shape_when_it_has_not_arrived(device):
    taken = snapshot(FakeTensor(device))
    assert json.loads(encode({"loss": taken})) == {"loss": {"shape": [], "dtype": "float32"}}


def test_the_end_of_a_run_waits_for_it_but_not_for_ever(device, monkeypatch):
    naps = []

    def nap(seconds):
        naps.append(seconds)
        device.done = len(naps) == 3

    monkeypatch.setattr(tensors, "monotonic", lambda: 0.0)
    monkeypatch.setattr(tensors, "sleep", nap)
    assert json.loads(encode({"loss": snapshot(FakeTensor(device))}, wait=True)) == {"loss": 0.25}
    device.done = False
    ticks = iter(range(100))
    monkeypatch.setattr(tensors, "monotonic", lambda: float(next(ticks)))
    monkeypatch.setattr(tensors, "sleep", lambda seconds: None)
    hung = json.loads(encode({"loss": snapshot(FakeTensor(device))}, wait=True))
    assert hung == {"loss": {"shape": [], "dtype": "float32"}}


def test_nothing_is_copied_while_the_script_captures_a_graph(device):
    device.capturing = True
    assert snapshot(FakeTensor(device)) == tensors.describe(FakeTensor(device))
    assert device.copies == 0


def test_many_numbers_are_not_copied_at_all(device):
    tensor = FakeTensor(device)
    tensor.shape = (1000, 1000)
    described = snapshot(tensor)
    assert isinstance(described, dict)
    assert described["shape"] == [1000, 1000]
    assert device.copies == 0


def test_an_array_that_is_still_being_computed_is_taken_along():
    class Lazy:  # As jax.Array: immutable, and ready some time.
        shape, dtype, ready = (), "float32", False

        def is_ready(self):
            return self.ready

        def item(self):
            assert self.ready
            return 2.0

    lazy = Lazy()
    taken = snapshot({"x": 1}), snapshot(lazy)
    lazy.ready = True
    assert json.loads(encode(taken)) == [{"x": 1}, 2.0]
