"""``voir --trace``: what the timeline of a run shows, the options that steer it, and endings."""

from __future__ import annotations

import json
import re
import signal
import subprocess

import pytest

from instruments.trace_options import expanded
from overseer.errors import UsageError
from overseer.rundir.steps import step_rows, steps_of
from overseer.trace import open_trace
from overseer.trace.rows import make
from overseer.trace.writer import TraceLog
from tests.programs import replay
from tests.running import VOIR, Place, environment
from tests.trace.conftest import row

SCRIPT = """
    import sys
    from voir import give, iterate, trace

    def train(epoch, n):
        for batch in iterate("train", range(n), report_batch=True, batch_size=4):
            with trace.channel("app").span("work", epoch=epoch):
                give(loss=1 / (batch + epoch + 1))

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
TORCH = """
    import io
    import torch
    from torch import nn
    from torch.utils.data import DataLoader, TensorDataset

    data = TensorDataset(torch.randn(48, 8), torch.randint(3, (48,)))
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 3))
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    train, test = DataLoader(data, batch_size=8), DataLoader(data, batch_size=16)
    for epoch in range(2):
        for x, y in train:
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(x), y).backward()
            optimizer.step()
        torch.save(model.state_dict(), io.BytesIO())
        with torch.no_grad():
            for x, y in test:
                model.eval()(x)
        model.train()
