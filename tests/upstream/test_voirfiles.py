"""Voirfiles in the styles of voir 0.2 and of Milabench, run unchanged."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from tests.running import Place, environment
from voir.proc import LogEntry, Multiplexer

TRAINING = """
    from pkg.torchless import make_loader
    def criterion(batch):
        return 1 / (1 + sum(batch))
    def train(loader, criterion):
        for epoch in range(10):
            for batch in loader:
                loss = criterion(batch)
        print("trained to the end")
    def main():
        loader = make_loader([[n] * 8 for n in range(1, 6)])
        train(loader, criterion)
        print("main returned")
    if __name__ == "__main__":
        main()
"""
TORCHLESS = """
    class DataLoader(list):
        pass
    def make_loader(batches):
        return DataLoader(batches)
"""
#: As Milabench's: counts batches, gives rates, and raises the stop inside the wrapped loader.
OBSERVER = """
    from voir.helpers import current_overseer
    from voir.phase import StopProgram
    class TimedIterator:
        def __init__(self, loader, give, earlystop):
            self.loader, self.give, self.left = loader, give, earlystop
        def __len__(self):
            return len(self.loader)
        def __iter__(self):
            for batch in self.loader:
                yield batch
                self.left -= 1
                self.give(rate=len(batch) * 10.0, units="items/s", task="train")
                if self.left == 0:
                    raise StopProgram()
    class BenchObserver:
        def __init__(self, earlystop):
            self.earlystop = earlystop
        def loader(self, loader):
            return TimedIterator(loader, current_overseer.get().give, self.earlystop)
        def criterion(self, criterion):
            def wrapped(*args):
                loss = criterion(*args)
                current_overseer.get().give(loss=loss, task="train")
                return loss
            return wrapped
"""
STOPS_EARLY = """
    from dataclasses import dataclass
    from ptera import refstring
    from observer import BenchObserver
    from pkg.torchless import make_loader
    from voir import configurable
    from voir.instruments import early_stop, log
    from voir.phase import StopProgram
    @dataclass
    class Config:
        # Number of batches to see
        stop: int = 60
        # How often to look at the device
        gpu_poll: float = 3
    @configurable
    def instrument_main(ov, options: Config):
        yield ov.phases.init
        ov.require(log("rate", "units", "loss", context=["task"]))
        observer = BenchObserver(earlystop=options.stop)
        yield ov.phases.load_script
        probe = ov.probe(f"{refstring(make_loader)}() as loader", overridable=True)
        probe["loader"].override(observer.loader)
        probe = ov.probe("//train > criterion", overridable=True)
        probe["criterion"].override(observer.criterion)
        try:
            yield ov.phases.run_script
        except StopProgram:
            print("early stopped")
"""


@pytest.fixture
def place(tmp_path: Path) -> Place:
    place = Place(tmp_path)
    place.write("train.py", TRAINING)
    place.write("pkg/torchless.py", TORCHLESS)
    return place


def ran(place: Place, *command: str, **options: Any) -> list[Any]:
    """The entries of a run, as a tool that starts it sees them."""
    multiplexer = Multiplexer(timeout=None)
    env = environment(options.pop("env", None))
    multiplexer.start([sys.executable, *command], info={}, env=env, cwd=place.path, **options)
    return list(multiplexer)


def ran_voir(place: Place, *arguments: str, env: dict[str, str] | None = None) -> list[Any]:
    return ran(place, "-m", "voir", *arguments, env=env)


def data(entries: list[LogEntry], key: str) -> list[Any]:
    """The values of ``key`` in what the run logged."""
    return [e.data[key] for e in entries if e.event == "data" and key in e.data]


def lines(entries: list[LogEntry], pipe: str = "stdout") -> list[str]:
    return [entry.data.rstrip("\n") for entry in entries if entry.pipe == pipe]


def phases(entries: list[LogEntry]) -> list[str]:
    return [entry.data["name"] for entry in entries if entry.event == "phase"]


ALL = ["init", "parse_args", "load_script", "run_script", "finalize"]


def test_an_observer_that_overrides_the_loader_and_stops_inside_of_it(place: Place) -> None:
    place.write("observer.py", OBSERVER)
    place.write("voirfile.py", STOPS_EARLY)
    entries = ran_voir(place, "--stop", "7", "train.py")
    assert data(entries, "rate") == [80.0] * 7
    assert data(entries, "loss") == [1 / (1 + 8 * (n % 5 + 1)) for n in range(7)]
    assert set(data(entries, "task")) == {"train"}
    assert lines(entries) == ["early stopped"]
    assert entries[-1].data["return_code"] == 0
    assert phases(entries) == ALL


STRICT = """
    from voir.instruments import early_stop, log, rate
    from voir.instruments.monitor import monitor
    def instrument_losses(ov):
        yield ov.phases.load_script
        ov.probe("//work > i as loss").give()
        ov.given["loss"].max().print("greatest {}")
        ov.given["loss"].count().print("{} losses")
        ov.require(early_stop("loss", n=30), rate(interval=2, skip=1))
        ov.require(log("rate", "units", "progress", context="task"))
    def instrument_monitor(ov):
        yield from monitor(ov, poll_interval=0.01, gpudata=lambda: {})
