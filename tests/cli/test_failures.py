"""Whatever is wrong, the message says so once, and the script runs unless it is what is wrong."""

from __future__ import annotations

import io
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.running import VOIR, Place

GIVES = "from voir import give\nfor i in range(5): give(x=i)\nprint('the script ran')\n"


@pytest.fixture
def place(tmp_path: Path) -> Place:
    place = Place(tmp_path)
    place.write("main.py", "print('the script ran')\n")
    return place


def instrument(body: str, phase: str = "init", name: str = "bad") -> str:
    return f"def instrument_{name}(ov):\n    yield ov.phases.{phase}\n    {body}\n"


GOOD = instrument("ov.stderr.write('the good one saw the end\\n')", "finalize", "good")
LISTENS = instrument("ov.given['?x'].max().subscribe(lambda x: ov.stderr.write(f'max {x}\\n'))")
#: A voirfile, the script if it matters, and what is said once.
SAID = {
    "a voirfile with a syntax error": (
        "def f():\n    pass\n  oops oops\n", None,
        ["[voirfile-syntax]", "voirfile.py:3", "--no-voirfile"],
    ),
    "a voirfile that raises": (
        "import os\n\nraise RuntimeError('not today')\n", None,
        ["[voirfile-failed]", "RuntimeError: not today", "voirfile.py:3"],
    ),
    "a voirfile that exits": (
        "import sys\nsys.exit(7)\n", None, ["[voirfile-failed]", "voirfile.py:2"]
    ),
    "an instrument that raises at once": (
        "def instrument_bad(ov):\n    raise KeyError('soon')\n", None,
        ["KeyError: 'soon'", "voirfile.py:2"],
    ),
    "a selector that is no string": (
        "def instrument_bad(ov):\n    ov.probe(print).give()\n", None, ['ov.probe("//print > x")']
    ),
    "what fails when a module is imported": (
        "from overseer.imports import on_import\non_import('wave', lambda module: 1 / 0)\n",
        "import wave\nprint('the script ran')\n",
        ["import wave", "ZeroDivisionError", "voirfile.py:2", "[import]"],
    ),
    "an instrument that yields something else": (
        "def instrument_odd(ov):\n    yield 'load_script'\n", None,
        ["[not-a-phase]", "'load_script'", "ov.phases.load_script"],
    ),
    "a subscriber": (
        instrument("ov.given['?x'].map(lambda x: 1 / (x - 2)).subscribe(print)")
        .replace("(print)", "(lambda x: None)") + LISTENS.replace("bad", "good"), GIVES,
        ["ZeroDivisionError", "instrument_bad", "voirfile.py:3", "max 4"],
    ),
    **{
        f"an instrument in {phase}": (
            instrument(f"raise ValueError('in {phase}')", phase) + GOOD, None,
            [f"ValueError: in {phase}", "voirfile.py:3", "the good one saw the end"],
        )
        for phase in ("init", "parse_args", "load_script", "run_script", "finalize")
    },
}  # fmt: skip


@pytest.mark.parametrize("name", SAID)
def test_what_fails_is_named_once_with_its_line_and_the_rest_goes_on(
    place: Place, name: str
) -> None:
    voirfile, script, expected = SAID[name]
    place.write("voirfile.py", voirfile)
    if script is not None:
        place.write("main.py", script)
    done = place.voir("--quiet", "main.py")
    assert done.seen == (0, "the script ran\n"), done.stderr
    assert {part: done.stderr.count(part) for part in expected} == dict.fromkeys(expected, 1)
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("nowhere.py", "No such file or directory"),
        ("loop.py", "Too many levels of symbolic links"),  # Which stop root, too.
        ("empty", "can't find '__main__' module in"),
    ],
)
def test_a_script_that_cannot_be_run_is_what_python_says(
    place: Place, script: str, said: str
) -> None:
    (place.path / "empty").mkdir()
    (place.path / "loop.py").symlink_to("loop.py")
    plain, under = place.python(script), place.voir(script)
    assert under.status == plain.status != 0
    assert said in under.stderr
    assert not place.runs


@pytest.mark.parametrize(
    ("arguments", "slug", "hint"),
    [
        ("--dsah main.py", "unknown-option", "--dash"),
        ("--stop", "usage", "--stop"),
        ("--stop 0 main.py", "option-value", "--stop"),
        ("", "no-script", "SCRIPT"),
        ("-m", "no-script", "-m"),
        ("--config nowhere.yaml main.py", "config-missing", "nowhere.yaml"),
        ("--config bad.yaml main.py", "config-malformed", "bad.yaml"),
        ("--config list.yaml main.py", "config-malformed", "list"),
        ("--config unknown.toml main.py", "config-option", "run-dir"),
        ("--run-dir taken main.py", "run-dir-taken", "taken"),
        ("--completion fish", "usage", "bash"),
    ],
)
def test_wrong_usage_ends_with_status_2_before_the_script_runs(
    place: Place, arguments: str, slug: str, hint: str
) -> None:
    files = {"bad.yaml": "stop: [1, 2\n", "list.yaml": "- stop\n", "taken/run.json": "{}"}
    files["unknown.toml"] = "run-dri = 'x'\n"
    for name, text in files.items():
        place.write(name, text)
    done = place.voir(*arguments.split())
    assert done.seen == (2, "")
    assert f"[{slug}]" in done.stderr
    assert hint in done.stderr
    assert "Traceback" not in done.stderr


