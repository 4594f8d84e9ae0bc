"""The project's own source as syntax trees, for tests that hold it to the house rules."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parents[2]
PACKAGES = ("overseer", "instruments", "voir")


@dataclass(frozen=True)
class Module:
    """One file of the source.

    Attributes:
        path: The file.
        name: As it is imported: ``overseer.launch.ending``.
    """

    path: Path
    name: str

    @cached_property
    def tree(self) -> ast.Module:
        """The file, parsed."""
        return ast.parse(self.path.read_bytes(), str(self.path))

    @property
    def package(self) -> str:
        """The package that a relative import with one dot starts from."""
        is_package = self.path.name == "__init__.py"
        return self.name if is_package else self.name.rpartition(".")[0]

    def at(self, node: ast.AST) -> str:
        """``file:line`` of a node, from the root."""
        return f"{self.path.relative_to(ROOT)}:{getattr(node, 'lineno', 1)}"


class Import(NamedTuple):
    """A module that a module imports, wherever in it, and the name taken from it.

    Attributes:
        known_as: What the importing module calls that name.
    """

    target: str
    name: str | None
    at: str
    known_as: str | None = None


def is_below(name: str, *prefixes: str) -> bool:
    """Whether a dotted name is one of ``prefixes`` or in one of them."""
    return any(f"{name}.".startswith(f"{prefix}.") for prefix in prefixes)


@cache
def modules(*packages: str) -> tuple[Module, ...]:
    """Every module of ``packages``, of all three when none is named."""
    files = (f for package in packages or PACKAGES for f in (ROOT / package).rglob("*.py"))
    return tuple(Module(file, _name(file)) for file in sorted(files))


def _name(file: Path) -> str:
    parts = file.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def each(*kinds: type[Any], among: Iterable[Module] | None = None) -> Iterator[tuple[str, Any]]:
    """Every node of some kinds, and where it is; ``among``: in these modules only."""
    for module in modules() if among is None else among:
        for node in ast.walk(module.tree):
            if isinstance(node, kinds):
                yield module.at(node), node


def imports(module: Module) -> Iterator[Import]:
    """Every import statement of ``module``, in functions and for type checking too."""
    names = {one.name for one in modules()}
    for at, node in each(ast.Import, ast.ImportFrom, among=[module]):
        for alias in node.names:
            if isinstance(node, ast.Import):
                yield Import(alias.name, None, at)
            elif (inner := f"{_absolute(module, node)}.{alias.name}") in names:
                yield Import(inner, None, at)
            else:
                yield Import(_absolute(module, node), alias.name, at, alias.asname or alias.name)


def _absolute(module: Module, node: ast.ImportFrom) -> str:
    parts = module.package.split(".")
    parts = parts[: len(parts) - node.level + 1] if node.level else []
    return ".".join([*parts, *([node.module] if node.module else [])])


def called(node: ast.AST) -> str | None:
    """The dotted name of a called function, as ``sys.exit``; ``None`` for anything else."""
    return dotted(node.func) if isinstance(node, ast.Call) else None


def dotted(node: ast.AST) -> str | None:
    """A name or an attribute of one as it is written."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        base = dotted(node.value)
        return f"{base}.{node.attr}" if base else f"?.{node.attr}"
    return None
