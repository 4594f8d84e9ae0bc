"""Options: where they come from, which source wins, and what is said about mistakes."""

from __future__ import annotations

import argparse
import os
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from overseer.boundary import acting
from overseer.engine.options import OptionParser
from overseer.engine.settings import variable
from overseer.errors import UsageError, VoirError


def span(text: str) -> str:
    raise VoirError("bad-span", f"--window {text!r} is no span", "Write 10.")


def parser(**environ: str) -> OptionParser:
    made = OptionParser(environ={f"VOIR_{name}": text for name, text in environ.items()})
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
    add("-max", type=int)
    add("--trace", nargs="?", const="here")
    add("--old_name")
    add("--loud", type=lambda text: f"{text}!")
    add("--where", type=Path)
    add("--fast", action="store_const", const=9, default=1, dest="speed")
    add("--verbose", action="count", default=0)
    add("--no-record", action="store_false", dest="record")
    add("--x", action="store_true", dest="x", default=None)
    add("--no-x", action="store_false", dest="x", default=None)
    add("--window", type=span)
    add("--odd", type={"a": 1}.__getitem__)
    return made


def resolved(argv: str = "", environ: dict[str, str] | None = None, *configs: Any) -> Any:
    made = parser(**environ or {})
    for config in configs:
        made.add_config("voir.toml", config)
    own, rest = made.split([*argv.split(), "main.py"])
    assert rest == ["main.py"]
    return made.resolve(own)


@pytest.mark.parametrize(
    ("argv", "own", "rest"),
    [
        ("main.py --stop 3", [], ["main.py", "--stop", "3"]),
        ("--dash main.py --dash", ["--dash"], ["main.py", "--dash"]),
        ("--stop 3 main.py", ["--stop=3"], ["main.py"]),
        ("-n 3 main.py", ["-n", "3"], ["main.py"]),
        ("-n3 main.py", ["-n3"], ["main.py"]),
        ("-max 3 main.py", ["-max", "3"], ["main.py"]),
        ("--size 1 2 main.py", ["--size", "1", "2"], ["main.py"]),
        ("--trace main.py", ["--trace"], ["main.py"]),
        ("--dash -m pkg --dash", ["--dash"], ["-m", "pkg", "--dash"]),
        ("--dash -mpkg.mod x", ["--dash"], ["-m", "pkg.mod", "x"]),
        ("--dash -- main.py", ["--dash"], ["main.py"]),
        ("-- -odd.py x", [], ["-odd.py", "x"]),
        ("- x", [], ["-", "x"]),
        ("--dash", ["--dash"], []),
    ],
)
def test_voirs_options_end_where_the_script_begins(
    argv: str, own: list[str], rest: list[str]
) -> None:
    assert parser().split(argv.split()) == (own, rest)


@pytest.mark.parametrize(
    ("argv", "environ", "configs", "expected"),
    [
        ("", {}, [], {"stop": 0, "help": False}),
        ("", {"STOP": "2"}, [{"stop": 1}], {"stop": 2}),
        ("--stop=3", {"STOP": "2"}, [{"stop": 1}], {"stop": 3}),
        ("", {}, [{"stop": 1, "run-dir": "a"}, {"stop": 2}], {"stop": 2, "run_dir": "a"}),
        # The command line
        ("--run-dir -x --stop -3", {}, [], {"run_dir": "-x", "stop": -3}),
        ("--run-dir= --trace", {}, [], {"run_dir": "", "trace": "here"}),
        ("--trace=there", {}, [], {"trace": "there"}),
        # Lists are replaced, not lengthened; those of the environment are words as in a shell.
        ("", {}, [{"voirfile": "a", "names": ["b", 3]}], {"voirfile": ["a"], "names": ["b", "3"]}),
        ("", {"VOIRFILE": "c d"}, [{"voirfile": ["a"]}], {"voirfile": ["c", "d"]}),
        ("--voirfile=e --voirfile=f", {"VOIRFILE": "c"}, [{"voirfile": ["a"]}],
         {"voirfile": ["e", "f"]}),
        ("", {"NAMES": "a 'b c'", "SIZE": "1 2"}, [], {"names": ["a", "b c"], "size": [1, 2]}),
        # Switches
        ("", {"DASH": "0"}, [{"dash": True}], {"dash": False}),
        ("--colour", {"COLOUR": "0"}, [], {"colour": True}),
        ("--no-colour", {}, [{"colour": True, "dash": True}], {"colour": False, "dash": True}),
        *[("", {"DASH": text, "COLOUR": text}, [], {"dash": True, "colour": True})
          for text in ("1", "true", "YES", "on")],
        *[("", {"DASH": text, "COLOUR": text}, [], {"dash": False, "colour": False})
          for text in ("0", "False", "no", "")],
        *[("", {"X": one, "FAST": one}, [], {"x": on, "speed": speed})
          for one, on, speed in (("1", True, 9), ("0", False, 1))],
        ("", {"NO_X": "1", "NO_RECORD": "1"}, [], {"x": False, "record": False}),
        # Names and types
        ("", {"N": "2", "LOUD": "x", "VERBOSE": "2"}, [], {"n": 2, "loud": "x!", "verbose": 2}),
        ("", {}, [{"run_dir": "a", "old_name": "b", "where": "/tmp", "n": "3"}],
         {"run_dir": "a", "old_name": "b", "where": Path("/tmp"), "n": 3}),
        # What is empty sets nothing; help has no variable, and others' are left alone.
        ("", {"STOP": "", "RUN_DIR": "", "VOIRFILE": ""}, [],
         {"stop": 0, "run_dir": None, "voirfile": []}),
        ("", {"HELP": "1", "NONSENSE": "1"}, [], {"help": False}),
    ],
)  # fmt: skip
def test_each_source_sets_options_and_the_stronger_one_wins(
    argv: str, environ: dict[str, str], configs: list[Any], expected: dict[str, Any]
) -> None:
    found = vars(resolved(argv, environ, *configs))
    assert {name: found[name] for name in expected} == expected
    assert type(found["voirfile"]) is list


