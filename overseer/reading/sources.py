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
#: Modules that are read at most, the bytes of one that is, and of the script.
MODULES, LONGEST, LONGEST_SCRIPT = 200, 2 << 20, 16 << 20


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
    tree = _script_tree(name, _script_text(name, path))
    if not tree.body:
        raise VoirError("init-empty", f"{name} is empty", "There is nothing in it to probe.")
    return Source(path, MAIN, _own_package(path, tree), tree)


def _script_text(name: str, path: str) -> str:
    try:
        text = _text(path, LONGEST_SCRIPT)
    except OSError as error:
        remedy = "Give the file that you would give to python."
        what = f"{name or repr(name)} cannot be read: {error.strerror}"
        raise VoirError("init-script", what, remedy) from None
    except LookupError as error:
        raise _unreadable(name, str(error)) from None
    if text is None:
        raise VoirError("init-script", f"{name} is no Python script", "Give the script's file.")
    if len(text) > LONGEST_SCRIPT:
        what = f"{name} has more than {LONGEST_SCRIPT >> 20} MB of text"
        raise VoirError("init-script", what, "Give the file that has the loop.")
    return text


def _own_package(path: str, tree: ast.Module) -> str:
    """The package that a ``__main__.py`` belongs to, where it imports from that; else nothing."""
    home = os.path.dirname(os.path.abspath(path))
    name = os.path.basename(home)
    if os.path.basename(path) != "__main__.py" or not _is_package(home):
        return ""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            if node.level or (node.module or "").split(".")[0] == name:
                return name
        elif isinstance(node, ast.Import) and any(a.name.split(".")[0] == name for a in node.names):
            return name
    return ""


def _is_package(directory: str) -> bool:
    return os.path.exists(os.path.join(directory, "__init__.py"))


def _package(name: str) -> VoirError:
    inside = sorted(f for f in os.listdir(name) if f.endswith(".py") and f[0] not in "._")
    example = os.path.join(name, inside[0] if inside else "train.py")
    what = "a package" if _is_package(name) else "a directory"
    return VoirError(
        "init-package",
        f"{name} is {what} without a __main__.py, which python cannot run either",
        f"Give the script that you run, for example {example}",
    )


def _text(path: str, longest: int = LONGEST) -> str | None:
    """A file's text as Python would decode it, or more than is read; None when it is no text.

    Raises:
        LookupError: It says that it has an encoding which there is not.
    """
    import tokenize

    with open(path, "rb") as file:
        try:
            encoding, _ = tokenize.detect_encoding(file.readline)
            file.seek(0)
            return file.read(longest + 1).decode(encoding)
        except SyntaxError as error:
            if str(error).startswith("unknown encoding"):
                raise LookupError(str(error)) from None
            return None
        except UnicodeDecodeError:
            return None


def _script_tree(name: str, text: str) -> ast.Module:
    try:
        return _parse(text, name)
    except (SyntaxError, ValueError) as error:
        raise _unreadable(name, getattr(error, "msg", str(error)), error) from None
    except (RecursionError, MemoryError):
        raise _unreadable(name, "an expression is nested too deeply") from None


def _unreadable(name: str, said: str, error: Exception | None = None) -> VoirError:
    line = getattr(error, "lineno", None)
    where = f" at {name}:{line}" if line else f" in {name}"
    return VoirError(
        "init-syntax",
        f"python cannot read the script: {said}{where}",
        "Mend that first; then run voir init again.",
    )


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


def imported(script: Source, *words: str) -> Iterator[Source]:
    """The modules of its project that the script imports itself and whose text has one of these."""
    roots = _roots(script.path)
    for name in list(dict.fromkeys(_imports(script)))[:MODULES]:
        source = _module(name, roots, *words)
        if source is not None:
            yield source


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


def _module(name: str, roots: list[str], *words: str) -> Source | None:
    relative = os.path.join(*name.split("."))
    for root in roots:
        for path, package in (
            (os.path.join(root, relative, "__init__.py"), name),
            (os.path.join(root, f"{relative}.py"), name.rpartition(".")[0]),
        ):
            if os.path.isfile(path):
                return _parsed(path, name, package, words)
    return None


def _parsed(path: str, name: str, package: str, words: tuple[str, ...]) -> Source | None:
    try:
        text = _text(path)
        if text is None or len(text) > LONGEST:
            return None
        if words and not any(word in text for word in words):
            return None
        return Source(path, name, package, _parse(text, path))
    except (OSError, SyntaxError, ValueError, LookupError, RecursionError, MemoryError):
        return None  # The script will say so when it runs.
