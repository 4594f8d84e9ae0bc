"""The code of a function of torch's: with all of our markers, with the first few, with none.

Placing a probe and taking it out again takes milliseconds. Where markers are not wanted for some
steps only, the function is given the code that it had before them, and theirs again afterwards.
"""

from __future__ import annotations

from types import CodeType, FunctionType


class Codes:
    """Remembers the code that a function has, marker by marker.

    Args:
        function: It has none of them yet.
    """

    __slots__ = ("_function", "_known")

    def __init__(self, function: FunctionType) -> None:
        self._function = function
        self._known: list[CodeType] = [function.__code__]

    def placed(self) -> None:
        """One more marker is in its code."""
        self._known.append(self._function.__code__)

    def use(self, markers: int) -> None:
        """Let it have so many of them, unless somebody else has given it other code by now."""
        if any(self._function.__code__ is code for code in self._known):
            self._function.__code__ = self._known[markers]

    def close(self) -> None:
        """Let it have all of them, and forget its code."""
        self.use(-1)
        self._known.clear()
