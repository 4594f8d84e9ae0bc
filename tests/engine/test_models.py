"""Options declared as dataclasses."""

from __future__ import annotations

import argparse
import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Optional, Union

import pytest

from overseer.boundary import acting
from overseer.engine.options import OptionParser
from overseer.errors import UsageError, VoirError


class Mode(enum.Enum):
    FAST = "fast"
    SAFE = "safe"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


@dataclass
class Options:
    # How many steps
    # to take.
    steps: int
    rate: float = 0.1  # of learning, in 100 % of cases
    name: str = "run"
    """What to call it."""
    where: Path = Path("/tmp")
    deep: bool = False
    shallow: bool = True
    maybe: Optional[int] = None  # noqa: UP045
    also: int | None = None
    mode: Mode = Mode.FAST
    level: Level = Level.LOW
    kind: Literal["a", "b", 3] = "a"
    tags: list[str] = field(default_factory=list)
    sizes: list[int] = field(default_factory=lambda: [1, 2])
    either: int | str = 0
    anything: Any = None
    n: int = 5


def options_of(
    model: Any,
    *argv: str,
    environ: Mapping[str, str] | None = None,
    config: dict[str, Any] | None = None,
    flatten: bool = True,
) -> Any:
    parser = OptionParser(environ=environ or {})
    parser.add_from_model("opts", model, flatten)
    if config is not None:
        parser.add_config("voir.toml", config)
    own, rest = parser.split(argv)
    assert rest == []
    return parser.resolve(own).opts


def help_of(model: Any, flatten: bool = True) -> str:
    parser = OptionParser(environ={})
    parser.add_from_model("opts", model, flatten)
    return " ".join(parser.format_help().split())


class TestValues:
    def test_defaults_stand(self) -> None:
        assert options_of(Options, "--steps=1") == Options(steps=1)

    @pytest.mark.parametrize(
        ("argv", "name", "value"),
        [
            ("--rate 2", "rate", 2.0),
            ("--name x", "name", "x"),
            ("--where /a", "where", Path("/a")),
            ("--deep", "deep", True),
            ("--no-deep", "deep", False),
            ("--no-shallow", "shallow", False),
            ("--maybe 3", "maybe", 3),
            ("--also 3", "also", 3),
            ("--mode safe", "mode", Mode.SAFE),
            ("--mode SAFE", "mode", Mode.SAFE),
            ("--level 2", "level", Level.HIGH),
            ("--level HIGH", "level", Level.HIGH),
            ("--kind b", "kind", "b"),
            ("--kind 3", "kind", 3),
            ("--tags a --tags b", "tags", ["a", "b"]),
            ("--sizes 3", "sizes", [3]),
            ("--either 3", "either", 3),
            ("--either x", "either", "x"),
            ("--anything x", "anything", "x"),
            ("-n 6", "n", 6),
            ("-n6", "n", 6),
            ("--n 6", "n", 6),
        ],
    )
    def test_the_command_line_sets_each_by_its_type(
        self, argv: str, name: str, value: object
    ) -> None:
        options = options_of(Options, "--steps=1", *argv.split())
        assert getattr(options, name) == value
        assert type(getattr(options, name)) is type(value)

    @pytest.mark.parametrize(
        ("text", "said"),
        [
            ("--steps=x", "--steps: invalid int value: 'x'"),
            ("--mode=slow", "--mode: 'slow' is none of fast, safe"),
            ("--level=3", "--level: '3' is none of 1, 2"),
            ("--kind=c", "--kind: 'c' is none of a, b, 3"),
            ("--sizes=x", "--sizes: invalid int value: 'x'"),
        ],
    )
    def test_a_wrong_value_is_a_usage_error(self, text: str, said: str) -> None:
        with pytest.raises(UsageError) as caught:
            options_of(Options, "--steps=1", text)
        assert caught.value.what == said

    def test_a_field_without_a_default_is_required(self) -> None:
        with pytest.raises(UsageError, match="required: --steps"):
            options_of(Options)

    def test_the_environment_and_configuration_set_them_too(self) -> None:
        environ = {"VOIR_STEPS": "2", "VOIR_DEEP": "1", "VOIR_TAGS": "a b", "VOIR_MODE": "safe"}
        config = {"steps": 1, "shallow": False, "sizes": [7], "name": "x"}
        options = options_of(Options, "--name=y", environ=environ, config=config)
        assert options == Options(
            steps=2, deep=True, tags=["a", "b"], mode=Mode.SAFE, shallow=False, sizes=[7], name="y"
        )

    def test_configuration_may_nest_them_under_their_group(self) -> None:
        config = {"opts": {"steps": 3, "no": 1}}
        with pytest.raises(UsageError, match=r"voir.toml, opts sets 'no', which is no option"):
            options_of(Options, config=config)
        del config["opts"]["no"]
        assert options_of(Options, config=config).steps == 3

    def test_a_list_is_replaced_by_each_source(self) -> None:
        environ = {"VOIR_SIZES": "8 9"}
        assert options_of(Options, "--steps=1", environ=environ).sizes == [8, 9]
        options = options_of(Options, "--steps=1", "--sizes=3", environ=environ)
        assert options.sizes == [3]

    def test_two_instances_do_not_share_a_list(self) -> None:
        one, other = (options_of(Options, "--steps=1") for _ in range(2))
        one.sizes.append(3)
        assert other.sizes == [1, 2]

    def test_an_instance_gives_the_defaults(self) -> None:
        options = options_of(Options(steps=9, deep=True, tags=["a"]))
        assert options == Options(steps=9, deep=True, tags=["a"])

    def test_only_the_instance_is_among_the_options(self) -> None:
        parser = OptionParser(environ={})
        parser.add_from_model("opts", Options)
        options = parser.resolve(["--steps=1"])
        assert isinstance(options, argparse.Namespace)
        assert list(vars(options)) == ["opts"]

    def test_a_dataclass_that_refuses_its_values_is_named(self) -> None:
        @dataclass
        class Picky:
            low: int = 0

            def __post_init__(self) -> None:
                if self.low < 0:
                    raise ValueError("low must not be negative")

        with pytest.raises(UsageError) as caught:
            options_of(Picky, "--low=-1")
        assert caught.value.what == (
            "Picky refuses its values: ValueError: low must not be negative"
        )


