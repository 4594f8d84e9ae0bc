"""The comments of a class's fields, read from its source."""

from __future__ import annotations

import ast
import inspect
import io
import re
import tokenize

#: Where the part of a comment begins that is not for people.
FOR_TOOLS = re.compile(r"#\s*(?:noqa|(?:type|pragma|fmt|mypy|pyright|pylint|ruff|isort):)")


def field_comments(kind: type) -> dict[str, str]:
    """The comment above (or beside) each field of a class, and the string below it.

    Fields of base classes count; a class whose source cannot be had has no comments.
    """
    found: dict[str, str] = {}
    for base in reversed(kind.__mro__[:-1]):
        try:
            found.update(_comments(inspect.getsource(base)))
        except (OSError, TypeError, SyntaxError, tokenize.TokenError, IndexError):
            continue
    return found


def _comments(source: str) -> dict[str, str]:
    if source[:1].isspace():
        source = f"if True:\n{source}"  # Dedenting would change strings of several lines.
    tree = ast.parse(source)
    bodies = [node.body for node in ast.walk(tree) if isinstance(node, ast.ClassDef)][:1]
    body = bodies[0] if bodies else []
    comments = _by_line(source)
    found = {}
    for index, statement in enumerate(body):
        if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
            lines = [*_above(statement, comments), *_beside(statement, comments)]
            lines += _below(body[index + 1 : index + 2])
            if lines:
                found[statement.target.id] = " ".join(" ".join(lines).split())
    return found


def _by_line(source: str) -> dict[int, tuple[int, str]]:
    """For each line with a comment, its column and its text."""
    found = {}
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        text = FOR_TOOLS.split(token.string)[0].strip("# ")
        if token.type == tokenize.COMMENT and text:
            found[token.start[0]] = (token.start[1], text)
    return found


def _above(statement: ast.stmt, comments: dict[int, tuple[int, str]]) -> list[str]:
    lines: list[str] = []
    row = statement.lineno - 1
    while row in comments and comments[row][0] == statement.col_offset:
        lines.insert(0, comments[row][1])
        row -= 1
    return lines


def _beside(statement: ast.stmt, comments: dict[int, tuple[int, str]]) -> list[str]:
    return [comments[statement.end_lineno][1]] if statement.end_lineno in comments else []


def _below(following: list[ast.stmt]) -> list[str]:
    """The string below a field, if the one statement that follows it is one."""
    values = [one.value for one in following if isinstance(one, ast.Expr)]
    found = [value.value for value in values if isinstance(value, ast.Constant)]
    return [text for text in found if isinstance(text, str)]
