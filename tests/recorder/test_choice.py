"""The recorder in C is used where there is one; else the one in Python, with the reason."""

from __future__ import annotations

import importlib.util
import json
import shutil
import sys

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
def place(tmp_path):
    """A directory with the recorder's Python files alone, which are imported from there."""
    place = Place(tmp_path)
    for file in [ROOT / "overseer/clock.py", *(ROOT / "overseer/recorder").glob("*.py")]:
        place.write(str(file.relative_to(ROOT)), file.read_text("utf-8"))
    place.write("overseer/__init__.py", "")
    return place


def extension(place, name=FILE):
    """Where an extension of that name belongs."""
    return place.path / "overseer/recorder" / name


def built():
    """The extension that this interpreter has."""
    return BUILT.origin


def chosen(place, **env):
    """Which recorder is used, after it has recorded an event, and why it is not the other."""
    done = place.run(*PYTHON, "-c", ASKED, env={"PYTHONPATH": str(place.path), **env})
    assert done.status == 0, done.stderr
    *found, recorded = json.loads(done.stdout)
    assert recorded == 32
    return tuple(found)


@needs_extension
@pytest.mark.parametrize(
    ("asked", "expected"),
    [({}, "C"), ({"VOIR_RECORDER": ""}, "C"), ({"VOIR_RECORDER": "python"}, "Python")],
)
def test_the_extension_is_used_where_it_is_built_unless_the_fallback_is_asked_for(
    place, asked, expected
):
    shutil.copy(built(), extension(place))
    reason = "VOIR_RECORDER=python" if expected == "Python" else ""
    assert chosen(place, **asked) == (expected, reason)


@pytest.mark.parametrize("there", ["nothing", "another python's", "format 99", "empty", "damaged"])
def test_without_a_usable_extension_the_fallback_is_used_and_the_reason_told(place, there):
    why = "the C extension is not there: "
    if there == "nothing":
        why += "No module named 'overseer.recorder._recorder'"
    elif there == "another python's":
        mine = f"{sys.version_info.major}{sys.version_info.minor}"
        assert mine in FILE
        shutil.copy(
            SOURCE if BUILT is None else built(), extension(place, FILE.replace(mine, "38"))
        )
    elif there == "format 99":
        text = SOURCE.read_text("utf-8")
        assert "#define FORMAT 1\n" in text
        source = place.write("later.c", text.replace("#define FORMAT 1\n", "#define FORMAT 99\n"))
        compiled(extension(place), "-O0", source=source)
        why = "the C extension is of format 99, voir of 1"
    else:
        extension(place).write_bytes(b"no library\n" * 100 if there == "damaged" else b"")
    name, reason = chosen(place)
    assert (name, reason.startswith(why)) == ("Python", True), reason


@needs_extension
def test_a_subinterpreter_has_the_fallback(place):
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
