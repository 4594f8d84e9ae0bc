"""Whether to use colours: the one place that knows NO_COLOR, FORCE_COLOR, TERM and CI."""

from __future__ import annotations

from collections.abc import Mapping

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TextIO


def coloured(stream: TextIO | None, environ: Mapping[str, str]) -> bool:
    """Whether what is written to ``stream`` should have colours; the first that says so decides."""
    if environ.get("NO_COLOR"):
        return False
    if environ.get("FORCE_COLOR"):
        return True
    if environ.get("TERM") == "dumb" or environ.get("CI") or stream is None:
        return False
    try:
        return stream.isatty()
    except (OSError, ValueError):
        return False
