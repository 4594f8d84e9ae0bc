"""voir's options, from the command line, the environment, configuration files and defaults.

Instruments add options in ``init``. The order of precedence is: command line, environment
(``VOIR_`` and the option's name), configuration files (``--config``, later ones first, then
``[tool.voir]`` of ``pyproject.toml``), default. voir's options end where the script begins.
"""

from __future__ import annotations

import argparse
import functools
import os
import sys
from collections.abc import Callable, Generator, Iterable, Mapping

from ..boundary import current, name_of, said
from ..errors import Problem, UsageError, VoirError
from ..launch import Target
from .settings import Fallback, Layers, nearest

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

    from .models import Model
    from .phases import Instrument

#: Options of Python itself.
PYTHONS = {f"-{letter}" for letter in "BEIOPuWX"}


class HelpAsked(Exception):
    """The command line requests help or the version instead of a run.

    Attributes:
        text: What to print.
    """

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text


class _Group(argparse._ArgumentGroup):
    """A group of options that records each option's owner."""

    def __init__(self, parser: OptionParser, *args: Any, **kwargs: Any) -> None:
        super().__init__(parser, *args, **kwargs)
        self._parser = parser

    def _add_action(self, action: Any) -> Any:
        if not action.option_strings:
            what = f"it adds the positional argument {action.dest!r}, but voir has only options"
            raise VoirError("positional-option", what, f"Name it --{action.dest}.")
        if self._parser.resolved:
            what = f"it adds the option {action.option_strings[0]} after options were parsed"
            remedy = "Add it at the phase init, before 'yield ov.phases.parse_args'."
            raise VoirError("option-late", what, remedy)
        action.owner = current() or "voir"
        return super()._add_action(action)

    def _handle_conflict_error(self, action: Any, conflicting_actions: Any) -> Any:
        """Replace options of owners that yield; reject conflicts with others."""
        yielding = self._parser.yielding
        for option, other in conflicting_actions:
            first, second = other.owner, action.owner
            if first not in yielding or second in yielding:
                what = f"both {first} and {second} add the option {option}"
                if first == second:
                    what = f"{first} adds the option {option} twice"
                raise VoirError("option-twice", what, "Give one of the two another name.")
            self._parser.taken.add(option)
            # A destination without its option keeps its default.
            self._defaults.setdefault(other.dest, other.default)
        self._handle_conflict_resolve(action, conflicting_actions)


