"""The command ``voir``: finds voirfiles, runs the script with them, exits as Python would."""

from __future__ import annotations

import gc
import os
import sys
from argparse import Namespace
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from itertools import chain

from ..boundary import name_of, said
from ..clock import BEGUN_CPU_NS
from ..context import JOINS, maybe_rank
from ..engine.options import HelpAsked, OptionParser, add_options
from ..engine.overseer import Overseer
from ..engine.settings import configurations, nearest
from ..engine.voirfile import Found, contributed, find, load, stock
from ..errors import Problem, VoirError
from ..files import bounded
from ..imports import on_import
from ..launch import (
    DeadlySignals,
    Ending,
    before_exec,
    current_directory,
    in_child,
    is_launcher,
)
from .notices import STRICT, UNVERIFIED, USAGE, Notices, screen

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

    from ..model.facts import Facts
    from ..rundir.job import Rank

#: Commands that do not run the script, with their arguments and descriptions for the help. Each is
#: a function in a file of the same name. A script of that name takes precedence.
COMMANDS = {
    "show": ("RUN", "show its summary again"),
    "runs": ("", "list all runs, newest first"),
    "watch": ("RUN", "show a live run's dashboard"),
    "bench": ("SCRIPT", "run a script many times; compare versions of it"),
    "try": ("-- SCRIPT", "judge a change: accept, reject or inconclusive"),
    "compare": ("A B", "compare two runs"),
    "report": ("RUN", "write a page about it to pass on"),
    "sql": ('RUN "..."', "query a run with SQL"),
    "trace": ("view RUN", "show its timeline in Perfetto"),
    "stop": ("RUN", "end a live run cleanly"),
    "stacks": ("RUN", "show where a live run's threads are"),
    "doctor": ("", "check the installation, or a run"),
    "init": ("SCRIPT", "write a voirfile for a script"),
    "skill": ("", "print a page for coding agents"),
}
#: Words that people type for a command or an option.
MEANT = {"help": "--help", "version": "--version", "list": "runs", "ls": "runs"}
#: Options that determine which voirfiles apply.
NEEDED = {"voirfile", "no_voirfile", "debug"}
#: Options, and their variables, that do not concern instruments.
PLAIN_OPTIONS = {"--no-record", "--no-voirfile", "--quiet", "--run-dir", "--strict"}
PLAIN_VARIABLES = {f"VOIR_{option[2:].replace('-', '_').upper()}" for option in PLAIN_OPTIONS}
#: With more frozen objects, not all are Python's own: 3.12 has some 400 immortal ones.
FROZEN = 1000
#: Packages that search all objects for functions.
SEARCHING = frozenset({"codefind", "ptera"})
#: State of a probe in code that torch.compile replaced; not an error.
COMPILED_AWAY = "compiled away"


def main(argv: list[str] | None = None) -> None:
    """Run ``argv`` (default: ``sys.argv[1:]``) and end the process as the script would."""
    argv = sys.argv[1:] if argv is None else argv
    notices = Notices(sys.stderr)
    if argv and argv[0] in MEANT and not is_runnable(argv[0]):
        asked = argv[0] == "help" and argv[1:2] and argv[1] in COMMANDS
        argv = [argv[1], "--help"] if asked else [MEANT[argv[0]], *argv[1:]]
    if argv and argv[0] in COMMANDS and not is_runnable(argv[0]):
        from .commands import command

        sys.exit(command(argv, notices))
    try:
        options, script = look_ahead(argv, os.environ)
        if is_launcher(options.target):
            from .launchers import launch

            return launch(argv[: len(argv) - len(options.target)], options.target, notices)
        overseer = prepare(argv, options, script, notices)
    except VoirError as error:
        refuse(error, notices)
    except KeyboardInterrupt as interrupted:  # In a voirfile that runs for long.
        ending = Ending()
        ending.announce(interrupted)
        ending.leave(interrupted)
        return None
    return run(overseer, argv, notices)


def refuse(error: VoirError, notices: Notices) -> NoReturn:
    """End with an error of usage; the ranks of a machine have the same one, so the first shows it.

    Raises:
        SystemExit: Always.
    """
    rank = rank_of(os.environ)
    if rank is None or not rank.local_rank:
        notices.problem(error)
    sys.exit(getattr(error, "status", USAGE))


