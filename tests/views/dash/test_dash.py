"""The dashboard at work: its pace, what fails; and the terminal after any end of a run."""

from __future__ import annotations

import atexit
import errno
import fcntl
import io
import itertools
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
from types import SimpleNamespace

import pyte
import pytest
from runs import BOARDS

from instruments.dash import dash, instrument_dash
from overseer.views.dash.board import Board
from overseer.views.dash.dash import COST_PART, Dashboard, Lines, sink_for
from tests.clocks import FakeClock

ROWS, COLUMNS = 24, 80


class Sink:
    """A sink that remembers."""

    def __init__(self):
        self.drawn, self.closed, self.restored, self.error = 0, 0, 0, None

    def _fail(self):
        if self.error:
            raise self.error

    def draw(self, board):
        self._fail()
        self.drawn += 1

    def restore(self):
        self.restored += 1

    def close(self, board):
        self._fail()
        self.closed += 1


@pytest.fixture
def at_work():
    sink, clock, problems = Sink(), FakeClock(), []
    dashboard = Dashboard(sink, Board("main.py"), dict, clock, problems.append)
    return SimpleNamespace(dashboard=dashboard, sink=sink, clock=clock, problems=problems)


def test_frames_take_one_part_of_a_core(at_work, monkeypatch):
    work = itertools.count(step=40_000_000)  # Each reading is 40 ms of processor time later.
    monkeypatch.setattr(at_work.clock, "cpu_ns", lambda: next(work))
    for _ in range(100):
        at_work.dashboard.tick()
        at_work.clock.advance(0.5)
    assert at_work.sink.drawn == 50 / (0.04 * COST_PART) // 1 + 1


def test_the_end_is_drawn_once(at_work):
    for act in (at_work.dashboard.close, at_work.dashboard.close, at_work.dashboard.tick):
        act()
    assert (at_work.sink.drawn, at_work.sink.closed) == (0, 1)


@pytest.mark.parametrize("end", ["tick", "close"])
def test_a_broken_terminal_is_told_once_and_left_alone(at_work, end):
    at_work.sink.error = OSError(errno.EIO, os.strerror(errno.EIO))
    for name in (end, "tick", "close"):
        getattr(at_work.dashboard, name)()
    assert [str(problem.what) for problem in at_work.problems] == [
        "cannot write to stderr: Input/output error"
    ]


def test_a_mistake_of_ours_gives_the_terminal_back(at_work):
    at_work.sink.error = ZeroDivisionError()
    with pytest.raises(ZeroDivisionError):
        at_work.dashboard.tick()
    at_work.dashboard.close()
    assert (at_work.sink.restored, at_work.sink.closed) == (1, 0)


def test_a_hanging_terminal_does_not_hold_up_the_end(at_work, monkeypatch):
    held = SimpleNamespace(acquire=lambda timeout: timeout > 1.0)
    monkeypatch.setattr(at_work.dashboard, "_lock", held)
    at_work.dashboard.close()
    assert not at_work.sink.closed


def test_the_child_of_a_fork_does_not_close(at_work, monkeypatch):
    monkeypatch.setattr(os, "getpid", lambda: -1)
    at_work.dashboard.close()
    assert not at_work.sink.closed


def test_a_handler_of_the_scripts_for_ctrl_z_stays(at_work):
    before = signal.signal(signal.SIGTSTP, signal.SIG_IGN)
    try:
        at_work.dashboard.watch()
        assert signal.getsignal(signal.SIGTSTP) == signal.SIG_IGN
        signal.signal(signal.SIGTSTP, signal.SIG_DFL)
        at_work.dashboard.watch()
        assert signal.getsignal(signal.SIGTSTP) != signal.SIG_DFL
        at_work.dashboard.close()
        assert signal.getsignal(signal.SIGTSTP) == signal.SIG_DFL
    finally:
        signal.signal(signal.SIGTSTP, before)


def test_lines_are_written_if_it_is_time_and_there_is_news():
    written = []
    lines, board = Lines(written.append), BOARDS["beginning"]
    before = board.now
    try:
        for second in range(12):
            board.now = board.start + second
            lines.draw(board)
        lines.close(BOARDS["empty"])
    finally:
        board.now = before
    assert [line.split(" | ")[0] for line in written] == ["main.py 0:00:05"]


