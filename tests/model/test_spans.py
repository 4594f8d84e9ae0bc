"""``N`` means steps, ``Ns`` seconds, and anything else is the user's mistake."""

from __future__ import annotations

import pytest

from overseer.errors import UsageError
from overseer.model.spans import MAX_SECONDS, Extent, parse_span


@pytest.mark.parametrize(
    ("text", "span"),
    [
        (" 10 ", Extent(steps=10)), (10**18, Extent(steps=10**18)), ("0", Extent(steps=0)),
        ("5s", Extent(seconds=5)), (".5S", Extent(seconds=0.5)),
        ("1.7e308s", Extent(seconds=MAX_SECONDS)),
    ],
)  # fmt: skip
def test_steps_and_seconds_are_told_apart(text: str | int, span: Extent) -> None:
    assert parse_span(text, "--skip") == span


@pytest.mark.parametrize(
    "text", ["", "s", "-1", "-2s", "1.5", "ten", "5m", "nan", "infs", "1e999s", "0x10", -3, 2.5]
)
def test_anything_else_is_refused_with_a_hint(text: str | float) -> None:
    with pytest.raises(UsageError) as caught:
        parse_span(text, "--skip")
    assert caught.value.slug == "bad-span"
    assert caught.value.what.startswith("--skip")
    assert "5s" in str(caught.value.remedy)


def test_a_window_of_nothing_is_false_and_may_be_refused() -> None:
    assert [bool(parse_span(text, "--skip")) for text in ("0", "0s", "1", ".1s")] == [
        False, False, True, True,
    ]  # fmt: skip
    for text in ("0", "0s", 0):
        with pytest.raises(UsageError):
            parse_span(text, "--interval", least=1)


def test_a_span_reads_as_it_is_written() -> None:
    assert [str(parse_span(text, "x")) for text in ("7", "0.5s")] == ["7", "0.5s"]
