"""Lines come out whole however the bytes arrive."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from voir.proc.lines import Lines, texts


@given(st.lists(st.binary(max_size=50), max_size=20))
def test_any_chunks_give_the_lines_of_the_whole(chunks: list[bytes]) -> None:
    lines = Lines()
    fed = [lines.feed(chunk) for chunk in chunks]
    assert all(piece == b"" or piece.endswith(b"\n") for piece in fed)
    assert b"".join(fed) + lines.rest() == b"".join(chunks)


def test_only_a_newline_ends_a_line() -> None:
    assert texts("a\rb\u2028c\x0bd\ne".encode()) == ["a\rb\u2028c\x0bd\n", "e"]


def test_a_line_that_is_no_text_leaves_its_neighbours_text() -> None:
    assert texts(b"one\n\xff\xfe\nthree\n") == ["one\n", b"\xff\xfe\n", "three\n"]


def test_nothing_is_no_line() -> None:
    assert texts(b"") == []