class OptionParser(argparse.ArgumentParser):
    """An ``ArgumentParser`` that stops at the script and reads other sources of values too.

    Args:
        prog: Name of the program in the usage line.
        environ: The environment with the ``VOIR_*`` variables.

    Attributes:
        resolved: True once options have been parsed; then no more can be added.
        yielding: Names of instruments whose options yield to another instrument's option of the
            same name, which a voirfile may have defined before voir had one.
        taken: The options that yielded.
        given: Destinations set by the command line or the environment, not by a file.
        misspelt: Variables that are probably misspelt options; known once options are parsed.
    """

    def __init__(self, prog: str = "voir", environ: Mapping[str, str] | None = None) -> None:
        self._formatter: argparse.HelpFormatter | None = None
        super().__init__(prog=prog, add_help=False, allow_abbrev=False, argument_default=None)
        self.environ = os.environ if environ is None else environ
        self.usage = "%(prog)s [VOIR OPTIONS] (SCRIPT | -m MODULE[:FUNCTION]) [SCRIPT OPTIONS]"
        self.resolved = False
        self.yielding, self.taken, self.given = set[str](), set[str](), set[str]()
        self.misspelt: list[Problem] = []
        self._configs: list[tuple[str, dict[str, Any]]] = []
        self._models: list[Model] = []

    def _get_formatter(self) -> argparse.HelpFormatter:
        # argparse asks for one with every added option; one is enough.
        self._formatter = self._formatter or self.new_formatter()
        return self._formatter

    def new_formatter(self) -> argparse.HelpFormatter:
        """Return a help formatter for the width of the terminal."""
        # By default argparse imports shutil, and with it bz2 and lzma, to get the width.
        try:
            width = os.get_terminal_size().columns - 2
        except (OSError, ValueError):
            width = 78
        return argparse.HelpFormatter(self.prog, max_help_position=26, width=max(width, 40))

    def add_argument_group(self, *args: Any, **kwargs: Any) -> argparse._ArgumentGroup:
        """Add a titled group of options."""
        group = _Group(self, *args, **kwargs)
        self._action_groups.append(group)
        return group

    def error(self, message: str) -> NoReturn:
        """Raise the usage error that argparse would print."""
        raise UsageError("usage", message.removeprefix("argument "), "See voir --help.")

    # Splitting the command line

    def split(self, argv: Iterable[str]) -> tuple[list[str], list[str]]:
        """Split ``argv`` into voir's options and the rest, which begins with the script or ``-m``.

        Raises:
            UsageError: An option before the script is unknown.
        """
        rest = list(argv)
        own: list[str] = []
        while rest and rest[0].startswith("-") and rest[0] not in ("-", "-m", "--"):
            if rest[0].startswith("-m") and rest[0] not in self._option_string_actions:
                return own, ["-m", rest[0][2:], *rest[1:]]
            self._move(rest, own)
        if rest and rest[0] == "--":
            rest = rest[1:]
        return own, rest

    def _move(self, rest: list[str], own: list[str]) -> None:
        """Move one option and its values from ``rest`` to ``own``."""
        known, token = self._option_string_actions, rest.pop(0)
        name, glued, _ = token.partition("=")
        short = known.get(token[:2])
        if name not in known and token[1:2] != "-" and short is not None and _values(short):
            name = glued = token[:2]  # -n3
        if name not in known:
            raise self._unknown(name)
        self.given.add(known[name].dest)
        count = 0 if glued else _values(known[name])
        values, rest[:count] = rest[:count], []
        if count == 1 and values and name.startswith("--"):
            own.append(f"{name}={values[0]}")  # Glued, it may begin with a dash.
        else:
            own.extend([token, *values])

    def _unknown(self, name: str) -> UsageError:
        near = nearest(name, sorted(self._option_string_actions))
        remedy = f"Did you mean {' or '.join(near)}?" if near else "See voir --help."
        if name[:2] in PYTHONS and not near:
            remedy = f"Pass Python's own options to python: python {name} -m voir SCRIPT"
        elif len(name) > 1 and not (near and name.startswith("--")):
            remedy += " The script's own options come after the script."
        return UsageError("unknown-option", f"there is no option {name}", remedy)

    # Values from other sources

    def add_config(self, source: str, values: dict[str, Any]) -> None:
        """Use ``values`` (option name to value, groups nested) as defaults; later calls win."""
        self._configs.append((source, values))

    def resolve(self, argv: list[str]) -> argparse.Namespace:
        """Parse ``argv`` (voir's own part) over environment, configuration and defaults.

        Raises:
            UsageError: A value from any source is invalid.
        """
        layers = Layers(self._actions, {model.dest for model in self._models}, self._convert)
        for source, values in self._configs:
            layers.take_config(source, values)
        self.given |= layers.take_environment(self.environ)
        self.misspelt = list(layers.misspelt(self.environ))
        for action in self._actions:
            action.required = action.required and action.dest not in layers.chosen
        options = self.parse_args(argv, argparse.Namespace(**layers.chosen))
        for dest, value in vars(options).items():
            if isinstance(value, Fallback):
                setattr(options, dest, list(value))
        for model in self._models:
            model.build(options)
        self.resolved = True
        return options

    def _convert(self, action: argparse.Action, text: str) -> Any:
        """Convert and check ``text`` for the option, as argparse does."""
        value = self._get_value(action, text)
        self._check_value(action, value)
        return value

    def _get_value(self, action: argparse.Action, arg_string: str) -> Any:
        try:
            if isinstance(action, argparse._CountAction):
                return int(arg_string)
            return super()._get_value(action, arg_string)
        except (argparse.ArgumentError, VoirError):
            raise
        except Exception as error:  # An instrument's conversion function failed.
            message = f"invalid value: {arg_string!r} ({said(error)})"
            raise argparse.ArgumentError(action, message) from None

    # Options declared as dataclasses

    def add_from_model(self, dest: str, model: Any, flatten: bool = True) -> Model:
        """Add an option for every field of a dataclass; ``options.<dest>`` becomes an instance.

        Args:
            dest: The attribute of the parsed options.
            model: A dataclass, or an instance of it whose values are the defaults.
            flatten: Name the options after the fields; else ``--<dest>.<field>``.

        Returns:
            The model; its ``value`` holds the instance once options have been parsed.
        """
        from .models import add_model

        self._models.extend(add_model(self, dest, model, "" if flatten else f"{dest}."))
        return self._models[-1]


