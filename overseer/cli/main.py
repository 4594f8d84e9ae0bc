"""The command ``voir``: find voirfiles, run the script under an Overseer, end as python would."""

from __future__ import annotations

import gc
import os
import sys
from argparse import Namespace
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib import import_module
from itertools import chain

from ..boundary import name_of, said
from ..clock import BEGUN_CPU_NS
from ..context import REPLACED
from ..engine.options import HelpAsked, OptionParser, add_options
from ..engine.overseer import Overseer
from ..engine.settings import configurations, nearest
from ..engine.voirfile import Found, contributed, find, load
from ..errors import Problem, VoirError
from ..files import bounded
from ..launch import (
    DeadlySignals,
    Ending,
    before_exec,
    current_directory,
    end_script_limit,
    in_child,
)
from .notices import STRICT, UNVERIFIED, USAGE, Notices, screen

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

#: Commands that run no script, each the function of its name in the file of its name: what follows
#: it, and what it does, for the help. A script of such a name goes before it.
COMMANDS = {
    "show": ("RUN", "its summary again"),
    "runs": ("", "all runs, newest first"),
    "compare": ("A B", "two runs, and whether their difference is real"),
    "sql": ('RUN "..."', "what it recorded, by SQL"),
    "trace": ("view RUN", "its timeline in Perfetto"),
    "doctor": ("", "what is wrong with the installation, or with a run"),
    "init": ("SCRIPT", "writes a voirfile for a script"),
}
#: What people type who mean a command or an option.
MEANT = {"help": "--help", "version": "--version", "list": "runs", "ls": "runs"}
#: Options that decide which voirfiles apply.
NEEDED = {"voirfile", "no_voirfile", "debug"}
#: Options, and variables, that ask nothing of an instrument.
PLAIN_OPTIONS = {"--no-record", "--no-voirfile", "--quiet", "--run-dir", "--strict"}
PLAIN_VARIABLES = {f"VOIR_{option[2:].replace('-', '_').upper()}" for option in PLAIN_OPTIONS}
#: Of more frozen objects than this, not all are python's own: 3.12 has some 400 immortal ones.
FROZEN = 1000
#: Packages that search all objects for functions.
SEARCHING = frozenset({"codefind", "ptera"})
#: The state of a probe whose place torch.compile has taken: nobody did anything wrong.
COMPILED_AWAY = "compiled away"


def main(argv: list[str] | None = None) -> None:
    """Run ``argv`` (``sys.argv[1:]`` when not given) and end the process as the script would."""
    argv = sys.argv[1:] if argv is None else argv
    notices = Notices(sys.stderr)
    if argv and argv[0] in MEANT and not runs(argv[0]):
        asked = argv[0] == "help" and argv[1:2] and argv[1] in COMMANDS
        argv = [argv[1], "--help"] if asked else [MEANT[argv[0]], *argv[1:]]
    if argv and argv[0] in COMMANDS and not runs(argv[0]):
        from .commands import command

        sys.exit(command(argv, notices))
    try:
        overseer = prepare(argv, notices)
    except VoirError as error:
        notices.problem(error)
        sys.exit(USAGE)
    except KeyboardInterrupt as interrupted:  # In a voirfile that takes its time.
        ending = Ending()
        ending.announce(interrupted)
        ending.leave(interrupted)
        return
    run(overseer, argv, notices)


def runs(name: str) -> bool:
    """Whether python could run a script of this name: it goes before a command of ours."""
    return os.path.isfile(name) or os.path.isfile(os.path.join(name, "__main__.py"))


def prepare(argv: list[str], notices: Notices) -> Overseer:
    """An Overseer with the instruments of the voirfiles that apply, and the stock ones."""
    options, script = look_ahead(argv, os.environ)
    overseer = Overseer(tell=notices.problem, stderr=sys.stderr, since_ns=BEGUN_CPU_NS)
    overseer.argv[:], report = argv, overseer.report
    overseer.argparser.epilog = _listed()
    named, here = options.voirfile, current_directory()
    found = [] if options.no_voirfile else find(named, os.environ, here, script, report)
    if options.debug:
        explain(found, options.no_voirfile, notices)
    overseer.voirfiles[:] = [one.path for one in found]
    if found:
        overseer.watch_instruments()
    others = contributed(report)
    ours = _stock(options.plain and not (found or others))
    overseer.argparser.yielding.update(map(name_of, ours))
    overseer.add_instruments([*ours, *others])
    overseer.add_instruments(load(found, report))
    return overseer


