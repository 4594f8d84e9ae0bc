"""``voir --trace``: what the timeline of a run shows, and the options that steer it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from overseer.trace import Trace, open_trace
from tests.running import Place, Ran

SCRIPT = """
    import sys
    from voir import give, iterate

    def train(epoch, n):
        for batch in iterate("train", range(n), report_batch=True, batch_size=4):
            loss = 1 / (batch + epoch + 1)
            give(loss=loss)

    def main():
        for epoch in range(3):
            train(epoch, 5)
            give(task="train", accuracy=epoch / 3)

    if __name__ == "__main__":
        main()
        print("done")
        if len(sys.argv) > 1:
            raise ValueError(sys.argv[1])
"""


@pytest.fixture
def place(tmp_path: Path) -> Place:
    place = Place(tmp_path)
    place.write("main.py", SCRIPT)
    return place


def traced(place: Place, *options: str, env: dict[str, str] | None = None) -> Trace:
    done = place.voir("--no-monitor", *options, "main.py", env=env)
    assert (done.status, done.stdout) == (0, "done\n"), done.stderr
    (run,) = place.runs
    return open_trace(run)


def labels(trace: Trace, row: str) -> list[str]:
    """The spans of a row, outermost first."""
    return [one.label for thread in trace.threads if thread.name == row for _, one in thread.walk()]


def test_phases_steps_and_losses_are_in_the_trace(place: Place) -> None:
    trace = traced(place, "--trace")
    phases = ["init", "parse_args", "load_script", "run_script", "finalize"]
    assert labels(trace, "phases") == phases
    steps = [one for one in trace.slices() if one.label == "step"]
    assert [one.args for one in steps] == [{"step": n, "items": 4} for n in range(15)]
    assert all([child.label for child in one.children][-1] == "compute" for one in steps)
    assert len(trace.counters["loss"].values) == 15
    assert trace.counters["loss"].values[:2] == [1.0, 0.5]
    assert trace.counters["accuracy"].values == [0.0, 1 / 3, 2 / 3]
    assert trace.unfinished == 0
    assert [process.name for process in trace.processes] == ["main.py"]


def test_the_record_says_where_the_trace_is(place: Place) -> None:
    trace = traced(place, "--trace")
    said = place.record()["trace"]
    assert Path(said["path"]) == trace.path.resolve()
    assert said["events"] == trace.events
    assert said["dropped"] == 0


def test_without_the_flag_nothing_is_written(place: Place) -> None:
    assert place.voir("main.py").status == 0
    assert list(place.path.rglob("*.pftrace")) == []
    assert "trace" not in place.record()


@pytest.mark.parametrize(
    ("options", "numbers"),
    [
        (["--trace-steps", "3:6"], [3, 4, 5]),
        (["--trace-steps", "12:"], [12, 13, 14]),
        (["--trace-every", "5"], [0, 5, 10]),
        (["--trace-steps", "2:9", "--trace-every", "3"], [2, 5, 8]),
    ],
)
def test_only_the_steps_asked_for(place: Place, options: list[str], numbers: list[int]) -> None:
    trace = traced(place, "--trace", *options)
    assert [one.args["step"] for one in trace.slices() if one.label == "step"] == numbers
    assert len(trace.counters["loss"].values) == len(numbers)
    assert "run_script" in labels(trace, "phases")


def test_a_loss_that_comes_with_the_end_of_its_step_is_that_steps(place: Place) -> None:
    script = "from voir import give\nfor i in range(9):\n    give(step=i, loss=i)\nprint('done')\n"
    place.write("main.py", script)
    trace = traced(place, "--trace", "--trace-steps", "3:6")
    assert [one.args["step"] for one in trace.slices() if one.label == "step"] == [3, 4, 5]
    assert trace.counters["loss"].values == [3, 4, 5]


def test_channels_that_there_are_not_are_told(place: Place) -> None:
    done = place.voir("--trace", "--trace-channels", "steps,stepz,met*", "main.py")
    assert (done.status, done.stdout) == (0, "done\n")
    assert "no channel is called 'stepz': there are voir" in done.stderr
    assert done.stderr.count("[trace-channels]") == 1


def test_steps_that_never_come_are_told(place: Place) -> None:
    done = place.voir("--trace", "--trace-steps", "100:110", "main.py")
    assert (done.status, done.stdout) == (0, "done\n")
    assert "the steps 100:110 never came: 15 steps were seen [trace-steps]" in done.stderr


def test_only_the_channels_asked_for(place: Place) -> None:
    trace = traced(place, "--trace", "--trace-channels", "metrics,vo*")
    found = {one.channel for one in [*trace.slices(), *trace.instants()]}
    assert found == {"voir"}
    assert "loss" in trace.counters


def test_a_directory_of_ones_own_and_no_record(place: Place) -> None:
    done = place.voir("--trace", "--no-record", "--trace-dir", "here/there", "main.py")
    assert done.status == 0, done.stderr
    (file,) = (place.path / "here/there").glob("*-main-*.pftrace")
    assert open_trace(file).events > 30
    assert place.runs == []


def test_a_trace_that_was_deleted_holds_nothing(place: Place) -> None:
    script = "import shutil\nfrom voir import give\ngive(loss=1)\nshutil.rmtree('traces')\n"
    place.write("main.py", script)
    assert place.voir("--trace", "--trace-dir", "traces", "main.py").status == 0
    said = place.record()["trace"]
    assert said["events"] == 0
    assert said["dropped"] > 5


def test_nowhere_to_write_is_told(place: Place) -> None:
    done = place.voir("--trace", "--no-record", "main.py")
    assert (done.status, done.stdout) == (0, "done\n")
    assert "[trace-nowhere]" in done.stderr


def test_a_place_that_cannot_be_written_is_told(place: Place) -> None:
    place.write("file", "")
    done = place.voir("--trace", "--trace-dir", "file/below", "main.py")
    assert (done.status, done.stdout) == (0, "done\n")
    assert "[trace-unwritable]" in done.stderr


def test_the_variable_is_all_options_in_one(place: Place) -> None:
    settings = {"enable": "true", "directory": "traces", "channels": ["steps"], "steps": "1:3"}
    done = place.voir("main.py", env={"VOIR_TRACE": json.dumps(settings)})
    assert done.status == 0, done.stderr
    (file,) = (place.path / "traces").iterdir()
    trace = open_trace(file)
    assert [one.args["step"] for one in trace.slices() if one.label == "step"] == [1, 2]
    assert {one.channel for one in trace.slices()} == {"steps"}


@pytest.mark.parametrize("value", ["1", '{"enable": true}', "{}"])
def test_the_variable_may_just_switch_it_on(place: Place, value: str) -> None:
    assert traced(place, env={"VOIR_TRACE": value}).events > 30


@pytest.mark.parametrize("value", ["0", '{"enable": false}', '{"level": "off"}'])
def test_the_variable_may_leave_it_off(place: Place, value: str) -> None:
    assert place.voir("main.py", env={"VOIR_TRACE": value}).status == 0
    assert list(place.path.rglob("*.pftrace")) == []


def refused(done: Ran) -> str:
    assert (done.status, done.stdout) == (2, "")
    assert "Traceback" not in done.stderr
    assert "[trace-settings]" in done.stderr
    return done.stderr


def test_a_variable_that_makes_no_sense_is_refused(place: Place) -> None:
    said = {
        "{enable": "no JSON object",
        "[1]": "no JSON object",
        '{"chanels": []}': "no setting 'chanels'",
        '{"enable": "maybe"}': "enable is 'maybe'",
        '{"steps": "9:3"}': "the steps to trace are '9:3'",
        '{"duration": -1}': "the duration in seconds is '-1'",
    }
    for value, words in said.items():
        assert words in refused(place.voir("main.py", env={"VOIR_TRACE": value}))


def test_options_that_make_no_sense_are_refused(place: Place) -> None:
    refused(place.voir("--trace", "--trace-steps", "5", "main.py"))
    assert "Levels are off, step" in refused(place.voir("--trace-level", "ops", "main.py"))


def test_an_error_and_a_stop_are_marked(place: Place) -> None:
    failed = place.voir("--trace", "main.py", "oh no")
    assert failed.status == 1
    place.write(
        "voirfile.py",
        """
        from voir.instruments import early_stop

        def instrument_stop(ov):
            ov.require(early_stop("loss", n=4))
        """,
    )
    stopped = place.voir("--trace", "main.py")
    assert stopped.status == 0, stopped.stderr
    marks = [
        [(one.label, one.args) for one in open_trace(run).instants() if one.channel == "voir"][1:]
        for run in sorted(place.runs, key=lambda run: run.stat().st_mtime)
    ]
    assert marks[0] == [("error", {"type": "ValueError", "message": "oh no"})]
    assert [label for label, _ in marks[1]] == ["early stop"]


def test_nothing_more_is_recorded_after_the_duration(place: Place) -> None:
    place.write(
        "main.py",
        """
        import time
        from overseer.trace.recorder import recorder
        from voir import trace

        app = trace.channel("app")
        app.instant("early")
        until = time.monotonic() + 20
        while not recorder._shut and time.monotonic() < until:
            time.sleep(0.01)
        app.instant("late")
        print("done")
        """,
    )
    trace = traced(place, "--trace", "--trace-duration", "1")
    assert [one.label for one in trace.instants() if one.channel == "app"] == ["early"]
    assert trace.unfinished == 0


def test_the_duration_counts_from_when_the_imports_are_done(place: Place) -> None:
    place.write(
        "slow.py",
        """
        import time
        from overseer.trace.recorder import recorder

        until = time.monotonic() + 0.6
        while time.monotonic() < until:
            time.sleep(0.01)
        shut = recorder._shut
        """,
    )
    place.write("main.py", "import slow\nprint(slow.shut)\n")
    done = place.voir("--trace", "--trace-duration", "0.1", "main.py")
    assert done.seen == (0, "False\n"), done.stderr


UNASKED = {
    "--trace-steps": ["--trace-steps", "1:3"],
    "--trace-duration": ["--trace-duration", "5"],
    "--profile-steps": ["--profile-steps", "3"],
    "--trace-dir": ["--trace-dir", "traces"],
}


@pytest.mark.parametrize("option", UNASKED)
def test_options_of_a_trace_that_nobody_asks_for_are_told(place: Place, option: str) -> None:
    done = place.voir("--no-record", *UNASKED[option], "main.py")
    assert done.seen == (0, "done\n")
    assert f"{option}: it does nothing without --{option[2:].split('-')[0]}" in done.stderr
    assert done.stderr.count("[trace-unasked]") == 1


def test_variables_of_a_trace_that_nobody_asks_for_are_told(place: Place) -> None:
    done = place.voir("--no-record", "main.py", env={"VOIR_TRACE_EVERY": "10"})
    assert done.seen == (0, "done\n")
    assert "--trace-every: it does nothing without --trace" in done.stderr


def test_settings_that_many_runs_share_may_tell_how_to_trace(place: Place) -> None:
    place.write("settings.json", '{"trace-steps": "1:3", "trace-dir": "traces"}')
    done = place.voir("--no-record", "--config", "settings.json", "main.py")
    assert done.seen == (0, "done\n")
    assert "trace" not in done.stderr


@pytest.mark.parametrize("off", [["--no-trace"], ["--trace-level", "off"]])
def test_who_wants_no_trace_is_not_told_that_there_is_none(place: Place, off: list[str]) -> None:
    done = place.voir("--no-record", "--trace-steps", "1:3", *off, "main.py")
    assert done.seen == (0, "done\n")
    assert "trace" not in done.stderr


def test_a_voirfile_sets_spans_counters_and_instants(place: Place) -> None:
    place.write(
        "voirfile.py",
        """
        def instrument_timeline(ov):
            yield ov.phases.load_script
            ov.span("//main > #loop_epoch", "epoch {epoch}")
            ov.span("//train(n)", "train {epoch} of {n}", channel="training")
            ov.probe("//train > loss").counter("Loss", "nats")
            ov.probe("//main > epoch").instant("Epoch {epoch} begin")
            ov.given["?accuracy"].counter("Accuracy")
        """,
    )
    done = place.voir("--strict", "--trace", "main.py")
    assert (done.status, done.stdout) == (0, "done\n"), done.stderr
    (run,) = place.runs
    trace = open_trace(run)
    main = next(t for t in trace.threads if t.name == "MainThread")
    assert [(one.label, one.channel) for one in main.slices] == [
        (f"epoch {n}", "voirfile") for n in range(3)
    ]
    inner = [(c.label, c.channel) for one in main.slices for c in one.children]
    assert inner == [(f"train {n} of 5", "training") for n in range(3)]
    marks = [one.label for one in main.instants if one.channel == "voirfile"]
    assert marks == [f"Epoch {n} begin" for n in range(3)]
    assert trace.counters["Loss"].unit == "nats"
    assert trace.counters["Loss"].values == trace.counters["loss"].values
    assert trace.counters["Accuracy"].values == [0.0, 1 / 3, 2 / 3]


def test_without_a_trace_the_same_voirfile_does_nothing(place: Place) -> None:
    place.write(
        "voirfile.py",
        """
        def instrument_timeline(ov):
            yield ov.phases.load_script
            ov.span("//main > #loop_epoch", "epoch {epoch}")
            ov.probe("//train > loss").counter("Loss")
        """,
    )
    done = place.voir("--strict", "main.py")
    assert (done.status, done.stdout) == (0, "done\n"), done.stderr


def test_a_span_of_a_variable_is_refused(place: Place) -> None:
    place.write(
        "voirfile.py",
        """
        def instrument_timeline(ov):
            yield ov.phases.load_script
            ov.span("//train > loss")
        """,
    )
    done = place.voir("--trace", "main.py")
    assert (done.status, done.stdout) == (0, "done\n")
    assert "[span-selector]" in done.stderr
    assert "voirfile.py:4" in done.stderr


PROFILED = """
    import voir
    from voir import trace

    app = trace.channel("app")

    @app.span("decorated")
    def work(n):
        with app.span(f"work {n}", n=n):
            app.counter("Loss").series("training").add(n)

    @voir.profile()
    def profiled():
        work(3)

    work(0)
    with voir.profile():
        work(1)
    work(2)
    profiled()
    with voir.profile(level="off"):
        work(4)
    print("done")
