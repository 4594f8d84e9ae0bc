"""The command ``voir``: find voirfiles, run the script under an Overseer, end as python would."""

from __future__ import annotations

import os
import sys
from argparse import Namespace
from importlib import import_module

from ..boundary import name_of, said
from ..clock import BEGUN_CPU_NS
from ..engine.installed import contributed, look_for_another_voir
from ..engine.options import HelpAsked
from ..engine.overseer import Overseer
from ..engine.voirfile import Found, find, load
from ..errors import Problem, VoirError
from ..launch import DeadlySignals, Ending, before_exec, current_directory, in_child
from ..record.recording import REPLACED
from .early import look_ahead
from .notices import Notices

TYPE_CHECKING = False

USAGE, UNVERIFIED, STRICT = 2, 3, 4
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
#: The state of a probe whose place torch.compile has taken: nobody did anything wrong.
COMPILED_AWAY = "compiled away"


def main(argv: list[str] | None = None) -> None:
    """Run ``argv`` (``sys.argv[1:]`` when not given) and end the process as the script would."""
    argv = sys.argv[1:] if argv is None else argv
    notices = Notices(sys.stderr)
    if argv and argv[0] in COMMANDS and not runs(argv[0]):
        from .commands import command

        sys.exit(command(argv, notices))
    if argv[:2] == ["--completion", "words"] and completes(argv[2:]):
        return
    try:
        overseer = prepare(argv, notices)
    except VoirError as error:
        notices.error(error)
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


def completes(words: list[str]) -> bool:
    """Print what the last of ``words`` may become; whether it is of a command of ours."""
    from .completing import candidates

    found = candidates(words) if not words or not runs(words[0]) else None
    if found is not None:
        print("\n".join(found))
    return found is not None


def prepare(argv: list[str], notices: Notices) -> Overseer:
    """An Overseer with the instruments of the voirfiles that apply, and the stock ones."""
    options, script = look_ahead(argv, os.environ)
    overseer = Overseer(
        tell=notices.problem,
        stderr=sys.stderr,
        since_ns=BEGUN_CPU_NS,
    )
    overseer.argv = argv
    overseer.argparser.epilog = _listed()
    report = overseer.report
    found: list[Found] = []
    if not options.no_voirfile:
        found = find(options.voirfile, os.environ, current_directory(), script, report)
    if options.debug:
        explain(found, options, notices)
    look_for_another_voir(report)
    overseer.voirfiles = [one.path for one in found]
    if found:
        overseer.watch_instruments()
    others = contributed(report)
    ours = import_module("instruments.stock").stock(options.plain and not (found or others))
    overseer.argparser.yielding.update(map(name_of, ours))
    overseer.add_instruments(ours)
    overseer.add_instruments(others)
    overseer.add_instruments(load(found, report))
    return overseer


def _listed() -> str:
    """The commands, for the help."""
    head = "commands (RUN is the latest if it is left out; -2 is the one before):"
    named = [(f"{name} {what}", does) for name, (what, does) in COMMANDS.items()]
    return "\n".join([head, *(f"  voir {each:<16} {does}" for each, does in named)])


def explain(found: list[Found], options: Namespace, notices: Notices) -> None:
    """Say which voirfiles are loaded and why."""
    if options.no_voirfile:
        notices.line("no voirfile is loaded: --no-voirfile")
    elif not found:
        notices.line("no voirfile is loaded: there is none here, beside the script, or above")
    for one in found:
        notices.line(f"loading {one.path}: {one.why}")


def run(overseer: Overseer, argv: list[str], notices: Notices) -> None:
    """Run the script, show how it went, and end the process as the script's ending demands."""
    ending = Ending()
    overseer.announce = lambda error: announced(overseer, ending, error)
    error: BaseException | None = None
    signals = DeadlySignals(
        lambda signum: killed(overseer, signum, notices),
        lambda: overseer.exit_status is not None or overseer.status == "finalized",
    )
    with signals, before_exec(lambda: replaced(overseer, notices)):
        try:
            value = overseer(argv)
            if isinstance(value, int) and not isinstance(value, bool):
                error = SystemExit(value)  # Of -m MODULE:FUNCTION, as a console script's.
        except HelpAsked as asked:
            show_help(asked.text)
            return
        except VoirError as refused:
            notices.error(refused)
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


def announced(overseer: Overseer, ending: Ending, error: BaseException | None) -> int:
    """Say what python says of the script's end, and what a missing module asks for."""
    status = ending.announce(error, overseer.program)
    if isinstance(error, ModuleNotFoundError) and not in_child():
        from .beside import look_beside

        look_beside(error, overseer.environ, overseer.report)
    return status


def show_help(text: str) -> None:
    """Print ``text``; that its reader has seen enough (``voir --help | head``) is no error."""
    try:
        print(text, flush=True)
    except BrokenPipeError:  # Python would try again, and fail again, when it ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


def killed(overseer: Overseer, signum: int, notices: Notices) -> None:
    """End the run in good order, on top of the script, before a signal ends the process."""
    overseer.exit_status = -signum
    overseer.finalize()
    show(overseer, notices)


def replaced(overseer: Overseer, notices: Notices) -> None:
    """End the run in good order before another program takes the script's place."""
    if overseer.status != "finalized" and overseer.recording is not None:
        overseer.recording.ended_by = REPLACED
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
        from ..views.summary import screen

        text = screen(overseer.run, notices.width(), notices.colour)
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