"""
LONG = """
    import time
    from voir import iterate
    def work():
        for i in iterate("train", range(200), report_batch=True, batch_size=1):
            time.sleep(0.01)
    work()
"""


def test_a_key_of_its_own_events_beside_events_that_voir_gives(place: Place) -> None:
    place.write("voirfile.py", STRICT)
    place.write("long.py", LONG)
    entries = ran_voir(place, "--no-record", "--quiet", "long.py")
    assert (lines(entries), lines(entries, "stderr")) == (["greatest 29", "30 losses"], [])
    assert len(data(entries, "rate")) >= 1
    assert set(data(entries, "units")) == {"items/s"}
    assert data(entries, "progress")[:2] == [[0, 200], [1, 200]]


MONITOR = """
    import os
    from dataclasses import dataclass
    from voir import configurable
    from voir.instruments import early_stop, log
    from voir.instruments.cpu import cpu_monitor, process_monitor
    from voir.instruments.gpu import gpu_monitor as gpu_monitor_fun, select_backend
    from voir.instruments.io import io_monitor
    from voir.instruments.monitor import monitor
    from voir.instruments.network import network_monitor
    from voir.tools import instrument_definition
    @instrument_definition
    def monitor_monogpu(ov, poll_interval=1, arch=None):
        return monitor(
            ov, poll_interval=poll_interval, worker_init=lambda: select_backend(arch, force=True),
            gpudata=gpu_monitor_fun(), process=process_monitor(os.getpid()),
        )
    @instrument_definition
    def monitor_node(ov, poll_interval=1, arch=None):
        return monitor(
            ov, poll_interval=poll_interval, worker_init=lambda: select_backend(arch, force=True),
            gpudata=gpu_monitor_fun(), iodata=io_monitor(), netdata=network_monitor(),
            cpudata=cpu_monitor(),
        )
    def voirfile_monitor(ov, options):
        instruments = [
            log("value", "progress", "rate", "units", "loss", "gpudata", "process", "iodata",
                "netdata", "cpudata", context="task"),
            early_stop(n=options.stop, key="rate", task="train", signal="stop"),
        ]
        rank = int(os.getenv("RANK", -1))
        if rank == -1:
            instruments.append(monitor_monogpu(poll_interval=options.gpu_poll))
        if rank == 0:
            instruments.append(monitor_node(poll_interval=options.gpu_poll))
        ov.require(*instruments)
    @dataclass
    class Config:
        dash: bool = False
        stop: int = 60
        gpu_poll: float = 0.5
    @configurable
    def instrument_main(ov, options: Config):
        yield ov.phases.init
        voirfile_monitor(ov, options)
"""
NODE = {"cpudata": ["load"], "iodata": ["read_bytes"], "netdata": ["bytes_sent"], "gpudata": []}


@pytest.mark.parametrize(
    ("env", "parts"),
    [({}, {"process": ["pid", "load"], "gpudata": []}), ({"RANK": "0"}, NODE)],
)
def test_monitors_of_a_process_and_of_a_node(
    place: Place, env: dict[str, str], parts: dict[str, list[str]]
) -> None:
    place.write("voirfile.py", MONITOR)
    place.write("sleeps.py", "import time\ntime.sleep(1)\n")
    entries = ran_voir(place, "--no-record", "--gpu-poll", "0.05", "sleeps.py", env=env)
    readings = {key: data(entries, key) for key in parts}
    assert min(map(len, readings.values())) >= 3, lines(entries, "stderr")
    assert all(r[part] >= 0 for key in parts for r in readings[key] for part in parts[key])
    assert all(reading["memory"][0] > 0 for reading in readings.get("process", ()))
    assert set(data(entries, "task")) == {"main"}
    assert entries[-1].data["return_code"] == 0


OWN_STOP = """
    from voir.instruments import early_stop
    def instrument_stop(ov):
        yield ov.phases.init
        ov.argparser.add_argument("--stop", type=int, default=5)
        ov.argparser.add_argument("--dash", action="store_true")
        yield ov.phases.parse_args
        ov.require(early_stop(n=ov.options.stop, key="loss", task="train", signal="stop"))
        yield ov.phases.run_script
        print(ov.options.stop, ov.options.dash)
