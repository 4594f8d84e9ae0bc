"""A script and the modules of its project, parsed; nothing is imported or run."""

from __future__ import annotations

import ast
import os
import warnings
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

from ..errors import VoirError

MAIN = "__main__"
#: Modules that are read at most, and bytes of one that are.
MODULES, LONGEST = 200, 2 << 20


@dataclass(frozen=True, eq=False)
class Source:
    """One file.

    Attributes:
        path: Where it is.
        module: Its name as the script imports it; ``__main__`` for the script.
        package: The package that its relative imports start from.
        tree: Its text, parsed.
    """

    path: str
    module: str
    package: str
    tree: ast.Module

    @property
    def is_script(self) -> bool:
        """Whether it is the script itself."""
        return self.module == MAIN


def open_script(name: str) -> Source:
    """The script in the file ``name``; of a directory that can be run, its ``__main__.py``.

    Raises:
        VoirError: It is no script that can be read: none there, a package, a notebook, empty, or
            not Python.
    """
    path = os.path.join(name, "__main__.py") if os.path.isdir(name) else name
    if path != name and not os.path.isfile(path):
        raise _package(name)
    if name.endswith(".ipynb"):
        raise VoirError(
            "init-notebook",
            f"{name} is a notebook, which voir cannot run",
            f"Make a script of it: jupyter nbconvert --to script {name}",
        )
    try:
        text = _text(path)
    except OSError as error:
        remedy = "Give the file that you would give to python."
        raise VoirError("init-script", f"{name} cannot be read: {error.strerror}", remedy) from None
    if text is None:
        raise VoirError("init-script", f"{name} is no Python script", "Give the script's file.")
    tree = _script_tree(name, text)
    if not tree.body:
        raise VoirError("init-empty", f"{name} is empty", "There is nothing in it to probe.")
    return Source(path, MAIN, "", tree)


def _package(name: str) -> VoirError:
    inside = sorted(f for f in os.listdir(name) if f.endswith(".py") and f[0] not in "._")
    example = os.path.join(name, inside[0] if inside else "train.py")
    what = "a package" if os.path.exists(os.path.join(name, "__init__.py")) else "a directory"
    return VoirError(
        "init-package",
        f"{name} is {what} without a __main__.py, which python cannot run either",
        f"Give the script that you run, for example {example}",
    )


def _text(path: str) -> str | None:
    """A file's text as Python would decode it; None when it is no text."""
    import tokenize

    with open(path, "rb") as file:
        encoding = "utf-8"
        try:
            encoding, _ = tokenize.detect_encoding(file.readline)
            file.seek(0)
            return file.read(LONGEST + 1).decode(encoding)
        except (SyntaxError, UnicodeDecodeError, LookupError):
            return None


def _script_tree(name: str, text: str) -> ast.Module:
    try:
        return _parse(text, name)
    except (SyntaxError, ValueError) as error:
        line = getattr(error, "lineno", None)
        where = f" at {name}:{line}" if line else f" in {name}"
        said = getattr(error, "msg", str(error))
        raise VoirError(
            "init-syntax",
            f"python cannot read the script: {said}{where}",
            "Mend that first; then run voir init again.",
        ) from None


def _parse(text: str, name: str) -> ast.Module:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # An invalid escape is the script's affair.
        return ast.parse(text, name)


# The modules it imports


def project(script: Source) -> list[Source]:
    """The script, and every module that it imports from its own project, directly or not."""
    roots = _roots(script.path)
    found: dict[str, Source] = {MAIN: script}
    waiting = deque(_imports(script))
    while waiting and len(found) < MODULES:
        name = waiting.popleft()
        if name in found:
            continue
        source = _module(name, roots)
        if source is not None:
            found[name] = source
            waiting.extend(_imports(source))
    return list(found.values())


def _roots(script: str) -> list[str]:
    """Where modules of the project may be: beside the script, in ``src``, one level above."""
    here = os.path.dirname(os.path.abspath(script))
    above = os.path.dirname(here)
    return [here, os.path.join(here, "src"), above, os.path.join(above, "src")]


def _imports(source: Source) -> Iterator[str]:
    """The modules that a file names in its import statements, with those around them."""
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield from _with_parents(alias.name)
        elif isinstance(node, ast.ImportFrom):
            base = _base(source, node)
            if base:
                yield from _with_parents(base)
                yield from (f"{base}.{alias.name}" for alias in node.names if alias.name != "*")


def _with_parents(name: str) -> Iterator[str]:
    parts = name.split(".")
    return (".".join(parts[: i + 1]) for i in range(len(parts)))


def _base(source: Source, node: ast.ImportFrom) -> str:
    parts = source.package.split(".") if source.package else []
    parts = parts[: len(parts) - node.level + 1] if node.level else []
    return ".".join([*parts, *([node.module] if node.module else [])])


def _module(name: str, roots: list[str]) -> Source | None:
    relative = os.path.join(*name.split("."))
    for root in roots:
        for path, package in (
            (os.path.join(root, relative, "__init__.py"), name),
            (os.path.join(root, f"{relative}.py"), name.rpartition(".")[0]),
        ):
            if os.path.isfile(path):
                return _parsed(path, name, package)
    return None


def _parsed(path: str, name: str, package: str) -> Source | None:
    try:
        text = _text(path)
        return None if text is None else Source(path, name, package, _parse(text, path))
    except (OSError, SyntaxError, ValueError, RecursionError):
        return None  # The script will say so when it runs.
