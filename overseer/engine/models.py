"""Options declared as dataclasses: a field is an option, the comment above it is its help."""

from __future__ import annotations

import argparse
import ast
import dataclasses
import enum
import inspect
import io
import pathlib
import re
import tokenize
import types
import typing
from itertools import zip_longest
from typing import Any

from ..boundary import said
from ..errors import UsageError, VoirError
from .settings import Fallback

#: Start of the part of a comment that is meant for tools.
FOR_TOOLS = re.compile(r"#\s*(?:noqa|(?:type|pragma|fmt|mypy|pyright|pylint|ruff|isort):)")


class Model:
    """A dataclass whose fields are options.

    Attributes:
        dest: The attribute of the parsed options that will hold the instance.
        kind: The dataclass.
        fields: True for each field that is a tuple.
        value: The instance, once it has been built.
    """

    def __init__(self, dest: str, kind: type) -> None:
        self.dest = dest
        self.kind = kind
        self.fields: dict[str, bool] = {}
        self.value: Any = None

    def build(self, options: argparse.Namespace) -> None:
        """Replace the fields' options by the instance.

        Raises:
            UsageError: The dataclass rejects the values.
        """
        values = {name: vars(options).pop(f"{self.dest}.{name}") for name in self.fields}
        for name, is_tuple in self.fields.items():
            if is_tuple and values[name] is not None:
                values[name] = tuple(values[name])
        try:
            self.value = self.kind(**values)
        except (ValueError, TypeError) as error:
            what = f"{self.kind.__name__} rejects its values: {said(error)}"
            raise UsageError("option-value", what, "See voir --help.") from None
        setattr(options, self.dest, self.value)


def add_model(parser: argparse.ArgumentParser, dest: str, model: Any, prefix: str) -> list[Model]:
    """Add the options of a dataclass, and of dataclasses within it, to ``parser``.

    Args:
        parser: Receives the options.
        dest: The attribute of the parsed options.
        model: The dataclass, or an instance of it whose values are the defaults.
        prefix: Start of the options' names.

    Returns:
        The models in the order in which they can be built.
    """
    kind = model if isinstance(model, type) else type(model)
    hints = _hints(dest, kind)
    group = parser.add_argument_group(str(getattr(kind, "__help__", None) or kind.__name__))
    helps = field_comments(kind)
    built, inner = Model(dest, kind), list[Model]()
    for field in dataclasses.fields(kind):
        if not field.init:
            continue
        hint, key = _without_none(hints[field.name]), f"{dest}.{field.name}"
        made = field.default_factory
        default = field.default if made is dataclasses.MISSING else made()
        if not isinstance(model, type):
            default = getattr(model, field.name)
        built.fields[field.name] = _origin(hint) is tuple
        if isinstance(hint, type) and dataclasses.is_dataclass(hint):
            within = hint if default in (dataclasses.MISSING, None) else default
            inner += add_model(parser, key, within, f"{prefix}{field.name}.".replace("_", "-"))
        else:
            flags = flags_of(parser, prefix, field.name)
            keywords = keywords_of(f"{kind.__name__}.{field.name}", hint, default)
            help = help_of(helps.get(field.name), default)
            group.add_argument(*flags, dest=key, help=help, **keywords)
    return [*inner, built]


def _hints(dest: str, kind: type) -> dict[str, Any]:
    if not dataclasses.is_dataclass(kind):
        what = f"add_from_model({dest!r}, {kind.__name__}): {kind.__name__} is not a dataclass"
        raise VoirError("not-a-dataclass", what, "Decorate it with @dataclass.")
    try:
        return typing.get_type_hints(kind)
    except NameError as error:
        what = f"the types of {kind.__name__}'s fields cannot be resolved: {error}"
        remedy = "Import or define what they name at the top level of the file."
        raise VoirError("option-type", what, remedy) from None


def flags_of(parser: argparse.ArgumentParser, prefix: str, name: str) -> list[str]:
    """The option strings of a field."""
    flag = f"--{prefix}{name.replace('_', '-')}"
    # A one-letter field is a short option; -m is reserved, as in python -m.
    short = f"-{name}"
    free = name != "m" and short not in parser._option_string_actions
    return [short, flag] if len(name) == 1 and not prefix and free else [flag]


def keywords_of(who: str, kind: Any, default: Any) -> dict[str, Any]:
    """Keyword arguments of ``add_argument`` for a field of type ``kind``.

    Raises:
        VoirError: A command line cannot hold such values.
    """
    missing = default is dataclasses.MISSING
    keywords: dict[str, Any] = {"required": True} if missing else {"default": default}
    if kind is bool:
        return {"action": _Switch, **keywords}
    if _origin(kind) not in (list, tuple):
        return {**_conversion(who, kind), **keywords}
    inner = [one for one in typing.get_args(kind) if one is not Ellipsis] or [str]
    if len(set(inner)) > 1:
        raise _unsupported(who, kind)
    if not missing and default is not None:
        keywords["default"] = Fallback(default)
    fixed = _origin(kind) is tuple and Ellipsis not in typing.get_args(kind)
    shape: dict[str, Any] = {"nargs": len(inner)} if fixed else {"action": "append"}
    return {**shape, **_conversion(f"an item of {who}", inner[0]), **keywords}