"""


def test_an_option_means_the_voirfiles_own_and_a_stop_may_be_an_event(place: Place) -> None:
    place.write("voirfile.py", OWN_STOP)
    script = (
        "import voir\nfor i in range(4): voir.give(step=True, loss=i, task='train')\nprint('end')"
    )
    place.write("main.py", script)
    for options, said, stops in ((["--dash", "--stop", "2"], "2 True", 1), ([], "5 False", 0)):
        entries = ran_voir(place, *options, "main.py")
        assert lines(entries) == ["end", said]  # Only who started the program stops it.
        assert [entry.event for entry in entries].count("stop") == stops
        assert entries[-1].data["return_code"] == 0


def test_what_is_logged_may_be_hidden_in_stdout_by_voir_or_by_the_script(place: Place) -> None:
    place.write(
        "main.py",
        """
        import json, sys
        from voir import log
        from voir.smuggle import SmuggleWriter
        hidden = SmuggleWriter(sys.stdout)
        for rate in range(3):
            print(json.dumps({"rate": rate, "task": "train"}), file=hidden)
        print("done")
        log(loss=1.5)
        """,
    )
    for command, expected in ((["main.py"], []), (["-m", "voir", "--no-record", "main.py"], ALL)):
        entries = ran(place, *command, use_stdout=True)
        assert (data(entries, "rate"), lines(entries)) == ([0, 1, 2], ["done"])
        assert (data(entries, "loss"), phases(entries)) == ([1.5] if expected else [], expected)


def test_voirfiles_with_everything_of_the_old_guide_and_a_configuration(place: Place) -> None:
    place.write(
        "guide.py",
        """
        from voir.instruments import log
        from voir.tools import gated, instrument_definition, parametrized
        @gated("--wow", "Turn on the WOW")
        def instrument_wow(ov):
            yield ov.phases.run_script
            print("WOW")
        @parametrized("--funk", type=int, default=0, help="How much funk?")
        def instrument_funk(ov):
            yield ov.phases.run_script(priority=1)
            print("funk" * ov.options.funk)
        @instrument_definition
        def repeat(ov, what, times):
            yield ov.phases.init
            ov.log({"said": [what] * times})
        instrument_list = [{"repeat": repeat("x", times=2)}]
        def instrument_given(ov):
            yield ov.phases.init
            ov.require(log("loss"))
            yield ov.phases.load_script
            ov.probe("//train > loss").give()
            ov.given["?loss"].min().print("least: {}")
        """,
    )
    place.write(
        "options.py",
        """
        from dataclasses import dataclass
        from voir import configurable
        @dataclass
        class Options:
            batch: int = 1
            fast: bool = False
        @configurable
        def instrument_options(ov, cfg: Options):
            yield ov.phases.load_script
            print(cfg.batch, cfg.fast)
        """,
    )
    place.write("settings.yaml", "cfg:\n  batch: 64\n  fast: true\n")
    options = ["--wow", "--funk", "2", "--config", "settings.yaml", "--no-fast"]
    entries = ran_voir(place, *options, "train.py", env={"VOIRFILE": "guide.py options.py"})
    said = ["64 False", "trained to the end", "main returned", "funkfunk", "WOW"]
    assert lines(entries) == [*said, f"least: {1 / 41}"]
    assert (len(data(entries, "loss")), data(entries, "said")) == (50, [["x", "x"]])


def test_an_error_in_the_script_and_one_in_an_instrument_are_events(place: Place) -> None:
    place.write("main.py", "print(1 / 0)\n")
    wrong = "def instrument_wrong(ov):\n    yield ov.phases.init\n    raise KeyError('mine')\n"
    place.write("voirfile.py", wrong)
    entries = ran_voir(place, "main.py")
    events = {e.event: e.data for e in entries if e.event in ("error", "overseer_error")}
    assert events == {
        "overseer_error": {"type": "KeyError", "message": "'mine'"},
        "error": {"type": "ZeroDivisionError", "message": "division by zero"},
    }
    assert entries[-1].data["return_code"] == 1


def test_nothing_is_written_to_a_descriptor_that_nobody_named(place: Place) -> None:
    place.write("main.py", "import voir\nvoir.log(loss=1)\n")
    place.write(
        "starts.py",
        """
        import os, subprocess, sys
        with open("three", "wb") as file:
            os.dup2(file.fileno(), 3)
            subprocess.run([sys.executable, "-m", "voir", "main.py"], pass_fds=[3])
        """,
    )
    done = place.python("starts.py")
    assert done.status == 0, done.stderr
    assert (place.path / "three").read_bytes() == b""
