"""Stepping into functions of other libraries, by an attribute of the class or module they are in.

For functions of which a probe would be too dear, because their file is long: nothing has to be read
or compiled here. Where it is caught and printed, an error shows the function that stands in; it is
made here because tracebacks that end a script leave out what is of this package.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

#: Called with the arguments and the named arguments of a call; before it, returns whether what is
#: to be called after it is wanted this time.
Aside = Callable[[tuple[Any, ...], dict[str, Any]], object]
Undo = Callable[[], None]


def around(owner: Any, name: str, before: Aside | None, after: Aside | None = None) -> Undo:
    """Call ``before`` and ``after`` around each call of ``owner.name``, until undone.

    Neither may raise anything but what is meant for the script.

    Args:
        owner: The class or module that has the function itself.
        name: The function's name there.
        before: Called before it.
        after: Called when it has returned or raised.

    Raises:
        KeyError: There is no such function.
    """
    own = vars(owner)[name]

    def first(*args: Any, **kwargs: Any) -> Any:
        before(args, kwargs)  # type: ignore[misc]
        return own(*args, **kwargs)

    def both(*args: Any, **kwargs: Any) -> Any:
        if before is not None and not before(args, kwargs):
            return own(*args, **kwargs)
        try:
            return own(*args, **kwargs)
        finally:
            after(args, kwargs)  # type: ignore[misc]

    return _put(owner, name, own, first if after is None else both)


def _put(owner: Any, name: str, own: Any, stand_in: Any) -> Undo:
    code = getattr(own, "__code__", None)
    stand_in = wraps(own)(stand_in)
    if code is not None:
        stand_in.__code__ = stand_in.__code__.replace(co_name=code.co_name)
    stand_in._torchdynamo_disable = True  # torch.compile calls it instead of looking into it.
    setattr(owner, name, stand_in)

    def undo() -> None:
        if vars(owner).get(name) is stand_in:  # Else somebody has put another around it.
            setattr(owner, name, own)

    return undo
