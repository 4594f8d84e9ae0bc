"""Options declared as dataclasses: fields are options, comments their help."""

from __future__ import annotations

import argparse
import enum
from dataclasses import dataclass, field, make_dataclass
from pathlib import Path
from typing import Any, Literal, Optional

import pytest

from overseer.boundary import acting
from overseer.engine.models import field_comments
from overseer.engine.options import OptionParser
from overseer.errors import UsageError, VoirError


class Mode(enum.Enum):
    FAST = "fast"
    SAFE = "safe"


@dataclass
class Inner:
    depth: int = 1
    deep_look: bool = True


@dataclass
class Options:
    # How many steps
    # to take, in 50 % of cases.
    steps: int
    rate: float = 0.1  # of learning, in 100 % of cases
    name: str = "25 %"
    """What to call it."""
    where: Path = Path("/tmp")
    deep: bool = False
    shallow: bool = True
    maybe: Optional[int] = None  # noqa: UP045
    mode: Mode = Mode.FAST
    kind: Literal["a", "b", 3] = "a"
    plain: list = field(default_factory=list)  # type: ignore[type-arg]
    tags: list[str] | None = None
    sizes: list[int] = field(default_factory=lambda: [1, 2])
    many: tuple[Mode, ...] = (Mode.FAST,)
    pair: tuple[int, int] = (1, 2)
    n: int = 5
    m: int = 5
    inner: Inner = field(default_factory=lambda: Inner(depth=5))
    computed: int = field(default=3, init=False)
    __help__ = "What the options take"


def options_of(
    argv: str = "", environ: Any = None, config: Any = None, model: Any = Options, **keywords: Any
) -> Any:
    parser = OptionParser(environ=environ or {})
    parser.add_from_model("opts", model, **keywords)
    parser.add_config("voir.toml", config or {})
    own, rest = parser.split(argv.split())
    assert rest == []
    return parser.resolve(own).opts


@pytest.mark.parametrize(
    ("argv", "environ", "config", "values"),
    [
        ("--rate 2 --name x --where /a", {}, {}, {"rate": 2.0, "name": "x", "where": Path("/a")}),
        ("--deep --no-shallow --maybe 3", {}, {}, {"deep": True, "shallow": False, "maybe": 3}),
        ("--no-deep --shallow --mode safe --kind b", {}, {}, {"mode": Mode.SAFE, "kind": "b"}),
        ("--mode SAFE --kind 3", {}, {}, {"mode": Mode.SAFE, "kind": 3}),
        ("--plain x --tags a --tags b", {}, {}, {"plain": ["x"], "tags": ["a", "b"]}),
        ("--many safe --many FAST", {}, {}, {"many": (Mode.SAFE, Mode.FAST)}),
        ("--pair 3 4 -n 6 --m 7", {}, {}, {"pair": (3, 4), "n": 6, "m": 7}),
        ("--n 6", {}, {}, {"n": 6}),
        ("--inner.depth=7 --inner.no-deep-look", {}, {}, {"inner": Inner(7, False)}),
        ("--no-inner.deep-look", {}, {}, {"inner": Inner(5, False)}),
        ("--name=y", {"DEEP": "1", "TAGS": "a b", "MODE": "safe", "NAME": "x"},
         {"shallow": False, "sizes": [7], "pair": [3, 4], "tags": ["c"]},
         {"deep": True, "tags": ["a", "b"], "mode": Mode.SAFE, "shallow": False, "sizes": [7],
          "name": "y", "pair": (3, 4)}),
        ("--sizes=3", {"SIZES": "8 9"}, {}, {"sizes": [3]}),
        ("", {"INNER_DEPTH": "3", "INNER_DEEP_LOOK": "0"}, {}, {"inner": Inner(3, False)}),
        ("", {}, {"opts": {"n": 3, "inner": {"depth": 3, "deep_look": False}}},
         {"n": 3, "inner": Inner(3, False)}),
        ("", {}, {"inner.depth": 3, "inner.deep-look": False}, {"inner": Inner(3, False)}),
    ],
)  # fmt: skip
def test_each_source_sets_each_field_by_its_type(
    argv: str, environ: dict[str, str], config: dict[str, Any], values: dict[str, Any]
) -> None:
    variables = {f"VOIR_{name}": text for name, text in {"STEPS": "1", **environ}.items()}
    assert repr(options_of(argv, variables, config)) == repr(Options(steps=1, **values))


@dataclass
class Picky:
    low: int = 0

    def __post_init__(self) -> None:
        if self.low < 0:
            raise ValueError("low must not be negative")


@pytest.mark.parametrize(
    ("model", "argv", "config", "said"),
    [
        (Options, "", {}, "the following arguments are required: --steps"),
        (Options, "--steps=x", {}, "--steps: invalid int value: 'x'"),
        (Options, "--mode=slow", {}, "--mode: 'slow' is not one of fast, safe"),
        (Options, "--kind=c", {}, "--kind: 'c' is not one of a, b, 3"),
        (Options, "--sizes=x", {}, "--sizes: invalid int value: 'x'"),
        (Options, "", {"opts": {"no": 1}}, "voir.toml, opts sets 'no', which is not an option"),
        (Picky, "--low=-1", {}, "Picky rejects its values: ValueError: low must not be negative"),
    ],
)
def test_a_wrong_value_is_a_usage_error(
    model: type, argv: str, config: dict[str, Any], said: str
) -> None:
    with pytest.raises(UsageError) as caught:
        options_of(argv, config=config, model=model)
    assert caught.value.what == said


