"""How many items a step learns from: by the loader's batches, else by what the models are given."""

from __future__ import annotations

from collections.abc import Hashable

#: Loaders that fed training, remembered by name; a script that makes up more is taken at its last.
SOURCES = 64
#: So many batches may wait to be learned from; of more, all but the last have been left out.
AHEAD = 64
#: So many of an epoch's, at most, are learned from when the next has begun.
OVER = 8
#: As often is a model given a single sample for one that is learned from: a state and the next.
PAIR = 2


class Batches:
    """Counts a step's items through accumulation, several models and several loaders.

    A batch counts when ``backward`` has learned from it, once, however often that happens. Without
    a loader a batch is what a model is given; several models of one step see the same batch, so
    the one that saw least counts: the discriminator of a GAN sees each batch twice.

    A loader's batch of 0 items is one of which nobody can know how many it has; of one of which
    that is just not known (None), what a model is given may tell.

    Attributes:
        fetches: How many batches loaders have given.
        source: The loader whose batch was last learned from; None when there were several,
            or when it is fetched from ahead of the work.
    """

    __slots__ = (
        "_ahead", "_fed", "_given", "_loaded", "_ones", "_own", "_stale", "_together", "_totals",
        "fetches", "source",
    )  # fmt: skip

    def __init__(self) -> None:
        self.fetches = 0
        self.source: Hashable = None
        self._loaded: dict[Hashable, list[int | None]] = {}
        self._own: set[Hashable] = set()
        self._ahead: set[Hashable] = set()
        self._stale: set[Hashable] = set()
        self._together: set[Hashable] = set()
        self._fed: int | None = None
        self._given: dict[int, int] = {}
        self._ones: dict[int, int] = {}
        self._totals: dict[int, int] = {}

    @property
    def fresh(self) -> bool:
        """Whether a loader's batch has been learned from since the last step."""
        return self._fed is not None

    @property
    def waiting(self) -> bool:
        """Whether a loader's batch has not been learned from yet."""
        return bool(self._loaded)

    @property
    def other(self) -> bool:
        """Whether the last batch is from a loader that does not feed training."""
        return bool(self._loaded) and next(reversed(self._loaded)) not in self._own

    def feeds(self, source: Hashable) -> bool:
        """Whether this is a loader whose batches have been learned from."""
        return source in self._own

    def waits(self, source: Hashable) -> bool:
        """Whether it has given a batch that nothing has been learned from."""
        return source in self._loaded

    def fetched(self, source: Hashable, items: int | None) -> None:
        """A loader has given a batch."""
        self.fetches += 1
        before = self._loaded.pop(source, None)  # The last to come is the last in the dictionary.
        if source in self._stale:
            self._stale.discard(source)
            before = None
        if before is None or (source in self._own and source not in self._ahead):
            before = []  # One that was not learned from was left out.
        elif len(before) == AHEAD:
            before.clear()
        before.append(items)
        self._loaded[source] = before

    def begun(self) -> None:
        """A loader begins anew: what waits was only looked at, maybe, before."""
        if not self._own:
            self._loaded.clear()
        for source in self._ahead & self._loaded.keys():
            if len(self._loaded[source]) > OVER:  # It has not been working ahead: it left some out.
                del self._loaded[source]
                self._ahead.discard(source)
        self._stale = self._loaded.keys() - self._ahead

    def exhausted(self, source: Hashable) -> None:
        """A loader has no more: what it gave that nobody learned from was an evaluation's."""
        if source not in self._own:
            self._loaded.pop(source, None)

    def given(self, model: int, items: int | None, alone: bool = False) -> None:
        """A model has been given a batch, in a forward pass that may be learned from.

        Args:
            model: A name for the model.
            items: The size of the batch.
            alone: It is a single sample, and so all that are given are counted.
        """
        if alone:
            items = self._ones[model] = self._ones.get(model, 0) + 1
            if items <= PAIR:
                items = 1
        if items is not None:
            known = self._given.get(model, 0)
            self._given[model] = items if items > known else known

    def learned(self) -> None:
        """``backward`` has learned from what was fetched and given since the last."""
        if self._loaded:
            items = self._own_batch()
            if items is not None:
                self._fed = items if self._fed is None else self._fed + items
        if self._given:
            totals = self._totals
            for model, items in self._given.items():
                totals[model] = totals.get(model, 0) + items
            self.repeated()

    def repeated(self) -> None:
        """What was given is what has been learned from before."""
        self._given.clear()
        self._ones.clear()

    def take(self) -> int | None:
        """The items learned from since this was last asked; None when that is not known."""
        items = self._fed
        if items is None and self._totals:
            items = min(self._totals.values())
        self._fed = None
        self._totals.clear()
        return items or None

    def return_(self, items: int | None) -> None:
        """What has been taken was learned from for the step that goes on."""
        if items is not None:
            self._fed = items + (self._fed or 0)

    def seen(self, items: int | None) -> int | None:
        """The items of a forward pass just made: those of the last batch, else those given."""
        if not self._loaded:
            return items
        source = next(reversed(self._loaded))
        found = self._loaded[source][-1]
        # Where a step waits with its batch, what is evaluated meanwhile is another.
        other = found is None or (source in self._own and items is not None)
        return items if other else found or None

    def evaluated(self) -> None:
        """Nothing is learned from what has been given, and fetched for it; a step's batch waits."""
        if self._loaded:
            self._loaded = {s: batch for s, batch in self._loaded.items() if s in self._own}
        self.repeated()

    def _own_batch(self) -> int | None:
        """Of several loaders' batches, the largest of those that fed training before too."""
        loaded, self._loaded = self._loaded, {}
        if len(loaded) > 1:
            self.source = None
            return self._largest(loaded)
        if self._together:
            self._together = set()
        source, waiting = loaded.popitem()
        if source not in self._own and len(self._own) < SOURCES:
            self._own.add(source)
            if len(waiting) > 1:  # Before it works on a batch, the script fetches the next.
                self._ahead.add(source)
        if source not in self._ahead:
            self.source = source
            return waiting[-1]
        self.source = None
        if len(waiting) > 1:
            self._loaded[source] = waiting[1:]
        return waiting[0]

    def _largest(self, loaded: dict[Hashable, list[int | None]]) -> int | None:
        before, self._together = self._together, set(loaded)
        if self._together == before and len(self._own) < SOURCES:
            self._own |= before  # They come together, as by zip.
        own = [source for source in loaded if source in self._own] or loaded
        return max((n for source in own if (n := loaded[source][0]) is not None), default=None)
