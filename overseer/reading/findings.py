"""What reading a script has found, and what it has not."""

from __future__ import annotations

import os
from typing import NamedTuple


class Finding(NamedTuple):
    """Something that a voirfile can show.

    Attributes:
        role: ``loss``, ``other loss``, ``step``, ``pair``, ``pause``, ``loader``, ``model``,
            ``options``, ``use_cuda``.
        selector: Where it is.
        comment: What it is, for a person to read.
        where: ``file:line``, the file as the script was named or absolute.
        code: The line of the voirfile, if it is not simply to give what the selector finds.
        early: It happens while the script is loaded, so its probe must be set before.
    """

    role: str
    selector: str
    comment: str
    where: str
    code: str | None = None
    early: bool = False

    def place(self, start: str) -> str:
        """``file:line`` as seen from the directory ``start``, where that is shorter."""
        path, _, line = self.where.rpartition(":")
        try:
            relative = os.path.relpath(path, start)
        except ValueError:  # Another drive.
            relative = path
        return f"{relative if len(relative) <= len(os.path.abspath(path)) else path}:{line}"

    @property
    def line(self) -> str:
        """The line to write in a voirfile."""
        return self.code or f'ov.probe("{self.selector}").give()'


class Missing(NamedTuple):
    """Something that was not found.

    Attributes:
        role: As :class:`Finding` has it.
        why: What there is instead.
        look: Where to look, or what to do.
    """

    role: str
    why: str
    look: str


class Reading(NamedTuple):
    """All that was found of one script.

    Attributes:
        script: Its file.
        findings: In the order in which a voirfile has them.
        missing: What was looked for in vain.
        notes: What else is worth knowing.
        learns: Whether the script learns, as far as its text tells.
    """

    script: str
    findings: list[Finding]
    missing: list[Missing]
    notes: list[str]
    learns: bool = True

    def of(self, role: str) -> Finding | None:
        """The first finding of a role."""
        return next((f for f in self.findings if f.role == role), None)
