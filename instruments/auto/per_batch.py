"""Forward passes that nothing is learned from, put together: those on one batch are one step."""

from __future__ import annotations

from collections.abc import Callable, Hashable

from .passes import Pass

#: So many passes on one batch wait for the next at most: of a loader of whose batches it is not
#: known how many passes there are on each, and of others. More are steps by themselves.
FEW, MOST = 256, 4096
#: As long, in nanoseconds, do the first wait.
WAIT_NS = 2_000_000_000
#: Loaders of which it is remembered that they were evaluated; how many passes are on each batch.
SOURCES = 64


class PerBatch:
    """Makes one step of all passes on a batch that a loader gave for an evaluation.

    A picture is looked at in several views, a text is made word by word, an attack tries again and
    again: what is evaluated is a batch of the loader's. That there were several passes is known
    when the loader is asked for the next one; where it is not, as for a batch on which a model is
    timed, each pass is a step. So are all of batches that were fetched beforehand.

    Passes that are unsure wait until a loader is asked, too. If the script has learned by then, and
    goes on with the loader whose batch they were made on, or one beside it, they were a step's.

    Args:
        emit: Called with each step, as a pass: at once where there is but one on each batch.
        mark: Returns the device's mark for what ends at a time.
        feeds: Tells whether a loader feeds training: what is done beside a step is not on its
            batch.
        at_once: Each pass is told at once, as a step.
    """

    __slots__ = (
        "_asked", "_asking", "_at_once", "_before", "_blind", "_emit", "_evaluated", "_feeds",
        "_fetches", "_held", "_learned", "_mark", "_n", "_source", "_unsure", "_usual",
    )  # fmt: skip

    def __init__(
        self,
        emit: Callable[[Pass], object],
        mark: Callable[[int], object],
        feeds: Callable[[Hashable], bool],
        at_once: bool = False,
    ) -> None:
        self._emit, self._mark, self._feeds, self._at_once = emit, mark, feeds, at_once
        self._held: list[Pass] = []
        self._unsure: list[Pass] = []
        self._learned = self._blind = False
        self._evaluated: set[Hashable] = set()
        self._usual: dict[Hashable, int] = {}
        self._source: Hashable = None
        self._asking: Hashable = None
        self._before: Hashable = None  # The one that was asked before that.
        self._asked = self._fetches = -1
        self._n = 0

    @property
    def waiting(self) -> bool:
        """Whether passes wait for what comes behind them."""
        return bool(self._held)

    @property
    def elsewhere(self) -> bool:
        """Whether the loader asked last is none of those whose batches were evaluated."""
        return not self._blind and self._asking not in self._evaluated

    @property
    def feeding(self) -> bool:
        """Whether that loader feeds training."""
        return self._feeds(self._asking)

    def learned(self) -> None:
        """The script learns, while passes are unsure."""
        self._learned = bool(self._unsure)

    def gives(self, source: Hashable, fetches: int) -> None:
        """A loader gives a batch, with which all of them have given so many ``fetches``."""
        if source != self._asking:
            self.asks(source, fetches - 1)  # In a light step it is not told.

    def asks(self, source: Hashable, fetches: int) -> None:
        """A loader is asked for a batch; all of them had given so many ``fetches``."""
        if self._unsure:
            self._decide(source)
        if self._n:
            self.ends(source)
        self._before, self._asking, self._asked = self._asking, source, fetches
        self._blind = False

    def made(self, made: Pass) -> None:
        """A pass has been made."""
        if made.late and made.mark is None:
            made = made._replace(mark=self._mark(made.ended))
        if made.unsure:
            self._unsure.append(made._replace(mark=self._mark(made.ended), late=True, unsure=False))
            if len(self._unsure) >= FEW:
                self._decide()
        else:
            if made.fetches != self._asked + 1:
                self._blind = True  # The batch is of one that was not seen asked.
            elif self._asking not in self._evaluated:
                if len(self._evaluated) >= SOURCES:
                    self._evaluated.clear()
                self._evaluated.add(self._asking)
            self._made(made)

    def _decide(self, asked: Hashable = None) -> None:
        """Whether passes that were unsure belong to a step; else they were an evaluation's."""
        unsure, self._unsure = self._unsure, []
        learned, self._learned = self._learned, False
        goes_on = asked in (self._asking, self._before) and asked not in self._evaluated
        if not (learned and (self.feeding if asked is None else goes_on)):
            for each in unsure:
                self.made(each)

    def _made(self, made: Pass) -> None:
        source = self._asking
        if self._at_once or not made.fetches or self._asked < 0 or self._feeds(source):
            self._emit(made)
            return
        if self._n and self._fetches != made.fetches:
            self.ends()
        self._n += 1
        self._source, self._fetches = source, made.fetches
        usual = self._usual.get(source, 0)
        if usual == 1 or len(self._held) < self._n - 1:
            self._emit(made)
            return
        if not made.late:
            made = made._replace(mark=self._mark(made.ended), late=True)
        self._held.append(made)
        if len(self._held) >= (MOST if usual else FEW) or (
            not usual and made.ended - self._held[0].ended > WAIT_NS
        ):
            self._tell(together=False)

    def ends(self, asked: Hashable = None) -> None:
        """What comes next is no pass on that batch: this loader is ``asked``, or it is learned."""
        if self._unsure:
            self._decide()
        source, n, self._n = self._source, self._n, 0
        usual = self._usual.get(source, 0)
        fresh = asked is not None and asked == source and self._asked + 1 == self._fetches
        if fresh and (n > 1 or not usual) and (usual or len(self._usual) < SOURCES):
            self._usual[source] = n
        self._tell(together=fresh or n == usual)

    def _tell(self, together: bool) -> None:
        held, self._held = self._held, []
        if together and len(held) > 1:
            held = [held[0]._replace(ended=held[-1].ended, mark=held[-1].mark)]
        for each in held:
            self._emit(each)
