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

import pytest
from hypothesis import given
from hypothesis import strategies as st

from overseer.record import encode as encoding
from overseer.record.encode import encode, simplify, snapshot


def refuse(constant):
    raise AssertionError(f"{constant} is not JSON")


def strict(line: bytes):
    """The value of one line, read by the letter of the standard."""
    assert line.endswith(b"\n")
    assert line.count(b"\n") == 1
    assert len(line.decode("ascii").splitlines()) == 1
    value = json.loads(line, parse_constant=refuse)
    json.dumps(value, ensure_ascii=False).encode("utf-8")  # No lone surrogate is left.
    return value


def read_back(value):
    return strict(encode(value))


class Colour(enum.Enum):
    RED = "red"
    PAIR = (1, 2)


class Level(enum.IntEnum):
    HIGH = 3


@dataclasses.dataclass
class Point:
    x: float
    y: object = None


Pair = collections.namedtuple("Pair", "left right")


class Silent:
    def __repr__(self):
        raise ValueError("not today")


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"loss": 0.5, "step": 3, "name": "träning", "ok": True, "none": None}, None),
        ({"loss": float("nan")}, {"loss": "NaN"}),
        ({"loss": float("inf"), "low": -math.inf}, {"loss": "Infinity", "low": "-Infinity"}),
        ({"x": [1, (math.nan,), {"a": math.inf}]}, {"x": [1, ["NaN"], {"a": "Infinity"}]}),
        ({"x": {3, 1, 2}}, {"x": [1, 2, 3]}),
        ({"x": frozenset()}, {"x": []}),
        ({"x": [], "y": {}, "z": "", "b": b""}, {"x": [], "y": {}, "z": "", "b": ""}),
        ({"x": b"abc"}, {"x": "abc"}),
        ({"x": bytearray(b"\xff\xfe")}, {"x": {"bytes": 2, "starts": "fffe"}}),
        ({"x": memoryview(b"abc")}, {"x": "abc"}),
        ({"x": Path("/a/b")}, {"x": "/a/b"}),
        ({"x": Colour.RED, "y": Colour.PAIR, "z": Level.HIGH}, {"x": "red", "y": "PAIR", "z": 3}),
        ({"x": Point(1.0, Point(2.0))}, {"x": {"x": 1.0, "y": {"x": 2.0, "y": None}}}),
        ({"x": Pair(1, "b")}, {"x": {"left": 1, "right": "b"}}),
        ({"x": collections.deque([1, 2])}, {"x": [1, 2]}),
        ({"x": range(3)}, {"x": [0, 1, 2]}),
        ({"x": {"a": 1}.keys()}, {"x": ["a"]}),
        ({"x": 1 + 2j}, {"x": "(1+2j)"}),
        ({"x": decimal.Decimal("1.10")}, {"x": "1.10"}),
        ({"x": uuid.UUID(int=1)}, {"x": "00000000-0000-0000-0000-000000000001"}),
        ({"x": datetime.date(2026, 1, 5)}, {"x": "2026-01-05"}),
        ({"x": ValueError("bad")}, {"x": "ValueError: bad"}),
        ({"x": Path}, {"x": f"{Path.__module__}.Path"}),
        ({"x": len}, {"x": "builtins.len"}),
        ({"x": Silent()}, {"x": "<Silent that raises ValueError>"}),
        ([1, 2], [1, 2]),
        ("text", "text"),
        (None, None),
    ],
    ids=lambda value: type(value).__name__,
)  # fmt: skip
def test_a_value_reads_back_as_what_it_was_or_as_a_description(value, expected):
    assert read_back(value) == (value if expected is None else expected)


def test_a_tensor_on_a_device_is_not_read_unless_waiting_is_allowed():
    class Remote:
        shape, dtype, device = (1,), "float32", "cuda:0"

        def item(self):
            self.read = True
            return 4.0

    remote = Remote()
    assert read_back({"x": remote}) == {
        "x": {"shape": [1], "dtype": "float32", "device": "cuda:0"},
    }
    assert not hasattr(remote, "read")
    assert strict(encode({"x": remote}, wait=True)) == {"x": 4.0}


def test_a_device_that_fails_leaves_the_shape():
    class Lost:
        shape, dtype, device = (), "float32", "cpu"

        def item(self):
            raise RuntimeError("CUDA error: device lost")

    assert read_back({"x": Lost()}) == {"x": {"shape": [], "dtype": "float32"}}


def test_a_cycle_is_named_where_it_closes():
    loop: dict[str, object] = {"name": "a"}
    loop["self"] = [loop]
    assert read_back(loop) == {"name": "a", "self": ["<the dict it is in>"]}


def test_the_same_object_twice_is_no_cycle():
    shared = [1]
    assert read_back({"a": shared, "b": shared}) == {"a": [1], "b": [1]}


def test_nesting_without_end_is_cut():
    nested: list[object] = []
    for _ in range(10_000):
        nested = [nested]
    text = encode({"x": nested}).decode()
    assert f"nested deeper than {encoding.DEEPEST}" in text
    strict(text.encode())


def test_a_huge_string_is_cut_and_says_so():
    text = read_back({"x": "a" * 1_000_000})["x"]
    assert text.startswith("a" * encoding.LONGEST)
    assert text.endswith("[cut: 1000000 characters]")
    assert len(text) < encoding.LONGEST + 50


