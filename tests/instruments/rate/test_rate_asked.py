"""What a voirfile's ``rate`` and the options ask for holds, whatever else is asked for with it."""

from __future__ import annotations

import pytest
from scripts import LOADER, TRAINING, Timed, fake_torch, logged, voirfile

from tests.running import Place

#: Ten steps, of which nothing shows the size but a function.
SCRIPT = """
    import time

    def train():
        for inp in ["a" * (3 + i % 4) for i in range(10)]:
            time.sleep(0.001)
    train()
    """
STEP = "//train(inp as batch) > #endloop_inp as step"
PAIR = "//train(inp as batch, !#loop_inp as compute_start, !!#endloop_inp as compute_end)"
#: As many as the function says there are.
ITEMS = sum(2 * (3 + i % 4) for i in range(10))
CALL = "rate(interval=4, batch_size_calc=lambda batch: 2 * len(batch))"
#: Ways to ask for it: by name, required early, required when the script is loaded.
ASKING = {
    "by name": f"instrument_rate = {CALL}",
    "at init": f"def instrument_rates_(ov):\n    yield ov.phases.init\n    ov.require({CALL})",
    "when options are parsed": (
        f"def instrument_rates_(ov):\n    yield ov.phases.parse_args\n    ov.require({CALL})"
    ),
    "when the script is loaded": (
        f"def instrument_rates_(ov):\n    yield ov.phases.load_script\n    ov.require({CALL})"
    ),
}


def asking(place: Place, asked: str, *selectors: str) -> None:
    """Write a voirfile that asks for a rate and has probes."""
    voirfile(place, *selectors)
    probes = (place.path / "voirfile.py").read_text()
    text = f"from voir.instruments import rate\n{asked}\n{probes}"
    (place.path / "voirfile.py").write_text(text)


def rates(place: Place) -> int:
    """How many windows were given."""
    return len([event for event in place.metrics() if "rate" in event and "t" in event])


@pytest.mark.parametrize("way", ASKING)
@pytest.mark.parametrize("beside", ["--loading-rate", "--trace", "--train-rate"])
def test_a_rate_has_its_function_and_its_windows_whatever_is_beside_it(
    place: Place, beside: str, way: str
) -> None:
    place.write("main.py", SCRIPT)
    asking(place, ASKING[way], STEP, PAIR)
    ran = place.voir(beside, "--interval", "5", "main.py")
    assert ran.status == 0, ran.stderr
    record = place.record()
    assert (record["tasks"]["train"]["items"], rates(place)) == (ITEMS, 3)
    assert record["problems"] == []


def test_the_flag_has_windows_of_its_own_beside_those_of_a_rate(place: Place) -> None:
    place.write("main.py", SCRIPT)
    asking(place, ASKING["by name"], STEP, PAIR)
    place.voir("--loading-rate", "--interval", "5", "main.py")
    assert (rates(place), len(logged(place, "loading_rate"))) == (3, 2)


@pytest.mark.parametrize("auto", ["--auto", "--no-auto"])
def test_a_loader_that_is_read_while_the_script_is_imported_is_watched(
    timed: Timed, auto: str
) -> None:
    fake_torch(timed)
    timed.write("training.py", TRAINING)
    timed.write(
        "job.py",
        """
        import voir
        from training import *
        from torch.utils.data import DataLoader

        class Items:
            def __len__(self):
                return 40

            def __getitem__(self, i):
                wait(0.001)
                return i

        for inp in DataLoader(Items(), batch_size=4):
            work(0.012)
            voir.give(step=True, batch=inp)

        def main():
            pass
        """,
    )
    ran = timed.voir("--loading-rate", "--interval", "100", auto, "-m", "job:main")
    assert ran.status == 0, ran.stderr
    (window,) = logged(timed, "loading_rate")
    assert window["loading_rate"] == pytest.approx(1000, rel=0.01)
    assert window["share"] == pytest.approx(0.25, rel=0.01)
    assert timed.record()["tasks"]["train"]["rate"]["n"] == 10  # The first one's beginning, too.


def test_the_first_wait_of_iterate_is_seen(timed: Timed) -> None:
    timed.write("training.py", TRAINING)
    timed.write(
        "main.py",
        """
        from training import *
        from voir import iterate

        def batches():
            for i in range(10):
                wait(0.004)
                yield [i] * 4

        for inp in iterate("train", batches(), report_batch=True, ignore_loading=True):
            work(0.012)
        """,
    )
    timed.voir("--loading-rate", "--interval", "100", "main.py")
    (window,) = logged(timed, "loading_rate")
    assert window["loading_rate"] == pytest.approx(1000, rel=0.01)


def test_a_script_that_fails_while_it_is_imported_is_summed_up(place: Place) -> None:
    place.write(
        "job.py", "import voir\nfor i in range(5):\n    voir.give(step=i, batch=[1])\n1 / 0"
    )
    ran = place.voir("--loading-rate", "-m", "job")
    assert ran.status == 1
    assert place.record()["tasks"]["train"]["steps"] == 5
    other = place.voir("--loading-rate", "--run-dir", "other", "-m", "job:main")
    assert (other.status, "instrument_rates" in other.stderr) == (1, False)


