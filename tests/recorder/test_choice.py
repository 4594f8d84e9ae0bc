"""The recorder in C is used where there is one; else the one in Python, with the reason."""

from __future__ import annotations

import importlib.util
import json
import shutil
import sys

import pytest

from tests.running import Place

from .compiler import FILE, ROOT, SOURCE, compiled

ASKED = """
import json
from overseer.recorder import reason, recorder
recorder.open(64, 64)
recorder.put(1, 32, 0, 1, 0, 1.0, 0, 0)
print(json.dumps([recorder.NAME, reason, len(recorder.drain(1, 0)[0])]))
"""
#: As users' compilers see it.
WARNINGS = ["-Wall", "-Wextra", "-Werror"]


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """The extension, compiled as it is installed, and without a warning."""
    if importlib.util.find_spec("overseer.recorder._recorder") is None:
        pytest.skip("built without a compiler")
    file = tmp_path_factory.mktemp("built") / FILE
    compiled(file, "-O2", *WARNINGS)
    return file


@pytest.fixture
def place(tmp_path):
    """A directory with the recorder's Python files alone, which are imported from there."""
    place = Place(tmp_path)
    for file in [ROOT / "overseer/clock.py", *(ROOT / "overseer/recorder").glob("*.py")]:
        place.write(str(file.relative_to(ROOT)), file.read_text("utf-8"))
    place.write("overseer/__init__.py", "")
    return place


def chosen(place, extension=None, name=FILE, **env):
    """Which recorder is used, which has recorded an event, and why it is not the other."""
    if extension is not None:
        shutil.copy(extension, place.path / "overseer/recorder" / name)
    done = place.python("-c", ASKED, env={"PYTHONPATH": str(place.path), **env})
    assert done.status == 0, done.stderr
    name, reason, recorded = json.loads(done.stdout)
    assert recorded == 32
    return name, reason


@pytest.mark.parametrize(
    ("env", "expected"),
    [
        ({}, ("C", "")),
        ({"VOIR_RECORDER": ""}, ("C", "")),
        ({"VOIR_RECORDER": "python"}, ("Python", "VOIR_RECORDER=python")),
    ],
)
def test_the_extension_is_used_where_it_is_built_unless_the_fallback_is_asked_for(
    place, built, env, expected
):
    assert chosen(place, built, **env) == expected


def test_without_a_usable_extension_the_fallback_is_used_and_the_reason_told(place, built):
    empty, damaged, later = (place.path / name for name in ("empty", "damaged", "later"))
    empty.write_bytes(b"")
    damaged.write_bytes(b"no library\n" * 100)
    text = SOURCE.read_text("utf-8").replace("#define FORMAT 2\n", "#define FORMAT 99\n")
    # At -O0 compilers leave no code out, nor what they warn of.
    compiled(later, "-O0", *WARNINGS, source=place.write("later.c", text))
    other = FILE.replace(f"{sys.version_info.major}{sys.version_info.minor}", "38")
    assert other != FILE
    absent = "the C extension is not there: "
    for extension, name, why in [
        (None, FILE, f"{absent}No module named 'overseer.recorder._recorder'"),
        (built, other, f"{absent}No module named"),
        (empty, FILE, absent),
        (damaged, FILE, absent),
        (later, FILE, "the C extension is of format 99, voir of 2"),
    ]:
        used, reason = chosen(place, extension, name)
        assert (used, reason.startswith(why)) == ("Python", True), reason


def test_a_subinterpreter_has_the_fallback(place, built):
    module = "_interpreters" if sys.version_info >= (3, 13) else "_xxsubinterpreters"
    inner = "from overseer.recorder import recorder; assert recorder.NAME == 'Python'"
    code = f"""
        import {module} as interpreters
        from overseer.recorder import recorder
        made = interpreters.create()
        print(recorder.NAME, interpreters.run_string(made, {inner!r}))
        interpreters.destroy(made)
    """
    place.write("main.py", code)
    shutil.copy(built, place.path / "overseer/recorder")
    done = place.python("main.py", env={"PYTHONPATH": str(place.path)})
    assert done.seen == (0, "C None\n"), done.stderr
