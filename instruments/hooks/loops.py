"""What a ``for`` of the script waits for is loading, if its body learns."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    import ast
    from collections.abc import Callable, Iterator
    from typing import Any
else:
    import _ast as ast  # Of the rest of ast nothing is used here, and it takes 3 ms to import.

#: Methods by which a body learns.
LEARNS = frozenset({"backward", "step"})


def wrap(tree: ast.Module, loop: Callable[[Any], Any]) -> None:
    """Have the loops whose body learns go over their iterables through ``loop``.

    A body learns that calls ``.backward(`` or ``.step(``, itself or in a function of the same file.
    The tree is changed in place; without such a loop it stays as it is.

    Args:
        tree: A module.
        loop: Takes an iterable and returns an iterator. What Dynamo compiles never calls it.
    """
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    functions = [(one.name, _called(one)) for one in _walk([tree]) if isinstance(one, kinds)]
    learns, before = set(LEARNS), 0
    while len(learns) != before:
        before = len(learns)
        learns |= {function for function, calls in functions if calls & learns}
    name = ""
    for node in _walk([tree]):
        if isinstance(node, ast.For) and _called(node) & learns:
            # Not imported for a script that does not learn.
            from overseer.probes.names import COMPILING, put

            name = name or put("loop", loop)
            # The position at which a loop asks for its iterator: tracebacks are as before.
            there = {one: getattr(node, one) for one in node._attributes}
            compiling = ast.Call(_name(COMPILING, there), [], [], **there)
            names = (_name("iter", there), _name(name, there))
            node.iter = ast.Call(ast.IfExp(compiling, *names, **there), [node.iter], [], **there)


def _name(name: str, there: dict[str, int]) -> ast.Name:
    return ast.Name(name, ast.Load(), **there)


def _called(node: Any) -> set[Any]:
    """The names of what is called in the body of a node."""
    calls = (one for one in _walk(node.body) if isinstance(one, ast.Call))
    return {getattr(one.func, "attr", getattr(one.func, "id", None)) for one in calls}


def _walk(nodes: list[Any]) -> Iterator[Any]:
    """These nodes and all below them."""
    nodes = list(nodes)
    while nodes:
        node = nodes.pop()
        yield node
        for name in node._fields:
            value = getattr(node, name, None)
            for one in value if isinstance(value, list) else (value,):
                if isinstance(one, ast.AST):
                    nodes.append(one)