def _values(action: argparse.Action) -> int:
    """Number of separate arguments that an option takes; an optional one is attached with ``=``."""
    if isinstance(action.nargs, int):
        return action.nargs
    return 0 if action.nargs in ("?", "*") else 1


# voir's own options and the target


def add_options(parser: OptionParser) -> None:
    """Add the options that voir has without instruments."""
    add = parser.add_argument
    add("-h", "--help", action="store_true", help="show the most used options and exit")
    add("--help-all", action="store_true", help="show all options and exit")
    add("--version", action="store_true", help="show voir's version and exit")
    add("--completion", metavar="bash|zsh", choices=("bash", "zsh"),
        help="print a shell script that completes voir's options, and exit")  # fmt: skip
    add("--voirfile", action="append", default=[], metavar="FILE",
        help="load this voirfile instead of searching; repeatable")  # fmt: skip
    add("--no-voirfile", action="store_true", help="do not load voirfiles")
    add("--config", action="append", default=[], metavar="FILE",
        help="set options from a YAML or TOML file; repeatable")  # fmt: skip
    add("--run-dir", action=_RunDir, metavar="DIR",
        help="record the run in DIR instead of below voir-runs")  # fmt: skip
    add("--no-record", action="store_true", help="write no run directory")
    add("--ranks", type=ranks_option("--ranks"), metavar="0,3,8-15",
        help="trace, profile and sample the machine only on these ranks of a job")  # fmt: skip
    add("--follow-children", action="store_true",
        help="record Python programs that the script starts, too")  # fmt: skip
    add("--quiet", action="store_true", help="print no summary")
    add("--summary-rank", type=_rank, metavar="R",
        help="print the summary of this rank of a job instead of the job's")  # fmt: skip
    add("--strict", action="store_true",
        help="exit with status 4 after a problem or a silent probe")  # fmt: skip
    add("--debug", action="store_true", help="log which voirfiles and probes are used, and why")


def _rank(text: str) -> int:
    if not text.isdecimal():
        what = f"--summary-rank is {text!r:.60}, which is not a rank"
        raise UsageError("option-value", what, "Ranks count from 0, for example --summary-rank 2")
    return int(text)


def ranks_option(option: str) -> Callable[[str], frozenset[int]]:
    """The ``type`` of an option whose value is a list of ranks: ``0,3,8-15``."""

    def parse(text: str) -> frozenset[int]:
        from ..rundir.job import ranks_of

        return ranks_of(text, option)

    return parse


class _RunDir(argparse.Action):
    """On the command line ``--run-dir`` is the directory itself; in other sources, its parent."""

    def __call__(self, parser: Any, namespace: Any, values: Any, option_string: Any = None) -> None:
        """Take the value from the command line."""
        namespace.run_dir, namespace.run_dir_chosen = values, True


def target_of(rest: list[str]) -> Target | None:
    """The target on the command line; ``None`` if there is none.

    Args:
        rest: The arguments after voir's own options.

    Raises:
        UsageError: ``-m`` without a module.
    """
    if not rest:
        return None
    if rest[0] != "-m":
        return Target("script", rest[0], tuple(rest[1:]))
    if len(rest) < 2:
        raise UsageError("no-script", "-m needs a module", "For example: voir -m package.module")
    kind = "function" if ":" in rest[1] else "module"
    return Target(kind, rest[1], tuple(rest[2:]))


# Instruments with options


