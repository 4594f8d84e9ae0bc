"""Runs a launcher, such as torchrun, so that the processes that it starts run under voir."""

from __future__ import annotations

import sys
from collections.abc import Mapping

from ..engine.options import target_of
from ..launch import CannotRun, Ending, Program, current_directory, locate
from ..launch.commands import PythonCommand, finds_voir, watch_commands
from .notices import Notices
from .programs import absolute, under_voir


def launch(own: list[str], target: list[str], notices: Notices) -> None:
    """Run a launcher and end the process as it would; nothing is recorded of the launcher itself.

    Args:
        own: voir's options, for each process that it starts.
        target: The launcher and its arguments.
        notices: Shows problems.
    """
    own, ending = absolute(own, current_directory()), Ending()
    if target[0].startswith("-m") and len(target[0]) > 2:
        target = ["-m", target[0][2:], *target[1:]]
    program: Program | None = None
    error: BaseException | None = None
    missed: list[PythonCommand] = []

    def rewrite(
        command: PythonCommand, cwd: str | None, environ: Mapping[str, str] | None
    ) -> tuple[list[str], Mapping[str, str] | None] | None:
        words = under_voir(command, own)
        if words is None:
            return None
        if not finds_voir(command.start, cwd, environ):
            if not missed:
                missed.append(command)
                notices.line(f"not recorded: {command.target[0]}, whose python does not find voir")
            return None
        return words, environ

    undo = watch_commands(rewrite)
    try:
        found = target_of(target)
        assert found is not None
        program = locate(found)
        program.load()
        program.run()
    except CannotRun as refused:
        notices.problem(refused)
        sys.exit(refused.status)
    except BaseException as raised:
        error = raised
    finally:
        undo()
    ending.announce(error, program)
    ending.leave(error)
