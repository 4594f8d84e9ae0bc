"""A script that uses a device is timed by the device's clock, and nobody waits for it."""

from __future__ import annotations

import pytest
from scripts import Timed, logged, truth, voirfile

from tests.running import Place

#: A torch whose device works off a queue while the host goes on: its events complete late.
TORCH = """
    import passing as time
    from types import SimpleNamespace

    free_at, waited, broken = [0.0], [], []

    def launch(seconds):
        free_at[0] = max(free_at[0], time.perf_counter()) + seconds

    def synchronize():
        waited.append(True)
        time.sleep(max(0.0, free_at[0] - time.perf_counter()))

    class Event:
        def __init__(self, enable_timing=False, device=None):
            pass

        def record(self):
            if broken:
                raise RuntimeError("CUDA error: device lost")
            self.at = max(free_at[0], time.perf_counter())

        def query(self):
            return time.perf_counter() >= self.at

        def elapsed_time(self, end):
            return (end.at - self.at) * 1e3

    cuda = SimpleNamespace(Event=Event, is_initialized=lambda: True, synchronize=synchronize)
    accelerator = SimpleNamespace(current_accelerator=lambda: SimpleNamespace(type="cuda"))
    """
#: The loader takes 8 ms, and the device 6 ms meanwhile, for the step before: it waits for 2.
SCRIPT = """
    import json, sys
    import passing as time
    import torch

    waits = 0.0

    def train(n):
        global waits
        for i in range(n):
            time.sleep(0.008)
            waits += max(0.0, time.perf_counter() - torch.free_at[0]) if i > 1 else 0.0
            for inp in [[i] * 4]:
                torch.launch(0.006)
                if i == 20 and "lost" in sys.argv:
                    torch.broken.append(True)

    train(40)
    steps = 38  # The first one's beginning is not seen, and the second's wait has no end yet.
    print(json.dumps({"share": waits / (waits + steps * 0.006), "waited": len(torch.waited)}))
    torch.synchronize()  # Time that passes nowhere else would not pass while voir waits.
    """
PAIR = "//train(inp as batch, !#loop_inp as compute_start, !!#endloop_inp as compute_end)"


@pytest.fixture
def device(timed: Timed) -> Place:
    timed.write("torch/__init__.py", TORCH)
    timed.write("main.py", SCRIPT)
    voirfile(timed, PAIR)
    return timed


def test_loading_is_what_the_device_waits_not_what_the_host_does(device: Place) -> None:
    ran = device.voir("--no-auto", "--no-monitor", "--loading-rate", "--interval", "99", "main.py")
    told = truth(ran)
    (window,) = logged(device, "loading_rate")
    assert window["share"] == pytest.approx(told["share"], rel=0.01)
    assert told["share"] < 0.5  # The host waits all the time.
    assert told["waited"] == 0
    assert device.record()["tasks"]["train"]["rate"]["clock"] == "cuda events"


def test_a_device_that_is_lost_is_told_once_and_every_step_counts(device: Place) -> None:
    ran = device.voir("--no-auto", "--no-monitor", "main.py", "lost")
    truth(ran)
    assert ran.stderr.count("[device-clock]") == 1
    task = device.record()["tasks"]["train"]
    assert (task["steps"], task["items"]) == (40, 160)
    assert task["rate"]["clock"] == "perf_counter"


def test_a_device_library_that_fails_to_load_is_told_once_and_every_step_counts(
    device: Place,
) -> None:
    device.write("torch/__init__.py", TORCH.replace("is_initialized=lambda: True", "no=1").replace(
        'SimpleNamespace(type="cuda")', "1 / 0"))  # fmt: skip
    ran = device.voir("--no-auto", "--no-monitor", "main.py")
    truth(ran)
    assert ran.stderr.count("[device-clock]") == 1
    assert device.record()["tasks"]["train"]["steps"] == 40
