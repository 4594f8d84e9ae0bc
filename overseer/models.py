"""Options declared as dataclasses: a field is an option, the comment above it is its help."""

from __future__ import annotations

import argparse
import dataclasses
import enum
import typing
from typing import Any

from .errors import VoirError

if typing.TYPE_CHECKING:
    from .options import OptionParser


def add_model(
    parser: OptionParser, dest: str, model: Any, flatten: bool
) -> tuple[str, type, dict[str, str]]:
    """Add the options of a dataclass to ``parser``.

    Returns:
        The destination, the dataclass, and the option's key for each field.
    """
    kind = model if isinstance(model, type) else type(model)
    if not dataclasses.is_dataclass(kind):
        raise VoirError(
            "not-a-dataclass",
            f"add_from_model({dest!r}, {kind.__name__}): {kind.__name__} is not a dataclass",
            "Decorate it with @dataclass.",
        )
    hints = typing.get_type_hints(kind)
    group = parser.add_argument_group(str(getattr(kind, "__help__", None) or kind.__name__))
    prefix = "" if flatten else f"{dest}."
    helps = field_comments(kind)
    keys = {}
    for field in dataclasses.fields(kind):
        if field.init:
            default = _default(field) if isinstance(model, type) else getattr(model, field.name)
            keys[field.name] = f"{dest}.{field.name}"
            _add(group, prefix, field.name, keys[field.name], hints[field.name], default, helps)
    return dest, kind, keys


def _default(field: dataclasses.Field[Any]) -> Any:
    if field.default is not dataclasses.MISSING:
        return field.default
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory()
    return dataclasses.MISSING


def _add(
    group: argparse._ArgumentGroup,
    prefix: str,
    name: str,
    key: str,
    hint: Any,
    default: Any,
    helps: dict[str, str],
) -> None:
    flag = "--" + prefix + name.replace("_", "-")
    # A one-letter field is a short option, as people know it.
    flags = [f"-{name}", flag] if len(name) == 1 and not prefix and name != "m" else [flag]
    keywords: dict[str, Any] = {"dest": key, "help": _help(helps.get(name), default)}
    if default is dataclasses.MISSING:
        keywords["required"] = True
    else:
        keywords["default"] = default
    kind = _without_none(hint)
    if kind is bool:
        keywords["action"] = _Switch
    else:
        keywords.update(_conversion(kind), metavar=name.upper())
    group.add_argument(*flags, **keywords)


class _Switch(argparse.BooleanOptionalAction):
    """``--x`` and ``--no-x``; with a prefix, ``--group.x`` and ``--group.no-x``."""

    def __init__(self, option_strings: list[str], dest: str, **kwargs: Any) -> None:
        super().__init__(option_strings, dest, **kwargs)
        named = [o for o in option_strings if "." in o]
        negative = [o.replace(".", ".no-", 1) for o in named]
        self.option_strings = [*self.option_strings, *negative]
        self._negative = {*negative, *(o for o in self.option_strings if o.startswith("--no-"))}

    def __call__(self, parser: Any, namespace: Any, values: Any, option_string: Any = None) -> None:
        setattr(namespace, self.dest, option_string not in self._negative)


def _without_none(hint: Any) -> Any:
    arguments = [a for a in typing.get_args(hint) if a is not type(None)]
    is_union = typing.get_origin(hint) is typing.Union or type(hint).__name__ == "UnionType"
    return arguments[0] if is_union and arguments else hint


def _conversion(kind: Any) -> dict[str, Any]:
    origin = typing.get_origin(kind)
    if origin is typing.Literal:
        choices = typing.get_args(kind)
        return {"choices": choices, "type": type(choices[0])}
    if origin in (list, tuple, set):
        inner = typing.get_args(kind)
        return {"action": "append", "type": inner[0] if inner else str}
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return {"type": kind}
    return {"type": kind if callable(kind) and kind is not Any else str}


def _help(text: str | None, default: Any) -> str | None:
    if default is dataclasses.MISSING or default is None:
        return text
    # argparse interpolates help texts, so a percent sign must be doubled.
    text, shown = (text or "").replace("%", "%%"), str(default).replace("%", "%%")
    return f"{text} (default: {shown})".strip()


def field_comments(kind: type) -> dict[str, str]:
    """The comment above (or beside) each field of a class, or the string below it.

    A class whose source cannot be had has no comments.
    """
    import inspect
    from textwrap import dedent

    try:
        source = dedent(inspect.getsource(kind))
    except (OSError, TypeError):
        return {}
    return _comments(source)


def _comments(source: str) -> dict[str, str]:
    import ast

    tree = ast.parse(source)
    comments = _by_line(source)
    found: dict[str, str] = {}
    body = tree.body[0].body if isinstance(tree.body[0], ast.ClassDef) else []
    for statement, after in zip(body, [*body[1:], None], strict=True):
        if isinstance(statement, (ast.AnnAssign, ast.Assign)):
            target = statement.target if isinstance(statement, ast.AnnAssign) else statement.targets[0]
            if isinstance(target, ast.Name):
                found[target.id] = _text(statement, after, comments)
    return found


def _text(statement: Any, after: Any, comments: dict[int, tuple[int, str]]) -> str:
    import ast

    lines: list[str] = []
    row = statement.lineno - 1
    while row in comments and comments[row][0] == statement.col_offset:
        lines.insert(0, comments[row][1])
        row -= 1
    if statement.end_lineno in comments:
        lines.append(comments[statement.end_lineno][1])
    if isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant):
        if isinstance(after.value.value, str):
            lines.append(after.value.value.strip())
    return "\n".join(lines)


def _by_line(source: str) -> dict[int, tuple[int, str]]:
    import io
    import tokenize

    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    return {
        token.start[0]: (token.start[1], token.string.lstrip("#").strip())
        for token in tokens
        if token.type == tokenize.COMMENT
    }
