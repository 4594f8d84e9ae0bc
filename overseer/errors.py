"""Every error that voir raises or prints; each has a slug that docs/errors.md explains."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class VoirError(Exception):
    """An error that voir can explain: what is wrong and what to type instead, without a traceback.

    Args:
        slug: Stable short name of this kind of error, explained in ``docs/errors.md``.
        what: One sentence: the culprit and what is wrong.
        remedy: What to do or type instead.
    """

    def __init__(self, slug: str, what: str, remedy: str | None = None) -> None:
        super().__init__(what)
        self.slug = slug
        self.what = what
        self.remedy = remedy

    def __str__(self) -> str:
        return f"{self.what}\n  {self.remedy}" if self.remedy else self.what


class UsageError(VoirError):
    """The command line, a configuration file or the environment is wrong: exit status 2."""


class InternalError(VoirError):
    """A bug in voir; the message asks the user to report it."""


class Problem:  # Not a dataclass: importing dataclasses would double voir's start-up time.
    """A failure that does not stop the script; reported once and kept in the record.

    Attributes:
        slug: As in :class:`VoirError`.
        who: The culprit: an instrument's name, a selector, a file.
        what: What it did wrong.
        where: ``file:line`` of the useful place, when there is one.
        remedy: What to do about it.
    """

    __slots__ = ("remedy", "slug", "what", "where", "who")

    def __init__(
        self, slug: str, who: str, what: str, where: str | None = None, remedy: str | None = None
    ) -> None:
        self.slug, self.who, self.what, self.where, self.remedy = slug, who, what, where, remedy

    def as_facts(self) -> dict[str, Any]:
        """The problem as ``run.json`` stores it."""
        names = ("slug", "who", "what", "where", "remedy")
        return {name: getattr(self, name) for name in names}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Problem) and self.as_facts() == other.as_facts()

    def __hash__(self) -> int:
        return hash((self.slug, self.who, self.what, self.where, self.remedy))

    def __repr__(self) -> str:
        return f"Problem({self.as_facts()!r})"

    def __str__(self) -> str:
        lines = [f"{self.who}: {self.what}"]
        if self.where:
            lines.append(f"at {self.where}")
        if self.remedy:
            lines.append(self.remedy)
        return "\n  ".join(lines)


def clean(text: object) -> str:
    """Return ``text`` on one line, without control characters."""
    kept = str(text)
    if kept.isascii() and kept.isprintable():
        return kept
    from unicodedata import category

    return "".join(char for char in " ".join(kept.split()) if category(char)[0] != "C")
