"""Any value becomes one line of strict JSON."""

from __future__ import annotations

import collections
import dataclasses
import datetime
import decimal
import enum
import json
import math
import signal
import uuid
import weakref
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from overseer.recorder.encode import (
    DEEPEST_NESTING,
    LONGEST_TEXT,
    MOST_VALUES,
    encode,
    simplify,
    snapshot,
)


def strict(line):
    """The value of one line, read by the letter of the standard."""
    assert line.endswith(b"\n")
    assert len(line.decode("ascii").splitlines()) == 1
    value = json.loads(line, parse_constant=pytest.fail)
    json.dumps(value, ensure_ascii=False).encode("utf-8")  # No lone surrogate is left.
    return value


def read_back(value):
    return strict(encode(value))


def raises(error):
    def method(*args):
        raise error

    return method


def strange(name, **members):
    """An object of a class of that name, whose methods raise these errors."""
    base = members.pop("base", object)
    return type(name, (base,), {key: raises(error) for key, error in members.items()})


class Colour(enum.Enum):
    RED = "red"
    PAIR = (1, 2)


class Level(enum.IntEnum):
    HIGH = 3


@dataclasses.dataclass
class Point:
    x: float
    y: object = None


class Classless:
    __class__ = property(raises(RuntimeError("outside of any context")))


class Kindless(type):
    """A class like an expression: it compares, and so has no hash."""

    __eq__ = __getattr__ = raises(RuntimeError("a comparison has no truth"))


class Anything:
    def __getattr__(self, name):
        return lambda *args: 1

    def __repr__(self):
        return "anything"


class Masked(np.ndarray):
    """A subclass is not read: of some libraries that talks to other processes."""


Pair = collections.namedtuple("Pair", "left right")
Silent = strange("Silent", __repr__=ValueError("not today"))
Lost = strange("Lost", base=collections.UserDict, __iter__=OSError("gone"))
Text = strange("Text", base=str, __str__=ValueError())
DEAD = weakref.proxy(Silent())
SAME = object()


def unread(name, error):
    return f"<{name} that raises {error}>"


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"loss": 0.5, "step": 3, "name": "träning", "ok": True, "none": None}, SAME),
        ({"loss": math.nan, "a": [math.inf, (-math.inf,)]},
            {"loss": "NaN", "a": ["Infinity", ["-Infinity"]]}),
        ({"x": {3, 1, 2}, "y": frozenset()}, {"x": [1, 2, 3], "y": []}),
        ({"x": b"abc", "y": bytearray(b"\xff\xfe")},
            {"x": "abc", "y": {"bytes": 2, "starts": "fffe"}}),
        ({"x": Path("/a/b"), "y": decimal.Decimal("1.10"), "z": uuid.UUID(int=1)},
            {"x": "/a/b", "y": "1.10", "z": "00000000-0000-0000-0000-000000000001"}),
        ({"x": Colour.RED, "y": Colour.PAIR, "z": Level.HIGH}, {"x": "red", "y": "PAIR", "z": 3}),
        ({"x": Point(1.0, Point(2.0))}, {"x": {"x": 1.0, "y": {"x": 2.0, "y": None}}}),
        ({"x": Pair(1, "b"), "y": collections.deque([1])},
            {"x": {"left": 1, "right": "b"}, "y": [1]}),
        ({"x": range(3), "y": {"b": 1, "a": 2}.keys()}, {"x": [0, 1, 2], "y": ["b", "a"]}),
        ({"x": datetime.date(2026, 1, 5), "y": ValueError("bad")},
            {"x": "2026-01-05", "y": "ValueError: bad"}),
        ({"x": len, "y": 1 + 2j}, {"x": "builtins.len", "y": "(1+2j)"}),
        ({"x": 10**5000, "y": 2**63}, {"x": "<integer of 16610 bits>", "y": 2**63}),
        ({"x": "\udc80name", "🚀\u2028\n": 1}, {"x": "\\udc80name", "🚀\u2028\n": 1}),
        ({1: "a", "1": "b", None: "c", (1, 2): "d", 1.5: "e", math.nan: "f"},
            {"1": "a", "1'": "b", "null": "c", "[1, 2]": "d", "1.5": "e", "NaN": "f"}),
        ({"x": np.float32(0.5), "y": np.int64(3), "z": np.array([2.5]), "w": np.zeros((2, 3))},
            {"x": 0.5, "y": 3, "z": 2.5, "w": {"shape": [2, 3], "dtype": "float64"}}),
        ({"x": np.zeros(1).view(Masked)}, {"x": "<Masked>"}),
        ([Silent(), DEAD], [unread("Silent", "ValueError"),
            unread(type(DEAD).__name__, "ReferenceError")]),
        ([Classless(), Kindless("Odd", (), {})()],
            [unread("Classless", "RuntimeError"), unread("Odd", "RuntimeError")]),
        ([strange("Leaving", __repr__=SystemExit(3))(), Lost(a=1)],
            [unread("Leaving", "SystemExit"), unread("Lost", "OSError")]),
        ([strange("Closed", __getattribute__=RuntimeError())(), Anything(), Text("t")],
            [unread("Closed", "RuntimeError"), "anything", "t"]),
        ([1, 2], SAME), ("text", SAME), (None, SAME),
    ],
)  # fmt: skip
def test_a_value_reads_back_as_what_it_was_or_as_a_description(value, expected):
    assert read_back(value) == (value if expected is SAME else expected)