UNHELD = (dict[str, int], tuple[int, str], set[int], int | str, Any)


@pytest.mark.parametrize(
    ("hint", "said"),
    [
        *[(one, f"Odd.x is a {one}, which a command line cannot hold") for one in UNHELD],
        (list[bool], "an item of Odd.x is a <class 'bool'>, which a command line cannot hold"),
        ("Nowhere", "the types of Odd's fields cannot be resolved: name 'Nowhere' is not defined"),
    ],
)
def test_a_type_that_a_command_line_cannot_hold_is_refused(hint: Any, said: str) -> None:
    with pytest.raises(VoirError) as caught:
        options_of(model=make_dataclass("Odd", [("x", hint)]))
    assert (caught.value.slug, caught.value.what) == ("option-type", said)


def test_what_is_no_dataclass_is_refused() -> None:
    with pytest.raises(VoirError, match="str is not a dataclass"):
        options_of(model=str)


def test_an_instance_gives_the_defaults_and_lists_are_not_shared() -> None:
    given = Options(steps=9, deep=True, tags=["a"])
    one, other = (options_of(model=given) for _ in range(2))
    assert one == other == given
    one.sizes.append(3)
    assert other.sizes == [1, 2]
    parser = OptionParser(environ={})
    parser.add_from_model("opts", given)
    assert parser.resolve([]) == argparse.Namespace(opts=given)


def test_options_of_a_group_have_its_name_in_front() -> None:
    argv = "--opts.depth=3 --opts.no-deep-look"
    assert options_of(argv, model=Inner, flatten=False) == Inner(3, False)
    config = {"opts": {"depth": 3, "deep_look": False}}
    assert options_of(config=config, model=Inner, flatten=False) == Inner(3, False)


def test_a_short_name_goes_to_who_comes_first_and_m_is_pythons() -> None:
    parser = OptionParser(environ={})
    parser.add_argument("-n")
    parser.add_from_model("opts", Options)
    assert parser.split(["--n=1", "-m", "pkg"]) == (["--n=1"], ["-m", "pkg"])


def test_two_instruments_with_one_field_are_both_named_and_the_first_keeps_it() -> None:
    parser = OptionParser(environ={})
    with acting("instrument_a"):
        parser.add_from_model("a", Inner)
    with acting("instrument_b"), pytest.raises(VoirError) as caught:
        parser.add_from_model("b", Inner)
    assert caught.value.what == "both instrument_a and instrument_b add the option --depth"
    assert parser.resolve([]).a == Inner()


def test_comments_and_defaults_are_the_help() -> None:
    parser = OptionParser(environ={})
    parser.add_from_model("opts", Options)
    _, _, shown = parser.format_help().partition("What the options take:\n")
    expected = """
      --steps INT How many steps to take, in 50 % of cases.
      --rate FLOAT of learning, in 100 % of cases (default: 0.1)
      --name STR What to call it. (default: 25 %)
      --where PATH (default: /tmp)
      --deep, --no-deep
      --shallow, --no-shallow (default: on)
      --maybe INT
      --mode {fast,safe} (default: fast)
      --kind {a,b,3} (default: a)
      --plain STR
      --tags STR
      --sizes INT (default: 1, 2)
      --many {fast,safe} (default: fast)
      --pair INT INT (default: 1, 2)
      -n, --n INT (default: 5)
      --m INT (default: 5)
      Inner:
      --inner.depth INT (default: 5)
      --inner.deep-look, --no-inner.deep-look, --inner.no-deep-look (default: on)
    """
    shown = shown.replace("-n INT,", "-n,")  # As before Python 3.13.
    assert shown.split() == expected.split()


class Commented:
    """The class."""

    above: int  # Beside, in C#.  # pragma: no cover
    beside: int
    below: int = 3
    """Below,
    in two lines."""
    # Above,
    #   and more,
    every: int = 1  # beside,
    """below."""
    # A heading.

    bare: int = 0  # pragma: no branch
    margin: str = """
text at the margin
"""  # After.

    def method(self) -> None:
        # Not a field.
        bare: int = 1
        print(bare)


def test_the_comment_of_a_field_is_above_beside_or_below_it() -> None:
    @dataclass(frozen=True)
    class Derived(Commented):
        beside: int = 0  # Said anew.

    assert field_comments(Derived) == {
        "above": "Beside, in C#.",
        "beside": "Said anew.",
        "below": "Below, in two lines.",
        "every": "Above, and more, beside, below.",
        "margin": "After.",
    }


def test_a_class_without_a_source_has_no_comments() -> None:
    names: dict[str, type] = {}
    exec("class Fields:\n    # Above.\n    a: int\n", {"__name__": "nowhere"}, names)
    assert field_comments(names["Fields"]) == field_comments(int) == {}
