"""Which voirfiles apply, which are refused, and what they define."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from overseer.engine.voirfile import Found, collect, find, load
from overseer.errors import Problem, UsageError
from tests.engine.test_trust import NOBODY, only_root


class Place:
    """A directory of one's own, with voirfiles in it, and what is reported about them."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.problems: list[Problem] = []

    def write(self, name: str, text: str | bytes = "") -> str:
        """Write a file, and directories above it that only their owner can write to."""
        file = self.path / name
        file.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        file.write_bytes(text if isinstance(text, bytes) else dedent(text).encode())
        file.chmod(0o644)
        return str(file)

    def find(
        self, *given: str, cwd: str = ".", script: str | None = None, **environ: str
    ) -> list[str]:
        """The voirfiles that apply, as paths from here."""
        directory = str(self.path / cwd) if cwd != "." else str(self.path)
        where = str(self.path / script) if script is not None else None
        found = find(given, environ, directory, where, self.problems.append)
        return [os.path.relpath(one.path, self.path) for one in found]

    def load(self, *names: str) -> list[Callable[..., Any]]:
        """The instruments in the voirfiles of these names."""
        found = [Found(str(self.path / name), "") for name in names]
        return load(found, self.problems.append)

    def instruments(self, text: str | bytes) -> list[Callable[..., Any]]:
        """The instruments in a voirfile with this text."""
        self.write("voirfile.py", text)
        return self.load("voirfile.py")

    @property
    def problem(self) -> Problem:
        (only,) = self.problems
        return only


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    home = tmp_path / "home"
    home.mkdir(mode=0o755)
    monkeypatch.chdir(home)
    return Place(home)


@pytest.fixture(autouse=True)
def no_voirfile_is_remembered() -> Iterator[None]:
    yield
    for name in [name for name in sys.modules if name.startswith("__voir")]:
        del sys.modules[name]


class TestSearch:
    def test_without_any_there_is_none(self, place: Place) -> None:
        assert place.find(script="main.py") == []

    def test_the_current_directory_s_comes_first_then_the_script_s(self, place: Place) -> None:
        place.write("voirfile.py")
        place.write("sub/voirfile.py")
        assert place.find(script="sub/main.py") == ["voirfile.py", "sub/voirfile.py"]

    def test_then_those_above_up_to_the_project_s_root(self, place: Place) -> None:
        place.write("voirfile.py")
        place.write("project/pyproject.toml")
        for name in ("project", "project/a", "project/a/b"):
            place.write(f"{name}/voirfile.py")
        expected = ["project/a/b/voirfile.py", "project/a/voirfile.py", "project/voirfile.py"]
        assert place.find(cwd="project/a/b", script="project/a/b/main.py") == expected

    @pytest.mark.parametrize("mark", [".git/HEAD", ".git", "pyproject.toml"])
    def test_a_root_is_where_git_or_pyproject_stands(self, place: Place, mark: str) -> None:
        place.write("voirfile.py")
        place.write(f"project/{mark}")
        place.write("project/voirfile.py")
        (place.path / "project" / "sub").mkdir()
        assert place.find(cwd="project/sub") == ["project/voirfile.py"]

    def test_outside_of_a_project_nothing_above_counts(self, place: Place) -> None:
        place.write("voirfile.py")
        (place.path / "a").mkdir()
        assert place.find(cwd="a") == []

    def test_at_the_root_itself_nothing_above_counts(self, place: Place) -> None:
        place.write("voirfile.py")
        place.write("project/pyproject.toml")
        place.write("project/voirfile.py")
        assert place.find(cwd="project") == ["project/voirfile.py"]

    def test_the_script_s_project_counts_before_the_current_directory_s(self, place: Place) -> None:
        for name in ("here", "there"):
            place.write(f"{name}/.git/HEAD")
            place.write(f"{name}/voirfile.py")
            (place.path / name / "sub").mkdir()
        found = place.find(cwd="here/sub", script="there/sub/main.py")
        assert found == ["there/voirfile.py", "here/voirfile.py"]

    def test_each_counts_once_whatever_its_path(self, place: Place) -> None:
        place.write("voirfile.py")
        (place.path / "link").symlink_to(place.path)
        assert place.find(script="main.py") == ["voirfile.py"]
        assert place.find(script="link/main.py") == ["voirfile.py"]

    def test_a_directory_of_that_name_is_none(self, place: Place) -> None:
        (place.path / "voirfile.py").mkdir()
        assert place.find() == []

    def test_each_comes_with_the_reason(self, place: Place) -> None:
        place.write("pyproject.toml")
        place.write("a/voirfile.py")
        place.write("a/b/voirfile.py")
        place.write("voirfile.py")
        here = str(place.path)
        found = find([], {}, f"{here}/a", f"{here}/a/b/main.py", place.problems.append)
        assert [one.why for one in found] == [
            "it is in the current directory",
            "it is in the script's directory",
            "it is above the script's directory",
        ]


