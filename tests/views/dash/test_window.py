"""The keys of a terminal, from what it sends."""

from __future__ import annotations

import pytest

from overseer.views.dash.window import _keys

SENT = {
    b"q": ["q"],
    b"ab\x7f\r": ["a", "b", "back", "enter"],
    b"\x1b": ["escape"],
    b"\x1b[A\x1b[A\x1bOB\t": ["up", "up", "down", "tab"],
    "é日".encode(): ["é", "日"],
    b"\x1b[200~x\x1b[201~": ["x"],  # A paste.
    b"\x1b[<0;1;2M\x1b[5~": [],  # A click; a key without a use.
    b"\x00\x07\xff": [],
}


@pytest.mark.parametrize("data", SENT)
def test_a_key_has_one_name_however_it_is_sent(data: bytes) -> None:
    assert _keys(data) == SENT[data]
