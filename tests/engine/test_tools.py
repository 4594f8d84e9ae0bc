"""Ways to make an instrument configurable."""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass
from functools import wraps
from typing import TYPE_CHECKING, Any

import pytest

from overseer.engine.options import OptionParser, configurable, gated, parametrized
from overseer.engine.phases import instrument_definition
from overseer.errors import VoirError
from tests.engine.test_phases import Run

if TYPE_CHECKING:
    from nowhere import Overseer  # type: ignore[import-not-found]

Steps = Generator[Any, Any, None]


class Configured(Run):
    """A run with options."""

    def __init__(self) -> None:
        super().__init__()
        self.argparser = OptionParser(environ={})
        self.options: Any = None

    def parse(self, *argv: str) -> Configured:
        """Go through init and parse_args."""
        self.through("init")
        self.options = self.argparser.resolve(list(argv))
        self.through("parse_args")
        return self


def run_with(instrument: Any, *argv: str) -> Configured:
    run = Configured()
    run.require(instrument)
    return run.parse(*argv)


def instrument_x(ov: Configured) -> Steps:
    """Say what the option is."""
    yield ov.phases.parse_args
    ov.said.append(getattr(ov.options, "x", "no option"))


@dataclass(frozen=True)
class Frozen:
    """An instrument that is an object."""

    word: str = "object"

    def __call__(self, ov: Configured) -> None:
        ov.said.append(self.word)


GATED: dict[str, Callable[[], Any]] = {
    "decorator": lambda: gated("--x")(instrument_x),
    "decorator with help": lambda: gated("--x", "the help")(instrument_x),
    "decorator with help by name": lambda: gated("--x", help="the help")(instrument_x),
    "call": lambda: gated("--x", instrument_x),
    "call with help": lambda: gated("--x", instrument_x, "the help"),
    "call with help by name": lambda: gated("--x", instrument_x, help="the help"),
    "call by names": lambda: gated("--x", instrument=instrument_x, help="the help"),
}


class TestGated:
    @pytest.mark.parametrize("form", GATED)
    def test_it_runs_only_when_the_flag_is_given(self, form: str) -> None:
        assert run_with(GATED[form](), "--x").said == [True]
        assert run_with(GATED[form]()).said == []

    @pytest.mark.parametrize("form", [form for form in GATED if "help" in form])
    def test_the_help_is_shown(self, form: str) -> None:
        assert "the help" in run_with(GATED[form]()).argparser.format_help()

    def test_an_object_can_be_gated(self) -> None:
        assert run_with(gated("--with-frozen", Frozen()), "--with-frozen").said == ["object"]

    def test_it_goes_by_the_instrument_s_name_and_its_flag(self) -> None:
        run = run_with(gated("--x", instrument_x), "--x")
        assert list(run.states) == ["instrument_x (--x)", "instrument_x"]
        place = f"{__file__}:{instrument_x.__code__.co_firstlineno}"
        assert [state["where"] for state in run.states.values()] == [place, place]

    def test_the_instrument_itself_can_still_be_had(self) -> None:
        assert gated("--x", instrument_x).instrument is instrument_x

    def test_two_with_one_flag_are_both_named(self) -> None:
        def instrument_y(ov: Configured) -> None: ...

        run = Configured()
        run.require(gated("--x", instrument_x))
        run.require(gated("--x", instrument_y))
        run.parse("--x")
        assert run.said == [True]
        assert run.problem.slug == "option-twice"
        assert "both instrument_x (--x) and instrument_y (--x)" in run.problem.what


def double(text: str) -> int:
    return 2 * int(text)


PARAMETRIZED: dict[str, Callable[[], Any]] = {
    "decorator": lambda: parametrized("--x", int, "the help", 2)(instrument_x),
    "decorator by names": lambda: parametrized("--x", type=int, help="the help", default=2)(
        instrument_x
    ),
    "call": lambda: parametrized("--x", instrument_x, int, "the help", 2),
    "call by names": lambda: parametrized(
        "--x", instrument_x, type=int, help="the help", default=2
    ),
    "call all by names": lambda: parametrized(
        "--x", instrument=instrument_x, type=int, help="the help", default=2
    ),
}


class TestParametrized:
    @pytest.mark.parametrize("form", PARAMETRIZED)
    def test_the_option_is_there_and_has_its_type_help_and_default(self, form: str) -> None:
        assert run_with(PARAMETRIZED[form]()).said == [2]
        run = run_with(PARAMETRIZED[form](), "--x=3")
        assert run.said == [3]
        assert "the help" in run.argparser.format_help()

    def test_only_the_type(self) -> None:
        assert run_with(parametrized("--x", int)(instrument_x), "--x=3").said == [3]
        assert run_with(parametrized("--x", int)(instrument_x)).said == [None]

    def test_no_type_at_all(self) -> None:
        assert run_with(parametrized("--x")(instrument_x), "--x=3").said == ["3"]
        assert run_with(parametrized("--x", instrument_x), "--x=3").said == ["3"]

    def test_a_function_may_convert(self) -> None:
        assert run_with(parametrized("--x", double, "the help", 1)(instrument_x), "--x=3").said == [
            6
        ]
        assert run_with(parametrized("--x", instrument_x, double), "--x=3").said == [6]
        assert run_with(parametrized("--x", type=double)(instrument_x), "--x=3").said == [6]

    def test_what_else_argparse_knows_is_passed_on(self) -> None:
        made = parametrized("--some-x", choices=["a"], dest="x", default="a")(instrument_x)
        assert run_with(made).said == ["a"]

    def test_an_option_behind_a_flag_comes_too_late_and_is_told_so(self) -> None:
        run = run_with(gated("--x")(parametrized("--y")(instrument_x)), "--x")
        assert run.problem.slug == "option-late"
        assert run.problem.what == "it adds the option --y when options have been parsed"


