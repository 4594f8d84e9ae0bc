"""``--train-rate`` and its kin, and ``rate()`` in a voirfile: what is logged, given and refused."""

from __future__ import annotations

import json
from typing import Any

import pytest
from scripts import Timed, logged, voirfile

from tests.running import Place

#: Ten steps with four items each, the work on which is a pair.
SCRIPT = """
    import time

    def train():
        for i in range(10):
            inp = [i] * 4
            for x in [inp]:
                time.sleep(0.002)
    train()
    """
STEP = "//train(inp as batch) > #endloop_i as step"
PAIR = "//train(inp as batch, !#loop_x as compute_start, !!#endloop_x as compute_end)"


@pytest.fixture
def script(place: Place) -> Place:
    place.write("main.py", SCRIPT)
    return place


def given(place: Place, key: str) -> list[dict[str, Any]]:
    """The given events that have ``key``, as far as they were recorded."""
    return [event for event in place.metrics() if key in event and "t" in event]


@pytest.mark.parametrize("flag", ["train-rate", "loading-rate", "compute-rate"])
def test_a_flag_logs_its_rate_for_each_window(script: Place, flag: str) -> None:
    voirfile(script, PAIR)
    ran = script.voir(f"--{flag}", "--interval", "4", "main.py")
    key = flag.replace("-", "_")
    events = logged(script, key)
    assert (ran.status, len(events)) == (0, 3)  # The last one is of two steps.
    for event in events:
        assert (event["task"], event["units"]) == ("train", "items/s")
        assert event[key] > 0
    others = {"train_rate", "loading_rate", "compute_rate"} - {key}
    assert not any(logged(script, other) for other in others)


def test_loading_and_compute_come_with_their_shares(script: Place) -> None:
    voirfile(script, PAIR)
    script.voir("--loading-rate", "--compute-rate", "--interval", "100", "main.py")
    (loading,), (compute,) = logged(script, "loading_rate"), logged(script, "compute_rate")
    assert loading["share"] + compute["share"] == pytest.approx(1)
    assert compute["share"] > loading["share"] > 0


def test_what_is_logged_goes_to_data_fd_too(script: Place) -> None:
    voirfile(script, STEP)
    with open(script.path / "data", "w") as data:
        script.voir(
            *("--train-rate", "--interval", "4", "main.py"),
            env={"DATA_FD": str(data.fileno())},
            pass_fds=[data.fileno()],
        )
    lines = (script.path / "data").read_text().splitlines()
    assert [set(e) for line in lines if "train_rate" in (e := json.loads(line))] == [
        {"task", "train_rate", "units"}
    ] * 3


@pytest.mark.parametrize("option", ["--interval", "--metric-interval"])
def test_an_interval_in_seconds_closes_windows_by_time(timed: Timed, option: str) -> None:
    timed.write("main.py", SCRIPT.replace("import time", "import passing as time"))
    voirfile(timed, STEP)
    timed.voir("--train-rate", option, "0.006s", "main.py")
    assert len(logged(timed, "train_rate")) == 4


@pytest.mark.parametrize("option", ["--skip", "--metric-skip"])
def test_what_is_skipped_is_in_no_window(script: Place, option: str) -> None:
    voirfile(script, STEP)
    script.voir("--train-rate", "--interval", "1", option, "7", "main.py")
    assert len(logged(script, "train_rate")) == 3
    rate = script.record()["tasks"]["train"]["rate"]
    assert (rate["n"], rate["skipped"]) == (3, 7)


@pytest.mark.parametrize("option", ["--skip", "--metric-skip", "--interval", "--metric-interval"])
def test_a_wrong_span_is_answered_by_the_name_that_was_typed(script: Place, option: str) -> None:
    ran = script.voir(option, "-3", "main.py")
    assert ran.status == 2
    assert f"voir: {option} '-3' is neither" in ran.stderr


def test_seconds_can_be_skipped(script: Place) -> None:
    voirfile(script, STEP)
    ran = script.voir("--train-rate", "--interval", "1", "--skip", "100s", "main.py")
    assert logged(script, "train_rate") == []
    assert "--train-rate: --skip 100s leaves out all steps: there were 10 [no-rate]" in ran.stderr
    assert "showed nothing" not in ran.stderr


@pytest.mark.parametrize(
    ("options", "environment", "skipped", "steps"),
    [
        (["--skip", "100s"], {}, "100s", 10),
        (["--metric-skip", "20"], {}, "20", 10),
        (["--stop", "6", "--skip", "8"], {}, "8", 6),
        ([], {"VOIR_SKIP": "10"}, "10", 10),
    ],
    ids=str,
)
def test_a_skip_of_everything_is_told_where_no_rate_was_asked_for(
    script: Place, options: list[str], environment: dict[str, str], skipped: str, steps: int
) -> None:
    voirfile(script, STEP)
    ran = script.voir(*options, "main.py", env=environment)
    said = f"voir: rate: --skip {skipped} leaves out all steps: there were {steps} [no-rate]"
    assert said in ran.stderr
    assert len(script.record()["problems"]) == 1


