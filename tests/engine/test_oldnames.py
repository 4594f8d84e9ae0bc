"""Voirfiles that import from old Milabench, without Milabench."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.running import Place


@pytest.fixture
def place(tmp_path: Path) -> Place:
    place = Place(tmp_path)
    place.write(
        "main.py", "import sys\nprint(sorted(m for m in sys.modules if 'milabench' in m))\n"
    )
    return place


def test_its_one_instrument_is_voirs_and_no_module_of_its_name_stays(place: Place) -> None:
    place.write(
        "voirfile.py",
        """
        from milabench.opt import instrument_argparse

        def instrument_show(ov):
            yield ov.phases.init
            ov.given["?options"].print("{}")
        """,
    )
    place.write(
        "main.py",
        """
        import argparse, sys
        parser = argparse.ArgumentParser()
        parser.add_argument("--lr", type=float)
        parser.parse_args()
        print("milabench" in sys.modules)
        """,
    )
    done = place.voir("--quiet", "--no-record", "main.py", "--lr", "0.5")
    assert (done.seen, done.stderr) == ((0, "Namespace(lr=0.5)\nFalse\n"), "")


def test_a_milabench_that_is_installed_goes_first(place: Place) -> None:
    place.write("milabench/__init__.py", "")
    place.write("milabench/opt.py", "def instrument_argparse(ov):\n    print('its own')\n")
    place.write("voirfile.py", "from milabench.opt import instrument_argparse\n")
    done = place.voir("--quiet", "--no-record", "main.py")
    assert done.stdout.startswith("its own\n")


@pytest.mark.parametrize(
    "line",
    [
        "from milabench.opt import instrument_other",
        "from milabench.bench import voirfile_monitor",
        "import milabench.common",
    ],
)
def test_anything_else_of_it_says_what_to_import(place: Place, line: str) -> None:
    place.write("voirfile.py", line)
    done = place.voir("--quiet", "--no-record", "main.py")
    assert done.seen == (0, "[]\n")
    assert "from voir.instruments import instrument_argparse" in done.stderr
