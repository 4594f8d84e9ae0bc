"""Boards of imagined runs, made from what a run leaves behind: steps, events, figures."""

from __future__ import annotations

import math
from types import SimpleNamespace

from overseer.views.dash.board import Board

GIB = 1024.0**3
START = 100.0


def step(number, at, loss=math.nan, task="train", late=(), seconds=0.025):
    """A step as the fold has it, as far as the dashboard looks."""
    return SimpleNamespace(
        number=number, task=task, start=round((at - seconds) * 1e9), end=round(at * 1e9),
        backwards=1, loss=loss, late=list(late),
    )  # fmt: skip


def facts(steps, losses=(2.303, 0.05212, 0.03369), **more):
    """One task's part of ``run.json``."""
    first, last, low = losses
    return {
        "steps": steps,
        "items": 32 * steps,
        "loss": {"first": first, "last": last, "min": low},
        "rate": {"wall": 1190.0, "steady": 1264.2},
        "step_seconds": {"median": 0.025},
        "breakdown": {
            "loading": 18.3, "forward": 20.8, "backward": 31.5, "optimizer": 9.1, "other": 3.3,
        },
        **more,
    }  # fmt: skip


def machine(board, at, gpus=1):
    """What the monitors give, once."""
    wave = math.sin(at / 7)
    load, cores = 50 + 40 * wave, [round(50 + 45 * math.sin(at / 7 + n)) for n in range(16)]
    board.hear({"cpudata": {"load": load, "memory": [12.1 * GIB, 32 * GIB], "cores": cores}})
    board.hear({"process": {"load": 31.0, "memory": [2.1 * GIB, 32 * GIB]}})
    board.hear({"iodata": {"read_bytes": 48.2e6 * at, "write_bytes": 3e5 * at}})
    board.hear({"netdata": {"lo": {"bytes_recv": 1e5 * at, "bytes_sent": 1e3 * at}}})
    if gpus:
        each = {"power": 231.0, "temperature": 64, "name": "H100"}
        devices = {
            gpu: {"load": 0.95 - gpu / 20, "memory": [24200 + 500 * gpu, 40960], **each}
            for gpu in reversed(range(gpus))
        }
        board.hear({"gpudata": devices})


def training(seconds=83, gpus=1, keys=0, odd=False, tasks=1):
    """A run of that many seconds at 40 steps a second, 62 % done."""
    now = [START]
    board = Board("main.py", START, clock=lambda: now[0])
    known = {"train": facts(40 * seconds)}
    for second in range(1, seconds + 1):
        now[0] = at = START + 3 + second
        part = second / seconds
        losses = [
            2.2 * math.exp(-9 * part) + 0.08 + 0.03 * math.sin(n * 1.7) * math.sin(n * 0.31)
            for n in range(40 * second, 40 * second + 40)
        ]
        if odd and 0.5 < part < 0.52:
            losses[0] = math.inf
        board.take([step(n, at - 1 + n / 40, loss) for n, loss in enumerate(losses)])
        rate = (1230 + 60 * math.sin(second / 3)) * (0.6 if 0.55 < part < 0.6 else 1)
        board.hear({"task": "train", "rate": rate, "units": "items/s"})
        board.hear({"task": "train", "progress": (second * 37 // seconds, 60), "units": "epochs"})
        machine(board, at, gpus)
        for task in range(1, tasks):
            board.hear({"task": f"eval{task}", "rate": 9000.0 + second, "units": "items/s"})
            known[f"eval{task}"] = {"steps": 500, "items": 16000, "rate": {"wall": 9001.0}}
        board.read(at, dict)
    board.keep({"acc": 0.9761, "lr": 0.001, "epoch": 12, "use_cuda": True, "model": object()})
    board.keep({"task": "validation", "accuracy": 0.97})
    board.keep({f"layer{n}.grad_norm": n / 7 for n in range(keys)})
    if odd:
        known["train"]["loss"] = {"first": 2.303, "last": math.nan, "min": 0.05, "not_finite": 41}
    board.read(START + 3.5 + seconds, lambda: known, last=True)
    return board


def beginning():
    """A run of which only the machine is known."""
    board = Board("main.py", START)
    machine(board, START, gpus=0)
    board.read(START + 2.4, dict)
    return board


BOARDS = {
    "training": training(),
    "beginning": beginning(),
    "empty": Board("main.py", START),
    "odd": training(odd=True),
    "eight-gpus": training(gpus=8),
    "many-keys": training(keys=1000),
    "tasks": training(tasks=4, gpus=0),
}
