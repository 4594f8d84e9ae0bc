"""The lines that messages and checks propose have the script's own names, and are not there yet."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.running import Place

SCRIPT = """
    import time

    def get_batch(i):
        return [i] * 8

    def train(n):
        i = 0
        while i < n:
            x = get_batch(i)
            loss = 1 / (x[0] + 1)
            time.sleep(0.005)
            i += 1

    def main():
        train({n})

    if __name__ == "__main__":
        main()
    """
STEP = "//train(x as batch, loss) > #endloop_x as step"
SIZELESS = "//train(i as batch, loss) > #endloop_x as step"
LOADING = "//get_batch(!#enter as loading, !!#exit as loaded)"
WORK = "//train(x as batch, !#loop_x as compute_start, !!#endloop_x as compute_end)"


def given(selector: str) -> str:
    return f'ov.probe("{selector}").give()'


#: By options and what a voirfile gives: what a message says to do.
SAID = {
    ("--train-rate", "//train > loss"): f"Give each step, for example {given(STEP)}",
    ("--train-rate", SIZELESS): f"Give the batch with each step, for example {given(STEP)}",
    ("--loading-rate", STEP): f"Give the loading of batches, for example {given(LOADING)}",
    ("--metric step", WORK): "--metric step ignores pairs: leave it out",
    ("--metric wrap", STEP): "--metric wrap ignores step events: leave it out",
}


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


@pytest.mark.parametrize(("options", "selector"), SAID)
def test_a_message_has_the_line_for_this_script(options: str, selector: str, place: Place) -> None:
    place.write("main.py", SCRIPT.replace("{n}", "5"))
    place.probes([selector])
    done = place.voir("--no-record", *options.split(), "main.py")
    assert SAID[options, selector] in done.stderr


#: What a voirfile gives, a check, and its hint.
HINTS = {
    "a batch without a length": ([SIZELESS], "items", given(STEP)),
    "a loss beside pairs": ([WORK], "loss", given("//train > loss")),
    "loading, unknown": ([STEP], "loading", given(LOADING)),
    "a step where there is none": (["//train > i"], "steps", given(STEP)),
}


@pytest.mark.parametrize("name", HINTS)
def test_a_check_has_a_line_that_is_not_there(name: str, place: Place) -> None:
    selectors, check, hint = HINTS[name]
    place.write("main.py", SCRIPT.replace("{n}", "5"))
    place.probes(selectors)
    place.voir("--no-record", "--verify-json", "checks.json", "main.py")
    checks = json.loads((place.path / "checks.json").read_text())["verify"]
    assert [one.get("hint") for one in checks if one["check"] == check] == [hint]


def test_a_module_of_which_a_function_is_run_has_a_name_in_selectors(place: Place) -> None:
    place.write("pkg/__init__.py", "")
    place.write("pkg/train.py", SCRIPT.replace("{n}", "5"))
    place.probes([STEP])
    done = place.voir("--no-record", "--verify", "-m", "pkg.train:main")
    said = " ".join(done.stderr.split())
    assert "no script runs as __main__; write /pkg.train/train" in said
    assert f"write: {given(STEP.replace('//', '/pkg.train/'))}" in said


def test_the_head_and_the_check_have_one_number_of_steps(place: Place) -> None:
    place.write("main.py", SCRIPT.replace("{n}", "1000"))
    place.probes(["//train(loss) > #endloop_x as step"])
    done = place.voir("--no-record", "--verify", "main.py")
    stopped = re.search(r"stopped early: after (\d+) steps", " ".join(done.stderr.split()))
    checked = re.search(r"PASS  steps +(\d+), given", done.stderr)
    assert stopped is not None and checked is not None
    assert stopped[1] == checked[1]
