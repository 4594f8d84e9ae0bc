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

PROBE = """
    def instrument_probes(ov):
        yield ov.phases.load_script
        ov.probe("//train(batch) > #endloop_batch as step").give()
        ov.probe("//train > loss").give()
    """


@pytest.fixture
def place(tmp_path: Path) -> Place:
    place = Place(tmp_path)
    place.write("torch.py", TORCH)
    return place


def ran(place: Place, body: str) -> tuple[str, Path]:
    """What voir says of a script that ends by an error, and the run's directory."""
    place.write("main.py", body)
    done = place.voir("--no-auto", "--no-monitor", "--trace", "main.py")
    assert done.status == 1
    (run,) = place.runs
    return done.stderr, run


def test_a_device_that_is_full_leaves_a_memory_snapshot_and_the_trace(place: Place) -> None:
    said, run = ran(place, "import torch\nraise torch.OutOfMemoryError('20 GiB')\n")
    snapshot = run / "memory_snapshot.pickle"
    assert snapshot.read_bytes() == b"snapshot"
    assert f"what it held is in {snapshot} [out-of-memory]" in said
    assert place.record()["memory_snapshot"] == str(snapshot)
    assert [o.args["type"] for o in open_trace(run).instants() if o.label == "error"] == [
        "OutOfMemoryError"
    ]


def test_an_error_that_came_of_full_memory_counts_too(place: Place) -> None:
    said, run = ran(
        place,
        """
        try:
            raise MemoryError
        except MemoryError as error:
            raise ValueError("too much") from error
        """,
    )
    assert f"MemoryError: memory was full; the run up to there is in {run} [out-of-memory]" in said


def test_where_no_snapshot_can_be_made_the_run_is_named_all_the_same(place: Place) -> None:
    place.write("torch.py", "class OutOfMemoryError(RuntimeError): pass\n")
    said, run = ran(place, "import torch\nraise torch.OutOfMemoryError('20 GiB')\n")
    assert f"is in {run}, without a memory snapshot (AttributeError: " in said
    assert "memory_snapshot" not in place.record()


def test_other_errors_are_none_of_this(place: Place) -> None:
    said, _ = ran(place, "import torch\nraise ValueError('no')\n")
    assert "out-of-memory" not in said


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="it takes /proc to set the limit")
def test_a_limit_on_memory_that_is_reached_leaves_the_whole_record(tmp_path: Path) -> None:
    """Hardly anything can be mapped any more: no library, and no stack for a thread."""
    place = Place(tmp_path)
    place.write("voirfile.py", PROBE)
    place.write(
        "main.py",
        """
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
        """,
    )
    done = place.voir("--no-auto", "--no-monitor", "main.py")
    assert done.status == 1
    assert "memory was full; the run up to there is in" in done.stderr
    assert "ERROR" not in done.stderr
    assert "ignored" not in done.stderr
    assert "failed" not in done.stderr
    assert "30 steps · 120 items" in done.stderr
    run = place.record()
    assert run["exit_status"] == 1
    assert run["tasks"]["train"]["steps"] == 30
    assert {"ended", "seconds", "provenance", "problems"} <= set(run)
    assert sum("loss" in event for event in place.metrics()) == 30