def _stock(plain: bool) -> list[Callable[..., Any]]:
    """The instruments that come with voir; if ``plain`` those that are at work without an option.

    Importing the others takes time.
    """
    package = import_module("instruments")
    return [
        getattr(import_module(f".{module}", package.__name__), name)
        for module, name, always in package.__instruments__
        if always or not plain
    ]


# What must be known before voirfiles are loaded: which ones, and which script, probably


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
    own, script, unknown = _scan(parser, argv)
    plain = not unknown and all(token in PLAIN_OPTIONS for token in own if token.startswith("-"))
    plain &= PLAIN_VARIABLES.issuperset(
        name for name in environ if name.startswith(("VOIR_", "_VOIR_"))
    )
    for source, values in configurations(own, environ, current_directory()):
        plain = False
        wanted = {k: v for k, v in values.items() if str(k).replace("-", "_") in NEEDED}
        parser.add_config(source, wanted)
    options = parser.resolve(own)
    options.plain = plain
    return options, script


def _asks_nothing(argv: list[str], environ: Mapping[str, str]) -> bool:
    asked = any(name.startswith(("VOIR_", "_VOIR_")) for name in environ)
    if asked or not argv or argv[0].startswith("-") or not os.path.exists(argv[0]):
        return False
    return not any(configurations([], environ, current_directory()))


def _scan(parser: OptionParser, argv: list[str]) -> tuple[list[str], str | None, bool]:
    """voir's own tokens, the script's file, and whether others are before it."""
    rest, own, unknown = list(argv), list[str](), False
    while rest:
        token = rest[0]
        if token.startswith("-m"):
            module = token[2:] or (rest[1] if len(rest) > 1 else "")
            return own, _module_file(module), unknown
        if token.partition("=")[0] in parser._option_string_actions:
            parser._move(rest, own)
            continue
        there = [os.path.exists(each) for each in rest if each == "-" or each[:1] != "-"]
        if (token == "-" or token[:1] != "-") and (there[0] or not any(there)):
            return own, token if there[0] else None, unknown
        rest.pop(0)  # Of an instrument that will explain it: an option, or its value.
        unknown = True
    return own, None, unknown


def _module_file(name: str) -> str | None:
    """Where ``-m name`` lives below the current directory; elsewhere has no voirfile for it."""
    path = os.path.join(*name.partition(":")[0].split("."))
    tried = (f"{path}.py", os.path.join(path, "__main__.py"), path)
    return next(filter(os.path.exists, tried), None)


# The run


def _listed() -> str:
    """The commands, for the help."""
    head = "commands (RUN is the latest if it is left out; -2 is the one before):"
    named = [(f"{name} {what}", does) for name, (what, does) in COMMANDS.items()]
    return "\n".join([head, *(f"  voir {each:<16} {does}" for each, does in named)])


def explain(found: list[Found], none: bool, notices: Notices) -> None:
    """Say which voirfiles are loaded and why."""
    if not found:
        why = "--no-voirfile" if none else "there is none here, beside the script, or above"
        notices.line(f"no voirfile is loaded: {why}")
    for one in found:
        notices.line(f"loading {one.path}: {one.why}")


def run(overseer: Overseer, argv: list[str], notices: Notices) -> None:
    """Run the script, show how it went, and end the process as the script's ending demands."""
    ending = Ending()
    overseer.ending.announce = lambda error: announced(overseer, ending, error)
    error: BaseException | None = None
    signals = DeadlySignals(
        lambda signum: killed(overseer, signum, notices),
        lambda: overseer.exit_status is not None or overseer.status == "finalized",
    )
    with signals, before_exec(lambda: replaced(overseer, notices)), frozen(overseer):
        try:
            value = overseer(argv)
            if isinstance(value, int) and not isinstance(value, bool):
                error = SystemExit(value)  # Of -m MODULE:FUNCTION, as a console script's.
        except HelpAsked as asked:
            show_help(asked.text)
            return
        except VoirError as refused:
            if isinstance(refused, FileNotFoundError):  # Perhaps no script was meant.
                for near in nearest(overseer.options.SCRIPT, COMMANDS, cutoff=0.7)[:1]:
                    refused.remedy = f"Did you mean the command {near}? {refused.remedy}"
            notices.problem(refused)
            sys.exit(getattr(refused, "status", USAGE))
        except BaseException as other:
            error = other
        if error is not None:
            ending.announce(error, overseer.program)  # Unless that has been done already.
        if not in_child():
            show(overseer, notices)
    if in_child():  # A fork of the script leaves through here too; the run is its parent's.
        ending.leave(error)
        return
    if overseer.failed_checks:
        ending.leave(error, UNVERIFIED, instead=True)
    ending.leave(error, strictness(overseer))


