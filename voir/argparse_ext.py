"""An ``ArgumentParser`` that takes options from dataclasses, and the comments of their fields."""

from __future__ import annotations

import argparse
import ast
import io
import tokenize
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, is_dataclass
from typing import Any

from overseer.engine.models import (
    Model,
    add_model,
    field_comments,
    flags_of,
    help_of,
    keywords_of,
)
from overseer.engine.settings import Fallback, Layers
from overseer.errors import UsageError, VoirError

__all__ = [
    "AttributeVisitor",
    "ExtendedArgumentParser",
    "Info",
    "contribute",
    "get_attribute_docstrings",
    "scrape_comments",
    "scrape_variables_and_docstrings",
]

Token = tuple[int, int, str, Any]


class ExtendedArgumentParser(argparse.ArgumentParser):
    """An ``argparse.ArgumentParser`` with :meth:`add_from_model`."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.base_configs: dict[str, Any] = {}
        self._models: list[Model] = []

    def merge_base_config(self, config: Mapping[str, Any]) -> None:
        """Let ``config`` (dest to option to value) be defaults; what comes later wins.

        Raises:
            VoirError: Options have been added from models already.
        """
        if self._models:
            what = "merge_base_config was called after add_from_model, whose options it is for"
            raise VoirError("option-late", what, "Call it before.")
        self.base_configs = _merged(self.base_configs, config)

    def add_from_model(self, dest: str, model: Any, flatten: bool = True) -> None:
        """Add an option for every field of a dataclass; the result has an instance of it.

        Args:
            dest: The attribute of the parsed arguments.
            model: A dataclass, or an instance of one whose values are the defaults.
            flatten: Whether fields are options of their own name; else ``--<dest>.<field>``.
        """
        parser: Any = self
        self._models.extend(add_model(parser, dest, model, "" if flatten else f"{dest}."))
        self._take_defaults(dest)

    def _take_defaults(self, dest: str) -> None:
        layers = Layers(self._actions, {model.dest for model in self._models}, self._convert)
        chosen = {key: value for key, value in self.base_configs.items() if key == dest}
        layers.take_config("the base configuration", chosen)
        for action in self._actions:
            if action.dest in layers.chosen:
                action.default, action.required = layers.chosen[action.dest], False

    def _convert(self, action: argparse.Action, text: str) -> Any:
        return self._get_value(action, text)

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """As argparse has it, with an instance in the place of each model's fields."""
        unused = sorted(set(self.base_configs) - {model.dest for model in self._models})
        if unused:
            known = ", ".join(model.dest for model in self._models)
            said = f"configuration of {', '.join(unused)} is not used; there are options of {known}"
            warnings.warn(said, stacklevel=2)
        found, rest = super().parse_known_args(args, namespace)
        for dest, value in vars(found).items():
            if isinstance(value, Fallback):
                setattr(found, dest, list(value))
        try:
            for model in self._models:
                model.build(found)
        except UsageError as error:
            self.error(error.what)
        return found, rest


def _merged(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    both = {key: value for key, value in below.items() if isinstance(value, Mapping)}
    merged = {k: _merged(both[k], v) if k in both else v for k, v in above.items()}
    return {**below, **merged}


@dataclass
class Info:
    """Where and how to add an option."""

    name: str
    type: Any
    help: str | None
    annotation: object
    prefix: str | None
    parser: Any
    group: Any


def contribute(default: Any, info: Info) -> None:
    """Add the option that ``info`` describes; of a dataclass, one for each field."""
    if is_dataclass(info.type):
        info.parser.add_from_model(info.name, info.type, flatten=info.prefix is None)
        return
    prefix = info.prefix or ""
    info.group.add_argument(
        *flags_of(info.parser, prefix, info.name),
        dest=f"{prefix}{info.name}",
        help=help_of(info.help, default),
        **keywords_of(info.name, info.type, default),
    )


def get_attribute_docstrings(cls: type) -> dict[str, str]:
    """The comment of each field of a class: above, beside or below it."""
    return field_comments(cls)


def scrape_comments(src: str) -> list[Token]:
    """Each comment of a source: its line and column, ``COMMENT``, its text."""
    tokens = tokenize.generate_tokens(io.StringIO(src).readline)
    return [
        (*token.start, "COMMENT", token.string[1:].strip())
        for token in tokens
        if token.type == tokenize.COMMENT
    ]


def scrape_variables_and_docstrings(src: str) -> list[Token]:
    """What a class assigns, the strings in it, and its other statements: line, column, kind, what.

    The kinds are ``VARIABLE`` (with its name), ``DOC`` (with the string) and ``OTHER``.
    """
    visitor = AttributeVisitor()
    visitor.visit(ast.parse(src))
    return visitor.data


class AttributeVisitor(ast.NodeVisitor):
    """Collects what :func:`scrape_variables_and_docstrings` returns, in ``data``."""

    def __init__(self) -> None:
        self.data: list[Token] = []

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        """Collect the body of a class; names in a class within begin with its own."""
        self.data.extend(_body(node.body, ""))


def _body(body: Sequence[ast.stmt], prefix: str) -> Iterator[Token]:
    for statement in body:
        place = (statement.lineno, statement.col_offset)
        match statement:
            case ast.Expr(value=ast.Constant(value=str() as text)):
                yield (*place, "DOC", text)
            case ast.ClassDef(name=name, body=inner):
                yield (*place, "VARIABLE", prefix + name)
                yield from _body(inner, f"{prefix}{name}.")
            case ast.AnnAssign(target=ast.Name(id=name)) | ast.FunctionDef(name=name):
                yield (*place, "VARIABLE", prefix + name)
            case ast.Assign(targets=targets):
                names = [target.id for target in targets if isinstance(target, ast.Name)]
                yield from ((*place, "VARIABLE", prefix + name) for name in names)
            case _:
                yield (*place, "OTHER", None)
