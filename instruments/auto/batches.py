"""How many items a step learns from: by the loader's batches, else by what the models are given."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence

#: Loaders that fed training, remembered by name; a script that makes up more is taken at its last.
SOURCES = 64
#: So many batches may wait to be learned from; of more, all but the last have been left out.
AHEAD = 64
#: So many of an epoch's, at most, are learned from when the next has begun.
OVER = 8
#: As often is a model given a single sample for one that is learned from: a state and the next.
PAIR = 2
#: So many batches' losses may be summed up before ``backward`` is called on them.
SUMMED = 1024
#: Gradients of so many batches in a row that are put to zero may all be used for something else.
UNUSED = 2
#: Models of which it is remembered how large a batch they learned from.
MODELS = 64
#: So many steps behind the one that took a loader's batch are on the same: of two in all, the other
#: may be another optimizer's. How many batches of which that is not so tell that it is over.
MORE, SURE = 2, 8


class Waiting(list[int | None]):
    """The sizes of a loader's batches that nothing has been learned from yet.

    Attributes:
        passes: How many forward passes had been made when the last came.
        worked: With how many batches one was made before the next came.
        carried: How many came before the loader began anew.
    """

    __slots__ = ("carried", "passes", "worked")
    passes: int
    worked: int
    carried: int


class Batches:
    """Counts a step's items through accumulation, several models and several loaders.

    A batch counts when ``backward`` has learned from it, once, however often that happens. Without
    a loader a batch is what a model is given; several models of one step see the same batch, so
    the one that saw least counts: the discriminator of a GAN sees each batch twice.

    A loader's batch that a forward pass was made with counts where ``backward`` learns from a later
    one, if a script takes as many each time: it sums up their losses.

    Where several steps are made on each of a loader's batches, as on what a policy wrote to its
    prompts, only the first of them has a batch: all of them count what the models are given.

    A loader's batch of 0 items is one of which nobody can know how many it has; of one of which
    that is just not known (None), what a model is given may tell.

    Attributes:
        fetches: How many batches loaders have given.
        source: The loader whose batch was last learned from; None when there were several,
            or when it is fetched from ahead of the work.
    """

    __slots__ = (
        "_adds_up", "_ahead", "_apart", "_aside", "_before", "_elsewhere", "_ended", "_fed",
        "_feeder", "_from_before", "_given", "_in_turn", "_learnt", "_loaded", "_ones", "_own",
        "_passed", "_passes", "_rest", "_reuse", "_single", "_stale", "_sums", "_thrown",
        "_together", "_totals", "_totals_thrown", "_tried", "_zeroed", "_zeroed_loop", "fetches",
        "source",
    )  # fmt: skip

    def __init__(self) -> None:
        self.fetches = 0
        self.source: Hashable = None
        self._loaded: dict[Hashable, Waiting] = {}
        self._own: set[Hashable] = set()
        self._ahead: set[Hashable] = set()
        self._aside = Aside()
        self._before: dict[Hashable, Waiting] = {}
        self._tried: set[Hashable] = set()
        self._passed = False
        self._ended: Hashable = None
        self._stale: set[Hashable] = set()
        self._together: set[Hashable] = set()
        self._single: set[Hashable] = set()
        self._sums: dict[Hashable, Sums] = {}
        self._passes = self._rest = 0
        self._fed: int | None = None
        self._thrown: int | None = None
        self._totals_thrown: dict[int, int] = {}
        self._zeroed = 0  # Batches in a row whose gradients were put to zero.
        self._zeroed_loop = self._adds_up = False
        self._from_before = False  # What is to be learned from next was in another loop.
        self._feeder: Hashable = None
        self._elsewhere = 0
        self._apart: frozenset[int] = frozenset()
        self._in_turn = False
        self._learnt: dict[int, int] = {}
        self._given: dict[int, int] = {}
        self._ones: dict[int, int] = {}
        self._totals: dict[int, int] = {}
        self._reuse = Reuse()

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
        if self._aside.over:
            return True
        return bool(self._loaded) and next(reversed(self._loaded)) not in self._own

    def feeds(self, source: Hashable) -> bool:
        """Whether this is a loader whose batches have been learned from."""
        return source in self._own

    def goes_on(self, source: Hashable) -> bool:
        """Whether an iteration is over where this loader is asked for a batch.

        The one that feeds training is asked for the next; or, read ahead, it has no more, and what
        it gave has been learned from.
        """
        ended = self._ended
        return source in self._own or (ended is not None and ended not in self._loaded)

    def waits(self, source: Hashable) -> bool:
        """Whether it has given a batch that nothing has been learned from."""
        return source in self._loaded

    def fetched(self, source: Hashable, items: int | None) -> None:
        """A loader has given a batch."""
        self.fetches += 1
        if self._aside.left:
            self._aside.goes_on(source)
        waiting = self._loaded.pop(source, None)  # The last to come is the last in the dictionary.
        if source in self._stale:
            self._stale.discard(source)
            waiting = None
        if waiting is None:
            waiting = Waiting()
            waiting.worked = waiting.carried = 0
        elif self._passes != waiting.passes:
            waiting.worked += 1
        elif source not in self._ahead and (
            source in self._own or 0 < waiting.worked == len(waiting) - 1
        ):
            waiting.pop()  # It was left out.
        if len(waiting) >= (SUMMED if waiting.worked == len(waiting) else AHEAD):
            waiting.clear()
            waiting.worked = waiting.carried = 0
        waiting.append(items)
        waiting.passes = self._passes
        self._loaded[source] = waiting

    @property
    def unused(self) -> bool:
        """Whether what was learned since the last step was put to zero, batch after batch.

        A script may add gradients up by itself meanwhile, which the last step then has shown.
        """
        return self._zeroed >= UNUSED and not self._adds_up

    @property
    def _zeroed_at_end(self) -> bool:
        """Whether what was last learned in a loop that is over has been put to zero."""
        return self._thrown is not None and not self._adds_up

    def begun(self) -> None:
        """A loader begins anew: what waits was only looked at, maybe, before."""
        self._zeroed_loop |= self.unused or self._zeroed_at_end
        self._from_before = self._fed is not None
        self._aside.forget()
        if not self._own:
            self._put_by()
        for source in self._ahead & self._loaded.keys():
            if len(self._loaded[source]) > OVER:  # It has not been working ahead: it left some out.
                del self._loaded[source]
                self._ahead.discard(source)
        self._stale = self._loaded.keys() - self._ahead
        for source in self._sums.keys() & self._stale - self._single:
            waiting = self._loaded[source]
            if source in self._own and self._all_worked(waiting):
                waiting.carried = len(waiting)  # A sum of losses may go on.
                self._stale.discard(source)

    def renamed(self, source: Hashable) -> None:
        """What had this name is gone, and another loader has it: nothing is known of that."""
        for known in (self._own, self._ahead, self._stale, self._single, self._together):
            known.discard(source)
        self._loaded.pop(source, None)
        self._before.pop(source, None)
        self._tried.discard(source)
        self._sums.pop(source, None)
        self._reuse.renamed(source)
        if source == self._ended:
            self._ended = None

    def exhausted(self, source: Hashable) -> None:
        """A loader has no more: what it gave that nobody learned from was an evaluation's."""
        self._zeroed_loop |= self.unused or self._zeroed_at_end
        if source not in self._own:
            self._passed = False
            self._aside.exhausted(source, self._loaded.pop(source, []))
        elif source in self._ahead:
            self._ended = source

    def given(self, model: int, items: int | None, alone: bool = False) -> None:
        """A model has been given a batch, in a forward pass that may be learned from.

        Args:
            model: A name for the model.
            items: The size of the batch.
            alone: It is a single sample, and so all that are given are counted.
        """
        self._passes += 1
        if alone:
            items = self._ones[model] = self._ones.get(model, 0) + 1
            if items <= PAIR:
                items = 1
        if items is not None:
            known = self._given.get(model, 0)
            self._given[model] = items if items > known else known

    def learned(self) -> None:
        """``backward`` has learned from what was fetched and given since the last."""
        thrown, self._thrown, self._from_before = self._thrown, None, False
        if self._totals_thrown:
            self._totals, self._totals_thrown = self._totals_thrown, {}
        if self._before:
            self._bring_back()
        if self._loaded:
            before, items = self._feeder, self._own_batch()
            if thrown is not None and self._feeder == before and not self._leaves():
                self._fed = thrown
            if items is not None:
                if self._fed is not None:
                    if self._feeder != before:
                        self._elsewhere = self._fed
                    items += self._fed
                self._fed = items
        elif thrown is not None:
            self._fed = thrown
        elif self._rest:
            self._fed, self._rest = (self._fed or 0) + self._rest, 0
        elif self._apart:
            self._in_turn = not self._apart.isdisjoint(self._given)
            self._apart = frozenset()
        if self._given:
            self._add_given()

    def _add_given(self) -> None:
        """Count what the models were given."""
        totals = self._totals
        if len(self._given) > 1 and (self._ones or self._learnt):
            self._leave_acting()
        for model, items in self._given.items():
            totals[model] = totals.get(model, 0) + items
        self._given.clear()
        self._ones.clear()

    def zeroed(self) -> None:
        """Gradients of all that learns were put to zero: what another loader gave is thrown away.

        That was an attack on what is evaluated, say. Batches of the loader that feeds training
        count, learned from or not, as it is where that is done once more; but for those of a loop
        of their own, in which that is done with all of them.
        """
        if self._fed is not None:
            self._thrown, self._fed = self._fed - self._elsewhere, None
            self._elsewhere = 0
            self._zeroed_loop |= self._from_before and not self._adds_up
        if self._totals:
            self._totals_thrown, self._totals = self._totals, {}

    def _leaves(self) -> bool:
        """Whether the gradients that were put to zero are another loop's than what comes now."""
        self._zeroed += 1
        leaves, self._zeroed_loop = self._zeroed_loop, False
        if leaves:
            self._zeroed = 0
            self._totals = {}
        return leaves

    def again(self) -> None:
        """What was given and fetched is what has been learned from before."""
        if self._thrown is not None:
            self._fed, self._thrown = self._thrown, None
        if self._totals_thrown and self._given:
            self._totals_thrown = {}
            self._add_given()
        else:
            self.repeated()

    def repeated(self) -> None:
        """What was given is what has been learned from before."""
        self._given.clear()
        self._ones.clear()

    def take(self) -> int | None:
        """The items learned from since this was last asked; None when that is not known."""
        items = self._fed if self._thrown is None else self._thrown
        totals, self._totals = self._totals or self._totals_thrown, {}
        self._totals_thrown = {}
        self._adds_up = self._zeroed >= UNUSED
        if self._zeroed:
            self._zeroed, self._zeroed_loop = 0, False
        if items is None:
            if totals:
                items = min(totals.values())
                self._reuse.steps(totals)
        elif not self._together and self._reuse.begins(self._feeder, items, totals) and items:
            items = min(totals.values(), default=items)
        self._fed, self._thrown, self._rest, self._elsewhere = None, None, 0, 0
        return items or None

    def return_(self, items: int | None) -> None:
        """What has been taken was learned from for the step that goes on."""
        self._reuse.more = 0
        if items is not None:
            self._fed = items + (self._fed or 0)

    def seen(self, items: int | None) -> int | None:
        """The items of a forward pass just made: those of the batch at work, else those given."""
        if self._aside.over:
            return self._aside.left[0] or items
        if not self._loaded:
            return items
        source = next(reversed(self._loaded))
        if self._before and items is not None and items == self._loaded[source][-1]:
            self._passed = True
        if source in self._own:
            found = self._loaded[source][-1]
        else:
            found = self._aside.at_work(source, self._loaded[source], items)
        # Where a step waits with its batch, what is evaluated meanwhile is another.
        other = found is None or (source in self._own and items is not None)
        return items if other else found or None

    def evaluated(self) -> None:
        """Nothing is learned from what has been given, and fetched for it; a step's batch waits."""
        self._aside.used(self._loaded)
        if self._loaded:
            if not self._own:
                self._try()
            self._loaded = {s: batch for s, batch in self._loaded.items() if s in self._own}
        self.repeated()

    def _put_by(self) -> None:
        """A loader begins before anything was learned: what others gave waits, maybe, meanwhile.

        It may have been looked at only. But where the one that begins is an evaluation's, within
        the first turn of the training, that turn is the one of a batch that was there before.
        """
        if self._passed:  # It was a single batch of an evaluation's.
            self._try()
        if not self._loaded.keys() <= self._tried:
            self._before = {s: each for s, each in self._loaded.items() if s not in self._tried}
        self._loaded = {}

    def _try(self) -> None:
        """An evaluation was made with the batch of the loader that gave the last."""
        self._passed = False
        if self._loaded and len(self._tried) < SOURCES:
            self._tried.add(next(reversed(self._loaded)))

    def _bring_back(self) -> None:
        """What is first learned from: not what an evaluation has left, if others' batches wait.

        A single batch of an evaluation's was given to a model, but not to one that learns now.
        """
        if self._passed:
            given = set(self._given.values())
            left, before = ({w[-1] for w in of.values()} for of in (self._loaded, self._before))
            if given and given <= before - left:
                self._try()
        fresh = {s: each for s, each in self._loaded.items() if s not in self._tried}
        self._loaded = fresh or self._before
        self._before, self._passed = {}, False

    def _leave_acting(self) -> None:
        """Leave out what a model was given to act on: single samples, where it learns from batches.

        That is known of one that learned from as large a batch before as another does now.
        """
        given, learnt, ones = self._given, self._learnt, self._ones
        acting = [model for model in ones if given[model] <= ones[model]]
        for model in given.keys() & learnt.keys() if learnt else ():
            if model not in acting:
                learnt[model] = given[model]
        if acting:
            sizes = {items for model, items in given.items() if model not in acting}
            for model in acting:
                if learnt.get(model) in sizes:
                    del given[model]
                elif len(learnt) < MODELS:
                    learnt.setdefault(model, 0)

    def _own_batch(self) -> int | None:
        """Of several loaders' batches, the largest of those that fed training before too."""
        loaded, self._loaded = self._loaded, {}
        if len(loaded) > 1 and (ahead := self._left_aside(loaded)) is not None:
            self._together, loaded = set(loaded), {ahead: loaded[ahead]}
        elif len(loaded) > 1:
            self.source = None
            return self._largest(loaded)
        elif self._together:
            self._together = set()
        source, waiting = loaded.popitem()
        self._feeder = source
        if source not in self._own and len(self._own) < SOURCES:
            self._own.add(source)
            self._ended = None
            self._aside.forget()
            if len(waiting) > 1 and not self._all_worked(waiting):
                self._ahead.add(source)  # Before it works on a batch, the script fetches the next.
        if source in self._ahead and self._skipped(waiting):
            self._ahead.discard(source)
        if source not in self._ahead:
            self.source = source
            if source in self._single:
                return waiting[-1]
            learned = self._of(source, waiting)
            if len(learned) > 1:
                self.source = None
            return _sum(learned)
        self.source = None
        items = waiting.pop(0)
        if waiting:
            waiting.worked = 0
            self._loaded[source] = waiting
        return items

    def _skipped(self, waiting: Waiting) -> bool:
        """Whether all but the last were left out before the first step: the script resumes, say.

        It looks the same as reading ahead, until the models are given as many as the last one has,
        and not as the oldest.
        """
        given = self._given.values()
        return len(waiting) > 1 and waiting[-1] in given and waiting[0] not in given

    def _left_aside(self, loaded: Mapping[Hashable, list[int | None]]) -> Hashable:
        """The one loader that feeds training, from ahead, beside those of evaluations broken off.

        None where there is no such, or what comes beside it did so for the step before, too.
        """
        ahead = self._ahead & loaded.keys()
        if len(ahead) != 1 or len(self._own & loaded.keys()) != 1 or self._together == set(loaded):
            return None
        return next(iter(ahead))

    def _largest(self, loaded: dict[Hashable, Waiting]) -> int | None:
        before, self._together = self._together, set(loaded)
        if self._together == before and len(self._own) < SOURCES:
            self._own |= before  # They come together, as by zip.
        own = [source for source in loaded if source in self._own] or loaded
        sizes = {n for source in own if (n := self._size(source, loaded[source])) is not None}
        most = max(sizes, default=None)
        given = set(self._given.values())
        if most is None or len(given) > 1 or not given <= sizes:
            return most
        items = min(given, default=most)
        if items < most and not self._in_turn:
            self._apart = frozenset(self._given)
            return most
        self._rest = most - items
        return items  # What else was fetched is learned from by itself.

    def _size(self, source: Hashable, waiting: Waiting) -> int | None:
        """The items of a loader's batches, where several loaders' wait."""
        if source in self._ahead or source not in self._own:
            return waiting[0]
        return waiting[-1] if source in self._stale else _sum(self._of(source, waiting))

    def _of(self, source: Hashable, waiting: Waiting) -> list[int | None]:
        """Those of a loader's batches that ``backward`` learns from."""
        if source in self._single or source not in self._own or not self._all_worked(waiting):
            return waiting[-1:]
        sums = self._sums.get(source)
        if sums is None:
            sums = self._sums[source] = Sums()
        fresh = waiting[waiting.carried :]  # They may be a sum of their own, as in other epochs.
        learned = sums(fresh if len(fresh) == sums.usual else waiting)
        if sums.single:
            self._single.add(source)
        return learned

    def _all_worked(self, waiting: Waiting) -> bool:
        """Whether a forward pass was made with each batch before the next was fetched."""
        return waiting.worked + (self._passes != waiting.passes) == len(waiting)