"""


def test_a_script_traces_parts_of_itself(place: Place) -> None:
    place.write("main.py", PROFILED)
    trace = traced(place)
    found = [one.label for one in trace.slices() if one.channel == "app"]
    assert found == ["work 1", "work 3"]
    assert trace.counters["Loss: training"].values == [1.0, 3.0]


def test_under_a_trace_all_of_it_is_there(place: Place) -> None:
    place.write("main.py", PROFILED)
    found = [one.label for one in traced(place, "--trace").slices() if one.channel == "app"]
    assert found == [x for n in range(5) for x in ("decorated", f"work {n}")]


def test_the_same_script_runs_under_plain_python(place: Place) -> None:
    place.write("main.py", PROFILED)
    done = place.python("main.py")
    assert (done.status, done.stdout, done.stderr) == (0, "done\n", "")
    assert list(place.path.rglob("*.pftrace")) == []


def test_a_part_has_the_steps_asked_for_counted_from_its_beginning(place: Place) -> None:
    place.write(
        "main.py",
        """
        import voir

        def train(n):
            for number in range(n):
                voir.give(step=number, batch_size=4, loss=number)

        train(3)
        with voir.profile(steps="1:3"):
            train(5)
        train(3)
        with voir.profile():
            train(2)
        print("done")
        """,
    )
    trace = traced(place)
    steps = [one.args["step"] for one in trace.slices() if one.label == "step"]
    assert steps == [4, 5, 11, 12]
    assert trace.counters["loss"].values == [1.0, 2.0, 0.0, 1.0]


def test_a_part_may_have_so_many_steps_of_which_some_are_left_out(place: Place) -> None:
    place.write(
        "main.py",
        """
        import voir

        with voir.profile(steps=2, skip=1, every=3):
            for number in range(9):
                voir.give(step=number, batch_size=4)
        print("done")
        """,
    )
    steps = [one.args["step"] for one in traced(place).slices() if one.label == "step"]
    assert steps == [1, 4]


def test_a_part_goes_where_the_options_say(place: Place) -> None:
    place.write("main.py", "import voir\nwith voir.profile():\n    pass\n")
    done = place.voir("--trace-dir", "traces", "--trace-channels", "voir", "main.py")
    assert done.status == 0, done.stderr
    assert [file.parent.name for file in place.path.rglob("*.pftrace")] == ["traces"]


def test_where_traces_are_switched_off_a_script_traces_no_part_of_itself(place: Place) -> None:
    place.write("main.py", PROFILED)
    assert place.voir("--no-trace", "main.py").stdout == "done\n"
    assert list(place.path.rglob("*.pftrace")) == []


def test_only_the_rank_asked_for_is_traced(place: Place) -> None:
    options = ("--run-dir", "run", "--trace", "--trace-rank", "1", "main.py")
    for rank in ("0", "1"):
        done = place.voir(*options, env={"RANK": rank, "WORLD_SIZE": "2"})
        assert (done.status, done.stdout) == (0, "done\n"), done.stderr
    (file,) = place.path.rglob("*.pftrace")
    assert file.parent.name == "rank1"
    assert "there is no rank 1: ranks are 0 to 0 [trace-rank]" in place.voir(*options[2:]).stderr
