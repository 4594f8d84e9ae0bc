"""The dashboard at work: its pace, what fails; and the terminal after any end of a run."""

from __future__ import annotations

import fcntl
import io
import itertools
import os
import pty
import re
import select
import signal
import subprocess
import sys
import termios
from types import SimpleNamespace
from unittest.mock import Mock

import pyte
import pytest
from runs import BOARDS

from instruments.dash import dash
from overseer.views.dash.board import Board
from overseer.views.dash.dash import COST_PART, Dashboard, sink_for
from overseer.views.dash.lines import LineSink
from overseer.views.dash.screen import Screen
from tests.clocks import FakeClock


@pytest.fixture
def at_work():
    sink, clock, problems = Mock(spec=Screen), FakeClock(), []
    dashboard = Dashboard(sink, Board("main.py"), dict, clock, problems.append)
    return SimpleNamespace(dashboard=dashboard, sink=sink, clock=clock, problems=problems)


def seen(at_work):
    return [call[0] for call in at_work.sink.method_calls]


def test_frames_take_one_part_of_a_core(at_work, monkeypatch):
    work = itertools.count(step=40_000_000)  # Each reading is 40 ms of processor time later.
    monkeypatch.setattr(at_work.clock, "cpu_ns", lambda: next(work))
    for _ in range(100):
        at_work.dashboard.tick()
        at_work.clock.advance(0.5)
    assert len(seen(at_work)) == 50 / (0.04 * COST_PART) // 1 + 1


def test_the_end_is_drawn_once_and_by_the_parent_of_a_fork(at_work, monkeypatch):
    with monkeypatch.context() as child:
        child.setattr(os, "getpid", lambda: -1)
        at_work.dashboard.close()
    assert seen(at_work) == []
    for act in (at_work.dashboard.close, at_work.dashboard.close, at_work.dashboard.tick):
        act()
    assert seen(at_work) == ["close"]


@pytest.mark.parametrize("end", ["tick", "close"])
def test_a_broken_terminal_is_told_once_and_left_alone(at_work, end):
    at_work.sink.draw.side_effect = at_work.sink.close.side_effect = OSError(5, "broken")
    for name in (end, "tick", "close"):
        getattr(at_work.dashboard, name)()
    assert [one.what for one in at_work.problems] == ["cannot write to stderr: broken"]


def test_a_mistake_of_ours_gives_the_terminal_back(at_work):
    at_work.sink.draw.side_effect = ZeroDivisionError
    with pytest.raises(ZeroDivisionError):
        at_work.dashboard.tick()
    at_work.dashboard.close()
    assert seen(at_work) == ["draw", "restore"]


def test_a_hanging_terminal_does_not_hold_up_the_end(at_work, monkeypatch):
    held = SimpleNamespace(acquire=lambda timeout: timeout > 1.0)
    monkeypatch.setattr(at_work.dashboard, "_lock", held)
    at_work.dashboard.close()
    assert not seen(at_work)


@pytest.mark.parametrize("handler", [signal.SIG_IGN, signal.SIG_DFL])
def test_ctrl_z_does_in_the_end_what_the_script_made_of_it(at_work, handler):
    before = signal.signal(signal.SIGTSTP, handler)
    at_work.dashboard.watch()
    at_work.dashboard.close()
    assert signal.signal(signal.SIGTSTP, before) == handler


def test_lines_are_written_if_it_is_time_and_there_is_news(monkeypatch):
    written = []
    lines, board = LineSink(written.append), BOARDS["beginning"]
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


OPTIONS = ["-m", "voir", "--quiet", "--no-record", "--dash"]


def test_without_a_terminal_there_is_one_line_at_the_end(tmp_path):
    (tmp_path / "main.py").write_text("import voir\nvoir.log(best=0.25)\n")
    command = [sys.executable, *OPTIONS, "--no-monitor", "main.py"]
    done = subprocess.run(command, cwd=tmp_path, stderr=subprocess.PIPE)
    assert re.fullmatch(rb"main.py 0:00:00 \| .*best 0.2500\n", done.stderr)


# On a terminal

SCRIPT = """
import ctypes, os, signal, sys, time
print(*("line %d" % n for n in range(30)), sep="\\n")
while not os.path.exists("drawn"):
    time.sleep(0.01)
print("last words", end="", flush=True)
"""
FRAME = b"\x1b[?2026l"
KILL = "os.kill(os.getpid(), signal.{})"
SIGNALS = ["SIGKILL", "SIGQUIT", "SIGUSR1", "SIGTERM", "SIGINT"]
ENDS = {name: (KILL.format(name), 128 + getattr(signal, name)) for name in SIGNALS} | {
    "returns": ("print(' unflushed', end='')", 0),
    "raises": ("raise SystemExit(3)", 3),
    "abort": ("os.abort()", 128 + signal.SIGABRT),
    "segfault": ("ctypes.string_at(0)", 128 + signal.SIGSEGV),
    "_exit": ("os._exit(5)", 5),
    "execv": ("os.execv(sys.executable, [sys.executable, '-c', 'print(\"other\")'])", 0),
    # A child that outlives it has a copy of everything that is open.
    "forked": (
        "os.fork() or (os.setsid(), os.closerange(0, 3), time.sleep(15), os._exit(0))\n"
        + KILL.format("SIGKILL"),
        128 + signal.SIGKILL,
    ),
}
#: A shell that says that its job has stopped, and continues it when a line comes.
SHELL = 'trap : INT; "$@"; s=$?; if [ $s = 148 ]; then echo stopped; read; fg; s=$?; fi; exit $s'
BASH = ["bash", "--norc", "-ic", SHELL, "bash"]


