"""What must be known before voirfiles are loaded: which ones, and which script, probably."""

from __future__ import annotations

import os
from argparse import Namespace
from collections.abc import Mapping

from ..engine.options import OptionParser, add_options, configurations
from ..launch import current_directory

NEEDED = {"voirfile", "no_voirfile", "debug"}
#: Options, and variables, that ask nothing of an instrument.
PLAIN = {"--no-record", "--no-voirfile", "--quiet", "--run-dir", "--strict"}
VARIABLES = {f"VOIR_{option[2:].replace('-', '_').upper()}" for option in PLAIN}


def look_ahead(argv: list[str], environ: Mapping[str, str]) -> tuple[Namespace, str | None]:
    """The options that decide which voirfiles apply, and the script's file if there is one.

    ``plain`` among them is whether nothing is asked of an instrument.

    Voirfiles add options, so the command line cannot be parsed before they are loaded; options
    that are not known yet are passed over here, and judged when they are.
    """
    if _asks_nothing(argv, environ):  # `voir main.py`: making a parser takes milliseconds.
        return Namespace(voirfile=[], no_voirfile=False, debug=False, plain=True), argv[0]
    parser = OptionParser(environ=environ)
    add_options(parser)
    # What is to be completed is no command line yet.
    own, script, unknown = _scan(parser, argv[:2] if argv[:1] == ["--completion"] else argv)
    plain = not unknown and all(token in PLAIN for token in own if token.startswith("-"))
    plain &= VARIABLES.issuperset(name for name in environ if name.startswith(("VOIR_", "_VOIR_")))
    for source, values in configurations(own, environ, current_directory()):
        plain = False
        wanted = {k: v for k, v in values.items() if str(k).replace("-", "_") in NEEDED}
        parser.add_config(source, wanted)
    options = parser.resolve(own)
    options.plain = plain
    return options, script


def _asks_nothing(argv: list[str], environ: Mapping[str, str]) -> bool:
    if not argv or argv[0].startswith("-") or not os.path.exists(argv[0]):
        return False
    if any(name.startswith(("VOIR_", "_VOIR_")) for name in environ):
        return False
    return not any(configurations([], environ, current_directory()))


def _scan(parser: OptionParser, argv: list[str]) -> tuple[list[str], str | None, bool]:
    """voir's own tokens, the script's file, and whether others are before it."""
    rest, own, unknown = list(argv), list[str](), False
    while rest:
        token = rest[0]
        if token == "-m" or (token.startswith("-m") and not token.startswith("--")):
            module = token[2:] or (rest[1] if len(rest) > 1 else "")
            return own, _module_file(module), unknown
        if not token.startswith("-") or token == "-":
            if os.path.exists(token) or not _more_to_come(rest[1:]):
                return own, token if os.path.exists(token) else None, unknown
            rest.pop(0)  # The value of an option that an instrument will explain.
            unknown = True
        elif token.partition("=")[0] in parser._option_string_actions:
            parser._move(rest, own)
        else:
            rest.pop(0)
            unknown = True
    return own, None, unknown


def _more_to_come(rest: list[str]) -> bool:
    return any(os.path.exists(token) for token in rest if not token.startswith("-"))


def _module_file(name: str) -> str | None:
    """Where ``-m name`` lives below the current directory; elsewhere has no voirfile for it."""
    path = os.path.join(*name.partition(":")[0].split("."))
    for candidate in (f"{path}.py", os.path.join(path, "__main__.py"), path):
        if os.path.exists(candidate):
            return candidate
    return None
