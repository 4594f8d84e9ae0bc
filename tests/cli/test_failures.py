"""Whatever is wrong, the message says so once, and the script runs unless it is what is wrong."""

from __future__ import annotations

import io
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from overseer import Overseer
from overseer.engine import handle
from tests.running import VOIR, Place

COMMAND = " ".join(VOIR)
RUNS = "print('the script ran')\n"
GIVES = f"from voir import give\nfor i in range(5): give(x=i)\n{RUNS}"
LOGS = f"from voir import log\nlog(x=1)\nlog(x=2)\n{RUNS}"


@pytest.fixture
def place(tmp_path: Path) -> Place:
    place = Place(tmp_path)
    place.write("main.py", RUNS)
    return place


def instrument(body: str, phase: str = "init", name: str = "bad") -> str:
    return f"def instrument_{name}(ov):\n    yield ov.phases.{phase}\n    {body}\n"


GOOD = instrument("ov.stderr.write('the good one saw the end\\n')", "finalize", "good")
DIVIDES = instrument("ov.given['?x'].map(lambda x: 1 / (x - 2)).subscribe(lambda x: None)")
MOST = "ov.given['?x'].max().subscribe(lambda x: ov.stderr.write(f'max {x}\\n'))"
ON_IMPORT = "from overseer.imports import on_import\non_import('wave', lambda module: 1 / 0)\n"
FAILS = "ValueError: no", "voirfile.py:3", "the good one saw the end"
#: A voirfile, what the script does first, and what is said once.
SAID = {
    "a syntax error": ("\n\n  oops oops\n", "", ["[voirfile-syntax]", "voirfile.py:3"]),
    "a voirfile that raises": (
        "\n\nraise RuntimeError('not today')", "",
        ["[voirfile-failed]", "RuntimeError: not today", "voirfile.py:3"]),
    "a voirfile that exits": (
        "import sys\nsys.exit(7)\n", "", ["[voirfile-failed]", "voirfile.py:2"]),
    "an instrument that raises at once": (
        "def instrument_bad(ov):\n    raise KeyError('soon')\n" + GOOD, "",
        ["KeyError: 'soon'", "voirfile.py:2", FAILS[2]]),
    "a selector that is no string": (
        "def instrument_bad(ov):\n    ov.probe(print).give()\n", "", ['ov.probe("//print > x")']),
    "what fails when a module is imported": (
        ON_IMPORT, "import wave\n", ["ZeroDivisionError", "voirfile.py:2", "[import]"]),
    "what is yielded is no phase": (
        "def instrument_odd(ov):\n    yield 'soon'\n", "", ["[not-a-phase]", "'soon'"]),
    "a subscriber": (
        DIVIDES + instrument(MOST, name="good"), GIVES.removesuffix(RUNS),
        ["ZeroDivisionError", "instrument_bad", "voirfile.py:3", "max 4"]),
    **{f"an instrument in {phase}": (instrument("raise ValueError('no')", phase) + GOOD, "", FAILS)
       for phase in ("init", "parse_args", "load_script", "run_script", "finalize")},
}  # fmt: skip


