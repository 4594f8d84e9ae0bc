"""The dashboard at work: its pace, what fails; and the terminal after any end of a run."""

from __future__ import annotations

import errno
import fcntl
import io
import itertools
import os
import pty
import re
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

from instruments.dash import dash
from overseer.views.dash.board import Board
from overseer.views.dash.dash import COST_PART, Dashboard, Lines, sink_for
from tests.clocks import FakeClock

ROWS, COLUMNS = 24, 80


class Sink:
    """A sink that remembers what was asked of it."""

    def __init__(self):
        self.seen, self.error = [], None

    def _do(self, what):
        if self.error:
            raise self.error
        self.seen.append(what)

    def draw(self, board):
        self._do("draw")

    def close(self, board):
        self._do("close")

    def restore(self):
        self.seen.append("restore")


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
    assert len(at_work.sink.seen) == 50 / (0.04 * COST_PART) // 1 + 1


def test_the_end_is_drawn_once_and_by_the_parent_of_a_fork(at_work, monkeypatch):
    with monkeypatch.context() as child:
        child.setattr(os, "getpid", lambda: -1)
        at_work.dashboard.close()
    assert at_work.sink.seen == []
    for act in (at_work.dashboard.close, at_work.dashboard.close, at_work.dashboard.tick):
        act()
    assert at_work.sink.seen == ["close"]


@pytest.mark.parametrize("end", ["tick", "close"])
def test_a_broken_terminal_is_told_once_and_left_alone(at_work, end):
    at_work.sink.error = OSError(errno.EIO, os.strerror(errno.EIO))
    for name in (end, "tick", "close"):
        getattr(at_work.dashboard, name)()
    (problem,) = at_work.problems
    assert problem.what == "cannot write to stderr: Input/output error"


def test_a_mistake_of_ours_gives_the_terminal_back(at_work):
    at_work.sink.error = ZeroDivisionError()
    with pytest.raises(ZeroDivisionError):
        at_work.dashboard.tick()
    at_work.dashboard.close()
    assert at_work.sink.seen == ["restore"]


def test_a_hanging_terminal_does_not_hold_up_the_end(at_work, monkeypatch):
    held = SimpleNamespace(acquire=lambda timeout: timeout > 1.0)
    monkeypatch.setattr(at_work.dashboard, "_lock", held)
    at_work.dashboard.close()
    assert not at_work.sink.seen


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


def test_lines_are_written_if_it_is_time_and_there_is_news(monkeypatch):
    written = []
    lines, board = Lines(written.append), BOARDS["beginning"]
    for second in range(12):
        monkeypatch.setattr(board, "now", board.start + second)
        lines.draw(board)
    lines.close(BOARDS["empty"])
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


def test_nothing_is_left_behind(tmp_path):
    """A whole run, its script's errors on no terminal: one line at the end."""
    (tmp_path / "main.py").write_text("import voir\nvoir.log(best=0.25)\n")
    command = [sys.executable, *OPTIONS, "--no-monitor", "main.py"]
    done = subprocess.run(command, cwd=tmp_path, stderr=subprocess.PIPE)
    assert b"main.py 0:00:00 | " in done.stderr
    assert done.stderr.endswith(b"best 0.2500\n")


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
OPTIONS = ["-m", "voir", "--quiet", "--no-record", "--dash"]


class Play:
    """A script under the dashboard on a terminal of its own."""

    def __init__(self, place, end=""):
        (place / "main.py").write_text(SCRIPT + end)
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
        self.place, self.shown = place, b""

    def go_on(self):
        """Let the script go on when there is a frame."""
        self.until(FRAME)
        (self.place / "drawn").touch()

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
    plays = {name: Play(tmp_path_factory.mktemp(name), end) for name, (end, _) in ENDS.items()}
    for play in plays.values():
        play.go_on()
    return {name: (play, play.end()) for name, play in plays.items()}


@pytest.mark.parametrize("name", ENDS)
def test_the_terminal_is_sane_however_the_run_ends(plays, name):
    play, status = plays[name]
    screen = play.screen()
    rows = [row.rstrip() for row in screen.display]
    cursor = screen.cursor
    assert status == ENDS[name][1]
    assert (screen.margins, cursor.hidden, cursor.attrs.bold, cursor.x) == (None, False, False, 0)
    (head,) = heads(screen)  # The last frame stays.
    assert head < cursor.y
    assert any(row.startswith("last words") for row in rows[:head])
    assert not rows[cursor.y]


def heads(screen):
    return [at for at, row in enumerate(screen.display) if row.startswith("── main.py")]


def test_ctrl_z_gives_the_terminal_back_and_fg_takes_it_again(tmp_path):
    play = Play(tmp_path)
    play.until(FRAME)
    play.type(b"\x1a")
    play.until(b"stopped")
    assert (play.screen().margins, heads(play.screen())) == (None, [])
    before, play.shown = play.shown, b""
    play.type(b"\n")
    play.go_on()
    play.shown = before + play.shown
    assert (play.end(), play.screen().margins) == (0, None)


def test_between_the_frames_the_terminal_gets_what_the_script_wrote(plays):
    shown = plays["SIGKILL"][0].shown
    between = re.sub(rb"\x1b\[\?2026h.*?\x1b\[\?2026l", b"", shown, flags=re.DOTALL)
    alone = "".join(f"line {n}\r\n" for n in range(30)).encode() + b"last words"
    assert between.startswith(alone)
