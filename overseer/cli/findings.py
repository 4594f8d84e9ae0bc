"""What ``voir doctor`` finds."""

from __future__ import annotations

from typing import NamedTuple

GOOD, WARNING, BAD = "ok", "note", "bad"


class Finding(NamedTuple):
    """Something about one file, or one part of the installation.

    Attributes:
        state: ``ok``, ``note`` (nothing is wrong, but know it) or ``bad`` (something is lost).
        what: The file or part.
        said: What about it.
        remedy: What to do.
    """

    state: str
    what: str
    said: str
    remedy: str = ""
