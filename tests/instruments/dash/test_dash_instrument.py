"""The instrument: its option, its pace, its cost, and what happens when things fail."""

import atexit
import errno
import io
import itertools
import os

import pytest
from emulator import Emulator, FakeOverseer

from instruments.dash import dash, instrument_dash
from instruments.dash.dashboard import COST_PART, Dashboard, sink_for
from instruments.dash.lines import Lines
from overseer.clock import FakeClock


class Recorder:
    """A sink that remembers."""

    def __init__(self):
        self.drawn, self.closed, self.restored = [], [], 0
        self.fails_with = None

    def draw(self, board):
        if self.fails_with:
            raise self.fails_with
        self.drawn.append(board)

    def restore(self):
        self.restored += 1

    def close(self, board):
        if self.fails_with:
            raise self.fails_with
        self.closed.append(board)


@pytest.fixture
def sink():
    return Recorder()


@pytest.fixture
def problems():
    return []


@pytest.fixture
def clock():
    return FakeClock()


@pytest.fixture
def dashboard(sink, clock, problems):
    return Dashboard(sink, clock, "main.py", dict, problems.append)


def test_the_flag_is_offered_and_starts_the_dashboard():
    ov = FakeOverseer()
    phases = instrument_dash(ov)
    assert next(phases) == "init"
    assert next(phases) == "parse_args"
    assert ov.argparser.parse_args(["--dash"]).dash is True
    assert list(phases) == []
    assert ov.required == [dash]


def test_without_the_flag_nothing_happens():
    ov = FakeOverseer()
    ov.options.dash = False
    list(instrument_dash(ov))
    assert ov.required == []


def test_off_a_terminal_there_is_a_line_every_few_seconds():
    ov = FakeOverseer()
    ov.start(dash)
    for i in range(41):
        ov.give(loss=1 / (i + 1), progress=(i, 40))
        ov.tick(0.5)
    ov.finish()
    lines = ov.stderr.getvalue().splitlines()
    assert [line.split(" | ")[0] for line in lines] == [
        f"main.py 0:00:{seconds:02d}" for seconds in (5, 10, 15, 20, 20)
    ]
    assert "train, 22 %, 9/40, 0:00:15 left, loss 0.1000, 2.000 losses/s" in lines[0]
    assert "\x1b" not in ov.stderr.getvalue()


def test_a_line_is_written_only_when_there_is_news():
    ov = FakeOverseer()
    ov.start(dash)
    ov.give(acc=0.5)
    for _ in range(100):
        ov.tick(5.0)
    ov.finish()
    assert ov.stderr.getvalue() == "main.py 0:00:05 | acc 0.5000\n"


def test_a_run_that_gives_nothing_writes_nothing():
    ov = FakeOverseer()
    ov.start(dash)
    ov.tick(100.0)
    ov.finish()
    assert ov.stderr.getvalue() == ""


def test_what_is_reduced_at_the_end_is_on_the_last_frame():
    ov = FakeOverseer()
    ov.start(dash)
    ov.tick()
    ov.log(best=0.25)
    ov.finish()
    assert ov.stderr.getvalue().endswith("best 0.2500\n")


def test_nothing_is_left_behind(monkeypatch):
    registered = []
    monkeypatch.setattr(atexit, "register", registered.append)
    monkeypatch.setattr(atexit, "unregister", registered.remove)
    ov = FakeOverseer()
    ov.start(dash)
    assert len(registered) == 1
    ov.finish()
    assert not (registered or ov.given or ov.logged or ov.timers)


def test_an_instrument_that_is_thrown_away_cleans_up():
    ov = FakeOverseer()
    ov.start(dash)
    ov.give(acc=1)
    ov.generator.close()
    assert not (ov.given or ov.logged or ov.timers)
    assert "acc 1" in ov.stderr.getvalue()


def test_without_stderr_there_is_no_dashboard():
    assert sink_for(None, {"TERM": "xterm"}) is None


def test_a_closed_stderr_is_reported_once_and_ends_the_dashboard():
    stderr = io.StringIO()
    stderr.close()
    ov = FakeOverseer(stderr=stderr)
    ov.start(dash)
    for i in range(10):
        ov.give(acc=i)
        ov.tick(6.0)
    ov.finish()
    assert [problem.slug for problem in ov.problems] == ["dash-write-failed"]


def test_frames_are_at_least_half_a_second_apart(dashboard, sink, clock):
    for _ in range(41):
        dashboard.tick()
        clock.advance(0.25)
    assert len(sink.drawn) == 21


def test_dear_frames_are_drawn_seldom(dashboard, sink, clock, monkeypatch):
    work = itertools.count(step=40_000_000)  # Each reading is 40 ms of processor time later.
    monkeypatch.setattr(clock, "cpu_ns", lambda: next(work))
    for _ in range(100):
        dashboard.tick()
        clock.advance(0.25)
    assert len(sink.drawn) == 25 / (0.04 * COST_PART) // 1 + 1


def test_the_end_is_drawn_once(dashboard, sink):
    dashboard.close()
    dashboard.close()
    dashboard.tick()
    assert len(sink.closed) == 1
    assert not sink.drawn


@pytest.mark.parametrize("end", ["tick", "close"])
def test_a_broken_terminal_is_reported_once_and_left_alone(dashboard, sink, clock, problems, end):
    sink.fails_with = OSError(errno.EIO, os.strerror(errno.EIO))
    getattr(dashboard, end)()
    for _ in range(5):
        clock.advance(10)
        dashboard.tick()
    dashboard.close()
    assert len(problems) == 1
    assert problems[0].what == "cannot write to stderr: Input/output error"
    assert not sink.closed


def test_a_mistake_of_ours_gives_the_terminal_back(dashboard, sink):
    sink.fails_with = ZeroDivisionError()
    with pytest.raises(ZeroDivisionError):
        dashboard.tick()
    assert sink.restored == 1
    dashboard.close()
    assert not sink.closed


def test_a_hanging_terminal_does_not_hold_up_the_end(dashboard, sink, monkeypatch):
    asked = []

    class Held:
        def acquire(self, timeout):
            asked.append(timeout)
            return False

    monkeypatch.setattr(dashboard, "_lock", Held())
    dashboard.close()
    assert asked == [1.0]
    assert not sink.closed


def test_the_child_of_a_fork_does_not_close(dashboard, sink, monkeypatch):
    monkeypatch.setattr(os, "getpid", lambda: -1)
    dashboard.close()
    assert not sink.closed


@pytest.mark.parametrize("name", ["RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK"])
def test_one_rank_shows_the_job(name):
    assert sink_for(io.StringIO(), {name: "3"}) is None
    assert isinstance(sink_for(io.StringIO(), {name: "0"}), Lines)


def test_frames_of_a_run_stay_in_their_rows():
    """What a run shows from start to end, drawn into one terminal."""
    from instruments.dash.paint import Palette
    from instruments.dash.screen import Screen

    terminal, clock = Emulator(80, 24), FakeClock()
    screen = Screen(terminal, Palette())
    dashboard = Dashboard(screen, clock, "main.py", dict, lambda problem: None)
    tops = []
    for i in range(50):
        dashboard.given.hear({"loss": 1 / (i + 1), "progress": (i + 1, 50), f"key{i % 5}": i})
        clock.advance(0.5)
        dashboard.tick()
        tops.append(next(n for n, row in enumerate(terminal.rows) if row.startswith("── main.py")))
    assert tops == sorted(tops, reverse=True)
    assert len(set(tops[5:])) == 1
