"""What reading a program yields: an entry for every line, and for its start and end."""

from __future__ import annotations

import builtins
from dataclasses import dataclass
from typing import Any

from overseer.record.encode import simplify


@dataclass
class LogEntry:
    """One event of one program.

    Attributes:
        event: ``start``, ``line`` (of text), ``data`` (an object that was logged), ``binary`` (a
            line that is no UTF-8), ``format_error`` (a line on the data stream that is no object),
            ``end``; or the name of an event that the program itself logged as ``$event``.
        data: What belongs to it: the line with its newline, the object, a dict.
        pipe: ``stdout``, ``stderr`` or ``data``; ``None`` for ``start`` and ``end``.
    """

    event: str
    data: Any
    pipe: str | None = None

    def get(self, item: str, default: object = None) -> Any:
        """The attribute ``item``, or ``default`` without it."""
        return getattr(self, item, default)

    def dict(self) -> builtins.dict[str, Any]:
        """The attributes as a dict."""
        return builtins.dict(vars(self))

    def json(self) -> str:
        """The attributes as one line of strict JSON, whatever they are."""
        import json

        return json.dumps(simplify(self.dict()), allow_nan=False)