def _conversion(who: str, kind: Any) -> dict[str, Any]:
    """The keywords ``type`` and ``metavar`` of one value."""
    if typing.get_origin(kind) is typing.Literal:
        return _named({str(choice): choice for choice in typing.get_args(kind)})
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return _named({str(member.value): member for member in kind}, kind.__members__)
    is_path = isinstance(kind, type) and issubclass(kind, pathlib.PurePath)
    if kind not in (int, float, str) and not is_path:
        raise _unsupported(who, kind)
    return {"type": kind, "metavar": kind.__name__.upper()}


def _named(choices: dict[str, Any], more: typing.Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Keywords for a choice of values by name; ``more`` are further names that are not shown."""

    known = {**(more or {}), **choices}

    def choose(text: str) -> Any:
        if text in known:
            return known[text]
        raise argparse.ArgumentTypeError(f"{text!r} is not one of {', '.join(choices)}")

    return {"type": choose, "metavar": "{" + ",".join(choices) + "}"}


def _unsupported(who: str, kind: Any) -> VoirError:
    return VoirError(
        "option-type",
        f"{who} is a {kind}, which a command line cannot hold",
        "Make it an int, float, str, Path, Enum or Literal, a list or tuple of one of these, "
        "a bool, a dataclass, or Optional.",
    )


class _Switch(argparse.BooleanOptionalAction):
    """``--x`` and ``--no-x``; in a group, ``--group.x`` and ``--group.no-x``."""

    def __init__(
        self, option_strings: list[str], dest: str, help: str | None = None, **kwargs: Any
    ) -> None:
        super().__init__(option_strings, dest, **kwargs)
        self.help = help  # After super(): some versions of argparse append the default to it.
        parts = [option.rpartition(".") for option in option_strings if "." in option]
        within = [f"{group}.no-{field}" for group, _, field in parts]
        self.option_strings = [*self.option_strings, *within]
        self._positive = option_strings

    def __call__(self, parser: Any, namespace: Any, values: Any, option_string: Any = None) -> None:
        setattr(namespace, self.dest, option_string in self._positive)


def _origin(kind: Any) -> Any:
    return typing.get_origin(kind) or kind


def _without_none(hint: Any) -> Any:
    """``X`` for ``X | None``; any other hint unchanged."""
    kinds = [kind for kind in typing.get_args(hint) if kind is not type(None)]
    optional = typing.get_origin(hint) in (typing.Union, types.UnionType) and len(kinds) == 1
    return kinds[0] if optional else hint


def help_of(text: str | None, default: Any) -> str | None:
    """The help of a field: its comment and its default."""
    shown = _shown(default)
    whole = " ".join(part for part in (text, shown and f"(default: {shown})") if part)
    # argparse interpolates help texts: double the percent sign.
    return whole.replace("%", "%%") or None


def _shown(default: Any) -> str:
    if default is dataclasses.MISSING or default is None or default is False:
        return ""
    if default is True:
        return "on"
    if isinstance(default, enum.Enum):
        return str(default.value)
    several = isinstance(default, (list, tuple))
    return ", ".join(map(_shown, default)) if several else str(default)


# The comments of a class's fields, read from its source


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
        source = f"if True:\n{source}"  # Dedenting would change multi-line strings.
    classes = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.ClassDef)]
    body, comments, found = classes[0].body, _by_line(source), {}
    for statement, following in zip_longest(body, body[1:]):
        if not isinstance(statement, ast.AnnAssign) or not isinstance(statement.target, ast.Name):
            continue
        texts, row = list[str](), statement.lineno - 1
        while comments.get(row, (None,))[0] == statement.col_offset:
            texts.insert(0, comments[row][1])
            row -= 1
        if statement.end_lineno in comments:
            texts.append(comments[statement.end_lineno][1])
        match following:
            case ast.Expr(value=ast.Constant(value=str(text))):
                texts.append(text)
        if texts:
            found[statement.target.id] = " ".join(" ".join(texts).split())
    return found


def _by_line(source: str) -> dict[int, tuple[int, str]]:
    """Column and text of the comment on each line that has one."""
    found = {}
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        text = FOR_TOOLS.split(token.string)[0].strip("# ")
        if token.type == tokenize.COMMENT and text:
            found[token.start[0]] = (token.start[1], text)
    return found
