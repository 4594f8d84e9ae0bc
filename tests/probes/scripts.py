"""A script under the engine, in this process: loaded in two parts, as voir does it."""

from __future__ import annotations
import __future__

import ast
import io
import sys
import traceback
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from textwrap import dedent
from types import ModuleType
from typing import Any

from overseer.errors import Problem
from overseer.probes import Engine, PlacedProbe

Event = dict[str, Any]
_FUTURES = __future__.annotations.compiler_flag


class Script:
    """The script ``main.py`` in a directory, run as ``__main__`` with probes.

    Attributes:
        engine: The engine.
        main: The script's module.
        problems: What the engine reported.
        said: What the engine said under ``--debug``.
    """

    def __init__(self, path: Path, source: str) -> None:
        self.path = path / "main.py"
        self.source = dedent(source)
        self.path.write_text(self.source, encoding="utf-8")
        self.problems: list[Problem] = []
        self.said: list[str] = []
        self.engine = Engine(self.problems.append, self.said.append)
        self.main = ModuleType("__main__")
        self.main.__dict__["__file__"] = str(self.path)
        self._before = sys.modules["__main__"]
        sys.modules["__main__"] = self.main

    def probe(self, selector: Any, **options: Any) -> list[Event]:
        """Set a probe; its events are added to the list that is returned."""
        events: list[Event] = []
        self.placed(selector, **options).listen(events.append)
        return events

    def watch(self, selector: Any, early: bool, **options: Any) -> list[Event]:
        """Set a probe before the whole script runs, or after that; its events."""
        if not early:
            self.load().run()
        events = self.probe(selector, **options)
        if early:
            self.load().run()
        return events

    def placed(self, selector: Any, **options: Any) -> PlacedProbe:
        """Set a probe that nobody listens to yet."""
        return self.engine.probe(selector, **options)

    def load(self) -> Script:
        """Run what defines things."""
        self._execute(self._parts()[0])
        self.engine.main_loaded()
        return self

    def run(self) -> Script:
        """Run the rest."""
        self._execute(self._parts()[1])
        return self

    def call(self, code: str) -> Any:
        """Evaluate an expression in the script's namespace."""
        return eval(code, self.main.__dict__)

    def verdict(self, index: int = -1) -> dict[str, Any]:
        """What became of a probe; the last one for choice."""
        return self.engine.verdicts()[index]

    def close(self) -> None:
        """End the run."""
        self.engine.close()
        sys.modules["__main__"] = self._before

    def _parts(self) -> tuple[ast.Module, ast.Module]:
        tree = ast.parse(self.source, str(self.path))
        kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Import, ast.ImportFrom)
        body = tree.body
        end = next((i for i, n in enumerate(body) if not _defines(n, kinds)), len(body))
        return ast.Module(body[:end], []), ast.Module(body[end:], [])

    def _execute(self, tree: ast.Module) -> None:
        # As in the script as a whole: the rest has no __future__ imports of its own.
        code = compile(self.source, str(self.path), "exec", dont_inherit=True)
        tree = self.engine.instrument(tree, "__main__", str(self.path))
        flags = code.co_flags & _FUTURES
        exec(compile(tree, str(self.path), "exec", flags, dont_inherit=True), self.main.__dict__)


def _defines(node: ast.stmt, kinds: tuple[type, ...]) -> bool:
    return isinstance(node, kinds) or (
        isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    )


def seen(act: Callable[[], object], path: Path) -> tuple[str, str, str]:
    """What a call prints, and how it ends: its value, or the traceback of ``path``'s frames."""
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        try:
            ending = repr(act())
        except BaseException as error:
            ending = _ending(error, path)
    return out.getvalue(), err.getvalue(), ending


def _ending(error: BaseException, path: Path) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    lines = [f"{frame.name}:{frame.lineno}:{frame.line}" for frame in frames
             if frame.filename == str(path)]  # fmt: skip
    context = repr(error.__context__) + repr(error.__cause__)
    return "\n".join([*lines, repr(error), context])
