"""Option values from configuration files and the environment, checked as argparse does.

The files are those of --config, in YAML or TOML, and [tool.voir] in pyproject.toml.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Iterable, Iterator, Mapping

from ..boundary import Report
from ..errors import Problem, UsageError, VoirError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Values = dict[str, Any]

TRUE = {"1", "true", "yes", "on", "y"}
FALSE = {"0", "false", "no", "off", "n", ""}


class Fallback(list):  # type: ignore[type-arg]
    """A list that values on the command line replace; argparse would append to it."""

    def __copy__(self) -> list[Any]:
        return []


class Layers:
    """Collects values for options; later ones win.

    Args:
        actions: The options.
        groups: The destinations of dataclasses of options, whose fields may be nested.
        convert: Converts text to a value of an option.

    Attributes:
        chosen: Values by destination.
    """

    def __init__(
        self,
        actions: Iterable[argparse.Action],
        groups: set[str],
        convert: Callable[[argparse.Action, str], Any],
    ) -> None:
        never = ("help", "version", "completion", argparse.SUPPRESS)
        self._actions = [action for action in actions if action.dest not in never]
        self._variables = {variable(action): action for action in self._actions}
        self._groups = groups
        self._convert = convert
        self.chosen: dict[str, Any] = {}

    def take_config(self, source: str, values: Mapping[str, Any], group: str = "") -> None:
        """Take the values of a configuration file.

        Args:
            source: Name of the file in messages.
            values: Values by the option's name, with dashes or underscores.
            group: Prefix of the names if they are fields of a dataclass, with a trailing dot.

        Raises:
            UsageError: There is no such option, or its value is invalid.
        """
        for key, value in values.items():
            name = group + str(key).replace("-", "_")
            if isinstance(value, dict) and name in self._groups:
                self.take_config(f"{source}, {key}", value, f"{name}.")
            else:
                action = self._named(str(key), source, group)
                self.chosen[action.dest] = self._checked(action, value, f"{source}: {key}")

    def take_environment(self, environ: Mapping[str, str]) -> set[str]:
        """Take the values of the options' variables; empty ones are ignored, except for switches.

        Returns:
            The destinations that were set.

        Raises:
            UsageError: A value is invalid.
        """
        found = set()
        for name, action in self._variables.items():
            text = environ.get(name)
            if text or (text is not None and _is_switch(action)):
                value = _from_text(action, text, name)
                self.chosen[action.dest] = self._checked(action, value, name)
                found.add(action.dest)
        return found

    def misspelt(self, environ: Mapping[str, str]) -> Iterator[Problem]:
        """Report variables that nearly match an option; others belong to other programs."""
        for name in environ:
            ours = name.startswith("VOIR_") and name not in self._variables
            if ours and (near := nearest(name, self._variables, cutoff=0.85)):
                what = "it is set, but there is no such option"
                remedy = f"Did you mean {' or '.join(near)}?"
                yield Problem("unknown-variable", name, what, remedy=remedy)

    def _named(self, key: str, source: str, group: str) -> argparse.Action:
        names = {_long(action).lstrip("-"): action for action in self._actions}
        if group:  # Within a group, fields name the options.
            inside = [action for action in self._actions if action.dest.startswith(group)]
            names = {action.dest.removeprefix(group): action for action in inside}
        names = {name.replace("_", "-"): action for name, action in names.items()}
        wanted = key.replace("_", "-")
        if wanted in names:
            return names[wanted]
        near = nearest(wanted, names)
        remedy = f"Did you mean {' or '.join(near)}?" if near else "voir --help lists the options."
        raise UsageError("config-option", f"{source} sets {key!r}, which is not an option", remedy)

    def _checked(self, action: argparse.Action, value: Any, source: str) -> Any:
        if _is_switch(action):
            if not isinstance(value, bool):
                raise _wrong(source, value, "true or false")
            if isinstance(action, argparse.BooleanOptionalAction):
                return value
            off = not action.const if isinstance(action.const, bool) else action.default
            return action.const if value else off
        if not _is_list(action):
            return self._one(action, value, source)
        values = value if isinstance(value, list) else [value]
        if isinstance(action.nargs, int) and len(values) != action.nargs:
            raise _wrong(source, value, f"a list of {action.nargs} values")
        return Fallback(self._one(action, one, source) for one in values)

    def _one(self, action: argparse.Action, value: Any, source: str) -> Any:
        if isinstance(value, (list, dict)) or value is None:
            raise _wrong(source, value, "a single value")
        try:
            return self._convert(action, str(value))
        except argparse.ArgumentError as error:
            raise UsageError("option-value", f"{source}: {error.message}") from None
        except VoirError as error:
            raise UsageError(error.slug, f"{source}: {error.what}", error.remedy) from None


def variable(action: argparse.Action) -> str:
    """The environment variable of an option: ``VOIR_RUN_DIR`` for ``--run-dir``."""
    return "VOIR_" + _long(action).lstrip("-").replace("-", "_").replace(".", "_").upper()


def _long(action: argparse.Action) -> str:
    return max(action.option_strings, key=lambda option: option.startswith("--"))


def _is_switch(action: argparse.Action) -> bool:
    return isinstance(action, (argparse._StoreConstAction, argparse.BooleanOptionalAction))


def _is_list(action: argparse.Action) -> bool:
    return isinstance(action, argparse._AppendAction) or action.nargs not in (None, "?", 0)


def _from_text(action: argparse.Action, text: str, name: str) -> Any:
    if _is_switch(action):
        if text.lower() in TRUE | FALSE:
            return text.lower() in TRUE
        raise _wrong(name, text, "1 or 0")
    return words(text, name) if _is_list(action) else text


def nearest(name: str, known: Iterable[str], cutoff: float = 0.6) -> list[str]:
    """Up to two known names similar to ``name``, by at least ``cutoff``."""
    from difflib import get_close_matches

    return get_close_matches(name, list(known), n=2, cutoff=cutoff)


def _wrong(source: str, value: object, wanted: str) -> UsageError:
    return UsageError("option-value", f"{source} is {value!r}", f"It must be {wanted}.")


# Configuration files


def configurations(
    own: list[str], environ: Mapping[str, str], directory: str, report: Report | None = None
) -> Iterator[tuple[str, Values]]:
    """Yield the name and the values of each configuration file that applies; later ones win.

    Args:
        own: voir's own part of the command line.
        environ: ``VOIR_CONFIG`` names files if ``--config`` does not.
        directory: Directory in and above which to look for ``pyproject.toml``.
        report: Reports a ``pyproject.toml`` that cannot be trusted.

    Raises:
        UsageError: One of them is missing, unreadable or malformed.
    """
    if (table := read_pyproject(directory, report)) is not None:
        yield table
    # Option and value have been joined into one token.
    named = [token.partition("=")[2] for token in own if token.startswith("--config=")]
    for path in named or words(environ.get("VOIR_CONFIG", ""), "VOIR_CONFIG"):
        yield path, read_config(path, "--config" if named else "VOIR_CONFIG")


def words(text: str, name: str) -> list[str]:
    """Split the text of the variable ``name`` into words, as a shell does.

    Raises:
        UsageError: A quotation mark is not closed.
    """
    if not text:
        return []
    from shlex import split

    try:
        return split(text)
    except ValueError:
        raise _wrong(name, text, "words; a quotation mark is not closed") from None


def read_config(path: str, by: str = "--config") -> Values:
    """Return the mapping in a YAML or TOML file.

    Args:
        path: The file.
        by: The option or variable that names it.

    Raises:
        UsageError: It is missing, unreadable, malformed, or not a mapping.
    """
    try:
        with open(path, "rb") as file:
            data = file.read()
    except (OSError, ValueError) as error:
        what = f"{by} {path}: {getattr(error, 'strerror', None) or error}"
        remedy = "Give the path of a YAML or TOML file."
        raise UsageError("config-missing", what, remedy) from None
    values = _parse_toml(data, path) if path.endswith(".toml") else _parse_yaml(data, path)
    return _mapping({} if values is None else values, f"{by} {path}", "option: value")


def _mapping(values: object, source: str, shape: str) -> Values:
    if isinstance(values, dict):
        return values
    what = f"{source}: it holds a {type(values).__name__}, not a mapping"
    raise UsageError("config-malformed", what, f"Write one '{shape}' per line.")


def _parse_toml(data: bytes, path: str) -> Values:
    import tomllib

    try:
        parsed: Values = tomllib.loads(data.decode("utf-8-sig"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError("config-malformed", f"{path} is not TOML: {error}") from None
    return parsed


def _parse_yaml(data: bytes, path: str) -> object:
    try:
        import yaml
    except ImportError:
        what = f"--config {path}: reading YAML needs PyYAML, which is not installed"
        remedy = 'pip install "voir-overseer[yaml]", or write it in TOML: a file ending in .toml'
        raise UsageError("missing-extra", what, remedy) from None
    try:
        return yaml.safe_load(data)
    except (yaml.YAMLError, ValueError) as error:  # ValueError: a date such as 2026-13-45.
        said = " ".join(str(error).split())
        raise UsageError("config-malformed", f"{path} is not YAML: {said}") from None


def read_pyproject(directory: str, report: Report | None = None) -> tuple[str, Values] | None:
    """``[tool.voir]`` of the nearest ``pyproject.toml`` in ``directory`` or above it, if any.

    Raises:
        UsageError: It is malformed.
    """
    path = os.path.join(directory, "pyproject.toml")
    if os.path.isfile(path):
        return _tool_table(path, report)
    parent = os.path.dirname(directory)
    return read_pyproject(parent, report) if parent != directory else None


def _tool_table(path: str, report: Report | None) -> tuple[str, Values] | None:
    try:
        with open(path, "rb") as file:
            data = file.read()
    except OSError:
        return None
    if b"voir" not in data:  # Parsing TOML takes milliseconds; most projects do not need it.
        return None
    tool = _parse_toml(data, path).get("tool")
    table = tool.get("voir") if isinstance(tool, dict) else None
    if table is None:
        return None
    from .voirfile import distrust

    reason = distrust(path)  # It may name a voirfile.
    if reason is not None:
        if report is not None:
            remedy = "Its [tool.voir] was not used. If you trust it: --config with a copy of it."
            report(Problem("config-untrusted", path, reason, remedy=remedy))
        return None
    source = f"{path} [tool.voir]"
    return source, _without_untrusted(_mapping(table, source, "option = value"), report)


def _without_untrusted(table: Values, report: Report | None) -> Values:
    """Remove voirfiles that other users could have written from a project's settings.

    Args:
        table: The settings. They may come with the project, so the table itself is no authority.
        report: Reports what is removed.
    """
    from .voirfile import distrust

    named = table.get("voirfile")
    if not isinstance(named, (str, list)):
        return table
    kept = []
    for one in [named] if isinstance(named, str) else named:
        reason = distrust(one) if isinstance(one, str) and os.path.isfile(one) else None
        if reason is None:
            kept.append(one)
        elif report is not None:
            remedy = f"It was not run. If you trust it: --voirfile {one}"
            report(Problem("voirfile-untrusted", one, reason, remedy=remedy))
    return {**table, "voirfile": named if isinstance(named, str) and kept else kept}
