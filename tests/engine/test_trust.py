"""A file that somebody else could have written is not run."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from overseer.engine.voirfile import distrust

NOBODY = 65534
ROOT = hasattr(os, "geteuid") and os.geteuid() == 0
only_root = pytest.mark.skipif(not ROOT, reason="only root can give files away")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    home = tmp_path / "home"
    home.mkdir(mode=0o755)
    file = home / "voirfile.py"
    file.write_text("")
    file.chmod(0o644)
    return file


def test_one_s_own_file_in_one_s_own_directory_is_trusted(file: Path) -> None:
    assert distrust(str(file)) is None


def test_a_group_may_write(file: Path) -> None:
    file.chmod(0o664)  # As every file is where each user has a group of their own.
    file.parent.chmod(0o775)
    assert distrust(str(file)) is None


def test_a_file_that_everybody_can_write_is_not(file: Path) -> None:
    file.chmod(0o666)
    assert distrust(str(file)) == "it can be written by others (mode 0666)"


@pytest.mark.parametrize("mode", [0o777, 0o1777])
def test_a_file_in_a_directory_that_everybody_can_write_is_not(file: Path, mode: int) -> None:
    file.parent.chmod(mode)
    assert distrust(str(file)) == f"its directory can be written by others (mode {mode:04o})"


@only_root
def test_a_file_of_somebody_else_is_not(file: Path) -> None:
    os.chown(file, NOBODY, -1)
    assert distrust(str(file)) == "it belongs to somebody else (uid 65534, yours is 0)"


@only_root
def test_a_file_in_a_directory_of_somebody_else_is_not(file: Path) -> None:
    os.chown(file.parent, NOBODY, -1)
    assert "its directory belongs to somebody else" in str(distrust(str(file)))


def test_a_file_of_root_is(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    owners = {file.stat().st_uid, 0}
    if owners == {0}:
        monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert distrust(str(file)) is None


def test_a_link_is_judged_by_where_it_leads_too(file: Path, tmp_path: Path) -> None:
    link = tmp_path / "mine"
    link.mkdir(mode=0o755)
    (link / "voirfile.py").symlink_to(file)
    assert distrust(str(link / "voirfile.py")) is None
    file.parent.chmod(0o777)
    assert "its directory can be written" in str(distrust(str(link / "voirfile.py")))


def test_a_file_that_is_gone_is_not(file: Path) -> None:
    file.unlink()
    assert "it cannot be examined: No such file" in str(distrust(str(file)))


def test_where_there_are_no_users_all_is_trusted(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file.chmod(0o666)
    monkeypatch.delattr(os, "geteuid")
    assert distrust(str(file)) is None