class TestContainers:
    def test_each_is_what_it_is_declared_as(self) -> None:
        @dataclass
        class Containers:
            a: list = field(default_factory=list)  # type: ignore[type-arg]
            bb: set[int] = field(default_factory=set)
            cc: tuple[int, ...] = (1,)
            dd: tuple[int, int] = (1, 2)
            ee: Sequence[Mode] = ()
            ff: list[bool] | None = None
            gg: frozenset[str] = frozenset("x")

        argv = "--a x --bb 3 --bb 3 --cc 4 --dd 5 6 --ee safe --ff no --ff yes --gg y"
        assert options_of(Containers, *argv.split()) == Containers(
            ["x"], {3}, (4,), (5, 6), [Mode.SAFE], [False, True], frozenset("y")
        )
        assert options_of(Containers) == Containers(ee=[])
        config = {"bb": [1], "dd": [3, 4], "ee": ["fast"]}
        options = options_of(Containers, config=config)
        assert (options.bb, options.dd, options.ee) == ({1}, (3, 4), [Mode.FAST])

    @pytest.mark.parametrize("hint", [dict[str, int], tuple[int, str], dict, type[int]])
    def test_what_a_command_line_cannot_hold_is_refused(self, hint: Any) -> None:
        @dataclass
        class Odd:
            x: int = 0

        Odd.__annotations__["x"] = hint
        with pytest.raises(VoirError) as caught:
            options_of(Odd)
        assert caught.value.slug == "option-type"
        assert "Odd.x is a" in caught.value.what


