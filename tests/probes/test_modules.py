"""Probes on other modules: imported before or after, from wherever they come."""

from __future__ import annotations

import importlib
import py_compile
import sys
import zipfile
from collections.abc import Iterator
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from overseer.imports import on_import

from .conftest import Make

WORK = "READY = bool(1)\ndef work(n):\n    result = n * n\n    return result\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A directory on the path; what is imported from it is forgotten."""
    place = tmp_path / "modules"
    place.mkdir()
    monkeypatch.syspath_prepend(str(place))
    before = set(sys.modules)
    yield place
    for name in set(sys.modules) - before:
        del sys.modules[name]


def add(folder: Path, name: str, text: str = WORK) -> Path:
    file = folder / name
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    importlib.invalidate_caches()
    return file


def test_a_module_that_is_imported_later_is_seen_from_its_beginning(
    script: Make, folder: Path
) -> None:
    add(folder, "later.py")
    made = script("def go():\n    import later\n    return later.work(3)\n").load()
    results, ready = made.probe("/later/work > result"), made.probe("/later > READY")
    assert "later" not in sys.modules
    assert made.call("go()") == 9
    assert (results, ready) == ([{"result": 9}], [{"READY": True}])


def test_a_module_that_was_imported_before_is_seen_from_now_on(script: Make, folder: Path) -> None:
    add(folder, "before.py")
    before: Any = importlib.import_module("before")
    held = before.work
    results = script("").probe("/before/work > result")
    assert (held(2), before.work(3)) == (4, 9)
    assert results == [{"result": 4}, {"result": 9}]


def test_a_probe_may_be_set_when_its_module_has_just_been_imported(
    script: Make, folder: Path
) -> None:
    add(folder, "noticed.py")
    made, results = script("import noticed\n"), []
    on_import("noticed", lambda _: results.append(made.probe("/noticed/work > result")))
    made.load()
    assert made.call("noticed.work(3)") == 9
    assert results == [[{"result": 9}]]


def test_what_another_module_took_by_name_is_the_same_function(script: Make, folder: Path) -> None:
    add(folder, "source.py")
    made = script("from source import work\n")
    results = made.probe("/source/work > result")
    made.load()
    assert made.call("work(4)") == 16
    assert results == [{"result": 16}]


def test_a_module_that_is_never_imported_stays_so_and_the_verdict_says_it(
    script: Make, folder: Path
) -> None:
    add(folder, "unwanted.py", "raise SystemExit('imported')")
    made = script("import os\n")
    made.probe("/unwanted/work > result")
    made.load().run()
    made.engine.close()
    assert "unwanted" not in sys.modules
    assert made.verdict()["hint"] == "unwanted was never imported"


def test_modules_of_packages_are_seen(script: Make, folder: Path) -> None:
    add(folder, "pack/__init__.py", "NAME = 'pack'\nfrom . import sub\n")
    add(folder, "pack/sub.py")
    add(folder, "space/part.py")
    made = script("import pack, space.part\n")
    found = [made.probe(s) for s in ("/pack > NAME", "/pack.sub/work > result",
                                     "/space.part/work > result")]  # fmt: skip
    made.load()
    made.call("pack.sub.work(2), space.part.work(3)")
    assert found == [[{"NAME": "pack"}], [{"result": 4}], [{"result": 9}]]


def test_a_script_run_with_m_has_the_name_of_its_module_too(script: Make) -> None:
    made = script("def f():\n    x = 1\n")
    made.main.__spec__ = ModuleSpec("pack.run", None)
    early = made.probe("/pack.run/f > x")
    made.load()
    late = made.probe("/pack.run/f > x")
    made.call("f()")
    assert early == late == [{"x": 1}]


def test_modules_that_import_each_other_are_seen(script: Make, folder: Path) -> None:
    add(folder, "one.py", "import two\ndef f():\n    x = 1\n    return x\ny = two.g()\n")
    add(folder, "two.py", "import one\ndef g():\n    z = one\n    return 2\n")
    made = script("import one\n")
    found = [made.probe(s) for s in ("/one/f > x", "/one > y", "/two/g > #value")]
    made.load()
    made.call("one.f()")
    assert found == [[{"x": 1}], [{"y": 2}], [{"#value": 2}]]


