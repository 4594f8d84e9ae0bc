"""Measure the cost of training under voir, next to voir 0.2 and TraceML.

    python benchmarks/overhead.py [--rounds N] [--seconds S] [--peers] [--work WORK]

The same script runs plain and under each tool, with all defaults and with everything on: rates,
loading and compute, monitors, the record. It times its own training loop, which excludes start-up
(see benchmarks/startup.py). In a round every side runs twice, there and back (A B C C B A), so
that changes in the machine's speed affect all sides; the table has the median over rounds of the
ratio to plain python. Torch has one thread on every side.

"Quiet" compares the least disturbed run of each side, at the first decile of its epochs (if it
has epochs): it excludes the effect of other programs, and most of a tool's work once a second.

voir is the installed one of the current python. The peers have their own environments, named by
``--upstream PYTHON`` and ``--traceml PYTHON``; ``--peers`` creates them with pip, in
``.venv-upstream`` and ``.venv-traceml``; they share the torch of this environment. ``--readers``
adds voir without options, with a trace of every module, with the dashboard on a terminal, with
``--stop``, and viztracer.
"""

from __future__ import annotations

import argparse
import json
import os
import pty
import shutil
import socket
import statistics
import subprocess
import sys
import sysconfig
import tempfile
import termios
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from textwrap import indent

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = {"upstream": "voir==0.2.24", "traceml": "traceml-ai"}

MLP = """
import time

used = [time.process_time()]

import json
import sys

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

used.append(time.process_time())


def train_epoch(model, criterion, optimizer, loader):
    for inp, target in loader:
        loss = criterion(model(inp), target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def main():
    torch.manual_seed(0)
    layers = [nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 10)]
    model = nn.Sequential(*layers)
    criterion = nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), 0.05, momentum=0.9)
    data = TensorDataset(torch.randn(6400, 64), torch.randint(10, (6400,)))
    loader = DataLoader(data, batch_size=64, shuffle=True)
    used.append(time.process_time())
    train_epoch(model, criterion, optimizer, loader)
    used.append(time.process_time())
    epochs, took, busy = int(sys.argv[1]), [], []
    for _ in range(epochs):
        began = time.perf_counter(), time.process_time()
        train_epoch(model, criterion, optimizer, loader)
        took.append(time.perf_counter() - began[0])
        busy.append(time.process_time() - began[1])
    steps = epochs * len(loader)
    found = {"wall": sum(took) / steps, "cpu": sum(busy) / steps}
    found["quiet"] = sorted(took)[epochs // 10] / len(loader)
    found["median"] = sorted(took)[epochs // 2] / len(loader)
    used.extend([used[-1] + sorted(busy)[epochs // 10] * epochs, time.process_time()])
    print(json.dumps({**found, "used": used}))


main()
"""
#: A step of a third of that.
SMALL = MLP.replace(", nn.Linear(256, 256), nn.ReLU()", "").replace("0.05, momentum=0.9", "0.05")
SMALL = SMALL.replace("6400", "3200").replace("batch_size=64", "batch_size=32")
#: That with a generator in the loader's place, as many write one.
GENERATOR = (
    SMALL.replace("optimizer, loader)\n", "optimizer, batches(data))\n")
    .replace("    loader = DataLoader(data, batch_size=32, shuffle=True)\n", "")
    .replace("epochs * len(loader)", "epochs * 100")
    .replace("/ len(loader)", "/ 100")
    .replace(
        "def main():",
        """def batches(data):
    order = torch.randperm(len(data)).split(32)
    for rows in order:
        yield data[rows]


def main():""",
    )
)
TIMED_MAIN = """
if __name__ == "__main__":
    import json
    import sys
    import time

    since, used = time.perf_counter(), time.process_time()
    main()
    wall, cpu = time.perf_counter() - since, time.process_time() - used
    steps = 45 * int(sys.argv[2])
    print(json.dumps({"wall": wall / steps, "cpu": cpu / steps}))
"""
#: All that can be probed of either script, in words that both voirs understand.
PROBES = """
def instrument_probes(ov):
    yield ov.phases.load_script
    ov.probe("//train_epoch > loss").give()
    ov.probe("//train_epoch(inp as batch) > #endloop_inp as step").give()
    ov.probe(
        "//train_epoch(inp as batch, !#loop_inp as compute_start, !!#endloop_inp as compute_end)"
    ).give()
    ov.probe("//main > loader").give()
    ov.probe("//main > train_loader as loader").give()
"""
#: What upstream has that comes nearest: rates, the time between the ends of the pair, monitors.
UPSTREAM = (
    PROBES
    + """

import time

from voir.instruments import log, monitor_all, rate


def instrument_rates(ov):
    yield ov.phases.init
    ov.require(rate(interval="1s"))
    ov.require(monitor_all(poll_interval=1, arch="cpu"))
    ov.require(log("rate", "compute", "units", "cpudata", context="task"))
    ov.given.where("step", "batch", "!task").subscribe(
        lambda event: ov.give(task="train", batch=event["batch"])
    )
    ov.given.wmap("compute_start", timed).subscribe(seconds.append)


seconds = []


def timed(compute_start=None, batch=None):
    since = time.time_ns()
    yield
    return time.time_ns() - since
"""
)
ALL_ON = ("--quiet", "--train-rate", "--loading-rate", "--compute-rate")


