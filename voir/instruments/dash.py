"""The dashboard."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from instruments.dash import dash

if TYPE_CHECKING:
    from rich.table import Table

__all__ = ["Plain", "dash", "make_table"]


class Plain:
    """A value that rich shows as text.

    Args:
        x: The value.
        fmt: Where its text goes, as ``"{} items/s"``.
    """

    def __init__(self, x: object, fmt: str = "{}") -> None:
        self._object = x
        self.fmt = fmt

    def __rich__(self) -> str:
        return self.fmt.format(self._object)


def make_table(rows: Mapping[str, Mapping[str, Any]]) -> Table:
    """A table of values by task and key, ``progress`` first; for dashboards of one's own."""
    from rich.table import Table

    table = Table.grid("task", "key", "value", padding=(0, 3, 0, 0))
    for task, values in rows.items():
        ordered = sorted(values.items(), key=lambda item: item[0] != "progress")
        for number, (key, value) in enumerate(ordered):
            shown = "" if key == "progress" else key
            table.add_row("" if number else task, shown, value)
    return table