class Play:
    """A script under the dashboard on a terminal of its own."""

    def __init__(self, place, end="", options=OPTIONS):
        (place / "main.py").write_text(SCRIPT + end)
        self.terminal, slave = pty.openpty()
        termios.tcsetwinsize(slave, (24, 80))
        kept = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "CI")}
        self.process = subprocess.Popen(
            [*BASH, sys.executable, *options, "main.py"],
            cwd=place, env={**kept, "TERM": "xterm-256color", "PYTHONUTF8": "1"},
            stdin=slave, stdout=slave, stderr=slave, start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        )  # fmt: skip
        os.close(slave)
        self.place, self.shown = place, b""

    def until(self, mark):
        while mark not in self.shown:
            self.shown += os.read(self.terminal, 65536)

    def go_on(self):
        """Let the script go on when there is a frame."""
        self.until(FRAME)
        (self.place / "drawn").touch()

    def end(self):
        """Read to the end, which the last one to hold the terminal makes."""
        try:
            while select.select([self.terminal], [], [], 8.0)[0]:
                self.shown += os.read(self.terminal, 65536)
        except OSError:  # Linux says so when the other side is closed.
            pass
        os.close(self.terminal)
        return self.process.wait(timeout=30)

    def screen(self):
        """What is seen, and the lines where a dashboard begins."""
        screen = pyte.Screen(80, 24)
        pyte.ByteStream(screen).feed(self.shown)
        heads = [at for at, row in enumerate(screen.display) if row.startswith("── main.py")]
        return screen, heads


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
    screen, (head,) = play.screen()  # The last frame stays.
    cursor = screen.cursor
    assert status == ENDS[name][1]
    assert (screen.margins, cursor.hidden, cursor.attrs.bold, cursor.x) == (None, False, False, 0)
    assert head < cursor.y
    said = "last words unflushed" if name == "returns" else "last words"
    assert any(row.startswith(said) for row in screen.display[:head])
    assert not screen.display[cursor.y].strip()
    between = re.sub(rb"\x1b\[\?2026h.*?\x1b\[\?2026l", b"", play.shown, flags=re.DOTALL)
    alone = "".join(f"line {n}\r\n" for n in range(30)).encode() + b"last words"
    assert between.startswith(alone)


def test_a_traceback_is_the_last_thing_on_screen_but_for_two_lines(tmp_path):
    options = "-m", "voir", "--run-dir", "run", "--dash"
    play = Play(tmp_path, 'raise RuntimeError("disk is gone")', options)
    play.go_on()
    assert play.end() == 1
    screen, (head,) = play.screen()
    rows = [row.rstrip() for row in screen.display[: screen.cursor.y]]
    assert rows.pop() == "exit"  # The shell's.
    (begins,) = [at for at, row in enumerate(rows) if row.startswith("Traceback")]
    assert head < begins
    assert rows[-3] == "RuntimeError: disk is gone"
    assert rows[-2].startswith("voir: main.py · RuntimeError: disk is gone · ")
    assert rows[-1].startswith("  record    run · ")


def test_above_the_summary_only_curves_are_left(tmp_path):
    options = "-m", "voir", "--run-dir", "run", "--dash", "--no-monitor"
    given = "voir.give(rate=9.0 + n, units='items/s'); time.sleep(0.6)"
    given = f"import voir\nfor n in range(3): {given}\n"
    play = Play(tmp_path, given, options)
    play.go_on()
    assert play.end() == 0
    screen, heads = play.screen()
    assert heads == []
    rows = [row.rstrip() for row in screen.display[: screen.cursor.y]]
    (title,) = [at for at, row in enumerate(rows) if row == " rate in items/s"]
    assert rows[title - 1].endswith("last words")
    assert "└0" in rows[title + 8]
    assert rows[title + 9].startswith("voir: main.py · finished")


def test_ctrl_z_gives_the_terminal_back_and_fg_takes_it_again(tmp_path):
    play = Play(tmp_path)
    play.until(FRAME)
    os.write(play.terminal, b"\x1a")
    play.until(b"stopped")
    screen, heads = play.screen()
    assert (screen.margins, heads) == (None, [])
    before, play.shown = play.shown, b""
    os.write(play.terminal, b"\n")
    play.go_on()
    play.shown = before + play.shown
    assert (play.end(), play.screen()[0].margins) == (0, None)
