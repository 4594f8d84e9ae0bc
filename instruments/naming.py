"""``--name NAME`` and ``--tag TAG``: label a run."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Generator
    from typing import Any

    from overseer import Overseer


def instrument_naming(ov: Overseer) -> Generator[Any, Any, None]:
    """Record the name and the tags from the options."""
    yield ov.phases.init
    ov.argparser.add_argument(
        "--name", type=_label, metavar="NAME", help="name the run, for voir show NAME"
    )
    ov.argparser.add_argument(
        "--tag", type=_label, action="append", metavar="TAG",
        help="add a tag to the run, for voir runs --tag TAG; repeatable",
    )  # fmt: skip
    yield ov.phases.parse_args
    for option, key in (("--name", "name"), ("--tag", "tags")):
        value = getattr(ov.options, option[2:], None)
        if value and option not in ov.argparser.taken:  # Otherwise a voirfile's option.
            ov.context.labels[key] = value


def _label(text: str) -> str:
    """Accept a name that no command can mistake for a path, an index or a list of runs.

    Raises:
        ArgumentTypeError: The text could be one of these.
    """
    if not text.strip() or not text.isprintable() or text[0] in "-." or set(text) & set("/,"):
        from argparse import ArgumentTypeError

        raise ArgumentTypeError(f"{text!r} names no run: no / or , and no - or . in front")
    return text
