"""``--stop N``: what it refuses, and what it says when there was nothing to count."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.running import Place

SCRIPT = """
def train_epoch(loader):
    for inp in loader:
        loss = inp

train_epoch(range(5))
print("to the end")
"""


@pytest.fixture
def place(tmp_path: Path) -> Place:
    place = Place(tmp_path)
    place.write("main.py", SCRIPT)
    return place


def probing(place: Place, selector: str) -> None:
    place.write(
        "voirfile.py",
        f"""
        def instrument_probes(ov):
            yield ov.phases.load_script
            ov.probe("{selector}").give()
        """,
    )


@pytest.mark.parametrize("count", ["x", "0", "-3", "2.5", "main.py"])
def test_a_count_that_is_none_is_refused_in_the_users_own_terms(place: Place, count: str) -> None:
    ran = place.voir("--stop", count, "main.py")
    assert ran.seen == (2, "")
    assert f"--stop is '{count}', which is no number of steps [option-value]" in ran.stderr
    assert "_count" not in ran.stderr


def test_the_script_is_stopped_after_so_many_steps(place: Place) -> None:
    probing(place, "//train_epoch > #endloop_inp as step")
    ran = place.voir("--no-record", "--stop", "2", "main.py")
    assert ran.seen == (0, "")
    assert "nothing-given" not in ran.stderr


STEP = "//train(inp as batch) > #endloop_inp as step"
PAIR = "//train(inp as batch, !work as compute_start, !!done as compute_end)"
ITERATING = "iterate('train', [[1, 2]] * 9, report_batch=True)"
SHOWN = {
    "a pair": ("[[1, 2]] * 9", [PAIR]),
    "a pair that ends before its step": ("[[1, 2]] * 9", [STEP, PAIR]),
    "iterate": (ITERATING, []),
    "a pair in iterate": (ITERATING, [PAIR]),
    "a generator that iterate runs to its end": (f"(b for _ in 'ab' for b in {ITERATING})", []),
}


@pytest.mark.parametrize("shown", SHOWN)
@pytest.mark.parametrize("n", [1, 4])
def test_steps_are_counted_however_they_are_shown(place: Place, shown: str, n: int) -> None:
    loop, selectors = SHOWN[shown]
    place.write(
        "main.py",
        f"""
        from voir import iterate

        def train(batches):
            for inp in batches:
                work = 1
                done = 2

        train({loop})
        print("to the end")
        """,
    )
    place.probes(selectors)
    ran = place.voir("--no-monitor", "--stop", str(n), "main.py")
    assert ran.seen == (0, ""), ran.stderr
    facts = place.record()
    assert facts["tasks"]["train"]["steps"] == n
    assert facts["stopped_early"] == ("after 4 steps" if n == 4 else "after a step")


SELDOM = "//train > update as step"


@pytest.mark.parametrize(("metric", "steps", "turns"), [("wrap", 4, 4), ("step", 4, 8)])
def test_only_what_the_metric_takes_for_steps_is_counted(
    place: Place, metric: str, steps: int, turns: int
) -> None:
    """A pair around each turn, and a step in every second."""
    place.write(
        "main.py",
        """
        def train(batches):
            for turn, inp in enumerate(batches, 1):
                work = 1
                if turn % 2 == 0:
                    update = turn
                print(turn)
                done = 2

        train([[1, 2]] * 20)
        """,
    )
    place.probes([SELDOM, PAIR])
    ran = place.voir("--no-monitor", "--metric", metric, "--stop", "4", "main.py")
    facts = place.record()
    assert facts["tasks"]["train"]["steps"] == steps
    assert facts["stopped_early"] == "after 4 steps"
    last = turns if metric == "wrap" else turns - 1  # Stopped before it is printed.
    assert ran.stdout.split() == [str(turn + 1) for turn in range(last)]


#: Ways in which steps are shown that a stop may come in the midst of.
MIDST = {
    "a step": ("[[1, 2]] * 9", [STEP]),
    "a step of a named task": ("[[1, 2]] * 9", [STEP.replace("as batch", "as batch, t as task")]),
    "a pair": ("[[1, 2]] * 9", [PAIR.replace("!!done", "!!#endloop_inp")]),
    "both": ("[[1, 2]] * 9", [STEP, PAIR.replace("!!done", "!!#endloop_inp")]),
    "iterate": (ITERATING, []),
    "a pair in iterate": (ITERATING, [PAIR.replace("!!done", "!!#endloop_inp")]),
}


@pytest.mark.parametrize("shown", MIDST)
@pytest.mark.parametrize(
    "by",
    [
        "ov.require(early_stop(key='loss', n=4))",
        "ov.given['?loss'] >> (lambda loss: ov.stop() if loss == 3 else None)",
    ],
)
def test_a_step_that_a_stop_leaves_unfinished_is_none(place: Place, shown: str, by: str) -> None:
    loop, selectors = MIDST[shown]
    place.write(
        "main.py",
        f"""
        from voir import iterate

        def evaluate(batches):
            for inp in batches:
                done = 1

        def train(batches):
            t = "train"
            n = 0
            for inp in batches:
                work = 1
                loss = n
                n += 1

        try:
            train({loop})
        finally:
            evaluate([[1]] * 3)
        """,
    )
    place.write(
        "voirfile.py",
        f"""
        from voir.instruments import early_stop

        def instrument_probes(ov):
            yield ov.phases.load_script
            for selector in {[*selectors, "//train > loss"]}:
                ov.probe(selector).give()
            ov.probe("//evaluate(inp as batch) > #endloop_inp as step").map(
                lambda event: {{**event, "task": "eval"}}
            ).give()
            {by}
        """,
    )
    ran = place.voir("--no-monitor", "main.py")
    assert ran.seen == (0, ""), ran.stderr
    steps = {task: told["steps"] for task, told in place.record()["tasks"].items()}
    assert steps == {"train": 3, "eval": 3}


@pytest.mark.parametrize("loader", ["Loader()", "generated()"])
def test_nor_is_the_turn_of_a_loader_that_a_stop_leaves_unfinished(
    place: Place, loader: str
) -> None:
    place.write(
        "main.py",
        f"""
        class Loader:
            def __iter__(self):
                return self

            def __next__(self):
                return [1, 2]

        def generated():
            for i in range(9):
                yield [1, 2]

        def train(batches):
            for n, inp in enumerate(batches):
                loss = n

        train({loader})
        """,
    )
    place.write(
        "voirfile.py",
        """
        from voir.instruments import early_stop

        def instrument_probes(ov):
            yield ov.phases.load_script
            ov.probe("//train > loss").give()
            ov.require(early_stop(key="loss", n=4))
        """,
    )
    ran = place.voir("--no-monitor", "--loading-rate", "main.py")
    assert ran.seen == (0, ""), ran.stderr
    assert place.record()["tasks"]["train"]["steps"] == 3


RAISES = """
from voir.instruments import early_stop

