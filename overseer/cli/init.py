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

#: Steps that the script is run for, as instruments/observe.py has it.
OBSERVED_STEPS = 20
#: Lines that are shown where nothing is written.
MAX_LINES_SHOWN = 6
#: Processor seconds of other programs that are worth a word where no step was seen.
CHILDREN = 1.0
_ABOUT = f"""\
Run SCRIPT for {OBSERVED_STEPS} steps to see what it does, and write a voirfile.py beside it with
what voir does not see by itself.
"""
_USAGE = "voir init [-h] [--check] [--force] [-o FILE] (SCRIPT | -m MODULE) [ARG ...]"


def init(argv: list[str], terminal: Terminal) -> Iterator[str]:
    """Write the voirfile; what to tell the user, piece by piece.

    Args:
        argv: What follows ``voir init``.
        terminal: For its width.

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
        "voir:", [Piece(f"runs {clean(' '.join(command))} for {OBSERVED_STEPS} steps")]
    )
    seen = _run(command)
    yield layout.text(row("note", clean(why)) for why in _of_the_run(seen))
    sources = project(script, root, package)
    found = observe(seen) if seen["tasks"] else read(sources)
    if not found.lines and not found.notes:
        looked = "backward() and a loop that binds a variable with the name of a loss"
        yield layout.head("voir:", [Piece(f"wrote nothing: it looked for {looked}")])
        shown = [line.code for line in lines(sources) if line.role != "loading"][:MAX_LINES_SHOWN]
        what = "what could be given, with names for capitals" if shown else "it has no loop to name"
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
        raise VoirError("init-check", what, f"Mend {path}, or remove it.")


def parser() -> CommandParser:
    """What ``voir init`` takes."""
    example = "voir init main.py"
    made = CommandParser(prog="voir init", description=_ABOUT, usage=_USAGE, example=example)
    add = made.add_argument
    add("script", metavar="SCRIPT", nargs="?", help="the script, as it is given to python")
    add("arguments", metavar="ARG", nargs=REMAINDER, help="its arguments")
    add("-m", dest="module", metavar="MODULE", help="a module in place of a script")
    add("--check", action="store_true", help="run voir --verify on the result")
    add("--force", action="store_true", help="replace a voirfile that is there")
    add("--output", "-o", metavar="FILE", help="write this file instead")
    return made


def _script(options: Namespace) -> tuple[ModuleSource, str, str]:
    """The script's text, where its modules are imported from, and the package that it is in."""
    if options.module is None:
        if options.script is None:
            parser().error("the following arguments are required: SCRIPT")
        script = open_source(options.script)
        return script, os.path.dirname(os.path.abspath(script.path)), ""
    if options.script is not None:
        options.arguments.insert(0, options.script)
    name, _, function = options.module.partition(":")
    path = module_file(name, main=not function)
    if path is None:
        what = f"there is no module {name} that voir init could read"
        raise VoirError("init-script", what, "Give what you would give to python after -m.")
    return open_source(path, name if function else MAIN), os.getcwd(), name.rpartition(".")[0]


def _run(command: list[str]) -> dict[str, Any]:
    """Run the script for a few steps; what was seen.

    Raises:
        VoirError: It failed before a step.
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
        raise VoirError("init-run", what, "Mend that first; its arguments come after it.")
    return seen


def _of_the_run(seen: dict[str, Any]) -> Iterator[str]:
    """What there is to say of the run."""
    if seen["status"]:
        yield f"it ended with status {seen['status']}: nothing is known of what would have followed"
    elif not seen["tasks"]:
        torch = "no step was seen" if seen.get("torch") else "it does not import torch"
        yield f"{torch}: only its text is read"
        if seen.get("children", 0) > CHILDREN:
            worked = f"what it started worked for {seen['children']:.1f} s"
            yield f"{worked}: if that trains, give it to voir init"
    yield from (what for what, _ in seen.get("problems", ()))


def _refuse(path: str, force: bool) -> None:
    """Refuse what could not be written, before anything is run."""
    if os.path.exists(path) and not force:
        what = f"there is a voirfile already: {path}"
        remedy = "It is left alone; --force replaces it, -o FILE writes another one."
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
