"""voir's objects stay out of the script's garbage collections, and are disposed of at the end."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from tests.running import Place

#: As many objects as voir may add to those that collections go through.
MOST = 2000
#: Long enough for its syntax tree to be more than that.
LONG = "import gc, sys\n" + "".join(
    f"def f{n}(a, b=1):\n    x = [a + {n}, {{b: a}}]\n    return x[0] if x else b\n"
    for n in range(100)
)
COUNTS = f"{LONG}def main():\n    loss = 1\nmain()\nprint(len(gc.get_objects()))\n"
PROBES = """
def instrument_probes(ov):
    yield ov.phases.load_script
    ov.probe("//main > loss").give()
"""


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def tracked(place: Place, *command: str, **options: bool) -> tuple[int, int]:
    """How many objects a script finds without voir, and with it."""
    plain = place.python(*[each for each in command if not each.startswith("--")])
    under = place.voir("--quiet", "--run-dir", "run", *command, fresh=True)
    assert (plain.status, under.status) == (0, 0), under.stderr
    return int(plain.stdout), int(under.stdout)


@pytest.mark.parametrize("voirfile", ["", PROBES], ids=["plain", "probes"])
@pytest.mark.parametrize("command", ["main.py", "-m main", "--dash main.py", "--trace main.py"])
def test_collections_go_through_no_objects_of_voirs(
    place: Place, command: str, voirfile: str
) -> None:
    place.write("main.py", COUNTS)
    if voirfile:
        place.write("voirfile.py", voirfile)
    plain, under = tracked(place, *command.split())
    assert under <= plain + MOST


@pytest.mark.slow
def test_collections_go_through_few_objects_of_the_hooks(place: Place) -> None:
    pytest.importorskip("torch", reason="torch comes with the extra [examples]")
    script = """
        import gc, time, torch
        model = torch.nn.Linear(4, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(10):
            model(torch.ones(8, 4)).mean().backward()
            optimizer.step()
        time.sleep(1.5)  # The record has begun.
        gc.collect()
        print(len(gc.get_objects()))
        """
    place.write("main.py", script)
    plain, under = tracked(place, "main.py")
    assert under <= plain + MOST


def test_objects_of_steps_do_not_grow_in_number_for_ever(place: Place) -> None:
    script = """
        import gc, time, voir
        for count in range(1, 4):
            for _ in range(10_000):
                voir.give(step=True, batch_size=4)
            time.sleep(0.5)
            gc.collect()
            print(len(gc.get_objects()))
        """
    place.write("main.py", script)
    ran = place.voir("--quiet", "--run-dir", "run", "main.py")
    first, *later = map(int, ran.stdout.split())
    assert max(later) - first < 6_000


ENDS = """
import gc, json

class Noisy:
    def __init__(self, name):
        self.name = name
    def __del__(self):
        print("gone:", self.name)

def function():
    return kept, file

kept, file = Noisy("a global"), open("written.txt", "w")
file.write("flushed at the end")
json.mine = Noisy("in another module")
circle = [Noisy("in a circle")]
circle.append(circle)
print(gc.isenabled(), gc.get_threshold(), gc.callbacks, gc.garbage, gc.get_debug())
FREEZE
"""
FREEZES = (
    "def run():\n    circle = [Noisy('frozen')]\n    circle.append(circle)\nrun()\ngc.freeze()"
)


@pytest.mark.parametrize("freeze", ["", "gc.freeze(); gc.unfreeze()", "gc.disable()"])
def test_what_python_disposes_of_at_the_end_is_disposed_of(place: Place, freeze: str) -> None:
    place.write("main.py", ENDS.replace("FREEZE", freeze))
    seen = []
    for run in (place.python, partial(place.voir, "--no-record", fresh=True)):
        ran = run("main.py")
        written = (place.path / "written.txt").read_text()
        seen.append((ran.status, sorted(ran.stdout.splitlines()), written))
    assert seen[0] == seen[1]


def test_what_the_script_freezes_stays_frozen(place: Place) -> None:
    place.write("main.py", ENDS.replace("FREEZE", FREEZES))
    for run in (place.python, partial(place.voir, "--no-record", fresh=True)):
        assert "gone: frozen" not in run("main.py").stdout
    place.write("main.py", ENDS.replace("FREEZE", f"{FREEZES}; gc.unfreeze()"))
    assert "gone: frozen" in place.voir("--no-record", "main.py", fresh=True).stdout


def test_the_collectors_settings_and_what_was_frozen_before_are_left_alone(place: Place) -> None:
    settings = "print(gc.get_freeze_count(), gc.isenabled(), gc.get_threshold())"
    code = f"import gc; gc.freeze(); gc.disable(); gc.set_threshold(500, 6, 7); {settings}"
    place.write("main.py", f"import gc\n{settings}\n")
    run = f"{code}; from overseer.cli import main; main()"
    ran = place.python("-c", run, "--no-record", "main.py")
    (before, *set_before), (after, *set_after) = map(str.split, ran.stdout.splitlines())
    assert (int(after) <= int(before), set_after) == (True, set_before)


def test_closures_of_a_module_that_a_voirfile_has_imported_are_probed(place: Place) -> None:
    helper = """
        def outer():
            def inner(x):
                y = x * 2
                return y
            return inner
        made = outer()
        """
    place.write("helper.py", helper)
    voirfile = """
        import helper
        def instrument_probes(ov):
            yield ov.phases.load_script
            ov.probe("/helper/outer/inner > y").give()
            ov.given["y"].print("y is {}")
        """
    place.write("voirfile.py", voirfile)
    place.write("main.py", "import helper\nhelper.made(3), helper.outer()(4)\n")
    ran = place.voir("--quiet", "--no-record", "main.py", fresh=True)
    assert ran.stdout == "y is 6\ny is 8\n", ran.stderr
