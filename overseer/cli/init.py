"""``voir init SCRIPT``: run a script for a few steps, and write a voirfile for it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from argparse import REMAINDER
from contextlib import suppress
from errno import EACCES, ENOENT
from tempfile import NamedTemporaryFile

from ..errors import VoirError, clean
from ..launch import is_launcher
from ..launch.script import module_file
from ..probes.selector import MAIN
from ..script_analysis.observed import observe
from ..script_analysis.script import ModuleSource, open_source, project
from ..script_analysis.text import lines, read
from ..script_analysis.voirfile import code, voirfile_text
from ..views.text import Layout, Piece, row
from .commands import CommandParser, Terminal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Iterator
    from typing import Any

#: Steps that the script runs for; instruments/observe.py has the same number.
OBSERVED_STEPS = 20
#: Lines shown if no voirfile is written.
MAX_LINES_SHOWN = 6
#: Processor seconds of child processes that are reported if no step was seen.
CHILDREN = 1.0
_ABOUT = f"""\
Run SCRIPT for {OBSERVED_STEPS} steps to see what it does, and write a voirfile.py beside it for
what voir does not detect automatically.
"""
_USAGE = "voir init [-h] [--check] [--force] [-o FILE] (SCRIPT | -m MODULE) [ARG ...]"


def init(argv: list[str], terminal: Terminal) -> Iterator[str]:
    """Write the voirfile; yield the output, piece by piece.

    Args:
        argv: The arguments of ``voir init``.
        terminal: The output's terminal.

    Raises:
        VoirError: The script cannot be read, or the voirfile cannot be written.
    """
    options = parser().parse_args(argv)
    script, root, package = _script(options)
    named = ["-m", options.module] if options.module else [options.script]
    command = [*named, *options.arguments]
    path = os.path.relpath(options.output or os.path.join(root, "voirfile.py"))
    _refuse(path, options.force)
    layout = Layout(terminal.width)
    yield layout.head(
        "voir:", [Piece(f"running {clean(' '.join(command))} for {OBSERVED_STEPS} steps")]
    )
    seen = _run(command)
    yield layout.text(row("note", clean(why)) for why in _of_the_run(seen))
    sources = project(script, root, package)
    found = observe(seen) if seen["tasks"] else read(sources)
    if not found.lines and not found.notes:
        looked = "backward() and a loop that binds a variable with the name of a loss"
        yield layout.head("voir:", [Piece(f"wrote nothing: it looked for {looked}")])
        shown = [line.code for line in lines(sources) if line.role != "loading"][:MAX_LINES_SHOWN]
        what = "lines to give; replace the capitals by names" if shown else "no loop found"
        yield layout.text([row("note", what)])
        yield "".join(f"    {clean(line)}\n" for line in shown)
        return
    flags = ["--voirfile", path] if options.output else []
    text = voirfile_text(script.path, " ".join([*flags, *command]), found)
    _write(path, text, options.force)
    yield layout.head("voir:", [Piece(f"wrote {clean(path)}")])
    yield layout.text(row("note", clean(note)) for note in found.notes)
    yield "".join(f"{clean(part)}\n" for line in found.lines if line.live for part in code(line))
    checked = ["--verify", *flags, *command]
    if not options.check:
        yield layout.text([row("next", clean(f"voir {' '.join(checked)}"))])
        return
    done = subprocess.run([sys.executable, "-m", "voir", "--no-record", *checked], check=False)
    if done.returncode:
        what = f"voir --verify ended with status {done.returncode}"
        raise VoirError("init-check", what, f"Fix {path}, or remove it.")


def parser() -> CommandParser:
    """The parser of ``voir init``."""
    example = "voir init main.py"
    made = CommandParser(prog="voir init", description=_ABOUT, usage=_USAGE, example=example)
    add = made.add_argument
    add("script", metavar="SCRIPT", nargs="?", help="the script, as for python")
    add("arguments", metavar="ARG", nargs=REMAINDER, help="the script's arguments")
    add("-m", dest="module", metavar="MODULE", help="a module instead of a script")
    add("--check", action="store_true", help="run voir --verify on the result")
    add("--force", action="store_true", help="replace an existing voirfile")
    add("--output", "-o", metavar="FILE", help="write this file instead")
    return made


def _script(options: Namespace) -> tuple[ModuleSource, str, str]:
    """Return the script's text, the root of its imports, and its package."""
    if options.module is None:
        if options.script is None:
            parser().error("the following arguments are required: SCRIPT")
        script = open_source(options.script)
        return script, os.path.dirname(os.path.abspath(script.path)), ""
    if options.script is not None:
        options.arguments.insert(0, options.script)
    if is_launcher(["-m", options.module]):
        what = f"{options.module} starts other processes, and makes no steps itself"
        raise VoirError("init-script", what, "Run voir init on the script that it starts.")
    name, _, function = options.module.partition(":")
    path = module_file(name, main=not function)
    if path is None:
        what = f"voir init cannot find the source of module {name}"
        raise VoirError("init-script", what, "Name the module as after python -m.")
    return open_source(path, name if function else MAIN), os.getcwd(), name.rpartition(".")[0]


def _run(command: list[str]) -> dict[str, Any]:
    """Run the script for a few steps; return the observations.

    Raises:
        VoirError: The script failed before a step.
    """
    seen: dict[str, Any] = {"tasks": {}}
    with NamedTemporaryFile(prefix="voir-init-") as file:
        voir = [sys.executable, "-m", "voir", "--no-voirfile", "--no-record", "--quiet"]
        env = {**os.environ, "_VOIR_OBSERVE": file.name}
        status = subprocess.run([*voir, *command], check=False, env=env).returncode
        with suppress(ValueError):
            seen = json.loads(file.read())
    seen["status"] = status
    if status and not seen["tasks"]:
        what = f"the script ended with status {status} before a step"
        raise VoirError("init-run", what, "Fix that first; pass the script's arguments after it.")
    return seen


def _of_the_run(seen: dict[str, Any]) -> Iterator[str]:
    """Yield notes about the run."""
    if seen["status"]:
        yield f"it ended with status {seen['status']}; what would have followed is unknown"
    elif not seen["tasks"]:
        torch = "no step seen" if seen.get("torch") else "it does not import torch"
        yield f"{torch}; using its source only"
        if seen.get("children", 0) > CHILDREN:
            worked = f"its child processes used {seen['children']:.1f} s of CPU time"
            yield f"{worked}: run voir init on a script that trains there"
            yield "probes do not reach processes of multiprocessing; steps need none there"
    yield from (what for what, _ in seen.get("problems", ()))


def _refuse(path: str, force: bool) -> None:
    """Reject paths that could not be written, before the script is run."""
    if os.path.exists(path) and not force:
        what = f"a voirfile exists already: {path}"
        remedy = "--force replaces it; -o FILE writes another file."
        raise VoirError("init-exists", what, remedy)
    place = path if os.path.exists(path) else os.path.dirname(path) or os.curdir
    if not os.access(place, os.W_OK):
        raise _unwritable(path, EACCES if os.path.exists(place) else ENOENT)


def _write(path: str, text: str, force: bool) -> None:
    try:
        with open(path, "w" if force else "x", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise _unwritable(path, error.errno) from None


def _unwritable(path: str, why: int | None) -> VoirError:
    what = f"{path} cannot be written: {os.strerror(why or 0)}"
    return VoirError("init-write", what, "Name another: -o FILE")
