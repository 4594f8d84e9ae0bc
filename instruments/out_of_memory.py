"""Saves a memory snapshot when the script fails because memory is full."""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Generator
    from typing import Any

    from overseer import Overseer

#: The file of PyTorch's device memory snapshot in the run directory.
SNAPSHOT = "memory_snapshot.pickle"


def instrument_out_of_memory(ov: Overseer) -> Generator[Any, Any, None]:
    """Save a memory snapshot if the script ends with an out-of-memory error."""
    try:
        yield ov.phases.run_script(priority=90)
    except GeneratorExit:
        raise
    except BaseException as error:
        # The frames of the error are still alive, and so are the tensors that they hold.
        kind = _kind(error)
        if kind is not None:
            _keep(ov, kind)


def _kind(error: BaseException | None) -> type[BaseException] | None:
    """The class of the out-of-memory error: this error, or one of its causes."""
    full = getattr(sys.modules.get("torch"), "OutOfMemoryError", None) or MemoryError
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        if isinstance(error, (MemoryError, full)):
            return type(error)
        seen.add(id(error))
        error = error.__cause__ or error.__context__
    return None


def _keep(ov: Overseer, kind: type[BaseException]) -> None:
    from overseer.errors import Problem

    directory = ov.recording.directory.path if ov.recording is not None else None
    if directory is None:
        return
    what, remedy = f"memory was full; the run up to there is in {directory}", None
    if not issubclass(kind, MemoryError):
        path = str(directory / SNAPSHOT)
        try:
            sys.modules["torch"].cuda.memory._dump_snapshot(path)
        except Exception as error:  # A lost device, a full disk, or an old PyTorch.
            what += f", without a memory snapshot ({type(error).__name__}: {error})"[:300]
        else:
            what = f"the device's memory was full; what it held is in {path}"
            remedy = "Look at it: drop the file onto https://pytorch.org/memory_viz"
            ov.summary["memory_snapshot"] = path
    ov.report(Problem("out-of-memory", kind.__name__, what, remedy=remedy))