class TestNamed:
    def test_those_on_the_command_line_are_the_only_ones(self, place: Place) -> None:
        for name in ("voirfile.py", "a.py", "b.py"):
            place.write(name)
        assert place.find("b.py", "a.py", VOIRFILE="voirfile.py") == ["b.py", "a.py"]

    @pytest.mark.parametrize("text", ["a.py b.py", "a.py:b.py", "  a.py\n b.py "])
    def test_the_environment_may_name_several(self, place: Place, text: str) -> None:
        for name in ("voirfile.py", "a.py", "b.py"):
            place.write(name)
        assert place.find(VOIRFILE=text) == ["a.py", "b.py"]

    def test_a_path_with_spaces_may_stand_alone(self, place: Place) -> None:
        place.write("my voirfile.py")
        assert place.find(VOIRFILE="my voirfile.py") == ["my voirfile.py"]

    def test_an_empty_variable_means_none(self, place: Place) -> None:
        place.write("voirfile.py")
        assert place.find(VOIRFILE="") == []

    @pytest.mark.parametrize("how", ["--voirfile", "VOIRFILE"])
    def test_one_that_is_not_there_is_a_usage_error(self, place: Place, how: str) -> None:
        with pytest.raises(UsageError) as caught:
            if how == "VOIRFILE":
                place.find(VOIRFILE="nowhere.py")
            else:
                place.find("nowhere.py")
        assert caught.value.slug == "voirfile-missing"
        assert caught.value.what == f"{how} nowhere.py: there is no such file"

    def test_their_paths_are_absolute(self, place: Place) -> None:
        place.write("a.py")
        (found,) = find(["a.py"], {}, "/", None, place.problems.append)
        assert found.path == str(place.path / "a.py")


class TestTrust:
    @pytest.mark.parametrize("mode", [0o777, 0o1777])
    def test_one_where_everybody_can_write_is_refused_with_a_reason(
        self, place: Place, mode: int
    ) -> None:
        path = place.write("voirfile.py")
        place.path.chmod(mode)
        assert place.find() == []
        assert (place.problem.slug, place.problem.who) == ("voirfile-untrusted", path)
        assert f"(mode {mode:04o})" in place.problem.what
        assert f"--voirfile {path}" in str(place.problem.remedy)

    @only_root
    def test_one_of_somebody_else_s_is_refused(self, place: Place) -> None:
        os.chown(place.write("voirfile.py"), NOBODY, -1)
        assert place.find() == []
        assert "belongs to somebody else" in place.problem.what

    def test_the_others_are_still_loaded(self, place: Place) -> None:
        place.write("voirfile.py")
        place.write("open/voirfile.py")
        (place.path / "open").chmod(0o777)
        assert place.find(script="open/main.py") == ["voirfile.py"]
        assert len(place.problems) == 1

    @pytest.mark.parametrize("how", ["--voirfile", "VOIRFILE"])
    def test_one_that_is_named_is_trusted(self, place: Place, how: str) -> None:
        place.write("voirfile.py")
        place.path.chmod(0o777)
        found = (
            place.find("voirfile.py") if how != "VOIRFILE" else place.find(VOIRFILE="voirfile.py")
        )
        assert (found, place.problems) == (["voirfile.py"], [])


