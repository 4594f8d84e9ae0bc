"""Options: where they come from, which source wins, and what is said about mistakes."""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from overseer.boundary import acting
from overseer.engine.options import OptionParser, variable
from overseer.errors import UsageError, VoirError


def parser(environ: Mapping[str, str] | None = None) -> OptionParser:
    made = OptionParser(environ=environ or {})
    add = made.add_argument
    add("-h", "--help", action="store_true")
    add("--stop", type=int, default=0)
    add("--dash", action="store_true")
    add("--colour", action=argparse.BooleanOptionalAction, default=True)
    add("--run-dir")
    add("--voirfile", action="append", default=[])
    add("--level", choices=["low", "high"], default="low")
    add("--size", type=int, nargs=2)
    add("--names", nargs="*")
    add("-n", type=int)
    return made


def resolved(*argv: str, environ: Mapping[str, str] | None = None, **config: Any) -> Any:
    made = parser(environ)
    if config:
        made.add_config("voir.toml", config)
    own, rest = made.split([*argv, "main.py"])
    assert rest == ["main.py"]
    return made.resolve(own)


class TestTheScript:
    """voir's options end where the script begins."""

    @pytest.mark.parametrize(
        ("argv", "own", "rest"),
        [
            ("main.py --stop 3", [], ["main.py", "--stop", "3"]),
            ("--dash main.py --dash", ["--dash"], ["main.py", "--dash"]),
            ("--stop 3 main.py", ["--stop=3"], ["main.py"]),
            ("--stop=3 main.py", ["--stop=3"], ["main.py"]),
            ("-n 3 main.py", ["-n", "3"], ["main.py"]),
            ("-n3 main.py", ["-n3"], ["main.py"]),
            ("--size 1 2 main.py", ["--size", "1", "2"], ["main.py"]),
            ("--dash -m pkg --dash", ["--dash"], ["-m", "pkg", "--dash"]),
            ("--dash -mpkg.mod x", ["--dash"], ["-m", "pkg.mod", "x"]),
            ("-m pkg:main -m x", [], ["-m", "pkg:main", "-m", "x"]),
            ("--dash -- main.py", ["--dash"], ["main.py"]),
            ("-- -odd.py x", [], ["-odd.py", "x"]),
            ("main.py -- x", [], ["main.py", "--", "x"]),
            ("- x", [], ["-", "x"]),
            ("--dash", ["--dash"], []),
            ("", [], []),
        ],
    )
    def test_what_is_voir_s_and_what_is_not(
        self, argv: str, own: list[str], rest: list[str]
    ) -> None:
        assert parser().split(argv.split()) == (own, rest)

    def test_a_value_may_begin_with_a_dash(self) -> None:
        assert resolved("--run-dir", "-x").run_dir == "-x"
        assert resolved("--stop", "-3").stop == -3

    def test_a_value_may_be_empty(self) -> None:
        assert resolved("--run-dir", "").run_dir == ""

    def test_an_optional_value_must_be_glued(self) -> None:
        made = parser()
        made.add_argument("--trace", nargs="?", const="here")
        assert made.split(["--trace", "main.py"]) == (["--trace"], ["main.py"])
        assert made.resolve(["--trace=there"]).trace == "there"
        assert made.resolve(["--trace"]).trace == "here"

    def test_an_option_whose_name_begins_with_an_m_is_not_a_module(self) -> None:
        made = parser()
        made.add_argument("-max", type=int)
        assert made.split(["-max", "3", "x"]) == (["-max", "3"], ["x"])

    def test_an_unknown_option_is_answered_with_the_nearest(self) -> None:
        with pytest.raises(UsageError) as caught:
            parser().split(["--dsah", "main.py"])
        assert caught.value.slug == "unknown-option"
        assert caught.value.what == "there is no option --dsah"
        assert caught.value.remedy == "Did you mean --dash?"

    def test_an_unknown_option_is_named_without_its_value(self) -> None:
        with pytest.raises(UsageError, match="there is no option --stpo\n") as caught:
            parser().split(["--stpo=3"])
        assert "--stop" in str(caught.value.remedy)

    def test_an_option_like_no_other_is_answered_with_help(self) -> None:
        with pytest.raises(UsageError) as caught:
            parser().split(["--quux", "main.py"])
        assert "The script's own options come after the script" in str(caught.value.remedy)

    @pytest.mark.parametrize("option", ["-u", "-OO", "-Wignore"])
    def test_an_option_of_pythons_is_sent_there(self, option: str) -> None:
        with pytest.raises(UsageError) as caught:
            parser().split([option, "main.py"])
        expected = f"Python's own options go to python: python {option} -m voir SCRIPT"
        assert caught.value.remedy == expected

    def test_a_short_option_is_guessed_to_be_the_script_s(self) -> None:
        with pytest.raises(UsageError) as caught:
            parser().split(["-x", "main.py"])
        assert "come after the script" in str(caught.value.remedy)

    def test_options_are_not_abbreviated(self) -> None:
        with pytest.raises(UsageError, match="no option --das"):
            parser().split(["--das", "main.py"])

    @pytest.mark.parametrize(
        ("argv", "example"), [("--stop", "--stop STOP"), ("--size 1", "--size SIZE"), ("-n", "N")]
    )
    def test_an_option_without_its_value_is_shown_with_one(self, argv: str, example: str) -> None:
        with pytest.raises(UsageError) as caught:
            parser().split(argv.split())
        assert caught.value.slug == "option-value"
        assert example in str(caught.value.remedy)

    @pytest.mark.parametrize(
        ("argv", "said"),
        [
            ("--stop=x", "--stop: invalid int value: 'x'"),
            ("--level=mid", "--level: invalid choice: 'mid'"),
            ("--dash=yes", "--dash: ignored explicit argument 'yes'"),
        ],
    )
    def test_a_wrong_value_is_a_usage_error(self, argv: str, said: str) -> None:
        with pytest.raises(UsageError) as caught:
            resolved(argv)
        assert caught.value.what.startswith(said)
        assert caught.value.remedy == "See voir --help."