def test_huge_bytes_are_described():
    described = read_back({"x": b"a" * 1_000_000})["x"]
    assert described == {"bytes": 1_000_000, "starts": "61" * 32}


def test_a_huge_list_is_cut_and_says_so():
    items = read_back({"x": list(range(1_000_000))})["x"]
    assert items[-1] == "... [cut: 1000000 items]"
    assert len(items) <= encoding.MOST


def test_a_huge_dict_is_cut_and_says_so():
    pairs = read_back({"x": {str(n): n for n in range(100_000)}})["x"]
    assert pairs["..."] == "[cut: 100000 keys]"


def test_an_integer_that_python_could_not_read_back_is_described():
    assert read_back({"x": 10**5000}) == {"x": "<integer of 16610 bits>"}
    assert read_back({"x": 2**63}) == {"x": 2**63}


@pytest.mark.parametrize("text", ["\udc80name", "a\ud800", "\udfff"])
def test_a_lone_surrogate_becomes_visible_text(text):
    assert read_back({"x": text})["x"] == text.encode("utf-8", "backslashreplace").decode()
    assert list(read_back({text: 1})) == [text.encode("utf-8", "backslashreplace").decode()]


def test_a_surrogate_pair_stays_the_character_it_is():
    assert read_back({"x": "🚀\u2028\x85\x00\n"}) == {"x": "🚀\u2028\x85\x00\n"}


def test_keys_that_are_no_strings_are_told_apart():
    event = {1: "a", "1": "b", None: "c", (1, 2): "d", 1.5: "e", math.nan: "f"}
    assert read_back(event) == {
        "1": "a", "1'": "b", "null": "c", "[1, 2]": "d", "1.5": "e", "NaN": "f",
    }  # fmt: skip


def test_a_mapping_that_fails_is_described():
    class Broken(collections.UserDict):
        def __iter__(self):
            raise OSError("gone")

    assert read_back({"x": Broken(a=1)}) == {"x": "<Broken that raises OSError>"}


class Classless:
    @property
    def __class__(self):
        raise RuntimeError("outside of any context")


class Closed:
    def __getattribute__(self, name):
        raise RuntimeError(name)


class Kindless(type):
    """A class like an expression: it compares, and so has no hash."""

    def __eq__(cls, other):
        raise RuntimeError("a comparison has no truth")

    def __getattr__(cls, name):
        raise RuntimeError(name)


class Leaving:
    def __repr__(self):
        raise SystemExit(3)


class Odd(metaclass=Kindless):
    pass


def dead():
    return weakref.proxy(Silent())


UNREADABLE = [
    (dead(), f"<{type(dead()).__name__} that raises ReferenceError>"),
    (Classless(), "<Classless that raises RuntimeError>"),
    (Closed(), "<Closed that raises RuntimeError>"),
    (Leaving(), "<Leaving that raises SystemExit>"),
    (Odd(), "<Odd that raises RuntimeError>"),
]


@pytest.mark.parametrize(("value", "expected"), UNREADABLE, ids=range(len(UNREADABLE)))
def test_what_cannot_be_looked_at_is_described_alone(value, expected):
    assert read_back({"loss": value, "step": 3}) == {"loss": expected, "step": 3}
    assert read_back([value]) == [expected]
    assert snapshot(value) == expected


def test_a_signal_that_ends_the_script_is_not_swallowed(terminated):
    with pytest.raises(SystemExit):
        encode({"x": terminated})
    with pytest.raises(SystemExit):
        snapshot(terminated)


@pytest.fixture
def terminated():
    """A value during whose description a signal arrives, whose handler raises."""

    class Slow:
        def __repr__(self):
            signal.raise_signal(signal.SIGTERM)
            return "slow"

    def leave(signum, frame):
        raise SystemExit(3)

    before = signal.signal(signal.SIGTERM, leave)
    yield Slow()
    signal.signal(signal.SIGTERM, before)


def test_an_object_that_answers_everything_is_no_tensor():
    class Anything:
        def __getattr__(self, name):
            return lambda *args: 1

        def __repr__(self):
            return "anything"

    assert read_back({"x": Anything()}) == {"x": "anything"}


def test_subclasses_of_plain_types_are_plain():
    class Text(str):
        def __str__(self):
            raise ValueError

    class Number(float):
        pass

    assert read_back({"a": Text("t"), "b": Number("nan")}) == {"a": "t", "b": "NaN"}


def test_a_keyboard_interrupt_is_not_swallowed():
    class Interrupted:
        def __repr__(self):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        encode({"x": Interrupted()})


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
    strict(encode(value))


@given(
    st.dictionaries(st.text(), st.none() | st.booleans() | st.floats() | st.integers() | st.text())
)
def test_the_fast_way_and_the_thorough_way_agree(event):
    fast = read_back(event)
    assert fast == simplify(event)


def test_a_snapshot_shows_the_value_of_its_moment():
    history = [1]
    event = {"history": snapshot(history), "step": snapshot(3), "name": snapshot("a")}
    history.append(2)
    assert read_back(event) == {"history": [1], "step": 3, "name": "a"}