PYTHONS = "there is no option {0}\n  Pass Python's own options to python: python {0} -m voir SCRIPT"
SCRIPTS = "The script's own options come after the script."


@pytest.mark.parametrize(
    ("source", "slug", "said"),
    [
        # The command line
        ("--dsah main.py", "unknown-option", "there is no option --dsah\n  Did you mean --dash?"),
        ("--stpo=3", "unknown-option", "there is no option --stpo\n  Did you mean --stop"),
        ("--zzzz", "unknown-option", f"there is no option --zzzz\n  See voir --help. {SCRIPTS}"),
        ("--das", "unknown-option", "there is no option --das\n  Did you mean --dash"),
        ("-q", "unknown-option", f"there is no option -q\n  See voir --help. {SCRIPTS}"),
        *[(one, "unknown-option", PYTHONS.format(one)) for one in ("-u", "-OO", "-Wignore")],
        ("--stop=x", "usage", "--stop: invalid int value: 'x'\n  See voir --help."),
        ("--dash=yes", "usage", "--dash: ignored explicit argument 'yes'"),
        ("--odd=x", "usage", "--odd: invalid value: 'x' (KeyError: 'x')"),
        ("--window=x", "bad-span", "--window 'x' is no span\n  Write 10."),
        ("--stop", "usage", "--stop: expected one argument"),
        ("--size 1", "usage", "--size: expected 2 arguments"),
        # The environment, and a file of settings
        ({"STOP": "x"}, "option-value", "VOIR_STOP: invalid int value: 'x'"),
        ({"LEVEL": "mid"}, "option-value", "VOIR_LEVEL: invalid choice: 'mid'"),
        ({"DASH": "maybe"}, "option-value", "VOIR_DASH is 'maybe'\n  It must be 1 or 0."),
        ({"NAMES": "'a"}, "option-value", 'VOIR_NAMES is "\'a"\n  It must be words; a quotation'),
        ({"SIZE": "1"}, "option-value", "VOIR_SIZE is ['1']\n  It must be a list of 2 values."),
        ({"ODD": "x"}, "option-value", "VOIR_ODD: invalid value: 'x' (KeyError: 'x')"),
        ({"WINDOW": "x"}, "bad-span", "VOIR_WINDOW: --window 'x' is no span\n  Write 10."),
        ({"stop": True}, "option-value", "voir.toml: stop: invalid int value: 'True'"),
        ({"stop": None}, "option-value", "voir.toml: stop is None\n  It must be a single value."),
        ({"dash": 1}, "option-value", "voir.toml: dash is 1\n  It must be true or false."),
        ({"size": [1, 2, 3]}, "option-value", "voir.toml: size is [1, 2, 3]\n  It must be a list"),
        ({"voirfile": [["a"]]}, "option-value", "voir.toml: voirfile is ['a']\n  It must be a s"),
        ({"run_dri": "x"}, "config-option",
         "voir.toml sets 'run_dri', which is not an option\n  Did you mean run-dir?"),
        ({"quux": 1}, "config-option",
         "voir.toml sets 'quux', which is not an option\n  voir --help lists the options."),
        ({"help": True}, "config-option", "voir.toml sets 'help', which is not an option"),
    ],
)  # fmt: skip
def test_a_wrong_option_or_value_is_refused_with_its_source(
    source: str | dict[str, Any], slug: str, said: str
) -> None:
    argv = source if isinstance(source, str) else ""
    set_ = {} if isinstance(source, str) else source
    made = parser(**{name: text for name, text in set_.items() if name.isupper()})
    made.add_config("voir.toml", {name: one for name, one in set_.items() if name.islower()})
    with pytest.raises(VoirError if argv == "--window=x" else UsageError) as caught:
        made.resolve(made.split(argv.split())[0])
    assert caught.value.slug == slug
    assert str(caught.value).startswith(said)


