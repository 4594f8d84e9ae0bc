"""``--tensorboard``: what lands in the directory, and what is said when nothing can."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.running import Place

SCRIPT = "from voir import give\nfor n in range(3):\n    give(loss=1 / (n + 1))\n"


@pytest.fixture
def place(tmp_path: Path) -> Place:
    place = Place(tmp_path)
    place.write("main.py", SCRIPT)
    return place


def test_curves_and_trace_land_where_tensorboard_looks(place: Place) -> None:
    done = place.voir("--quiet", "--tensorboard", "logs", "--run-dir", "runs/one", "main.py")
    assert (done.status, done.stderr) == (0, "")
    curves, trace = sorted((place.path / "logs/one").iterdir())
    assert curves.name.startswith("events.out.tfevents.")
    assert curves.read_bytes().count(b"train/loss") == 3
    assert trace.name.endswith(".pt.trace.json")
    assert (place.path / "runs/one/trace.pftrace").exists()


@pytest.mark.parametrize(("asked", "limit"), [((), "4"), (("--trace-max-mb", "9"), "9.0")])
def test_a_trace_for_tensorboard_alone_is_small(
    asked: tuple[str, ...], limit: str, place: Place
) -> None:
    shows = "def instrument_limit(ov):\n    yield ov.phases.load_script\n"
    place.write("voirfile.py", shows + "    print(ov.options.trace_max_mb)\n")
    done = place.voir("--quiet", "--tensorboard", "logs", *asked, "main.py")
    assert (done.status, done.stdout) == (0, f"{limit}\n")


def test_a_trace_that_was_declined_is_not_made(place: Place) -> None:
    env = {"VOIR_TENSORBOARD": "logs", "VOIR_TRACE": "0", "RANK": "1", "WORLD_SIZE": "2"}
    assert place.voir("--quiet", "--run-dir", "run", "main.py", env=env).status == 0
    (curves,) = (place.path / "logs/run/rank1").iterdir()
    assert curves.name.startswith("events.out.tfevents.")


def test_where_it_cannot_be_it_says_so_and_the_run_is_as_it_was(place: Place) -> None:
    done = place.voir("--no-record", "--tensorboard", "logs", "main.py")
    assert done.status == 0
    assert "[tensorboard-nothing]" in done.stderr
    place.write("file", "")
    done = place.voir("--quiet", "--tensorboard", "file", "main.py")
    assert done.status == 0
    assert "[export-unwritable]" in done.stderr
    assert len(place.metrics()) > 3