@pytest.mark.parametrize("length", ["1e300s", "1e308s", "1e300"])
@pytest.mark.parametrize("option", ["--interval", "--skip"])
def test_no_span_is_too_long(place: Place, option: str, length: str) -> None:
    place.write("main.py", SCRIPT)
    voirfile(place, "//train(inp as batch) > #endloop_inp as step")
    ran = place.voir("--train-rate", option, length, "main.py")
    assert ran.status == 0
    assert "Overflow" not in ran.stderr
    assert place.record()["tasks"]["train"]["steps"] == 10
    assert len(logged(place, "train_rate")) == (option == "--interval") - 0


def test_a_skip_of_everything_is_told_as_such_beside_a_rate_that_has_windows(place: Place) -> None:
    place.write("main.py", SCRIPT)
    asking(place, ASKING["by name"], STEP)
    ran = place.voir("--train-rate", "--skip", "1e300s", "main.py")
    assert "--skip 1e300s leaves out all steps: there were 10" in ran.stderr


def test_no_number_of_windows_is_too_large(place: Place) -> None:
    place.write("main.py", SCRIPT)
    asking(place, "instrument_rate = rate(interval='1e300s', skip=1e300)", STEP)
    ran = place.voir("main.py")
    assert ("Overflow" in ran.stderr, rates(place)) == (False, 0)
    assert place.record()["tasks"]["train"]["steps"] == 10


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ("rate(interval=2, skip=5)", "10 steps"),
        ("rate(interval=4, skip=3)", "12 steps"),
        ("rate(interval=2, skip='60s')", "60 s"),
        ("rate(interval='10s', skip=6)", "60 s"),
    ],
)
def test_a_rate_that_skips_everything_says_so(place: Place, asked: str, said: str) -> None:
    place.write("main.py", SCRIPT)
    asking(place, f"instrument_rate = {asked}", STEP)
    ran = place.voir("main.py")
    what = f"rate: its skip covers {said}, and leaves out all steps: there were 10 [no-rate]"
    assert (what in ran.stderr, ran.stderr.count("no-rate"), rates(place)) == (True, 1, 0)


@pytest.mark.parametrize("asked", ["rate(interval=3, skip=3)", "rate(interval=20)", "rate()"])
def test_a_rate_that_leaves_a_step_says_nothing(place: Place, asked: str) -> None:
    place.write("main.py", SCRIPT)
    asking(place, f"instrument_rate = {asked}", STEP)
    ran = place.voir("main.py")
    assert ("no-rate" in ran.stderr, rates(place)) == (False, 1)


@pytest.mark.parametrize(
    ("selector", "metric", "said"),
    [
        (STEP, "wrap", "takes only pairs for steps, and leaves out the step events"),
        (PAIR, "step", "takes only step events for steps, and leaves out the pairs"),
    ],
)
def test_what_is_left_out_of_all_there_is_is_told(
    place: Place, selector: str, metric: str, said: str
) -> None:
    place.write("main.py", SCRIPT)
    voirfile(place, selector)
    ran = place.voir("--metric", metric, "main.py")
    assert f"--train-rate: --metric {metric} {said} that were given [no-rate]" in ran.stderr
    other = {"wrap": "step", "step": "wrap"}[metric]
    assert f"Leave that out, or write --metric {other}." in ran.stderr
    assert ran.stderr.count("no-rate") == 1


def test_what_a_voirfile_leaves_out_is_told(place: Place) -> None:
    place.write("main.py", SCRIPT)
    asking(place, "instrument_rate = rate(method='wrap')", STEP)
    said = "rate: rate(method='wrap') takes only pairs for steps, and leaves out the step events"
    assert said in place.voir("main.py").stderr


@pytest.mark.parametrize("metric", ["step", "wrap"])
def test_nothing_is_missed_where_there_is_both(place: Place, metric: str) -> None:
    place.write("main.py", SCRIPT)
    voirfile(place, STEP, PAIR)
    ran = place.voir("--metric", metric, "--items-per-step", "2", "main.py")
    assert "no-rate" not in ran.stderr
    assert place.record()["tasks"]["train"]["steps"] == 10


MISSPELT = "//train(inp as bach) > #endloop_inp as step"
UNSIZED = "step model: how many items a batch holds is not known: no step of train came with"


@pytest.mark.parametrize(
    ("options", "asked"),
    [
        (["--train-rate"], ""),
        (["--loading-rate", "--compute-rate", "--train-rate"], ""),
        ([], "instrument_rate = rate()"),
    ],
    ids=str,
)
def test_rates_of_steps_that_come_without_a_batch_are_told_what_they_lack(
    place: Place, options: list[str], asked: str
) -> None:
    place.write("main.py", SCRIPT)
    asking(place, asked, MISSPELT, PAIR.replace("inp as batch, ", ""))
    ran = place.voir(*options, "main.py")
    assert f"{UNSIZED} batch or batch_size, but with bach [batch-size]" in ran.stderr
    assert ran.stderr.count("[batch-size]") == 1
    assert 'ov.probe("//train(inp as batch) > #endloop_inp as step").give()' in ran.stderr


