"""The help: options by topic, the most used first; the rest is for ``--help-all``."""

from __future__ import annotations

import re
import sys

from ..views.text import coloured

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Action
    from collections.abc import Mapping

    from ..engine.options import OptionParser

#: Options of each topic, in the order in which they are shown.
TOPICS = {
    "run": (
        "--stop", "--voirfile", "--no-voirfile", "--config", "--run-dir", "--no-record", "--quiet",
    ),
    "look": ("--dash", "--display", "--monitor", "--tensorboard"),
    "measure": ("--train-rate", "--loading-rate", "--compute-rate", "--interval", "--skip"),
    "trace": ("--trace", "--trace-level", "--trace-steps", "--profile"),
    "check": ("--verify", "--verify-loss", "--strict", "--debug"),
}  # fmt: skip
ADVANCED, OWN = "advanced", "of voirfiles"
BOLD, CYAN, RESET = "\x1b[1m", "\x1b[36m", "\x1b[0m"


def help_text(parser: OptionParser, everything: bool, environ: Mapping[str, str]) -> str:
    """What ``--help`` prints, or ``--help-all``.

    Args:
        parser: It knows all options, those of voirfiles included, and what follows them.
        everything: Whether options that few need are shown too.
        environ: Decides on colours.

    Raises:
        UsageError: Somebody's help text cannot be interpolated, as argparse does.
    """
    topics: dict[str, list[Action]] = {topic: [] for topic in (*TOPICS, ADVANCED, OWN)}
    known = {name: topic for topic, names in TOPICS.items() for name in names}
    for action in parser._actions:
        names = [known[one] for one in action.option_strings if one in known]
        ours = getattr(action, "owner", "voir") in {"voir", *parser.yielding}
        topics[names[0] if names else ADVANCED if ours else OWN].append(action)
    for topic, order in TOPICS.items():
        topics[topic].sort(key=lambda action, order=order: _place(action, order))  # type: ignore[misc]
    hidden = 0 if everything else len(topics.pop(ADVANCED))
    more = f"\nvoir --help-all shows {hidden} more options.\n" if hidden else ""
    rest = f"\n{parser.epilog}\n" if parser.epilog else ""
    text = parser.help_of(topics) + rest + more
    return _painted(text) if coloured(sys.stdout, environ) else text


def _place(action: Action, order: tuple[str, ...]) -> int:
    return min(order.index(one) for one in action.option_strings if one in order)


def _painted(text: str) -> str:
    """Headings bold, options coloured."""
    text = re.sub(r"^(\w[^\n:]*):", rf"{BOLD}\1{RESET}:", text, flags=re.MULTILINE)
    return re.sub(r"(?m)^(  )((?:--?[\w-]+|voir \w+)[^\n]*?)(?=  |$)", rf"\1{CYAN}\2{RESET}", text)