def test_a_skip_of_everything_is_told_once_whatever_was_asked_for(script: Place) -> None:
    voirfile(script, PAIR)
    ran = script.voir("--train-rate", "--loading-rate", "--skip", "10", "main.py")
    assert ran.stderr.count("[no-rate]") == 1
    assert "--train-rate: --skip 10 leaves out all steps: there were 10" in ran.stderr


def test_a_skip_that_leaves_a_step_is_not_told(script: Place) -> None:
    voirfile(script, STEP)
    script.voir("--skip", "9", "main.py")
    assert script.record()["problems"] == []


@pytest.mark.parametrize(("train", "told"), [(30, 0), (5, 1)])
def test_a_short_evaluation_may_be_skipped_but_not_the_training(
    place: Place, train: int, told: int
) -> None:
    place.write(
        "main.py",
        """
        import voir
        import sys
        for task, steps in (("train", int(sys.argv[1])), ("evaluate", 5)):
            for i in range(steps):
                voir.give(task=task, step=i, batch_size=4)
        """,
    )
    ran = place.voir("--skip", "10", "main.py", str(train))
    said = "rate: --skip 10 leaves out all steps: there were 10 [no-rate]"
    assert (ran.stderr.count(said), ran.stderr.count("[no-rate]")) == (told, told)


def test_items_per_step_multiplies(script: Place) -> None:
    voirfile(script, STEP)
    script.voir("--items-per-step", "1000", "main.py")
    assert script.record()["tasks"]["train"]["items"] == 40_000


@pytest.mark.parametrize(("metric", "steps"), [("step", 10), ("wrap", 5)])
def test_metric_chooses_what_a_step_is(place: Place, metric: str, steps: int) -> None:
    place.write("main.py", SCRIPT.replace("[inp]:", "[inp][i % 2:]:"))
    voirfile(place, STEP, PAIR)
    place.voir("--metric", metric, "--metric-interval", "1", "main.py")
    assert place.record()["tasks"]["train"]["steps"] == steps
    assert len(logged(place, "train_rate")) in (steps, steps - 1)


@pytest.mark.parametrize("text", ["0", "-1", "ten", "nan", "0s", "-1s", "1e400s", "1.5", ""])
def test_an_interval_that_is_none_is_refused(script: Place, text: str) -> None:
    ran = script.voir(f"--interval={text}", "main.py")
    assert ran.status == 2
    assert "[bad-span]" in ran.stderr
    assert script.runs == []


@pytest.mark.parametrize(
    "wrong", [["--skip=-1"], ["--items-per-step=0"], ["--items-per-step=x"], ["--metric=both"]]
)
def test_other_wrong_values_are_refused(script: Place, wrong: list[str]) -> None:
    ran = script.voir(*wrong, "main.py")
    assert ran.status == 2
    assert wrong[0].partition("=")[0] in ran.stderr
    assert "Traceback" not in ran.stderr


@pytest.mark.parametrize("text", ["0", "x", "1.5", "-3", "4" * 22])
def test_a_wrong_multiplier_is_told_what_is_allowed(script: Place, text: str) -> None:
    ran = script.voir(f"--items-per-step={text}", "main.py")
    assert ran.status == 2
    assert f"--items-per-step is {text!r}" in ran.stderr
    assert "a whole number from 1" in ran.stderr


def test_a_huge_interval_is_one_window(script: Place) -> None:
    voirfile(script, STEP)
    script.voir("--train-rate", "--interval", "1e200s", "main.py")
    assert len(logged(script, "train_rate")) == 1


def test_of_a_script_that_is_not_there_only_that_is_told(place: Place) -> None:
    ran = place.voir("--compute-rate", "nope.py")
    assert ran.status == 2
    assert "[no-file]" in ran.stderr
    assert "no-rate" not in ran.stderr


def test_a_flag_without_any_step_says_so(script: Place) -> None:
    ran = script.voir("--train-rate", "main.py")
    assert ran.status == 0
    assert "voir: --train-rate: the run showed nothing that it could be told from [no-rate]" in (
        ran.stderr
    )


def test_an_instrument_that_is_to_give_rates_says_so_too_where_it_saw_nothing(
    place: Place,
) -> None:
    place.write("main.py", "for i in range(10):\n    loss = i\n")
    place.write(
        "voirfile.py",
        """
        from voir.instruments import rate

        instrument_rate = rate(interval=5)
        """,
    )
    ran = place.voir("main.py")
    told = "voir: rate: the run showed nothing that it could be told from [no-rate]"
    assert (ran.status, ran.stderr.count(told), ran.stderr.count("[no-rate]")) == (0, 1, 1)


