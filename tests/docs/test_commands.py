"""Every command that the documentation shows is run, and shows what the documentation shows."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from .blocks import PAGES, ROOT, Command, blocks, commands, same
from .shown import ShownPlace, files_before

#: The commands of the checkout itself, and the tests that run them.
ELSEWHERE = {
    "./dev demo": "test_the_demo_trains_the_example_under_the_dashboard",
    "./dev test": "test_dev_test_checks_and_then_runs_pytest",
}
C_SOURCE = "overseer/recorder/_recorder.c"
COMPILED = sorted((ROOT / "overseer/model").glob("*.py"))
COMMANDS = [command for command in commands() if command.command not in ELSEWHERE]


def test_the_documentation_has_commands_and_marks_them_as_such() -> None:
    assert {c.block.page for c in COMMANDS} >= {"README.md", "docs/guide.md"}
    assert set(ELSEWHERE) <= {c.command for c in commands()}
    assert all(name in globals() for name in ELSEWHERE.values())
    assert [str(b) for page in PAGES for b in blocks("bash", page) + blocks("sh", page)] == []


@pytest.mark.parametrize("command", COMMANDS, ids=lambda c: f"{c.block}: {c.command}")
def test_the_command_works(command: Command, tmp_path: Path) -> None:
    place = ShownPlace(tmp_path)
    for block in files_before(command.block):
        place.put(block)
    if "import torch" in (place.path / "main.py").read_text():
        pytest.importorskip("torch")
    done = place.run("sh", "-c", command.command, env=place.env)
    assert done.status == 0, f"{command.block}\n{done.stderr}"
    assert "Traceback" not in done.stderr
    if command.output:
        assert same(command.output, done.stdout), f"{command.block} shows otherwise:\n{done.stdout}"


# The commands of the checkout

LONG = [
    "tests/house/interpreters.py", "tests/recorder/sanitizers.py", "tests/programs/recorded.py",
    "tests/reading/programs.py", "tests/record/test_killed.py",
]  # fmt: skip
CHECKS = ["ruff check .", "ruff format --check .", "mypy", "lint-imports --no-cache --no-logo"]


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A copy of what ``dev`` needs, with an environment that is already set up."""
    sources = [C_SOURCE, *(str(file.relative_to(ROOT)) for file in COMPILED)]
    for name in ("dev", "pyproject.toml", "setup.py", "voirfile.py", ".ci/run", *sources):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, tmp_path / name)
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    (tmp_path / ".venv/bin").mkdir(parents=True)
    logged(tmp_path, "setup")
    (tmp_path / "log").unlink()
    return tmp_path


def tool(checkout: Path, name: str, script: str) -> None:
    """Put a command into the environment of ``checkout``."""
    file = checkout / ".venv/bin" / name
    file.write_text(f"#!/bin/sh\n{script}\n")
    file.chmod(0o755)


