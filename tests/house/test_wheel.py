"""Distributions are complete, and work where they are installed."""

from __future__ import annotations

import email
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tomllib
import zipfile
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from overseer import version
from tests.recorder.compiler import FILE, compiler
from tests.running import Place

from .source import PACKAGES, ROOT

slow = pytest.mark.slow

BASE = {"ptera", "giving", "rich", "psutil"}
#: Messages of pip without an index to get packages from.
NO_INDEX = ("No matching distribution found", "Could not find a version", "Connection", "timed out")
#: In a checkout and not in the repository, or of use in the repository only.
LEFT_OUT = [".git", ".ci", ".*_cache", ".venv*", ".hypothesis", "__pycache__", "*.so", "*.egg-info"]
LEFT_OUT += ["build", "dist", "voir-runs", "actual", "*.actual"]
EXTENSION = f"overseer/recorder/{FILE}"
SUFFIX = FILE.removeprefix("_recorder")
STALE = b"an extension of an earlier build"
COMPILED = re.findall('^COMPILED = "(.*)"', (ROOT / "setup.py").read_text(), re.M)[0].split()
INSTALL = ["-m", "pip", "install", "-q", "--disable-pip-version-check"]
RECORDED = """
from overseer.recorder import recorder
recorder.open(64, 64)
recorder.put(1, 32, 0, 1, 0, 1.0, 0, 0)
print(recorder.NAME, len(recorder.drain(1, 0)[0]))
"""
MAIN = """
def train(batches):
    for batch in batches:
        loss = 1 / batch
    return loss

print("the last loss is", train([1, 2, 4]))
"""
VOIRFILE = """
def instrument_losses(ov):
    yield ov.phases.load_script
    ov.probe("//train > loss").give()
    ov.given["?loss"].min().print("Minimum loss: {}")
"""


class Tree(NamedTuple):
    """A copy of the project, and the names of the files that are the project's."""

    path: Path
    files: frozenset[str]

    @property
    def packaged(self) -> set[str]:
        """The Python files and markers of the three packages."""
        files = {name for name in self.files if name.partition("/")[0] in PACKAGES}
        data = "/py.typed", "/SKILL.md", ".js", ".css", "uPlot.LICENSE"
        return {name for name in files if name.endswith((".py", *data))}


def step(*command: str | Path, cwd: Path, **env: str) -> None:
    """Run a step of building or installing; skip when it lacks only an index to install from."""
    options: Any = {"capture_output": True, "text": True, "timeout": 300}
    done = subprocess.run(command, cwd=cwd, env={**os.environ, **env}, **options)
    said = done.stdout + done.stderr
    if done.returncode != 0 and any(sign in said for sign in NO_INDEX):
        pytest.skip(f"pip has no index to install from: {said.strip().splitlines()[-1]}")
    assert done.returncode == 0, said


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Tree:
    """A copy of the project, with what an earlier build of other sources has left in it."""
    tree = tmp_path_factory.mktemp("tree") / "voir"
    shutil.copytree(ROOT, tree, ignore=shutil.ignore_patterns(*LEFT_OUT))
    files = frozenset(f.relative_to(tree).as_posix() for f in tree.rglob("*") if f.is_file())
    stale = [EXTENSION, f"overseer/model/fold{SUFFIX}"]
    for name in stale:
        (tree / name).write_bytes(STALE)
    for build in (f"lib.{sysconfig.get_platform()}-{sys.implementation.cache_tag}", "lib"):
        for name in (*stale, "overseer/deleted.py", "tests/test_old.py"):
            file = tree / "build" / build / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(STALE)
            os.utime(file, (2**32, 2**32))  # Newer than anything that is built now.
    return Tree(tree, files)


