"""``voir doctor`` without a run says how voir is installed, and how to have the recorder in C."""

from __future__ import annotations

import json
import re
import sys
import sysconfig
from importlib.metadata import PathDistribution
from pathlib import Path
from typing import Any

import pytest

from overseer.cli import installation
from overseer.cli.doctor import doctor
from overseer.version import version
from tests.running import Place

PIP = "pip install --force-reinstall --no-cache-dir --no-deps"


def lines(text: str) -> dict[str, tuple[str, str]]:
    """State and text of each finding, by what it is about."""
    found = re.findall(r"^(ok|note|bad) +(\S+) +(.*)$", text, re.MULTILINE)
    return {what: (state, said) for state, what, said in found}


@pytest.fixture
def origin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file that says where pip has installed voir from; it is not there."""
    monkeypatch.delenv("VOIR_RECORDER", raising=False)
    left = PathDistribution(tmp_path / "voir_overseer.egg-info")
    found = [left, PathDistribution(tmp_path)]
    monkeypatch.setattr(installation, "distributions", lambda name: found)
    return tmp_path / "direct_url.json"


def test_it_names_versions_recorder_and_shared_memory(tmp_path: Path) -> None:
    done = Place(tmp_path).voir("doctor")
    assert (done.status, done.stderr) == (0, "")
    found = lines(done.stdout)
    assert list(found) == ["voir", "python", "packages", "recorder", "/dev/shm"]
    assert found["voir"][1].startswith(f"{version} in /")
    assert found["python"][1].startswith(sys.version.split()[0])
    assert re.match(r"ptera \S+, giving \S+, rich \S+, psutil \d", found["packages"][1])
    assert not list(tmp_path.iterdir())


def test_a_fallback_that_was_asked_for_is_told(tmp_path: Path) -> None:
    done = Place(tmp_path).voir("doctor", env={"VOIR_RECORDER": "python"})
    assert done.status == 0
    said = "in Python, which is slower: VOIR_RECORDER=python"
    assert lines(done.stdout)["recorder"] == ("note", said)
    assert "Unset VOIR_RECORDER." in done.stdout


def test_the_recorder_in_c_needs_no_remedy() -> None:
    assert installation.recorder_in_use("C", "") == ("ok", "recorder", "in C", "")


def remedy() -> str:
    """What to do when there is no extension."""
    return installation.recorder_in_use("Python", "it is not there").remedy


def test_where_the_extension_is_missing_the_line_that_rebuilds_it_is_shown(origin: Path) -> None:
    assert remedy() == f"With a C compiler and Python's headers: {PIP} voir-overseer"
    for written in ("", "{", '{"url": "https://example.org/voir.whl", "archive_info": {}}'):
        origin.write_text(written)
        assert remedy().endswith(f"{PIP} voir-overseer")


@pytest.mark.parametrize("info, option", [({"editable": True}, "-e "), ({}, "")])
def test_what_was_installed_from_a_checkout_is_rebuilt_from_it(
    origin: Path, info: dict[str, Any], option: str
) -> None:
    origin.write_text(json.dumps({"url": "file:///some%20where/voir", "dir_info": info}))
    assert remedy().endswith(f"{PIP} {option}'/some where/voir'")


def test_a_free_threaded_python_has_no_other_recorder(
    origin: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sysconfig, "get_config_var", lambda name: 1)
    assert "interpreter lock" in remedy()


def test_a_missing_package_is_bad(monkeypatch: pytest.MonkeyPatch) -> None:
    there = {"giving": "0.4.3", "rich": "15.0.0", "torch": "2.13.0"}
    monkeypatch.setattr(installation, "installed", lambda paths: there)
    text, status = doctor([])
    assert status == 1
    assert lines(text)["packages"] == ("bad", "ptera, psutil: not installed")
    assert "pip install ptera psutil\n" in text


def test_shared_memory_that_cannot_be_used_is_told(tmp_path: Path) -> None:
    assert installation.shared_memory(str(tmp_path)).state == "ok"
    assert not list(tmp_path.iterdir())
    said = "cannot be used: No such file or directory"
    assert installation.shared_memory(str(tmp_path / "none"))[:1] == ("note",)
    assert installation.shared_memory(str(tmp_path / "none")).said == said


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_shared_memory_that_is_full_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    full = Path("/dev/full")
    monkeypatch.setattr(installation, "TemporaryFile", lambda dir: full.open("wb"))
    finding = installation.shared_memory("/dev/shm")
    assert (finding.state, finding.said) == ("note", "cannot be used: No space left on device")
    assert "run's directory" in finding.remedy