def test_help_names_the_option_whose_text_cannot_be_shown(place: Place) -> None:
    place.write("voirfile.py", instrument("ov.argparser.add_argument('--share', help='100%')"))
    done = place.voir("--help")
    assert done.seen == (2, "")
    assert "[option-help]" in done.stderr and "--share" in done.stderr


def test_a_data_fd_that_is_none_is_said_once(place: Place) -> None:
    place.write("main.py", "from voir import log\nlog(x=1)\nlog(x=2)\nprint('the script ran')\n")
    done = place.voir("main.py", env={"DATA_FD": "77"})
    assert done.seen == (0, "the script ran\n")
    assert done.stderr.count("[data-fd]") == 1


@pytest.mark.parametrize(("env", "said"), [({}, False), ({"DATA_FD": "3"}, True)])
def test_file_descriptor_3_is_left_alone_unless_data_fd_says_so(
    place: Place, env: dict[str, str], said: bool
) -> None:
    place.write("main.py", "from voir import log\nlog(x=1)\n")
    command = f"exec 3>received; exec {sys.executable} -m voir main.py"
    done = place.run("bash", "-c", command, env=env)
    assert done.status == 0, done.stderr
    received = (place.path / "received").read_text()
    assert ('"x"' in received, bool(received)) == (said, said)


@pytest.mark.parametrize("closed", ["0<&-", "1>&-", "2>&-", "0<&- 1>&- 2>&-"])
def test_closed_standard_descriptors_change_nothing(place: Place, closed: str) -> None:
    place.write("main.py", "from voir import give\ngive(x=1)\nopen('proof', 'w').write('ran')\n")
    done = place.run("sh", "-c", f"exec {sys.executable} -m voir main.py {closed}")
    assert done.status == 0, done.stderr
    assert (place.path / "proof").read_text() == "ran"
    assert place.record()["exit_status"] == 0


def test_a_read_only_place_is_said_once_and_the_script_runs(place: Place) -> None:
    place.write("main.py", GIVES)
    (place.path / "voir-runs").write_text("a file where the directory should be")
    done = place.voir("main.py")
    assert done.seen == (0, "the script ran\n")
    assert done.stderr.count("[record-unwritable]") == 1


def test_a_full_disk_is_said_once_and_the_script_runs(place: Place) -> None:
    place.write(
        "main.py",
        """
        import resource, signal, time
        from voir import log
        log(before=1)
        time.sleep(1.5)  # It is written once a second.
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))
        for i in range(50): log(x=i)
        print("ran")
        """,
    )
    done = place.voir("main.py")
    assert done.seen == (0, "ran\n")
    assert "metrics.jsonl" in done.stderr
    assert done.stderr.count("[record-") <= 2
    assert '"before"' in (place.runs[0] / "metrics.jsonl").read_text()


def test_an_instrument_that_holds_the_script_up_is_named(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    from overseer import Overseer
    from overseer.engine import overseer

    monkeypatch.setattr(overseer, "PATIENCE", 0.1)
    told = io.StringIO()

    def instrument_slow(ov: Any) -> Iterator[Any]:
        yield ov.phases.parse_args
        while "holds the script up" not in told.getvalue():
            time.sleep(0.01)

    ov = Overseer([instrument_slow], stderr=told)
    ov.watch_instruments()
    ov(["--quiet", "--no-record", str(place.path / "main.py")])
    assert "instrument_slow: it holds the script up" in told.getvalue()
    assert "test_failures.py:" in told.getvalue()
    assert [state["state"] for state in ov.states.values()] == ["ok"]


@pytest.mark.parametrize("flags", [(), ("--trace",), ("--dash",)])
@pytest.mark.parametrize(
    "loss",
    [
        "import sys; sys.modules.clear()",
        "import sys; [sys.modules.pop(n) for n in [*sys.modules] if n not in ('sys', 'builtins')]",
        "import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (3, 3))",
    ],
)
def test_what_the_script_has_taken_away_costs_it_nothing(
    place: Place, loss: str, flags: tuple[str, ...]
) -> None:
    place.write("main.py", f"{loss}\nprint('ran')\n")
    done = place.voir(*flags, "main.py")
    assert done.seen == (0, "ran\n"), done.stderr
    assert "Traceback" not in done.stderr
    assert "voir: " in done.stderr


def test_a_deleted_working_directory_does_not_keep_the_script_from_running(place: Place) -> None:
    (place.path / "gone").mkdir()
    # A deleted directory is no place to import from, so that the checkout has to be named.
    path = {"PYTHONPATH": str(Path(__file__).parents[2])}
    command = f"cd gone && rmdir ../gone && exec {' '.join(VOIR)} {place.path}/main.py"
    done = place.run("sh", "-c", command, env=path)
    assert done.seen == (0, "the script ran\n"), done.stderr