class Narrow(RuntimeError):
    __slots__ = ()

    def __setattr__(self, name, value):
        if name == "__voir_asked__":
            raise AttributeError(name)
        super().__setattr__(name, value)

instrument_stop_here = early_stop(n=2, signal=SIGNAL)

def instrument_probes(ov):
    yield ov.phases.load_script
    ov.probe("//train > #endloop_inp as step").give()
"""
RAISED = """
def train():
    for inp in range(5):
        print(inp)

train()
"""
SWALLOWED = """
def train():
    for inp in range(5):
        pass

try:
    train()
except BaseException:
    pass
for n in range(3):
    print(n)
"""
IN_A_THREAD = """
import threading

def train():
    for inp in range(5):
        pass

threading.excepthook = lambda args: print("ended")
thread = threading.Thread(target=train)
thread.start()
thread.join()
"""


@pytest.mark.parametrize(
    ("signal", "status", "said"),
    [
        ("ValueError", 1, "\nValueError: "),
        ("Narrow", 1, "Narrow: "),
        ("lambda value: SystemExit(3)", 3, ""),
        ("lambda value: SystemExit(0)", 0, "stopped early: after 2 steps"),
        ("lambda value: SystemExit('enough')", 1, "enough\n"),
        ("KeyboardInterrupt", -2, "KeyboardInterrupt: "),
    ],
)
def test_whatever_is_to_be_raised_ends_the_script_as_under_python(
    place: Place, signal: str, status: int, said: str
) -> None:
    place.write("main.py", RAISED)
    place.write("voirfile.py", RAISES.replace("SIGNAL", signal))
    ran = place.voir("--no-monitor", "main.py")
    assert ran.seen == (status, "0\n1\n"), ran.stderr
    assert said in ran.stderr
    assert "subscriber" not in ran.stderr
    assert place.record()["stopped_early"] == "after 2 steps"


@pytest.mark.parametrize("signal", ["ValueError", "lambda value: SystemExit(0)"])
@pytest.mark.parametrize(
    ("script", "printed"), [(SWALLOWED, "0\n1\n2\n"), (IN_A_THREAD, "ended\n")]
)
def test_a_script_that_swallows_what_is_raised_was_not_stopped(
    place: Place, signal: str, script: str, printed: str
) -> None:
    place.write("main.py", script)
    place.write("voirfile.py", RAISES.replace("SIGNAL", signal))
    ran = place.voir("--no-monitor", "main.py")
    assert ran.seen == (0, printed)
    assert "stopped_early" not in place.record()


@pytest.mark.parametrize(
    ("given", "said", "remedy"),
    [
        ("n=0", "early_stop(n) is 0, which is no number of events", "early_stop(n=100)"),
        ("n=-1", "early_stop(n) is -1, which is no number of events", "early_stop(n=100)"),
        ("n=2.5", "early_stop(n) is 2.5, which is no number of events", "early_stop(n=100)"),
        ("n=float('nan')", "early_stop(n) is nan, which is no number", "early_stop(n=100)"),
        ("n='3'", "early_stop(n) is '3', which is no number of events", "early_stop(n=100)"),
        ("n=True", "early_stop(n) is True, which is no number of events", "early_stop(n=100)"),
        ("3", "early_stop(key) is 3, which is no key", "The key comes first: early_stop(n=3)"),
        ("0", "early_stop(key) is 0, which is no key", "For example: early_stop(n=100)"),
        ("None", "early_stop(key) is None, which is no key", "early_stop(n=100)"),
        ("signal=5", "early_stop(signal) is 5, which is nothing to raise", "signal="),
    ],
)
def test_arguments_that_make_no_stop_are_named(
    place: Place, given: str, said: str, remedy: str
) -> None:
    place.write(
        "voirfile.py",
        f"""
        from voir.instruments import early_stop

        instrument_stop_here = early_stop({given})
        """,
    )
    ran = place.voir("--no-record", "main.py")
    assert ran.seen == (0, "to the end\n")
    assert f"voir: early_stop: {said}" in ran.stderr
    assert remedy in ran.stderr
    assert "nothing-given" not in ran.stderr


def test_a_whole_number_may_be_a_float(place: Place) -> None:
    place.write("main.py", RAISED)
    place.write("voirfile.py", RAISES.replace("n=2, signal=SIGNAL", "n=2.0"))
    assert place.voir("main.py").seen == (0, "0\n1\n")
    assert place.record()["stopped_early"] == "after 2 steps"


def test_that_there_were_no_steps_to_count_is_said(place: Place) -> None:
    probing(place, "//train_epoch > loss")
    ran = place.voir("--no-record", "--stop", "2", "main.py")
    assert ran.seen == (0, "to the end\n")
    expected = "no event with 'step' was ever given, so the script was not stopped after 2"
    assert f"voir: early_stop: {expected} [nothing-given]" in ran.stderr


@pytest.mark.parametrize(
    ("key", "remedy"),
    [
        ("rate", "ov.require(rate(interval=10)): one every 10 steps but those skipped."),
        ("accuracy", "ov.probe('//train_epoch > accuracy').give()"),
    ],
)
def test_what_gives_another_key_is_said_for_that(place: Place, key: str, remedy: str) -> None:
    place.write("main.py", "print('to the end')")
    place.write(
        "voirfile.py",
        f"""
        from voir.instruments import early_stop

        instrument_stop = early_stop({key!r}, n=2)
        """,
    )
    ran = place.voir("--no-record", "main.py")
    assert ran.seen == (0, "to the end\n")
    assert f"  For example: {remedy}\n" in ran.stderr


def test_a_script_that_ends_before_so_many_steps_is_nobodys_failure(place: Place) -> None:
    probing(place, "//train_epoch > #endloop_inp as step")
    ran = place.voir("--no-record", "--strict", "--stop", "100", "main.py")
    assert ran.seen == (0, "to the end\n")
    assert "nothing-given" not in ran.stderr


def test_a_script_that_fails_before_its_first_step_is_not_told_about_steps(place: Place) -> None:
    place.write("main.py", "raise SystemExit(7)")
    ran = place.voir("--no-record", "--no-voirfile", "--stop", "2", "main.py")
    assert ran.status == 7
    assert "nothing-given" not in ran.stderr


#: Ends only by somebody else's doing; works in python, so that it can be reached.
ENDLESS = """
import time
try:
    while True:
        time.sleep(0.01)
