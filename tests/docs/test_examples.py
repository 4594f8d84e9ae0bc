"""Every Python block of the documentation runs, without a word of complaint."""

from __future__ import annotations

from pathlib import Path

import pytest

from .blocks import Block, blocks
from .shown import ShownPlace, files_before, name_of

VOIRFILES = [block for block in blocks("python") if name_of(block) == "voirfile.py"]
#: Programs that are no voirfiles, by page and heading: a command to run before, arguments, and what
#: they print.
PROGRAMS = {
    ("coming-from-voir", "Starting programs"): ("true", "", "a loss of 0.3333333333333333"),
    ("run-directory", "`DATA_FD`"): ("true", "", "a loss of "),
    ("run-directory", "Reading a run back"):
        ("voir --run-dir run main.py", "run", "losses are recorded"),
    ("run-directory", "`steps.npy`"): (
        "echo 'import voir; [voir.give(step=n, batch_size=8, loss=1 / n) for n in range(1, 500)]' "
        "> steps.py && voir --no-voirfile --run-dir run steps.py", "run", "499 steps, the longest"),
    ("traces", "From a script"): ("true", "", "channels: [('My application', False)]"),
    ("traces", "Reading one back"): ("voir --trace --run-dir run main.py", "run", "0 bytes torn"),
}  # fmt: skip
BLOCKS = {
    (Path(block.page).stem, block.heading): block
    for block in blocks("python")
    if name_of(block) == "program.py"
}


def test_the_documentation_has_examples() -> None:
    assert len(VOIRFILES) >= 7
    assert BLOCKS.keys() == PROGRAMS.keys(), "how is it to be run?"


@pytest.mark.parametrize("block", VOIRFILES, ids=str)
def test_the_voirfile_runs_and_every_probe_fires(block: Block, tmp_path: Path) -> None:
    place = ShownPlace(tmp_path)
    for before in files_before(block):
        if "import torch" not in before.text:  # The fixture stands in for such a script.
            place.put(before)
    assert place.put(block) == "voirfile.py"
    done = place.voir("--quiet", "--strict", "main.py")
    assert (done.status, done.stderr) == (0, ""), f"{block}\n{done.stderr}"
    assert done.stdout


@pytest.mark.parametrize("key", PROGRAMS, ids=str)
def test_the_program_runs(key: tuple[str, str], tmp_path: Path) -> None:
    if "import numpy" in BLOCKS[key].text:
        pytest.importorskip("numpy")
    place = ShownPlace(tmp_path)
    for block in [*files_before(BLOCKS[key]), BLOCKS[key]]:
        place.put(block)
    command, arguments, printed = PROGRAMS[key]
    assert place.run("sh", "-c", command, env=place.env).status == 0
    done = place.run("python", "program.py", *arguments.split(), env=place.env)
    assert done.status == 0, done.stderr
    assert printed in done.stdout


def test_the_summary_that_the_readme_shows_is_of_the_kind_that_is_printed() -> None:
    shown = blocks("text", Path(__file__).parents[2] / "README.md")
    assert shown
    runs = [screen.text for screen in shown if "voir bench" not in screen.text]
    assert len(runs) == len(shown) - 1
    assert all("voir: " in text and "record" in text for text in runs)