def test_the_rate_of_a_single_step_has_a_reason_not_to_be(place: Place) -> None:
    place.write("main.py", "def train(inp):\n    loss = 1.0\n\n\ntrain([0] * 4)\n")
    voirfile(place, "//train(inp as batch) > loss as step")
    ran = place.voir("--train-rate", "main.py")
    assert "--train-rate: there was one step, and its beginning was not seen" in ran.stderr


@pytest.mark.parametrize("flag", ["--train-rate", "--loading-rate", "--compute-rate"])
def test_a_pair_around_the_only_step_was_given(place: Place, flag: str) -> None:
    text = """
        def train(inp):
            for x in range(1):
                pass

        train([0] * 4)
        """
    place.write("main.py", text)
    voirfile(place, PAIR)
    ran = place.voir(flag, "main.py")
    assert f"{flag}: there was one step, and its beginning was not seen" in ran.stderr
    assert "Give the pair" not in ran.stderr


def test_an_only_step_without_a_pair_needs_one_for_the_rate_of_its_work(place: Place) -> None:
    place.write("main.py", "def train(inp):\n    loss = 1.0\n\n\ntrain([0] * 4)\n")
    voirfile(place, "//train(inp as batch) > loss as step")
    assert "Give the pair" in place.voir("--compute-rate", "main.py").stderr


# In a voirfile


def with_rate(place: Place, call: str, *selectors: str) -> None:
    """Write a voirfile that has ``rate`` with these arguments."""
    voirfile(place, *selectors)
    probes = (place.path / "voirfile.py").read_text()
    (place.path / "voirfile.py").write_text(
        f"from voir.instruments import rate\ninstrument_rate = {call}\n{probes}"
    )


def test_rate_gives_each_window(script: Place) -> None:
    with_rate(script, "rate(interval=4)", STEP)
    script.voir("main.py")
    events = given(script, "rate")
    assert len(events) == 3
    assert {(e["task"], e["units"]) for e in events} == {("train", "items/s")}
    assert logged(script, "rate") == []


def test_rate_skips_windows(script: Place) -> None:
    with_rate(script, "rate(2, 3)", STEP)
    script.voir("main.py")
    assert len(given(script, "rate")) == 2


def test_two_rates_have_windows_of_their_own(script: Place) -> None:
    with_rate(script, "[rate(interval=5), rate(interval=2)]", STEP)
    script.voir("--train-rate", "--interval", "10", "main.py")
    assert len(given(script, "rate")) == 2 + 5
    assert len(logged(script, "train_rate")) == 1


def test_rate_computes_the_batch_size_as_it_is_told(script: Place) -> None:
    with_rate(script, "rate(batch_size_calc=lambda batch: 10 * len(batch))", STEP)
    script.voir("main.py")
    assert script.record()["tasks"]["train"]["items"] == 400


def test_a_batch_size_that_fails_is_told_once(script: Place) -> None:
    with_rate(script, "rate(batch_size_calc=lambda batch: batch.size)", STEP)
    ran = script.voir("main.py")
    assert (ran.status, ran.stderr.count("[batch-size]")) == (0, 1)
    task = script.record()["tasks"]["train"]
    assert (task["steps"], task["units"], "items" in task) == (10, "steps", False)


@pytest.mark.parametrize(("method", "steps"), [("delta", 10), ("wrap", 5), (None, 10)])
def test_rate_takes_steps_the_way_it_is_told(place: Place, method: str, steps: int) -> None:
    place.write("main.py", SCRIPT.replace("[inp]:", "[inp][i % 2:]:"))
    with_rate(place, f"rate(1, 0, {method!r}, len, None)", STEP, PAIR)
    place.voir("main.py")
    assert place.record()["tasks"]["train"]["steps"] == steps


def test_sync_is_accepted_and_not_called(script: Place) -> None:
    with_rate(script, "rate(sync=lambda: print('synchronised'))", STEP)
    ran = script.voir("main.py")
    assert (ran.stdout, script.record()["problems"]) == ("", [])


@pytest.mark.parametrize(
    ("call", "slug"),
    [
        ("rate(interval=-1)", "bad-span"),
        ("rate(skip='soon')", "bad-span"),
        ("rate(method='guess')", "bad-method"),
    ],
)
def test_wrong_arguments_of_rate_are_told_and_the_script_runs(
    script: Place, call: str, slug: str
) -> None:
    with_rate(script, call, STEP)
    ran = script.voir("main.py")
    assert ran.status == 0
    assert f"[{slug}]" in ran.stderr
    assert "Traceback" not in ran.stderr
    record = script.record()
    assert record["tasks"]["train"]["steps"] == 10
    (problem,) = record["problems"]
    place, _, line = problem["where"].rpartition(":")  # What is to be mended is in the voirfile.
    assert place == str(script.path / "voirfile.py")
    assert call in (script.path / "voirfile.py").read_text().splitlines()[int(line) - 1]