@contextmanager
def frozen(overseer: Overseer) -> Iterator[None]:
    """Keep what there is when the script begins out of the script's garbage collections.

    At the end python disposes of it, unless the script has frozen its own objects. Where somebody
    has frozen objects before, or a voirfile has imported what searches all objects for functions,
    nothing is frozen.
    """
    later: list[object] = []

    def freeze() -> None:
        if gc.get_freeze_count() < FROZEN and not SEARCHING & sys.modules.keys():
            gc.freeze()
            later.append([])

    overseer.on_ready.append(freeze)
    try:
        yield
    finally:
        if later and id(later[0]) in map(id, gc.get_objects()):
            gc.unfreeze()


def announced(overseer: Overseer, ending: Ending, error: BaseException | None) -> int:
    """Say what python says of the script's end; of an option it refuses, what to do."""
    status = ending.announce(error, overseer.program)
    if status == USAGE and not in_child():
        with suppress(Exception):  # There may be no descriptor left to import by.
            say_misplaced(overseer, error)
    return status


def say_misplaced(overseer: Overseer, error: BaseException | None) -> None:
    """Name an option of voir's that the script was given, and has refused."""
    from ..engine.help import TOPICS
    from .misplaced import misplaced

    program = overseer.program
    arguments = program.target.argv if program is not None else ()
    # Of a run without options not all instruments have been asked for theirs.
    options = {*overseer.argparser._option_string_actions, *chain.from_iterable(TOPICS.values())}
    found = misplaced(error, arguments, options)
    if found is not None:
        overseer.report(found)


def show_help(text: str) -> None:
    """Print ``text``; that its reader has seen enough (``voir --help | head``) is no error."""
    try:
        print(text, flush=True)
    except BrokenPipeError:  # Python would try again, and fail again, when it ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


def killed(overseer: Overseer, signum: int, notices: Notices) -> None:
    """End the run in good order, on top of the script, before a signal ends the process."""
    end_script_limit()
    overseer.context.outcome.exit_status = -signum
    if overseer.recording is not None:
        overseer.recording.begin()  # A script that lets no thread run has measured nothing.
    overseer.finalize()
    show(overseer, notices)


def replaced(overseer: Overseer, notices: Notices) -> None:
    """End the run in good order before another program takes the script's place."""
    end_script_limit()
    if overseer.status != "finalized" and overseer.recording is not None:
        overseer.context.outcome.ended_by = REPLACED
        overseer.finalize()
        show(overseer, notices)


def show(overseer: Overseer, notices: Notices) -> None:
    """Print the summary, and what captured nothing."""
    if not overseer.run:
        return
    if getattr(overseer.options, "quiet", False) and not overseer.failed_checks:
        for problem in silent_probes(overseer):  # Silence is for figures, not for their absence.
            notices.problem(problem)
        return
    try:
        run, width, colour = overseer.run, notices.width(), notices.colour
        with bounded():  # Python may write what it compiles.
            from ..views.summary import failure

            if overseer.dashed and overseer.context.outcome.error and "verify" not in run:
                text = failure(run, width, colour)  # The traceback is what somebody looks for.
            else:
                text = screen(run, width, colour, notices.height())
    except Exception as error:  # Out of memory or descriptors: the script's exit status stands.
        notices.line(f"the summary cannot be shown: {said(error)}")
    else:
        notices.write(notices.new_line() + text)


def strictness(overseer: Overseer) -> int:
    """The exit status that --strict asks for."""
    if not getattr(overseer.options, "strict", False):
        return 0
    failed = [p for p in silent_probes(overseer) if p.what != COMPILED_AWAY]
    return STRICT if overseer.problems or failed else 0


def silent_probes(overseer: Overseer) -> list[Problem]:
    """Every probe that captured nothing, as a problem."""
    return [
        Problem("silent-probe", str(p["selector"]), str(p["state"]), p.get("where"), p.get("hint"))
        for p in overseer.probe_verdicts()
        if p["state"] != "fired"
    ]
