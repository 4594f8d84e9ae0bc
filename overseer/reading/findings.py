"""What reading a script has found, and what it has not."""

from __future__ import annotations

from typing import NamedTuple


class Finding(NamedTuple):
    """Something that a voirfile can show.

    Attributes:
        role: ``loss``, ``step``, ``pair``, ``loading``, ``pause``, ``loader``, ``model``,
            ``options``, ``use_cuda``.
        selector: Where it is.
        comment: What it is, for a person to read.
        where: ``file:line``.
        code: The line of the voirfile, if it is not simply to give what the selector finds.
    """

    role: str
    selector: str
    comment: str
    where: str
    code: str | None = None

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
    """

    script: str
    findings: list[Finding]
    missing: list[Missing]
    notes: list[str]

    def of(self, role: str) -> Finding | None:
        """The first finding of a role."""
        return next((f for f in self.findings if f.role == role), None)
