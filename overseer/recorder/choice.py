"""Which recorder is used: the C extension, or the fallback and why."""

from __future__ import annotations

import os

from .sites import FORMAT

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def _chosen() -> tuple[Any, str]:
    """The module, and why it is the fallback; an empty string if it is not."""
    from importlib import import_module

    why = ""
    if os.environ.get("VOIR_RECORDER") == "python":
        why = "VOIR_RECORDER=python"
    else:
        try:
            made = import_module(f"{__package__}._recorder")
            if made.FORMAT == FORMAT:
                return made, ""
            why = f"the C extension is of format {made.FORMAT}, voir of {FORMAT}"
        except ImportError as error:
            why = f"the C extension is not there: {error}"
    return import_module(f"{__package__}.fallback"), why


recorder: Any
recorder, reason = _chosen()