def rank_of(environ: Mapping[str, str]) -> Rank | None:
    """The rank of this process, if a launcher started several."""
    if not maybe_rank(environ):
        return None
    from ..rundir.job import find_rank

    rank = find_rank(environ)
    return None if rank is None or rank.world_size == 1 else rank


def is_runnable(name: str) -> bool:
    """Test whether Python could run a script of this name, which then takes precedence."""
    return os.path.isfile(name) or os.path.isfile(os.path.join(name, "__main__.py"))


def prepare(argv: list[str], options: Namespace, script: str | None, notices: Notices) -> Overseer:
    """Create an Overseer with the stock instruments and those of the voirfiles that apply.

    Args:
        argv: The command line.
        options: Those that determine which voirfiles apply, see :func:`look_ahead`.
        script: The script's file, if known.
        notices: Shows problems.
    """
    rank, joins = rank_of(os.environ), os.environ.pop(JOINS, "")  # Not for what the script starts.
    # The job's summary has the problems of other ranks and of children.
    tell = bool if joins or (rank is not None and rank.rank) else notices.problem
    overseer = Overseer(tell=tell, stderr=sys.stderr, since_ns=BEGUN_CPU_NS)
    overseer.argv[:], report = argv, overseer.report
    overseer.context.joins = joins
    overseer.argparser.epilog = _listed()
    named, here = options.voirfile, current_directory()
    found = [] if options.no_voirfile else find(named, os.environ, here, script, report)
    if options.debug:
        explain(found, options.no_voirfile, notices)
    overseer.voirfiles[:] = [one.path for one in found]
    if found:
        overseer.watch_instruments()
    others = contributed(report)
    plain = options.plain and not (found or others)
    ours = stock(lambda module, always: always or not plain)  # Importing takes time.
    overseer.argparser.yielding.update(map(name_of, ours))
    overseer.add_instruments([*ours, *others])
    overseer.add_instruments(load(found, report))
    return overseer


# Before voirfiles are loaded: which ones apply, and which script is probably meant


def look_ahead(argv: list[str], environ: Mapping[str, str]) -> tuple[Namespace, str | None]:
    """Parse the options that determine which voirfiles apply; return them and the script's file.

    Two options are added. ``plain``: True if no option concerns an instrument. ``target``: the
    command line from the script on.

    Voirfiles add options, so the whole command line can only be parsed after they are loaded.
    Unknown options are skipped here and checked then.
    """
    if _is_plain(argv, environ):  # `voir main.py`: creating a parser takes milliseconds.
        none = Namespace(voirfile=[], no_voirfile=False, debug=False, plain=True, target=argv)
        return none, argv[0]
    parser = OptionParser(environ=environ)
    add_options(parser)
    own, target, unknown = _scan(parser, argv)
    plain = not unknown and all(token in PLAIN_OPTIONS for token in own if token.startswith("-"))
    plain &= PLAIN_VARIABLES.issuperset(
        name for name in environ if name.startswith(("VOIR_", "_VOIR_"))
    )
    for source, values in configurations(own, environ, current_directory()):
        plain = False
        wanted = {k: v for k, v in values.items() if str(k).replace("-", "_") in NEEDED}
        parser.add_config(source, wanted)
    options = parser.resolve(own)
    options.plain, options.target = plain, target
    return options, _script_of(target)


def _is_plain(argv: list[str], environ: Mapping[str, str]) -> bool:
    asked = any(name.startswith(("VOIR_", "_VOIR_")) for name in environ)
    if asked or not argv or argv[0].startswith("-") or not os.path.exists(argv[0]):
        return False
    return not any(configurations([], environ, current_directory()))


def _scan(parser: OptionParser, argv: list[str]) -> tuple[list[str], list[str], bool]:
    """Return voir's own tokens, the rest, and whether unknown options precede it."""
    rest, own, unknown = list(argv), list[str](), False
    while rest:
        token = rest[0]
        if token.startswith("-m"):
            break
        if token.partition("=")[0] in parser._option_string_actions:
            parser._move(rest, own)
            continue
        there = [os.path.exists(each) for each in rest if each == "-" or each[:1] != "-"]
        if (token == "-" or token[:1] != "-") and (there[0] or not any(there)):
            break
        rest.pop(0)  # An option of an instrument, or its value.
        unknown = True
    return own, rest, unknown


