"""``voir init``: what it runs, writes, says and refuses."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from overseer.errors import VoirError
from tests.running import Place

from .said import said

LOOP = """
    def train(data):
        for x in data:
            loss = sum(x) / 2
        return loss

    train([[1, 2], [3, 4], [5, 6]])
    """
PROBE = 'ov.probe("//train(x as batch, loss) > #endloop_x as step").give()'


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    monkeypatch.chdir(tmp_path)
    place = Place(tmp_path)
    place.write("main.py", LOOP)
    return place


@pytest.mark.parametrize("width", [80, 120])
def test_it_writes_a_voirfile_beside_the_script(place: Place, width: int) -> None:
    way = "a/very/long/way/to/the/training/script"
    place.write(f"{way}/main.py", LOOP)
    shown = said("init", f"{way}/main.py", width=width)
    assert PROBE in (place.path / way / "voirfile.py").read_text()
    assert f"\nvoir: wrote {way}/voirfile.py" in shown
    assert shown.splitlines()[-1] == f"  next      voir --verify {way}/main.py"
    assert max(map(len, shown.splitlines())) <= width
    assert sorted(os.listdir()) == ["a", "main.py"]


def test_a_voirfile_that_is_there_is_left_alone(place: Place) -> None:
    mine = place.write("voirfile.py", "# mine\n")
    with pytest.raises(VoirError, match="a voirfile exists already"):  # Before anything is run.
        said("init", "main.py")
    assert mine.read_text() == "# mine\n"
    said("init", "--force", "main.py")
    assert PROBE in mine.read_text()


def test_it_writes_where_it_is_told(place: Place) -> None:
    shown = said("init", "-o", "probes.py", "main.py", "--epochs", "3")
    written = (place.path / "probes.py").read_text()
    assert PROBE in written
    assert "voir --voirfile probes.py main.py --epochs 3" in written
    assert "voir --verify --voirfile probes.py main.py --epochs 3" in shown


def test_a_modules_own_functions_are_probed(place: Place) -> None:
    place.write("pkg/__init__.py", "")
    place.write("pkg/train.py", "from .engine import train\ntrain([[1]])\n")
    place.write("pkg/engine.py", LOOP)
    said("init", "-m", "pkg.train")
    written = (place.path / "voirfile.py").read_text()
    assert '"/pkg.engine/train(x as batch, loss) > #endloop_x as step"' in written
    assert "voir --verify -m pkg.train" in written


UNKNOWN = {
    "no loop": ("print(1)\n", "no loop found"),
    "two training loops": (LOOP + LOOP.replace("train", "again"), "//again(x as batch, loss)"),
    "a deep expression": ("x = " + "+".join(["1"] * 900), "no loop found"),
    "a loop without a loss": ("for x in [1]:\n    y = x\n", "// > LOSS as loss"),
}


@pytest.mark.parametrize("name", UNKNOWN)
def test_what_has_no_recognisable_loop_gets_no_file(place: Place, name: str) -> None:
    script, shown = UNKNOWN[name]
    place.write("main.py", script)
    text = said("init", "main.py")
    assert "voir: wrote nothing" in text and shown in text
    assert os.listdir() == ["main.py"]


def test_a_script_without_torch_is_run_to_its_end_and_read(place: Place) -> None:
    done = place.voir("init", "main.py")
    assert done.status == 0, done.stderr
    assert done.stdout.startswith("voir: running main.py for 20 steps")
    assert "it does not import torch; using its source only" in done.stdout
    ran = place.voir("--strict", "--run-dir", "run", "main.py")
    assert (ran.status, "3 steps · 6 items" in ran.stderr) == (0, True), ran.stderr


@pytest.mark.parametrize("why", ["import sys; sys.exit(2)", "import no_such_module", "input()"])
def test_a_script_that_fails_before_a_step_gets_no_file(place: Place, why: str) -> None:
    place.write("main.py", f"\n    {why}\n{LOOP}")
    done = place.voir("init", "main.py")
    assert (done.status, "[init-run]" in done.stderr) == (2, True), done.stderr
    assert not (place.path / "voirfile.py").exists()


@pytest.mark.parametrize("seconds", [1.2, pytest.param(60, marks=pytest.mark.slow)])
def test_what_a_script_has_started_is_named_where_nothing_else_was_seen(
    place: Place, seconds: float
) -> None:
    work = f"import time\nwhile time.process_time() < {seconds}: pass"
    start = f"subprocess.run([sys.executable, '-c', {work!r}])"
    place.write("main.py", f"import subprocess, sys\n{start}")
    done = place.voir("init", "main.py")
    assert "run voir init on a script that trains there" in " ".join(done.stdout.split())


def test_the_voirfile_works_from_anywhere(place: Place) -> None:
    loop, call = LOOP.rstrip().rsplit("\n", 1)
    place.write("src/main.py", f"from lib.loop import train\n{call.strip()}\n")
    place.write("src/lib/__init__.py", "")
    place.write("src/lib/loop.py", loop)
    said("init", "src/main.py")
    done = place.voir("--strict", "--run-dir", "run", "src/main.py")
    assert done.status == 0, done.stderr
    assert "3 steps · 6 items" in done.stderr


def test_its_help_is_shown_and_a_script_of_its_name_goes_before_it(place: Place) -> None:
    asked = place.voir("init", "--help")
    assert (asked.status, asked.stderr) == (0, "")
    assert asked.stdout.startswith("usage: voir init ")
    place.write("init", "import sys; print('a script', sys.argv[1:])")  # It goes before us.
    assert place.voir("init", "main.py").seen == (0, "a script ['main.py']\n")


@pytest.mark.slow
def test_it_runs_a_training_for_a_few_steps_and_verifies_what_it_wrote(place: Place) -> None:
    pytest.importorskip("torch")
    script = """
        import torch
        def get_batch(): return torch.randn(4, 3)
        def train(model, optimizer, n):
            for step in range(n):
                x = get_batch()
                loss = model(x).pow(2).mean()
                loss.backward()
                optimizer.step()
                optimizer.zero_grad()
                print("step", step)
        model = torch.nn.Linear(3, 1)
        train(model, torch.optim.SGD(model.parameters(), lr=0.1), 40)
        """
    place.write("main.py", script)
    done = place.voir("init", "--check", "main.py")
    assert done.status == 0, done.stderr
    before, _, after = done.stdout.partition("voir: wrote voirfile.py")
    assert "step 18" in before and "step 20" not in before
    assert "//get_batch(!#enter as loading, !!#exit as loaded)" in after
    assert "step 39" in after
    assert "PASS  loading" in done.stderr
