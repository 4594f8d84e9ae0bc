"""The scroll region: the script's output above, the dashboard below, the terminal left sane."""

from dataclasses import replace

import pytest
from boards import BOARDS, NOTHING, START, TRAINING
from emulator import Emulator

from instruments.dash.board import Given
from instruments.dash.paint import Palette
from instruments.dash.screen import Screen
from instruments.dash.view import height

HEADER = "── main.py"
#: Where the dashboard of a complete run starts on 24 rows.
TOP = 24 - 11


@pytest.fixture
def terminal():
    return Emulator(80, 24)


@pytest.fixture
def screen(terminal):
    return Screen(terminal, Palette())


def lines(n, start=0):
    return [f"line {i}" for i in range(start, start + n)]


def printed(rows):
    return [row for row in rows if row.startswith("line ")]


def headers(rows):
    return [i for i, row in enumerate(rows) if row.startswith(HEADER)]


def after(board, seconds):
    return replace(board, elapsed=board.elapsed + seconds)


def test_a_frame_is_one_write(terminal, screen):
    screen.draw(TRAINING)
    assert len(terminal.writes) == 1
    screen.draw(after(TRAINING, 1))
    assert len(terminal.writes) == 2


def test_a_frame_that_says_the_same_is_not_written(terminal, screen):
    screen.draw(TRAINING)
    screen.draw(TRAINING)
    assert len(terminal.writes) == 1


def test_output_scrolls_above_and_all_of_it_is_kept_in_order(terminal, screen):
    for i, line in enumerate(lines(100)):
        terminal.print(line)
        if i % 7 == 3:
            screen.draw(after(TRAINING, i))
    assert printed(terminal.everything) == lines(100)
    assert headers(terminal.rows) == [TOP]
    assert not headers(terminal.scrollback)


def test_the_first_frame_makes_room_on_a_full_screen(terminal, screen):
    for line in lines(60):
        terminal.print(line)
    screen.draw(TRAINING)
    assert printed(terminal.everything) == lines(60)
    assert headers(terminal.rows) == [TOP]


def test_the_dashboard_grows_without_covering_output(terminal, screen):
    for line in lines(40):
        terminal.print(line)
    for board in (NOTHING, START, TRAINING):
        screen.draw(board)
        terminal.print(f"line {40 + int(board.elapsed)}")
    expected = lines(40) + [f"line {40 + int(b.elapsed)}" for b in (NOTHING, START, TRAINING)]
    assert printed(terminal.everything) == expected
    assert headers(terminal.rows) == [TOP]


def test_the_dashboard_does_not_shrink_and_bounce(terminal, screen):
    screen.draw(TRAINING)
    screen.draw(NOTHING)
    assert headers(terminal.rows) == [TOP]
    assert terminal.rows[TOP + 2 :] == [""] * 9


def test_an_unfinished_line_continues_where_it_was(terminal, screen):
    terminal.print("epoch 1 ...", end="")
    screen.draw(TRAINING)
    terminal.print(" done")
    assert terminal.rows[0] == "epoch 1 ... done"


def test_a_progress_bar_of_the_script_redraws_its_own_line(terminal, screen):
    for percent in (10, 50, 100):
        terminal.print(f"\r{percent} %", end="")
        screen.draw(after(TRAINING, percent))
    assert terminal.rows[0] == "100 %"
    assert terminal.rows[1:TOP] == [""] * (TOP - 1)


def test_the_scripts_colours_survive_a_frame(terminal, screen):
    terminal.print("\x1b[31m", end="")
    screen.draw(TRAINING)
    terminal.print("red")
    assert terminal.screen.buffer[0][0].fg == "red"
    assert terminal.screen.buffer[23][1].fg != "red"


def test_a_script_that_resets_the_terminal_gets_its_dashboard_back(terminal, screen):
    screen.draw(TRAINING)
    terminal.print("\x1bc", end="")
    screen.draw(after(TRAINING, 1))
    for line in lines(100):
        terminal.print(line)
    assert printed(terminal.everything) == lines(100)
    assert headers(terminal.rows) == [TOP]


