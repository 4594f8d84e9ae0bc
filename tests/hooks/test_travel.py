"""Functions that are pickled by value run elsewhere, as the script has them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.running import Place

SCRIPT = """
from __future__ import annotations
import subprocess, sys
import cloudpickle

class Learner:
    done = 0
    def step(self):
        self.done += 1

def outer(by):
    def train(n: int):
        learner = Learner()
        for i in range(n):
            loss = by * i
            learner.step()
        return learner.done, loss
    return train

open(__file__, "w").close()  # Edited while it runs.
READ = "import sys, pickle; print(pickle.load(sys.stdin.buffer)(5))"
for function in (outer(3), lambda n: outer(2)(n)):
    print(function(5), flush=True)
    data = cloudpickle.dumps(function)
    subprocess.run([sys.executable, "-c", READ], input=data, check=True)
"""


@pytest.mark.parametrize("probed", [[], ["//outer/train > loss", "//outer/train > #exit as left"]])
def test_a_function_that_is_sent_to_another_process_runs_there(
    tmp_path: Path, probed: list[str]
) -> None:
    place = Place(tmp_path)
    place.write("main.py", SCRIPT)
    place.probes(probed)
    ran = place.voir("--no-record", "main.py")
    assert (ran.status, ran.stdout.split("\n")) == (0, ["(5, 12)"] * 2 + ["(5, 8)"] * 2 + [""])
