"""Whatever is wrong, the message says so once, and the script runs unless it is what is wrong."""

from __future__ import annotations

import io
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.running import Place

HELLO = "print('the script ran')\n"


@pytest.fixture
def place(tmp_path: Path) -> Place:
    place = Place(tmp_path)
    place.write("main.py", HELLO)
    return place


def ran_with_one_message(place: Place, *expected: str, arguments: tuple[str, ...] = ()) -> None:
    done = place.voir("--quiet", *arguments, "main.py")
    assert done.seen == (0, "the script ran\n"), done.stderr
    for part in expected:
        assert done.stderr.count(part) == 1, done.stderr
    assert "Traceback" not in done.stderr


def test_a_voirfile_with_a_syntax_error_is_named_with_its_line(place: Place) -> None:
    place.write("voirfile.py", "def instrument_x(ov):\n    yield ov.phases.init\n  oops oops\n")
    ran_with_one_message(place, "[voirfile-syntax]", "voirfile.py:3", "--no-voirfile")


def test_a_voirfile_that_raises_is_named_with_its_line(place: Place) -> None:
    place.write("voirfile.py", "import os\n\nraise RuntimeError('not today')\n")
    ran_with_one_message(place, "[voirfile-failed]", "RuntimeError: not today", "voirfile.py:3")


def test_a_voirfile_that_exits_does_not_end_the_run(place: Place) -> None:
    place.write("voirfile.py", "import sys\nsys.exit(7)\n")
    ran_with_one_message(place, "[voirfile-failed]", "voirfile.py:2")


@pytest.mark.parametrize("phase", ["init", "parse_args", "load_script", "run_script", "finalize"])
def test_an_instrument_that_raises_in_any_phase_is_switched_off(place: Place, phase: str) -> None:
    place.write(
        "voirfile.py",
        f"""
        def instrument_bad(ov):
            yield ov.phases.{phase}
            raise ValueError("in {phase}")

        def instrument_good(ov):
            yield ov.phases.finalize
            ov.stderr.write("the good one saw the end\\n")
        """,
    )
    ran_with_one_message(
        place, f"ValueError: in {phase}", "voirfile.py:4", "the good one saw the end"
    )


def test_an_instrument_that_raises_at_once_is_switched_off(place: Place) -> None:
    place.write("voirfile.py", "def instrument_bad(ov):\n    raise KeyError('soon')\n")
    ran_with_one_message(place, "KeyError: 'soon'", "voirfile.py:2")


def test_what_fails_when_a_module_is_imported_is_told(place: Place) -> None:
    waits = "from overseer.imports import on_import\non_import('wave', lambda module: 1 / 0)\n"
    place.write("voirfile.py", waits)
    place.write("main.py", f"import wave\n{HELLO}")
    ran_with_one_message(place, "import wave", "ZeroDivisionError", "voirfile.py:2", "[import]")


def test_an_instrument_that_yields_something_else_is_told_what_to_yield(place: Place) -> None:
    place.write("voirfile.py", "def instrument_odd(ov):\n    yield 'load_script'\n")
    ran_with_one_message(place, "[not-a-phase]", "'load_script'", "ov.phases.load_script")


def test_a_subscriber_that_fails_is_named_and_the_others_go_on(place: Place) -> None:
    place.write("main.py", "from voir import give\nfor i in range(5): give(x=i)\nprint('done')\n")
    place.write(
        "voirfile.py",
        """
        def instrument_bad(ov):
            yield ov.phases.init
            ov.given["?x"].map(lambda x: 1 / (x - 2)).subscribe(lambda x: None)

        def instrument_good(ov):
            yield ov.phases.init
            ov.given["?x"].max().subscribe(lambda x: ov.stderr.write(f"max {x}\\n"))
        """,
    )
    done = place.voir("--quiet", "main.py")
    assert done.seen == (0, "done\n")
    assert done.stderr.count("ZeroDivisionError") == 1
    assert "instrument_bad" in done.stderr
    assert "voirfile.py:4" in done.stderr
    assert "max 4" in done.stderr


def test_a_missing_script_is_what_python_says(place: Place) -> None:
    plain, under = place.python("nowhere.py"), place.voir("nowhere.py")
    assert under.status == plain.status == 2
    assert "can't open file" in under.stderr
    assert "No such file or directory" in under.stderr
    assert not place.runs


