"""Reads a script's text, without running it: where its loop is, and what a voirfile would say."""

from .feeds import Feed, feeds, learns
from .findings import Finding, Missing, Reading
from .read import read_script
from .sources import open_script
from .voirfile import voirfile_text

__all__ = [
    "Feed",
    "Finding",
    "Missing",
    "Reading",
    "feeds",
    "learns",
    "open_script",
    "read_script",
    "voirfile_text",
]
