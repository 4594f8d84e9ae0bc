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
    done = place.shell(command.command)
    assert done.status == 0, f"{command.block}\n{done.stderr}"
    assert "Traceback" not in done.stderr
    if command.output:
        assert same(command.output, done.stdout), f"{command.block} shows otherwise:\n{done.stdout}"


# The commands of the checkout

LONG = [
    "tests/house/interpreters.py", "tests/recorder/sanitizers.py", "tests/programs/recorded.py",
    "tests/programs/told/timed.py", "tests/script_analysis/programs.py",
]  # fmt: skip
CHECKS = ["ruff check .", "ruff format --check .", "mypy", "lint-imports --no-cache --no-logo"]
DEMO = ["torch==2.13.0", ".[examples]"]


class Checkout:
    """A copy of what ``dev`` needs, with an environment that is already set up."""

    def __init__(self, path: Path) -> None:
        self.path, self.log = path, path / "log"
        sources = [C_SOURCE, *(str(file.relative_to(ROOT)) for file in COMPILED)]
        for name in ("dev", "pyproject.toml", "setup.py", "voirfile.py", ".ci/run", *sources):
            (path / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, path / name)
        shutil.copytree(ROOT / "examples", path / "examples")
        (path / ".venv/bin").mkdir(parents=True)
        self.stamp = path / ".venv/installed"
        self.logged("setup")

    def tool(self, name: str, script: str) -> None:
        """Put a command into its environment."""
        file = self.path / ".venv/bin" / name
        file.write_text(f"#!/bin/sh\n{script}\n")
        file.chmod(0o755)

    def dev(self, *arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
        command = [str(self.path / "dev"), *arguments]
        options: Any = {"capture_output": True, "text": True, "stdin": subprocess.DEVNULL}
        return subprocess.run(command, cwd="/", env={**os.environ, **env}, timeout=60, **options)

    def logged(self, *arguments: str, **env: str) -> list[str]:
        """The commands that it runs in its environment, which only write themselves down."""
        self.log.write_text("")
        for name in ("python", "ruff", "mypy", "lint-imports", "voir"):
            self.tool(name, f'echo {name} "$@" >> "{self.log}"')
        done = self.dev(*arguments, **env)
        assert done.returncode == 0, done.stderr
        return self.log.read_text().splitlines()

    def installed(self, *arguments: str, **env: str) -> list[str]:
        """What it has pip install."""
        lines = self.logged(*arguments, **env)
        return [line.split()[-1] for line in lines if "pip install" in line]


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    return Checkout(tmp_path)


@pytest.mark.slow
def test_the_demo_trains_the_example_under_the_dashboard(checkout: Checkout) -> None:
    pytest.importorskip("torch")
    pytest.importorskip("sklearn")
    checkout.tool("python", f'exec "{sys.executable}" "$@"')
    checkout.tool("voir", f'exec "{sys.executable}" -m voir "$@"')
    done = checkout.dev("demo", "--epochs", "1")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("epoch 0: test accuracy ")
    assert "loss" in done.stderr
    (recorded,) = (checkout.path / "voir-runs").iterdir()
    probes = json.loads((recorded / "run.json").read_text())["probes"]
    assert {probe["state"] for probe in probes} == {"fired"}


def test_dev_test_checks_and_then_runs_pytest(checkout: Checkout) -> None:
    assert checkout.logged("test", "-k", "one") == [*CHECKS, "python -m pytest -k one"]
    assert (ROOT / ".ci/run").read_text().splitlines()[-1] == "exec ./dev test"
    assert all(os.access(ROOT / name, os.X_OK) for name in (".ci/run", "dev"))
    ran = checkout.logged("test")
    assert len(ran) == len(CHECKS) + 2  # In two halves.
    assert all(" -m not slow " in line for line in ran[-2:])
    ran = checkout.logged("test-all")  # What takes long comes last.
    assert not any("not slow" in line for line in ran)
    assert (ran[:4], [line.split()[-1] for line in ran[-len(LONG) :]]) == (CHECKS, LONG)
    assert all((ROOT / name).is_file() for name in LONG)
    checkout.log.write_text("")
    checkout.tool("ruff", "exit 1")
    assert (checkout.dev("test").returncode, checkout.log.read_text()) == (1, "")


def test_what_is_asked_for_anew_is_installed_once(checkout: Checkout) -> None:
    stamp = checkout.stamp.read_text()
    checkout.stamp.write_text(stamp.replace("examples,gpu,test,yaml", "examples"))
    assert checkout.installed("setup") == ["torch==2.13.0", ".[examples,gpu,test,yaml]"]
    assert checkout.logged("setup") == []
    assert checkout.logged("demo") == ["voir --dash examples/digits/main.py --epochs 3"]
    assert checkout.installed("demo", CC="false") == DEMO  # Another compiler builds it again.
    assert checkout.installed("demo", CC="false") == []
    assert checkout.installed("demo") == DEMO


@pytest.mark.parametrize("name", ["pyproject.toml", "setup.py", C_SOURCE, "overseer/model/fold.py"])
def test_what_an_installation_is_made_from_is_installed_again_when_it_changes(
    checkout: Checkout, name: str
) -> None:
    file = checkout.path / name
    file.write_text(file.read_text() + "\n")
    os.utime(file, (0, 0))  # As a file from an archive is.
    assert checkout.installed("demo") == DEMO
    assert checkout.installed("demo") == []


def test_what_changes_while_it_is_installed_is_installed_the_next_time(checkout: Checkout) -> None:
    checkout.stamp.unlink()
    checkout.tool("python", f'echo >> "{checkout.path / C_SOURCE}"')
    assert checkout.dev("setup").returncode == 0
    assert checkout.installed("setup") != []


def test_it_says_where_the_extension_could_not_be_compiled(checkout: Checkout) -> None:
    checkout.stamp.unlink()
    (checkout.path / "overseer/__init__.py").touch()
    (checkout.path / "overseer/recorder/__init__.py").write_text("reason = 'no compiler'\n")
    checkout.tool("python", f'case "$1" in -c) exec "{sys.executable}" "$@" ;; esac')
    done = checkout.dev("setup")
    assert done.returncode == 0
    assert "dev: the recorder in Python is used: no compiler\n" in done.stderr


def test_an_unknown_command_and_another_python_are_refused(checkout: Checkout) -> None:
    done = checkout.dev("tset")
    assert (done.returncode, done.stdout, "no command tset" in done.stderr) == (1, "", True)
    shutil.rmtree(checkout.path / ".venv")
    nowhere = checkout.path / "bin"
    nowhere.mkdir()
    for name in ("sh", "dirname"):
        (nowhere / name).symlink_to(str(shutil.which(name)))
    done = checkout.dev("demo", PATH=str(nowhere))
    assert (done.returncode, "Python 3.11 is needed" in done.stderr) == (1, True)


@pytest.mark.parametrize("shell", ["sh", "dash", "bash", "busybox sh"])
def test_every_shell_can_read_dev(shell: str) -> None:
    if shutil.which(shell.split()[0]) is None:
        pytest.skip(f"there is no {shell}")
    command = [*shell.split(), "-n", str(ROOT / "dev")]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
