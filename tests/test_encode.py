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

from overseer.encode import DEEPEST, LONGEST, MOST, encode, simplify, snapshot


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


class Colour(enum.Enum):
    RED = "red"
    PAIR = (1, 2)


class Level(enum.IntEnum):
    HIGH = 3


@dataclasses.dataclass
class Point:
    x: float
    y: object = None


class Silent:
    __repr__ = raises(ValueError("not today"))


class Classless:
    __class__ = property(raises(RuntimeError("outside of any context")))


class Kindless(type):
    """A class like an expression: it compares, and so has no hash."""

    __eq__ = __getattr__ = raises(RuntimeError("a comparison has no truth"))


class Odd(metaclass=Kindless):
    pass


class Leaving:
    __repr__ = raises(SystemExit(3))


class Closed:
    __getattribute__ = raises(RuntimeError)


class Lost(collections.UserDict):
    __iter__ = raises(OSError("gone"))


class Text(str):
    __str__ = raises(ValueError)


class Anything:
    def __getattr__(self, name):
        return lambda *args: 1

    def __repr__(self):
        return "anything"


class Masked(np.ndarray):
    """A subclass is not read: of some libraries that talks to other processes."""


Pair = collections.namedtuple("Pair", "left right")
DEAD = weakref.proxy(Silent())
SAME = object()


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
        ({"x": Silent(), "y": DEAD}, {"x": "<Silent that raises ValueError>",
            "y": f"<{type(DEAD).__name__} that raises ReferenceError>"}),
        ({"x": Classless(), "y": Odd()},
            {"x": "<Classless that raises RuntimeError>", "y": "<Odd that raises RuntimeError>"}),
        ({"x": Leaving(), "y": Anything()},
            {"x": "<Leaving that raises SystemExit>", "y": "anything"}),
        ({"x": Closed(), "y": Lost(a=1)},
            {"x": "<Closed that raises RuntimeError>", "y": "<Lost that raises OSError>"}),
        ({"x": Text("t"), "y": Level(3)}, {"x": "t", "y": 3}),
        ([1, 2], SAME), ("text", SAME), (None, SAME),
    ],
)  # fmt: skip
def test_a_value_reads_back_as_what_it_was_or_as_a_description(value, expected):
    assert read_back(value) == (value if expected is SAME else expected)


def test_what_is_too_large_is_cut_and_says_so():
    assert read_back({"x": [*range(5000)]})["x"] == [*range(MOST - 2), "... [cut: 5000 items]"]
    assert read_back({"x": {str(n): n for n in range(5000)}})["x"]["..."] == "[cut: 5000 keys]"
    text = read_back({"x": "a" * 1_000_000})["x"]
    assert text == "a" * LONGEST + "... [cut: 1000000 characters]"
    assert read_back({"x": b"a" * 1_000_000})["x"] == {"bytes": 1_000_000, "starts": "61" * 32}


def test_what_is_in_itself_or_nested_without_end_is_cut():
    loop: list[object] = []
    loop.append(loop)
    assert encode(loop).decode() == "[" * DEEPEST + '"<list of 1>"' + "]" * DEEPEST + "\n"


def test_neither_ctrl_c_nor_what_a_handler_of_the_scripts_raises_is_swallowed():
    class Interrupted:
        __repr__ = raises(KeyboardInterrupt)

    class Slow:
        def __repr__(self):
            signal.raise_signal(signal.SIGTERM)

    with pytest.raises(KeyboardInterrupt):
        encode({"x": Interrupted()})
    before = signal.signal(signal.SIGTERM, raises(SystemExit(3)))
    try:
        with pytest.raises(SystemExit):
            encode({"x": Slow()})
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


class Device:
    """A tensor of torch's on a device, whose number arrives when it is told to."""

    shape, dtype, device = (1,), "torch.float32", "cuda:0"

    def item(self):
        raise AssertionError("read while the device works")


Device.__module__, Device.__name__ = "torch", "Tensor"
DESCRIBED = {"shape": [1], "dtype": "float32", "device": "cuda:0"}


def test_a_number_on_a_device_is_written_once_it_has_arrived():
    told = []
    line = snapshot({"loss": Device()}, lambda tensor, arrived: not told.append(arrived))
    assert read_back(line) == {"loss": DESCRIBED}
    told[0](math.nan)
    assert read_back(line) == {"loss": "NaN"}


@pytest.mark.parametrize("later", [lambda *args: False, raises(RuntimeError("device lost"))])
def test_of_one_that_will_not_come_there_is_the_shape(later):
    assert snapshot({"loss": Device()}, later) == {"loss": DESCRIBED}
    assert simplify({"loss": Device()}) == {"loss": DESCRIBED}


def test_torch_is_read_on_the_host_alone_and_not_inside_vmap():
    torch = pytest.importorskip("torch")
    seen, described = [], {"shape": [1], "dtype": "float32"}
    torch.vmap(lambda x: seen.append(simplify(x)) or x)(torch.ones(2, 1))
    loss, wide = torch.nn.Parameter(torch.tensor(0.5)), torch.zeros(2, dtype=torch.int64)
    assert simplify([*seen, loss, wide, torch.empty(1, device="meta")]) == [
        described, 0.5, {"shape": [2], "dtype": "int64"}, {**described, "device": "meta"},
    ]  # fmt: skip