class Reuse:
    """Whether several steps are made on each of a loader's batches, and not on all of it.

    That is known of a batch when the next one is learned from. A step without a batch is one more
    on the last, where one model, the same in both, was given another number of items than the batch
    has. Where several models are, as by a GAN, the step may be another optimizer's.

    Attributes:
        more: How many such steps have been made on the last batch behind the first.
    """

    __slots__ = ("_given", "_often", "_source", "more")

    def __init__(self) -> None:
        self._source: Hashable = None
        self._given: Mapping[int, int] = {}
        self._often = self.more = 0

    def begins(self, source: Hashable, items: int, given: Mapping[int, int]) -> bool:
        """A step has learned from a loader's batch; returns whether more are to come on the same.

        Args:
            source: The loader.
            items: How many the batch has.
            given: How many the models were given; the mapping is not changed later.
        """
        if source != self._source:
            self._source, self._often = source, 0
        elif self.more >= MORE:
            self._often = min(self._often + 1, SURE)
        elif self._often > -SURE:
            self._often -= 1
        self.more = 0
        self._given = given if len(given) == 1 and items not in given.values() else {}
        return self._often > 0 and source is not None

    def steps(self, given: Mapping[int, int]) -> None:
        """A step has learned from no loader's batch."""
        if given.keys() == self._given.keys():
            self.more += 1

    def renamed(self, source: Hashable) -> None:
        """What had this name is gone."""
        if source == self._source:
            self._source = None