"""


@pytest.fixture
def place(tmp_path):
    made = Place(tmp_path)
    made.write("main.py", SCRIPT)
    return made


def traced(place, *options, **more):
    done = place.voir("--no-monitor", *options, "main.py", **more)
    assert done.seen == (0, "done\n"), done.stderr
    (run,) = place.runs
    return open_trace(run)


def numbers(trace):
    return [one.args["step"] for one in row(trace, "train steps")]


def marks(trace, channel="voir"):
    return [(one.label, one.args) for one in trace.instants() if one.channel == channel]


def test_phases_steps_spans_and_figures_are_in_the_trace(place):
    trace = traced(place, "--trace")
    phases = ["init", "parse_args", "load_script", "run_script", "finalize"]
    assert [one.label for one in row(trace, "phases")] == phases
    steps = [one for one in row(trace, "train steps") if one.label == "step"]
    assert [one.args for one in steps] == [{"step": n, "items": 4} for n in range(15)]
    assert [one.args["epoch"] for one in row(trace, "MainThread")] == [n // 5 for n in range(15)]
    losses = trace.counters["loss"].values
    assert (losses[:2], len(losses)) == ([1.0, 0.5], 15)
    assert trace.counters["accuracy"].values == [0.0, 1 / 3, 2 / 3]
    assert (trace.unfinished, [one.name for one in trace.processes]) == (0, ["main.py"])
    said = place.record()["trace"]
    assert said == {"path": str(trace.path.resolve()), "events": trace.events, "dropped": 0}
    assert [one.name for one in trace.path.parent.glob("trace*")] == ["trace.pftrace"]


def test_without_the_flag_nothing_is_written(place):
    done = place.voir("--trace-steps", "1:2", "main.py")
    assert (done.status, "it has no effect without --trace" in done.stderr) == (0, True)
    assert (list(place.path.rglob("*.pftrace")), "trace" in place.record()) == ([], False)


def test_the_files_of_the_script_have_the_numbers_that_they_have_without_it(place):
    place.write("main.py", "print(open(__file__).fileno())")
    assert place.voir("--trace", "main.py").stdout == place.python("main.py").stdout


@pytest.mark.parametrize(
    ("steps", "every", "expected"), [("12:", "1", [12, 13, 14]), ("2:9", "3", [2, 5, 8])]
)
def test_only_the_steps_asked_for(place, steps, every, expected):
    trace = traced(place, "--trace", "--trace-steps", steps, "--trace-every", every)
    assert numbers(trace) == expected
    assert len(trace.counters["loss"].values) == len(row(trace, "MainThread")) == len(expected)
    assert "run_script" in [one.label for one in row(trace, "phases")]


def test_a_directory_of_ones_own_and_no_record(place):
    settings = {"directory": "here/there", "channels": ["app", "vo*"]}
    done = place.voir("--no-record", "main.py", env={"VOIR_TRACE": json.dumps(settings)})
    assert done.status == 0, done.stderr
    (file,) = (place.path / "here/there").iterdir()
    assert file.match("*-main-*.pftrace")
    assert {one.channel for one in open_trace(file).slices()} == {"app", "voir"}
    assert place.runs == []


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ("--no-record", "[trace-nowhere]"),
        ("--trace-dir main.py/below", "[trace-unwritable]"),
        ("--trace-rank 4", "[no-such-rank]"),
        ("--trace-channels steps,stepz,met*", "no channel is called 'stepz': there are voir"),
        ("--trace-steps 9000:", "9000: never came: 15 steps were seen [trace-steps]"),
    ],
)
def test_what_cannot_be_traced_and_what_never_came_is_told(place, options, said):
    done = place.voir("--trace", *options.split(), "main.py")
    assert (done.seen, said in done.stderr) == ((0, "done\n"), True), done.stderr


def test_a_trace_that_was_deleted_holds_nothing(place):
    script = "import shutil\nfrom voir import give\ngive(loss=1)\nshutil.rmtree('traces')\n"
    place.write("main.py", script)
    assert place.voir("--trace", "--trace-dir", "traces", "main.py").status == 0
    said = place.record()["trace"]
    assert (said["events"], said["dropped"] > 3) == (0, True)


def test_an_error_and_a_stop_are_marked(place):
    assert place.voir("--trace", "--run-dir", "one", "main.py", "oh no").status == 1
    assert place.voir("--trace", "--run-dir", "two", "--stop", "4", "main.py").status == 0
    one, two = (open_trace(place.path / run) for run in ("one", "two"))
    assert marks(one)[1:] == [("error", {"type": "ValueError", "message": "oh no"})]
    assert [label for label, _ in marks(two)] == ["clocks", "early stop"]
    assert numbers(two) == [0, 1, 2, 3]


def test_nothing_more_is_recorded_after_the_duration(place):
    script = """
        import time
        from voir import trace
        app = trace.channel("app", always=True)
        until = time.monotonic() + 1
        while time.monotonic() < until: pass
        app.instant("imported")
        """
    place.write("slow.py", script)
    script = """
        import slow
        import time
        slow.app.instant("early")
        until = time.monotonic() + 20
        while slow.app.recording and time.monotonic() < until: time.sleep(0.01)
        slow.app.enable()
        slow.app.instant("late")
        print("done")
        """
    place.write("main.py", script)
    trace = traced(place, "--trace", "--trace-duration", "0.5")
    seen = [label for label, _ in marks(trace, "app")]
    assert seen == ["imported", "early"], "imports are no part of it"


def test_parts_of_a_script_are_traced_by_themselves(place):
    script = """
        import voir

        def train(n):
            for number in range(n):
                voir.give(step=number, batch_size=4, loss=number)

        train(3)
        with voir.profile():
            train(5)
        train(3)

        @voir.profile()
        def part():
            train(2)
        part()
        print("done")
        """
    place.write("main.py", script)
    trace = traced(place)
    assert numbers(trace) == [3, 4, 5, 6, 7, 11, 12]
    assert trace.counters["loss"].values == [0, 1, 2, 3, 4, 0, 1]
    assert place.voir("--no-trace", "--run-dir", "off", "main.py").seen == (0, "done\n")
    assert not list((place.path / "off").glob("*.pftrace"))


# VOIR_TRACE


def test_the_variable_is_all_options_in_one():
    text = json.dumps({"enable": "true", "directory": "d", "channels": ["a", "b"], "steps": [1, 3],
                       "duration": 2.0, "ring": True, "profile": False})  # fmt: skip
    assert expanded({"VOIR_TRACE": text, "VOIR_TRACE_STEPS": "5:6", "HOME": "x"}) == {
        "VOIR_TRACE": "true", "VOIR_TRACE_DIR": "d", "VOIR_TRACE_CHANNELS": "a,b",
        "VOIR_TRACE_STEPS": "5:6", "VOIR_TRACE_DURATION": "2", "VOIR_TRACE_RING": "1",
        "VOIR_PROFILE": "0", "HOME": "x",
    }  # fmt: skip
    assert expanded({"VOIR_TRACE": "{}"}) == {"VOIR_TRACE": "1"}


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("{enable", "not a JSON object"),
        ("[1]", "not a JSON object"),
        ('{"chanels": []}', "no setting 'chanels'"),
        ('{"steps": {}}', "steps is {}"),
    ],
)
def test_a_variable_that_makes_no_sense_is_refused(value, words):
    with pytest.raises(UsageError) as refused:
        expanded({"VOIR_TRACE": value})
    assert (refused.value.slug, words in refused.value.what) == ("trace-settings", True)


@pytest.mark.parametrize(
    ("options", "variable", "words"),
    [
        ([], "{", "[trace-settings]"),
        ([], '{"enable": "maybe"}', "It must be 1 or 0"),
        (["--trace-steps", "9:3"], "", "--trace-steps is '9:3'"),
        (["--trace-level", "ops"], "", "Levels are off, step"),
    ],
)
def test_options_that_make_no_sense_end_the_command(place, options, variable, words):
    done = place.voir(*options, "main.py", env={"VOIR_TRACE": variable})
    assert (done.seen, words in done.stderr) == ((2, ""), True), done.stderr
    assert "Traceback" not in done.stderr


# PyTorch


@pytest.fixture(scope="module")
def learned(tmp_path_factory):
    """A PyTorch script, traced as a whole, and two of its steps with all detail."""
    pytest.importorskip("torch")
    made = Place(tmp_path_factory.mktemp("torch"))
    made.write("main.py", TORCH)
    for options in ("--run-dir step", "--run-dir op --trace-level op --trace-steps 3:5"):
        every = ["--strict", "--no-monitor", "--trace", *options.split()]
        done = made.voir(*every, "main.py", env={"VOIR_KEEP_LOG": "1"})
        assert done.status == 0, done.stderr
    return made


def facts_of(run):
    return json.loads((run / "run.json").read_text())


def test_a_log_that_was_kept_is_replayed(learned, capsys):
    replay.main([str(learned.path / "step/kept.log")])
    said = capsys.readouterr().out.splitlines()
    assert said[-2] == "train: 12 steps, 96 items"
    assert sum(" of train: " in line for line in said) == 12


def test_rows_of_steps_come_from_steps_npy_or_from_the_log_and_are_the_same(learned, tmp_path):
    log = TraceLog(learned.path / "step/kept.log")
    facts = facts_of(learned.path / "step")
    steps = list(step_rows(steps_of(learned.path / "step", facts), ()))
    assert [one.number for one in steps if one.task == "train"] == list(range(1, 13))
    shown = []
    for n, given in enumerate((None, steps, steps[:5])):
        made = make(log, tmp_path / f"{n}.pftrace", steps=given)
        trace = open_trace(made.path)
        shown.append((
            row(trace, "train steps"), [label for label, _ in marks(trace, "progress")],
            trace.counters["loss"].samples, made.kept,
        ))  # fmt: skip
    assert shown[0] == shown[1]
    assert (shown[1][3], shown[2][3]) == (12, 5)
    assert shown[0][1] == ["epoch 0 end", "epoch 1 end"]


@pytest.mark.parametrize("options", [(), ("--steps-max-mb", "0.001"), ("--steps-max-mb", "0")])
def test_a_trace_has_every_step_by_its_full_name_whatever_steps_npy_has(place, options):
    task = "a task with a name of more than 24 bytes"
    place.write("main.py", f"""
        from voir import iterate

        for batch in iterate({task!r}, range(15), report_batch=True, batch_size=4):
            pass
        print("done")
        """)  # fmt: skip
    trace = traced(place, "--trace", *options)
    assert [one.args["step"] for one in row(trace, f"{task} steps")] == list(range(15))


def test_rows_of_a_pytorch_script(learned):
    trace = open_trace(learned.path / "step")
    shown = {thread.name: {one.label for one in thread.slices} for thread in trace.threads}
    assert [shown[name] for name in ("passes", "evaluation", "optimizer", "checkpoints")] == [
        {"forward", "backward"}, {"eval"}, {"optimizer"}, {"checkpoint"},
    ]  # fmt: skip
    steps = row(trace, "train steps")
    assert [one.args for one in steps] == [{"step": n, "items": 8} for n in range(12)]
    assert all("loading" in [child.label for child in one.children] for one in steps)
    assert len(trace.counters["loss"].values) == 12
    ends = [(one.label, one.args) for one in trace.instants()][1:]
    assert ends == [(f"epoch {n} end", {"steps": 6}) for n in range(2)]
    task = facts_of(learned.path / "step")["tasks"]["train"]
    steady = [child for one in steps[-task["rate"]["n"] :] for child in one.children]
    for label in ("loading", "compute"):
        seconds = sum(one.duration for one in steady if one.label == label) / 1e9
        assert seconds == pytest.approx(task[label]["seconds"]), "there is one figure"


def test_modules_and_operators_of_the_steps_asked_for(learned):
    trace, facts = open_trace(learned.path / "op"), facts_of(learned.path / "op")
    assert numbers(trace) == [3, 4]
    calls = [one for one in row(trace, "MainThread") if one.label == "Sequential"]
    inner = ["Sequential.0", "Sequential.1", "Sequential.2"]
    assert [[child.label for child in one.children] for one in calls] == [inner] * 2
    assert calls[0].children[1].args == {"module": "ReLU"}
    linear = [one for one in trace.slices() if one.label == "aten::linear"]
    modules = [one for one in trace.slices() if one.args.get("module") == "Linear"]
    assert len(linear) == len(modules) == 4
    for one, module in zip(linear, modules, strict=True):
        # Its end by another clock may lie a moment after the module's.
        middle = one.start + one.duration / 2
        assert module.start <= one.start < middle < module.start + module.duration
    assert facts["tasks"]["train"]["rate"]["profiled"] == 2
    assert (facts["trace"]["level"], facts["trace"]["profiled"]) == ("op", 2)


def test_windows_open_while_a_stop_that_was_swallowed_comes_again(tmp_path):
    pytest.importorskip("torch")
    place = Place(tmp_path)
    script = """
        import torch, voir
        model, stopped = torch.nn.Sequential(torch.nn.Linear(2, 2)), 0
        for n in range(12):
            model(torch.ones(4, 2))
            try:
                voir.give(step=n, batch_size=4)
            except BaseException:
                stopped += 1
        print(stopped)
        """
    place.write("main.py", script)
    options = "--stop 2 --trace --trace-level module --trace-steps 5:7 --no-monitor main.py"
    assert int(place.voir(*options.split()).stdout) > 8
    calls = [one for one in row(open_trace(place.runs[0]), "MainThread") if one.children]
    assert [[inner.label for inner in one.children] for one in calls] == [["Sequential.0"]] * 2


def test_spans_within_compiled_code_break_nothing(tmp_path):
    pytest.importorskip("torch")
    place = Place(tmp_path)
    script = """
        import torch
        from voir import trace
        app = trace.channel("app")

        @torch.compile(backend="eager")
        def twice(x):
            with app.span("inside"):
                return 2 * x

        print(twice(torch.ones(2)).sum().item())
        """
    place.write("main.py", script)
    done = place.voir("--no-monitor", "--trace", "--run-dir", "run", "main.py", warm=True)
    assert (done.seen, "Warning" in done.stderr) == ((0, "4.0\n"), False), done.stderr
    labels = [one.label for one in open_trace(tmp_path / "run").slices()]
    assert "inside" in labels


ASKED = """
    import time
    import torch
    from overseer.recorder import recorder
    from overseer.recorder.sites import WORD_TRACE

    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU())
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for step in range(4000):
        if step == 3:
            recorder.control(WORD_TRACE, 2)  # As another program does.
        model(torch.ones(2, 4)).sum().backward()
        optimizer.step()
        time.sleep(0.01)
        if step > 10 and not recorder.control(WORD_TRACE):
            break
    for step in range(10):
        model(torch.ones(2, 4)).sum().backward()
        optimizer.step()
    print("done")
