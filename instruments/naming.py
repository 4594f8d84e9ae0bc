"""``--name NAME`` and ``--tag TAG``: what a run is called, and what it belongs to."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Generator
    from typing import Any

    from overseer import Overseer


def instrument_naming(ov: Overseer) -> Generator[Any, Any, None]:
    """Record the name and the tags that the options give."""
    yield ov.phases.init
    ov.argparser.add_argument(
        "--name", type=_label, metavar="NAME", help="call the run so: voir show NAME"
    )
    ov.argparser.add_argument(
        "--tag", type=_label, action="append", metavar="TAG",
        help="have the run among those of this tag; repeatable",
    )  # fmt: skip
    yield ov.phases.parse_args
    for option, key in (("--name", "name"), ("--tag", "tags")):
        value = getattr(ov.options, option[2:], None)
        if value and option not in ov.argparser.taken:  # Else it is a voirfile's own.
            ov.context.labels[key] = value


def _label(text: str) -> str:
    """A name that no command takes for a path, a number of runs back, or several runs.

    Raises:
        ArgumentTypeError: It could be one of these.
    """
    if not text.strip() or not text.isprintable() or text[0] in "-." or set(text) & set("/,"):
        from argparse import ArgumentTypeError

        raise ArgumentTypeError(f"{text!r} names no run: no / or , and no - or . in front")
    return text
