"""Names that voirfiles of old Milabench import, and where they are now."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.machinery import ModuleSpec
from types import ModuleType

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

#: Where the instruments are that were in the module ``milabench.opt``.
HOME = "voir.instruments"
PACKAGE, MODULE = "milabench", "milabench.opt"
#: What that module is remembered for.
OFFERED = ("instrument_argparse",)


@contextmanager
def old_names() -> Iterator[None]:
    """Within, ``from milabench.opt import instrument_argparse`` works without Milabench.

    A Milabench that is installed goes first, and none is there afterwards.
    """
    finder = _Finder()
    sys.meta_path.append(finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)
        for name in (MODULE, PACKAGE):
            if getattr(sys.modules.get(name), "__loader__", None) is finder:
                del sys.modules[name]


class _Finder:
    """The last of the finders: asked for what nobody else has."""

    def find_spec(self, name: str, path: object = None, target: object = None) -> Any:
        """The spec of one of the two modules."""
        if name == MODULE and not _is_ours(sys.modules.get(PACKAGE)):
            return None
        if name not in (PACKAGE, MODULE):
            return None
        loader: Any = self
        return ModuleSpec(name, loader, is_package=name == PACKAGE)

    def create_module(self, spec: ModuleSpec) -> None:
        """Python makes the module."""

    def exec_module(self, module: ModuleType) -> None:
        """Fill the module."""
        if module.__name__ == MODULE:
            home = import_module(HOME)
            vars(module).update({name: getattr(home, name) for name in OFFERED})


def _is_ours(module: ModuleType | None) -> bool:
    return isinstance(getattr(module, "__loader__", None), _Finder)


def hint(error: BaseException) -> str | None:
    """What to write instead of an import from Milabench that failed; ``None`` of any other."""
    name = getattr(error, "name", None)
    if not isinstance(error, ImportError) or str(name).partition(".")[0] != PACKAGE:
        return None
    return (
        f"Milabench is not installed here. Its instruments are voir's: from {HOME} import "
        f"{', '.join(OFFERED)}; voir --help shows the rest."
    )