@pytest.mark.parametrize("name", SAID)
def test_what_fails_is_named_once_with_its_line_and_the_rest_goes_on(
    place: Place, name: str
) -> None:
    voirfile, script, expected = SAID[name]
    place.write("voirfile.py", voirfile)
    place.write("main.py", script + RUNS)
    done = place.voir("--quiet", "main.py")
    assert done.seen == (0, "the script ran\n"), done.stderr
    assert {part: done.stderr.count(part) for part in expected} == dict.fromkeys(expected, 1)
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("script", "said"),
    [("nowhere.py", "No such file or directory"), ("loop.py", "Too many levels of symbolic links"),
     ("empty", "can't find '__main__' module in")],
)  # fmt: skip
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
        ("--stop", "usage", "--stop"),
        ("--stop 0 main.py", "option-value", "--stop"),
        ("-m", "no-script", "-m"),
        ("--config bad.yaml main.py", "config-malformed", "bad.yaml"),
        ("--config list.yaml main.py", "config-malformed", "list"),
        ("--completion fish", "usage", "bash"),
    ],
)
def test_wrong_usage_ends_with_status_2_before_the_script_runs(
    place: Place, arguments: str, slug: str, hint: str
) -> None:
    place.write("bad.yaml", "stop: [1, 2\n")
    place.write("list.yaml", "- stop\n")
    done = place.voir(*arguments.split())
    assert done.seen == (2, "")
    assert f"[{slug}]" in done.stderr and hint in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("env", "received", "said"), [({}, False, 0), ({"DATA_FD": "3"}, True, 0),
                                  ({"DATA_FD": "77"}, False, 1)]
)  # fmt: skip
def test_a_file_descriptor_is_written_to_only_where_data_fd_says_so(
    place: Place, env: dict[str, str], received: bool, said: int
) -> None:
    place.write("main.py", LOGS)
    done = place.run("bash", "-c", f"exec 3>received; exec {COMMAND} main.py", env=env)
    assert done.seen == (0, "the script ran\n")
    assert done.stderr.count("[data-fd]") == said  # Once, where it is no file descriptor.
    text = (place.path / "received").read_text()
    assert ('"x"' in text, bool(text)) == (received, received)


@pytest.mark.parametrize("closed", ["0<&-", "1>&-", "2>&-", "0<&- 1>&- 2>&-"])
def test_closed_standard_descriptors_change_nothing(place: Place, closed: str) -> None:
    place.write("main.py", "from voir import give\ngive(x=1)\nopen('proof', 'w').write('ran')\n")
    done = place.run("sh", "-c", f"exec {COMMAND} main.py {closed}")
    assert done.status == 0, done.stderr
    assert (place.path / "proof").read_text() == "ran"
    assert place.record()["exit_status"] == 0


def test_a_full_disk_is_said_once_and_the_script_runs(place: Place) -> None:
    full = """
        import resource, signal, time
        from voir import log
        log(before=1)
        time.sleep(1.5)  # It is written once a second.
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))
        for i in range(50): log(x=i)
        print("ran")
        """
    place.write("main.py", full)
    done = place.voir("main.py")
    assert done.seen == (0, "ran\n")
    assert "metrics.jsonl" in done.stderr
    assert done.stderr.count("[record-") <= 2
    assert '"before"' in (place.runs[0] / "metrics.jsonl").read_text()


def test_an_instrument_that_holds_the_script_up_is_named(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(handle, "SLOW_SECONDS", 0.1)
    told = io.StringIO()

    def instrument_slow(ov: Any) -> Iterator[Any]:
        yield ov.phases.parse_args
        while "blocks the script" not in told.getvalue():
            time.sleep(0.01)

    ov = Overseer([instrument_slow], stderr=told)
    ov.watch_instruments()
    ov(["--quiet", "--no-record", str(place.path / "main.py")])
    assert "instrument_slow: it blocks the script" in told.getvalue()
    assert "test_failures.py:" in told.getvalue()
    assert [state["state"] for state in ov.states.values()] == ["ok"]


LOSSES = (
    "import sys; sys.modules.clear()",
    "import sys; [sys.modules.pop(n) for n in [*sys.modules] if n not in ('sys', 'builtins')]",
    "import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (3, 3))",
)


@pytest.mark.parametrize("flags", [(), ("--trace",), ("--dash",)])
@pytest.mark.parametrize("loss", LOSSES)
def test_what_the_script_has_taken_away_costs_it_nothing(
    place: Place, loss: str, flags: tuple[str, ...]
) -> None:
    place.write("main.py", f"{loss}\nprint('ran')\n")
    done = place.voir(*flags, "main.py")
    assert done.seen == (0, "ran\n"), done.stderr
    assert "Traceback" not in done.stderr
    assert "voir: " in done.stderr
