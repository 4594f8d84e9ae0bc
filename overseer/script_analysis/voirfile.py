"""Formats the text of a voirfile."""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .observed import Findings, Line

#: Comment above the lines that are commented out.
SEEN = "What is given counts in place of what voir sees. Remove the '# ' of a line to give it."


def voirfile_text(script: str, command: str, found: Findings) -> str:
    """Format a voirfile.

    Args:
        script: The script's file.
        command: The arguments of ``voir`` that run it.
        found: Notes and lines to write.
    """
    live = [line for line in found.lines if line.live]
    seen = [line for line in found.lines if not line.live]
    plain = command.replace("\\", "\\\\").replace('"', '\\"')
    lines = [
        f'"""Instruments for {os.path.basename(script)}, by `voir init`: change what you like.',
        "",
        f"    voir {plain}           runs it with them",
        f"    voir --verify {plain}  checks them",
        '"""',
        "",
        "",
        "def instrument_probes(ov):",
        *(f"    # {note}" for note in found.notes),
        "    yield ov.phases.load_script  # The script is loaded and has not run.",
        *(text for line in live for text in ("", f"    # {line.comment}", *code(line))),
        *(["", f"    # {SEEN}"] if seen else []),
        *(text for line in seen for text in ("", f"    # {line.comment}", *code(line, "# "))),
    ]
    return "\n".join([*lines, ""])


def code(line: Line, before: str = "") -> list[str]:
    """Format code, indented; long lines are split."""
    if "\n" in line.code:
        return [f"    {before}{part}" for part in line.code.splitlines()]
    whole = f"    {before}{line.code}"
    if len(whole) <= 100:
        return [whole]
    selector, _, end = line.code.removeprefix('ov.probe("').partition('").')
    return [f"    {before}{part}" for part in ("ov.probe(", f'    "{selector}"', f").{end}")]