def _script_of(target: list[str]) -> str | None:
    """The file of the script, if it exists."""
    if target and target[0].startswith("-m"):
        return _module_file(target[0][2:] or (target[1] if len(target) > 1 else ""))
    return target[0] if target and os.path.exists(target[0]) else None


def _module_file(name: str) -> str | None:
    """The file of ``-m name`` below the current directory; other modules have no voirfile."""
    path = os.path.join(*name.partition(":")[0].split("."))
    tried = (f"{path}.py", os.path.join(path, "__main__.py"), path)
    return next(filter(os.path.exists, tried), None)


# The run


def _listed() -> str:
    """The list of commands for the help."""
    head = "commands (RUN defaults to the latest; -2 is the one before it):"
    named = [(f"{name} {what}", does) for name, (what, does) in COMMANDS.items()]
    return "\n".join([head, *(f"  voir {each:<16} {does}" for each, does in named)])


def explain(found: list[Found], none: bool, notices: Notices) -> None:
    """Log which voirfiles are loaded, and why."""
    if not found:
        why = "--no-voirfile" if none else "none found here, beside the script, or above"
        notices.line(f"no voirfile loaded: {why}")
    for one in found:
        notices.line(f"loading {one.path}: {one.why}")


def run(overseer: Overseer, argv: list[str], notices: Notices) -> None:
    """Run the script, show the summary, and end the process as the script did."""
    ending = Ending()
    overseer.ending.on_leave = ending.ignore_repeats
    overseer.ending.announce = lambda error: announce(overseer, ending, error)
    error: BaseException | None = None
    signals = DeadlySignals(
        lambda signum: killed(overseer, signum, notices),
        lambda: overseer.exit_status is not None or overseer.status == "finalized",
    )
    replacing = before_exec(lambda: replaced(overseer, notices))
    with signals, replacing, frozen(overseer), following(overseer):
        try:
            value = overseer(argv)
            if isinstance(value, int) and not isinstance(value, bool):
                error = SystemExit(value)  # From -m MODULE:FUNCTION, as for a console script.
        except HelpAsked as asked:
            show_help(asked.text)
            return
        except VoirError as refused:
            if isinstance(refused, FileNotFoundError):  # Perhaps a command was meant.
                for near in nearest(overseer.options.SCRIPT, COMMANDS, cutoff=0.7)[:1]:
                    refused.remedy = f"Did you mean the command {near}? {refused.remedy}"
            refuse(refused, notices)
        except BaseException as other:
            error = other
        if error is not None:
            ending.announce(error, overseer.program)  # Unless it has been announced already.
        if not in_child():
            show(overseer, notices)
    if in_child():  # A fork of the script leaves here too; the run belongs to its parent.
        ending.leave(error)
        return
    if overseer.failed_checks:
        ending.leave(error, UNVERIFIED, instead=True)
    ending.leave(error, strictness(overseer))


@contextmanager
def frozen(overseer: Overseer) -> Iterator[None]:
    """Exclude objects that exist before the script starts from its garbage collections.

    They are unfrozen at the end, unless the script has frozen objects of its own. Nothing is frozen
    if objects are frozen already, or if a voirfile imported a package that searches all objects.
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


@contextmanager
def following(overseer: Overseer) -> Iterator[None]:
    """Record processes that the script starts, once it imports the modules that start them."""
    with ExitStack() as undo:

        def commands(subprocess: Any) -> None:
            from .programs import follow_commands

            undo.callback(follow_commands(overseer))

        def processes(process: Any) -> None:
            from .children import follow_processes

            undo.enter_context(follow_processes(overseer))

        def workers(node: Any) -> None:
            from .workers import follow_workers

            undo.callback(follow_workers(overseer, node))

        def ready() -> None:
            if not overseer.options.no_record:
                undo.callback(on_import("subprocess", commands).dispose)
                undo.callback(on_import("multiprocessing.process", processes).dispose)
                undo.callback(on_import("ray._private.node", workers).dispose)

        overseer.on_ready.append(ready)
        yield


def announce(overseer: Overseer, ending: Ending, error: BaseException | None) -> int:
    """Print the script's end as Python does; explain an option that was meant for voir."""
    status = ending.announce(error, overseer.program)
    if status == USAGE and not in_child():
        with suppress(Exception):  # Importing fails if no descriptor is left.
            report_misplaced(overseer, error)
    return status


