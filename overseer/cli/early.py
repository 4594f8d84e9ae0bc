"""What must be known before voirfiles are loaded: which ones, and which script, probably."""

from __future__ import annotations

import os
from argparse import Namespace
from collections.abc import Mapping

from ..engine.commandline import add_options
from ..engine.options import OptionParser, configurations
from ..launch import current_directory

NEEDED = {"voirfile", "no_voirfile", "debug", "quiet"}


def look_ahead(argv: list[str], environ: Mapping[str, str]) -> tuple[Namespace, str | None]:
    """The options that decide which voirfiles apply, and the script's file if there is one.

    Voirfiles add options, so the command line cannot be parsed before they are loaded; options
    that are not known yet are passed over here, and judged when they are.
    """
    parser = OptionParser(environ=environ)
    add_options(parser)
    # What is to be completed is no command line yet.
    own, script = _scan(parser, argv[:2] if argv[:1] == ["--completion"] else argv)
    for source, values in configurations(own, environ, current_directory()):
        wanted = {k: v for k, v in values.items() if str(k).replace("-", "_") in NEEDED}
        parser.add_config(source, wanted)
    return parser.resolve(own), script


def _scan(parser: OptionParser, argv: list[str]) -> tuple[list[str], str | None]:
    rest, own = list(argv), list[str]()
    while rest:
        token = rest[0]
        if token == "-m" or (token.startswith("-m") and not token.startswith("--")):
            module = token[2:] or (rest[1] if len(rest) > 1 else "")
            return own, _module_file(module)
        if not token.startswith("-") or token == "-":
            if os.path.exists(token) or not _more_to_come(rest[1:]):
                return own, token if os.path.exists(token) else None
            rest.pop(0)  # The value of an option that a voirfile will explain.
        elif token.partition("=")[0] in parser._option_string_actions:
            parser._move(rest, own)
        else:
            rest.pop(0)
    return own, None


def _more_to_come(rest: list[str]) -> bool:
    return any(os.path.exists(token) for token in rest if not token.startswith("-"))


def _module_file(name: str) -> str | None:
    """Where ``-m name`` lives below the current directory; elsewhere has no voirfile for it."""
    path = os.path.join(*name.partition(":")[0].split("."))
    for candidate in (f"{path}.py", os.path.join(path, "__main__.py"), path):
        if os.path.exists(candidate):
            return candidate
    return None
