"""Whether a script needs giving, which had better be imported before it is at work."""

from __future__ import annotations

import ast
from typing import Any

#: What ``give`` does without giving, besides ``give(name=value)``.
OWN = frozenset({"inherit", "inherited", "produce", "wrap", "wrap_inherit"})


class Foreseen:
    """Reads a script part by part; of one that does not import ``voir``, no more than that."""

    def __init__(self) -> None:
        self._names: set[str] = set()

    def __call__(self, tree: Any) -> bool:
        """Whether ``tree``, a part of the script, has a use of ``give`` that needs giving."""
        for statement in tree.body:
            self._names.update(_imported(statement))
        return bool(self._names) and any(map(self._needs, ast.walk(tree)))

    def _needs(self, node: ast.AST) -> bool:
        if isinstance(node, ast.Call):  # Without its name, a value goes by the one in the source.
            return self._is_give(node.func) and bool(node.args or not node.keywords)
        other = isinstance(node, ast.Attribute) and node.attr not in OWN
        return other and self._is_give(node.value)  # type: ignore[attr-defined]

    def _is_give(self, node: ast.AST) -> bool:
        if isinstance(node, ast.Name):
            return node.id in self._names
        of = node.value if isinstance(node, ast.Attribute) and node.attr == "give" else None
        return isinstance(of, ast.Name) and f"{of.id}.give" in self._names


def _imported(statement: ast.stmt) -> list[str]:
    """What ``give`` is called behind an import of it, or of ``voir``."""
    if isinstance(statement, ast.ImportFrom) and statement.module == "voir":
        return [name.asname or "give" for name in statement.names if name.name == "give"]
    if isinstance(statement, ast.Import):
        named = [name for name in statement.names if name.name == "voir"]
        return [f"{name.asname or 'voir'}.give" for name in named]
    return []