def test_what_is_required_may_be_set_anywhere_but_must_be() -> None:
    for environ, config in (({"MUST": "2"}, {}), ({}, {"must": 2}), ({}, {})):
        made = parser(**environ)
        made.add_argument("--must", type=int, required=True)
        made.add_config("x", config)
        missing = not (environ or config)
        with pytest.raises(UsageError, match="--must") if missing else nullcontext():
            assert made.resolve([]).must == 2


def test_every_option_has_a_variable_and_one_that_is_nearly_it_is_named() -> None:
    names = {variable(action) for action in parser()._actions}
    assert {"VOIR_RUN_DIR", "VOIR_STOP", "VOIR_N", "VOIR_COLOUR", "VOIR_OLD_NAME"} <= names
    wrong = {"STOPP": "3", "RUNDIR": "x", "MINE": "1", "NO_COLOUR": "1"}
    made = parser(STOP="2", **wrong)
    made.resolve(["--dash"])
    assert [(one.slug, one.who, one.remedy) for one in made.misspelt] == [
        ("unknown-variable", "VOIR_STOPP", "Did you mean VOIR_STOP?"),
        ("unknown-variable", "VOIR_RUNDIR", "Did you mean VOIR_RUN_DIR?"),
        ("unknown-variable", "VOIR_NO_COLOUR", "Did you mean VOIR_COLOUR?"),
    ]


@pytest.mark.parametrize(
    ("first", "second", "said"),
    [
        ("instrument_a", "instrument_b", "both instrument_a and instrument_b add the option --p"),
        ("instrument_a", "instrument_a", "instrument_a adds the option --p twice"),
        ("stock", "stock", "stock adds the option --p twice"),
    ],
)
@pytest.mark.parametrize("where", ["parser", "group", "exclusive"])
def test_an_option_has_one_owner(first: str, second: str, said: str, where: str) -> None:
    made = parser(P="5")
    made.yielding.add("stock")
    with acting(first):
        made.add_argument("--p", type=int)
    places = {"group": made.add_argument_group, "exclusive": made.add_mutually_exclusive_group}
    place = places.get(where, lambda: made)()
    with acting(second), pytest.raises(VoirError) as caught:
        place.add_argument("--p", type=str)
    assert (caught.value.slug, caught.value.what) == ("option-twice", said)
    assert made.resolve([]).p == 5


def test_a_stock_option_makes_way_and_keeps_its_default() -> None:
    made = parser()
    made.yielding.add("stock")
    with acting("stock"):
        made.add_argument("--poll", type=int)
        made.add_argument("--every", type=int, default=7)
    with acting("instrument_a"):
        made.add_argument("--poll", default="often")
        made.add_argument("--every", type=float, dest="mine")
    options = made.resolve(["--every=2"])
    assert (options.poll, options.every, options.mine) == ("often", 7, 2.0)
    assert made.taken == {"--poll", "--every"}


def test_an_option_has_a_name_and_comes_before_options_are_parsed() -> None:
    made = parser()
    for name, slug in (("path", "positional-option"), ("--late", "option-late")):
        with pytest.raises(VoirError) as caught:
            made.add_argument(name)
        assert caught.value.slug == slug
        made.resolve([])


def test_help_has_all_options_where_there_is_no_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    def none(*args: object) -> Any:
        raise OSError

    monkeypatch.setattr(os, "get_terminal_size", none)
    made = parser()
    made.add_argument_group("GPU").add_argument("--poll", help="seconds, 100 %% of them")
    text = made.format_help()
    assert max(map(len, text.splitlines())) <= 80
    assert "\nGPU:\n  --poll POLL            seconds, 100 % of them\n" in text
    assert "(SCRIPT | -m MODULE[:FUNCTION])" in text
