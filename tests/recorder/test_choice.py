"""The recorder in C is used where there is one; else the one in Python, with the reason."""

from __future__ import annotations

import importlib.util
import json
import shutil
import sys
import sysconfig
from pathlib import Path

import pytest

from tests.running import PYTHON, Place

from .compiler import FILE, ROOT, SOURCE, compiled

ASKED = """
import json
from overseer.recorder import reason, recorder
recorder.open(64, 64)
recorder.put(1, 32, 0, 1, 0, 1.0, 0, 0)
recorded = len(recorder.drain(1, 0)[0])
print(json.dumps([recorder.NAME, reason, recorded]))
"""
BUILT = importlib.util.find_spec("overseer.recorder._recorder")
needs_extension = pytest.mark.skipif(BUILT is None, reason="built without a compiler")


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """A directory with the recorder's Python files alone, which are imported from there."""
    place = Place(tmp_path)
    for file in [ROOT / "overseer/clock.py", *(ROOT / "overseer/recorder").glob("*.py")]:
        place.write(str(file.relative_to(ROOT)), file.read_text("utf-8"))
    place.write("overseer/__init__.py", "")
    return place


def extension(place: Place, name: str = FILE) -> Path:
    """Where an extension of that name belongs."""
    return place.path / "overseer/recorder" / name


def built() -> Path:
    """The extension that this interpreter has."""
    assert BUILT is not None
    assert BUILT.origin is not None
    return Path(BUILT.origin)


def chosen(place: Place, **env: str) -> tuple[str, str]:
    """Which recorder is used, after it has recorded an event, and why it is not the other."""
    done = place.run(*PYTHON, "-c", ASKED, env={"PYTHONPATH": str(place.path), **env})
    assert done.status == 0, done.stderr
    name, reason, recorded = json.loads(done.stdout)
    assert recorded == 32
    return name, reason


@needs_extension
def test_the_extension_is_used_where_it_is_built(place: Place) -> None:
    shutil.copy(built(), extension(place))
    assert chosen(place) == ("C", "")


@needs_extension
def test_the_environment_can_ask_for_the_fallback(place: Place) -> None:
    shutil.copy(built(), extension(place))
    assert chosen(place, VOIR_RECORDER="python") == ("Python", "VOIR_RECORDER=python")
    assert chosen(place, VOIR_RECORDER="") == ("C", "")


def test_without_an_extension_the_fallback_is_used(place: Place) -> None:
    name, reason = chosen(place)
    assert name == "Python"
    assert reason == ("the C extension is not there: No module named 'overseer.recorder._recorder'")


@needs_extension
def test_an_extension_for_another_python_is_ignored(place: Place) -> None:
    mine = f"{sys.version_info.major}{sys.version_info.minor}"
    suffix = str(sysconfig.get_config_var("EXT_SUFFIX"))
    assert mine in suffix
    shutil.copy(built(), extension(place, f"_recorder{suffix.replace(mine, '38')}"))
    name, reason = chosen(place)
    assert name == "Python"
    assert "the C extension is not there" in reason


def test_an_extension_of_another_format_is_ignored(place: Place, tmp_path: Path) -> None:
    text = SOURCE.read_text("utf-8")
    assert "#define FORMAT 1\n" in text
    source = place.write("later.c", text.replace("#define FORMAT 1\n", "#define FORMAT 99\n"))
    compiled(extension(place), "-O0", source=source)
    name, reason = chosen(place)
    assert name == "Python"
    assert reason == "the C extension is of format 99, voir of 1"


@pytest.mark.parametrize("data", [b"", b"no library\n" * 100], ids=["empty", "something else"])
def test_a_damaged_extension_is_ignored(place: Place, data: bytes) -> None:
    extension(place).write_bytes(data)
    name, reason = chosen(place)
    assert name == "Python"
    assert reason.startswith("the C extension is not there: ")


@needs_extension
def test_a_subinterpreter_has_the_fallback(place: Place) -> None:
    shutil.copy(built(), extension(place))
    module = "_interpreters" if sys.version_info >= (3, 13) else "_xxsubinterpreters"
    inner = "from overseer.recorder import recorder; assert recorder.NAME == 'Python'"
    code = f"""
        import {module} as interpreters
        from overseer.recorder import recorder
        assert recorder.NAME == "C"
        made = interpreters.create()
        print(interpreters.run_string(made, {inner!r}))
        interpreters.destroy(made)
    """
    place.write("main.py", code)
    done = place.run(*PYTHON, "main.py", env={"PYTHONPATH": str(place.path)})
    assert done.seen == (0, "None\n"), done.stderr
