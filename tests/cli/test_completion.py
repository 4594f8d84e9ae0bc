"""The shell completes options, those of voirfiles included; help is shown whatever they do."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from overseer.cli import completing
from overseer.engine.completion import candidates, script
from overseer.engine.options import OptionParser, add_options
from tests.running import Place, environment

REDUCTIONS = """
    def instrument_reductions(ov):
        yield ov.phases.init
        ov.argparser.add_argument("--mine", choices=("one", "two"), help="an option of my own")
        ov.given["?loss"].min().print("Minimum loss: {}")
        ov.given["?loss"].average() >> ov.log
        ov.given["?loss"].last().fail_if_empty()
        ov.listen_log(lambda event: event["$event"] == "phase" or print(event))
"""


@pytest.fixture
def place(tmp_path: Path) -> Place:
    place = Place(tmp_path)
    place.write("voirfile.py", REDUCTIONS)
    place.write("main.py", "print('main')\n")
    return place


@pytest.fixture
def parser() -> OptionParser:
    parser = OptionParser(environ={})
    add_options(parser)
    parser.add_argument("--mine", choices=("one", "two"))
    return parser


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["--vo"], ["--voirfile"]),
        (["--no-"], ["--no-record", "--no-voirfile"]),
        (["-"], None),
        ([""], []),
        ([], []),
        (["--mine", ""], ["one", "two"]),
        (["--mine", "t"], ["two"]),
        (["--mine", "one", "--vo"], ["--voirfile"]),
        (["--completion", ""], ["bash", "zsh"]),
        (["--voirfile", "voi"], []),
        (["--quiet", "main.py", "--vo"], []),
        (["-m", "module", "--vo"], []),
        (["--", "--vo"], []),
        (["--unknown", "--vo"], ["--voirfile"]),
    ],
)
def test_what_may_come_next(
    parser: OptionParser, words: list[str], expected: list[str] | None
) -> None:
    found = candidates(parser, words)
    assert found == (sorted(parser._option_string_actions) if expected is None else expected)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["co"], ["compare"]),
        (["s"], ["show", "sql"]),
        (["ma"], None),  # A file here, or no command at all.
        (["d"], None),
        ([""], None),
        ([], None),
        (["--quiet", "co"], None),
        (["compare", ""], []),
        (["compare", "a", "b", "--"], ["--help", "--json", "--threshold"]),
        (["sql", "run", "--t"], ["--to"]),
        (["trace", ""], ["summary", "view", "export"]),
        (["trace", "v"], ["view"]),
        (["trace", "view", "--no"], ["--no-browser"]),
        (["trace", "summary", ""], []),
        (["trace", "export", "run", "--to", "j"], ["json"]),
        (["init", "--f"], ["--force"]),
        (["doctor", "-"], ["--help", "-h"]),
        (["show", "--"], ["--every", "--help", "--watch"]),
    ],
)
def test_commands_and_their_options_are_completed_too(
    words: list[str],
    expected: list[str] | None,
    place: Place,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(place.path)
    place.write("data", "")
    assert completing.candidates(words) == expected


def test_a_script_that_is_named_like_a_command_has_its_own_options(place: Place) -> None:
    asked = ("--completion", "words", "compare", "--")
    assert "--threshold" in place.voir(*asked).stdout.split()
    place.write("compare", "print('mine')\n")
    assert place.voir(*asked).stdout.split() == []
    assert place.voir("--quiet", "compare").stdout == place.voir("compare").stdout == "mine\n"


@pytest.mark.parametrize("shell", ["bash", "zsh"])
def test_a_script_is_what_its_shell_can_read(shell: str) -> None:
    if shutil.which(shell) is None:
        pytest.skip(f"there is no {shell}")
    checked = subprocess.run([shell, "-n"], input=script(shell), capture_output=True, text=True)
    assert (checked.returncode, checked.stderr) == (0, "")


def test_bash_completes_an_option_of_the_voirfile(place: Place) -> None:
    place.write("bin/voir", f'#!/bin/sh\nexec {sys.executable} -m voir "$@"\n').chmod(0o755)
    asked = """
        eval "$(voir --completion bash)"
        COMP_WORDS=(voir --quiet --mi) COMP_CWORD=2
        _voir_complete
        echo "${COMPREPLY[@]}"
    """
    path = os.pathsep.join([str(place.path / "bin"), os.environ["PATH"]])
    done = place.run("bash", "-c", asked, env={**environment(), "PATH": path})
    assert (done.seen, done.stderr) == ((0, "--mine\n"), "")


def test_a_shell_that_is_not_known_is_refused(place: Place) -> None:
    done = place.voir("--completion", "fish")
    assert done.status == 2
    assert "bash" in done.stderr


@pytest.mark.parametrize("arguments", [("--help",), ("-h",), ("-h", "main.py"), ("--quiet", "-h")])
def test_help_after_a_voirfile_with_reductions(place: Place, arguments: tuple[str, ...]) -> None:
    done = place.voir(*arguments)
    assert (done.status, done.stderr) == (0, "")
    assert "an option of my own" in done.stdout
    assert "main\n" not in done.stdout
    assert "$event" not in done.stdout


def test_a_reader_that_has_seen_enough_of_the_help_is_no_error(place: Place) -> None:
    command = f"{sys.executable} -m voir --help | head -n 1; exit ${{PIPESTATUS[0]}}"
    done = place.run("bash", "-c", command)
    assert (done.status, done.stderr) == (0, "")
