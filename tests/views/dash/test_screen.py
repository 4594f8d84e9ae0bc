"""The terminal's bottom rows: what the script prints stays its own."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import pytest
from emulator import Emulator
from runs import BOARDS, training

from overseer.views.dash.lines import LineSink
from overseer.views.dash.screen import Screen
from overseer.views.dash.text import Palette

BOARD = BOARDS["training"]
TOP = 8  # Rows of 24 that are the script's.


@pytest.fixture
def terminal(monkeypatch):
    monkeypatch.delitem(sys.modules, "readline", raising=False)
    return Emulator()


@pytest.fixture
def screen(terminal):
    terminal.lines = []
    return Screen(terminal, Palette(), LineSink(terminal.lines.append))


def later(seconds, of=3):
    board = training(of)
    board.now += seconds
    return board


def headers(rows):
    return [at for at, row in enumerate(rows) if row.startswith("── main.py")]


def print_lines(terminal, n, first=0):
    for i in range(first, first + n):
        terminal.print(f"line {i}")


def seen(terminal, lines):
    """Where the dashboard begins; above it there are so many lines of the script's."""
    rows = terminal.everything
    assert [row for row in rows if row.startswith("line ")] == [f"line {n}" for n in range(lines)]
    assert len(headers(rows)) == 1
    (head,) = headers(terminal.rows)
    return head


def test_the_script_prints_above_the_dashboard(terminal, screen):
    for n in range(100):
        terminal.print(f"line {n}")
        screen.draw(BOARD)
    assert seen(terminal, 100) == TOP


def test_each_frame_is_one_write_and_nothing_new_is_none(terminal, screen):
    screen.draw(BOARD)
    screen.draw(BOARD)
    assert len(terminal.writes) == 1
    screen.draw(later(1))
    assert len(terminal.writes) == 2


@pytest.mark.parametrize("text", ["epoch 1 ...", "\r10 %\r20 %", "\x1b[31mred"])
def test_what_is_printed_in_pieces_goes_on_where_it_was(terminal, screen, text):
    alone = Emulator()
    alone.print(text + " done")
    terminal.print(text, end="")
    screen.draw(BOARD)
    terminal.print(" done")
    assert terminal.rows[:TOP] == alone.rows[:TOP]
    assert terminal.screen.buffer[0][12].fg == alone.screen.buffer[0][12].fg


def test_a_script_that_resets_the_terminal_gets_its_dashboard_back(terminal, screen):
    screen.draw(BOARD)
    terminal.print("\x1bc", end="")
    screen.draw(later(1))
    print_lines(terminal, 100)
    assert seen(terminal, 100) == TOP


@pytest.mark.parametrize("size", [(120, 40), (50, 20), (80, 15), (200, 60), (80, 24)])
@pytest.mark.parametrize("before", [3, 60])
def test_a_resize_leaves_one_dashboard_at_the_bottom(terminal, screen, size, before):
    print_lines(terminal, before)
    screen.draw(training(5))
    terminal.resize(*size)
    screen.draw(later(1, of=5))
    print_lines(terminal, 30, before)
    head = seen(terminal, before + 30)
    assert all(row.startswith("line ") or not row for row in terminal.rows[:head])


@pytest.mark.parametrize("size", [(80, 11), (39, 24), (1, 1)])
def test_a_small_terminal_gets_plain_lines(terminal, screen, size):
    screen.draw(BOARD)
    terminal.resize(*size)
    screen.draw(BOARD)
    assert terminal.lines[0].startswith("main.py 0:01:26 | train, ")
    assert (terminal.screen.margins, terminal.held) == (None, [True, False])


def test_a_background_job_and_a_run_of_which_nothing_is_known_draw_nothing(terminal, screen):
    screen.close(BOARDS["empty"])
    terminal.foreground = False
    screen.draw(BOARD)
    assert not terminal.writes


def test_a_program_that_reads_keys_has_the_whole_screen(terminal, screen):
    screen.draw(BOARD)
    terminal.keys = True
    for seconds in range(3):
        screen.draw(later(seconds))
    assert terminal.screen.margins is None
    assert (terminal.repaints, len(terminal.writes), terminal.held) == (1, 2, [True, False])
    terminal.keys = False
    screen.draw(BOARD)
    assert headers(terminal.rows) == [TOP]
    assert terminal.held == [True, False, True]


def test_at_a_prompt_of_pythons_own_the_rows_stay(terminal, screen, monkeypatch):
    monkeypatch.setitem(sys.modules, "readline", None)
    screen.draw(BOARD)
    terminal.keys = True
    screen.draw(later(1))
    assert terminal.screen.margins is not None
    assert len(terminal.writes) == 1


def test_restoring_clears_the_rows(terminal, screen):
    terminal.print("line 0")
    screen.draw(BOARD)
    screen.restore()
    assert terminal.rows == ["line 0"] + [""] * 23
    assert terminal.screen.margins is None


@pytest.mark.parametrize("colour", [True, False])
def test_colours(terminal, colour):
    Screen(terminal, Palette(colour), LineSink(print)).draw(BOARD)
    cells = [cell for row in terminal.screen.buffer.values() for cell in row.values()]
    assert ({cell.fg for cell in cells} == {"default"}) is not colour
    assert any(cell.bold for cell in cells)


@pytest.mark.parametrize(
    ("environ", "encoding", "shown"),
    [
        ("TERM=xterm", "utf-8", (True, True)), ("TERM=xterm NO_COLOR=1", "UTF8", (False, True)),
        ("TERM=vt100", "ascii", (False, False)), ("TERM=vt100 FORCE_COLOR=1", None, (True, False)),
    ],
)  # fmt: skip
def test_what_a_terminal_can_show(environ, encoding, shown):
    terminal = SimpleNamespace(isatty=lambda: True, encoding=encoding)
    palette = Palette.of(terminal, dict(each.split("=") for each in environ.split()))
    assert (palette.colour, palette.unicode) == shown