class TestDefinition:
    def test_each_call_makes_an_instrument_with_its_arguments(self) -> None:
        @instrument_definition
        def say(ov: Configured, word: str, times: int = 1) -> Steps:
            """Say a word."""
            yield ov.phases.init
            ov.said.extend([word] * times)

        run = Configured()
        run.require(say("a"))
        run.require(say(word="b", times=2))
        run.parse()
        assert run.said == ["a", "b", "b"]
        assert say.__doc__ == say("c").__doc__ == "Say a word."
        names = list(run.states)
        assert [name.rpartition(".")[2] for name in names] == ["say", "say#2"]

    def test_without_its_call_it_is_no_instrument_and_says_so_once(self) -> None:
        @instrument_definition
        def say(ov: Configured, word: str = "") -> Steps: ...

        def instrument_all(ov: Configured) -> None:
            ov.require(say)
            ov.require(say)

        problem = run_with(instrument_all).problem
        assert problem.slug == "not-an-instrument"
        assert problem.who.endswith("say")
        assert problem.where == f"{__file__}:{instrument_all.__code__.co_firstlineno + 1}"
        assert (problem.remedy or "").partition(":")[0].endswith("say(...)")

    def test_nor_is_it_behind_a_flag(self) -> None:
        @instrument_definition
        def say(ov: Configured, word: str = "") -> Steps: ...

        assert run_with(gated("--x", say), "--x").problem.slug == "not-an-instrument"

    def test_a_function_that_stands_in_for_one_is_an_instrument(self) -> None:
        @instrument_definition
        def say(ov: Configured, word: str = "a") -> None:
            ov.said.append(word)

        @wraps(say)
        def instrument_say(ov: Configured) -> None:
            ov.require(say())

        assert run_with(instrument_say).said == ["a"]

    def test_a_plain_function_will_do(self) -> None:
        @instrument_definition
        def say(ov: Configured, word: str) -> None:
            ov.said.append(word)

        assert run_with(say("a")).said == ["a"]


@dataclass
class Options:
    # How many
    count: int = 1
    deep: bool = False


class TestConfigurable:
    def test_the_fields_are_options_and_arrive_as_an_instance(self) -> None:
        @configurable
        def instrument_c(ov: Overseer, options: Options) -> Steps:
            yield ov.phases.load_script
            ov.said.append(options)

        run = run_with(instrument_c, "--count=3", "--deep").through("load_script")
        assert run.said == [Options(3, True)]
        assert "How many" in run.argparser.format_help()

    def test_a_plain_function_will_do(self) -> None:
        @configurable
        def instrument_c(ov: Overseer, options: Options) -> None:
            ov.said.append(options.count)

        assert run_with(instrument_c).said == [1]

    def test_a_dataclass_that_only_a_closure_knows_is_found(self) -> None:
        @dataclass
        class Local:
            width: int = 7

        @configurable
        def instrument_c(ov: Overseer, options: Local) -> None:
            assert isinstance(options, Local)
            ov.said.append(options.width)

        assert run_with(instrument_c).said == [7]

    def test_what_a_phase_gives_reaches_the_instrument(self) -> None:
        @configurable
        def instrument_c(ov: Overseer, options: Options) -> Steps:
            ov.said.append((yield ov.phases.run_script))

        run = run_with(instrument_c)
        run.end(run.phases.run_script, value=42)
        assert run.said == [42]

    def test_what_it_raises_is_its_own(self) -> None:
        @configurable
        def instrument_c(ov: Overseer, options: Options) -> Steps:
            yield ov.phases.load_script
            raise ValueError

        run = run_with(instrument_c).through("load_script")
        assert run.problem.who.endswith("instrument_c")
        assert run.problem.where is not None
        assert run.problem.where.startswith(__file__)

    def test_what_it_yields_wrongly_is_placed_in_it(self) -> None:
        @configurable
        def instrument_c(ov: Overseer, options: Options) -> Steps:
            yield None

        run = run_with(instrument_c)
        assert run.problem.where is not None
        assert run.problem.where.startswith(__file__)

    @pytest.mark.parametrize("fn", [lambda ov: None, lambda ov, options: None, lambda: None, print])
    def test_one_without_a_dataclass_is_told_what_to_write(self, fn: Any) -> None:
        with pytest.raises(VoirError) as caught:
            configurable(fn)
        assert caught.value.slug == "not-configurable"
        assert "(ov, options: MyOptions)" in str(caught.value.remedy)

    @pytest.mark.parametrize("annotation", ["int", "Nowhere", "1 +"])
    def test_an_annotation_that_is_no_dataclass_is_refused(self, annotation: str) -> None:
        def instrument_c(ov: Overseer, options: object) -> None: ...

        instrument_c.__annotations__["options"] = annotation
        with pytest.raises(VoirError, match=r"instrument_c\(ov, options\): its second argument"):
            configurable(instrument_c)
