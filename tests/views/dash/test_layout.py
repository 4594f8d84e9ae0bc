"""What is drawn: golden screens, and what holds at any size."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest
from runs import BOARDS, facts, step

from overseer.views.dash.board import Board, RankRow, as_number
from overseer.views.dash.layout import LEAST_COLUMNS, LEAST_ROWS, courses, height, lay_out, words
from overseer.views.dash.layout import _Axis as Axis
from overseer.views.dash.text import Palette, count, number, width
from tests.views.test_summary import golden

SCREENS = {
    "training": "80x12 80x24 70x24 120x40 200x60 40x12",
    "eight-gpus": "80x24 120x40",
    "tasks": "80x24 120x40",
    **dict.fromkeys(["beginning", "empty", "odd", "many-keys"], "80x24"),
}


def drawn(name, columns, rows):
    lines = lay_out(BOARDS[name], columns, height(rows))
    return ["".join(text for text, _ in line) for line in lines]


@pytest.mark.parametrize(("name", "size"), [(n, s) for n in SCREENS for s in SCREENS[n].split()])
def test_the_dashboard_looks_like_this(name, size):
    lines = drawn(name, *map(int, size.split("x")))
    golden(f"dash/{name}-{size}.txt", "".join(f"{line.rstrip()}\n" for line in lines))


def test_without_unicode_it_looks_like_this():
    lines = lay_out(BOARDS["training"], 80, height(24))
    shown = [Palette(colour=False, unicode=False).paint(line) for line in lines]
    text = re.sub(rb"\x1b\[[\d;]*m", b"", b"\n".join(shown)).decode("ascii")
    golden("dash/ascii-80x24.txt", text + "\n")


def test_the_picture_in_the_readme_is_of_this_dashboard():
    place = Path(__file__).parents[3] / "docs" / "images"
    draw = runpy.run_path(str(place / "draw.py"))["drawn"]
    # Its words: all else is rich's.
    shown, now = (
        re.findall("<text[^>]*>([^<]*)<", picture)
        for picture in ((place / "dash.svg").read_text(encoding="utf-8"), draw())
    )
    assert shown == now, "draw it anew: python docs/images/draw.py"


def numbers(name, columns, rows):
    figures = [line for line in drawn(name, columns, rows) if not re.search("[│┤└]", line)]
    # How many keys have no room is another number at each size.
    return {*re.findall(r"\d[\d,.:]*", re.sub(r"\+ \d+ more|layer\S*", "", "\n".join(figures)))}


@pytest.mark.parametrize("name", BOARDS)
def test_at_any_size_lines_fit_no_number_is_cut_and_the_script_keeps_its_rows(name):
    # What fits nowhere else is a figure with fewer neighbours: all of them are on a wide screen.
    whole = numbers(name, 400, 400)
    for columns in (*range(LEAST_COLUMNS, 130, 7), 160, 400):
        assert numbers(name, columns, 24) <= whole
        for rows in (*range(LEAST_ROWS, 45, 8), 100):
            lines = lay_out(BOARDS[name], columns, height(rows))
            assert max(map(width, lines)) <= columns - 1
            assert len(lines) <= rows - max(5, rows // 3)


@pytest.mark.parametrize("name", ["training", "odd", "tasks"])
def test_with_more_rows_nothing_goes_and_plots_grow(name):
    heights = [len(drawn(name, 120, rows)) for rows in range(12, 70, 2)]
    assert heights == sorted(heights)
    assert heights[-1] >= 40


@pytest.mark.parametrize("name", BOARDS)
def test_above_a_summary_only_curves_are_left(name):
    lines = courses(BOARDS[name], 80, height(24))
    assert len(lines) in (0, 9)
    assert bool(lines) == (name not in ("beginning", "empty"))
    assert {width(line) for line in lines} <= {79}
    text = "".join(text for line in lines for text, _ in line)
    assert not lines or {*re.findall("[a-z]+ ?[a-z]+", text)} == {"loss", "rate in", "items", "log"}
    assert not courses(BOARDS[name], 80, 4)


def test_curves_above_one_another_are_of_one_time():
    lines = drawn("tasks", 120, 70)
    axes = [line for line in lines if "└0" in line]
    assert len(axes) > 1
    ends = [place for line in axes for place in re.finditer(r"[\d:]+(?=\s|$)", line)]
    assert {end[0] for end in ends} == {"0:01:23"}
    assert len({end.end() for end in ends}) <= 2


def test_a_noisy_loss_is_drawn_before_all_its_values():
    board = Board("main.py")
    board.take([step(n, n / 10, 1 + n % 2) for n in range(1, 4000)])
    board.read(400.0, lambda: {"train": facts(4000)}, last=True)
    drawn = [span for line in lay_out(board, 80, height(40)) for span in line]
    assert {style for text, style in drawn if "\u2801" <= text[:1] <= "\u28ff"} == {"dim", "loss"}


def test_on_one_line():
    head, told = words(BOARDS["training"])
    assert (head, words(BOARDS["empty"])[1]) == ("main.py 0:01:26", "")
    assert told.startswith("train, 37/60 epochs, step 3,320, loss 0.05212, 1,2")
    assert "cpu " in told and "acc 0.9761" in told


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"), (12, "12"), (1234567, "1.235M"), (10**400, "inf"), (0.5, "0.5000"),
        (1e-7, "1.00e-07"), (123456.7, "123,457"), (float("nan"), "nan"), (float("inf"), "inf"),
        (3.0, "3"), (2.5e15, "2.50e+15"),
    ],
)  # fmt: skip
def test_numbers(value, text):
    assert count(as_number(value)) == text
    assert len(number(as_number(value))) <= 9


@pytest.mark.parametrize(
    ("low", "high", "labels"),
    [
        (0.04, 2.2, "0.05 0.1 0.2 0.5 1 2"), (1e-6, 10.0, "0.0001 0.01 1"),
        (2.301, 2.303, "2.301 2.3015 2.302 2.3025 2.303"), (3e5, 3.00004e5, "300k"),
        (-1e-3, 1e-3, "-0.001 -0.0005 0 0.0005 0.001"), (5.0, 5.0, "4.6 4.8 5 5.2 5.4"),
        (0.0, 5e-324, "-0.4 -0.2 0 0.2 0.4"), (0.0, 0.0, "0 0.2 0.4 0.6 0.8 1"),
    ],
)  # fmt: skip
def test_an_axis_has_round_labels_that_differ(low, high, labels):
    shown = Axis([low, high], rate=False).labels(13)
    assert [shown[row] for row in sorted(shown, reverse=True)] == labels.split()


def test_a_low_axis_has_its_ends_where_round_values_have_no_room():
    assert Axis([30e3, 34e3], rate=True).labels(3) == {0: "37.1k", 2: "26.9k"}


def test_steps_of_which_no_figure_is_known_yet():
    board = Board("main.py")
    board.take([step(1, 1.0, 2.0), step(2, 2.0, 1e308), step(3, 3.0, 1.0)])
    board.read(3.0, dict)
    for rows in (12, 24, 60):
        assert len(lay_out(board, 80, height(rows))) == 2
    board.hear({"rate": 1e308, "units": "items/s"})
    board.read(4.0, lambda: {"train": facts(3)}, last=True)
    assert len(lay_out(board, 80, height(24))) == 16


def test_a_job_has_a_row_for_each_rank_and_its_figures_are_those_of_rank_0():
    made = Board("main.py", clock=lambda: 1.0)
    made.ranks = [
        RankRow(1, 1250.0, "items", 0.5, 0.02, "in communication for 40 s"),
        *(RankRow(rank, 1300.0, "items", 0.4, 0.4, "") for rank in (0, 2, 3)),
    ]
    lines = ["".join(text for text, _ in line).rstrip() for line in lay_out(made, 80, 12)]
    assert lines[0].startswith("── main.py · rank 0 of 4 ─")
    row = r"^ rank 1 +1,250 items/s +loss 0.5000 +waiting 2 % +in communication"
    assert re.search(row, lines[1])
    assert len(lines) == 5
    assert lay_out(made, 80, 6)[-1][0][0] == " + 3 more ranks"
