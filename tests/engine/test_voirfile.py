"""Which voirfiles apply, which are refused, what they define, and what is installed."""

from __future__ import annotations

import importlib
import os
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from overseer.engine.voirfile import Found, contributed, distrust, find, load
from overseer.errors import Problem, UsageError
from tests.engine.test_tools import run_with
from tests.running import Place

NOBODY = 65534
only_root = pytest.mark.skipif(
    getattr(os, "geteuid", lambda: 1)() != 0, reason="only root can give files away"
)


class Home(Place):
    """A directory of one's own with files in it, and what is reported about them."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.problems: list[Problem] = []

    def load(self, *names: str) -> list[Callable[..., Any]]:
        """The instruments in the voirfiles of these names."""
        return load([Found(str(self.path / name), "") for name in names], self.problems.append)

    def instruments(self, text: str) -> list[Callable[..., Any]]:
        """The instruments in a voirfile with this text."""
        self.write("voirfile.py", text)
        return self.load("voirfile.py")

    @property
    def problem(self) -> Problem:
        (only,) = self.problems
        return only


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Home]:
    before, mask, path = set(sys.modules), os.umask(0o022), tmp_path / "home"
    path.mkdir()
    monkeypatch.chdir(path)
    yield Home(path)
    os.umask(mask)
    for name in set(sys.modules) - before:
        if name.startswith("__voir") or str(path) in str(getattr(sys.modules[name], "__file__", 0)):
            del sys.modules[name]


# Search


HERE, BESIDE = "it is in the current directory", "it is in the script's directory"
ABOVE_SCRIPT, ABOVE = "it is above the script's directory", "it is above the current directory"


@pytest.mark.parametrize(
    ("files", "cwd", "script", "expected"),
    [
        ("", "", "main.py", {}),
        ("v sub/v", "", "sub/main.py", {"v": HERE, "sub/v": BESIDE}),
        ("v p/pyproject.toml p/v p/a/v p/a/b/v", "p/a", "p/a/b/main.py",
         {"p/a/v": HERE, "p/a/b/v": BESIDE, "p/v": ABOVE_SCRIPT}),
        *[(f"v p/{mark} p/v p/sub/x", "p/sub", "", {"p/v": ABOVE_SCRIPT})
          for mark in (".git/HEAD", ".git", "pyproject.toml")],
        ("v p/pyproject.toml p/v", "p", "", {"p/v": HERE}),
        ("v a/x", "a", "", {}),
        ("a/.git a/v a/sub/x b/.git b/v b/sub/x", "a/sub", "b/sub/main.py",
         {"b/v": ABOVE_SCRIPT, "a/v": ABOVE}),
        ("v", "", "link/main.py", {"v": HERE}),
        ("v/x", "", "", {}),
    ],
)  # fmt: skip
def test_those_here_beside_the_script_and_above_in_the_project_apply(
    home: Home, files: str, cwd: str, script: str, expected: dict[str, str]
) -> None:
    (home.path / "link").symlink_to(home.path)
    for name in files.split():
        home.write(re.sub(r"\bv\b", "voirfile.py", name), "")
    here = str(home.path / cwd)
    found = find([], {}, here, script and str(home.path / script), home.problems.append)
    assert [(os.path.relpath(one.path, home.path), one.why) for one in found] == [
        (name.replace("v", "voirfile.py"), why) for name, why in expected.items()
    ]
    assert find([], {}, "", None, home.problems.append) == []  # The directory has been deleted.


@pytest.mark.parametrize(
    ("given", "environ", "expected"),
    [
        (["b.py", "a.py"], {"VOIRFILE": "voirfile.py"}, ["b.py", "a.py"]),
        *[([], {"VOIRFILE": text}, ["a.py", "b.py"])
          for text in ("a.py b.py", "a.py:b.py", "  a.py\n b.py ")],
        ([], {"VOIRFILE": "my voirfile.py"}, ["my voirfile.py"]),
        ([], {"VOIRFILE": ""}, []),
        (["none.py"], {}, "--voirfile none.py: there is no such file"),
        ([], {"VOIRFILE": "none.py"}, "VOIRFILE none.py: there is no such file"),
    ],
)  # fmt: skip
def test_those_that_are_named_are_the_only_ones_and_trusted(
    home: Home, given: list[str], environ: dict[str, str], expected: list[str] | str
) -> None:
    for name in ("voirfile.py", "a.py", "b.py", "my voirfile.py"):
        home.write(name, "")
    home.path.chmod(0o777)
    if isinstance(expected, list):
        found = find(given, environ, "/", None, home.problems.append)
        assert [one.path for one in found] == [str(home.path / name) for name in expected]
        return
    with pytest.raises(UsageError) as caught:
        find(given, environ, str(home.path), None, home.problems.append)
    assert (caught.value.slug, caught.value.what) == ("voirfile-missing", expected)


# Trust


@pytest.mark.parametrize(
    ("file", "directory", "fault"),
    [
        (0o644, 0o755, None),
        (0o664, 0o775, None),  # As every file is where each user has a group of their own.
        (0o666, 0o755, "it can be written by others (mode 0666)"),
        (0o644, 0o777, "its directory can be written by others (mode 0777)"),
        (0o644, 0o1777, "its directory can be written by others (mode 1777)"),
    ],
)
def test_a_file_that_others_could_have_written_is_refused_also_behind_a_link(
    home: Home, file: int, directory: int, fault: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = home.write("open/voirfile.py", "")
    mine = home.write("mine/voirfile.py", "")
    link = home.path / "mine/link.py"
    link.symlink_to(path)
    path.chmod(file)
    path.parent.chmod(directory)
    assert distrust(str(path)) == distrust(str(link)) == fault
    beside = str(path.with_name("main.py"))
    found = find([], {}, str(mine.parent), beside, home.problems.append)
    assert [one.path for one in found] == [str(mine), *[str(path)] * (fault is None)]
    assert [(one.who, one.what) for one in home.problems] == [(str(path), fault)] * bool(fault)
    monkeypatch.delattr(os, "geteuid")
    assert distrust(str(path)) is None


def test_a_voirfile_that_is_the_script_is_not_loaded_too(home: Home) -> None:
    path = home.write("voirfile.py", "")
    above = str(path.parent)
    assert find([], {}, above, str(path), home.problems.append) == []
    assert len(find([], {}, above, None, home.problems.append)) == 1
    assert len(find([str(path)], {}, above, str(path), home.problems.append)) == 1


@only_root
def test_a_file_that_a_foreign_group_can_write_is_refused(home: Home) -> None:
    path = home.write("voirfile.py", "")
    fault = "can be written by a group that you are not in (gid 65534)"
    path.chmod(0o664)
    assert distrust(str(path)) is None  # By one's own group: that of the user alone, mostly.
    os.chown(path, -1, NOBODY)
    assert distrust(str(path)) == f"it {fault}"
    path.chmod(0o644)
    assert distrust(str(path)) is None
    os.chown(path.parent, -1, NOBODY)
    path.parent.chmod(0o775)
    assert distrust(str(path)) == f"its directory {fault}"


@only_root
def test_a_file_of_roots_is_trusted_and_one_of_somebody_elses_is_not(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = home.write("voirfile.py", "")
    os.chown(path, NOBODY, -1)
    assert distrust(str(path)) == "it belongs to another user (uid 65534, yours is 0)"
    os.chown(path.parent, NOBODY, -1)
    assert "its directory belongs to another user" in str(distrust(str(path)))
    for place in (path, path.parent):
        os.chown(place, 0, -1)
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert distrust(str(path)) is None
    path.unlink()
    assert distrust(str(path)) == "it cannot be examined: No such file or directory"


# Loading

ONE = "def one(n): return lambda ov: n\n"


@pytest.mark.parametrize(
    ("text", "values"),
    [
        (f"{ONE}instrument_x = one(1)\nother = one(2)", [1]),
        (f"{ONE}instrument_x = [one(1), (one(2), {{'x': one(3)}})]\ninstrument_y = {{one(4)}}",
         [1, 2, 3, 4]),
        (f"{ONE}instrument_x = one(3)\n__instruments__ = [one(1), {{'b': (one(2),)}}]", [1, 2]),
        (f"{ONE}__instruments__ = one(1)", [1]),
        ("__instruments__ = []", []),
        ("from beside import answer\ndef instrument_x(ov): return answer", [42]),
        ("# -*- coding: latin-1 -*-\ndef instrument_x(ov): return 'é'", ["Ã©"]),
        ("def instrument_x(ov: int): return instrument_x.__annotations__['ov']", [int]),
        ("import instrument_shed\nfrom voir import instrument_definition\n"
         "@instrument_definition\ndef instrument_wait(ov, seconds): ...\n"
         "def instrument_x(ov): return instrument_wait(3).__name__", ["instrument_wait"]),
    ],
)  # fmt: skip
def test_functions_of_that_name_and_what_is_declared_are_instruments(
    home: Home, text: str, values: list[Any]
) -> None:
    home.write("beside.py", "answer = 42\n")
    home.write("instrument_shed.py", "")
    before = list(sys.path)
    assert [one(None) for one in home.instruments(text)] == values
    assert home.problems == []
    assert sys.path == before


def test_several_are_modules_of_their_own_and_what_one_does_to_the_path_stays(home: Home) -> None:
    before = list(sys.path)
    for name in ("a.py", "b.py"):
        home.write(name, "def instrument_x(ov): return __name__, __file__\n")
    home.write("c.py", "import sys\nsys.path.insert(0, '/mine')\ninstrument_x = print")
    a, b, found = home.load("a.py", "b.py", "c.py")
    assert [a(None), b(None), found] == [
        ("__voir__", f"{home.path}/a.py"),
        ("__voir1__", f"{home.path}/b.py"),
        print,
    ]
    after, sys.path[:] = list(sys.path), before
    assert after == ["/mine", *before]


def test_what_is_no_instrument_is_reported_and_the_rest_is_kept(home: Home) -> None:
    found = home.instruments(
        """
        from voir.instruments import early_stop, log
        instrument_x = 3
        instrument_y = {"a": [print, None]}
        instrument_stop = early_stop
        instrument_more = [log, log("loss")]
        """
    )
    assert [one.__name__ for one in found] == ["print", "log"]
    assert {one.slug for one in home.problems} == {"not-an-instrument"}
    left = "It is ignored. An instrument is a function that takes the overseer."
    assert [(one.what, (one.remedy or "").partition(":")[0]) for one in home.problems] == [
        ("instrument_x is 3, which is not an instrument: it cannot be called", left),
        ("instrument_y['a'][1] is None, which is not an instrument: it cannot be called", left),
        ("instrument_stop is early_stop, which is not an instrument: calling it makes one",
         "Write early_stop(...)"),
        ("instrument_more[0] is log, which is not an instrument: calling it makes one",
         "Write log(...)"),
    ]  # fmt: skip


def test_annotations_that_are_strings_name_a_dataclass_of_the_voirfile(home: Home) -> None:
    (instrument,) = home.instruments(
        """
        from __future__ import annotations
        from dataclasses import dataclass
        from voir import configurable

        @dataclass
        class Options:
            # How many
            count: int | None = None

        @configurable
        def instrument_x(ov, options: Options):
            ov.said.append(options.count)
        """
    )
    run = run_with(instrument, argv="--count=3")
    assert run.said == [3]
    assert "How many" in run.argparser.format_help()


# Failing

FAILED = "voirfile-failed"


@pytest.mark.parametrize(
    ("text", "slug", "what", "line"),
    [
        ("x = 1\ndef instrument_x(ov:", "voirfile-syntax", "syntax error: '(' was never closed", 2),
        ("\nimport broken", FAILED, "it failed: SyntaxError: invalid syntax (broken.py, line 1)",
         2),
        ("raise RuntimeError('not today')", FAILED, "it failed: RuntimeError: not today", 1),
        ("import sys; sys.exit(7)", FAILED, "it failed: SystemExit: 7", 1),
        ("import nowhere_at_all", FAILED, "it failed: ModuleNotFoundError: No module named", 1),
        ("from voir import StopProgram; raise StopProgram", FAILED,
         "it failed: overseer.boundary.StopProgram", 1),
        ("x = '\x00'", None, "", None),
        ("from voir import configurable\n@configurable\ndef instrument_x(ov): ...",
         "not-configurable", "@configurable instrument_x(ov)", 2),
        ("from voir.instruments import Cpu\n\ninstrument_x = Cpu(seconds=0)", "bad-interval", "",
         3),
        ("def instrumnt_x(ov): ...", "voirfile-empty", "it has no instrument: ", None),
        (None, FAILED, "it failed: FileNotFoundError: [Errno 2] No such file", None),
    ],
)  # fmt: skip
def test_one_that_fails_is_reported_with_its_line_and_left_out(
    home: Home, text: str | None, slug: str | None, what: str, line: int | None
) -> None:
    home.write("broken.py", "def (\n")
    home.write("good.py", "instrument_x = print")
    path = home.path / "voirfile.py"
    if text is not None:
        home.write("voirfile.py", text)
    before = list(sys.path)
    assert home.load("voirfile.py", "good.py") == [print]
    assert home.problem.who == str(path)
    assert slug is None or home.problem.slug == slug
    assert home.problem.what.startswith(what)
    assert line is None or home.problem.where == f"{path}:{line}"
    assert slug == "voirfile-empty" or "--no-voirfile" in str(home.problem.remedy)
    assert sys.path == before
    assert "__voir__" not in sys.modules or slug == "voirfile-empty"


def test_ctrl_c_is_nobodys_failure(home: Home) -> None:
    with pytest.raises(KeyboardInterrupt):
        home.instruments("raise KeyboardInterrupt")
    assert home.problems == []


# What is installed


CONTRIBUTING = """
    def instrument_a(ov): ...
    def instrument_b(ov): ...
    both = {"a": instrument_a, "b": [instrument_b]}
    """
POINTS = """
    [voir.instrument]
    x = contributing:both
    absent = contributing:nowhere
    ends = exiting:x
    a = contributing:instrument_a
    """


@pytest.mark.parametrize("info", ["one-1.0.dist-info/METADATA", "one-1.0.egg-info/PKG-INFO"])
def test_installed_distributions_contribute_instruments(
    home: Home, info: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", [f"{home.path}/nowhere", str(home.path), *sys.path])
    home.write("contributing.py", CONTRIBUTING)
    home.write("exiting.py", "import sys\nsys.exit(7)\n")
    home.write(info, "Metadata-Version: 2.1\nName: one\nVersion: 1.0\n")
    points = f"{info.partition('/')[0]}/entry_points.txt"
    home.write(points, "[console_scripts]\nx = contributing:instrument_a\n")
    importlib.invalidate_caches()
    assert contributed(home.problems.append) == []
    assert "contributing" not in sys.modules
    home.write(points, POINTS)
    names = [one.__name__ for one in contributed(home.problems.append)]
    assert names == ["instrument_a", "instrument_b", "instrument_a"]
    assert [(one.slug, one.who) for one in home.problems] == [
        ("entry-point", "entry point absent"),
        ("entry-point", "entry point ends"),
    ]
    assert [one.what.partition(": ")[0] for one in home.problems] == [
        "contributing:nowhere failed to load",
        "exiting:x failed to load",
    ]
    assert home.problems[1].where == f"{home.path}/exiting.py:2"


# Names of old Milabench

USED = "import sys\nprint([m for m in sys.modules if 'milabench' in m])\n"
OLD = """
    from milabench.opt import instrument_argparse

    def instrument_show(ov):
        yield ov.phases.init
        ov.given["?options"].print("{}")
    """


def test_old_milabenchs_instrument_is_voirs_where_milabench_is_not_installed(
    tmp_path: Path,
) -> None:
    place = Place(tmp_path)
    place.write("voirfile.py", OLD)
    script = "import argparse\nparser = argparse.ArgumentParser()\nparser.add_argument('--lr')\n"
    place.write("main.py", f"{script}parser.parse_args()\n{USED}")
    done = place.voir("--quiet", "--no-record", "main.py", "--lr", "0.5")
    assert (done.seen, done.stderr) == ((0, "Namespace(lr='0.5')\n[]\n"), "")
    place.write("milabench/__init__.py", "")
    place.write("milabench/opt.py", "def instrument_argparse(ov):\n    print('its own')\n")
    assert place.voir("--quiet", "--no-record", "main.py").stdout.startswith("its own\n")


@pytest.mark.parametrize(
    "line",
    ["from milabench.opt import instrument_other", "from milabench.bench import voirfile_monitor"],
)
def test_any_other_name_of_milabenchs_says_what_to_import(home: Home, line: str) -> None:
    home.instruments(line)
    assert "from voir.instruments import instrument_argparse" in str(home.problem.remedy)
    assert "milabench" not in sys.modules