except Exception:
    print("swallowed")
"""


@pytest.mark.parametrize(
    ("wish", "status", "told"),
    [
        ("raise StopProgram('enough')", 0, "stopped early: ov.stop('enough')"),
        ("ov.stop()", 0, "stopped early"),
        ("ov.abort(RuntimeError('too hot'))", 1, "RuntimeError: too hot"),
        ("ov.given['?hot'].fail('too hot')", 1, "too hot"),
    ],
)
def test_a_timer_may_end_the_script(place: Place, wish: str, status: int, told: str) -> None:
    place.write("main.py", ENDLESS)
    place.write(
        "voirfile.py",
        f"""
        from voir import StopProgram

        def instrument_timer(ov):
            def look():
                {wish}
                ov.give(hot=True)
            yield ov.phases.load_script
            with ov.every(10, look, first=0.05):
                yield ov.phases.run_script
        """,
    )
    ran = place.voir("--no-monitor", "main.py")
    assert ran.seen == (status, "")
    assert told in ran.stderr
    assert "[timer]" not in ran.stderr


WORKING = """
import threading
from voir import give

def work():
    try:
        for i in range(100_000):
            give(step=i)
    finally:
        print("the thread cleaned up")

thread = threading.Thread(target=work)
thread.start()
"""
WAITING = WORKING + "print('main is over')"
TURNING = WORKING + "while True: pass"


@pytest.mark.parametrize("script", [WAITING, TURNING])
@pytest.mark.parametrize(
    ("wish", "status", "told"),
    [("ov.stop()", 0, "stopped early"), ("ov.abort(ValueError('four'))", 1, "ValueError: four")],
)
def test_a_thread_of_the_scripts_may_end_it(
    place: Place, script: str, wish: str, status: int, told: str
) -> None:
    place.write("main.py", script)
    place.write(
        "voirfile.py",
        f"""
        from voir import StopProgram

        def instrument_stop(ov):
            def look(event):
                if event["step"] == 4:
                    {wish.replace("ov.stop()", "raise StopProgram()")}
            yield ov.phases.load_script
            ov.listen(look, "step")
        """,
    )
    ran = place.voir("--no-record", "main.py")
    assert ran.status == status, ran.stderr
    assert "the thread cleaned up" in ran.stdout
    assert ran.stderr.count(told) == 1
    assert "Exception" not in ran.stderr


def test_a_stop_from_a_thread_is_not_swallowed_by_the_main_one(place: Place) -> None:
    place.write(
        "main.py",
        WORKING.removesuffix("thread.start()\n")
        + """
