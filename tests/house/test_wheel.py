"""What is built is what works: the wheel, installed into an empty environment of its own."""

from __future__ import annotations

import email
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from email.message import Message
from pathlib import Path

import pytest

from tests.running import Place

from .source import PACKAGES, ROOT

pytestmark = pytest.mark.slow

#: The base install; reading TOML is part of python itself from 3.11 on.
BASE = {"ptera", "giving", "rich", "psutil"}
#: What pip says when it has nowhere to get packages from.
NO_INDEX = ("No matching distribution found", "Could not find a version", "Connection", "timed out")


def step(*command: str, cwd: Path) -> None:
    """Run a step of building or installing; skip when it lacks only an index to install from."""
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=300)
    said = done.stdout + done.stderr
    if done.returncode != 0 and any(sign in said for sign in NO_INDEX):
        pytest.skip(f"pip has no index to install from: {said.strip().splitlines()[-1]}")
    assert done.returncode == 0, said


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built from the source distribution, so that this one is complete too."""
    out = tmp_path_factory.mktemp("dist")
    step(sys.executable, "-m", "build", "--outdir", str(out), str(ROOT), cwd=out)
    (built,) = out.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def metadata(wheel: Path) -> Message:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (n for n in archive.namelist() if n.endswith(".dist-info/METADATA"))
        return email.message_from_string(archive.read(name).decode("utf-8"))


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of the commands of an environment that has the wheel and nothing else."""
    home = tmp_path_factory.mktemp("env")
    step(sys.executable, "-m", "venv", str(home), cwd=home)
    commands = home / ("Scripts" if os.name == "nt" else "bin")
    install = ["-m", "pip", "install", "-q", "--disable-pip-version-check", str(wheel)]
    step(str(commands / "python"), *install, cwd=home)
    return commands


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """A directory that has nothing to do with the checkout."""
    return Place(tmp_path)


def test_the_wheel_holds_the_packages_and_nothing_else(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    assert {name.partition("/")[0] for name in names} == {
        *PACKAGES,
        "voir_overseer-0.1.0.dist-info",
    }
    for package in PACKAGES:
        assert {f"{package}/__init__.py", f"{package}/py.typed"} <= set(names)
        files = {f.relative_to(ROOT).as_posix() for f in (ROOT / package).rglob("*.py")}
        assert files == {n for n in names if n.startswith(f"{package}/") and n.endswith(".py")}


def test_the_distribution_is_named_and_licensed(metadata: Message) -> None:
    assert (metadata["Name"], metadata["Version"]) == ("voir-overseer", "0.1.0")
    assert metadata["License-Expression"] == "MIT"


def test_the_base_install_is_four_packages(metadata: Message) -> None:
    requirements = [r for r in metadata.get_all("Requires-Dist", []) if "extra ==" not in r]
    unconditional = {re.split(r"[^\w-]", r)[0] for r in requirements if ";" not in r}
    conditional = {re.split(r"[^\w-]", r)[0] for r in requirements if ";" in r}
    assert unconditional == BASE
    assert conditional == {"tomli"}


def test_every_extra_is_there(metadata: Message) -> None:
    assert set(metadata.get_all("Provides-Extra", [])) == {
        "examples",
        "gpu",
        "test",
        "trace",
        "yaml",
    }


def test_the_readme_is_the_long_description(metadata: Message) -> None:
    assert metadata["Description-Content-Type"] == "text/markdown"
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert str(metadata.get_payload()).strip() == readme.strip()


def test_the_command_and_both_modules_say_the_version(installed: Path, place: Place) -> None:
    python = str(installed / "python")
    for command in (
        [str(installed / "voir")],
        [python, "-m", "voir"],
        [python, "-m", "overseer"],
    ):
        done = place.run(*command, "--version")
        assert (done.seen, done.stderr) == ((0, "voir 0.1.0\n"), "")


def test_a_script_is_probed_and_recorded_far_from_the_checkout(
    installed: Path, place: Place
) -> None:
    place.write(
        "main.py",
        """
        def train(batches):
            for batch in batches:
                loss = 1 / batch
            return loss

        if __name__ == "__main__":
            print("the last loss is", train([1, 2, 4]))
        """,
    )
    place.write(
        "voirfile.py",
        """
        def instrument_losses(ov):
            yield ov.phases.load_script
            ov.probe("//train > loss").give()
            ov.given["?loss"].min().print("Minimum loss: {}")
        """,
    )
    done = place.run(str(installed / "voir"), "main.py")
    assert done.seen == (0, "the last loss is 0.25\nMinimum loss: 0.25\n"), done.stderr
    assert [probe["fired"] for probe in place.record()["probes"]] == [3]
    assert [event["loss"] for event in place.metrics() if "loss" in event] == [1.0, 0.5, 0.25]


def test_a_config_in_yaml_names_the_extra_to_install(installed: Path, place: Place) -> None:
    place.write("main.py", "")
    place.write("settings.yaml", "quiet: true\n")
    done = place.run(str(installed / "voir"), "--config", "settings.yaml", "main.py")
    assert done.status == 2
    assert 'pip install "voir-overseer[yaml]"' in done.stderr


def test_the_example_runs_under_the_dashboard(installed: Path, place: Place) -> None:
    pytest.importorskip("torch")
    pytest.importorskip("sklearn")
    shutil.copytree(ROOT / "examples", place.path / "examples")
    shutil.copy(ROOT / "voirfile.py", place.path)
    # PyTorch is large: it is taken from the environment of the tests.
    env = {"PYTHONPATH": sysconfig.get_path("purelib")}
    command = [str(installed / "voir"), "--dash", "examples/digits/main.py", "--epochs", "1"]
    done = place.run(*command, env=env)
    assert done.status == 0, done.stderr
    assert re.fullmatch(r"epoch 0: test accuracy \d+\.\d%\n", done.stdout)
    assert {p["state"] for p in place.record()["probes"]} == {"fired"}
