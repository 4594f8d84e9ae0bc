"""The shell completes options, those of the voirfile included; help is shown whatever it does."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

from overseer.engine.help import completion
from overseer.engine.options import OptionParser
from overseer.errors import UsageError
from tests.running import Place

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


COMPLETED = {"--vo": "--voirfile", "--quiet --mi": "--mine", "--mine t": "two",
             "--voirfile mai": "main.py", "--quiet ma": "main.py"}  # fmt: skip


def test_bash_completes_files_and_options_of_voirfiles_too(place: Place) -> None:
    pytest.importorskip("shtab")
    place.write("bash", place.voir("--completion", "bash").stdout)
    asked = 'COMP_WORDS=(voir {0}) COMP_CWORD={1}; _shtab_voir; echo "${{COMPREPLY[@]}}"'
    lines = [asked.format(words, len(words.split())) for words in COMPLETED]
    done = place.run("bash", "-c", "\n".join(["source ./bash", *lines]))
    assert (done.stdout.splitlines(), done.stderr) == ([*COMPLETED.values()], "")


def test_zsh_can_read_its_script(place: Place) -> None:
    pytest.importorskip("shtab")
    script = place.voir("--completion", "zsh").stdout
    assert "#compdef voir" in script
    if shutil.which("zsh"):
        done = place.run("zsh", "-n", input=script.encode())
        assert (done.status, done.stderr) == (0, "")


def test_without_shtab_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "shtab", None)
    with pytest.raises(UsageError) as caught:
        completion(OptionParser(environ={}), "bash")
    assert caught.value.slug == "missing-extra"
    assert caught.value.remedy == 'pip install "voir-overseer[completion]"'


@pytest.mark.parametrize("arguments", [("--help",), ("-h", "main.py"), ("--quiet", "-h")])
def test_help_after_a_voirfile_with_reductions(place: Place, arguments: tuple[str, ...]) -> None:
    done = place.voir(*arguments)
    assert (done.status, done.stderr) == (0, "")
    assert "an option of my own" in done.stdout
    assert "main\n" not in done.stdout and "$event" not in done.stdout


def test_a_reader_that_has_seen_enough_of_the_help_is_no_error(place: Place) -> None:
    command = f"{sys.executable} -m voir --help | head -n 1; exit ${{PIPESTATUS[0]}}"
    done = place.run("bash", "-c", command)
    assert (done.status, done.stderr) == (0, "")
