"""Runs the Python programs that a script starts under voir, in the directory of its run."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence

from ..context import JOINS
from ..engine.overseer import Overseer
from ..errors import Problem
from ..launch import Program, current_directory
from ..launch.commands import PythonCommand, finds_voir, watch_commands

#: Options that name files.
PATHS = ("--voirfile", "--config", "--run-dir")
#: Variables of a script that starts itself again for the other ranks of its job.
OF_RANKS = ("RANK", "LOCAL_RANK")


def follow_commands(overseer: Overseer) -> Callable[[], None]:
    """Run programs that the script starts with ``subprocess`` under voir.

    These are the script itself, started again as another rank, and with ``--follow-children`` all
    others.

    Returns:
        Ends it.
    """
    options, program = overseer.options, overseer.program
    own = absolute(overseer.own, current_directory())
    missed: list[PythonCommand] = []

    def rewrite(
        command: PythonCommand, cwd: str | None, environ: Mapping[str, str] | None
    ) -> tuple[list[str], Mapping[str, str] | None] | None:
        environ = os.environ if environ is None else environ
        is_rank = is_again(command, program, cwd) and any(name in environ for name in OF_RANKS)
        words = under_voir(command, own)
        if words is None or is_server(command):
            return None
        if not (is_rank or options.follow_children):
            overseer.unrecorded.append(" ".join(command.target[: 1 + (command.target[0] == "-m")]))
            return None
        assert overseer.recording is not None
        shared = overseer.recording.directory.share()
        if not shared:
            return None
        if not finds_voir(command.start, cwd, environ):
            if not missed:
                missed.append(command)
                what = f"{command.target[0]} is not recorded: its python does not find voir"
                remedy = "Install voir for it, or start it with the same options."
                overseer.report(Problem("other-processes", "voir", what, remedy=remedy))
            return None
        return words, {**environ, JOINS: shared}

    return watch_commands(rewrite)


def is_again(command: PythonCommand, program: Program | None, cwd: str | None) -> bool:
    """Whether a command runs the same script or module."""
    if program is None:
        return False
    if command.target[0] == "-m":
        return program.target.kind == "module" and command.target[1] == program.target.name
    started = os.path.join(cwd or "", command.target[0])
    return program.file is not None and os.path.abspath(started) == os.path.abspath(program.file)


def is_server(command: PythonCommand) -> bool:
    """Whether a command runs one of the programs that a cluster of Ray consists of."""
    home = getattr(sys.modules.get("ray"), "__file__", None)
    return home is not None and command.target[0].startswith(os.path.dirname(home) + os.sep)


def under_voir(command: PythonCommand, own: Sequence[str]) -> list[str] | None:
    """The words of a command with voir in front of the program; None if it is there already."""
    name = command.target[1] if command.target[0] == "-m" else command.target[0]
    if os.path.basename(name) == "voir":
        return None
    return [*command.start, "-m", "voir", *own, *command.target]


def absolute(own: Sequence[str], place: str) -> list[str]:
    """voir's options with absolute paths: a program may be started in another directory."""
    made, names_path = list[str](), False
    for token in own:
        name, equals, value = token.partition("=")
        if names_path:
            made.append(os.path.join(place, token))
        elif equals and name in PATHS:
            made.append(f"{name}={os.path.join(place, value)}")
        else:
            made.append(token)
        names_path = not names_path and token in PATHS
    return made