@pytest.fixture(scope="module")
def plain(tree: Tree, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The source distribution, and the wheel built from it without mypyc and a compiler."""
    out, hidden = tmp_path_factory.mktemp("plain"), tmp_path_factory.mktemp("hidden")
    (hidden / "mypyc.py").write_text("raise ImportError\n")
    command = [sys.executable, "-m", "build", "--no-isolation", "--skip-dependency-check"]
    step(*command, "--outdir", out, tree.path, cwd=out, CC="false", PYTHONPATH=str(hidden))
    return out


@pytest.fixture(scope="module")
def wheel(tree: Tree, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel that users install, built in an environment of its own."""
    out = tmp_path_factory.mktemp("dist")
    step(sys.executable, "-m", "build", "--outdir", out, tree.path, cwd=out)
    return wheel_in(out)


@pytest.fixture(scope="module")
def fallback(tree: Tree, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel built from the tree itself, as ``pip install .`` does, without a compiler."""
    out = tmp_path_factory.mktemp("fallback")
    step(sys.executable, "-m", "build", "--wheel", "--outdir", out, tree.path, cwd=out, CC="false")
    return wheel_in(out)


def wheel_in(directory: Path) -> Path:
    (built,) = directory.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of the commands of an environment that has the wheel and nothing else."""
    home = tmp_path_factory.mktemp("env")
    step(sys.executable, "-m", "venv", home, cwd=home)
    commands = home / ("Scripts" if os.name == "nt" else "bin")
    step(commands / "python", *INSTALL, wheel, cwd=home)
    return commands


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


@pytest.fixture(params=["plain", pytest.param("installed", marks=slow)])
def commands(request: pytest.FixtureRequest, place: Place) -> tuple[Path, dict[str, str]]:
    """The directory of an installation's commands, and the environment that they need."""
    built = request.getfixturevalue(request.param)
    if request.param == "installed":
        return built, {}
    site = place.path / "site"
    step(sys.executable, *INSTALL, "--no-deps", "--target", site, wheel_in(built), cwd=place.path)
    (site / "bin/python").symlink_to(sys.executable)
    return site / "bin", {"PYTHONPATH": str(site)}


def names_in(wheel: Path) -> set[str]:
    """The files in a wheel, without those about it."""
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    return {name for name in names if not name.startswith(f"voir_overseer-{version}.dist-info/")}


def test_a_wheel_without_compiled_code_holds_the_packages(plain: Path, tree: Tree) -> None:
    assert {f"{package}/py.typed" for package in PACKAGES} <= tree.packaged
    assert names_in(wheel_in(plain)) == tree.packaged


@slow
def test_the_wheel_holds_the_packages_and_extensions_for_this_platform(
    wheel: Path, fallback: Path, tree: Tree
) -> None:
    assert names_in(fallback) == tree.packaged
    compiler()
    folds = {f"overseer/model/{name}{SUFFIX}" for name in ("compiled__mypyc", *COMPILED)}
    folds |= {f"overseer/recorder/{name}{SUFFIX}" for name in ("_alike", "_shift")}
    assert names_in(wheel) == tree.packaged | folds | {EXTENSION}
    with zipfile.ZipFile(wheel) as archive:
        assert STALE not in {archive.read(name) for name in {EXTENSION, *folds}}
    assert re.search(r"-cp3\d+-cp3\d+-\w+\.whl\Z", wheel.name)


def test_the_source_distribution_holds_the_repository(plain: Path, tree: Tree) -> None:
    (source,) = plain.glob("*.tar.gz")
    with tarfile.open(source) as archive:
        members = {m.name.partition("/")[2] for m in archive if m.isfile()}
    made = {n for n in members if n.startswith("voir_overseer.egg-info/")}
    assert members - made - {"PKG-INFO", "setup.cfg"} == tree.files


@slow
def test_without_a_compiler_voir_says_so_and_works(
    fallback: Path, installed: Path, place: Place
) -> None:
    python = str(installed / "python")
    step(python, *INSTALL, "--no-deps", "--target", "site", fallback, cwd=place.path)
    env = {"PYTHONPATH": str(place.path / "site")}
    said = place.run(python, "-m", "voir", "doctor", env=env)
    assert said.status == 0, said.stderr
    for line in (
        "recorder         in Python, which is slower: the C extension is not there",
        "--force-reinstall --no-cache-dir --no-deps",
        "note  fold             in Python, which is slower\n",
    ):
        assert line in said.stdout
    recorded = place.run(python, "-c", RECORDED, env=env)
    assert recorded.seen == (0, "Python 32\n"), recorded.stderr


@slow
def test_the_extension_in_the_wheel_records_and_cibuildwheels_test_command_passes(
    installed: Path, place: Place
) -> None:
    compiler()
    recorded = place.run(str(installed / "python"), "-c", RECORDED)
    assert recorded.seen == (0, "C 32\n"), recorded.stderr
    said = place.run(str(installed / "voir"), "doctor")
    assert "ok    recorder         in C\nok    fold             compiled\n" in said.stdout
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    env = {"PATH": os.pathsep.join([str(installed), os.environ["PATH"]])}
    command = ["sh", "-c", settings["tool"]["cibuildwheel"]["test-command"]]
    done = place.run(*command, env=env)
    assert done.status == 0, done.stderr
    assert place.run(*command, env={**env, "VOIR_RECORDER": "python"}).status == 1


def test_the_metadata(plain: Path) -> None:
    with zipfile.ZipFile(wheel_in(plain)) as archive:
        (name,) = (n for n in archive.namelist() if n.endswith(".dist-info/METADATA"))
        metadata = email.message_from_string(archive.read(name).decode("utf-8"))
    assert (metadata["Name"], metadata["Version"]) == ("voir-overseer", "0.2.0")
    assert (metadata["License-Expression"], metadata["Requires-Python"]) == ("MIT", ">=3.11")
    assert metadata["Description-Content-Type"] == "text/markdown"
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert str(metadata.get_payload()).strip() == readme.strip()
    requirements = [r for r in metadata.get_all("Requires-Dist", []) if "extra ==" not in r]
    assert {re.split(r"[^\w-]", r)[0] for r in requirements} == BASE
    assert [r for r in requirements if ";" in r] == []
    extras = set(metadata.get_all("Provides-Extra", []))
    assert extras == {"completion", "examples", "gpu", "test", "trace", "yaml"}


def test_a_script_is_probed_and_recorded_far_from_the_checkout(
    commands: tuple[Path, dict[str, str]], place: Place
) -> None:
    installed, env = commands
    place.write("main.py", MAIN)
    place.write("voirfile.py", VOIRFILE)
    done = place.run(str(installed / "voir"), "main.py", env=env)
    assert done.seen == (0, "the last loss is 0.25\nMinimum loss: 0.25\n"), done.stderr
    assert [probe["fired"] for probe in place.record()["probes"]] == [3]
    assert [event["loss"] for event in place.metrics() if "loss" in event] == [1.0, 0.5, 0.25]
    found = place.run(str(installed / "python"), "-c", "import voir; print(voir.__file__)", env=env)
    assert found.stdout and str(ROOT) not in found.stdout
    for command in ("voir", "python -m voir"):
        done = place.run(*f"{installed}/{command}".split(), "--version", env=env)
        assert (done.seen, done.stderr) == ((0, f"voir {version}\n"), "")
