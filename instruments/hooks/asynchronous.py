"""Records the waits of the script's ``async for`` loops.

A wait begins when the loop calls ``__anext__`` and ends where the loop's body or its ``else``
begins. The loop awaits the script's own object, so that exceptions, cancellation and tracebacks
stay as they are without voir.
"""

from __future__ import annotations

import _ast as ast
from functools import partial

from overseer.probes.names import put
from overseer.recorder import recorder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class Waits:
    """Wraps an asynchronous iterable and records each request for an item.

    Args:
        site: The number of the site.
        iterable: The script's iterable.
    """

    __slots__ = ("_iterator", "_site")

    def __init__(self, site: int, iterable: Any) -> None:
        self._site, self._iterator = site, iterable

    def __aiter__(self) -> Any:
        iterator = type(self._iterator).__aiter__(self._iterator)
        if not hasattr(type(iterator), "__anext__"):
            return iterator  # Python raises the error.
        self._iterator = iterator
        return self

    @property  # The script's own method is called: its tracebacks have no frame of this class.
    def __anext__(self) -> Any:
        recorder.asks(self._site)
        return partial(anext, self._iterator)


def waits(site: int, iterable: Any) -> Any:
    """Wrap the iterable of an ``async for`` so that each wait is recorded."""
    return Waits(site, iterable) if hasattr(type(iterable), "__aiter__") else iterable


def wrap(loop: ast.AsyncFor, site: int) -> None:
    """Insert the recording of waits into a loop.

    Args:
        loop: The loop's tree, changed in place.
        site: The number of the site.
    """
    over, came = put("async loop", partial(waits, site)), put("came", partial(recorder.came, site))
    # Positions of the loop's own expressions: debuggers see no new line.
    loop.body.insert(0, _statement(_call(came, loop.target, [_read(loop.target)])))
    loop.orelse.insert(0, _statement(_call(came, loop.iter, [])))
    loop.iter = _call(over, loop.iter, [loop.iter])


def _call(name: str, at: ast.expr, arguments: list[ast.expr]) -> ast.Call:
    there = _position(at)
    return ast.Call(ast.Name(name, ast.Load(), **there), arguments, [], **there)


def _statement(call: ast.Call) -> ast.Expr:
    return ast.Expr(call, **_position(call))


def _position(node: ast.expr) -> dict[str, int]:
    return {name: getattr(node, name) for name in node._attributes}


def _read(target: ast.expr) -> ast.expr:
    """The expression that reads the loop's variables; ``None`` for other targets."""
    there = _position(target)
    if isinstance(target, ast.Name):
        return ast.Name(target.id, ast.Load(), **there)
    if isinstance(target, ast.Tuple | ast.List):
        return ast.Tuple([*map(_read, target.elts)], ast.Load(), **there)
    return ast.Constant(None, None, **there)