@dataclass(frozen=True)
class Work:
    """A script in the form each side runs it, with the argument that says how long."""

    name: str
    script: str
    arguments: tuple[str, ...]
    #: The line in the loop up to which the body of the loop goes, for those who wrap it.
    last: str = "        optimizer.step()\n"

    def wrapped(self) -> str:
        """The script with the edits that TraceML asks for."""
        head, _, tail = self.script.partition("    for inp, target in loader:\n")
        body, _, rest = tail.partition(self.last)
        loop = "    for inp, target in loader:\n        with traceml.trace_step(model):\n" + indent(
            body + self.last, "    "
        )
        return f"import traceml_ai as traceml\ntraceml.init(mode='auto')\n{head}{loop}{rest}"


@dataclass(frozen=True)
class Side:
    """A way to run the script.

    Attributes:
        name: What the table calls it.
        command: What stands before the script.
        voirfile: What the voirfile says, if it needs one.
        edited: Whether it needs TraceML's edits in the script.
        terminal: Whether its stderr is a terminal.
    """

    name: str
    command: tuple[str, ...]
    voirfile: str | None = None
    edited: bool = False
    terminal: bool = False


def works(seconds: float) -> dict[str, Work]:
    """The scripts, lasting about so many seconds."""
    digits = (ROOT / "examples/digits/main.py").read_text()
    digits = digits[: digits.index('\nif __name__ == "__main__":')] + TIMED_MAIN
    epochs = max(1, round(seconds / 0.15))
    return {
        "mlp": Work("mlp", MLP, (str(max(1, round(seconds / 0.07))),)),
        "small": Work("small", SMALL, (str(max(1, round(seconds / 0.045))),)),
        "generator": Work("generator", GENERATOR, (str(max(1, round(seconds / 0.045))),)),
        "digits": Work("digits", digits, ("--epochs", str(epochs))),
    }


def sides(upstream: str | None, traceml: str | None) -> list[Side]:
    """Plain python, voir, and the peers that are there."""
    python = sys.executable
    found = [
        Side("python", (python,)),
        Side("python again", (python,)),
        Side("voir", (python, "-m", "voir", *ALL_ON), PROBES),
    ]
    if upstream:
        found.append(Side("voir 0.2.24", (upstream, "-m", "voir"), UPSTREAM))
    if traceml:
        command = existing(str(Path(traceml).with_name("traceml")))
        found.append(
            Side("TraceML", (command, "run", "--aggregator-port", free_port()), None, edited=True)
        )
    return found


def readers() -> list[Side]:
    """Voir by itself, with what shows or keeps more of a run, and viztracer."""
    voir = (sys.executable, "-m", "voir", "--quiet")
    traced = (*voir, "--trace", "--trace-level", "module")
    return [
        Side("voir, no options", voir),
        Side("voir --trace, modules", traced),
        Side("voir --dash", (*voir, "--dash"), terminal=True),
        Side("voir --stop 1000000", (*voir, "--stop", "1000000")),
        Side("viztracer", (sys.executable, "-m", "viztracer", "--quiet", "-o", "trace.json")),
    ]


