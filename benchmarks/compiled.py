"""Measure voir's cost for code that ``torch.compile`` compiles: 200 calls, alternating with python.

    python benchmarks/compiled.py [--rounds N] [--backend NAME]

The functions are flex_attention and a model of three layers, each compiled whole. The table shows
the time of 200 calls after compilation relative to python's in the same round: median and
quartiles of the rounds. The second python shows the noise of such a ratio. Torch has one thread
on every side.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

SCRIPT = """
import sys, time
import torch
from torch import nn
from torch.nn.attention.flex_attention import flex_attention

torch.set_num_threads(1)
backend = sys.argv[1]
q = torch.randn(1, 4, 64, 32)
attention = torch.compile(lambda q: flex_attention(q, q, q), backend=backend, fullgraph=True)
layers = [nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 1)]
model = nn.Sequential(*layers)
mlp = torch.compile(model, backend=backend, fullgraph=True)
for function, x in ((attention, q), (mlp, torch.randn(32, 64))):
    taken = []
    with torch.no_grad():
        for _ in range(20):
            function(x)
        for _ in range(200):
            begun = time.perf_counter()
            function(x)
            taken.append(time.perf_counter() - begun)
    print(sum(taken), sorted(taken)[100] * 200)
"""
VOIR = ["-m", "voir", "--quiet", "--no-record", "--no-voirfile"]
SIDES = {"python": [], "python again": [], "voir": VOIR}


def once(side: str, script: Path, backend: str) -> list[list[float]]:
    """Of each function: seconds of all calls, and of as many calls of the median."""
    command = [sys.executable, *SIDES[side], str(script), backend]
    ran = subprocess.run(command, check=True, capture_output=True, text=True, cwd=script.parent)
    return [[float(word) for word in line.split()] for line in ran.stdout.splitlines()]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=10, help="how often (default: 10)")
    parser.add_argument("--backend", default="eager", help="of torch.compile (default: eager)")
    options = parser.parse_args()
    taken: dict[str, list[list[list[float]]]] = {side: [] for side in SIDES}
    with tempfile.TemporaryDirectory() as directory:
        script = Path(directory) / "main.py"
        script.write_text(SCRIPT)
        for _ in range(max(options.rounds, 2)):
            for side in SIDES:
                taken[side].append(once(side, script, options.backend))
    print(f"200 calls, {options.rounds} rounds, backend {options.backend}:\n")
    print("| what | side | ms | over python | quartiles | median call |\n|---|---|---|---|---|---|")
    for at, what in enumerate(("flex_attention", "three layers")):
        for side, rounds in taken.items():
            pairs = [
                [one[at][key] / plain[at][key] - 1 for key in (0, 1)]
                for one, plain in zip(rounds, taken["python"], strict=True)
            ]
            q1, median, q3 = statistics.quantiles([pair[0] for pair in pairs], n=4)
            ms = statistics.median(one[at][0] for one in rounds) * 1e3
            call = statistics.median(pair[1] for pair in pairs)
            between = f"{q1:+.1%} to {q3:+.1%}"
            print(f"| {what} | {side} | {ms:.1f} | {median:+.1%} | {between} | {call:+.1%} |")


if __name__ == "__main__":
    main()
