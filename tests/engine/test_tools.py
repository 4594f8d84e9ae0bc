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

    argparser: OptionParser
    options: Any = None


def run_with(*instruments: Any, argv: str = "") -> Configured:
    """A run of these instruments that has parsed ``argv``."""
    run = Configured()
    run.argparser = OptionParser(environ={})
    for instrument in instruments:
        run.require(instrument)
    run.through("init")
    run.options = run.argparser.resolve(argv.split())
    return run.through("parse_args")


def instrument_x(ov: Configured) -> Steps:
    """Say what the option is."""
    yield ov.phases.parse_args
    ov.said.append(getattr(ov.options, "x", "no option"))


@dataclass(frozen=True)
class Frozen:
    """An instrument that is an object."""

    def __call__(self, ov: Configured) -> None:
        ov.said.append("object")


def double(text: str) -> int:
    return 2 * int(text)


@pytest.mark.parametrize(
    ("instrument", "off", "on"),
    [
        (gated("--x", "the help")(instrument_x), [], [True]),
        (gated("--x", help="the help")(instrument_x), [], [True]),
        (gated("--x", instrument_x, "the help"), [], [True]),
        (gated("--x", instrument_x, help="the help"), [], [True]),
        (gated("--x", instrument=instrument_x, help="the help"), [], [True]),
        (gated("--x", Frozen(), "the help"), [], ["object"]),
        (parametrized("--x", int, "the help", 2)(instrument_x), [2], [3]),
        (parametrized("--x", type=int, help="the help", default=2)(instrument_x), [2], [3]),
        (parametrized("--x", instrument_x, int, "the help", 2), [2], [3]),
        (parametrized("--x", instrument_x, type=int, help="the help"), [None], [3]),
        (parametrized("--x", instrument=instrument_x, help="the help"), [None], ["3"]),
        (parametrized("--x", double, "the help", 1)(instrument_x), [1], [6]),
        (parametrized("--x", instrument_x, double, "the help"), [None], [6]),
        (parametrized("--x", type=double, help="the help")(instrument_x), [None], [6]),
        (parametrized("--x", help="the help", choices=["3"])(instrument_x), [None], ["3"]),
    ],
)
def test_an_instrument_has_a_flag_or_an_option(instrument: Any, off: Any, on: Any) -> None:
    run = run_with(instrument)
    assert run.said == off
    assert "the help" in run.argparser.format_help()
    assert run_with(instrument, argv="--x" if on[0] in (True, "object") else "--x=3").said == on


def test_without_help_or_type_the_forms_are_the_same() -> None:
    for made in (gated("--x")(instrument_x), gated("--x", instrument_x)):
        assert run_with(made, argv="--x").said == [True]
    for made in (parametrized("--x")(instrument_x), parametrized("--x", instrument_x)):
        assert run_with(made, argv="--x=3").said == ["3"]


def test_it_goes_by_the_instruments_name_and_its_flag() -> None:
    made = gated("--x", instrument_x)
    run = run_with(made, argv="--x")
    assert list(run.states) == ["instrument_x (--x)", "instrument_x"]
    place = f"{__file__}:{instrument_x.__code__.co_firstlineno}"
    assert [state["where"] for state in run.states.values()] == [place, place]
    assert made.instrument is instrument_x


def test_two_with_one_flag_are_both_named() -> None:
    def instrument_y(ov: Configured) -> None: ...

    run = run_with(gated("--x", instrument_x), gated("--x", instrument_y), argv="--x")
    assert run.problem.what == ("both instrument_x (--x) and instrument_y (--x) add the option --x")
    assert run.said == [True]


@instrument_definition
def say(ov: Configured, word: str = "a", times: int = 1) -> Steps:
    """Say a word."""
    yield ov.phases.init
    ov.said.extend([word] * times)


@instrument_definition
def plain(ov: Configured, word: str) -> None:
    ov.said.append(word)


def test_each_call_of_a_definition_makes_an_instrument_with_its_arguments() -> None:
    @wraps(say)
    def instrument_say(ov: Configured) -> None:
        ov.require(say("c"))

    run = run_with(say("a"), say(word="b", times=2), plain("d"), instrument_say)
    assert run.said == ["d", "a", "b", "b", "c"]
    assert say.__doc__ == say("c").__doc__ == "Say a word."
    assert list(run.states)[:3] == ["say", "say#2", "plain"]


def test_a_definition_that_is_not_called_is_no_instrument_and_says_so_once() -> None:
    def instrument_all(ov: Configured) -> None:
        ov.require(say)
        ov.require(say)

    problem = run_with(instrument_all).problem
    assert (problem.slug, problem.who) == ("not-an-instrument", "say")
    assert problem.where == f"{__file__}:{instrument_all.__code__.co_firstlineno + 1}"
    assert str(problem.remedy).startswith("Write say(...):")
    assert run_with(gated("--x", say), argv="--x").problem.slug == "not-an-instrument"


@dataclass
class Options:
    # How many
    count: int = 1
    deep: bool = False


def test_the_fields_of_a_dataclass_are_options_and_arrive_as_an_instance() -> None:
    @dataclass
    class Local:
        width: int = 7

    @configurable
    def instrument_c(ov: Overseer, options: Options) -> Steps:
        ov.said.append(options)
        ov.said.append((yield ov.phases.run_script))

    @configurable
    def instrument_of_a_closure(ov: Overseer, options: Local) -> None:
        assert isinstance(options, Local)
        ov.said.append(options.width)

    run = run_with(instrument_c, instrument_of_a_closure, argv="--count=3 --deep")
    run.end(run.phases.run_script, value=42)
    assert run.said == [Options(3, True), 7, 42]
    assert "How many" in run.argparser.format_help()


@pytest.mark.parametrize("yields", [None, "raises"])
def test_what_a_configurable_does_wrongly_is_placed_in_it(yields: str | None) -> None:
    @configurable
    def instrument_c(ov: Overseer, options: Options) -> Steps:
        if yields:
            raise ValueError
        yield None

    problem = run_with(instrument_c).problem
    assert problem.who.endswith("instrument_c")
    assert str(problem.where).startswith(__file__)


def annotated(annotation: str) -> Callable[..., Any]:
    def instrument_c(ov: Overseer, options: object) -> None: ...

    instrument_c.__annotations__["options"] = annotation
    return instrument_c


@pytest.mark.parametrize(
    ("fn", "who"),
    [
        (lambda ov: None, "<lambda>(ov)"),
        (lambda ov, options: None, "<lambda>(ov, options)"),
        (print, "print()"),
        *[(annotated(one), "instrument_c(ov, options)") for one in ("int", "Nowhere", "1 +")],
    ],
)
def test_one_without_a_dataclass_is_told_what_to_write(fn: Any, who: str) -> None:
    with pytest.raises(VoirError) as caught:
        configurable(fn)
    assert caught.value.slug == "not-configurable"
    assert f"{who}: its second argument is not annotated" in caught.value.what
    assert "(ov, options: MyOptions)" in str(caught.value.remedy)