def gated(flag: str, *rest: Any, help: str | None = None, instrument: Any = None) -> Any:
    """Run an instrument only if ``flag`` is given.

    ``@gated("--xyz")``, ``@gated("--xyz", "what it does")``, or
    ``gated("--xyz", instrument, "what it does")``.
    """
    for value in rest:
        if isinstance(value, str):
            help = value
        else:
            instrument = value
    made = functools.partial(_optional, flag, gate=True, action="store_true", help=help)
    return made if instrument is None else made(instrument)


def parametrized(option: str, *rest: Any, **keywords: Any) -> Any:
    """Give an instrument an option, with its value in ``ov.options``.

    ``@parametrized("--xyz", int, "what it does", 2)``, or
    ``parametrized("--xyz", instrument, int, "what it does", 2)``; the last three may also
    be keywords: ``type``, ``help``, ``default``, and others of ``add_argument``.
    """
    # A conversion function is followed by the help text; an instrument is not.
    called = rest and callable(rest[0]) and not isinstance(rest[0], type)
    if called and (len(rest) == 1 or not isinstance(rest[1], str)):
        keywords["instrument"], *rest = rest  # type: ignore[assignment]
    keywords.update(zip(("type", "help", "default"), rest))  # noqa: B905  # Fewer is normal.
    instrument = keywords.pop("instrument", None)
    if instrument is None:
        return lambda found: _optional(option, found, **keywords)
    return _optional(option, instrument, **keywords)


def _optional(option: str, instrument: Any, *, gate: bool = False, **keywords: Any) -> Instrument:
    """Wrap ``instrument`` to add an option; with ``gate``, run it only if that is set."""
    dest = keywords.setdefault("dest", option.lstrip("-").replace("-", "_"))

    def run(ov: Any) -> Generator[Any, Any, None]:
        yield ov.phases.init
        ov.argparser.add_argument(option, **keywords)
        yield ov.phases.parse_args
        if not gate or getattr(ov.options, dest):
            ov.require(instrument)

    functools.update_wrapper(run, instrument, updated=())
    run.__name__ = run.__qualname__ = f"{name_of(instrument)} ({option})"
    run.instrument = instrument  # type: ignore[attr-defined]
    return run


def configurable(fn: Callable[..., Any]) -> Instrument:
    """Make the fields of a dataclass options of an instrument.

    ``fn`` takes the overseer and one argument annotated with a dataclass; its fields become
    options, the comments above them their help. It runs once the options are known.

    Raises:
        VoirError: The second argument is missing, or not annotated with a dataclass.
    """
    name, model = _model_of(fn)

    @functools.wraps(fn)
    def wrapped(ov: Any) -> Generator[Any, Any, None]:
        yield ov.phases.init
        built = ov.argparser.add_from_model(name, model)
        yield ov.phases.parse_args
        result = fn(ov, built.value)
        if isinstance(result, Generator):
            yield from result

    return wrapped


def _model_of(fn: Callable[..., Any]) -> tuple[str, type]:
    code: Any = getattr(fn, "__code__", None)
    names: tuple[str, ...] = code.co_varnames[: code.co_argcount] if code is not None else ()
    model = _annotation(fn, names[1]) if len(names) > 1 else None
    if not isinstance(model, type) or not hasattr(model, "__dataclass_fields__"):
        who = name_of(fn)
        raise VoirError(
            "not-configurable",
            f"@configurable {who}({', '.join(names)}): its second argument is not annotated with "
            "a dataclass that can be found",
            f"Write: def {who}(ov, options: MyOptions), with MyOptions a @dataclass at top level.",
        )
    return names[1], model


def _annotation(fn: Any, name: str) -> object:
    """The annotation of one argument; the others may use names that only type checkers have."""
    if sys.version_info >= (3, 14):
        import annotationlib

        found = annotationlib.get_annotations(fn, format=annotationlib.Format.FORWARDREF).get(name)
    else:
        found = fn.__annotations__.get(name)
    if not isinstance(found, str):
        return found
    cells = zip(fn.__code__.co_freevars, fn.__closure__ or (), strict=True)
    try:
        return eval(found, fn.__globals__, {name: cell.cell_contents for name, cell in cells})
    except Exception:
        return None