def test_an_unreadable_script_is_what_python_says(place: Place) -> None:
    (place.path / "main.py").unlink()
    (place.path / "main.py").symlink_to("main.py")  # Also root cannot read a loop of links.
    plain, under = place.python("main.py"), place.voir("main.py")
    assert under.status == plain.status == 2
    assert "Too many levels of symbolic links" in under.stderr


def test_a_directory_without_a_main_is_what_python_says(place: Place) -> None:
    (place.path / "empty").mkdir()
    plain, under = place.python("empty"), place.voir("empty")
    assert under.status == plain.status == 1
    assert "can't find '__main__' module in" in under.stderr


@pytest.mark.parametrize(
    ("arguments", "slug", "hint"),
    [
        (["--dsah", "main.py"], "unknown-option", "--dash"),
        (["--stop"], "option-value", "--stop"),
        (["--stop", "0", "main.py"], "option-value", "--stop"),
        ([], "no-script", "SCRIPT"),
        (["-m"], "no-script", "-m"),
        (["--config", "nowhere.yaml", "main.py"], "config-missing", "nowhere.yaml"),
        (["--config", "bad.yaml", "main.py"], "config-malformed", "bad.yaml"),
        (["--config", "bad.toml", "main.py"], "config-malformed", "bad.toml"),
        (["--config", "list.yaml", "main.py"], "config-malformed", "list"),
        (["--config", "unknown.toml", "main.py"], "config-option", "run-dir"),
        (["--voirfile", "nowhere.py", "main.py"], "voirfile-missing", "nowhere.py"),
        (["--run-dir", "taken", "main.py"], "run-dir-taken", "taken"),
    ],
)
def test_wrong_usage_ends_with_status_2_before_the_script_runs(
    place: Place, arguments: list[str], slug: str, hint: str
) -> None:
    place.write("bad.yaml", "stop: [1, 2\n")
    place.write("bad.toml", "stop = \n")
    place.write("list.yaml", "- stop\n")
    place.write("unknown.toml", "run-dri = 'x'\n")
    place.write("taken/run.json", "{}")
    done = place.voir(*arguments)
    assert done.seen == (2, "")
    assert f"[{slug}]" in done.stderr
    assert hint in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("value", "said"),
    [("three", "not a number"), ("77", "not open"), ("-1", "not open"), ("9" * 30, "not open")],
)
def test_a_data_fd_that_is_none_is_said_once(place: Place, value: str, said: str) -> None:
    place.write("main.py", "from voir import log\nlog(x=1)\nlog(x=2)\nprint('the script ran')\n")
    done = place.voir("main.py", env={"DATA_FD": value})
    assert done.seen == (0, "the script ran\n")
    assert done.stderr.count("[data-fd]") == 1
    assert said in done.stderr


def test_file_descriptor_3_is_left_alone_unless_data_fd_says_so(place: Place) -> None:
    place.write("main.py", "from voir import log\nlog(x=1)\n")
    for env, expected in (({}, b""), ({"DATA_FD": "3"}, b'"x"')):
        reading, writing = os.pipe()
        command = f"exec 3>&{writing}; exec {sys.executable} -m voir main.py"
        done = place.run("bash", "-c", command, pass_fds=[writing], env=env)
        os.close(writing)
        with os.fdopen(reading, "rb") as pipe:
            received = pipe.read()
        assert done.status == 0, done.stderr
        assert expected in received
        assert bool(received) == bool(expected)


@pytest.mark.parametrize("closed", ["0<&-", "1>&-", "2>&-", "0<&- 1>&- 2>&-"])
def test_closed_standard_descriptors_change_nothing(place: Place, closed: str) -> None:
    place.write("main.py", "from voir import give\ngive(x=1)\nopen('proof', 'w').write('ran')\n")
    done = place.run("sh", "-c", f"exec {sys.executable} -m voir main.py {closed}")
    assert done.status == 0, done.stderr
    assert (place.path / "proof").read_text() == "ran"
    assert place.record()["exit_status"] == 0


def test_a_read_only_place_is_said_once_and_the_script_runs(place: Place) -> None:
    place.write("main.py", "from voir import give\nfor i in range(9): give(x=i)\nprint('ran')\n")
    (place.path / "voir-runs").write_text("a file where the directory should be")
    done = place.voir("main.py")
    assert done.seen == (0, "ran\n")
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
    (run,) = place.runs
    assert '"before"' in (run / "metrics.jsonl").read_text()


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
