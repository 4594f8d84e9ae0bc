"""The keys that events inherit, and the numbers of blocks, until giving is there.

To import giving takes a tenth of a second, which would be the script's, in the midst of a step. It
goes on with these when it is imported after all: so there is only ever one of each in use.
"""

from __future__ import annotations

from contextvars import ContextVar
from itertools import count
from typing import Any


class Own:
    """What stands in for giving's own.

    Attributes:
        keys: The keys that are inherited in a context.
        numbers: Tells blocks apart.
        used: Whether anybody has turned to these.
    """

    def __init__(self) -> None:
        self.keys: ContextVar[dict[str, Any]] = ContextVar("inherited", default={})  # noqa: B039
        self.numbers = count()
        self.used = False


#: Contexts outlive runs, so that there is one for the process, like giving's.
own = Own()
