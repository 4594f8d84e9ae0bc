"""From what was given to what is shown."""

import pytest

from instruments.dash.board import Flow, Given, Meter
from instruments.dash.feed import Feed
from instruments.dash.pace import Pace
from instruments.dash.reader import Reader
from overseer.clock import FakeClock

GIB, MIB = 1024.0**3, 1024.0**2


class Run:
    """Gives, logs, lets time pass and looks."""

    def __init__(self):
        self.clock = FakeClock(now_ns=5_000_000_000)
        self.start = self.clock.now_ns()
        self.given, self.logged = Feed(self.clock), Feed(self.clock)
        self.reader = Reader(self.given, self.logged)
        self.known = {}

    def give(self, **event):
        self.given.hear(event)

    def log(self, **event):
        self.logged.hear(event)

    def look(self, seconds=0.0):
        self.clock.advance(seconds)
        return self.reader.read("main.py", self.start, self.clock.now_ns(), self.known)


@pytest.fixture
def run():
    return Run()


def test_a_run_that_gave_nothing_is_empty(run):
    assert run.look(3.0).empty
    assert run.look().elapsed == 3.0


def test_the_loss_has_first_last_and_min(run):
    for loss in (3.0, 1.0, 2.0):
        run.give(loss=loss)
    trend = run.look().tasks[0].loss
    assert (trend.first, trend.last, trend.low) == (3.0, 2.0, 1.0)
    assert trend.points == (3.0, 1.0, 2.0)


def test_many_losses_between_two_frames_are_a_few_points(run):
    for loss in range(100):
        run.give(loss=float(loss))
    points = run.look().tasks[0].loss.points
    assert points == (15.5, 47.5, 79.5, 97.5)


def test_the_min_ignores_what_is_not_finite_and_the_last_does_not(run):
    run.give(loss=1.0)
    run.give(loss=float("nan"))
    trend = run.look().tasks[0].loss
    assert trend.low == 1.0
    assert trend.last != trend.last


def test_a_frame_without_a_new_loss_adds_no_point(run):
    run.give(loss=1.0)
    assert run.look().tasks[0].loss.points == run.look().tasks[0].loss.points


def test_time_left_comes_from_the_pace(run):
    for done in range(5):
        run.give(progress=(done, 10))
        board = run.look(2.0)
    task = board.tasks[0]
    assert (task.done, task.total, task.through) == (4, 10, 0.4)
    # Six to go at half a step a second, the last of them counted two seconds ago.
    assert task.left == pytest.approx(10.0)


def test_time_left_runs_down_between_two_steps(run):
    for done in (1, 2):
        run.give(progress=(done, 10))
        run.look(10.0)
    assert run.look(3.0).tasks[0].left == run.look(0.0).tasks[0].left
    assert run.look(4.0).tasks[0].left == pytest.approx(80 - 10 - 3 - 4)


def test_progress_that_starts_again_does_not_place_the_history(run):
    for done in (1, 2, 1, 2):
        run.give(progress=(done, 2))
        task = run.look(1.0).tasks[0]
    assert task.through is None
    assert task.done == 2


def test_a_given_rate_is_shown_with_its_unit(run):
    run.give(rate=100.0, units="items/s")
    run.give(rate=200.0, units="items/s")
    task = run.look().tasks[0]
    assert (task.rate.last, task.units) == (200.0, "items/s")


def test_without_a_rate_steps_are_timed(run):
    for _ in range(4):
        for i in range(10):
            run.give(step=i)
        task = run.look(0.5).tasks[0]
    assert task.rate.last == pytest.approx(20.0)
    assert (task.units, task.steps) == ("steps/s", 40)


def test_timed_steps_fall_to_nothing_when_the_script_hangs(run):
    for _ in range(3):
        run.give(step=0)
        run.look(1.0)
    assert run.look(1000.0).tasks[0].rate.last < 0.01


