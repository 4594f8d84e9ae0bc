"""Numbers, cells, bars and histories."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from instruments.dash import cells
from instruments.dash.drawing import bar, length, plain, sparkline
from instruments.dash.figures import amount, duration, number, of_total, percent
from instruments.dash.paint import Palette
from instruments.dash.series import Series, mean, spread, squeeze


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (0.0, "0.000"),
        (0.21, "0.2100"),
        (12.345, "12.35"),
        (999.96, "1,000"),
        (1234.5, "1,234"),
        (1234567, "1.23M"),
        (2.5e9, "2.5G"),
        (0.00012, "1.20e-04"),
        (-0.00012, "-1.20e-04"),
        (math.nan, "nan"),
        (-math.inf, "-inf"),
    ],
)
def test_numbers(value, text):
    assert number(value) == text


@given(st.floats() | st.integers())
def test_numbers_fit_into_ten_cells(value):
    assert len(number(value)) <= 10


def test_other_figures():
    assert [duration(s) for s in (0, 59.6, 3725, 90000)] == [
        "0:00:00",
        "0:01:00",
        "1:02:05",
        "1 d 1:00:00",
    ]
    assert percent(0.625) == "62 %"
    assert of_total(1.5 * 1024**3, 32 * 1024**3) == "1.5/32.0 GiB"
    assert (amount(1240.0), amount(0.5)) == ("1,240", "0.5000")


def test_what_a_terminal_would_obey_is_taken_out():
    assert cells.clean("a\x1b[31mb\x07\u202ec\u200d\x9b2Jd") == "a[31mbc2Jd"


@given(st.text(), st.integers(0, 30))
def test_text_is_fitted_exactly(text, room):
    text = cells.clean(text)
    assert cells.width(cells.clip(text, room)) <= room
    assert cells.width(cells.left(text, room)) == room
    assert cells.width(cells.right(text, room)) == room


def test_wide_characters_take_two_cells():
    assert cells.width("損失") == 4
    assert cells.left("損失", 4) == "損失"
    assert cells.left("損失", 3) == "損…"


@given(st.floats(), st.integers(0, 50))
def test_a_bar_takes_its_room(fraction, room):
    assert length(bar(fraction, room, "load")) == room


def test_a_bar_fills_by_halves():
    assert [plain(bar(f, 4, "load")) for f in (0, 0.125, 0.5, 0.999, 1)] == [
        "────",
        "╾───",
        "━━──",
        "━━━╾",
        "━━━━",
    ]


@given(st.lists(st.floats(), max_size=600), st.integers(0, 60), st.none() | st.floats(0, 1))
def test_a_sparkline_takes_its_room(points, room, through):
    assert length(sparkline(points, room, "loss", through=through)) == room


def test_a_sparkline_reaches_from_low_to_high():
    assert plain(sparkline([1, 2, 3], 5, "loss")) == "▁▄▇"
    assert plain(sparkline([2, 2, 2], 5, "loss")) == "▁▁▁"


def test_a_steady_rate_is_a_steady_line():
    assert len(set(plain(sparkline([99, 101, 100], 3, "rate", floor=0)))) == 1


def test_a_history_ends_below_the_end_of_the_progress_bar():
    assert plain(sparkline(range(100), 20, "loss", through=0.25)) == "▁▂▄▆▇"
    assert plain(sparkline([1, 2], 20, "loss", through=0.2)) == "▁▁▇▇"


def test_a_full_history_merges_and_never_grows():
    series = Series(capacity=8)
    for i in range(1000):
        series.add(i)
    assert len(series.points()) <= 8
    assert series.points()[0] == pytest.approx(63.5)  # The mean of the first 128.


def test_old_buckets_do_not_change_until_they_are_merged():
    series = Series(capacity=8)
    for i in range(13):
        series.add(i)
    before = series.points()
    series.add(13)
    assert series.points()[:6] == before[:6]


def test_one_value_that_is_not_finite_marks_its_bucket():
    assert math.isnan(mean([1.0, math.inf]))


def test_squeezing_changes_the_last_cell_only():
    assert squeeze(range(40), 20)[:19] == squeeze(range(39), 20)[:19]


def test_spreading_repeats_or_averages():
    assert spread([1.0, 2.0], 4) == [1.0, 1.0, 2.0, 2.0]
    assert spread([1.0, 3.0, 5.0, 7.0], 2) == [2.0, 6.0]


@pytest.mark.parametrize(
    ("environ", "colour"),
    [
        ({"TERM": "xterm-256color"}, True),
        ({"TERM": "vt100"}, False),
        ({"TERM": "vt100", "FORCE_COLOR": "1"}, True),
        ({"TERM": "xterm", "NO_COLOR": "1"}, False),
        ({"TERM": "xterm", "NO_COLOR": "1", "FORCE_COLOR": "1"}, False),
        ({"TERM": "xterm", "NO_COLOR": ""}, True),
    ],
)
def test_colour_is_what_the_environment_says(environ, colour):
    assert Palette.of(environ, "utf-8").colour is colour


@pytest.mark.parametrize(("encoding", "able"), [("UTF-8", True), ("ascii", False), (None, False)])
def test_unicode_is_what_the_encoding_says(encoding, able):
    assert Palette.of({}, encoding).unicode is able