def dev(checkout: Path, *arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
    command = [str(checkout / "dev"), *arguments]
    options: Any = {"capture_output": True, "text": True, "stdin": subprocess.DEVNULL}
    return subprocess.run(command, cwd="/", env={**os.environ, **env}, timeout=60, **options)


def logged(checkout: Path, *arguments: str, **env: str) -> list[str]:
    """The commands that ``dev`` runs in its environment, which here only write themselves down."""
    log = checkout / "log"
    for name in ("python", "ruff", "mypy", "lint-imports", "voir"):
        tool(checkout, name, f'echo {name} "$@" >> "{log}"')
    done = dev(checkout, *arguments, **env)
    assert done.returncode == 0, done.stderr
    return log.read_text().splitlines() if log.exists() else []


@pytest.mark.slow
def test_the_demo_trains_the_example_under_the_dashboard(checkout: Path) -> None:
    pytest.importorskip("torch")
    pytest.importorskip("sklearn")
    tool(checkout, "python", f'exec "{sys.executable}" "$@"')
    tool(checkout, "voir", f'exec "{sys.executable}" -m voir "$@"')
    done = dev(checkout, "demo", "--epochs", "1")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("epoch 0: test accuracy ")
    assert "loss" in done.stderr
    (recorded,) = (checkout / "voir-runs").iterdir()
    probes = json.loads((recorded / "run.json").read_text())["probes"]
    assert {probe["state"] for probe in probes} == {"fired"}


def test_dev_test_checks_and_then_runs_pytest(checkout: Path) -> None:
    assert logged(checkout, "test", "-k", "one") == [*CHECKS, "python -m pytest -k one"]
    assert (ROOT / ".ci/run").read_text().splitlines()[-1] == "exec ./dev test"
    assert all(os.access(ROOT / name, os.X_OK) for name in (".ci/run", "dev"))


def test_dev_test_all_ends_with_what_takes_long(checkout: Path) -> None:
    ran = logged(checkout, "test-all")
    last = [line.split()[-1] for line in ran[-5:]]
    assert (ran[:4], last) == (CHECKS, LONG)
    assert all((ROOT / name).is_file() for name in LONG)


def test_dev_test_stops_where_a_check_fails(checkout: Path) -> None:
    logged(checkout, "help")
    tool(checkout, "ruff", "exit 1")
    assert dev(checkout, "test").returncode == 1
    assert not (checkout / "log").exists()


def test_what_is_asked_for_anew_is_installed_once(checkout: Path) -> None:
    stamp = checkout / ".venv/installed"
    stamp.write_text(stamp.read_text().replace("examples,gpu,test,yaml", "examples"))
    assert installed(checkout, "setup") == ["torch==2.13.0", ".[examples,gpu,test,yaml]"]
    assert logged(checkout, "setup") == []
    assert logged(checkout, "demo") == ["voir --dash examples/digits/main.py --epochs 3"]


def installed(checkout: Path, *arguments: str, **env: str) -> list[str]:
    """What ``dev`` has pip install."""
    lines = logged(checkout, *arguments, **env)
    (checkout / "log").unlink(missing_ok=True)
    return [line.split()[-1] for line in lines if "pip install" in line]


@pytest.mark.parametrize("name", ["pyproject.toml", "setup.py", C_SOURCE, "overseer/model/fold.py"])
def test_what_an_installation_is_made_from_is_installed_again_when_it_changes(
    checkout: Path, name: str
) -> None:
    file = checkout / name
    file.write_text(file.read_text() + "\n")
    os.utime(file, (0, 0))  # As a file from an archive is.
    assert installed(checkout, "demo") == ["torch==2.13.0", ".[examples]"]
    assert installed(checkout, "demo") == []


def test_another_compiler_builds_the_extension_again(checkout: Path) -> None:
    assert ".[examples]" in installed(checkout, "demo", CC="false")
    assert installed(checkout, "demo", CC="false") == []
    assert ".[examples]" in installed(checkout, "demo")


def test_what_changes_while_it_is_installed_is_installed_the_next_time(checkout: Path) -> None:
    (checkout / ".venv/installed").unlink()
    tool(checkout, "python", f'echo >> "{checkout / C_SOURCE}"')
    assert dev(checkout, "setup").returncode == 0
    assert installed(checkout, "setup") != []


def test_it_says_where_the_extension_could_not_be_compiled(checkout: Path) -> None:
    (checkout / ".venv/installed").unlink()
    (checkout / "overseer/__init__.py").touch()
    (checkout / "overseer/recorder/__init__.py").write_text("reason = 'no compiler'\n")
    python = f'case "$1" in -c) exec "{sys.executable}" "$@" ;; esac'
    tool(checkout, "python", python)
    done = dev(checkout, "setup")
    assert done.returncode == 0
    assert "dev: the recorder in Python is used: no compiler\n" in done.stderr


def test_without_the_right_python_it_says_which_is_needed(checkout: Path) -> None:
    shutil.rmtree(checkout / ".venv")
    nowhere = checkout / "bin"
    nowhere.mkdir()
    for name in ("sh", "dirname"):
        (nowhere / name).symlink_to(str(shutil.which(name)))
    done = dev(checkout, "demo", PATH=str(nowhere))
    assert done.returncode == 1
    assert "Python 3.11 is needed" in done.stderr


def test_an_unknown_command_is_refused(checkout: Path) -> None:
    done = dev(checkout, "tset")
    assert (done.returncode, done.stdout) == (1, "")
    assert "no command tset" in done.stderr


@pytest.mark.parametrize("shell", ["sh", "dash", "bash", "busybox"])
def test_every_shell_can_read_dev(shell: str) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"there is no {shell}")
    command = [shell, "sh", "-n"] if shell == "busybox" else [shell, "-n"]
    done = subprocess.run([*command, str(ROOT / "dev")], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
