"""An ``ArgumentParser`` that takes options from dataclasses."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any

from overseer.engine.models import Model, add_model
from overseer.engine.settings import Fallback, Layers
from overseer.errors import UsageError

__all__ = ["ExtendedArgumentParser"]


class ExtendedArgumentParser(argparse.ArgumentParser):
    """An ``argparse.ArgumentParser`` with :meth:`add_from_model`."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._configs: list[dict[str, Any]] = []
        self._models: list[Model] = []

    def merge_base_config(self, config: Mapping[str, Any]) -> None:
        """Use ``config`` (dest to option to value) as defaults; later calls win."""
        self._configs.append(dict(config))

    def add_from_model(self, dest: str, model: Any, flatten: bool = True) -> None:
        """Add an option for each field of a dataclass; parsing makes an instance of it.

        Args:
            dest: The attribute of the parsed arguments.
            model: A dataclass, or an instance of one whose values are the defaults.
            flatten: Name options ``--<field>``; otherwise ``--<dest>.<field>``.
        """
        parser: Any = self
        self._models.extend(add_model(parser, dest, model, "" if flatten else f"{dest}."))

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse as argparse does; an instance replaces each model's fields."""
        layers = Layers(self._actions, {model.dest for model in self._models}, self._get_value)
        try:
            for config in self._configs:
                layers.take_config("the base configuration", config)
            for action in self._actions:
                if action.dest in layers.chosen:
                    action.default, action.required = layers.chosen[action.dest], False
            found, rest = super().parse_known_args(args, namespace)
            for dest, value in vars(found).items():
                if isinstance(value, Fallback):
                    setattr(found, dest, list(value))
            for model in self._models:
                model.build(found)
        except UsageError as error:
            self.error(error.what)
        return found, rest
