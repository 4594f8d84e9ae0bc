"""``voir init``: what it writes, says and refuses."""

from __future__ import annotations

from pathlib import Path

import pytest

from overseer.cli.init import init
from overseer.errors import VoirError
from tests.running import Place

SCRIPT = """
    def train(model, loader, optimizer):
        for x, y in loader:
            loss = model(x, y)
            loss.backward()
            optimizer.step()
    """


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    monkeypatch.chdir(tmp_path)
    place = Place(tmp_path)
    place.write("main.py", SCRIPT)
    return place


def refused(*argv: str) -> VoirError:
    with pytest.raises(VoirError) as error:
        init(list(argv), 80)
    return error.value


def test_it_writes_a_voirfile_beside_the_script(place: Place) -> None:
    place.write("deep/er/main.py", SCRIPT)
    said = init(["deep/er/main.py"], 80)
    assert 'ov.probe("//train > loss").give()' in (place.path / "deep/er/voirfile.py").read_text()
    assert not (place.path / "voirfile.py").exists()
    assert said.startswith("voir: wrote deep/er/voirfile.py")
    assert said.splitlines()[-1] == "  next        voir --verify deep/er/main.py"


def test_a_voirfile_that_is_there_is_left_alone(place: Place) -> None:
    mine = place.write("voirfile.py", "# mine\n")
    assert refused("main.py").slug == "init-exists"
    assert mine.read_text() == "# mine\n"
    init(["--force", "main.py"], 80)
    assert "ov.probe" in mine.read_text()


def test_it_writes_where_it_is_told(place: Place) -> None:
    init(["-o", "probes.py", "main.py"], 80)
    assert (place.path / "probes.py").exists()
    assert not (place.path / "voirfile.py").exists()


@pytest.mark.parametrize("argv", [[], ["main.py", "other.py"], ["--verbose", "main.py"]])
def test_a_wrong_command_line_is_refused(place: Place, argv: list[str]) -> None:
    assert refused(*argv).slug == "usage"


def test_nothing_is_written_for_what_cannot_be_read(place: Place) -> None:
    place.write("broken.py", "def f(:\n")
    assert refused("broken.py").slug == "init-syntax"
    assert not (place.path / "voirfile.py").exists()


@pytest.mark.parametrize("width", [80, 120])
def test_no_line_is_wider_than_the_terminal(place: Place, width: int) -> None:
    place.write("a/very/long/way/to/the/training/script/main.py", SCRIPT)
    said = init(["a/very/long/way/to/the/training/script/main.py"], width)
    assert max(len(line) for line in said.splitlines()[1:-1]) <= width


def test_what_is_nested_deeply_is_read_or_refused(place: Place) -> None:
    place.write("main.py", "x = " + "+".join(["1"] * 900))
    assert "wrote" in init(["--force", "main.py"], 80)
    place.write("main.py", "x = " + "+".join(["1"] * 30_000))
    with pytest.raises(VoirError) as refused:
        init(["--force", "main.py"], 80)
    assert refused.value.slug == "init-syntax"


def test_what_is_not_found_is_named_with_where_to_look(place: Place) -> None:
    said = init(["main.py"], 80)
    assert "not found   options: " in said
    assert "ov.probe('// > VARIABLE as options').give()" in said


def test_a_script_named_init_goes_before_the_command(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.write("init", "import sys; print('a script', sys.argv[1:])")
    assert place.voir("--quiet", "init", "main.py").stdout == "a script ['main.py']\n"
    done = place.voir("init", "main.py")
    assert (done.status, done.stdout) == (0, "a script ['main.py']\n")


def test_the_command_ends_with_two_when_refused_and_says_why_on_stderr(place: Place) -> None:
    done = place.voir("init", "nowhere.py")
    assert (done.status, done.stdout) == (2, "")
    assert done.stderr.startswith("voir: nowhere.py cannot be read: ")
    asked = place.voir("init", "--help")
    assert (asked.status, asked.stderr) == (0, "")
    assert asked.stdout.startswith("usage: voir init ")


def test_the_voirfile_works_from_anywhere(place: Place) -> None:
    place.write("src/main.py", "import lib.loop\nlib.loop.train()\n")
    place.write("src/lib/__init__.py", "")
    place.write(
        "src/lib/loop.py",
        """
        class Loss(float):
            def backward(self):
                pass

        def train():
            for x in ([1, 2], [3, 4]):
                loss = Loss(1.0)
                loss.backward()
        """,
    )
    init(["src/main.py"], 80)
    done = place.voir("--strict", "--run-dir", "run", "src/main.py")
    assert done.status == 0, done.stderr
    assert "2 steps · 4 items" in done.stderr
