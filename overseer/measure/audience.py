"""Who is told when a script waits for a batch; apart, for it is there before there is a loader."""

from __future__ import annotations

from _thread import get_ident
from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .steps import StepModel


class Audience:
    """Who is told of waits.

    Where a loader that is awaited asks another, only the model is told of that one.

    Attributes:
        model: The step model, once there is one; it is told first.
        begins: Called with a loader's name when it is asked for a batch.
        ends: Called with it, and whether there was none left, when it has answered.
        batches: Called with it and the batch that has come, after ``ends``.
        waiting: Called when something else begins to keep a loop waiting, with its name; and with
            None when a loader begins anew, or is left.
        waited_for: Called with the times between which it did.
        others: Called with the name of a loader that is another one's from here on.
        heard: Some loader has given a batch.
    """

    __slots__ = (
        "_awaited", "batches", "begins", "ends", "heard", "model", "others", "waited_for",
        "waiting",
    )  # fmt: skip

    def __init__(self) -> None:
        self.model: StepModel | None = None
        self.begins: list[Callable[[Hashable], object]] = []
        self.ends: list[Callable[[Hashable, bool], object]] = []
        self.batches: list[Callable[[Hashable, Any], object]] = []
        self.waiting: list[Callable[[Hashable], object]] = []
        self.waited_for: list[Callable[[int, int], object]] = []
        self.others: list[Callable[[Hashable], object]] = []
        self._awaited: dict[int, Hashable] = {}
        self.heard = False

    def begun(self, name: Hashable) -> None:
        """A loader begins anew."""
        for waiting in self.waiting:
            waiting(None)
        if self.model is not None:
            self.model.loader_begins(name)

    def other(self, name: Hashable) -> None:
        """The loader of this name is gone, and another has it."""
        for other in self.others:
            other(name)
        if self.model is not None:
            self.model.loader_other(name)

    def shuts(self, name: Hashable, over: bool) -> None:
        """A loader that nobody waits for shuts its workers down; or that is over."""
        if self.model is not None and not self.awaits:
            self.model.loader_shuts(name, over)

    def left(self, name: Hashable) -> None:
        """A loop is left in which a loader has more batches."""
        for waiting in self.waiting:
            waiting(None)
        if self.model is not None:
            self.model.loader_left(name)

    def asked(self, name: Hashable) -> None:
        """A loader is asked for a batch."""
        at = self.model.moment() if self.model is not None else None
        if self._awaited.setdefault(get_ident(), name) == name:
            for begins in self.begins:
                begins(name)  # Who held a step back has it noted before.
        if self.model is not None:
            self.model.loading_begins(name, at)

    @property
    def awaits(self) -> bool:
        """Whether the calling thread waits for a loader."""
        return get_ident() in self._awaited

    def answered(self, name: Hashable, batch: Any) -> None:
        """It has answered with a batch."""
        self.heard = True
        if self.model is not None:
            self.model.loading_ends(name)
        if self._outermost(name):
            for ends in self.ends:
                ends(name, False)
            for heard in self.batches:
                heard(name, batch)

    def failed(self, name: Hashable, exhausted: bool) -> None:
        """It has answered without."""
        if self._outermost(name):
            for ends in self.ends:
                ends(name, exhausted)  # Who knows that the step goes on has it noted before.
        if self.model is not None:
            self.model.loading_ends(name, exhausted)

    def _outermost(self, name: Hashable) -> bool:
        """Whether the loader that answers is not asked by another; it is awaited no more."""
        thread = get_ident()
        if self._awaited.get(thread, name) != name:
            return False
        self._awaited.pop(thread, None)
        return True

    # What is not told to be a loader, but gives batches

    def waits(self, name: Hashable) -> None:
        """The script waits for what is no loader by itself."""
        at = self.model.moment() if self.model is not None else None
        for waiting in self.waiting:
            waiting(name)
        if self.model is not None:
            self.model.loading_begins(name, at)

    def waited(self, name: Hashable, begun: int, ended: int, late: bool = False) -> None:
        """It waits no more; that it did is told ``late``."""
        if late:
            for waiting in self.waiting:
                waiting(name)  # Else they were told when it began.
        for waited in self.waited_for:
            waited(begun, ended)
        if self.model is not None:
            if late:
                self.model.loaded(name, begun, ended)
            else:
                self.model.loading_ends(name)

    def exhausted(self, name: Hashable) -> None:
        """There is no more of it."""
        if self.model is not None:
            self.model.loading_ends(name, True)

    @property
    def nobody_else(self) -> bool:
        """Whether only the model is told."""
        return self.model is not None and not (self.begins or self.ends or self.batches)
