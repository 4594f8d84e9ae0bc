"""An option of voir's behind the script, and words that stand for an option or a command."""

from __future__ import annotations

from pathlib import Path

import pytest

from overseer.cli.main import COMMANDS
from tests.running import Place

ARGPARSE = """
import argparse
parser = argparse.ArgumentParser()
parser.add_argument("--lr", type=float)
parser.add_argument("--stop", type=int, choices=[1])
parser.parse_args()
"""
HINT = "voir's options come before the script: voir --dash ... SCRIPT"


@pytest.mark.parametrize(
    ("script", "argv", "hint"),
    [
        (ARGPARSE, "--lr 1 --dash", True),
        (ARGPARSE, "--dash=1", True),
        (ARGPARSE, "--lr x --stop 1", False),
        (ARGPARSE, "--stop 1", False),
        (ARGPARSE, "--own --stop 1", False),
        ("import sys; sys.exit(2)", "--dash", False),
        ("", "--dash", False),
    ],
)
def test_an_option_that_the_script_refuses_and_voir_has_is_named(
    tmp_path: Path, script: str, argv: str, hint: bool
) -> None:
    place = Place(tmp_path)
    place.write("main.py", script)
    plain, under = place.python("main.py", *argv.split()), place.voir("main.py", *argv.split())
    assert under.seen == plain.seen
    assert under.stderr.startswith(plain.stderr)
    assert (HINT in under.stderr) == hint, under.stderr


def test_help_version_and_list_are_what_was_meant_unless_a_script_is_called_so(
    tmp_path: Path,
) -> None:
    place = Place(tmp_path)
    for word, meant in (("help", "--help"), ("version", "--version"), ("list", "runs")):
        assert word not in COMMANDS
        said, wanted = place.voir(word), place.voir(meant)
        assert (said.seen, said.stderr) == (wanted.seen, wanted.stderr)
        place.write(word, "print('a script')")
        assert place.voir(word).stdout == "a script\n"