@pytest.mark.parametrize("reflow", [False, True])
@pytest.mark.parametrize("anchor", ["top", "bottom"])
@pytest.mark.parametrize("size", [(120, 40), (50, 20), (80, 15), (100, 24), (61, 30)])
@pytest.mark.parametrize("before", [3, 60])
def test_a_resize_leaves_one_dashboard_at_the_bottom(
    terminal, screen, size, anchor, reflow, before
):
    for line in lines(before):
        terminal.print(line)
    screen.draw(TRAINING)
    terminal.resize(*size, reflow=reflow, anchor=anchor)
    screen.draw(after(TRAINING, 1))
    for line in lines(30, before):
        terminal.print(line)
    assert len(headers(terminal.everything)) == 1
    top = headers(terminal.rows)[0]
    assert top >= size[1] - height(size[1])
    assert printed(terminal.everything) == lines(before + 30)
    assert all(row.startswith("line ") or not row for row in terminal.rows[:top])


def test_a_window_too_low_for_it_gets_its_rows_back(terminal, screen):
    screen.draw(TRAINING)
    terminal.resize(80, 3)
    screen.draw(TRAINING)
    for line in lines(5):
        terminal.print(line)
    assert terminal.screen.margins is None
    assert terminal.rows == ["line 3", "line 4", ""]


def test_nothing_is_drawn_by_a_background_job(terminal, screen):
    terminal.foreground = False
    screen.draw(TRAINING)
    assert not terminal.writes


def test_at_the_end_the_region_is_reset_and_the_frame_flows(terminal, screen):
    for line in lines(60):
        terminal.print(line)
    screen.draw(TRAINING)
    screen.close(TRAINING)
    for line in lines(60, 60):
        terminal.print(line)
    assert terminal.screen.margins is None
    assert not terminal.screen.cursor.hidden
    assert printed(terminal.everything) == lines(120)
    assert len(headers(terminal.everything)) == 1


def test_the_last_frame_starts_below_an_unfinished_line(terminal, screen):
    terminal.print("no newline", end="")
    screen.draw(TRAINING)
    screen.close(TRAINING)
    assert terminal.rows[0] == "no newline"
    assert terminal.rows[1].startswith(HEADER)


def test_the_last_frame_shows_every_key(terminal, screen):
    board = replace(TRAINING, given=tuple(Given(f"key{i}", "1", 1) for i in range(40)))
    screen.close(board)
    assert all(any(f" key{i} " in row for row in terminal.everything) for i in range(40))


def test_a_run_that_gave_nothing_before_the_first_frame_leaves_no_trace(terminal, screen):
    screen.close(NOTHING)
    assert not terminal.writes


def test_restoring_clears_the_rows(terminal, screen):
    terminal.print("line 0")
    screen.draw(TRAINING)
    screen.restore()
    assert terminal.rows == ["line 0"] + [""] * 23
    assert terminal.screen.margins is None


def test_no_colour_leaves_attributes_only(terminal):
    Screen(terminal, Palette(colour=False)).draw(TRAINING)
    cells = [cell for row in terminal.screen.buffer.values() for cell in row.values()]
    assert {cell.fg for cell in cells} == {"default"}
    assert any(cell.bold for cell in cells)


def test_with_colour_there_is_colour(terminal, screen):
    screen.draw(TRAINING)
    cells = [cell for row in terminal.screen.buffer.values() for cell in row.values()]
    assert {"cyan", "magenta", "green"} <= {cell.fg for cell in cells}


@pytest.mark.parametrize("board", BOARDS)
@pytest.mark.parametrize("rows", range(1, 30))
def test_the_script_keeps_at_least_half_of_the_rows(board, rows):
    terminal = Emulator(80, rows)
    Screen(terminal, Palette()).draw(BOARDS[board])
    assert sum(bool(row) for row in terminal.rows) <= rows // 2