def test_keys_unlike_a_batch_are_not_named(place: Place) -> None:
    place.write("main.py", SCRIPT)
    asking(place, "", "//train > #endloop_inp as step")
    ran = place.voir("--train-rate", "main.py")
    assert f"{UNSIZED} batch or batch_size [batch-size]" in ran.stderr


@pytest.mark.parametrize(
    ("asked", "selector"),
    [
        ("", MISSPELT),
        ("instrument_rate = rate(batch_size_calc=len)", STEP),
        ("instrument_rate = rate(batch_size_calc=16)", MISSPELT),
    ],
    ids=["nobody asked", "it comes", "it is a number"],
)
def test_of_steps_without_a_batch_nothing_is_said_where_none_is_missed(
    place: Place, asked: str, selector: str
) -> None:
    place.write("main.py", SCRIPT)
    asking(place, asked, selector)
    place.voir("main.py")
    assert place.record()["problems"] == []


def test_a_batch_whose_size_is_not_known_is_told_as_that_alone(place: Place) -> None:
    place.write("main.py", SCRIPT)
    asking(place, "", STEP)  # The batches are text.
    ran = place.voir("--train-rate", "main.py")
    assert (ran.stderr.count("[batch-size]"), UNSIZED in ran.stderr) == (1, False)


#: Twenty slow steps, then eighty quick ones, on a clock that is the script's.
WARMING = """
    import passing as time

    def train():
        for i in range(100):
            inp = [i] * 4
            time.sleep(0.1 if i < 20 else 0.01)
    train()
    """
WARMED = "//train(inp as batch) > #endloop_i as step"


@pytest.mark.parametrize(
    ("options", "environment", "asked"),
    [
        (["--skip", "0"], {}, ""),
        (["--skip", "0s"], {}, ""),
        (["--metric-skip", "0"], {}, ""),
        ([], {"VOIR_SKIP": "0"}, ""),
        ([], {"VOIR_METRIC_SKIP": "0"}, ""),
        ([], {}, "instrument_rate = rate(skip=0)"),
        ([], {}, "instrument_rate = rate(skip='0')"),
        ([], {}, "instrument_rate = rate(skip='0s')"),
    ],
    ids=str,
)
def test_skipping_nothing_leaves_out_nothing(
    timed: Timed, options: list[str], environment: dict[str, str], asked: str
) -> None:
    timed.write("main.py", WARMING)
    asking(timed, asked, WARMED)
    ran = timed.voir(*options, "main.py", env=environment)
    assert ran.status == 0, ran.stderr
    rate = timed.record()["tasks"]["train"]["rate"]
    assert (rate["n"], rate["skipped"]) == (99, 0)  # The beginning of the first was not seen.
    assert rate["steady"] == pytest.approx(99 * 4 / (19 * 0.1 + 80 * 0.01))


@pytest.mark.parametrize(
    "asked", ["", "instrument_rate = rate()", "instrument_rate = rate(skip=3)"]
)
def test_without_a_word_the_warm_up_is_found(timed: Timed, asked: str) -> None:
    timed.write("main.py", WARMING)
    asking(timed, asked, WARMED)
    timed.voir("main.py")
    assert timed.record()["tasks"]["train"]["rate"]["skipped"] in (18, 19, 20)


def test_an_option_goes_before_what_a_voirfile_says(timed: Timed) -> None:
    timed.write("main.py", WARMING)
    asking(timed, "instrument_rate = rate(skip=0)", WARMED)
    timed.voir("--skip", "50", "main.py")
    assert timed.record()["tasks"]["train"]["rate"]["n"] == 50


@pytest.mark.parametrize("name", ["VOIR_INTERVAL", "VOIR_METRIC_INTERVAL"])
def test_an_options_other_name_is_read_from_the_environment_too(place: Place, name: str) -> None:
    place.write("main.py", SCRIPT)
    voirfile(place, PAIR, LOADER)
    place.voir("--train-rate", "main.py", env={name: "2"})
    assert len(logged(place, "train_rate")) == 5


@pytest.mark.parametrize("times", [1, 3])
def test_a_number_counts_for_every_batch(place: Place, times: int) -> None:
    place.write("main.py", SCRIPT)
    asking(place, "instrument_rate = rate(batch_size_calc=16)", STEP)
    place.voir("--items-per-step", str(times), "main.py")
    assert place.record()["tasks"]["train"]["items"] == 160 * times


def test_a_function_counts_as_often_as_it_is_said(place: Place) -> None:
    place.write("main.py", SCRIPT)
    asking(place, ASKING["by name"], STEP)
    place.voir("--items-per-step", "3", "main.py")
    assert place.record()["tasks"]["train"]["items"] == 3 * ITEMS
