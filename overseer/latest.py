"""Bringing something up to date when several threads may want that at one moment."""

from __future__ import annotations

from collections.abc import Callable


class Latest:
    """Does ``act``, and does it again when somebody has wanted it meanwhile.

    Whoever changes what ``act`` looks at calls this afterwards. Whichever thread is the last to
    come through, what stands then is by the last change. There is no lock, so ``act`` may take
    any, and a fork or a signal may come at any time.

    Args:
        act: Makes something anew from what there is.
    """

    __slots__ = ("_act", "_wanted")

    def __init__(self, act: Callable[[], object]) -> None:
        self._act = act
        self._wanted: object = None

    def __call__(self) -> None:
        """Bring it up to date."""
        wanted = self._wanted = object()
        while True:
            self._act()
            if wanted is self._wanted:
                return
            wanted = self._wanted
