"""``--display``: print every given event as it comes."""

from __future__ import annotations

from collections.abc import Generator
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
        ov.given.display()