class TestPrecedence:
    """Command line over environment over configuration over default."""

    def test_a_default_stands_when_nothing_is_said(self) -> None:
        assert resolved().stop == 0

    def test_configuration_wins_over_the_default(self) -> None:
        assert resolved(stop=1).stop == 1

    def test_the_environment_wins_over_configuration(self) -> None:
        assert resolved(environ={"VOIR_STOP": "2"}, stop=1).stop == 2

    def test_the_command_line_wins_over_the_environment(self) -> None:
        assert resolved("--stop=3", environ={"VOIR_STOP": "2"}, stop=1).stop == 3

    def test_of_two_configurations_the_later_wins(self) -> None:
        made = parser()
        made.add_config("pyproject.toml", {"stop": 1, "run-dir": "first"})
        made.add_config("voir.yaml", {"stop": 2})
        options = made.resolve([])
        assert (options.stop, options.run_dir) == (2, "first")

    def test_lists_are_replaced_not_lengthened(self) -> None:
        environ = {"VOIR_VOIRFILE": "c d"}
        assert resolved(voirfile=["a", "b"]).voirfile == ["a", "b"]
        assert resolved(environ=environ, voirfile=["a"]).voirfile == ["c", "d"]
        assert type(resolved(environ=environ).voirfile) is list
        options = resolved("--voirfile=e", "--voirfile=f", environ=environ, voirfile=["a"])
        assert options.voirfile == ["e", "f"]
        assert type(options.voirfile) is list

    def test_a_switch_that_configuration_turned_on_can_be_turned_off(self) -> None:
        assert resolved(dash=True).dash is True
        assert resolved(environ={"VOIR_DASH": "0"}, dash=True).dash is False
        assert resolved("--colour", environ={"VOIR_COLOUR": "0"}).colour is True
        assert resolved("--no-colour", colour=True).colour is False

    def test_what_is_set_elsewhere_is_not_required_on_the_command_line(self) -> None:
        for environ, config in (({"VOIR_MUST": "2"}, {}), ({}, {"must": 2})):
            made = parser(environ)
            made.add_argument("--must", type=int, required=True)
            made.add_config("x", config)
            assert made.resolve([]).must == 2

    def test_what_is_required_and_not_set_is_said(self) -> None:
        made = parser()
        made.add_argument("--must", required=True)
        with pytest.raises(UsageError, match="--must"):
            made.resolve([])

    def test_a_value_is_converted_once(self) -> None:
        made = parser({"VOIR_LOUD": "x"})
        made.add_argument("--loud", type=lambda text: f"{text}!")
        assert made.resolve([]).loud == "x!"