try:
    thread.start()
    while True:
        sum(range(1000))
except BaseException:
    print("swallowed")
while True:
    sum(range(1000))
""",
    )
    ran = place.voir("--no-record", "--no-monitor", "--no-voirfile", "--stop", "4", "main.py")
    assert ran.status == 0, ran.stderr
    assert sorted(ran.stdout.splitlines()) == ["swallowed", "the thread cleaned up"]


def test_a_stop_that_comes_when_the_script_has_only_to_wait_is_no_error(place: Place) -> None:
    place.write(
        "main.py",
        """
        import threading
        import overseer

        overseer.stopped = threading.Event()
        threading.Thread(target=overseer.stopped.wait, args=[20]).start()
        """,
    )
    place.write(
        "voirfile.py",
        """
        import overseer

        def instrument_stop(ov):
            def look():
                if ov._leaving:
                    ov.stop("now")
                    overseer.stopped.set()
            yield ov.phases.load_script
            with ov.every(0.01, look):
                yield ov.phases.run_script
        """,
    )
    ran = place.voir("--no-record", "main.py")
    assert ran.seen == (0, "")
    assert "stopped early: ov.stop('now')" in ran.stderr
    assert "Exception" not in ran.stderr


@pytest.mark.parametrize("where", ["", "def instrument_slow(ov):"])
def test_ctrl_c_before_the_script_shows_where_it_was_and_nothing_of_ours(
    place: Place, where: str
) -> None:
    lines = ["import signal", where, "    signal.raise_signal(signal.SIGINT)"]
    place.write("voirfile.py", "\n".join(line if where else line.strip() for line in lines))
    ran = place.voir("main.py")
    assert (ran.status, ran.stdout) == (-2, "")
    assert ran.stderr.rstrip().endswith("KeyboardInterrupt")
    assert "overseer" not in ran.stderr


@pytest.mark.parametrize("while_it_runs", ["0", "0.4"], ids=["read at the end", "read before"])
def test_ctrl_c_while_losses_are_waited_for_leaves_what_was_measured(
    place: Place, while_it_runs: str
) -> None:
    place.write(
        "main.py",
        f"""
        import os, signal, threading, time
        import voir

        over = threading.Event()

        class Hangs:  # As what a lost device computes.
            shape = ()

            def detach(self):
                return self

            def item(self):
                over.wait()
                time.sleep(0.5)
                os.kill(os.getpid(), signal.SIGINT)
                threading.Event().wait()

        for batch in voir.iterate("train", ["abc"] * 5, report_batch=True):
            voir.give(loss=Hangs())
        time.sleep({while_it_runs})
        over.set()
        """,
    )
    ran = place.voir("--no-monitor", "main.py")
    assert ran.seen == (0, "")
    assert "Traceback" not in ran.stderr
    record = place.record()
    assert record["tasks"]["train"]["steps"] == 5
    assert "interrupted" in record["problems"][-1]["what"]


def test_steps_that_name_no_task_are_those_of_train(place: Place) -> None:
    place.write(
        "main.py",
        """
        import voir

        for step in range(20):
            voir.give(step=step)
            voir.give(task="eval", step=step)
        """,
    )
    place.write(
        "voirfile.py",
        """
        from voir.instruments import early_stop

        instrument_stop_here = early_stop("step", n=7, task="train")
        """,
    )
    assert place.voir("main.py").seen == (0, "")
    record = place.record()
    assert record["stopped_early"] == "after 7 steps of 'train'"
    tasks = record["tasks"]
    assert (tasks["train"]["steps"], tasks["eval"]["steps"]) == (7, 6)


EVALUATING = """
import voir

