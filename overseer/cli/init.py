"""``voir init SCRIPT``: write a voirfile for a script, from its text alone."""

from __future__ import annotations

import os
import sys
from argparse import RawDescriptionHelpFormatter

from ..errors import VoirError
from ..reading import Reading, open_script, read_script, voirfile_text
from .parsing import CommandParser
from .rows import Layout, Piece, Row, clean, row

_ABOUT = """\
Read SCRIPT and the modules of its project, without running anything, and write a voirfile.py
beside it, with probes for what a training loop has: loss, step, batch, loader, model, options.
"""


#: Cells of the longest role.
_ROLES = len("other loss")
#: Frames that it may take to read an expression: python itself reads some that are nested deeper
#: than a program may call.
_DEEP = 5000


def init(argv: list[str], width: int) -> str:
    """Write the voirfile; what to tell the user.

    Args:
        argv: What follows ``voir init``.
        width: Of the terminal.

    Raises:
        VoirError: The script cannot be read, or there is a voirfile already.
    """
    options = parser().parse_args(argv)
    usual = sys.getrecursionlimit()
    sys.setrecursionlimit(max(_DEEP, usual))
    try:
        script = open_script(options.script)
        reading = read_script(script)
    except RecursionError:
        what = f"{options.script} has an expression that is nested too deeply to be read"
        raise VoirError("init-syntax", what, "Write the voirfile by hand.") from None
    finally:
        sys.setrecursionlimit(usual)
    path = options.output or os.path.join(os.path.dirname(script.path), "voirfile.py")
    _write(path, voirfile_text(reading), options.force)
    return _told(path, _run_as(options.script, script.package), reading, width)


def parser() -> CommandParser:
    """What ``voir init`` takes."""
    made = CommandParser(
        prog="voir init",
        description=_ABOUT,
        formatter_class=_Formatter,
        example="voir init main.py",
    )
    made.add_argument("script", metavar="SCRIPT", help="the script, as it is given to python")
    made.add_argument("--force", action="store_true", help="replace a voirfile that is there")
    made.add_argument("--output", "-o", metavar="FILE", help="write this file instead")
    return made


def _Formatter(prog: str) -> RawDescriptionHelpFormatter:
    return RawDescriptionHelpFormatter(prog, width=80)


def _run_as(script: str, package: str) -> str:
    """The script as it is given to voir: a package that imports from itself by ``-m``."""
    name = os.path.relpath(script)
    if not package or os.path.isabs(name) or name.startswith(os.pardir):
        return script
    name = os.path.dirname(name) if name.endswith("__main__.py") else name
    return f"-m {name.replace(os.sep, '.')}"


def _write(path: str, text: str, force: bool) -> None:
    try:
        with open(path, "w" if force else "x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise VoirError(
            "init-exists",
            f"there is a voirfile already: {path}",
            "It is left alone; --force replaces it, -o FILE writes another one.",
        ) from None
    except OSError as error:
        raise VoirError(
            "init-write", f"{path} cannot be written: {error.strerror}", "Name another: -o FILE"
        ) from None


def _told(path: str, script: str, reading: Reading, width: int) -> str:
    ascii_only = not _unicode()
    labels = [(clean(f.role), clean(f.place(os.curdir))) for f in reading.findings]
    places = max((len(where) for _, where in labels), default=0)
    probes = Layout(width, False, ascii_only, column=_ROLES + places + 6)
    rest = Layout(width, False, ascii_only, column=_ROLES + 4)
    return "".join(
        [
            rest.head("voir:", [Piece(f"wrote {path}"), Piece(_counted(reading))]),
            probes.text(
                row(f"{role:<{_ROLES}}  {where}", clean(finding.selector))
                for (role, where), finding in zip(labels, reading.findings, strict=True)
            ),
            rest.text(_rest(reading)),
            rest.text([row("next", f"voir --verify {script}")]),
        ]
    )


def _counted(reading: Reading) -> str:
    n = len(reading.findings)
    return f"{n} {'probe' if n == 1 else 'probes'}" if n else "nothing found"


def _rest(reading: Reading) -> list[Row]:
    """What was not found, where to look, and what else is worth knowing."""
    rows = []
    for missing in reading.missing:
        rows.append(row("not found", f"{clean(missing.role)}: {clean(missing.why)}"))
        rows.append(row("", clean(missing.look)))
    return rows + [row("note", clean(note)) for note in reading.notes]


def _unicode() -> bool:
    return (getattr(sys.stdout, "encoding", "") or "").lower().startswith("utf")