def test_a_module_that_is_loaded_again_is_seen_again(script: Make, folder: Path) -> None:
    add(folder, "again.py")
    made = script("import again, importlib\n")
    ready, results = made.probe("/again > READY"), made.probe("/again/work > result")
    made.load()
    made.call("again.work(2), importlib.reload(again), again.work(3)")
    assert ready == [{"READY": True}] * 2
    assert results == [{"result": 4}, {"result": 9}]


def test_modules_in_an_archive_are_seen(script: Make, folder: Path) -> None:
    archive = folder / "archive.zip"
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("zipped.py", WORK)
    sys.path.insert(0, str(archive))
    try:
        made = script("import zipped\n").load()
        results = made.probe("/zipped/work > result")
        made.call("zipped.work(2)")
    finally:
        sys.path.remove(str(archive))
    assert results == [{"result": 4}]


def test_a_module_without_source_says_so_and_runs_as_it_is(script: Make, folder: Path) -> None:
    source = add(folder, "bare_source.py")
    py_compile.compile(str(source), str(folder / "bare.pyc"), doraise=True)
    source.unlink()
    importlib.invalidate_caches()
    made = script("import bare\n")
    results = made.probe("/bare/work > result")
    made.load()
    assert made.call("bare.work(2)") == 4
    assert results == []
    where = folder / "bare.pyc"
    assert made.verdict()["hint"] == (
        f"bare comes from {where}, not from Python source; probe what calls it"
    )


def test_a_source_that_was_edited_meanwhile_is_not_trusted(script: Make, folder: Path) -> None:
    file = add(folder, "edited.py")
    edited: Any = importlib.import_module("edited")
    file.write_text(WORK.replace("n * n", "n + n"))
    made = script("")
    results = made.probe("/edited/work > result")
    assert edited.work(3) == 9
    assert results == []
    assert "edited since, or changed by another tool" in made.verdict()["hint"]


def test_a_module_that_fails_to_import_fails_as_ever(script: Make, folder: Path) -> None:
    add(folder, "broken.py", "x = 1\n1 / 0\n")
    made = script("")
    events = made.probe("/broken > x")
    for _ in range(2):
        with pytest.raises(ZeroDivisionError) as raised:
            importlib.import_module("broken")
        lines = [e.lineno for e in raised.traceback if Path(str(e.path)).name == "broken.py"]
        assert lines == [1]
    assert events == [{"x": 1}, {"x": 1}]
    assert "broken" not in sys.modules


def test_imported_modules_look_as_without_voir(script: Make, folder: Path) -> None:
    add(folder, "plain.py")
    add(folder, "probed.py")
    plain: Any = importlib.import_module("plain")
    made = script("import probed\n")
    made.probe("/probed > READY")
    made.load()
    probed = made.main.probed
    assert sorted(vars(probed)) == sorted(vars(plain))
    assert type(probed.__loader__) is type(plain.__loader__)
    assert vars(probed.__loader__).keys() == vars(plain.__loader__).keys()
    assert probed.__spec__.cached.replace("probed", "plain") == plain.__spec__.cached
    assert probed.work.__code__ == plain.work.__code__.replace(co_filename=probed.__file__)


class OwnLoader(Loader):
    """Loads modules in its own way, as import hooks and encrypted packages do."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def exec_module(self, module: ModuleType) -> None:
        code = compile(
            "extra = 1;" + self.file.read_text(), str(self.file), "exec", dont_inherit=True
        )
        exec(code, module.__dict__)


class OwnFinder(MetaPathFinder):
    """Finds ``odd`` only."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def find_spec(self, name: str, path: Any, target: Any = None) -> ModuleSpec | None:
        if name != "odd":
            return None
        return spec_from_file_location(name, self.file, loader=OwnLoader(self.file))


def test_a_module_with_a_loader_of_its_own_is_seen_once_it_is_there(
    script: Make, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    finder = OwnFinder(add(folder, "odd_source.py"))
    monkeypatch.setattr(sys, "meta_path", [finder, *sys.meta_path])
    made = script("import odd\n")
    results = made.probe("/odd/work > result")
    made.load()
    assert made.call("odd.work(3), odd.extra") == (9, 1)
    assert results == [{"result": 9}]
