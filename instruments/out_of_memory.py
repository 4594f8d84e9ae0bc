"""Records what the memory held when a run ends because memory is full, and where that was."""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Generator
    from typing import Any

    from overseer import Overseer

#: What the run directory calls PyTorch's account of the memory of its devices.
SNAPSHOT = "memory_snapshot.pickle"


def instrument_out_of_memory(ov: Overseer) -> Generator[Any, Any, None]:
    """Keep a memory snapshot when the script ends by an error that says that memory is full."""
    try:
        yield ov.phases.run_script(priority=90)
    except GeneratorExit:
        raise
    except BaseException as error:
        # Here the frames that the error came through are alive, and with them what they hold.
        kind = _kind(error)
        if kind is not None:
            _keep(ov, kind)


def _kind(error: BaseException | None) -> type[BaseException] | None:
    """The class of the error that tells of full memory: this one, or one that led to it."""
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
        except Exception as error:  # The device is lost, the disk is full, or PyTorch is older.
            what += f", without a memory snapshot ({type(error).__name__}: {error})"[:300]
        else:
            what = f"the device's memory was full; what it held is in {path}"
            remedy = "Look at it: drop the file onto https://pytorch.org/memory_viz"
            ov.summary["memory_snapshot"] = path
    ov.report(Problem("out-of-memory", kind.__name__, what, remedy=remedy))