for batch in voir.iterate("train", [[1, 2]] * 9, report_batch=True):
    for sample in voir.iterate("eval", [[1, 2]] * 4, report_batch=True):
        pass
"""
PAIRED = """
def train(data):
    for inp in data:
        work = 1
        evaluate([[1, 2]] * 4)
        done = 1

def evaluate(data):
    for sample in data:
        work = 1
        done = 1

train([[1, 2]] * 9)
"""
PAIRS = """
def instrument_probes(ov):
    yield ov.phases.load_script
    pair = "!work as compute_start, !!done as compute_end"
    ov.probe(f"//train(inp as batch, {pair})").give()
    ov.probe(f"//evaluate(sample as batch, {pair})").give(task="eval")

"""


@pytest.mark.parametrize(("script", "probes"), [(EVALUATING, ""), (PAIRED, PAIRS)])
def test_an_early_stop_counts_the_steps_of_its_task_whichever_way_they_are_shown(
    place: Place, script: str, probes: str
) -> None:
    place.write("main.py", script)
    stop = 'early_stop(n=3, task="train")'
    place.write(
        "voirfile.py",
        f"from voir.instruments import early_stop\n{probes}\ninstrument_stop = {stop}\n",
    )
    assert place.voir("main.py").seen == (0, "")
    record = place.record()
    assert record["problems"] == []
    assert record["stopped_early"] == "after 3 steps of 'train'"
    tasks = record["tasks"]
    assert (tasks["train"]["steps"], tasks["eval"]["steps"]) == (3, 12)


COUNTED = """
import time
import voir

