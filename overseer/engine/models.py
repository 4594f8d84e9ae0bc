"""Options declared as dataclasses: a field is an option, the comment above it is its help."""

from __future__ import annotations

import argparse
import ast
import collections.abc
import dataclasses
import enum
import inspect
import io
import re
import tokenize
import types
import typing
from collections.abc import Callable
from typing import Any

from ..boundary import said
from ..errors import UsageError, VoirError
from .settings import FALSE, TRUE, Fallback

if typing.TYPE_CHECKING:
    from .options import OptionParser

#: Annotations of several values, and what they are in the end.
CONTAINERS: dict[Any, Callable[[Any], Any]] = {
    list: list,
    tuple: tuple,
    set: set,
    frozenset: frozenset,
    collections.abc.Sequence: list,
    collections.abc.Iterable: list,
    collections.abc.Collection: list,
}

#: Where the part of a comment begins that is not for people.
FOR_TOOLS = re.compile(r"#\s*(?:noqa|(?:type|pragma|fmt|mypy|pyright|pylint|ruff|isort):)")


class Model:
    """A dataclass whose fields are options.

    Attributes:
        dest: The attribute of the parsed options that will hold an instance.
        kind: The dataclass.
        fields: For each field, what turns the option's value into the field's.
    """

    def __init__(self, dest: str, kind: type) -> None:
        self.dest = dest
        self.kind = kind
        self.fields: dict[str, Callable[[Any], Any]] = {}

    def build(self, options: argparse.Namespace) -> None:
        """Put an instance in the place of the fields' options.

        Raises:
            UsageError: The dataclass refuses the values.
        """
        values = {}
        for name, convert in self.fields.items():
            value = vars(options).pop(f"{self.dest}.{name}")
            values[name] = None if value is None else convert(value)
        try:
            setattr(options, self.dest, self.kind(**values))
        except (ValueError, TypeError) as error:
            what = f"{self.kind.__name__} refuses its values: {said(error)}"
            raise UsageError("option-value", what, "See voir --help.") from None