@pytest.mark.parametrize(("rank", "stderr"), [("3", io.StringIO()), ("0", None)])
def test_the_first_rank_shows_the_job_if_it_has_a_stderr(monkeypatch, rank, stderr):
    monkeypatch.setenv("RANK", rank)
    ov = SimpleNamespace(phases=SimpleNamespace(parse_args="parse_args"), stderr=stderr)
    assert list(dash(ov)) == ["parse_args"]


def test_a_closed_stderr_is_an_error_of_the_system():
    closed = io.StringIO()
    closed.close()
    with pytest.raises(OSError, match="closed"):
        sink_for(closed, {"TERM": "xterm"}).close(BOARDS["training"])


@pytest.mark.parametrize("given", [True, False])
def test_the_flag_starts_the_dashboard(given):
    required = []
    ov = SimpleNamespace(
        phases=SimpleNamespace(init=1, parse_args=2),
        argparser=SimpleNamespace(add_argument=lambda *a, **k: None, taken=()),
        options=SimpleNamespace(dash=given),
        require=required.append,
    )
    assert list(instrument_dash(ov)) == [1, 2]
    assert required == ([dash] if given else [])


def test_nothing_is_left_behind(monkeypatch, tmp_path):
    """A whole run, its script's errors on no terminal: one line at the end."""
    registered = []
    monkeypatch.setattr(atexit, "register", registered.append)
    monkeypatch.setattr(atexit, "unregister", registered.remove)
    script = tmp_path / "main.py"
    script.write_text("import voir\nvoir.log(best=0.25)\n")
    done = voir(script, stderr=subprocess.PIPE)
    assert b"main.py 0:00:00 | " in done.stderr
    assert done.stderr.endswith(b"best 0.2500\n")
    assert not registered


# On a terminal

SCRIPT = """
import ctypes, os, signal, sys, time
print(*("line %d" % n for n in range(30)), sep="\\n")
while not os.path.exists("drawn"):
    time.sleep(0.01)
print("last words", end="", flush=True)
"""
FRAME = b"\x1b[?2026l"
ENDS = {
    "returns": ("", 0),
    "raises": ("raise SystemExit(3)", 3),
    "SIGKILL": ("os.kill(os.getpid(), signal.SIGKILL)", 128 + signal.SIGKILL),
    "SIGQUIT": ("os.kill(os.getpid(), signal.SIGQUIT)", 128 + signal.SIGQUIT),
    "SIGUSR1": ("os.kill(os.getpid(), signal.SIGUSR1)", 128 + signal.SIGUSR1),
    "SIGTERM": ("os.kill(os.getpid(), signal.SIGTERM)", 128 + signal.SIGTERM),
    "SIGINT": ("os.kill(os.getpid(), signal.SIGINT)", 128 + signal.SIGINT),
    "abort": ("os.abort()", 128 + signal.SIGABRT),
    "segfault": ("ctypes.string_at(0)", 128 + signal.SIGSEGV),
    "_exit": ("os._exit(5)", 5),
    "execv": ("os.execv(sys.executable, [sys.executable, '-c', 'print(\"other\")'])", 0),
    # A child that outlives it has a copy of everything that is open.
    "forked": (
        "os.fork() or (os.setsid(), os.closerange(0, 3), time.sleep(15), os._exit(0))\n"
        "os.kill(os.getpid(), signal.SIGKILL)",
        128 + signal.SIGKILL,
    ),
}


#: What a shell does: a job of its own, which it waits for and continues.
SHELL = """
import os, signal, sys
signal.signal(signal.SIGTTOU, signal.SIG_IGN)
job = os.fork()
if not job:
    os.setpgid(0, 0)
    os.tcsetpgrp(0, os.getpid())
    signal.signal(signal.SIGTTOU, signal.SIG_DFL)
    os.execv(sys.executable, [sys.executable, *sys.argv[1:]])
while os.WIFSTOPPED(status := os.waitpid(job, os.WUNTRACED)[1]):
    os.tcsetpgrp(0, os.getpgrp())
    print("stopped", flush=True)
    sys.stdin.readline()
    os.tcsetpgrp(0, job)
    os.kill(job, signal.SIGCONT)
code = os.waitstatus_to_exitcode(status)
sys.exit(code if code >= 0 else 128 - code)
"""
OPTIONS = ["-m", "overseer", "--quiet", "--no-record", "--dash"]


