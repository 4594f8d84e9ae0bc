"""Changes the commands of Python programs that a script starts with :mod:`subprocess`."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from functools import partial
from shutil import which
from typing import Any, NamedTuple

#: Options of Python with a value, and options after which no program is run.
WITH_VALUE, WITHOUT_PROGRAM = "WX", "cihxV?"


class PythonCommand(NamedTuple):
    """A command that runs a Python program.

    Attributes:
        start: This interpreter, and its options.
        target: The script, or ``-m`` and the module; then the program's arguments.
    """

    start: tuple[str, ...]
    target: tuple[str, ...]


#: Whether Python finds voir, by the way in which it is started.
_ways: dict[tuple[Any, ...], bool] = {}
#: Receives a command, its directory and its environment (None: this process's). Returns the words
#: and the environment of the command to run; None to leave it as it is.
Rewrite = Callable[
    [PythonCommand, str | None, Mapping[str, str] | None],
    tuple[list[str], Mapping[str, str] | None] | None,
]


def python_command(args: object) -> PythonCommand | None:
    """Split the arguments of a ``Popen``; None unless this interpreter runs a program."""
    if not isinstance(args, (list, tuple)) or not args:
        return None
    try:
        words = [os.fsdecode(arg) for arg in args]
    except TypeError:  # Popen raises it.
        return None
    at = 1
    while at < len(words):
        word = words[at]
        if not word.startswith("-"):
            found = PythonCommand(tuple(words[:at]), tuple(words[at:]))
            return found if is_this_python(words[0]) else None
        if word == "-" or word.startswith("--"):
            return None
        for position, letter in enumerate(word[1:], 1):
            rest = word[position + 1 :]
            if letter in WITHOUT_PROGRAM:
                return None
            if letter == "m":  # As in `python -um module`.
                start = [*words[:at], *[word[:position]] * (position > 1)]
                target = ["-m", *[rest] * bool(rest), *words[at + 1 :]]
                fits = len(target) > 1 and is_this_python(words[0])
                return PythonCommand(tuple(start), tuple(target)) if fits else None
            if letter in WITH_VALUE:
                at += not rest
                break
        at += 1
    return None


def is_this_python(name: str) -> bool:
    """Whether a command's first word starts this interpreter: another one may not have voir."""
    found = which(name)
    if not found or not sys.executable:
        return False
    beside = os.path.dirname(os.path.abspath(found)) == os.path.dirname(sys.executable)
    return beside and os.path.realpath(found) == os.path.realpath(sys.executable)


def finds_voir(start: tuple[str, ...], cwd: str | None, environ: Mapping[str, str] | None) -> bool:
    """Whether a Python that is started in this way imports the voir that is running.

    It is started once for each way.

    Args:
        start: The interpreter and its options.
        cwd: Its directory; None: this process's.
        environ: Its environment; None: this process's.
    """
    ours = {k: v for k, v in (environ or os.environ).items() if k.startswith(("PYTHON", "HOME"))}
    way = start, cwd or os.getcwd(), tuple(ours.items())
    if way not in _ways:
        code = "import sys, overseer as o; sys.exit(not o.__file__.startswith(sys.argv[1]))"
        _ways[way] = not subprocess.call(
            [*start, "-c", code, os.path.dirname(os.path.dirname(__file__))],
            cwd=cwd,
            env=environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
    return _ways[way]


class _Start:
    """Stands for the method of ``Popen`` that starts a process.

    Only a command that is changed is called through a function of voir's: the tracebacks of others
    stay as they are.
    """

    def __init__(self, inner: Any, rewrite: Rewrite) -> None:
        self._inner, self._rewrite = inner, rewrite

    def __get__(self, process: Any, owner: type) -> Any:
        start = self._inner.__get__(process, owner)
        command = python_command(getattr(process, "args", None))
        return start if command is None else partial(self._changed, start, command)

    def _changed(self, start: Any, command: PythonCommand, *given: Any) -> object:
        """Call ``Popen._execute_child``; its first ten arguments are those of Python 3.7 on."""
        args, executable, preexec, close_fds, pass_fds, cwd, env, info, flags, shell = given[:10]
        found = None
        if executable is None and not shell:
            try:
                found = self._rewrite(command, cwd, env)
            except Exception:  # Then the process is not recorded.
                pass
        if found is not None:
            args, env = found
        fixed = (args, executable, preexec, close_fds, pass_fds, cwd, env, info, flags, shell)
        return start(*fixed, *given[10:])


def watch_commands(rewrite: Rewrite) -> Callable[[], None]:
    """Change the commands of Python programs from here on; call what this returns to end it."""
    kind: Any = subprocess.Popen
    inner = vars(kind)["_execute_child"]
    kind._execute_child = ours = _Start(inner, rewrite)

    def undo() -> None:
        if vars(kind).get("_execute_child") is ours:  # Otherwise another wrapper is around it.
            kind._execute_child = inner

    return undo
