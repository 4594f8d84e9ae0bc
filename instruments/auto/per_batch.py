"""Forward passes that nothing is learned from, put together: those on one batch are one step."""

from __future__ import annotations

from collections.abc import Callable, Hashable

from .passes import Pass

#: So many passes on one batch wait for the next at most; more are steps by themselves.
MOST = 1024
#: Loaders of which it is remembered how many passes there are on each batch.
SOURCES = 64
#: How many those are, where that is not known.
UNKNOWN = 0


class PerBatch:
    """Makes one step of all passes on a batch that a loader gave for an evaluation.

    A picture is looked at in several views, a text is made word by word, an attack tries again and
    again: what is evaluated is a batch of the loader's. That there were several passes is known
    when the loader is asked for the next one; where it is not, as for a batch on which a model is
    timed, each pass is a step. So are all of batches that were fetched beforehand.

    Args:
        emit: Called with each step, as a pass: at once where there is but one on each batch.
        mark: Returns the device's mark for what ends at a time.
        feeds: Tells whether a loader feeds training: what is done beside a step is not on its
            batch.
    """

    __slots__ = (
        "_asked", "_asking", "_emit", "_feeds", "_held", "_last", "_mark", "_source", "_usual",
    )  # fmt: skip

    def __init__(
        self,
        emit: Callable[[Pass], object],
        mark: Callable[[int], object],
        feeds: Callable[[Hashable], bool],
    ) -> None:
        self._emit, self._mark, self._feeds = emit, mark, feeds
        self._held: list[Pass] = []
        self._usual: dict[Hashable, int] = {}
        self._source: Hashable = None
        self._asking: Hashable = None
        self._asked = self._last = -1

    @property
    def waiting(self) -> bool:
        """Whether passes wait for what comes behind them."""
        return bool(self._held)

    def asks(self, source: Hashable, fetches: int) -> None:
        """A loader is asked for a batch; all of them had given so many ``fetches``."""
        if self._held:
            self.ends(source)
        self._asking, self._asked, self._last = source, fetches, -1

    def made(self, made: Pass) -> None:
        """A pass has been made."""
        held = self._held
        if held and (held[0].fetches != made.fetches or held[0].task != made.task):
            self.ends()
        source = self._asking
        if not made.fetches or self._asked < 0 or self._feeds(source):
            self._emit(made)
            return
        if self._usual.get(source) == 1:
            if made.fetches == self._last:
                self._usual[source] = UNKNOWN  # The next batch's are waited for.
            self._last = made.fetches
            self._emit(made)
            return
        self._source = source
        self._held.append(made._replace(mark=self._mark(made.ended), late=True))
        if len(self._held) > MOST:
            self.ends()
            self._know(1)

    def ends(self, asked: Hashable = None) -> None:
        """What comes next is no pass on that batch: this loader is ``asked``, or it is learned."""
        held, self._held = self._held, []
        if not held:
            return
        n, usual = len(held), self._usual.get(self._source, UNKNOWN)
        first = held[0]
        if asked is not None and asked == self._source and self._asked + 1 == first.fetches:
            self._know(n)
            together = n > 1
        else:
            together = n == usual
        if together:
            last = held[-1]
            held = [first._replace(ended=last.ended, mark=last.mark)]
        for each in held:
            self._emit(each)

    def _know(self, n: int) -> None:
        if self._source in self._usual or len(self._usual) < SOURCES:
            self._usual[self._source] = n
