"""Files beside the script that have the names of Python's modules, of dependencies, of voir's."""

from __future__ import annotations

import sys
import sysconfig
from pathlib import Path

import pytest

from overseer.apart import _PACKAGES
from tests.running import Place

#: Modules that Python itself needs to start a script, so that none beside it is ever found.
NAMES = sorted(n for n in sys.stdlib_module_names | _PACKAGES if not n.startswith("__"))
#: These print, open a browser, are asked for by name at the end, or are frozen into Python.
LEFT = ("threading", "antigravity", "this", "runpy")
SCRIPT = """
import sys
import sysconfig
for name in {names}:
    try:
        print(name, getattr(__import__(name), "VALUE", None))
    except Exception as error:  # As in what setuptools does at `import distutils`.
        print(name, type(error).__name__)

def train(batches):
    for batch in batches:
        loss = batch * 0.5

train(range(200))
"""
#: The command, not `python -m voir`: that itself looks beside the script first.
VOIR = str(Path(sys.executable).with_name("voir"))


def beside(path: Path, names: list[str], script: str = SCRIPT) -> Place:
    place = Place(path)
    for name in names:
        place.write(f"{name}.py", "VALUE = 'mine'\n")
    place.write("main.py", script.replace("{names}", repr(names)))
    place.probes(["//train > loss", "//train > #endloop_batch as step"])
    return place


def test_a_script_finds_all_of_them_and_voir_none(tmp_path):
    place = beside(tmp_path, [name for name in NAMES if name not in LEFT])
    python, voir = place.python("main.py"), place.run(VOIR, "main.py")
    assert voir.seen == python.seen
    assert python.stdout.count("mine") > 200
    assert "200 steps" in voir.stderr
    assert "failed" not in voir.stderr


ASKED = {
    "tokenize": ["--trace"], "json": ["--trace"], "rich": ["--trace"], "random": ["--trace"],
    "overseer": ["--trace", "--verify", "--dash", "--stop 50"],
    "queue": ["--trace", "--verify", "--dash", "--stop 50"],
}  # fmt: skip


@pytest.mark.parametrize("name", ASKED)
def test_whatever_voir_is_asked_to_do(tmp_path, name):
    place = beside(tmp_path, [name])
    python = place.python("main.py")
    for flags in ASKED[name]:
        voir = place.run(VOIR, *flags.split(), "main.py")
        assert voir.stdout == python.stdout
        assert voir.status in (0, 3 if flags == "--verify" else 0)
        assert "200 steps" in voir.stderr or flags == "--stop 50"
        assert "No module named" not in voir.stderr


def test_a_script_may_import_while_voir_samples(tmp_path):
    script = """
        import sys, time
        until, seen = time.monotonic() + 1, set()
        while time.monotonic() < until:
            sys.modules.pop("typing", None)
            seen.add(__import__("typing").VALUE)
        print(seen)
        """
    voir = beside(tmp_path, ["typing"], script).run(VOIR, "--trace", "main.py")
    assert voir.seen == (0, "{'mine'}\n"), voir.stderr


def test_probes_in_pythons_modules_work_beside_such_a_file(tmp_path):
    script = "import argparse\nprint(argparse.ArgumentParser().parse_args([]))\n"
    place = beside(tmp_path, ["tokenize"], script)
    place.write("voirfile.py", "from voir.instruments import instrument_argparse\n")
    voir = place.run(VOIR, "main.py")
    assert voir.seen == (0, "Namespace()\n"), voir.stderr
    assert [probe["state"] for probe in place.record()["probes"]] == ["fired"]


def test_a_directory_of_packages_in_pythonpath_is_no_such_file(tmp_path):
    packages = {"PYTHONPATH": sysconfig.get_path("purelib")}
    assert "200 steps" in beside(tmp_path, []).run(VOIR, "main.py", env=packages).stderr


def test_a_module_that_imports_voir_is_none_of_voirs_business(tmp_path):
    place = beside(tmp_path, ["json"])
    place.write("own/__init__.py", "import voir\n")
    place.write("own/__main__.py", "import json, sys\nprint(json.VALUE, sys.path[0])\n")
    assert place.python("-m", "own").seen == (0, f"mine {tmp_path}\n")
