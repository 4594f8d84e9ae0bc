"""Parses a script and the project modules that it imports."""

from __future__ import annotations

import ast
import os
import re
import warnings
from contextlib import suppress
from difflib import get_close_matches
from functools import cached_property

from ..errors import VoirError
from ..probes.scopes import loops, scopes
from ..probes.selector import MAIN, reference

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ..probes.scopes import Scope

#: Maximum number of modules parsed.
MODULES = 50
_REFERENCE = re.compile(r"\s*/([\w.]*)/?([\w/]*)(.*)", re.DOTALL)
_NAMES = re.compile(r"(?<!as )(?<![#\w])(#(?:end)?loop_)?(?!as )([A-Za-z_]\w*)")


class ModuleSource:
    """A parsed module.

    Args:
        path: Its file.
        module: Its name; ``__main__`` for the script.
        tree: Its syntax tree.
    """

    def __init__(self, path: str, module: str, tree: ast.Module) -> None:
        self.path, self.module, self.tree = path, module, tree

    @cached_property
    def scopes(self) -> list[Scope]:
        """The module's scope and all classes and functions in it, outer ones first."""
        return scopes(self.tree)

    def named(self, *path: str) -> Scope | None:
        """Last class or function with this path."""
        return next((one for one in reversed(self.scopes) if one.path == path), None)

    def at(self, line: int) -> Scope:
        """Innermost function that contains the line, else the module's scope."""
        inside = [s for s in self.scopes if s.is_function and _has(s.node, line)]
        return inside[-1] if inside else self.scopes[0]

    def selector(self, scope: Scope) -> str:
        """Reference to a scope of this module in a selector."""
        return reference(self.module, scope.path)

    def place(self, line: int) -> str:
        """``file:line``, for display."""
        return f"{os.path.basename(self.path)}:{line}"


def open_source(path: str, module: str = MAIN) -> ModuleSource:
    """Read and parse a file.

    Args:
        path: A file, or a directory with a ``__main__.py``.
        module: The module's name when it runs.

    Raises:
        VoirError: The file cannot be read or parsed, is empty, or is a notebook.
    """
    if os.path.isdir(path):
        path = os.path.join(path, "__main__.py")
    if path.endswith(".ipynb"):
        what = f"{path} is a notebook, which voir cannot run"
        remedy = f"Make a script of it: jupyter nbconvert --to script {path}"
        raise VoirError("init-notebook", what, remedy)
    try:
        with open(path, "rb") as file:
            data = file.read()
    except OSError as error:
        what = f"{path} cannot be read: {error.strerror}"
        raise VoirError("init-script", what, "Give what you would give to python.") from None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(data, path)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        said = getattr(error, "msg", None) or str(error) or "it is nested too deeply"
        line = getattr(error, "lineno", None)
        what = f"python cannot read {path}: {said}" + (f" at line {line}" if line else "")
        raise VoirError("init-syntax", what, "Fix that first; then run voir init again.") from None
    if not tree.body:
        raise VoirError("init-empty", f"{path} is empty", "There is nothing in it to probe.")
    return ModuleSource(path, module, tree)


def project(script: ModuleSource, root: str, package: str = "") -> list[ModuleSource]:
    """Parse the modules below ``root`` that the script imports, directly or indirectly.

    Args:
        script: The script; it comes first in the result.
        root: Directory from which its modules are imported.
        package: Package of a script run with ``-m``.
    """
    found, seen = [(script, package)], {os.path.realpath(script.path)}
    for source, inside in found:  # The list grows meanwhile.
        for name in _imports(source.tree, inside):
            path = _file(root, name)
            if path is None or os.path.realpath(path) in seen or len(found) >= MODULES:
                continue
            seen.add(os.path.realpath(path))
            of = name if path.endswith("__init__.py") else name.rpartition(".")[0]
            with suppress(VoirError):
                found.append((open_source(path, name), of))
    return [source for source, _ in found]


def _has(node: ast.AST, line: int) -> bool:
    return getattr(node, "lineno", 0) <= line <= (getattr(node, "end_lineno", None) or 0)


def _imports(tree: ast.Module, package: str) -> Iterator[str]:
    """Yield full names that a module imports; some are attributes, not modules."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            outer = package.rsplit(".", node.level - 1)[0] if node.level else ""
            base = ".".join(filter(None, (outer, node.module)))
            yield base
            yield from (f"{base}.{alias.name}".lstrip(".") for alias in node.names)


def _file(root: str, name: str) -> str | None:
    place = os.path.join(root, *name.split("."))
    tried = (f"{place}.py", os.path.join(place, "__init__.py"))
    return next((path for path in tried if name and os.path.isfile(path)), None)


def corrected(selector: str, sources: Sequence[ModuleSource]) -> str | None:
    """Replace unknown names in a selector by similar ones; None if no function is similar."""
    of, path, rest = _REFERENCE.fullmatch(selector).groups()  # type: ignore[union-attr]
    modules = [source for source in sources if source.module == (of or MAIN)] or list(sources[:1])
    wanted = [name for _, name in _NAMES.findall(rest)]
    every = {"/".join(scope.path): (m, scope) for m in modules for scope in m.scopes}
    near = [path] if path in every else get_close_matches(path, every, 5, 0.5)
    if not near:
        return None
    source, scope = every[max(near, key=lambda one: sum(n in every[one][1].bound for n in wanted))]
    known = [*scope.bound, *scope.read]

    def name(found: re.Match[str]) -> str:
        marker, wanted = found[1] or "", found[2]
        bound = [n for n in scope.bound if not marker or loops(scope, n)]
        close = [wanted] if wanted in known else get_close_matches(wanted, bound, 1, 0.5)
        return marker + (close[0] if close else wanted)

    return source.selector(scope) + _NAMES.sub(name, rest)