def test_what_is_too_large_is_cut_and_says_so():
    cut = [*range(MOST_VALUES - 2), "... [cut: 5000 items]"]
    assert read_back({"x": [*range(5000)]})["x"] == cut
    assert read_back({"x": {str(n): n for n in range(5000)}})["x"]["..."] == "[cut: 5000 keys]"
    text = read_back({"x": "a" * 1_000_000})["x"]
    assert text == "a" * LONGEST_TEXT + "... [cut: 1000000 characters]"
    assert read_back({"x": b"a" * 1_000_000})["x"] == {"bytes": 1_000_000, "starts": "61" * 32}


def test_what_is_in_itself_or_nested_without_end_is_cut():
    loop: list[object] = []
    loop.append(loop)
    opened, closed = "[" * DEEPEST_NESTING, "]" * DEEPEST_NESTING
    assert encode(loop).decode() == f'{opened}"<list of 1>"{closed}\n'


def test_neither_ctrl_c_nor_what_a_handler_of_the_scripts_raises_is_swallowed():
    class Slow:
        def __repr__(self):
            signal.raise_signal(signal.SIGTERM)

    before = signal.signal(signal.SIGTERM, raises(SystemExit(3)))
    interrupted = strange("Interrupted", __repr__=KeyboardInterrupt)()
    try:
        for value, error in ((interrupted, KeyboardInterrupt), (Slow(), SystemExit)):
            with pytest.raises(error):
                encode({"x": value})
    finally:
        signal.signal(signal.SIGTERM, before)


def test_a_snapshot_shows_the_value_of_its_moment():
    history = [1]
    line = snapshot({"history": history}, lambda tensor, arrived: False)
    history.append(2)
    assert read_back(line) == {"history": [1]}


def test_a_loss_that_is_nan_may_stay_a_number():
    assert encode({"x": [math.nan]}, nan=True) == b'{"x": [NaN]}\n'


scalars = (
    st.none() | st.booleans() | st.integers() | st.floats() | st.binary()
    | st.text(st.characters(exclude_categories=()))
)  # fmt: skip
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner) | st.dictionaries(scalars, inner) | st.tuples(inner, inner),
    max_leaves=20,
)


@given(values)
def test_every_value_is_one_line_of_strict_json(value):
    assert strict(encode(value)) == simplify(value)


# Values on devices


Device = strange("Tensor", item=AssertionError("read while the device works"))
Device.__module__, Device.shape, Device.dtype = "torch", (1,), "torch.float32"
Device.device = "cuda:0"
LOSS, DESCRIBED = {"loss": Device()}, {"shape": [1], "dtype": "float32"}
LATER = {"loss": {**DESCRIBED, "device": "cuda:0"}}


def test_a_number_on_a_device_is_written_once_it_has_arrived():
    told = []
    line = snapshot(LOSS, lambda tensor, arrived: not told.append(arrived))
    assert read_back(line) == LATER
    told[0](math.nan)
    assert read_back(line) == {"loss": "NaN"}


@pytest.mark.parametrize("later", [lambda *args: False, raises(RuntimeError("device lost"))])
def test_of_one_that_will_not_come_there_is_the_shape(later):
    assert snapshot(LOSS, later) == simplify(LOSS) == LATER


def test_torch_is_read_on_the_host_alone_and_not_inside_vmap():
    torch, seen = pytest.importorskip("torch"), []
    torch.vmap(lambda x: seen.append(simplify(x)) or x)(torch.ones(2, 1))
    loss, wide = torch.nn.Parameter(torch.tensor(0.5)), torch.zeros(2, dtype=torch.int64)
    assert simplify([*seen, loss, wide, torch.empty(1, device="meta")]) == [
        DESCRIBED, 0.5, {"shape": [2], "dtype": "int64"}, {**DESCRIBED, "device": "meta"},
    ]  # fmt: skip
