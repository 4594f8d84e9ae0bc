"""The help, with options by topic; and shell completion for them."""

from __future__ import annotations

import re
import sys
from argparse import Action
from functools import partial

from ..errors import UsageError
from ..views.text import coloured

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..engine.options import OptionParser

#: Options of each topic, in display order.
TOPICS = {
    "run": (
        "--stop", "--voirfile", "--no-voirfile", "--config", "--run-dir", "--no-record", "--quiet",
        "--name", "--on-end",
    ),
    "view": ("--dash", "--display", "--monitor", "--tensorboard"),
    "measure": ("--train-rate", "--interval", "--skip"),
    "trace": ("--trace", "--trace-level", "--trace-steps", "--profile"),
    "check": ("--verify", "--verify-loss", "--strict", "--debug"),
}  # fmt: skip
ADVANCED, FROM_VOIRFILES = "advanced", "from voirfiles"
_BOLD, _CYAN, _RESET = "\x1b[1m", "\x1b[36m", "\x1b[0m"


def help_text(parser: OptionParser, everything: bool, environ: Mapping[str, str]) -> str:
    """The text of ``--help`` or ``--help-all``.

    Args:
        parser: Has all options, including those of voirfiles, and the epilog.
        everything: Include the advanced options.
        environ: Controls colours.

    Raises:
        UsageError: A help text cannot be interpolated by argparse.
    """
    topics: dict[str, list[Action]] = {topic: [] for topic in (*TOPICS, ADVANCED, FROM_VOIRFILES)}
    known = {name: topic for topic, names in TOPICS.items() for name in names}
    formatter = parser.new_formatter()
    formatter.add_usage(parser.usage, parser._actions, parser._mutually_exclusive_groups)
    for action in parser._actions:
        try:
            formatter._expand_help(action) if action.help else None
        except (ValueError, KeyError, TypeError) as error:
            what = f"the help of {'/'.join(action.option_strings)} cannot be shown: {error}"
            remedy = "Double each percent sign in help=...: %% is shown as %."
            raise UsageError("option-help", what, remedy) from None
        names = [known[one] for one in action.option_strings if one in known]
        ours = getattr(action, "owner", "voir") in {"voir", *parser.yielding}
        topics[names[0] if names else ADVANCED if ours else FROM_VOIRFILES].append(action)
    hidden = 0 if everything else len(topics.pop(ADVANCED))
    for topic, actions in topics.items():
        order = TOPICS.get(topic, ())
        formatter.start_section(topic)
        formatter.add_arguments(sorted(actions, key=partial(_place, order)))
        formatter.end_section()
    more = f"\nvoir --help-all shows {hidden} more options.\n" if hidden else ""
    rest = f"\n{parser.epilog}\n" if parser.epilog else ""
    text = formatter.format_help() + rest + more
    return _painted(text) if coloured(sys.stdout, environ) else text


def completion(parser: OptionParser, shell: str) -> str:
    """The shell code that completes files and the parser's options in ``shell``.

    Raises:
        UsageError: shtab is not installed.
    """
    try:
        import shtab
    except ImportError:
        what = "--completion needs shtab, which is not installed"
        remedy = 'pip install "voir-overseer[completion]"'
        raise UsageError("missing-extra", what, remedy) from None
    parser._actions.append(Action([], "script", nargs="*", metavar="FILE"))
    for kind, completed in (("FILE", shtab.FILE), ("DIR", shtab.DIRECTORY)):
        for action in [one for one in parser._actions if one.metavar == kind]:
            vars(action)["complete"] = completed
    made: str = shtab.complete(parser, shell)
    return made


def _place(order: tuple[str, ...], action: Action) -> int:
    return min((order.index(one) for one in action.option_strings if one in order), default=0)


def _painted(text: str) -> str:
    """Make headings bold and colour options."""
    text = re.sub(r"^(\w[^\n:]*):", rf"{_BOLD}\1{_RESET}:", text, flags=re.MULTILINE)
    return re.sub(
        r"(?m)^(  )((?:--?[\w-]+|voir \w+)[^\n]*?)(?=  |$)", rf"\1{_CYAN}\2{_RESET}", text
    )
