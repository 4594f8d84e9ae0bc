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


#: Files, a script that uses them, and by selector what is seen.
IMPORTED: dict[str, tuple[dict[str, str], str, dict[str, list[object]]]] = {
    "imported later, by a function": (
        {"later.py": WORK}, "def go():\n    import later\n    return later.work(3)\nprint\ngo()\n",
        {"/later/work > result": [9], "/later > READY": [True]}),
    "taken by name": (
        {"source.py": WORK}, "from source import work\nwork(4)\n", {"/source/work > result": [16]}),
    "packages": (
        {"pack/__init__.py": "NAME = 'pack'\nfrom . import sub\n", "pack/sub.py": WORK,
         "space/part.py": WORK},
        "import pack, space.part\npack.sub.work(2), space.part.work(3)\n",
        {"/pack > NAME": ["pack"], "/pack.sub/work > result": [4],
         "/space.part/work > result": [9]}),
    "modules that import each other": (
        {"one.py": "import two\ndef f():\n    x = 1\n    return x\ny = two.g()\n",
         "two.py": "import one\ndef g():\n    z = one\n    return 2\n"},
        "import one\none.f()\n", {"/one/f > x": [1], "/one > y": [2], "/two/g > #value": [2]}),
    "loaded again": (
        {"again.py": WORK},
        "import again, importlib\nagain.work(2), importlib.reload(again), again.work(3)\n",
        {"/again > READY": [True, True], "/again/work > result": [4, 9]}),
}  # fmt: skip


@pytest.mark.parametrize("case", IMPORTED.values(), ids=IMPORTED)
def test_modules_are_seen_from_their_beginning(script: Make, folder: Path, case: Any) -> None:
    files, source, expected = case
    for name, text in files.items():
        add(folder, name, text)
    made = script(source)
    found = {selector: made.probe(selector) for selector in expected}
    made.load().run()
    assert {s: [v for e in events for v in e.values()] for s, events in found.items()} == expected


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


def test_a_script_run_with_m_has_the_name_of_its_module_too(script: Make) -> None:
    made = script("def f():\n    x = 1\n")
    made.main.__spec__ = ModuleSpec("pack.run", None)
    early = made.probe("/pack.run/f > x")
    made.load()
    late = made.probe("/pack.run/f > x")
    made.call("f()")
    assert early == late == [{"x": 1}]


def test_modules_in_an_archive_are_seen(
    script: Make, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with zipfile.ZipFile(folder / "archive.zip", "w") as file:
        file.writestr("zipped.py", WORK)
    monkeypatch.syspath_prepend(str(folder / "archive.zip"))
    made = script("import zipped\n").load()
    results = made.probe("/zipped/work > result")
    made.call("zipped.work(2)")
    assert results == [{"result": 4}]


def test_modules_that_cannot_be_probed_stay_as_they_are_and_the_verdict_says_why(
    script: Make, folder: Path
) -> None:
    add(folder, "unwanted.py", "raise SystemExit('imported')")
    source, edited = add(folder, "bare_source.py"), add(folder, "edited.py")
    py_compile.compile(str(source), str(folder / "bare.pyc"), doraise=True)
    source.unlink()
    importlib.import_module("edited")
    edited.write_text(WORK.replace("n * n", "n + n"))
    importlib.invalidate_caches()
    made = script("import bare, edited\n")
    found = [made.probe(f"/{name}/work > result") for name in ("unwanted", "bare", "edited")]
    made.load()
    assert made.call("bare.work(2), edited.work(3)") == (4, 9)
    assert found == [[], [], []]
    assert "unwanted" not in sys.modules
    unwanted, bare, changed = (verdict["hint"] for verdict in made.engine.verdicts())
    assert unwanted == "unwanted was never imported"
    where = folder / "bare.pyc"
    assert bare == f"bare comes from {where}, not from Python source; probe what calls it"
    assert "edited since, or changed by another tool" in changed


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


class Own(Loader, MetaPathFinder):
    """Finds ``odd`` only, and loads it in its own way, as import hooks do."""

    def __init__(self, file: Path) -> None:
        self.file = file

    def find_spec(self, name: str, path: Any, target: Any = None) -> ModuleSpec | None:
        return spec_from_file_location(name, self.file, loader=self) if name == "odd" else None

    def exec_module(self, module: ModuleType) -> None:
        text = "extra = 1;" + self.file.read_text()
        exec(compile(text, str(self.file), "exec", dont_inherit=True), module.__dict__)


def test_a_module_with_a_loader_of_its_own_is_seen_once_it_is_there(
    script: Make, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own = Own(add(folder, "odd_source.py"))
    monkeypatch.setattr(sys, "meta_path", [own, *sys.meta_path])
    made = script("import odd\n")
    results = made.probe("/odd/work > result")
    made.load()
    assert made.call("odd.work(3), odd.extra") == (9, 1)
    assert results == [{"result": 9}]
