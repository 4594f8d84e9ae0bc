"""Where epochs end and checkpoints are saved, as loaders and PyTorch's own ``save`` show it."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from types import FunctionType
from typing import Any

from overseer import Overseer
from overseer.imports import on_import
from overseer.trace.emit import channel

from ..meter import measuring_of
from .window import Window

Event = dict[str, Any]


class Epochs:
    """Marks the moment when a loader that fed training has no more.

    Args:
        ov: The run.
        stepped: Told of each step of training that has ended, by its number.
    """

    def __init__(self, ov: Overseer, stepped: Callable[[int], object]) -> None:
        self._channel = channel("progress", always=True)
        self._steps = Window(None, 1, lambda opened: stepped(self._steps.count - 1))
        self._steps.insistent = True
        self._before = self._epochs = 0
        self._listening = ov.listen(self._steps.hear)
        measuring_of(ov).loaders.listen(lambda source: None, self._ended)

    def close(self) -> None:
        """Mark no more."""
        self._listening.dispose()

    def _ended(self, source: Hashable, exhausted: bool) -> None:
        if exhausted and self._steps.count > self._before:
            self._channel.instant(
                f"epoch {self._epochs} end", steps=self._steps.count - self._before
            )
            self._before = self._steps.count
            self._epochs += 1


class Checkpoints:
    """Shows each ``torch.save`` as a span; the function is the script's own, with probes in it.

    Args:
        ov: The run.
    """

    def __init__(self, ov: Overseer) -> None:
        self._ov = ov
        self._channel = channel("checkpoints", always=True)
        self._watch = on_import("torch", self._imported)

    def close(self) -> None:
        """Watch no longer."""
        self._watch.dispose()

    def _imported(self, torch: Any) -> None:
        save = getattr(getattr(torch, "serialization", None), "save", None)
        if isinstance(save, FunctionType):
            for marker, listener in (("#enter", self._begins), ("#exit", self._ends)):
                placed = self._ov.probes.probe(f"code > {marker}", env={"code": save})
                placed.listen(listener, "checkpoints")

    def _begins(self, event: Event) -> None:
        self._channel.begin("checkpoint")

    def _ends(self, event: Event) -> None:
        self._channel.end("checkpoint")