done = 0

def train(data):
    global done
    for inp in data:
        time.sleep(0.004)
        done += 1

def batches():
    return SHOWN

try:
    while True:
        train(batches())
finally:
    print(done)
"""
RATED = """
from voir.instruments import early_stop, rate

def instrument_stop_here(ov):
    yield ov.phases.init
    ov.require(rate(interval=10), early_stop(n=5, key="rate", task="train"))

def instrument_probes(ov):
    yield ov.phases.init
    ov.probe("SELECTOR").give()
"""
ENDS_OF_PAIRS = "//train(inp as batch, !#loop_inp as compute_start, !!#endloop_inp as compute_end)"


@pytest.mark.parametrize(
    ("batches", "probe"),
    [
        ("voir." + ITERATING, "//train > data"),
        ("[[1, 2]] * 9", STEP),
        ("[[1, 2]] * 9", ENDS_OF_PAIRS),
    ],
)
def test_a_stop_at_a_window_loses_no_step_that_was_made_by_then(
    place: Place, batches: str, probe: str
) -> None:
    place.write("main.py", COUNTED.replace("SHOWN", batches))
    place.write("voirfile.py", RATED.replace("SELECTOR", probe))
    ran = place.voir("main.py")
    assert ran.status == 0
    record = place.record()
    assert record["stopped_early"] == "after 5 events with 'rate'"
    assert record["tasks"]["train"]["steps"] in (int(ran.stdout), int(ran.stdout) + 1)
    assert int(ran.stdout) in (50, 51, 52)  # It is known when the step behind it has ended.


KEPT = """
def swallow():
    try:
        last = True
    except BaseException:
        pass

class Kept(list):
    def __len__(self):
        if self[0] == 3:
            swallow()
        return 2
"""
IN_A_LIBRARY = """
import sys

sys.path.insert(0, "site-packages")

from kept import Kept

def train(data):
    for inp in data:
        print(inp[0])

train([Kept([n, n]) for n in range(9)])
"""
LAST = """
from voir.instruments import early_stop

instrument_stop_here = early_stop(n=1, key="last")

def instrument_probes(ov):
    yield ov.phases.init
    ov.probe("SELECTOR").give()
    ov.probe("/kept/swallow > last").give()
"""


def test_a_stop_that_comes_while_a_library_sizes_the_batch_loses_no_step(place: Place) -> None:
    place.write("site-packages/kept.py", KEPT)
    place.write("main.py", IN_A_LIBRARY)
    place.write("voirfile.py", LAST.replace("SELECTOR", ENDS_OF_PAIRS))
    assert place.voir("main.py").seen == (0, "0\n1\n2\n3\n")
    assert place.record()["tasks"]["train"]["steps"] == 4


@pytest.mark.parametrize(("steps", "stopped"), [(30, False), (31, True)])
def test_a_window_that_is_known_when_the_script_has_ended_has_stopped_nothing(
    place: Place, steps: int, stopped: bool
) -> None:
    place.write(
        "main.py",
        f"""
        def train():
            for inp in [[1, 2]] * {steps}:
                pass
            print("to the end")

        train()
        """,
    )
    place.write(
        "voirfile.py",
        """
        from voir.instruments import early_stop, rate

        def instrument_probes(ov):
            yield ov.phases.load_script
            ov.probe("//train(inp as batch) > #endloop_inp as step").give()
            ov.require(rate(interval=10), early_stop(key="rate", n=3))
        """,
    )
    ran = place.voir("main.py")
    assert ran.seen == (0, "" if stopped else "to the end\n"), ran.stderr
    assert place.record().get("stopped_early") == (
        "after 3 events with 'rate'" if stopped else None
    )
