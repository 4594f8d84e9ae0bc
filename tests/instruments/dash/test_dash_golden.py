"""What people look at: whole screens, as a terminal shows them."""

import re
from pathlib import Path

import pytest
from boards import BOARDS, SIZES, TRAINING
from emulator import Emulator

from instruments.dash.paint import Palette
from instruments.dash.picture import sample, svg
from instruments.dash.screen import Screen


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("board", BOARDS)
def test_the_screen_looks_as_it_should(board, size, golden):
    terminal = Emulator(*SIZES[size])
    terminal.print("$ voir --dash main.py")
    terminal.print("Training on 60,000 images.")
    Screen(terminal, Palette()).draw(BOARDS[board])
    golden(f"{board}-{size}.txt", terminal.text())


def test_the_last_frame_stays_below_what_the_script_printed(golden):
    terminal = Emulator(80, 24)
    screen = Screen(terminal, Palette())
    terminal.print("$ voir --dash main.py")
    screen.draw(TRAINING)
    terminal.print("accuracy 0.9761")
    screen.close(TRAINING)
    terminal.print("$ ", end="")
    golden("last-frame-80x24.txt", terminal.text())


def test_a_terminal_without_unicode_gets_ascii(golden):
    terminal = Emulator(80, 24)
    Screen(terminal, Palette(unicode=False)).draw(TRAINING)
    assert terminal.text().isascii()
    golden("ascii-80x24.txt", terminal.text())


def test_the_picture_in_the_docs_is_up_to_date():
    """Its words are; what surrounds them differs between versions of rich."""
    picture = Path(__file__).parents[3] / "docs" / "images" / "dash.svg"
    words = re.compile(">([^<>]+)</text>")
    expected = words.findall(svg(sample(), 120, 40))
    assert words.findall(picture.read_text(encoding="utf-8")) == expected
    assert len(expected) > 50