class TestTheEnvironment:
    def test_every_option_has_a_variable(self) -> None:
        names = {variable(action) for action in parser()._actions}
        assert {"VOIR_RUN_DIR", "VOIR_STOP", "VOIR_N", "VOIR_COLOUR"} <= names

    def test_help_has_none(self) -> None:
        assert resolved(environ={"VOIR_HELP": "1"}).help is False

    @pytest.mark.parametrize(
        ("text", "value"),
        [("1", True), ("true", True), ("YES", True), ("on", True)]
        + [("0", False), ("False", False), ("no", False), ("", False)],
    )
    def test_a_switch_is_on_or_off(self, text: str, value: bool) -> None:
        options = resolved(environ={"VOIR_DASH": text, "VOIR_COLOUR": text})
        assert (options.dash, options.colour) == (value, value)

    def test_a_switch_that_turns_off_does(self) -> None:
        made = parser({"VOIR_NO_RECORD": "1"})
        made.add_argument("--no-record", action="store_false", dest="record")
        assert made.resolve([]).record is False

    def test_of_two_switches_for_one_thing_each_is_heard(self) -> None:
        cases = [("VOIR_X", "1", True), ("VOIR_X", "0", False), ("VOIR_NO_X", "1", False)]
        for name, text, value in cases:
            made = parser({name: text})
            made.add_argument("--x", action="store_true", dest="x", default=None)
            made.add_argument("--no-x", action="store_false", dest="x", default=None)
            assert made.resolve([]).x is value

    def test_a_switch_with_a_no_has_a_variable_with_one(self) -> None:
        for name, text, value in [("VOIR_NO_COLOUR", "1", False), ("VOIR_NO_COLOUR", "0", True)]:
            assert resolved(environ={name: text}).colour is value
        assert resolved(environ={"VOIR_NO_COLOUR": "1", "VOIR_COLOUR": "1"}).colour is True
        with pytest.raises(UsageError, match="VOIR_NO_COLOUR is 'x'"):
            resolved(environ={"VOIR_NO_COLOUR": "x"})

    def test_an_option_that_checks_by_itself_is_told_by_its_variable(self) -> None:
        def check(text: str) -> str:
            raise VoirError("bad-span", f"--window {text!r} is no span", "Write 10.")

        made = parser({"VOIR_WINDOW": "x"})
        made.add_argument("--window", type=check)
        with pytest.raises(UsageError) as caught:
            made.resolve([])
        assert caught.value.slug == "bad-span"
        assert caught.value.what == "VOIR_WINDOW: --window 'x' is no span"

    def test_a_variable_that_is_nearly_one_is_named_and_others_are_left_alone(self) -> None:
        made = parser({"VOIR_STOPP": "3", "VOIR_RUNDIR": "x", "VOIR_MINE": "1", "VOIR_STOP": "2"})
        assert made.resolve([]).stop == 2
        assert [(problem.who, problem.remedy) for problem in made.misspelt] == [
            ("VOIR_STOPP", "Did you mean VOIR_STOP?"),
            ("VOIR_RUNDIR", "Did you mean VOIR_RUN_DIR?"),
        ]

    def test_only_a_switch_that_turns_off_is_known_by_a_no(self) -> None:
        made = parser({"VOIR_NO_STOP": "1", "VOIR_STPO": "1", "VOIR_NO_COLOUR": "1"})
        made.resolve([])
        assert [(problem.who, problem.remedy) for problem in made.misspelt] == [
            ("VOIR_NO_STOP", "Did you mean VOIR_STOP?"),
            ("VOIR_STPO", "Did you mean VOIR_STOP?"),
        ]

    def test_a_constant_is_chosen(self) -> None:
        made = parser({"VOIR_FAST": "1"})
        made.add_argument("--fast", action="store_const", const=9, default=1, dest="speed")
        assert made.resolve([]).speed == 9

    def test_a_constant_that_is_not_chosen_leaves_the_default(self) -> None:
        made = parser({"VOIR_FAST": "0"})
        made.add_argument("--fast", action="store_const", const=9, default=1, dest="speed")
        assert made.resolve([]).speed == 1

    def test_a_count_is_a_number(self) -> None:
        made = parser({"VOIR_VERBOSE": "2"})
        made.add_argument("--verbose", action="count", default=0)
        assert made.resolve([]).verbose == 2

    def test_an_empty_variable_is_as_none(self) -> None:
        options = resolved(environ={"VOIR_STOP": "", "VOIR_RUN_DIR": "", "VOIR_VOIRFILE": ""})
        assert (options.stop, options.run_dir, options.voirfile) == (0, None, [])

    def test_lists_are_words_as_the_shell_has_them(self) -> None:
        environ = {"VOIR_NAMES": "a 'b c'", "VOIR_SIZE": "1 2", "VOIR_VOIRFILE": "x"}
        options = resolved(environ=environ)
        assert options.names == ["a", "b c"]
        assert options.size == [1, 2]
        assert options.voirfile == ["x"]

    @pytest.mark.parametrize(
        ("name", "text", "said"),
        [
            ("VOIR_STOP", "x", "VOIR_STOP: invalid int value: 'x'"),
            ("VOIR_LEVEL", "mid", "VOIR_LEVEL: invalid choice: 'mid'"),
            ("VOIR_DASH", "maybe", "VOIR_DASH is 'maybe'\n  It must be 1 or 0."),
            ("VOIR_NAMES", "'a", 'VOIR_NAMES is "\'a"\n  It must be words'),
            ("VOIR_SIZE", "1", "VOIR_SIZE is ['1']\n  It must be a list of 2 values."),
        ],
    )
    def test_a_wrong_value_is_said_with_its_variable(self, name: str, text: str, said: str) -> None:
        with pytest.raises(UsageError) as caught:
            resolved(environ={name: text})
        assert str(caught.value).startswith(said)

    def test_variables_of_others_are_left_alone(self) -> None:
        assert resolved(environ={"VOIR_NONSENSE": "1", "STOP": "3"}).stop == 0


