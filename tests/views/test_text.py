"""How numbers, rows and tables look, at every size and width."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from overseer.model import facts
from overseer.views.text import TO, Layout, cells, coloured, cut, encodable, row, table

NAN = float("nan")


AMOUNTS: list[tuple[Any, list[tuple[Any, ...]]]] = [
    (facts.duration, [
        (0, "0 ms"), (0.00004, "0.04 ms"), (0.0034, "3.4 ms"), (0.0342, "34 ms"), (0.0994, "99 ms"),
        (0.0996, "0.10 s"), (9.994, "9.99 s"), (9.996, "10.0 s"), (59.94, "59.9 s"),
        (59.96, "1 min 00 s"), (3599.4, "59 min 59 s"), (3599.6, "1 h 00 min"),
        (90_000, "25 h 00 min"), ("x", None), (None, None), (NAN, None),
    ]),
    # Shares are not rounded to none or all.
    (facts.percent, [
        (0, "0 %"), (0.00055, "0.055 %"), (0.0094, "0.94 %"), (0.0096, "1 %"), (0.21, "21 %"),
        (0.998, "99.8 %"), (0.9996, "100 %"), (1, "100 %"), (None, None),
    ]),
    (facts.size, [
        (0, None, "0 B"), (999, None, "999 B"), (1000, None, "0.977 KiB"),
        (13 << 20, None, "13 MiB"), (1000 << 20, None, "0.977 GiB"),
        (2254857830, None, "2.1 GiB"), (7 << 42, None, "28 TiB"),
        (9876543210, 128 << 30, "9.2/128 GiB"), (13 << 20, 128 << 30, "0.013/128 GiB"),
        (5 << 60, None, "5.24e+06 TiB"), (5, 0, "5 B"), (None, 5, None), ("5", None, None),
    ]),
    # Rates that stand side by side have the same decimals.
    (facts.rates, [
        (1412.2, 1387.6, ["1,412", "1,388"]), (24.13, 9.87, ["24.13", "9.87"]),
        (1412.2, 13.474, ["1,412.2", "13.5"]), (140.2, 0.0, ["140", "0"]),
        (2.5, None, ["2.50"]), (0.0312, ["0.031"]), ("NaN", True, "3", []),
    ]),
    # A loss has four digits or says what it is.
    (facts.figure, [
        (0.087124, "0.08712"), (1412.2, "1,412"), (5e12, "5e+12"), ("NaN", "NaN"),
        ("-Infinity", "-Infinity"), (NAN, "nan"), ("x", None), (True, None), ([], None),
    ]),
]  # fmt: skip


@pytest.mark.parametrize(("write", "rows"), AMOUNTS)
def test_amounts_read_well_at_every_size(write: Any, rows: list[tuple[Any, ...]]) -> None:
    for *given, text in rows:
        assert write(*given) == text, given


def test_wide_characters_are_counted_as_terminals_show_them() -> None:
    assert [cells(text) for text in ("训练", "e\u0301", "plain")] == [4, 1, 5]


def test_what_a_stream_lacks_is_drawn_in_ascii_of_the_same_width_or_escaped() -> None:
    drawn = f"▒█ 1 → 2 · 3{TO}4 └…"
    assert encodable(drawn, "utf-8") == drawn
    assert encodable(drawn, "ascii") == ":# 1 > 2 | 3-4 `~"
    assert encodable("1 · 2", "latin-1") == "1 · 2"
    assert encodable("训 ·", "ascii") == "\\u8bad |"
    assert encodable("x", None) == "x"


def test_rows_are_wrapped_between_pieces_and_long_pieces_between_words() -> None:
    rows = [row("first", "a piece", "another of them", "and one more"), row("second", "words " * 9)]
    assert Layout(40).text([*rows, row("empty", None, "")]).splitlines() == [
        "  first     a piece · another of them",
        "            and one more",
        "  second    words words words words",
        "            words words words words",
        "            words",
    ]


def test_what_is_most_optional_goes_first_and_what_is_needed_never() -> None:
    rows = [row("a", "1"), row("b", "2", optional=1), row("c", "3", optional=2), row("d", "4")]
    layout = Layout(80)
    assert [each.label for each in layout.fitted(rows, 3)] == ["a", "b", "d"]
    assert [each.label for each in layout.fitted(rows, 0)] == ["a", "d"]


def test_a_table_lines_up_whatever_its_characters() -> None:
    assert table([["name", "n"], ["训练", "1"], [cut("long\nname", 6), "20"]], [False, True]) == (
        "name     n\n训练     1\nlong …  20\n"
    )


@pytest.mark.parametrize(
    ("environ", "terminal", "expected"),
    [
        ("TERM=xterm", True, True), ("TERM=xterm", False, False), ("TERM=dumb", True, False),
        ("CI=true", True, False), ("CI=false", True, True), ("CI=true FORCE_COLOR=1", False, True),
        ("FORCE_COLOR=1 NO_COLOR=1", True, False),
    ],
)  # fmt: skip
def test_the_environment_says_whether_there_are_colours(
    environ: str, terminal: bool, expected: bool
) -> None:
    stream: Any = SimpleNamespace(isatty=lambda: terminal)
    assert coloured(stream, dict(one.split("=") for one in environ.split())) is expected
    assert not coloured(None, {})
