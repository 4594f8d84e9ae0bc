"""voir's options: from the command line, the environment, configuration files, defaults.

Instruments contribute options in ``init``. The order of precedence is command line, environment
(``VOIR_`` and the option's name), configuration files (``--config``, later ones first, then
``[tool.voir]`` of ``pyproject.toml``), default. voir's options end where the script begins.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterable, Mapping
from typing import Any, NoReturn

from .errors import UsageError

TRUE = {"1", "true", "yes", "on", "y"}
FALSE = {"0", "false", "no", "off", "n", ""}


class OptionParser(argparse.ArgumentParser):
    """An ``argparse.ArgumentParser`` that stops at the script and knows where values come from.

    Args:
        prog: What the usage line calls the program.
        environ: The environment to read ``VOIR_*`` from.
    """

    def __init__(self, prog: str = "voir", environ: Mapping[str, str] | None = None) -> None:
        super().__init__(prog=prog, add_help=False, allow_abbrev=False, argument_default=None)
        self.environ = os.environ if environ is None else environ
        self.usage = "%(prog)s [VOIR OPTIONS] (SCRIPT | -m MODULE[:FUNCTION]) [SCRIPT OPTIONS]"
        self._configs: list[tuple[str, dict[str, Any]]] = []
        self._models: list[tuple[str, type, dict[str, str]]] = []
        self.extras: set[str] = set()

    def _get_formatter(self) -> argparse.HelpFormatter:
        # Made for every option that is added. Left to itself it imports shutil, and with it bz2
        # and lzma, to learn the width of the terminal.
        try:
            width = os.get_terminal_size().columns - 2
        except (OSError, ValueError):
            width = 78
        return self.formatter_class(prog=self.prog, width=max(width, 40))

    def error(self, message: str) -> NoReturn:
        """Raise the usage error that argparse would print."""
        raise UsageError("usage", message, "See voir --help.")

    # Where the script begins

    def split(self, argv: Iterable[str]) -> tuple[list[str], list[str]]:
        """Cut ``argv`` into voir's options and the rest, which begins with the script or ``-m``.

        Raises:
            UsageError: An option before the script is unknown.
        """
        rest = list(argv)
        own: list[str] = []
        while rest and rest[0].startswith("-") and rest[0] not in ("-", "-m", "--"):
            if rest[0].startswith("-m") and not rest[0].startswith("--"):
                return own, ["-m", rest[0][2:], *rest[1:]]
            self._move(rest, own)
        if rest and rest[0] == "--":
            rest = rest[1:]
        return own, rest

    def _move(self, rest: list[str], own: list[str]) -> None:
        """Move one option and its values from ``rest`` to ``own``."""
        token = rest.pop(0)
        name, glued, _ = token.partition("=")
        action = self._option_string_actions.get(name)
        if action is None:
            raise self._unknown(name)
        own.append(token)
        count = 0 if glued else _values(action)
        if len(rest) < count:
            raise UsageError(
                "option-value", f"{name} needs a value", f"For example: {name} {_example(action)}"
            )
        own.extend(rest[:count])
        del rest[:count]

    def _unknown(self, name: str) -> UsageError:
        known = sorted(self._option_string_actions)
        near = nearest(name, known)
        remedy = f"Did you mean {' or '.join(near)}?" if near else "See voir --help."
        if len(name) > 1 and not name.startswith("--"):
            remedy += " The script's own options come after the script."
        return UsageError("unknown-option", f"there is no option {name}", remedy)

    # Values from elsewhere

    def add_config(self, source: str, values: dict[str, Any]) -> None:
        """Let ``values`` (option name to value, groups nested) be defaults; later ones win."""
        self._configs.append((source, values))

    def resolve(self, argv: list[str]) -> argparse.Namespace:
        """Parse ``argv`` (voir's own part) over environment, configuration and defaults.

        Raises:
            UsageError: A value is wrong, whatever it came from.
        """
        for source, values in self._configs:
            self._apply_config(source, values)
        for action in self._settable():
            self._apply_environment(action)
        options = self.parse_args(argv)
        self._build_models(options)
        return options

    def _settable(self) -> list[argparse.Action]:
        return [a for a in self._actions if a.option_strings and a.dest not in ("help", "version")]

    def _apply_config(self, source: str, values: dict[str, Any]) -> None:
        groups = {name for name, _, _ in self._models}
        for key, value in values.items():
            name = str(key).replace("-", "_")
            if isinstance(value, dict) and name in groups:
                self._apply_config(f"{source}, {key}", value)
            else:
                self._set(self._named(str(key), source), value, f"{source}: {key}")

    def _named(self, key: str, source: str) -> argparse.Action:
        wanted = key.replace("_", "-")
        names = {_long(a).lstrip("-"): a for a in self._settable()}
        if wanted in names:
            return names[wanted]
        near = nearest(wanted, names)
        remedy = f"Did you mean {' or '.join(near)}?" if near else "voir --help lists the options."
        raise UsageError("config-option", f"{source} sets {key!r}, which is no option", remedy)

    def _apply_environment(self, action: argparse.Action) -> None:
        name = variable(action)
        text = self.environ.get(name)
        if text is not None:
            self._set(action, _from_text(action, text, name), name)

    def _set(self, action: argparse.Action, value: Any, source: str) -> None:
        action.default = self._checked(action, value, source)
        action.required = False

    def _checked(self, action: argparse.Action, value: Any, source: str) -> Any:
        if _is_switch(action):
            if not isinstance(value, bool):
                raise _wrong(source, value, "true or false")
            return value
        several = isinstance(action, argparse._AppendAction) or action.nargs in ("*", "+")
        if several:
            values = value if isinstance(value, list) else [value]
            return [self._one(action, v, source) for v in values]
        return self._one(action, value, source)

    def _one(self, action: argparse.Action, value: Any, source: str) -> Any:
        if isinstance(value, (list, dict)) or value is None:
            raise _wrong(source, value, "a single value")
        try:
            result = self._get_value(action, str(value))
            self._check_value(action, result)
        except argparse.ArgumentError as error:
            raise _wrong(source, value, error.message) from None
        return result

    # Options declared as dataclasses

    def add_from_model(self, dest: str, model: Any, flatten: bool = True) -> None:
        """Add an option for every field of a dataclass; ``options.<dest>`` is an instance of it.

        Args:
            dest: The attribute of the parsed options.
            model: A dataclass, or an instance of one whose values are the defaults.
            flatten: Whether fields are options of their own name; else ``--<dest>.<field>``.
        """
        from .models import add_model

        self._models.append(add_model(self, dest, model, flatten))

    def _build_models(self, options: argparse.Namespace) -> None:
        for dest, model, fields in self._models:
            values = {field: getattr(options, key) for field, key in fields.items()}
            for key in fields.values():
                delattr(options, key)
            setattr(options, dest, model(**values))


def variable(action: argparse.Action) -> str:
    """The environment variable that sets an option: ``--run-dir`` is ``VOIR_RUN_DIR``."""
    return "VOIR_" + _long(action).lstrip("-").replace("-", "_").replace(".", "_").upper()


def _long(action: argparse.Action) -> str:
    longs = [o for o in action.option_strings if o.startswith("--")]
    return longs[0] if longs else action.option_strings[0]


def _is_switch(action: argparse.Action) -> bool:
    return isinstance(
        action,
        (
            argparse._StoreTrueAction,
            argparse._StoreFalseAction,
            argparse.BooleanOptionalAction,
        ),
    )


def _values(action: argparse.Action) -> int:
    """How many of the next arguments belong to an option; optional ones must be glued by ``=``."""
    if isinstance(action.nargs, int):
        return action.nargs
    return 0 if action.nargs in ("?", "*") else 1


def _example(action: argparse.Action) -> str:
    metavar = action.metavar
    return metavar if isinstance(metavar, str) else action.dest.upper()


def _from_text(action: argparse.Action, text: str, name: str) -> Any:
    if _is_switch(action):
        if text.lower() in TRUE | FALSE:
            return text.lower() in TRUE
        raise _wrong(name, text, "1 or 0")
    if isinstance(action, argparse._AppendAction) or action.nargs in ("*", "+"):
        return _words(text)
    return text


def nearest(name: str, known: Iterable[str]) -> list[str]:
    """The two known names most like ``name``."""
    from difflib import get_close_matches

    return get_close_matches(name, list(known), n=2, cutoff=0.6)


def _words(text: str) -> list[str]:
    from shlex import split

    return split(text)


def _wrong(source: str, value: object, wanted: str) -> UsageError:
    return UsageError("option-value", f"{source} is {value!r}", f"It must be {wanted}.")


def read_config(path: str) -> dict[str, Any]:
    """The mapping in a YAML or TOML file.

    Raises:
        UsageError: It is missing, unreadable, malformed, or not a mapping.
    """
    try:
        with open(path, "rb") as file:
            data = file.read()
    except OSError as error:
        raise UsageError(
            "config-missing", f"--config {path}: {error.strerror}", "Give the path of a YAML or TOML file."
        ) from None
    values = _parse_toml(data, path) if path.endswith(".toml") else _parse_yaml(data, path)
    if values is None:
        return {}
    if not isinstance(values, dict):
        raise UsageError(
            "config-malformed",
            f"--config {path}: it holds a {type(values).__name__}, not a mapping",
            "Write one 'option: value' a line.",
        )
    return values


def _parse_toml(data: bytes, path: str) -> Any:
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    try:
        return tomllib.loads(data.decode())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError("config-malformed", f"{path} is not TOML: {error}") from None


def _parse_yaml(data: bytes, path: str) -> Any:
    try:
        import yaml
    except ImportError:
        raise UsageError(
            "missing-extra",
            f"--config {path}: reading YAML needs PyYAML, which is not installed",
            'pip install "voir-overseer[yaml]", or write it in TOML: a file ending in .toml',
        ) from None
    try:
        return yaml.safe_load(data)
    except yaml.YAMLError as error:
        said = " ".join(str(error).split())
        raise UsageError("config-malformed", f"{path} is not YAML: {said}") from None


def read_pyproject(directory: str) -> tuple[str, dict[str, Any]] | None:
    """``[tool.voir]`` of the nearest ``pyproject.toml`` in ``directory`` or above it, if any."""
    while True:
        path = os.path.join(directory, "pyproject.toml")
        if os.path.isfile(path):
            return _tool_table(path)
        parent = os.path.dirname(directory)
        if parent == directory:
            return None
        directory = parent


def _tool_table(path: str) -> tuple[str, dict[str, Any]] | None:
    with open(path, "rb") as file:
        data = file.read()
    if b"tool.voir" not in data:  # Parsing TOML costs milliseconds that most projects need not pay.
        return None
    table = _parse_toml(data, path).get("tool", {}).get("voir")
    return (f"{path} [tool.voir]", table) if isinstance(table, dict) else None
