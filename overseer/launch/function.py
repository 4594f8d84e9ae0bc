"""``-m module:function``: import the module, call the function, keep its value."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import ModuleType

from .program import (
    CannotRun,
    Program,
    current_directory,
    fresh_main,
    replace_first_path,
    safe_path,
)
from .source import Instrument

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class Function(Program):
    """A function that stands for a script, as in an installed command's entry point."""

    def load(self, instrument: Instrument | None = None) -> None:
        """Import the module, under its own name; import hooks, not ``instrument``, see it."""
        name, _, self._path = self.target.name.partition(":")
        if not (name and self._path):
            what = f"-m {self.target.name} names no function"
            raise CannotRun("no-function", what, "For example: -m package.module:main")
        sys.argv = ["-m", *self.target.argv]
        replace_first_path(None if safe_path() else current_directory())
        fresh_main()
        self._function = self._resolve(_import(name))

    def run(self) -> object:
        """Call the function; what it returns is the program's value, and a number its status."""
        return self._function()

    def _resolve(self, module: ModuleType) -> Callable[[], object]:
        sys.argv[0] = getattr(module, "__file__", None) or module.__name__
        found: Any = module
        for part in self._path.split("."):
            if not hasattr(found, part):
                raise CannotRun(
                    "no-function",
                    f"{_kind(found)} has no attribute {part!r}",
                    _callables(found, part),
                )
            found = getattr(found, part)
        if not callable(found):
            what = f"{self.target.name} is not a function but {type(found).__name__}"
            raise CannotRun("no-function", what, _callables(module, self._path))
        return found  # type: ignore[no-any-return]


def _import(name: str) -> ModuleType:
    try:
        __import__(name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise  # Something that the module itself imports.
        what = f"No module named {error.name}. Is it installed for {sys.executable}?"
        raise CannotRun("no-module", what) from None
    return sys.modules[name]


def _kind(found: object) -> str:
    name = getattr(found, "__name__", repr(found))
    return f"module {name!r}" if isinstance(found, ModuleType) else repr(name)


def _callables(found: object, part: str) -> str:
    from difflib import get_close_matches

    names = [n for n in dir(found) if not n.startswith("_") and callable(getattr(found, n, None))]
    near = get_close_matches(part, names, 3) or names[:5]
    return f"It has: {', '.join(near)}." if near else "It defines no function at all."