def voir(script, **more):
    command = [sys.executable, "-m", "overseer", "--quiet", "--no-record", "--no-monitor", "--dash"]
    return subprocess.run([*command, script.name], cwd=script.parent, **more)


class Play:
    """A script under the dashboard on a terminal of its own."""

    def __init__(self, place):
        self._master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
        environ = {**os.environ, "TERM": "xterm-256color", "CI": "", "PYTHONUTF8": "1"}
        environ.pop("NO_COLOR", None)
        command = [sys.executable, "-c", SHELL, *OPTIONS, "main.py"]
        self.process = subprocess.Popen(
            command, cwd=place, env=environ, stdin=slave, stdout=slave, stderr=slave,
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        )  # fmt: skip
        os.close(slave)
        self.shown = b""

    def until(self, mark):
        while mark not in self.shown:
            self.shown += os.read(self._master, 65536)

    def type(self, data):
        os.write(self._master, data)

    def end(self):
        """Read to the end, which the last one to hold the terminal makes."""
        try:
            while select.select([self._master], [], [], 8.0)[0]:
                self.shown += os.read(self._master, 65536)
        except OSError:  # Linux says so when the other side is closed.
            pass
        os.close(self._master)
        return self.process.wait(timeout=30)

    def screen(self):
        screen = pyte.Screen(COLUMNS, ROWS)
        pyte.ByteStream(screen).feed(self.shown)
        return screen


@pytest.fixture(scope="module")
def plays(tmp_path_factory):
    """All ends at the same time."""
    places = {}
    for name, (end, _) in ENDS.items():
        place = places[name] = tmp_path_factory.mktemp(name)
        (place / "main.py").write_text(SCRIPT + end)
    plays = {name: Play(place) for name, place in places.items()}
    for name, play in plays.items():
        play.until(FRAME)
        (places[name] / "drawn").touch()
    return {name: (play, play.end()) for name, play in plays.items()}


@pytest.mark.parametrize("name", ENDS)
def test_the_terminal_is_sane_however_the_run_ends(plays, name):
    play, status = plays[name]
    screen = play.screen()
    rows = [row.rstrip() for row in screen.display]
    assert status == ENDS[name][1]
    assert screen.margins is None
    assert not screen.cursor.hidden
    assert not screen.cursor.attrs.bold
    assert screen.cursor.x == 0
    heads = [at for at, row in enumerate(rows) if row.startswith("── main.py")]
    assert len(heads) == 1  # The last frame stays.
    assert heads[0] < screen.cursor.y
    assert any(row.startswith("last words") for row in rows[: heads[0]])
    assert not rows[screen.cursor.y]


def test_ctrl_z_gives_the_terminal_back_and_fg_takes_it_again(tmp_path):
    (tmp_path / "main.py").write_text(SCRIPT)
    play = Play(tmp_path)
    play.until(FRAME)
    play.type(b"\x1a")
    play.until(b"stopped")
    screen = play.screen()
    assert screen.margins is None
    assert not any(row.startswith("── main.py") for row in screen.display)
    before, play.shown = play.shown, b""
    play.type(b"\n")
    play.until(FRAME)
    (tmp_path / "drawn").touch()
    play.shown = before + play.shown
    assert play.end() == 0
    assert play.screen().margins is None


def test_between_the_frames_the_terminal_gets_what_the_script_wrote(plays):
    shown = plays["SIGKILL"][0].shown
    parts = shown.split(b"\x1b[?2026h")
    between = parts[0] + b"".join(part.partition(FRAME)[2] for part in parts[1:])
    alone = "".join(f"line {n}\r\n" for n in range(30)).encode() + b"last words"
    assert between.startswith(alone)
