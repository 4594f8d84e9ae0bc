"""Configuration files: YAML, TOML, and [tool.voir]."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from overseer.engine.settings import configurations, read_config, read_pyproject
from overseer.errors import Problem, UsageError

TABLE = "[tool.voir]\nstop = 1\n"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory that nobody else can write to, with files in it."""
    tmp_path.chmod(0o755)
    (tmp_path / "below").mkdir()
    for name, text in {"pyproject": TABLE, "a": "stop = 2\n", "b": "stop = 3\n"}.items():
        (tmp_path / f"{name}.toml").write_text(text)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("name", "text", "values"),
    [
        ("c.yaml", b"stop: 3\ngpu:\n  poll: 1.5\n", {"stop": 3, "gpu": {"poll": 1.5}}),
        ("c.json", b'{"stop": 3}', {"stop": 3}),
        ("c.toml", b"\xef\xbb\xbfstop = 3\ngpu.poll = 1.5\n", {"stop": 3, "gpu": {"poll": 1.5}}),
        ("c.yaml", b"", {}),
        ("c.toml", b"", {}),
    ],
)
def test_a_file_is_yaml_or_toml(project: Path, name: str, text: bytes, values: Any) -> None:
    (project / name).write_bytes(text)
    assert read_config(name) == values


@pytest.mark.parametrize(
    ("name", "text", "slug", "said"),
    [
        ("c.yaml", b"a: 1\n---\nb: 2\n", "config-malformed", "c.yaml is not YAML: expected a sing"),
        ("c.yaml", b"when: 2026-13-45\n", "config-malformed", "c.yaml is not YAML: month must be "),
        ("c.yaml", b"\xff\xfe\x00", "config-malformed", "c.yaml is not YAML: "),
        ("c.yaml", b"!!python/object/apply:os.abort []\n", "config-malformed", "c.yaml is not Y"),
        ("c.toml", b"stop = \n", "config-malformed", "c.toml is not TOML: "),
        ("c.toml", b"stop = '\xff'\n", "config-malformed", "c.toml is not TOML: "),
        ("c.yaml", b"- stop\n", "config-malformed", "--config c.yaml: it holds a list, not a map"),
        ("nowhere.yaml", None, "config-missing", "--config nowhere.yaml: No such file"),
        (".", None, "config-missing", "--config .: Is a directory"),
        ("a\0b", None, "config-missing", "--config a\0b: embedded null byte"),
    ],
)
def test_a_file_that_cannot_be_used_is_refused_by_its_name(
    project: Path, name: str, text: bytes | None, slug: str, said: str
) -> None:
    if text is not None:
        (project / name).write_bytes(text)
    with pytest.raises(UsageError) as caught:
        read_config(name)
    assert caught.value.slug == slug
    assert caught.value.what.startswith(said)
    assert "\n" not in caught.value.what


def test_yaml_without_pyyaml_is_refused(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "yaml", None)
    (project / "c.yaml").write_text("stop: 3\n")
    with pytest.raises(UsageError, match='pip install "voir-overseer') as caught:
        read_config("c.yaml")
    assert caught.value.slug == "missing-extra"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (TABLE, {"stop": 1}),
        ("[tool]\nvoir = { stop = 3 }\n", {"stop": 3}),
        ('[ tool . "voir" ]\nstop = 3\n', {"stop": 3}),
        *[(text, None) for text in ("[project]\n", "tool = 3 # voir\n", "voir = 3\n", "x = \n")],
        ("[tool]\nvoir = 3\n", "it holds a int, not a mapping"),
        ("tool.voir = [1]\n", "it holds a list, not a mapping"),
        ("[tool.voir\nstop = 3\n", "is not TOML"),
    ],
)
def test_the_nearest_pyproject_counts(project: Path, text: str, found: Any) -> None:
    file = project / "pyproject.toml"
    file.write_text(text)
    if isinstance(found, str):
        with pytest.raises(UsageError, match=found) as caught:
            read_pyproject(str(project))
        assert str(file) in caught.value.what
        return
    expected = None if found is None else (f"{file} [tool.voir]", found)
    assert read_pyproject(str(project / "below")) == expected
    (project / "below/pyproject.toml").write_text("[project]\n")
    assert read_pyproject(str(project / "below")) is None


def test_a_table_that_others_could_have_written_is_not_used(project: Path) -> None:
    project.chmod(0o777)
    problems: list[Problem] = []
    assert read_pyproject(str(project)) is None
    for text in (TABLE, "[project]\nname = 'voir'\n"):
        (project / "pyproject.toml").write_text(text)
        assert read_pyproject(str(project), problems.append) is None
    assert [one.slug for one in problems] == ["config-untrusted"]


@pytest.mark.parametrize("several", [False, True])
def test_a_voirfile_that_a_project_names_must_be_the_users_own(
    project: Path, several: bool, tmp_path: Path
) -> None:
    theirs, mine = tmp_path / "theirs.py", tmp_path / "mine.py"
    for file in (theirs, mine):
        file.touch()
    theirs.chmod(0o666)
    named = [str(theirs), str(mine), "missing.py"] if several else str(theirs)
    (project / "pyproject.toml").write_text(f"[tool.voir]\nvoirfile = {json.dumps(named)}\n")
    problems: list[Problem] = []
    found = read_pyproject(str(project), problems.append)
    kept = [str(mine), "missing.py"] if several else []
    assert found is not None and found[1] == {"voirfile": kept}
    assert [(one.slug, one.who) for one in problems] == [("voirfile-untrusted", str(theirs))]


@pytest.mark.parametrize(
    ("own", "environ", "found"),
    [
        ("--dash --config=b.toml --config=a.toml", {}, [("b.toml", 3), ("a.toml", 2)]),
        ("", {"VOIR_CONFIG": "a.toml b.toml"}, [("a.toml", 2), ("b.toml", 3)]),
        ("--config=b.toml", {"VOIR_CONFIG": "a.toml"}, [("b.toml", 3)]),
        ("", {"VOIR_CONFIG": "none.toml"}, "VOIR_CONFIG none.toml: No such file"),
        ("--config=none.toml", {}, "--config none.toml: No such file"),
        ("", {"VOIR_CONFIG": "'a.toml"}, 'VOIR_CONFIG is "\'a.toml"\n  It must be words'),
    ],
)
def test_files_come_after_the_table_and_the_command_line_names_them_first(
    project: Path, own: str, environ: dict[str, str], found: Any
) -> None:
    every = configurations(own.split(), environ, str(project))
    assert next(every) == (f"{project}/pyproject.toml [tool.voir]", {"stop": 1})
    if isinstance(found, str):
        with pytest.raises(UsageError) as caught:
            next(every)
        assert str(caught.value).startswith(found)
    else:
        assert list(every) == [(name, {"stop": stop}) for name, stop in found]