def add_model(parser: OptionParser, dest: str, model: Any, prefix: str) -> list[Model]:
    """Add the options of a dataclass, and of dataclasses within it, to ``parser``.

    Args:
        parser: Where to add them.
        dest: The attribute of the parsed options.
        model: The dataclass, or an instance of it whose values are the defaults.
        prefix: What the options' names begin with.

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
        default = _default(field) if isinstance(model, type) else getattr(model, field.name)
        built.fields[field.name] = _container(hint)
        if _is_class(hint) and dataclasses.is_dataclass(hint):
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
        raise VoirError(
            "not-a-dataclass",
            f"add_from_model({dest!r}, {kind.__name__}): {kind.__name__} is not a dataclass",
            "Decorate it with @dataclass.",
        )
    try:
        return typing.get_type_hints(kind)
    except NameError as error:
        raise VoirError(
            "option-type",
            f"the types of {kind.__name__}'s fields cannot be told: {error}",
            "Import or define what they name at the top level of the file.",
        ) from None


def _default(field: dataclasses.Field[Any]) -> Any:
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory()
    return field.default


def flags_of(parser: OptionParser, prefix: str, name: str) -> list[str]:
    """What a field is called on the command line."""
    flag = f"--{prefix}{name.replace('_', '-')}"
    # A one-letter field is a short option, as people know it; -m is python's.
    short = f"-{name}"
    free = name != "m" and short not in parser._option_string_actions
    return [short, flag] if len(name) == 1 and not prefix and free else [flag]


def keywords_of(who: str, kind: Any, default: Any) -> dict[str, Any]:
    """What argparse is to be told about a field of type ``kind``."""
    missing = default is dataclasses.MISSING
    keywords: dict[str, Any] = {"required": True} if missing else {"default": default}
    if kind is bool:
        return {"action": _Switch, **keywords}
    origin = typing.get_origin(kind) or kind
    if origin not in CONTAINERS:
        return {**_conversion(who, kind), **keywords}
    inner = [one for one in typing.get_args(kind) if one is not Ellipsis] or [str]
    if len(set(inner)) > 1:
        raise _unsupported(who, kind)
    fixed = typing.get_origin(kind) is tuple and Ellipsis not in typing.get_args(kind)
    if not missing and default is not None:
        keywords["default"] = Fallback(default)
    shape: dict[str, Any] = {"nargs": len(inner)} if fixed else {"action": "append"}
    return {**shape, **_conversion(who, inner[0]), **keywords}


def _conversion(who: str, kind: Any) -> dict[str, Any]:
    """The keywords ``type`` and ``metavar`` of one value."""
    if typing.get_origin(kind) is typing.Literal:
        return _named({str(choice): choice for choice in typing.get_args(kind)})
    if _is_class(kind) and issubclass(kind, enum.Enum):
        by_value = {str(member.value): member for member in kind}
        return _named({**by_value, **kind.__members__}, shown=list(by_value))
    if kind is bool:
        words = {**dict.fromkeys(TRUE, True), **dict.fromkeys(FALSE, False)}
        return _named(words, shown=["true", "false"])
    if kind is Any:
        return {"type": str}
    if not _is_class(kind) or issubclass(kind, dict):
        return {"type": _first_of(who, _alternatives(who, kind))}
    return {"type": kind, "metavar": kind.__name__.upper()}


def _named(choices: dict[str, Any], shown: list[str] | None = None) -> dict[str, Any]:
    names = shown or list(choices)

    def choose(text: str) -> Any:
        if text in choices:
            return choices[text]
        raise argparse.ArgumentTypeError(f"{text!r} is none of {', '.join(names)}")

    return {"type": choose, "metavar": "{" + ",".join(names) + "}"}


def _alternatives(who: str, kind: Any) -> list[Any]:
    if not _is_union(kind):
        raise _unsupported(who, kind)
    return list(typing.get_args(kind))


def _first_of(who: str, kinds: list[Any]) -> Callable[[str], Any]:
    """Convert to the first type that takes the text, as ``int | str`` means it."""
    converts = [_conversion(who, kind)["type"] for kind in kinds]

    def convert(text: str) -> Any:
        for one in converts:
            try:
                return one(text)
            except (ValueError, TypeError, argparse.ArgumentTypeError):
                continue
        raise argparse.ArgumentTypeError(f"{text!r} is neither of {', '.join(map(str, kinds))}")

    return convert


def _unsupported(who: str, kind: Any) -> VoirError:
    return VoirError(
        "option-type",
        f"{who} is a {kind}, which a command line cannot hold",
        "Make it an int, float, str, bool, Path, Enum, Literal, or a list of one of these.",
    )


class _Switch(argparse.BooleanOptionalAction):
    """``--x`` and ``--no-x``; in a group ``--group.x`` and ``--group.no-x``."""

    def __init__(
        self, option_strings: list[str], dest: str, help: str | None = None, **kwargs: Any
    ) -> None:
        super().__init__(option_strings, dest, **kwargs)
        self.help = help  # Not before: some versions of argparse add the default to it.
        within = [_negated(option) for option in option_strings if "." in option]
        self.option_strings = [*self.option_strings, *within]
        self._negative = set(self.option_strings) - set(option_strings)

    def __call__(self, parser: Any, namespace: Any, values: Any, option_string: Any = None) -> None:
        setattr(namespace, self.dest, option_string not in self._negative)


def _negated(option: str) -> str:
    group, _, field = option.rpartition(".")
    return f"{group}.no-{field}"


def _is_class(kind: Any) -> bool:
    return isinstance(kind, type)


def _is_union(kind: Any) -> bool:
    return typing.get_origin(kind) in (typing.Union, types.UnionType)


def _without_none(hint: Any) -> Any:
    kinds = [kind for kind in typing.get_args(hint) if kind is not type(None)]
    if not _is_union(hint) or len(kinds) == len(typing.get_args(hint)):
        return hint
    return kinds[0] if len(kinds) == 1 else typing.Union[tuple(kinds)]  # noqa: UP007


def _container(hint: Any) -> Callable[[Any], Any]:
    return CONTAINERS.get(typing.get_origin(hint) or hint, lambda value: value)


def help_of(text: str | None, default: Any) -> str | None:
    """The help of a field: its comment, and its default."""
    shown = _shown(default)
    whole = " ".join(part for part in (text, shown and f"(default: {shown})") if part)
    # argparse interpolates help texts, so a percent sign must be doubled.
    return whole.replace("%", "%%") or None


def _shown(default: Any) -> str:
    if default is dataclasses.MISSING or default is None or default is False:
        return ""
    if default is True:
        return "on"
    if isinstance(default, enum.Enum):
        return str(default.value)
    several = isinstance(default, (list, tuple, set, frozenset))
    return ", ".join(map(str, default)) if several else str(default)


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
