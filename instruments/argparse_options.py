"""Give the script's own parsed command line as ``options``."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Generator
    from typing import Any

    from overseer import Overseer


def instrument_argparse(ov: Overseer) -> Generator[Any, Any, None]:
    """Give ``options`` when the script parses its arguments with argparse."""
    yield ov.phases.parse_args  # voir has parsed its own options by now.
    probe = ov.probe("/argparse/ArgumentParser/parse_known_args > #value as options")
    probe.subscribe(lambda event: ov.give(options=event["options"][0]))
