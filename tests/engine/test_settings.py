"""Configuration files: YAML, TOML, and [tool.voir]."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest

from overseer.engine.settings import configurations, read_config, read_pyproject
from overseer.errors import Problem, UsageError


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A directory that nobody else can write to."""
    tmp_path.chmod(0o755)
    return tmp_path


def written(directory: Path, name: str, text: str | bytes) -> str:
    path = directory / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return str(path)


class TestReading:
    @pytest.mark.parametrize(
        ("name", "text"),
        [
            ("c.yaml", "stop: 3\ngpu:\n  poll: 1.5\n"),
            ("c.yml", "stop: 3\ngpu: {poll: 1.5}\n"),
            ("c.json", '{"stop": 3, "gpu": {"poll": 1.5}}'),
            ("c.toml", "stop = 3\ngpu.poll = 1.5\n"),
            ("bom.toml", b"\xef\xbb\xbfstop = 3\n[gpu]\npoll = 1.5\n"),
        ],
    )
    def test_yaml_and_toml(self, project: Path, name: str, text: str | bytes) -> None:
        assert read_config(written(project, name, text)) == {"stop": 3, "gpu": {"poll": 1.5}}

    @pytest.mark.parametrize("name", ["c.yaml", "c.toml"])
    def test_an_empty_file_sets_nothing(self, project: Path, name: str) -> None:
        assert read_config(written(project, name, "")) == {}

    @pytest.mark.parametrize(
        ("name", "text", "said"),
        [
            ("c.yaml", "stop: [1, 2\n", "is not YAML"),
            ("c.yaml", "a: 1\n---\nb: 2\n", "is not YAML"),
            ("c.yaml", "when: 2026-13-45\n", "is not YAML"),
            ("c.yaml", b"\xff\xfe\x00", "is not YAML"),
            ("c.yaml", "!!python/object/apply:os.abort []\n", "is not YAML"),
            ("c.toml", "stop = \n", "is not TOML"),
            ("c.toml", b"stop = '\xff'\n", "is not TOML"),
            ("c.yaml", "- stop\n", "it holds a list, not a mapping"),
            ("c.yaml", "stop\n", "it holds a str, not a mapping"),
        ],
    )
    def test_what_is_malformed_is_said_with_the_file(
        self, project: Path, name: str, text: str | bytes, said: str
    ) -> None:
        path = written(project, name, text)
        with pytest.raises(UsageError) as caught:
            read_config(path)
        assert caught.value.slug == "config-malformed"
        assert path in caught.value.what
        assert said in caught.value.what
        assert "\n" not in caught.value.what

    @pytest.mark.parametrize(
        ("name", "said"),
        [("nowhere.yaml", "No such file"), (".", "Is a directory"), ("a\0b", "null")],
    )
    def test_what_is_missing_is_said_with_the_file(
        self, project: Path, name: str, said: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.chdir(project)
        with pytest.raises(UsageError) as caught:
            read_config(name)
        assert caught.value.slug == "config-missing"
        assert f"--config {name}" in caught.value.what
        assert said in caught.value.what

    def test_yaml_without_pyyaml_says_what_to_install(
        self, project: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setitem(sys.modules, "yaml", None)
        with pytest.raises(UsageError) as caught:
            read_config(written(project, "c.yaml", "stop: 3\n"))
        assert caught.value.slug == "missing-extra"
        assert 'pip install "voir-overseer[yaml]"' in str(caught.value.remedy)


class TestPyproject:
    def test_its_table_is_found_from_a_directory_below(self, project: Path) -> None:
        path = written(project, "pyproject.toml", "[tool.voir]\nstop = 3\n")
        (project / "a" / "b").mkdir(parents=True)
        found = read_pyproject(str(project / "a" / "b"))
        assert found == (f"{path} [tool.voir]", {"stop": 3})

    @pytest.mark.parametrize(
        "text", ["[tool]\nvoir = { stop = 3 }\n", '[ tool . "voir" ]\nstop = 3\n']
    )
    def test_it_may_be_written_in_any_way(self, project: Path, text: str) -> None:
        written(project, "pyproject.toml", text)
        found = read_pyproject(str(project))
        assert found is not None
        assert found[1] == {"stop": 3}

    @pytest.mark.parametrize("text", ["[project]\n", "tool = 3 # voir\n", "voir = 3\n", "x = \n"])
    def test_a_file_without_one_sets_nothing(self, project: Path, text: str) -> None:
        written(project, "pyproject.toml", text)
        assert read_pyproject(str(project)) is None

    def test_the_nearest_file_counts_also_when_it_has_none(self, project: Path) -> None:
        written(project, "pyproject.toml", "[tool.voir]\nstop = 3\n")
        (project / "a").mkdir()
        written(project / "a", "pyproject.toml", "[project]\n")
        assert read_pyproject(str(project / "a")) is None

    @pytest.mark.parametrize("text", ["[tool]\nvoir = 3\n", "tool.voir = [1]\n"])
    def test_one_that_is_no_table_is_malformed(self, project: Path, text: str) -> None:
        path = written(project, "pyproject.toml", text)
        with pytest.raises(UsageError, match="not a mapping") as caught:
            read_pyproject(str(project))
        assert path in caught.value.what

    def test_a_malformed_file_that_speaks_of_voir_is_named(self, project: Path) -> None:
        written(project, "pyproject.toml", "[tool.voir\nstop = 3\n")
        with pytest.raises(UsageError, match="is not TOML"):
            read_pyproject(str(project))

    def test_one_that_others_can_write_to_is_not_used(self, project: Path) -> None:
        path = written(project, "pyproject.toml", "[tool.voir]\nvoirfile = 'evil.py'\n")
        project.chmod(0o777)
        problems: list[Problem] = []
        assert read_pyproject(str(project), problems.append) is None
        assert [(p.slug, p.who) for p in problems] == [("config-untrusted", path)]
        assert "can be written by others" in problems[0].what
        assert read_pyproject(str(project)) is None

    def test_one_that_others_can_write_to_but_that_sets_nothing_is_no_matter(
        self, project: Path
    ) -> None:
        written(project, "pyproject.toml", "[project]\nname = 'voir'\n")
        project.chmod(0o777)
        problems: list[Problem] = []
        assert read_pyproject(str(project), problems.append) is None
        assert problems == []


class TestAll:
    def sources(self, project: Path, *own: str, **environ: str) -> list[tuple[str, Any]]:
        found = configurations(list(own), environ, str(project))
        return [(os.path.basename(source), values) for source, values in found]

    @pytest.fixture
    def files(self, project: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
        written(project, "pyproject.toml", "[tool.voir]\nstop = 1\n")
        written(project, "a.toml", "stop = 2\n")
        written(project, "b.toml", "stop = 3\n")
        monkeypatch.chdir(project)
        return project

    def test_they_come_in_the_order_in_which_they_win(self, files: Path) -> None:
        found = self.sources(files, "--dash", "--config", "b.toml", "--config=a.toml")
        assert found == [
            ("pyproject.toml [tool.voir]", {"stop": 1}),
            ("b.toml", {"stop": 3}),
            ("a.toml", {"stop": 2}),
        ]

    def test_the_environment_names_files_unless_the_command_line_does(self, files: Path) -> None:
        assert self.sources(files, VOIR_CONFIG="a.toml b.toml")[1:] == [
            ("a.toml", {"stop": 2}),
            ("b.toml", {"stop": 3}),
        ]
        found = self.sources(files, "--config=b.toml", VOIR_CONFIG="a.toml")
        assert found[1:] == [("b.toml", {"stop": 3})]

    def test_a_file_that_is_missing_is_told_with_what_names_it(self, files: Path) -> None:
        with pytest.raises(UsageError, match=r"^VOIR_CONFIG none.toml: No such file"):
            self.sources(files, VOIR_CONFIG="none.toml")
        with pytest.raises(UsageError, match=r"^--config none.toml: No such file"):
            self.sources(files, "--config=none.toml")

    def test_a_quotation_without_an_end_is_a_usage_error(self, files: Path) -> None:
        with pytest.raises(UsageError, match="VOIR_CONFIG is"):
            self.sources(files, VOIR_CONFIG="'a.toml")

    def test_without_any_there_is_none(self, project: Path) -> None:
        assert self.sources(project) == []
