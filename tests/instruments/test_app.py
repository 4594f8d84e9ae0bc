"""The user's own data with a run: from a file, a voirfile, the script."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from overseer.views.summary import render
from tests.running import Place

FILE = {"dataset": "digits", "sizes": [8, 8], "revision": 1}
VOIRFILE = """
def instrument_own(ov):
    yield ov.phases.load_script
    ov.app({"revision": 2}, weights=float("nan"))
"""
SCRIPT = """
import voir
voir.app(seed=3)
voir.app([1, 2])
voir.give(loss=1)
print("done")
"""
KILLED = """
import glob, os, signal, time, voir
voir.give(loss=1)
while not glob.glob("voir-runs/*/run.json"):
    time.sleep(0.01)
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture
def place(tmp_path: Path) -> Place:
    place = Place(tmp_path)
    place.write("app.json", json.dumps(FILE))
    return place


def test_it_is_echoed_in_the_record_and_in_the_summary_and_the_last_value_stands(
    place: Place,
) -> None:
    place.write("main.py", SCRIPT)
    assert place.python("main.py").seen == (0, "done\n")
    place.write("voirfile.py", VOIRFILE)
    done = place.voir("--app", "app.json", "main.py")
    assert done.seen == (0, "done\n")
    assert place.record()["app"] == {**FILE, "revision": 2, "weights": "NaN", "seed": 3}
    assert "app       dataset digits · sizes [8, 8] · revision 2 · weights NaN" in done.stderr
    assert "app: it was given [1, 2], which is not a mapping [app-object]" in done.stderr


def test_a_file_nobody_named_is_not_taken(place: Place) -> None:
    place.write("main.py", "import voir\nvoir.give(loss=1)\n")
    assert place.voir("--quiet", "main.py").status == 0
    assert "app" not in place.record()


def test_a_killed_run_has_what_was_known_when_it_began(place: Place) -> None:
    place.write("main.py", KILLED)
    assert place.voir("--app", "app.json", "main.py").status == -9
    assert place.record()["app"] == FILE


@pytest.mark.parametrize("text", ["[1]", "{", "\ud800", None])
def test_a_file_that_holds_no_object_is_refused_before_the_script_runs(
    place: Place, text: str | None
) -> None:
    place.write("main.py", "print('it ran')\n")
    if text is not None:
        (place.path / "bad.json").write_bytes(text.encode("utf-8", "surrogatepass"))
    done = place.voir("--app", "bad.json", "main.py")
    assert (done.seen, done.stderr.count("[app-file]")) == ((2, ""), 1)


def test_whatever_it_is_the_summary_stays_a_summary() -> None:
    for own, shown in (
        ({"k": "a\x1b[31m\nb" + "c" * 50}, "k a[31m b" + "c" * 32 + "…"),
        ({f"k{n}": n for n in range(11)}, "k7 7 · 3 more in run.json"),
    ):
        assert shown in render({"app": own}, 200)
    assert "app" not in render({"app": "text"}, 200) + render({"app": {}}, 200)
