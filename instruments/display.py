"""``--display``: print every given event as it comes."""

from __future__ import annotations

import sys
from collections.abc import Generator, Mapping
from typing import Any

from overseer import Overseer


def instrument_display(ov: Overseer) -> Generator[Any, Any, None]:
    """Print every given event on stdout, because the user asked for it."""
    yield ov.phases.init
    ov.argparser.add_argument(
        "--display", action="store_true", help="print every given event on stdout"
    )
    yield ov.phases.parse_args
    if ov.options.display:
        ov.given.display(colors=_colourful(ov.environ))


def _colourful(environ: Mapping[str, str]) -> bool:
    if environ.get("NO_COLOR") or environ.get("TERM") == "dumb":
        return False
    return bool(environ.get("FORCE_COLOR")) or (sys.stdout is not None and sys.stdout.isatty())