class TestLoading:
    def test_functions_named_instrument_are_instruments(self, place: Place) -> None:
        found = place.instruments(
            """
            def instrument_a(ov): yield ov.phases.init
            def other(ov): ...
            instrument_b = lambda ov: None
            """
        )
        assert [one.__name__ for one in found] == ["instrument_a", "<lambda>"]

    def test_lists_and_dicts_of_instruments_count_nested_too(self, place: Place) -> None:
        found = place.instruments(
            """
            def one(n): return lambda ov: n
            instrument_list = [one(1), (one(2), {"x": one(3)})]
            instrument_dict = {"a": one(4), "b": [one(5)]}
            instrument_set = {one(6)}
            """
        )
        assert [one(None) for one in found] == [1, 2, 3, 4, 5, 6]

    @pytest.mark.parametrize(
        "value", ["[one(1), one(2)]", "{'a': one(1), 'b': {'c': [one(2)]}}", "(one(1), [one(2)])"]
    )
    def test_instruments_that_are_declared_are_the_only_ones(
        self, place: Place, value: str
    ) -> None:
        found = place.instruments(
            f"""
            def one(n): return lambda ov: n
            instrument_x = one(3)
            __instruments__ = {value}
            """
        )
        assert [one(None) for one in found] == [1, 2]

    def test_one_may_be_declared_alone(self, place: Place) -> None:
        assert place.instruments("__instruments__ = print") == [print]

    def test_what_cannot_be_called_is_reported_and_the_rest_is_kept(self, place: Place) -> None:
        found = place.instruments("instrument_x = 3\ninstrument_y = {'a': [print, None]}\n")
        assert found == [print]
        assert [(p.slug, p.what) for p in place.problems] == [
            ("not-an-instrument", self.not_one("instrument_x", "3")),
            ("not-an-instrument", self.not_one("instrument_y['a'][1]", "None")),
        ]

    @staticmethod
    def not_one(name: str, value: str) -> str:
        return f"{name} is {value}, which is not an instrument: it cannot be called"

    def test_what_makes_instruments_is_none(self, place: Place) -> None:
        found = place.instruments(
            """
            from voir.instruments import early_stop, log
            instrument_stop = early_stop
            instrument_more = [log, log("loss")]
            """
        )
        assert [one.__name__ for one in found] == ["log"]
        assert {p.slug for p in place.problems} == {"not-an-instrument"}
        assert [(p.what, (p.remedy or "").partition(":")[0]) for p in place.problems] == [
            (self.maker("instrument_stop", "early_stop"), "Write early_stop(...)"),
            (self.maker("instrument_more[0]", "log"), "Write log(...)"),
        ]

    @staticmethod
    def maker(name: str, value: str) -> str:
        return f"{name} is {value}, which is no instrument: it makes one"

    def test_one_that_is_defined_there_is_for_others_to_call(self, place: Place) -> None:
        found = place.instruments(
            """
            from voir import instrument_definition

            @instrument_definition
            def instrument_wait(ov, seconds): ...

            def instrument_x(ov): ov.require(instrument_wait(3))
            """
        )
        assert [one.__name__ for one in found] == ["instrument_x"]
        assert place.problems == []

    def test_the_decorator_and_modules_of_such_names_are_none(self, place: Place) -> None:
        place.write("instrument_shed.py")
        found = place.instruments(
            """
            import instrument_shed
            from voir import instrument_definition

            @instrument_definition
            def something(ov): ...

            instrument_x = something()
            """
        )
        sys.modules.pop("instrument_shed", None)
        assert [one.__name__ for one in found] == ["something"]
        assert place.problems == []

    def test_one_without_instruments_says_what_it_looked_for(self, place: Place) -> None:
        assert place.instruments("def instrumnt_x(ov): ...\n") == []
        assert place.problem.slug == "voirfile-empty"
        assert "begins with instrument_" in place.problem.what

    def test_one_that_declares_none_has_none(self, place: Place) -> None:
        assert place.instruments("__instruments__ = []\n") == []
        assert place.problems == []

    def test_several_are_modules_of_their_own(self, place: Place) -> None:
        for name in ("a.py", "b.py"):
            place.write(name, "def instrument_x(ov): return __name__, __file__\n")
        assert [one(None) for one in place.load("a.py", "b.py")] == [
            ("__voir__", str(place.path / "a.py")),
            ("__voir1__", str(place.path / "b.py")),
        ]

    def test_dataclasses_in_it_work_with_annotations_that_are_strings(self, place: Place) -> None:
        (instrument,) = place.instruments(
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
        from tests.engine.test_tools import run_with

        run = run_with(instrument, "--count=3")
        assert run.said == [3]
        assert "How many" in run.argparser.format_help()

    def test_modules_beside_it_can_be_imported(self, place: Place) -> None:
        place.write("beside_the_voirfile.py", "answer = 42\n")
        (instrument,) = place.instruments(
            "from beside_the_voirfile import answer\ndef instrument_x(ov): return answer\n"
        )
        del sys.modules["beside_the_voirfile"]
        assert instrument(None) == 42

    def test_the_path_is_as_before_also_when_it_fails(self, place: Place) -> None:
        before = list(sys.path)
        place.instruments("instrument_x = print")
        place.instruments("raise ValueError")
        assert sys.path == before

    def test_what_it_does_to_the_path_stays(self, place: Place) -> None:
        before = list(sys.path)
        place.instruments("import sys\nsys.path.insert(0, '/mine')\ninstrument_x = print")
        after = list(sys.path)
        sys.path[:] = before
        assert after == ["/mine", *before]

    def test_other_encodings_are_read_as_python_would(self, place: Place) -> None:
        text = "# -*- coding: latin-1 -*-\ndef instrument_x(ov): return 'é'\n"
        (instrument,) = place.instruments(text.encode("latin-1"))
        assert instrument(None) == "é"

    def test_future_imports_of_ours_are_not_its_own(self, place: Place) -> None:
        (instrument,) = place.instruments("def instrument_x(ov: int): ...\n")
        assert instrument.__annotations__["ov"] is int


class TestFailing:
    def test_a_syntax_error_is_named_with_its_line_and_text(self, place: Place) -> None:
        path = place.write("voirfile.py", "x = 1\ndef instrument_x(ov:\n")
        assert place.load("voirfile.py") == []
        assert (place.problem.slug, place.problem.who) == ("voirfile-syntax", path)
        assert place.problem.where == f"{path}:2"
        assert "def instrument_x(ov:" in place.problem.what
        assert "--no-voirfile" in str(place.problem.remedy)

    def test_a_syntax_error_in_a_module_that_it_imports_is_placed_at_the_import(
        self, place: Place
    ) -> None:
        place.write("broken_beside.py", "def (\n")
        path = place.write("voirfile.py", "\nimport broken_beside\n")
        place.load("voirfile.py")
        assert (place.problem.slug, place.problem.where) == ("voirfile-failed", f"{path}:2")
        assert "broken_beside.py, line 1" in place.problem.what

    @pytest.mark.parametrize(
        ("text", "said"),
        [
            ("raise RuntimeError('not today')", "it failed: RuntimeError: not today"),
            ("import sys; sys.exit(7)", "it failed: SystemExit: 7"),
            ("import nowhere_at_all", "it failed: ModuleNotFoundError: No module named"),
            (
                "from voir import StopProgram; raise StopProgram",
                "it failed: overseer.boundary.Stop",
            ),
            (b"x = '\x00'", ""),
            (b"x = '\xff'", ""),
        ],
    )
    def test_one_that_fails_is_reported_and_left_out(
        self, place: Place, text: str | bytes, said: str
    ) -> None:
        assert place.instruments(text) == []
        assert place.problem.slug in ("voirfile-failed", "voirfile-syntax")
        assert place.problem.what.startswith(said)
        assert "__voir__" not in sys.modules

    def test_the_others_are_loaded(self, place: Place) -> None:
        place.write("bad.py", "raise ValueError")
        place.write("good.py", "instrument_x = print")
        assert place.load("bad.py", "good.py") == [print]

    def test_what_explains_itself_is_heard(self, place: Place) -> None:
        place.instruments(
            "from voir import configurable\n@configurable\ndef instrument_x(ov): ...\n"
        )
        assert place.problem.slug == "not-configurable"
        assert place.problem.what.startswith("@configurable instrument_x(ov)")
        assert "--no-voirfile" in str(place.problem.remedy)

    def test_what_an_instrument_refuses_is_placed_where_it_is_given(self, place: Place) -> None:
        place.instruments("from voir.instruments import Cpu\n\ninstrument_x = Cpu(seconds=0)\n")
        assert place.problem.slug == "bad-interval"
        assert str(place.problem.where).endswith("voirfile.py:3")

    def test_ctrl_c_is_nobody_s_failure(self, place: Place) -> None:
        with pytest.raises(KeyboardInterrupt):
            place.instruments("raise KeyboardInterrupt")
        assert place.problems == []

    def test_one_that_is_gone_when_it_is_read_is_reported(self, place: Place) -> None:
        assert place.load("nowhere.py") == []
        assert "No such file" in place.problem.what


def test_where_an_instrument_stands_is_part_of_its_name() -> None:
    names = {"__instruments__": {"a": [print, len]}}
    assert collect(names) == [("__instruments__['a'][0]", print), ("__instruments__['a'][1]", len)]