class Sums:
    """Which of a loader's batches one ``backward`` learns from, where losses are summed up.

    Losses that are summed up, and those that are given up since they are not finite, say, look the
    same. But what is summed up are as many every time; only the first may be others, and the last
    of an epoch. Where the numbers vary more, all but the last batch have been left out. What was
    not known to be learned from in the first step counts in the next.

    Attributes:
        usual: How many they are every time; 0 before the first.
    """

    __slots__ = ("_odd", "_owed", "_sure", "usual")

    def __init__(self) -> None:
        self.usual = 0
        self._odd = self._sure = False
        self._owed: list[int | None] = []

    @property
    def single(self) -> bool:
        """Whether it is just the last one, in every step."""
        return self._sure and self.usual == 1

    def __call__(self, worked: list[int | None]) -> list[int | None]:
        """Those that are learned from, of the batches that a forward pass was made with."""
        many = len(worked)
        if many == self.usual:
            self._odd = False
            if not self._sure:
                self._sure = True
                return [*self._owed, *worked]
        elif not self.usual:
            self.usual = many
        elif not self._odd:
            self._odd = True
            if not self._sure and many > self.usual:
                self.usual = many
        else:
            self.usual, self._sure = 1, True
        if self._sure:
            return worked[-self.usual :]
        self._owed += worked[:-1]
        return worked[-1:]


