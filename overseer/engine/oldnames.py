"""Names that voirfiles of old Milabench import, and where they are now."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType

#: Where the instruments are that were in the module ``milabench.opt``.
HOME = "voir.instruments"
PACKAGE, MODULE, INSTRUMENT = "milabench", "milabench.opt", "instrument_argparse"


@contextmanager
def old_names(source: bytes) -> Iterator[None]:
    """Within, ``from milabench.opt import instrument_argparse`` works without Milabench.

    A Milabench that is installed goes first, and none is there afterwards.

    Args:
        source: Of the voirfile; where it does not name Milabench, nothing is done.
    """
    if PACKAGE.encode() not in source or find_spec(PACKAGE) is not None:
        yield
        return
    package, module = ModuleType(PACKAGE), ModuleType(MODULE)
    package.__path__ = []
    setattr(module, INSTRUMENT, getattr(import_module(HOME), INSTRUMENT))
    sys.modules.update({PACKAGE: package, MODULE: module})
    try:
        yield
    finally:
        del sys.modules[PACKAGE], sys.modules[MODULE]


def hint(error: BaseException) -> str | None:
    """What to write instead of an import from Milabench that failed; ``None`` of any other."""
    name = getattr(error, "name", None)
    if not isinstance(error, ImportError) or str(name).partition(".")[0] != PACKAGE:
        return None
    return (
        f"Milabench is not installed here. Its instruments are voir's: from {HOME} import "
        f"{INSTRUMENT}; voir --help shows the rest."
    )
