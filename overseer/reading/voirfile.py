"""The text of a voirfile for what was found."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator

from .findings import Finding, Reading

_ORDER = ["loss", "other loss", "step", "pair", "loader", "model", "options", "use_cuda", "pause"]


def voirfile_text(reading: Reading) -> str:
    """A voirfile with a commented probe for each finding, and comments for what is missing."""
    name = os.path.basename(reading.script)
    shown = shlex.quote(name)
    lines = [
        f'"""Instruments for {_plain(name)}, as `voir init` found them: change what you like.',
        "",
        f"    voir --verify {_plain(shown)}    checks them",
        f"    voir --dash {_plain(shown)}      shows the run while it goes on",
        '"""',
        "",
        "",
        "def instrument_probes(ov):",
        f"    yield {_phase(reading)}",
    ]
    for note in reading.notes:
        lines += ["", f"    # {note}"]
    for finding in sorted(reading.findings, key=_rank):
        place = finding.place(os.path.dirname(os.path.abspath(reading.script)))
        lines += ["", f"    # {finding.comment} ({place})", *_code(finding)]
    for missing in reading.missing:
        lines += ["", f"    # Not found: {missing.role}: {missing.why}.", f"    # {missing.look}"]
    return "\n".join([*lines, ""])


def _phase(reading: Reading) -> str:
    if any(finding.early for finding in reading.findings):
        return "ov.phases.parse_args  # Resume before any of the script has run."
    return "ov.phases.load_script  # Resume when the script is loaded, before it runs."


def _plain(text: str) -> str:
    """Text that may stand in a docstring."""
    return text.replace("\\", "\\\\").replace('"', '\\"')


def _rank(finding: Finding) -> int:
    return _ORDER.index(finding.role)


def _code(finding: Finding) -> Iterator[str]:
    line = f"    {finding.line}"
    if len(line) <= 100 or "\n" in line:
        yield line
        return
    yield from ("    ov.probe(", f'        "{finding.selector}"', "    ).give()")
