"""Data hidden in a stream of text comes out again whole, and the text as if it were not there."""

from __future__ import annotations

import io
import sys
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from overseer.record.smuggle import (
    Separator,
    SmuggleWriter,
    decode_escape_sequence,
    encode_as_escape_sequence,
    hide,
    pieces,
)  # fmt: skip


def chunks(data, cuts):
    places = [0, *sorted(cut % (len(data) + 1) for cut in cuts), len(data)]
    return [data[a:b] for a, b in pairwise(places)]


def separated(stream):
    separator = Separator()
    fed = [separator.feed(chunk) for chunk in stream]
    return b"".join(s for s, _ in fed) + separator.rest(), b"".join(h for _, h in fed)


@given(st.text())
def test_a_text_survives_being_hidden(text):
    assert decode_escape_sequence(encode_as_escape_sequence(text)) == text


def test_a_sequence_is_what_other_readers_of_the_format_expect():
    assert encode_as_escape_sequence("Jo\n") == "\x1b[4:6?0:z"


def test_what_is_no_sequence_is_refused():
    with pytest.raises(ValueError, match="no escape sequence"):
        decode_escape_sequence("plain text")


shown = st.lists(st.binary().filter(lambda text: b"\x1b" not in text), min_size=2, max_size=6)


@given(shown, st.binary(max_size=5000), st.lists(st.integers(0, 10_000), max_size=8))
def test_any_cut_of_the_stream_gives_the_same(texts, data, cuts):
    hidden = pieces(data)
    stream = b"".join(t + h for t, h in zip(texts, [*hidden, *[b""] * len(texts)], strict=False))
    used = hidden[: len(texts)]
    assert separated(chunks(stream, cuts)) == (b"".join(texts), separated(used)[1])


@pytest.mark.parametrize(
    "foreign",
    [b"\x1b[1;31mred\x1b[0m", b"\x1b[123z", b"\x1b", b"\x1b[", b"\x1b[12", b"\x1b]0;title\x07"],
)
def test_other_escape_sequences_are_left_as_they_are(foreign):
    for stream in ([foreign], [bytes([b]) for b in foreign]):
        assert separated(stream) == (foreign, b"")


def test_a_sequence_of_megabytes_in_small_chunks_takes_time_as_its_bytes():
    data = b"x" * 2_000_000
    stream = hide(data)
    small = [stream[i : i + 1000] for i in range(0, len(stream), 1000)]
    assert separated(small) == (b"", data)


def test_a_writer_hides_what_print_writes_and_leaves_stdout_open(capsys):
    with SmuggleWriter(sys.stdout) as hidden:
        print('{"a": 1}', file=hidden)
    print("still here")
    assert separated([capsys.readouterr().out.encode()]) == (b"still here\n", b'{"a": 1}\n')


def test_a_writer_says_how_much_of_the_text_it_took_and_closes_what_is_no_standard_stream():
    stream = io.StringIO()
    with SmuggleWriter(stream) as hidden:
        assert hidden.write("four") == 4
        assert hidden.write("") == 0
        assert stream.getvalue() == encode_as_escape_sequence("four")
    assert stream.closed
