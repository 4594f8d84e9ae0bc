"""A finding of ``voir doctor``."""

from __future__ import annotations

from typing import NamedTuple

GOOD, WARNING, BAD = "ok", "note", "bad"


class Finding(NamedTuple):
    """A finding about a file, or a part of the installation.

    Attributes:
        state: ``ok``, ``note`` (nothing is wrong, but worth knowing) or ``bad`` (data is lost).
        what: The file or part.
        said: The finding.
        remedy: What to do about it.
    """

    state: str
    what: str
    said: str
    remedy: str = ""
