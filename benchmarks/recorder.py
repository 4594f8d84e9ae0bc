"""Measure the recorder: single events, and a voirfile's probes in a training step.

    python benchmarks/recorder.py [--events N] [--epochs N]

First, each kind of event in an otherwise empty loop, in C and in Python: nanoseconds beyond the
bare loop, the fastest of seven runs. Then a training step of a small network (a DataLoader, one
thread) with the probes on loss and step that ``voir init`` writes, recorded without any reader.
Epochs with and without probes alternate in one process; the result is the ratio of the medians
and of the means of their times.
"""

from __future__ import annotations

import argparse
import importlib
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

TRAINING = """
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
torch.set_num_threads(1)
layers = [nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10)]
model = nn.Sequential(*layers)
criterion = nn.CrossEntropyLoss()
optimizer = torch.optim.SGD(model.parameters(), 0.05, momentum=0.9)
data = TensorDataset(torch.randn(3200, 64), torch.randint(10, (3200,)))
loader = DataLoader(data, batch_size=32, shuffle=True)


def train_epoch():
    for inp, target in loader:
        loss = criterion(model(inp), target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
"""


def best(body: Callable[..., object], *args: object, n: int) -> float:
    """Nanoseconds of one call, more than a loop without it."""

    def took(call: bool) -> int:
        since = time.perf_counter_ns()
        if call and args:
            (arg,) = args  # As inserted code calls it.
            for _ in range(n):
                body(arg)
        elif call:
            for _ in range(n):
                body()
        else:
            for _ in range(n):
                pass
        return time.perf_counter_ns() - since

    return (min(took(True) for _ in range(7)) - min(took(False) for _ in range(7))) / n


def events(name: str, n: int) -> dict[str, float]:
    """Each kind of event on one of the recorders."""
    from overseer.recorder import sites as k

    recorder: Any = importlib.import_module(f"overseer.recorder.{name}")
    recorder.open(1 << 16, 1 << 17)

    def site(**options: Any) -> Any:
        return recorder.Site(1, k.VALUE, ring=k.VALUES, **options)

    silent, value, mark, length = (site(keys=("x",)) for _ in range(4))
    value.record(1, k.VALUE, k.VALUES, 0, k.NUMBER)
    mark.record(1, k.STEP, k.STRUCTURE, -1, k.NOTHING)
    length.record(1, k.STEP, k.STRUCTURE, 0, k.LENGTH)
    heard = site(keys=("x",))
    heard.record(1, k.VALUE, k.VALUES, 0, k.NUMBER)
    heard.bus, heard.hand = (lambda event: None), -1
    begin = site(keys=("a",), role=k.BEGINS, pair=1, name="a")
    end = site(keys=("b",), role=k.ENDS, pair=1, name="a")
    end.record(1, k.PAIR, k.STRUCTURE, -1, k.NOTHING)
    plain = best(abs, 1, n=n)
    span = recorder.span(1, k.SAVE, abs)
    batch = [1, 2, 3]
    begins = best(lambda: (begin.event(True), end.event(True)), n=n)
    made = {
        "an idle site, without subscribers": best(silent.event, 0.5, n=n),
        "a value": best(value.event, 0.5, n=n),
        "a mark": best(mark.event, True, n=n),
        "a batch's length": best(length.event, batch, n=n),
        "a value, and a Python subscriber": best(heard.event, 0.5, n=n),
        "a pair, with the lambda around it": begins,
        "a span around abs(), more than abs()": best(span, 1, n=n) - plain,
    }
    recorder.close()
    return made


def steps(epochs: int) -> str:
    """Training with probes and without, in turns."""
    import ast
    from types import ModuleType

    import torch

    from overseer.engine.bus import Bus
    from overseer.engine.probe import Probe
    from overseer.probes import Engine
    from overseer.recorder import recorder
    from overseer.recorder.values import values

    recorder.open(1 << 16, 1 << 17)
    values.know(torch)
    engine, bus = Engine(print), Bus(print, records=True)
    for selector in ("//train_epoch > loss", "//train_epoch(inp as batch) > #endloop_inp as step"):
        Probe(engine.probe(selector), bus, print).give()
    made = []
    for probed in (False, True):
        main = ModuleType("__main__")
        before, sys.modules["__main__"] = sys.modules["__main__"], main
        tree = ast.parse(TRAINING, "training.py")
        if probed:
            tree = engine.instrument(tree, "__main__", "training.py")
        exec(compile(tree, "training.py", "exec"), main.__dict__)
        sys.modules["__main__"] = before
        made.append(main.train_epoch)
    took: tuple[list[float], list[float]] = ([], [])
    for epoch in range(-4, epochs):
        for which in (0, 1) if epoch % 2 else (1, 0):
            since = time.perf_counter()
            made[which]()
            if epoch >= 0:
                took[which].append((time.perf_counter() - since) / 100)
    fired = {p.selector: p.fired for p in engine._probes}
    medians, means = map(statistics.median, took), map(statistics.fmean, took)
    (plain, probed_), (mean, probed_mean) = medians, means
    return (
        f"a step takes {plain * 1e3:.3f} ms; with two probes {100 * (probed_ / plain - 1):+.2f} %"
        f" (means {100 * (probed_mean / mean - 1):+.2f} %); events: {sum(fired.values())}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])  # type: ignore[union-attr]
    parser.add_argument("--events", type=int, default=300_000)
    parser.add_argument("--epochs", type=int, default=150)
    parser.add_argument("--only", choices=("_recorder", "fallback", "steps"), help="one part")
    asked = parser.parse_args()
    if asked.only == "steps":
        print(steps(asked.epochs))
    elif asked.only:
        for name, ns in events(asked.only, asked.events).items():
            print(f"{ns:8.0f} ns  {name}")
    else:
        for part in ("_recorder", "fallback", "steps"):
            options = ["--events", str(asked.events), "--epochs", str(asked.epochs)]
            print(part, flush=True)
            command = [sys.executable, os.path.abspath(__file__), "--only", part, *options]
            subprocess.run(command, check=True)


if __name__ == "__main__":
    main()