def report_misplaced(overseer: Overseer, error: BaseException | None) -> None:
    """Report an option of voir's that was passed to the script, which rejected it."""
    from ..engine.help import TOPICS
    from .misplaced import misplaced

    program = overseer.program
    arguments = program.target.argv if program is not None else ()
    # In a plain run, some instruments have not added their options.
    options = {*overseer.argparser._option_string_actions, *chain.from_iterable(TOPICS.values())}
    found = misplaced(error, arguments, options)
    if found is not None:
        overseer.report(found)


def show_help(text: str) -> None:
    """Print ``text``; a reader that closes the pipe (``voir --help | head``) is not an error."""
    try:
        print(text, flush=True)
    except BrokenPipeError:  # Python would fail again on exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


def killed(overseer: Overseer, signum: int, notices: Notices) -> None:
    """End the run cleanly, on top of the script's frames, before a signal ends the process."""
    overseer.end_by_signal(signum)
    show(overseer, notices)


def replaced(overseer: Overseer, notices: Notices) -> None:
    """End the run cleanly before another program replaces the process."""
    if overseer.end_by_exec():
        show(overseer, notices)


def show(overseer: Overseer, notices: Notices) -> None:
    """Print the summary, or only the probes that never fired if ``--quiet`` is given.

    Of a job, the last rank out on the first machine prints the job's.
    """
    if not overseer.run:
        return
    if getattr(overseer.options, "quiet", False) and not overseer.failed_checks:
        for problem in silent_probes(overseer):  # --quiet hides figures, not missing ones.
            notices.problem(problem)
        return
    try:
        width, colour = notices.width(), notices.colour
        with bounded():  # Imports write byte code.
            from ..views.summary import failure

            run = facts_to_show(overseer, notices)
            if run is None:
                return
            if overseer.dashed and overseer.context.outcome.error and "verify" not in run:
                text = failure(run, width, colour)  # Keep the traceback visible.
            else:
                text = screen(run, width, colour, notices.height())
    except Exception as error:  # Out of memory or descriptors: the script's exit status is kept.
        notices.line(f"the summary cannot be shown: {said(error)}")
    else:
        notices.write(notices.new_line() + text)


def facts_to_show(overseer: Overseer, notices: Notices) -> Facts | None:
    """The facts to summarize: the run's, or its job's; None if another process shows them.

    Problems of ranks that have not been printed yet are printed.
    """
    run, wanted = overseer.run, getattr(overseer.options, "summary_rank", None)
    known = rank_of(os.environ)
    rank = run.get("rank", known and known.rank)
    if rank is not None and wanted is not None:
        if wanted < (run.get("world_size") or wanted + 1):
            return run if rank == wanted else None
        if rank == 0:
            what = f"rank {wanted} does not exist: ranks are 0 to {run['world_size'] - 1}"
            remedy = "This is the summary of the job."
            notices.problem(Problem("no-such-rank", "--summary-rank", what, remedy=remedy))
    if "directory" not in run:  # Without records no rank knows of the others.
        for problem in overseer.problems if rank else ():
            notices.problem(problem)
        return None if rank else run
    several = rank is not None and run.get("world_size") != 1
    if not several and not _has_members(run["directory"]):
        return run
    from ..job.summary import problems_of_others, summary_facts

    facts = summary_facts(run)
    for problem in problems_of_others(facts) if facts is not None else ():
        notices.problem(problem)
    return facts


def _has_members(directory: str) -> bool:
    """Whether processes that the script started may have joined its run."""
    return any(name.startswith(("rank", "process")) for name in os.listdir(directory))


def strictness(overseer: Overseer) -> int:
    """The exit status of ``--strict``."""
    if not getattr(overseer.options, "strict", False):
        return 0
    failed = [p for p in silent_probes(overseer) if p.what != COMPILED_AWAY]
    return STRICT if overseer.problems or failed else 0


def silent_probes(overseer: Overseer) -> list[Problem]:
    """Return a problem for every probe that never fired."""
    return [
        Problem("silent-probe", str(p["selector"]), str(p["state"]), p.get("where"), p.get("hint"))
        for p in overseer.probe_verdicts()
        if p["state"] != "fired"
    ]