"""


def test_steps_are_traced_when_another_program_asks_for_them(tmp_path):
    pytest.importorskip("torch")
    place = Place(tmp_path)
    place.write("main.py", ASKED)
    trace = traced(place, warm=True)
    assert len(numbers(trace)) == 2
    assert len([one for one in trace.slices() if one.label == "aten::linear"]) == 2
    (run,) = place.runs
    assert facts_of(run)["trace"]["profiled"] == 2


# Endings


WAITS = """
    import sys, time
    from voir import give, trace
    app = trace.channel("app", always=True)
    for number in range(500):
        give(step=number)
        app.instant(f"mark {number}")
    time.sleep(0.5)
    print("ready", flush=True)
    time.sleep(60)
"""


def test_a_killed_run_has_its_trace_up_to_the_last_moment(place):
    place.write("main.py", WAITS)
    command = [*VOIR, "--no-monitor", "--trace", "--trace-dir", "there", "--run-dir", "run"]
    options = {"cwd": place.path, "env": environment(), "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen([*command, "main.py"], **options) as process:
        assert process.stdout.readline() == "ready\n"
        (log,) = (place.path / "there").iterdir()
        process.send_signal(signal.SIGKILL)
    made = log.with_suffix(".pftrace")
    shown = place.voir("trace", "export", str(log))
    assert (log.suffix, shown.seen) == (".log", (0, f"{made}\n")), shown.stderr
    trace = open_trace(made)
    assert [label for label, _ in marks(trace, "app")] == [f"mark {n}" for n in range(500)]
    assert len(numbers(trace)) >= 499
    assert not log.exists()


def test_an_interruption_while_it_is_made_leaves_it_for_later(place):
    script = """
        import instruments.tracing

        def interrupted(*arguments):
            raise KeyboardInterrupt

        instruments.tracing.make = interrupted
        """
    place.write("voirfile.py", script)
    done = place.voir("--trace", "--run-dir", "run", "main.py")
    assert done.seen == (0, "done\n")
    assert "[trace-unmade]" in done.stderr and "voir trace export" in done.stderr
    assert place.voir("trace", "export", "run").seen == (0, "run/trace.pftrace\n")
    assert len(numbers(open_trace(place.path / "run"))) == 15


def test_ranks_share_a_clock_and_one_timeline(place):
    processes = []
    for rank in range(2):
        env = environment({"RANK": str(rank), "WORLD_SIZE": "2", "TORCHELASTIC_RUN_ID": "j"})
        command = [*VOIR, *["--no-monitor", "--trace", "--run-dir", "job", "main.py"]]
        options = {"cwd": place.path, "env": env, "stdout": subprocess.DEVNULL}
        processes.append(subprocess.Popen(command, **options))
    assert [process.wait(60) for process in processes] == [0, 0]
    trace = open_trace(place.path / "job")
    assert [one.name for one in trace.processes] == ["rank 0: main.py", "rank 1: main.py"]
    first, second = (open_trace(place.path / f"job/rank{rank}").anchors for rank in range(2))
    same = {key: first[key] for key in ("realtime_ns", "monotonic_ns", "boot_id")}
    assert (same.items() <= second.items(), trace.hosts) == (True, 1)
    assert [one["rank"] for one in (first, second)] == [0, 1]
    told = place.voir("trace", "summary", "job").stdout
    assert re.search(
        r"^step +steps +\S+ \S+ +rank [01]: main.py .* rank [01]: main.py$", told, re.MULTILINE
    )
    merged = place.voir("trace", "export", "job", "--to", "perfetto")
    assert merged.seen == (0, "job/ranks.pftrace\n"), merged.stderr
    assert open_trace(place.path / "job/ranks.pftrace").events == trace.events
