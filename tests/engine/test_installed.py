"""Another distribution that has the package voir is named before it does harm."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.running import Place


@pytest.fixture
def place(tmp_path: Path) -> Place:
    place = Place(tmp_path)
    place.write("main.py", "print('ran')\n")
    return place


def test_another_voir_beside_ours_is_warned_of(place: Place) -> None:
    place.write("site/voir-0.2.24.dist-info/METADATA", "Name: voir\n")
    done = place.voir("--quiet", "main.py", env={"PYTHONPATH": str(place.path / "site")})
    assert done.seen == (0, "ran\n")
    assert "voir 0.2.24 is installed too" in done.stderr
    assert "pip uninstall voir" in done.stderr
    assert done.stderr.count("[two-voirs]") == 1


def test_another_voir_in_the_place_of_ours_is_refused(place: Place) -> None:
    site = place.path / "site-packages"
    place.write("site-packages/voir-0.2.24.dist-info/METADATA", "Name: voir\n")
    place.write("site-packages/voir/__init__.py", "from .helpers import give\n")
    done = place.python("-m", "overseer", "main.py", env={"PYTHONPATH": str(site)})
    assert done.seen == (2, "")
    assert "[two-voirs]" in done.stderr
    assert "pip uninstall voir" in done.stderr


@pytest.mark.parametrize("name", ["voir_overseer-0.1.0", "voirlike-1.0", "voir-tools-1.0"])
def test_other_distributions_are_nobodys_concern(place: Place, name: str) -> None:
    place.write(f"site/{name}.dist-info/METADATA", "Name: x\n")
    done = place.voir("--quiet", "main.py", env={"PYTHONPATH": str(place.path / "site")})
    assert (done.seen, done.stderr) == ((0, "ran\n"), "")
