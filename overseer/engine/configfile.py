"""Configuration files: --config in YAML or TOML, and [tool.voir] in pyproject.toml."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping

from ..boundary import Report
from ..errors import Problem, UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Values = dict[str, Any]


def configurations(
    own: list[str], environ: Mapping[str, str], directory: str, report: Report | None = None
) -> Iterator[tuple[str, Values]]:
    """What each configuration file that applies sets, after its name; later ones win.

    Args:
        own: voir's own part of the command line.
        environ: ``VOIR_CONFIG`` names files when ``--config`` does not.
        directory: Where to look for ``pyproject.toml``, and above.
        report: Told when ``pyproject.toml`` cannot be trusted; without it that is passed over.

    Raises:
        UsageError: One of them is missing, unreadable or malformed.
    """
    if (table := read_pyproject(directory, report)) is not None:
        yield table
    named = _named(own)
    for path in named or _in(environ):
        yield path, read_config(path, "--config" if named else "VOIR_CONFIG")


def _named(own: list[str]) -> list[str]:
    paths, before = [], ""
    for token in own:
        if before == "--config":
            paths.append(token)
        elif token.startswith("--config="):
            paths.append(token.partition("=")[2])
        before = token
    return paths


def _in(environ: Mapping[str, str]) -> list[str]:
    text = environ.get("VOIR_CONFIG", "")
    try:
        return words(text)
    except ValueError:
        remedy = "It must be paths; a quotation in it has no end."
        raise UsageError("option-value", f"VOIR_CONFIG is {text!r}", remedy) from None


def words(text: str) -> list[str]:
    """The words of ``text``, as a shell would have them.

    Raises:
        ValueError: A quotation has no end.
    """
    if not text:
        return []
    from shlex import split

    return split(text)


def read_config(path: str, by: str = "--config") -> Values:
    """The mapping in a YAML or TOML file.

    Args:
        path: The file.
        by: What named it.

    Raises:
        UsageError: It is missing, unreadable, malformed, or not a mapping.
    """
    try:
        with open(path, "rb") as file:
            data = file.read()
    except (OSError, ValueError) as error:
        raise UsageError(
            "config-missing",
            f"{by} {path}: {getattr(error, 'strerror', None) or error}",
            "Give the path of a YAML or TOML file.",
        ) from None
    values = _parse_toml(data, path) if path.endswith(".toml") else _parse_yaml(data, path)
    return _mapping({} if values is None else values, f"{by} {path}", "option: value")


def _mapping(values: object, source: str, shape: str) -> Values:
    if isinstance(values, dict):
        return values
    raise UsageError(
        "config-malformed",
        f"{source}: it holds a {type(values).__name__}, not a mapping",
        f"Write one '{shape}' a line.",
    )


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
        raise UsageError(
            "missing-extra",
            f"--config {path}: reading YAML needs PyYAML, which is not installed",
            'pip install "voir-overseer[yaml]", or write it in TOML: a file ending in .toml',
        ) from None
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
    while True:
        path = os.path.join(directory, "pyproject.toml")
        if os.path.isfile(path):
            return _tool_table(path, report)
        parent = os.path.dirname(directory)
        if parent == directory:
            return None
        directory = parent


def _tool_table(path: str, report: Report | None) -> tuple[str, Values] | None:
    try:
        with open(path, "rb") as file:
            data = file.read()
    except OSError:
        return None
    if b"voir" not in data:  # Parsing TOML costs milliseconds that most projects need not pay.
        return None
    tool = _parse_toml(data, path).get("tool")
    table = tool.get("voir") if isinstance(tool, dict) else None
    if table is None:
        return None
    from .trust import distrust

    reason = distrust(path)  # It could name a voirfile.
    if reason is not None:
        if report is not None:
            remedy = "Its [tool.voir] was not used. If you trust it: --config with a copy of it."
            report(Problem("config-untrusted", path, reason, remedy=remedy))
        return None
    source = f"{path} [tool.voir]"
    return source, _mapping(table, source, "option = value")
