"""What the timeline shows of a device with a clock of its own."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

import instruments.meter
from instruments.rate import instrument_rates
from instruments.trace import instrument_trace
from overseer import Overseer
from overseer.clock import FakeClock
from overseer.measure.device import FakeDevice
from overseer.trace import Trace, open_trace
from overseer.trace.recorder import recorder
from tests.running import Place

MILLISECOND = 1_000_000
#: Each step takes the device ten times as long as the host, which does not wait for it.
SCRIPT = """
    import voir
    from instruments.meter import gpu

    for number in voir.iterate("train", range(3), report_batch=True, batch_size=4):
        gpu.launch(0.010)
        gpu.clock.advance(0.001)
    gpu.clock.advance(gpu.synchronize())
"""


@pytest.fixture
def traced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Trace:
    """The trace of a script whose steps a fake device works on."""
    clock = FakeClock(now_ns=5_000_000_000, wall_ns=1 << 60)
    device = FakeDevice(clock)
    device.clock = clock  # type: ignore[attr-defined]
    monkeypatch.setattr(instruments.meter, "gpu", device, raising=False)
    monkeypatch.setattr(instruments.meter, "_device", lambda: device)
    place = Place(tmp_path)
    place.write("main.py", SCRIPT)
    monkeypatch.chdir(tmp_path)
    # As a process of its own would have them; whoever starts processes later looks there.
    monkeypatch.setitem(sys.modules, "__main__", sys.modules["__main__"])
    monkeypatch.setattr(sys, "argv", list(sys.argv))
    monkeypatch.setattr(sys, "path", list(sys.path))
    ov = Overseer([instrument_rates, instrument_trace], clock=clock)
    ov(["--quiet", "--run-dir", "run", "--trace", "main.py"])
    recorder.channels.clear()
    assert ov.problems == []
    return open_trace(tmp_path / "run")


def test_the_device_has_a_row_of_what_it_executed(traced: Trace) -> None:
    (row,) = [thread for thread in traced.threads if thread.name == "device (fake events)"]
    assert [(one.label, one.args) for one in row.slices] == [
        ("execution", {"step": number, "task": "train"}) for number in range(3)
    ]
    starts = [one.start - row.slices[0].start for one in row.slices]
    assert starts == [0, 10 * MILLISECOND, 20 * MILLISECOND]
    assert [one.duration for one in row.slices] == [10 * MILLISECOND] * 3


def test_each_step_is_marked_where_the_host_has_come_to_its_end(traced: Trace) -> None:
    (row,) = [thread for thread in traced.threads if thread.name == "step marks"]
    assert [one.args["step"] for one in row.instants] == [0, 1, 2]
    assert [one.start - row.instants[0].start for one in row.instants] == [
        0,
        MILLISECOND,
        2 * MILLISECOND,
    ]
