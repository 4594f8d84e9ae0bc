"""A run that ends for want of memory leaves what its memory held."""

from __future__ import annotations

from pathlib import Path

import pytest

from overseer.trace import open_trace
from tests.running import Place

#: As much of PyTorch as is asked for here: there may be no GPU to fill.
TORCH = """
class OutOfMemoryError(RuntimeError):
    pass

class cuda:
    is_available = is_initialized = staticmethod(lambda: False)

    class memory:
        @staticmethod
        def _dump_snapshot(path):
            with open(path, "wb") as file:
                file.write(b"snapshot")
"""
CAUSED = """
try:
    raise MemoryError
except MemoryError as error:
    raise ValueError("too much") from error
"""
FULL = "import torch\nraise torch.OutOfMemoryError('20 GiB')\n"
#: What there is of PyTorch, a script that ends by an error, and what is said of RUN's directory.
ENDS = {
    "an error that came of full memory": (
        TORCH, CAUSED,
        "MemoryError: memory was full; the run up to there is in RUN [out-of-memory]",
    ),
    "no snapshot can be made": (
        "class OutOfMemoryError(RuntimeError): pass\n", FULL,
        "is in RUN, without a memory snapshot (AttributeError: ",
    ),
    "another error": (TORCH, "import torch\nraise ValueError('no')\n", None),
}  # fmt: skip
OPTIONS = ("--no-auto", "--no-monitor")


def test_a_device_that_is_full_leaves_a_memory_snapshot_and_the_trace(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.write("torch.py", TORCH)
    place.write("main.py", FULL)
    done = place.voir(*OPTIONS, "--trace", "main.py")
    (run,) = place.runs
    snapshot = run / "memory_snapshot.pickle"
    assert (done.status, snapshot.read_bytes()) == (1, b"snapshot")
    assert f"what it held is in {snapshot} [out-of-memory]" in done.stderr
    assert place.record()["memory_snapshot"] == str(snapshot)
    errors = [o.args["type"] for o in open_trace(run).instants() if o.label == "error"]
    assert errors == ["OutOfMemoryError"]


@pytest.mark.parametrize("case", ENDS)
def test_a_run_is_named_where_memory_was_full(tmp_path: Path, case: str) -> None:
    torch, script, said = ENDS[case]
    place = Place(tmp_path)
    place.write("torch.py", torch)
    place.write("main.py", script)
    done = place.voir(*OPTIONS, "--trace", "main.py")
    assert (done.status, "memory_snapshot" in place.record()) == (1, False)
    if said is None:
        assert "out-of-memory" not in done.stderr
    else:
        assert said.replace("RUN", str(place.runs[0])) in done.stderr


FILLS = """
import resource, time

def train(loader):
    for batch in loader:
        loss = 1.0
        time.sleep(0.001)  # voir's own threads begin.

train([[1] * 4] * 30)
with open("/proc/self/statm") as file:
    mapped = int(file.read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (mapped + 2**22, mapped + 2**22))
bytearray(2**34)
"""


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="it takes /proc to set the limit")
def test_a_limit_on_memory_that_is_reached_leaves_the_whole_record(tmp_path: Path) -> None:
    """Hardly anything can be mapped any more: no library, and no stack for a thread."""
    place = Place(tmp_path)
    place.probes(["//train(batch) > #endloop_batch as step", "//train > loss"])
    place.write("main.py", FILLS)
    done = place.voir(*OPTIONS, "main.py")
    assert "memory was full; the run up to there is in" in done.stderr
    assert "30 steps · 120 items" in done.stderr
    assert not [word for word in ("ERROR", "ignored", "failed") if word in done.stderr]
    run = place.record()
    assert (done.status, run["exit_status"], run["tasks"]["train"]["steps"]) == (1, 1, 30)
    assert {"ended", "seconds", "provenance", "problems"} <= set(run)
    assert sum("loss" in event for event in place.metrics()) == 30
