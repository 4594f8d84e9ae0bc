"""All stock instruments, and which of them are at work without an option."""

from __future__ import annotations

from importlib import import_module

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

#: The module of each, its name there, and whether it is at work without an option.
STOCK = (
    ("app", "instrument_app", False),
    ("hooks.instrument", "instrument_auto", True),
    ("dash", "instrument_dash", False),
    ("log", "instrument_display", False),
    ("monitors.instrument", "instrument_monitors", True),
    ("observe", "instrument_observe", False),
    ("out_of_memory", "instrument_out_of_memory", True),
    ("rate", "instrument_rates", True),
    ("early_stop", "instrument_stop", False),
    ("tensorboard", "instrument_tensorboard", False),
    ("trace", "instrument_trace", True),
    ("verify", "instrument_verify", False),
)


def stock(plain: bool = False) -> list[Callable[..., Any]]:
    """The stock instruments.

    Args:
        plain: Only those that are at work without an option; importing the others takes time.
    """
    return [
        getattr(import_module(f".{module}", __package__), name)
        for module, name, always in STOCK
        if always or not plain
    ]