def _sum(sizes: Sequence[int | None]) -> int | None:
    """The items of batches; 0 where one of several has no known size."""
    if len(sizes) == 1:
        return sizes[0]
    return sum(known) if len(known := [n for n in sizes if n]) == len(sizes) else 0


class Aside:
    """Which of the batches of an evaluation's loader is at work, where it is read ahead of that.

    So many as wait when the first of its forward passes is made are always there, Accelerate's
    way: the oldest of them is at work, and with each that is fetched the next one is. Where the
    model is given so many as the last of them has, those before it were left out.

    Attributes:
        left: Those behind the one that was last at work.
        over: There are such, and the loader has no more.
    """

    __slots__ = ("_ahead", "_first", "_source", "left", "over")

    def __init__(self) -> None:
        self._source: Hashable = None
        self._ahead = 0
        self._first: tuple[int, int] = (1, 1)
        self.left: list[int | None] = []
        self.over = False

    def forget(self) -> None:
        """Another evaluation begins, or none goes on."""
        self._source, self._ahead = None, 0
        self.left, self.over = [], False

    def goes_on(self, source: Hashable) -> None:
        """A loader has given a batch, while there are some left of the evaluation's."""
        if self.over or source != self._source:
            self.forget()

    def at_work(self, source: Hashable, loaded: list[int | None], items: int | None) -> int | None:
        """The size of the batch at work, of those loaded and left; the model is given ``items``."""
        if source != self._source:
            self.forget()
            self._source = source
            if len(loaded) <= OVER:  # Else the first were left out.
                self._ahead = len(loaded) - 1
            first = loaded[0]
            alike = bool(items and first) and loaded.count(first) == len(loaded)
            self._first = (items or 1, first or 1) if alike else (1, 1)
        last, ahead = loaded[-1], self._ahead
        if not ahead:
            return last
        oldest = [*self.left, *loaded][-1 - ahead :][0]
        if items and last and last != oldest:
            given, of = self._first
            if items * of == last * given:  # It is the last: those before it were left out.
                self._ahead, self.left = 0, []
                return last
        return oldest

    def used(self, loaded: Mapping[Hashable, list[int | None]]) -> None:
        """An evaluation's pass has been made: of what is ``loaded``, keep what is read ahead."""
        if self.over:
            del self.left[0]
            self.over = bool(self.left)
        elif self._ahead:
            self.left = [*self.left, *loaded.get(self._source, ())][-self._ahead :]

    def exhausted(self, source: Hashable, loaded: list[int | None]) -> None:
        """The loader has no more; what is ``loaded`` since the last pass was made is not used."""
        if source == self._source and self._ahead:
            self.left = [*self.left, *loaded][-self._ahead :]
            self.over = bool(self.left)
