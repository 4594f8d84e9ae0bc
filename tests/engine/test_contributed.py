"""Instruments that installed distributions contribute."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

import pytest

from overseer.engine.voirfile import contributed
from overseer.errors import Problem


class Installed:
    """A directory of installed distributions."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.problems: list[Problem] = []

    def add(self, name: str, points: str, kind: str = "dist-info") -> None:
        """Install a distribution with these lines in its entry_points.txt."""
        info = self.path / f"{name}-1.0.{kind}"
        info.mkdir()
        metadata = "METADATA" if kind == "dist-info" else "PKG-INFO"
        (info / metadata).write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(points)

    def names(self) -> list[str]:
        """What the instruments that were found are called."""
        return [one.__name__ for one in contributed(self.problems.append)]

    @property
    def problem(self) -> Problem:
        (only,) = self.problems
        return only


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Installed:
    monkeypatch.setattr(sys, "path", [str(tmp_path / "nowhere"), str(tmp_path), *sys.path])
    module = tmp_path / "contributing.py"
    module.write_text(
        "def instrument_a(ov): ...\n"
        "def instrument_b(ov): ...\n"
        "both = {'a': instrument_a, 'b': [instrument_b]}\n"
        "number = 3\n"
    )
    (tmp_path / "exiting.py").write_text("import sys\nsys.exit(7)\n")
    importlib.invalidate_caches()
    monkeypatch.delitem(sys.modules, "contributing", raising=False)
    return Installed(tmp_path)


def test_where_nobody_contributes_nothing_is_imported(installed: Installed) -> None:
    installed.add("other", "[console_scripts]\nx = contributing:instrument_a\n")
    assert installed.names() == []
    assert "contributing" not in sys.modules


@pytest.mark.parametrize("kind", ["dist-info", "egg-info"])
def test_an_entry_point_is_an_instrument(installed: Installed, kind: str) -> None:
    installed.add("one", "[voir.instrument]\na = contributing:instrument_a\n", kind)
    assert installed.names() == ["instrument_a"]
    assert installed.problems == []


def test_it_may_be_several_instruments(installed: Installed) -> None:
    installed.add("one", "[voir.instrument]\nboth = contributing:both\n")
    assert installed.names() == ["instrument_a", "instrument_b"]


def test_one_that_is_broken_is_reported_and_the_others_are_loaded(installed: Installed) -> None:
    installed.add("good", "[voir.instrument]\nb = contributing:instrument_b\n")
    installed.add("bad", "[voir.instrument]\nbad = contributing:nowhere\n")
    assert installed.names() == ["instrument_b"]
    assert (installed.problem.slug, installed.problem.who) == ("entry-point", "entry point bad")
    assert installed.problem.what.startswith("contributing:nowhere failed to load: AttributeError")


def test_one_whose_module_exits_is_reported(installed: Installed) -> None:
    installed.add("bad", "[voir.instrument]\nbad = exiting:x\n")
    assert installed.names() == []
    assert "SystemExit: 7" in installed.problem.what
    assert installed.problem.where == f"{installed.path}/exiting.py:2"


def test_one_that_is_no_instrument_is_reported(installed: Installed) -> None:
    installed.add("bad", "[voir.instrument]\nbad = contributing:number\n")
    assert installed.names() == []
    assert installed.problem.slug == "not-an-instrument"
    assert installed.problem.what.startswith("contributing:number is 3")