class TestGroups:
    @dataclass
    class Gpu:
        poll: float = 1.0
        deep_look: bool = True

    def test_a_group_that_is_not_flat_has_its_name_in_front(self) -> None:
        options = options_of(self.Gpu, "--opts.poll=3", "--opts.no-deep-look", flatten=False)
        assert options == self.Gpu(3.0, False)
        assert options_of(self.Gpu, "--no-opts.deep-look", flatten=False).deep_look is False

    @pytest.mark.parametrize(
        "config",
        [{"opts": {"poll": 3, "deep_look": False}}, {"opts.poll": 3, "opts.deep-look": False}],
    )
    def test_configuration_sets_it(self, config: dict[str, Any]) -> None:
        assert options_of(self.Gpu, config=config, flatten=False) == self.Gpu(3.0, False)

    def test_the_environment_sets_it(self) -> None:
        environ = {"VOIR_OPTS_POLL": "3", "VOIR_OPTS_DEEP_LOOK": "0"}
        assert options_of(self.Gpu, environ=environ, flatten=False) == self.Gpu(3.0, False)

    def test_a_dataclass_within_a_dataclass_is_a_group_within_the_group(self) -> None:
        @dataclass
        class Inner:
            depth: int = 1
            on: bool = False

        @dataclass
        class Outer:
            inner: Inner = field(default_factory=lambda: Inner(depth=5))
            width: int = 2

        hints = {"inner": Inner, "width": int}
        Outer.__annotations__.update(hints)
        assert options_of(Outer) == Outer(Inner(5), 2)
        assert options_of(Outer, "--inner.depth=7", "--inner.no-on") == Outer(Inner(7), 2)
        config = {"opts": {"inner": {"depth": 3, "on": True}, "width": 4}}
        assert options_of(Outer, config=config) == Outer(Inner(3, True), 4)

    def test_the_group_goes_by_its_own_words(self) -> None:
        @dataclass
        class Named:
            x: int = 0
            __help__ = "What the named one takes"

        assert "What the named one takes" in help_of(Named)
        assert "Gpu:" in help_of(self.Gpu)

    def test_two_instruments_with_one_field_are_both_named(self) -> None:
        parser = OptionParser(environ={})
        with acting("instrument_a"):
            parser.add_from_model("a", self.Gpu)
        with acting("instrument_b"), pytest.raises(VoirError) as caught:
            parser.add_from_model("b", self.Gpu)
        assert caught.value.what == "both instrument_a and instrument_b add the option --poll"

    def test_a_model_that_could_not_be_added_does_not_spoil_the_others(self) -> None:
        parser = OptionParser(environ={})
        parser.add_from_model("a", self.Gpu)
        with pytest.raises(VoirError):
            parser.add_from_model("b", self.Gpu)
        assert parser.resolve([]).a == self.Gpu()

    def test_short_names_go_to_who_comes_first(self) -> None:
        @dataclass
        class Short:
            n: int = 0
            m: int = 0

        parser = OptionParser(environ={})
        parser.add_argument("-n")
        parser.add_from_model("opts", Short)
        assert parser.split(["--n=1", "-m", "pkg"]) == (["--n=1"], ["-m", "pkg"])
        assert "-m" not in parser._option_string_actions

    def test_what_is_no_dataclass_is_refused(self) -> None:
        with pytest.raises(VoirError, match="str is not a dataclass"):
            options_of(str)

    def test_a_type_that_cannot_be_found_is_named(self) -> None:
        @dataclass
        class Lost:
            x: Nowhere  # type: ignore[name-defined]  # noqa: F821

        with pytest.raises(VoirError) as caught:
            options_of(Lost)
        assert caught.value.slug == "option-type"
        assert "Nowhere" in caught.value.what

    def test_what_is_computed_is_no_option(self) -> None:
        @dataclass
        class Computed:
            x: int = 0
            y: int = field(default=3, init=False)

        assert options_of(Computed, "--x=1").y == 3
        assert "--y" not in help_of(Computed)


class TestHelp:
    def test_comments_and_strings_are_the_help(self) -> None:
        text = help_of(Options)
        assert "--steps INT How many steps to take." in text
        assert "of learning, in 100 % of cases (default: 0.1)" in text
        assert "What to call it. (default: run)" in text
        assert "(default: fast)" in text
        assert "(default: 1, 2)" in text
        assert "--mode {fast,safe}" in text

    def test_a_switch_says_its_default_once(self) -> None:
        text = help_of(Options)
        assert "--shallow, --no-shallow (default: on)" in text
        assert "--deep, --no-deep --shallow" in text

    def test_a_percent_sign_is_shown_with_and_without_a_default(self) -> None:
        @dataclass
        class Percent:
            # 100 % of it
            a: int
            # 50 % of it
            b: int | None = None
            c: str = "25 %"

        text = help_of(Percent)
        assert "100 % of it" in text
        assert "50 % of it" in text
        assert "(default: 25 %)" in text

    def test_old_ways_to_say_optional_work(self) -> None:
        @dataclass
        class Old:
            a: Union[int, None] = None  # noqa: UP007
            b: Union[int, str] = 0  # noqa: UP007

        assert options_of(Old, "--a=1", "--b=x") == Old(1, "x")