class TestConfiguration:
    def test_names_may_have_dashes_or_underscores(self) -> None:
        config: dict[str, Any] = {"run-dir": "a"}
        assert resolved(**config).run_dir == "a"
        assert resolved(run_dir="a").run_dir == "a"

    def test_an_option_named_with_underscores_can_be_set_too(self) -> None:
        made = parser()
        made.add_argument("--old_name")
        made.add_config("x", {"old_name": "a"})
        assert made.resolve([]).old_name == "a"

    @pytest.mark.parametrize(
        ("config", "said"),
        [
            ({"stop": "x"}, "voir.toml: stop: invalid int value: 'x'"),
            ({"stop": True}, "voir.toml: stop: invalid int value: 'True'"),
            ({"stop": 1.5}, "voir.toml: stop: invalid int value: '1.5'"),
            ({"stop": None}, "voir.toml: stop is None\n  It must be a single value."),
            ({"stop": [1]}, "voir.toml: stop is [1]\n  It must be a single value."),
            ({"stop": {"x": 1}}, "voir.toml: stop is {'x': 1}\n  It must be a single value."),
            ({"dash": "yes"}, "voir.toml: dash is 'yes'\n  It must be true or false."),
            ({"dash": 1}, "voir.toml: dash is 1\n  It must be true or false."),
            ({"size": [1, 2, 3]}, "voir.toml: size is [1, 2, 3]\n  It must be a list of 2"),
            ({"voirfile": [["a"]]}, "voir.toml: voirfile is ['a']\n  It must be a single value."),
        ],
    )
    def test_a_wrong_value_is_said_with_its_file(self, config: Any, said: str) -> None:
        with pytest.raises(UsageError) as caught:
            resolved(**config)
        assert caught.value.slug == "option-value"
        assert str(caught.value).startswith(said)

    def test_an_unknown_name_is_answered_with_the_nearest(self) -> None:
        with pytest.raises(UsageError) as caught:
            resolved(run_dri="x")
        assert caught.value.slug == "config-option"
        assert caught.value.what == "voir.toml sets 'run_dri', which is no option"
        assert caught.value.remedy == "Did you mean run-dir?"

    def test_an_unknown_name_like_no_other_is_answered_with_help(self) -> None:
        with pytest.raises(UsageError, match="voir --help lists the options"):
            resolved(quux=1)

    def test_help_cannot_be_configured(self) -> None:
        with pytest.raises(UsageError, match="no option"):
            resolved(help=True)

    def test_one_value_will_do_for_a_list(self) -> None:
        assert resolved(voirfile="a", names="b").voirfile == ["a"]

    def test_values_are_of_the_option_s_type(self) -> None:
        made = parser()
        made.add_argument("--where", type=Path)
        made.add_config("x", {"where": "/tmp", "n": "3"})
        options = made.resolve([])
        assert (options.where, options.n) == (Path("/tmp"), 3)

    def test_options_that_an_instrument_contributes_can_be_set_like_others(self) -> None:
        made = parser({"VOIR_POLL": "2"})
        with acting("instrument_gpu"):
            made.add_argument("--poll", type=float)
            made.add_argument("--deep", action="store_true")
        made.add_config("voir.toml", {"deep": True})
        options = made.resolve([])
        assert (options.poll, options.deep) == (2.0, True)


