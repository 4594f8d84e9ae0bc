"""What a script is going to need: giving, or PyTorch, which it may import when it is at work."""

from __future__ import annotations

import ast
import os
from collections.abc import Iterator
from typing import Any

#: What ``give`` does without giving, besides ``give(name=value)``.
OWN = frozenset({"inherit", "inherited", "produce", "wrap", "wrap_inherit"})
#: What a text has that may import PyTorch, or learn by it.
_LEARNS = (b"torch", b"backward")
#: Modules that are looked for at most, and how much of each is read.
_MODULES, _LONGEST = 200, 2 << 20


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


def may_learn(script: str) -> bool:
    """Whether PyTorch stands in a script's text, or in that of a module beside it that it imports.

    This is asked of any script, so it is a search in the plain text: parsing would take longer.
    """
    text = _text(script)
    if _speaks_of_it(text):
        return True
    here = os.path.dirname(os.path.abspath(script))
    above = os.path.dirname(here)
    roots = [here, os.path.join(here, "src"), above, os.path.join(above, "src")]
    for name in list(dict.fromkeys(_modules(text)))[:_MODULES]:
        for root in roots:
            path = os.path.join(root, *name.split("."))
            files = f"{path}.py", os.path.join(path, "__init__.py")
            if any(_speaks_of_it(_text(file)) for file in files):
                return True
    return False


def _speaks_of_it(text: bytes) -> bool:
    return any(word in text for word in _LEARNS)


def _modules(text: bytes) -> Iterator[str]:
    """The modules that a text's import statements name first."""
    for line in text.splitlines():
        words = line.split(maxsplit=2)
        if len(words) > 1 and words[0] in (b"from", b"import"):
            name = words[1].strip(b".,;").decode("utf-8", "replace")
            if name.replace(".", "").isidentifier():  # It may be a line of some other text.
                yield name


def _text(path: str) -> bytes:
    """What a file holds; nothing, if it is none: what a pipe holds is for the script alone."""
    try:
        if os.path.isfile(path):
            with open(path, "rb") as file:
                return file.read(_LONGEST)
    except OSError:
        pass
    return b""