def free_port() -> str:
    """A free port: a killed run leaves its aggregator behind."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return str(server.getsockname()[1])


def once(side: Side, work: Work, directory: Path) -> dict[str, float]:
    """One run: seconds of wall and of processor time a step."""
    script = work.wrapped() if side.edited else work.script
    (directory / "main.py").write_text(script)
    (directory / "voirfile.py").unlink(missing_ok=True)
    if side.voirfile is not None:
        (directory / "voirfile.py").write_text(side.voirfile)
    arguments = ("--args", *work.arguments) if side.edited else work.arguments
    with open(directory / "data", "w") as data, errors(side.terminal) as stderr:
        done = subprocess.run(
            [*side.command, "main.py", *arguments],
            cwd=directory,
            env=environment(data.fileno()),
            pass_fds=[data.fileno()],
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
        )
    told = [line for line in done.stdout.splitlines() if line.startswith('{"wall"')]
    if done.returncode or not told:
        raise SystemExit(f"{side.name}: {done.stdout}\n{done.stderr}")
    found: dict[str, float] = json.loads(told[-1])
    found.pop("used", None)
    return found


@contextmanager
def errors(terminal: bool) -> Iterator[int]:
    """Where stderr goes: into a pipe, or to a terminal of 120 columns and 40 rows."""
    if not terminal:
        yield subprocess.PIPE
        return
    master, slave = pty.openpty()
    termios.tcsetwinsize(slave, (40, 120))
    thread = threading.Thread(target=drain, args=(master,))
    thread.start()
    try:
        yield slave
    finally:
        os.close(slave)
        thread.join()
        os.close(master)


def drain(fd: int) -> None:
    """Read a terminal until it is closed."""
    with suppress(OSError):
        while os.read(fd, 65536):
            pass


def environment(data: int) -> dict[str, str]:
    """One thread for torch, and somewhere for events to go."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "VOIR"))}
    kept |= {"TERM": "xterm-256color", "CI": ""}
    return {**kept, "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "DATA_FD": str(data)}


Rounds = dict[str, list[dict[str, float]]]


def measure(found: list[Side], work: Work, rounds: int) -> Rounds:
    """What each side took in each round, after a run that is not counted."""
    taken: Rounds = {side.name: [] for side in found}
    with tempfile.TemporaryDirectory() as tmp:
        for number in range(rounds):
            runs: Rounds = {side.name: [] for side in found}
            for count, side in enumerate([*found, *reversed(found)]):
                directory = Path(tmp) / f"{number}-{count}"
                directory.mkdir()
                runs[side.name].append(once(side, work, directory))
            for name, both in runs.items():
                mean = {k: statistics.mean(run[k] for run in both) for k in both[0]}
                for key in {"quiet", "median"} & set(mean):
                    mean[key] = min(run[key] for run in both)
                taken[name].append(mean)
    return taken


def table(taken: Rounds) -> str:
    """The result as a Markdown table; the spread is that of the middle half of the rounds."""
    rows = [
        "| side | a step | more wall | rounds between | more processor | quiet | second least |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, rounds in taken.items():
        step = statistics.median(r["wall"] for r in rounds) * 1e3
        wall, low, high = spread(taken, name, "wall")
        cpu, _, _ = spread(taken, name, "cpu")
        row = f"| {name} | {step:.3f} ms | {wall:+.1%} | {low:+.1%} and {high:+.1%} | {cpu:+.1%} "
        for key, nth in (("quiet", 0), ("median", 1)):
            if key in rounds[0]:
                row += f"| {least(rounds, key, nth) / least(taken['python'], key, nth) - 1:+.1%} "
            else:
                row += "| "
        rows.append(row + "|")
    return "\n".join(rows)


def spread(taken: Rounds, name: str, key: str) -> tuple[float, float, float]:
    """Median and quartiles, over rounds, of what ``name`` took more than plain python."""
    pairs = zip(taken[name], taken["python"], strict=True)
    ratios = sorted(one[key] / plain[key] - 1 for one, plain in pairs)
    quarter = len(ratios) // 4
    return statistics.median(ratios), ratios[quarter], ratios[-1 - quarter]


def least(rounds: list[dict[str, float]], key: str, nth: int) -> float:
    """The run that was disturbed least (``nth`` 0), or the next, by one of its epochs."""
    return sorted(r[key] for r in rounds)[min(nth, len(rounds) - 1)]


def made(name: str) -> str:
    """The python of an environment with that peer in it; made when it is not there."""
    home = ROOT / f".venv-{name}"
    python = home / "bin" / "python"
    if not python.exists():
        subprocess.run([sys.executable, "-m", "venv", str(home)], check=True)
        ours = sysconfig.get_paths()["purelib"]
        theirs = home / Path(ours).relative_to(sys.prefix)
        # After its own packages come ours: torch is the same for all, and is not installed again.
        (theirs / "shared.pth").write_text(ours)
        subprocess.run([str(python), "-m", "pip", "install", "-q", PACKAGES[name]], check=True)
    return str(python)


def existing(name: str) -> str:
    """Where a program is, absolutely, for it is started from elsewhere; its link is not followed.

    A python that is a link finds its environment by where that lies.

    Raises:
        SystemExit: There is none.
    """
    path = os.path.abspath(name if os.path.isfile(name) else shutil.which(name) or name)
    if not os.path.isfile(path):
        raise SystemExit(f"there is no file {path}")
    return path


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=10, help="counted rounds (default: 10)")
    parser.add_argument("--seconds", type=float, default=4, help="of training (default: 4)")
    parser.add_argument("--work", choices=[*works(1)], action="append", help="one of them")
    parser.add_argument("--readers", action="store_true", help="voir with a trace, a dashboard")
    parser.add_argument("--peers", action="store_true", help="make environments for the peers")
    for name, package in PACKAGES.items():
        what = f"a python that has {package.replace('==', ' ')}"
        parser.add_argument(f"--{name}", metavar="PYTHON", type=existing, help=what)
    parser.add_argument(
        "--beside", metavar="NAME=PYTHON", action="append", help="a voir of another environment"
    )
    options = parser.parse_args()
    peers = {
        name: getattr(options, name) or (made(name) if options.peers else None) for name in PACKAGES
    }
    found = [*sides(**peers), *(readers() if options.readers else ())]
    for other in options.beside or ():
        name, _, python = other.partition("=")
        found.append(Side(name, (existing(python), "-m", "voir", "--quiet")))
    for name, work in works(options.seconds).items():
        if name in (options.work or (name,)):
            print(f"\n{name}, {options.rounds} rounds, Python {sys.version.split()[0]}:\n")
            print(table(measure(found, work, options.rounds)), flush=True)


if __name__ == "__main__":
    main()