@pytest.mark.parametrize(
    ("event", "shares"),
    [
        ({"loading_share": 0.25, "compute_share": 0.75}, (0.25, 0.75)),
        ({"loading_share": 0.25}, (0.25, 0.75)),
        ({"compute_share": 0.75}, (0.25, 0.75)),
        ({"loss": 1.0}, (None, None)),
    ],
)
def test_shares_come_from_events(run, event, shares):
    run.give(**event)
    task = run.look().tasks[0]
    assert (task.loading, task.compute) == shares


def test_shares_come_from_the_record_when_no_event_has_them(run):
    run.give(loss=1.0)
    run.known = {"train": {"loading": {"share": 0.1}, "compute": {"share": 0.9}}}
    task = run.look().tasks[0]
    assert (task.loading, task.compute) == (0.1, 0.9)


def test_other_keys_have_their_last_value_and_count_in_the_order_they_came(run):
    run.give(acc=0.5, lr=0.1)
    run.give(acc=0.75)
    run.give(task="eval", acc=0.6, loss=1.0)
    run.give(loss=3.0)
    assert run.look().given == (
        Given("acc", "0.7500", 2),
        Given("lr", "0.1000", 1),
        Given("eval/acc", "0.6000", 1),
    )


def test_a_loss_that_is_no_number_is_shown_as_any_other_key(run):
    run.give(loss="oops", progress="half", rate=[1, 2])
    assert run.look().given == (
        Given("loss", "oops", 1),
        Given("progress", "half", 1),
        Given("rate", "[1, 2]", 1),
    )


def test_a_key_that_is_given_and_then_logged_counts_once(run):
    run.log(loss=1.0, seen="in the log only")
    run.give(loss=1.0)
    run.log(loss=1.0)
    board = run.look()
    assert board.tasks[0].steps == 1
    assert board.given == (Given("seen", "in the log only", 1),)


def test_the_hosts_meters(run):
    run.give(task="main", cpudata={"load": 50.0, "memory": [GIB, 4 * GIB]})
    run.give(task="main", process={"load": 10.0, "memory": [GIB, 4 * GIB]})
    assert run.look().host == (
        Meter("cpu", 0.5, GIB, 4 * GIB),
        Meter("process", 0.1, GIB, 4 * GIB),
    )


def test_gpus_in_the_order_of_their_indices(run):
    data = {"load": 0.5, "memory": [512, 1024], "power": 231.4, "temperature": 64, "name": "H100"}
    run.give(gpudata={10: data, 2: {"load": 0.25}, "0": {}})
    assert run.look().gpus == (
        Meter("gpu 0"),
        Meter("gpu 2", 0.25),
        Meter("gpu 10", 0.5, 512 * MIB, 1024 * MIB, ("231 W", "64 °C", "H100")),
    )


def test_traffic_is_what_came_between_two_samples(run):
    for i in (0, 1):
        run.give(iodata={"read_bytes": 4000 * i, "write_bytes": 0})
        run.give(netdata={"eth0": {"bytes_recv": 10 * i, "bytes_sent": 2}, "lo": {"bytes_recv": i}})
        board = run.look(2.0)
        run.look(5.0)
    assert board.flows == (
        Flow("disk", (("read", 4000 / 7), ("write", 0.0))),
        Flow("network", (("in", 11 / 7), ("out", 0.0))),
    )


@pytest.mark.parametrize("data", ["busy", {"load": "high", "memory": [1]}, None, {}])
@pytest.mark.parametrize("key", ["cpudata", "gpudata", "iodata", "netdata", "process"])
def test_malformed_monitors_do_no_harm(run, key, data):
    run.give(**{key: data})
    run.look(1.0)
    run.give(**{key: {0: data}})
    run.look(1.0)


def test_monitors_alone_make_no_task(run):
    run.give(task="main", time=1.7e9, cpudata={"load": 50.0})
    run.give(task="main", time=1.7e9, memdata={"memory": [1, 2]})
    board = run.look()
    assert board.tasks == ()
    assert board.given == ()
    assert not board.empty


def test_a_pace_needs_growth():
    pace = Pace(10)
    assert pace.see(0.0, 1.0) is False
    assert pace.per_second() is None
    assert pace.seconds_to(5.0, 1.0) is None
    assert pace.see(1.0, 0.5) is True
