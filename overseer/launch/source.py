"""Splits a script's source into leading definitions (the prefix) and the rest.

Both are compiled separately and run one after the other in the same namespace. Errors and warnings
about the whole source appear once, before any of it runs.
"""

from __future__ import annotations
import __future__

import re
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from types import CodeType

TYPE_CHECKING = False
if TYPE_CHECKING:
    import ast
else:
    import _ast as ast  # Importing ast takes 3 ms; only its node classes are needed here.

Instrument = Callable[[ast.Module, str, str], ast.Module]

_FUTURES = sum(getattr(__future__, name).compiler_flag for name in __future__.all_feature_names)

_COOKIE = rb"[ \t\f]*#.*?coding[:=][ \t]*[-\w.]+"  # PEP 263

_DEFINITIONS: tuple[type[ast.stmt], ...] = (
    *(ast.Import, ast.ImportFrom, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Pass),
)
if sys.version_info >= (3, 12):
    _DEFINITIONS += (ast.TypeAlias,)

#: Since 3.14, a module's annotations are compiled into one function, so prefix and rest cannot both
#: have some.
_LAZY_ANNOTATIONS = sys.version_info >= (3, 14)


class MainSource:
    """Parsed source of ``__main__``.

    Args:
        filename: Filename in code objects and tracebacks.
        tree: The whole syntax tree.
        code: The whole source, compiled without inserted calls.
        warns: Compiling it warns; warnings are suppressed when its parts are compiled.
    """

    def __init__(self, filename: str, tree: ast.Module, code: CodeType, warns: bool) -> None:
        self.filename = filename
        self.tree = tree
        self.code = code
        self._warns = warns
        body = tree.body
        self._end = next((i for i, one in enumerate(body) if not _defines(one)), len(body))

    def prefix(self, instrument: Instrument | None) -> CodeType:
        """Compile the leading definitions."""
        return self._compile(self.tree.body[: self._end], instrument, 0)

    def rest(self, instrument: Instrument | None) -> CodeType:
        """Compile the statements after the leading definitions."""
        return self._compile(self.tree.body[self._end :], instrument, self.code.co_flags & _FUTURES)

    def _compile(self, body: list[ast.stmt], instrument: Instrument | None, flags: int) -> CodeType:
        tree = ast.Module(body=body, type_ignores=[])
        if instrument is not None:
            tree = instrument(tree, "__main__", self.filename)
        with _on_warning("ignore") if self._warns else nullcontext():
            return _compile(tree, self.filename, flags)


def parse_main(data: bytes, filename: str, warn: bool = True) -> MainSource:
    """Parse and compile ``data``; show its warnings once if ``warn``.

    Raises:
        SyntaxError: Worded as for source in memory, which differs from source in a file.
        Exception: The source exceeds the parser's limits, or contains null bytes.
    """
    try:
        with _on_warning("error"):
            return _read(data, filename, warns=False)
    except Exception:
        pass  # An error or a warning: compile again to find out which.
    with _on_warning("ignore"):
        source = _read(data, filename, warns=True)
    if warn:
        _read(data, filename, warns=True)
    return source


def _read(data: bytes, filename: str, warns: bool) -> MainSource:
    if not _decodable(data):
        raise SyntaxError("Non-UTF-8 code but no encoding declared")
    tree = compile(data, filename, "exec", ast.PyCF_ONLY_AST, dont_inherit=True)
    assert isinstance(tree, ast.Module)
    return MainSource(filename, tree, _compile(tree, filename, 0), warns)


def _decodable(data: bytes) -> bool:
    """True if Python accepts the file's encoding; parsing from memory does not check comments."""
    try:
        data.decode()
    except UnicodeDecodeError:
        return any(re.match(_COOKIE, line) for line in data.split(b"\n", 2)[:2])
    return True


def _compile(tree: ast.Module, filename: str, flags: int) -> CodeType:
    code: CodeType = compile(tree, filename, "exec", flags, dont_inherit=True)
    return code


@contextmanager
def _on_warning(action: str) -> Iterator[None]:
    with warnings.catch_warnings(module=warnings):  # The script may have its own `warnings`.
        warnings.simplefilter(action)  # type: ignore[arg-type]
        yield


def _defines(statement: ast.stmt) -> bool:
    """True if the statement belongs to the prefix."""
    if isinstance(statement, _DEFINITIONS):
        return True
    if isinstance(statement, ast.Expr):
        # Docstrings, and later strings, which at the start of the rest would become its docstring.
        return isinstance(statement.value, ast.Constant)
    if isinstance(statement, ast.Assign):
        return _literal(statement.value) and all(map(_plain_target, statement.targets))
    if isinstance(statement, ast.AnnAssign) and not _LAZY_ANNOTATIONS:
        value = statement.value
        return (value is None or _literal(value)) and isinstance(statement.target, ast.Name)
    return False


def _literal(node: ast.expr) -> bool:
    if isinstance(node, ast.Constant):
        return True
    if isinstance(node, ast.UnaryOp):
        return isinstance(node.operand, ast.Constant) and not isinstance(node.op, ast.Not)
    if isinstance(node, (ast.List, ast.Tuple, ast.Set)):
        return all(map(_literal, node.elts))
    if isinstance(node, ast.Dict):
        return all(one is not None and _literal(one) for one in (*node.keys, *node.values))
    return False


def _plain_target(node: ast.expr) -> bool:
    """Accepts ``x``, ``os.environ["X"]``, ``a.b.c``: targets often assigned between imports."""
    if isinstance(node, ast.Subscript):
        return isinstance(node.slice, ast.Constant) and _plain_target(node.value)
    if isinstance(node, ast.Attribute):
        return _plain_target(node.value)
    return isinstance(node, ast.Name)
