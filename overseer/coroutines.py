"""Which coroutine runs: where several share a thread, that does not tell whose an event is."""

from __future__ import annotations

import sys
from typing import Any


def coroutine() -> int | None:
    """The task of asyncio's that runs on the calling thread, by its id; None without an event loop.

    Imports nothing: a script that has coroutines has imported what runs them.
    """
    asyncio: Any = sys.modules.get("_asyncio")
    loop = None if asyncio is None else asyncio._get_running_loop()
    return None if loop is None else id(sys.modules["asyncio"].current_task(loop))
