"""The dashboard on a real terminal: what arrives there, and what arrives in a pipe."""

from __future__ import annotations

import fcntl
import io
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path

import driver
import pytest
from emulator import Emulator, FakeOverseer

DRIVER = Path(__file__).with_name("driver.py")
FRAME = re.compile(rb"\x1b\[\?2026h.*?\x1b\[\?2026l", re.DOTALL)
LAST = re.compile(rb"\x1b7\x1b\[r\x1b8\r+\n\x1b\[0m\x1b\[J.*\Z", re.DOTALL)


class Play:
    """One scene on a pty."""

    def __init__(
        self, scene, columns=80, rows=24, stdout_to_pipe=False, stderr_to_pipe=False, **env
    ):
        self._master, slave = pty.openpty()
        self.resize(columns, rows)
        attributes = termios.tcgetattr(slave)
        attributes[3] &= ~termios.ECHO
        termios.tcsetattr(slave, termios.TCSANOW, attributes)
        self.before = termios.tcgetattr(slave)
        self.process = subprocess.Popen(
            [sys.executable, str(DRIVER), scene],
            stdin=slave,
            stdout=subprocess.PIPE if stdout_to_pipe else slave,
            stderr=subprocess.PIPE if stderr_to_pipe else slave,
            start_new_session=True,
            env={**os.environ, "TERM": "xterm-256color", "CI": "", "PYTHONUTF8": "1", **env},
        )
        self._slave = slave
        self.shown = b""

    def resize(self, columns, rows):
        fcntl.ioctl(self._master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def until(self, mark):
        while mark not in self.shown:
            self.shown += os.read(self._master, 65536)

    def type(self, data):
        os.write(self._master, data)

    def close(self):
        self.after = termios.tcgetattr(self._slave)
        os.close(self._slave)
        try:
            while chunk := os.read(self._master, 65536):
                self.shown += chunk
        except OSError:  # Linux says so when the other side is closed.
            pass
        self.status = self.process.wait(timeout=30)
        os.close(self._master)


@contextmanager
def playing(scene, **options):
    play = Play(scene, **options)
    try:
        yield play
    finally:
        play.close()
        for stream in (play.process.stdout, play.process.stderr):
            if stream:
                stream.close()


def played(scene, **options):
    play = Play(scene, **options)
    play.close()
    play.piped = b"".join(s.read() for s in (play.process.stdout, play.process.stderr) if s)
    for stream in (play.process.stdout, play.process.stderr):
        if stream:
            stream.close()
    return play


def alone():
    """What ``driver.train`` writes without a dashboard: stdout, and both together."""
    out, both = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(io.StringIO()):
        driver.train(FakeOverseer())
    with redirect_stdout(both), redirect_stderr(both):
        driver.train(FakeOverseer())
    return out.getvalue().encode(), both.getvalue().replace("\n", "\r\n").encode()


def screen_of(shown, columns=80, rows=24):
    terminal = Emulator(columns, rows)
    terminal.write(shown)
    return terminal


def test_stdout_in_a_pipe_is_the_scripts_byte_for_byte():
    play = played("train", stdout_to_pipe=True)
    assert play.piped == alone()[0]
    assert len(FRAME.findall(play.shown)) >= 10


def test_between_the_frames_the_terminal_gets_what_the_script_wrote():
    play = played("train")
    assert LAST.sub(b"", FRAME.sub(b"", play.shown)) == alone()[1]
    assert len(FRAME.findall(play.shown)) >= 10


def test_every_line_is_above_the_dashboard_in_order():
    terminal = screen_of(played("train").shown)
    found = [row for row in terminal.everything if row.startswith("line ")]
    assert [row.split()[1] for row in found] == [str(i) for i in range(60)]
    last = terminal.everything.index("the end, without a newline")
    assert terminal.everything[last + 1].startswith("── main.py")


@pytest.mark.parametrize("scene", ["train", "leaves"])
def test_the_terminal_is_left_as_it_was(scene):
    play = played(scene)
    terminal = screen_of(play.shown)
    assert play.status == 0
    assert play.after == play.before
    assert terminal.screen.margins is None
    assert not terminal.screen.cursor.hidden
    assert terminal.screen.cursor.x == 0


def test_ctrl_c_leaves_a_sane_terminal_and_the_last_frame():
    with playing("interrupted") as play:
        play.until(b"ready")
        play.type(b"\x03")
    terminal = screen_of(play.shown)
    assert play.status == 0
    assert terminal.screen.margins is None
    assert sum(row.startswith("── main.py") for row in terminal.everything) == 1


def test_a_resize_in_the_middle_of_a_run():
    with playing("resized") as play:
        play.until(b"ready")
        first, play.shown = play.shown, b""
        play.resize(50, 20)
        play.type(b"\n")
    terminal = screen_of(first)
    terminal.resize(50, 20)
    terminal.write(play.shown)
    found = [row for row in terminal.everything if row.startswith("line ")]
    assert [row.split()[1] for row in found] == [str(i) for i in range(60)] * 2
    assert sum(row.startswith("── main.py") for row in terminal.everything) == 1
    assert max(map(len, terminal.rows)) <= 50


def test_a_forked_child_draws_nothing():
    shown = played("forked").shown
    assert shown.count(b"parent goes on") == 1
    assert len(LAST.findall(shown)) == 1
    assert LAST.search(shown).start() > shown.index(b"parent goes on")


@pytest.mark.parametrize("env", [{"TERM": "dumb"}, {"CI": "true"}])
def test_a_terminal_that_cannot_be_drawn_on_gets_plain_lines(env):
    shown = played("train", **env).shown
    assert b"main.py 0:00:0" in shown
    assert b"\x1b" not in shown.replace(b"\x1b[1mbold\x1b[0m", b"")


def test_stderr_in_a_pipe_gets_plain_lines_and_the_terminal_nothing():
    play = played("train", stderr_to_pipe=True)
    stdout = alone()[0].replace(b"\n", b"\r\n")
    assert play.shown == stdout
    last = play.piped.decode().splitlines()[-1]
    assert re.fullmatch(r"main\.py 0:00:06 \| train, 100 %, 60/60, loss 0\.03333, .*", last)


def test_other_ranks_of_a_job_draw_nothing():
    assert played("train", RANK="1").shown == alone()[1]


def test_no_color_is_respected():
    coloured = re.compile(rb"\x1b\[(?:\d+;)?3\d")
    assert not coloured.search(played("train", NO_COLOR="1").shown)
    assert coloured.search(played("train").shown)