class TestContributing:
    def test_two_instruments_with_the_same_option_are_both_named(self) -> None:
        made = parser()
        with acting("instrument_a"):
            made.add_argument("--poll")
        with acting("instrument_b"), pytest.raises(VoirError) as caught:
            made.add_argument("--poll")
        assert caught.value.slug == "option-twice"
        assert caught.value.what == "both instrument_a and instrument_b add the option --poll"

    def test_an_option_of_voir_s_own_cannot_be_taken(self) -> None:
        made = parser()
        with acting("instrument_a"), pytest.raises(VoirError, match="both voir and instrument_a"):
            made.add_argument("--dash")

    def test_an_option_that_takes_the_place_of_another_has_a_default_of_its_own(self) -> None:
        made = parser()
        made.yielding.add("instrument_stock")
        with acting("instrument_stock"):
            made.add_argument("--poll", type=int)
        with acting("instrument_a"):
            made.add_argument("--poll", default="often")
        assert made.resolve([]).poll == "often"

    def test_one_instrument_that_adds_it_twice_is_told_so(self) -> None:
        made = parser()
        with (
            acting("instrument_a"),
            pytest.raises(VoirError, match=r"instrument_a adds .* twice"),
        ):
            for _ in range(2):
                made.add_argument("--poll")

    def test_groups_of_options_are_no_way_around(self) -> None:
        made = parser()
        group = made.add_argument_group("mine")
        exclusive = made.add_mutually_exclusive_group()
        for where in (group, exclusive):
            with pytest.raises(VoirError, match="voir adds the option --dash twice"):
                where.add_argument("--dash")

    def test_what_could_not_be_added_leaves_the_first_as_it_was(self) -> None:
        made = parser({"VOIR_STOP": "5"})
        with pytest.raises(VoirError):
            made.add_argument("--stop", type=str)
        assert made.resolve([]).stop == 5

    def test_a_positional_argument_is_refused(self) -> None:
        with pytest.raises(VoirError) as caught:
            parser().add_argument("path")
        assert caught.value.slug == "positional-option"
        assert "--path" in str(caught.value.remedy)

    @pytest.mark.parametrize("source", ["command line", "environment"])
    def test_a_conversion_that_fails_in_its_own_way_is_a_wrong_value(self, source: str) -> None:
        made = parser({"VOIR_ODD": "x"} if source == "environment" else {})
        made.add_argument("--odd", type={"a": 1}.__getitem__)
        with pytest.raises(UsageError, match=r"invalid value: 'x' \(KeyError: 'x'\)"):
            made.resolve(["--odd=x"] if source == "command line" else [])

    def test_a_conversion_that_explains_itself_is_heard(self) -> None:
        def interval(text: str) -> float:
            raise UsageError("bad-interval", "it is too short", "Make it longer.")

        made = parser()
        made.add_argument("--every", type=interval)
        with pytest.raises(UsageError, match="it is too short"):
            made.resolve(["--every=0"])

    def test_help_has_them_all(self) -> None:
        made = parser()
        made.add_argument_group("GPU").add_argument("--poll", help="seconds, 100 %% of them")
        text = made.format_help()
        assert "--poll POLL" in text
        assert "seconds, 100 % of them" in text
        assert "(SCRIPT | -m MODULE[:FUNCTION])" in text

    def test_help_is_laid_out_where_there_is_no_terminal(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def none(*args: object) -> Any:
            raise OSError

        monkeypatch.setattr(os, "get_terminal_size", none)
        assert max(map(len, parser().format_help().splitlines())) <= 80
