"""A thread's loop: from what torch is seen doing to steps, their items, losses and phases."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, NamedTuple

from .batches import Batches
from .forward import Forward
from .light import ALIKE, Pattern
from .operations import Operations
from .passes import Pass, Passes
from .per_batch import PerBatch
from .phases import Phases
from .resumed import Resumed
from .sink import Opening, Sink, Spent
from .sizing import Batch, Given
from .turns import Turns
from .unseen import BELIEVED, Held, Unseen
from .within import Within

EVALUATION, INFERENCE = "eval", "inference"
#: Losses of one step that are kept apart; the rest of a longer accumulation is left out.
LOSSES = 1024
#: A loader's batches, given to a model in training mode without gradients, that are known again.
PREVIEWS = 64
#: Steps of other optimizers within one after which that one is taken to have failed.
NESTED = 8
#: So many times is ``backward`` called at most for the first step before gradients are put to zero.
TRIED = 16


class Aside(NamedTuple):
    """Losses whose gradients were put to zero before an optimizer had stepped.

    Attributes:
        role: Whose gradients; None when that is not known.
        batch: What was learned from.
        losses: They.
    """

    role: Hashable
    batch: Batch | None
    losses: list[Any]


class Late(NamedTuple):
    """A step that is still to be told of: when it ended, and what was seen of it."""

    now: int
    losses: list[Any]
    spent: Spent | None


class Known:
    """What is known of the script as a whole.

    Attributes:
        optimizers: How many optimizers it has made.
        trains: It has made one, or called ``backward``.
        operations: How many operations one step consists of.
        unseen: Tells of steps of optimizers that call no hooks.
        works: Called when a model begins to work, or something is learned.
        nodes: How many operations with a gradient the calling thread has made.
        hurried: Whatever can be told at once is.
    """

    __slots__ = ("hurried", "nodes", "operations", "optimizers", "trains", "unseen", "works")

    def __init__(self, hurried: bool = False) -> None:
        self.hurried = hurried
        self.optimizers = 0
        self.trains = False
        self.operations: int | None = None
        self.unseen = Unseen()
        self.works: Callable[[], object] = bool
        self.nodes: Callable[[], int] = int


class Loop:
    """What one thread does with torch, told boundary by boundary, with times in nanoseconds.

    A step is an optimizer's step, or all that several of them do with one batch; where the script
    has no optimizer, a ``backward``. Its loss is the sum of what ``backward`` was called on until
    the first of them stepped; what it was called on for the same batch again is none.

    Args:
        sink: Where steps and passes go.
        phases: Who listens to phases.
        known: What is known of the script.

    Attributes:
        batches: What its steps learn from.
        pattern: What the last steps had in common.
        alike: How many steps in a row had.
        step_ns: How long the last step took.
        items: How many items it had.
        given: What a model was last given to learn from.
        within: The module that the thread is in the middle of.
        works: It has used a module, or learned.
        missed: What its first step learned from was not seen.
    """

    __slots__ = (
        "_aside", "_backs", "_backward", "_backward_began", "_batch", "_began", "_candidate",
        "_closure", "_deep", "_ender", "_fetched", "_first", "_forward", "_got", "_graded",
        "_inner", "_inner_before", "_kept", "_known", "_last", "_late", "_learned", "_learned_from",
        "_learns", "_loading", "_looked", "_looking", "_losses", "_made", "_model", "_models",
        "_nested", "_opening", "_operations", "_optimized", "_optimizer", "_part", "_passes",
        "_per_batch", "_phases", "_previewed", "_previewing", "_previews", "_repeats", "_resumed",
        "_role", "_scaled", "_sink", "_step_began", "_stepped", "_stepping", "_transfer", "_turns",
        "_way", "_zeroed", "alike", "batches", "given", "items", "missed", "pattern", "step_ns",
        "within", "works",
    )  # fmt: skip

    def __init__(self, sink: Sink, phases: Phases, known: Known) -> None:
        self._sink, self._phases, self._known = sink, phases, known
        self.batches = Batches()
        self._turns = Turns()
        self.pattern = Pattern(0, 0, None)
        self._way = Forward(known.nodes)
        self.within, self.works, self.missed = Within(self._way), False, False
        self._late: Late | None = None
        self.alike = self.step_ns = self._backs = self._models = self._model = 0
        self._optimized = self._fetched = self._ender = 0
        self.items: int | None = None
        self.given = Given(None, False)
        self._previewed: list[Batch] = []
        self._looked: Pass | None = None  # In evaluation mode, but recording gradients.
        self._looking = False
        self._previews = self._previewing = False  # It learns from what it was so given before.
        self._per_batch = PerBatch(sink.evaluated, sink.mark, self.batches.feeds, known.hurried)
        self._passes = Passes(self._per_batch.made, self._per_batch)
        self._operations, self._resumed = Operations(), Resumed()
        self._losses: list[Any] = []
        self._aside: Aside | None = None
        self._kept: list[Any] = []  # What was aside of the batch that is learned from again.
        self._role: Hashable = 0  # Of all optimizers that have stepped; True: they differ.
        self._batch: Batch | None = None
        self._learned_from: Batch | None = None
        self._graded: list[Any] | None = None  # No gradients were asked for.
        self._learns = False
        self._scaled: Any = None
        self._candidate = self._learned = self._repeats = self._stepped = False
        self._part = False
        self._opening: Opening | None = None  # Of the first step, as long as it lasts.
        self._stepping: int | None = None
        self._made = self._deep = self._nested = self._last = self._got = 0
        self._first = self._closure = self._inner_before = 0
        self._began = self._zeroed = self._backward_began = self._step_began = self._inner = 0
        self._loading = self._transfer = self._forward = self._backward = self._optimizer = 0

    # Loading

    def fetches(self, now: int, source: Hashable = None) -> None:
        """A loader is asked for a batch."""
        self._turns.loaded = False
        self._per_batch.asks(source, self.batches.fetches)
        if self._known.unseen.on:
            self.look(now)
        if self._sink.holding:
            self._sink.fetches()
            self._sink.settle(asked=self.batches.goes_on(source))

    def accumulates(self, source: Hashable) -> bool:
        """Whether all that a loader gave has been learned from, and no optimizer has stepped."""
        batches = self.batches
        return (
            self._learned
            and batches.feeds(source)
            and not batches.waits(source)
            and not batches.unused
        )

    def loader_begins(self) -> None:
        """A loader begins anew: so does what a step consists of."""
        self.batches.begun()
        self._ends_loop()

    def exhausted(self, source: Hashable) -> None:
        """A loader has no more."""
        self.batches.exhausted(source)
        self._ends_loop()

    def _ends_loop(self) -> None:
        """A loop is over: what was done in it is no part of a step if nothing was learned."""
        self._way.ahead.clear()
        if self.batches.unused:
            self._loading = self._transfer = self._forward = self._backward = self._optimizer = 0

    def fetched(self, source: Hashable, items: int | None, begin: int, end: int) -> None:
        """A loader has given a batch of ``items``."""
        self.batches.fetched(source, items)
        self._per_batch.gives(source, self.batches.fetches)
        if self._way.ahead:
            self._way.waited(begin, not self._loading)
        self._loading += end - begin
        self._got = end
        for listener in self._phases.listeners:
            listener("loading", begin, end)

    def waited(self, begin: int, end: int) -> None:
        """Something else has kept the loop waiting for a batch."""
        if self._way.ahead:
            self._way.waited(begin, not self._loading)
        self._loading += end - begin
        for listener in self._phases.listeners:
            listener("loading", begin, end)

    # Forward

    def forward_begins(self, model: int, grad: bool, training: bool, learns: bool = False) -> bool:
        """A model's forward begins; returns whether it is known that nothing is learned from it.

        Args:
            model: A name for the model.
            grad: Gradients are recorded.
            training: The model is in training mode.
            learns: It is known that something is learned from it.
        """
        self._known.works()
        if self._known.unseen.on:
            self.look(self.within.begin)
        if self._sink.holding and not (grad and training):
            self._sink.settle()  # Else that is done when it is known what the model is given.
        if self._looked is not None:
            self._settle_looked(model, grad and training)
        self._way.module_begins()
        if grad and training:
            self._candidate = not (learns or self._known.trains)
        else:
            # A teacher's comes after the student's.
            self._candidate = (grad or not self._began) and not (training and self._previews)
        self._previewing = training and not grad and self._candidate
        self._looking = grad and not training
        certain = not grad and not training and model == self._model
        batches = self.batches
        fetches = batches.fetches if batches.waiting else 0
        if not self._candidate or not self._passes.begins(
            model, fetches, self._known.trains, certain
        ):
            return False
        self.alike = 0
        self._began = self._loading = self._got = 0
        self._way.ahead.clear()
        return True

    @property
    def trains(self) -> bool:
        """Whether the script is known to train."""
        return self._known.trains

    def forward_ends(
        self,
        made: Pass,
        given: Given,
        begin: int,
        end: int,
        grad: bool,
        evaluated: bool,
    ) -> None:
        """A model's forward has ended.

        Args:
            made: What is known of it.
            given: What the model was given.
            begin: When it began.
            end: When it ended.
            grad: Gradients are recorded.
            evaluated: What :meth:`forward_begins` said.
        """
        if self._sink.holding:
            self._sink.settle(once=grad and self._whole(given))
        if self._candidate:
            self._passes.ended(made)
            if self._previewing and made.fetches and given.batch is not None:
                self._previewed = [*self._previewed[1 - PREVIEWS :], given.batch]
        if evaluated:
            self.batches.evaluated()
            self._resumed.evaluated()
            for listener in self._phases.listeners:
                listener("eval", begin, end)
            return
        self._models += 1
        if grad:
            self.batches.given(made.model, given.items, given.alone)
            self.given = given
            self._model = made.model
            if self._previewed:
                self._previews |= given.batch in self._previewed
                self._previewed = []
            if not self._began:
                self._looked = made if self._looking and self._known.trains else None
                self._begin(begin, given)
            elif self._opening is not None:
                self._goes_on(begin, given.batch)
            if self._opening is not None:
                self._opening = self._opening._replace(tried=end)
        if self._began:
            self._way.module_ends(end - begin)
        elif begin > self._backward_began:  # Nothing was learned within it.
            self._way.goes_ahead(begin, end)
            self._inner += end - begin

    def _settle_looked(self, model: int, learns: bool) -> None:
        """Whether what seems to have opened a step was a pass of an evaluation's.

        It was if the model goes on in training mode, before anything is learned: without
        ``no_grad`` a single one looks like a step's.
        """
        looked, self._looked = self._looked, None
        if looked is None or not self._began or not learns or looked.model != model:
            return
        self.alike = self._models = 0
        self._began = self._loading = self._got = 0
        self._way.ahead.clear()
        self._passes.looked()
        self.batches.evaluated()
        self._resumed.evaluated()
        for listener in self._phases.listeners:
            listener("eval", looked.began, looked.ended)

    def _whole(self, given: Given) -> bool:
        """Whether it is as much as the last step learned from: not one of several parts of that."""
        return given.items is not None and given.items == self.items

    def _goes_on(self, begin: int, batch: Batch | None) -> None:
        """Another forward of the first step began; its batch may have been waiting since one."""
        if self._opening is not None and batch is not None and batch == self._batch:
            self._opening = self._opening.again(begin)

    def _begin(self, begin: int, given: Given) -> None:
        """The first forward of a step, or after a ``backward``."""
        self._began, self._batch = begin, given.batch
        if self._resumed.waits:
            same = self._batch is not None and self._batch == self._learned_from
            self._resumed.begins(begin, same and not self._loading)
        if not self._first:
            self._first = begin
            if not self._loading:
                self._way.ahead.clear()  # The first step begins here.
            self._opening = Opening(0, begin, tried=self._got)
            if not self._way.ahead:  # Else something else is made of the batch before.
                self._opening = self._opening.again(begin)
        self._zeroed = 0
        self._way.begins(self._loading)
        if self._got and given.away:
            arrived = self._way.arrived(self._got, begin)
            self._transfer += arrived - self._got
            for listener in self._phases.listeners:
                listener("transfer", self._got, arrived)
        self._got = 0

    # Backward

    def scales(self, losses: Any) -> None:
        """A gradient scaler is given ``losses``, of which ``backward`` will see a multiple."""
        self._scaled = losses

    @property
    def unused(self) -> int:
        """How often ``backward`` has been called since an optimizer stepped."""
        return self._backs if self._learned else 0

    @property
    def learning(self) -> bool:
        """Whether the thread is in the middle of a ``backward``."""
        return self._deep > 0

    def backward_begins(self, now: int, tensors: Any) -> None:
        """``backward`` is called on ``tensors``: one, or several."""
        self._deep += 1
        self._known.works()
        if self._deep > 1:
            self.alike = -NESTED
            return  # Checkpointing computes gradients of a part within.
        if self._known.unseen.on:
            self.look(now, within=True)
        if self._sink.holding:
            self._sink.settle()
        self._backward_began = now
        if self._began:
            self._end_forward(now)
        self._learn(tensors)

    def gradients_begin(self, now: int, losses: Any) -> None:
        """Parameters' gradients of ``losses`` are asked for; that counts without a ``backward``."""
        self._deep += 1
        self._backward_began = now
        if self._deep == 1 and self._stepping is None:
            if self._began:
                self._end_forward(now)
            self._graded = [*(self._graded or ()), *_all(losses)][:LOSSES]

    def gradients_end(self, now: int) -> bool:
        """They are there; returns whether it was the outermost."""
        self._deep -= 1
        if self._deep:
            return False
        took = now - self._backward_began
        self._backward += took
        self._forward += self._way.beside(took)
        for listener in self._phases.listeners:
            listener("backward", self._backward_began, now)
        if not self._known.optimizers:
            self._close(now, None)
        return True

    def _learn_unseen(self) -> None:
        """An optimizer has stepped, and no ``backward`` was seen."""
        graded = self._graded
        if graded is not None or not self._learns:
            self._learn(graded or ())
            self._learns = graded is not None

    def _learn(self, tensors: Any) -> None:
        self._known.trains = self._learned = self._learns = True
        self._looked = None
        self._backs += 1
        if self._operations.due:
            self._operations.add(_all(tensors))
        self._passes.learned()
        if self._per_batch.waiting:
            self._per_batch.ends()
        if self._resumed.at:
            self._sink.resumes(self._resumed.take())
        if self._way.ahead:
            ahead = self._way.learned()
            if self._forward:  # Else what learns is no module, and its own forward is not known.
                self._forward += ahead
        if self._stepping is not None:
            if self._repeats and not self._another:
                self.alike = -NESTED
                self.batches.again()
                return  # A closure that is evaluated again.
            self._repeats = True
        scaled, self._scaled = self._scaled, None
        again = self._again()
        self._lose(tensors if scaled is None else scaled)
        if again:
            self.batches.again()
        else:
            self.batches.learned()

    @property
    def _another(self) -> bool:
        """Whether what is learned from is known to be another batch than the last."""
        batch, last = self._batch, self._learned_from
        return batch is not None and last is not None and batch != last

    def _again(self) -> bool:
        """Whether gradients of the same batch were put to zero: then the first losses count."""
        aside, self._learned_from, self._batch = self._aside, self._batch, None
        if aside is None or aside.batch is None or aside.batch != self._learned_from:
            return False
        self._aside, self._kept = None, aside.losses
        return True

    def _end_forward(self, now: int) -> None:
        began, self._began = self._began, 0
        took = now - began - self._zeroed
        self._forward += self._way.ends(took, self._loading)
        self._inner += took
        for listener in self._phases.listeners:
            listener("forward", began, now)

    def _lose(self, tensors: Any) -> None:
        """Keep the loss, cut off from its graph."""
        for tensor in _all(tensors):
            detach = getattr(tensor, "detach", None)
            if detach is not None and len(self._losses) < LOSSES and tensor.numel() == 1:
                self._losses.append(detach())

    def backward_ends(self, now: int) -> bool:
        """``backward`` has ended; returns whether it was the outermost."""
        if not self._deep:
            return False  # It was not told that it began.
        self._deep -= 1
        if self._deep:
            return False
        began = self._backward_began
        self._backward += now - began
        self._forward += self._way.beside(now - began)
        self._inner += now - began
        for listener in self._phases.listeners:
            listener("backward", began, now)
        if self._stepped or not self._known.optimizers:
            self._stepped = False
            self._close(now, None)
        return True

    # The optimizer

    def zero_grad(self, begin: int, end: int, role: Hashable = None) -> None:
        """Gradients of ``role`` have been put to zero: what it learned and did not use is lost."""
        if self._closure and not self._deep:
            self._optimizer += end - begin
            self._zeroed += end - begin
        elif self._stepping is None and not self._deep:
            self._optimizer += end - begin
            self._zeroed += end - begin
            if self._resumed.waits:
                self._resumed.zeroed(begin)
            if self._losses:
                self._aside = Aside(role, self._learned_from, self._gathered())
                if self._opening is not None and self._backs > TRIED:
                    self._begin_anew()
            own = role == self._role or self._known.optimizers == 1
            if self._learned and own:
                self.batches.zeroed()
            for listener in self._phases.listeners:
                listener("optimizer", begin, end)

    def _begin_anew(self) -> None:
        """Gradients were tried before the first step: that begins with what is learned now."""
        self._first = self._began  # Else with the next forward.
        self._opening = Opening(0, self._began)
        self._forward = self._backward = self._optimizer = 0

    def optimizer_begins(self, now: int, optimizer: int) -> None:
        """An optimizer's ``step`` is called; within another's, that one counts."""
        if self._known.unseen.on:
            self._seen()
        if self._deep:
            return  # One that steps within backward, a parameter at a time.
        if self._sink.holding:
            again = optimizer == self._ender
            self._sink.settle(again=again, once=again and self._whole(self.given))
        if self._stepping is not None and self._stepping != optimizer:
            self._nested += 1
            self.alike = -NESTED
            if self._nested < NESTED:
                return
        self._stepping = optimizer
        self._step_began = now
        self._inner = self._nested = self._closure = 0
        self._repeats = self._learned

    def steps(self, optimizer: int) -> bool:
        """Whether this optimizer's ``step`` is at work, and counts."""
        return self._stepping == optimizer and not self._deep

    def closure_begins(self, now: int) -> None:
        """The optimizer that steps calls what computes its loss."""
        self._closure, self._inner_before = now, self._inner

    def closure_ends(self, now: int) -> None:
        """It has the loss: what that took beside the parts of a step is not the optimizer's."""
        began, self._closure = self._closure, 0
        if began:
            self._inner = self._inner_before + now - began

    def optimizer_ends(self, now: int, optimizer: int, role: Hashable) -> None:
        """An optimizer's ``step`` has ended.

        Args:
            now: The time.
            optimizer: A name for it.
            role: A name for what it trains.
        """
        if self._deep:
            self._stepped = True
            return
        if self._stepping != optimizer:
            return
        self._stepping = None
        self._optimized = optimizer
        if role != self._role:
            self._role = True if self._role else role
        began = self._step_began
        self._optimizer += now - began - self._inner
        for listener in self._phases.listeners:
            listener("optimizer", began, now)
        self._close(now, role)

    # What calls no hooks

    def look(self, now: int, within: bool = False) -> None:
        """Whether an optimizer has stepped unseen, at a time when it does not; maybe ``within``."""
        unseen = self._known.unseen
        if self._deep > within or self._stepping is not None or not unseen.changed():
            return
        if not (self._learned or self.batches.waiting):
            return  # They were loaded, or are moved by hand.
        if not self._learned:
            self._learn(())
        losses, self._aside = self._gathered() or self._set_aside(), None
        self._learned, self._began, self.alike = False, 0, 0
        held = Held(now, self.batches.take(), losses, self._learned_from)
        if unseen.held is None:
            self._sink.step(now, held.items, losses, None)
        else:
            unseen.held.append(held)
            if len(unseen.held) > BELIEVED:
                self.believe()

    def _set_aside(self) -> list[Any]:
        return self._aside.losses if self._aside is not None else []

    def believe(self) -> None:
        """Tell of the steps that were held back."""
        unseen = self._known.unseen
        held, unseen.held = unseen.held, None
        for each in held or ():
            self._sink.step(each.now, each.items, each.losses, None, late=True)
            if self._sink.holding:
                self._sink.settle()

    def _seen(self) -> None:
        """An optimizer steps: what was held back is a part of its step."""
        for each in self._known.unseen.seen():
            if each.batch is not None and each.batch == self._learned_from:
                self._losses = []  # It was learned from once more.
                self.batches.take()
            self.batches.return_(each.items)
            self._losses = [*each.losses, *self._losses]

    def _compare(self, role: Hashable, losses: int) -> None:
        """Whether this step looks like the one before: see :mod:`.light`."""
        batches = self.batches
        source = batches.source if batches.fresh else None
        simple = self._backs == losses == 1 and role is not None and not self._nested
        pattern = Pattern(self._optimized, self._model, source)
        fetched, self._fetched = self._fetched, batches.fetches
        alone = self._models == 1 and self.given.first
        if source is None and (not alone or fetched != batches.fetches):
            simple = False  # Several models; several loaders, or one that is read ahead.
        fits = simple and pattern == self.pattern
        self.alike = self.alike + 1 if fits else 0
        self.pattern = pattern
        self._backs = self._models = 0

    def resume(self, now: int, part: bool) -> None:
        """The steps since the last were not told; one ended just ``now``, or it is 0.

        Of the one that goes on only a ``part`` will be seen, or all of it.
        """
        self._last, self._part = now, part

    def learned(self, losses: Any) -> None:
        """``backward`` is called on ``losses``; when it began and ends is not told."""
        self._began, self._part = 0, True
        self._learn(losses)

    def _close(self, now: int, role: Hashable) -> None:
        """An optimizer has stepped: a step ends, or goes on with another optimizer."""
        batches, seen = self.batches, self._learned
        if not seen:
            self._learn_unseen()
        self._way.ahead.clear()
        losses, learned = self._own_losses(role), self._learned
        self._graded, self._learned, self._began = None, False, 0
        self._compare(role, len(losses) if seen else 0)
        made, self._made = self._made, self._known.optimizers
        ends = role is None or self._turns(
            role, batches.fresh, made < self._made, learned, self._learned_from
        )
        opening = self._opening
        if opening is not None:
            self._opening = None
            opening = opening._replace(source=batches.source if batches.fresh else None)
        items = self.items = batches.take()
        if not ends:
            self.alike = 0
            if self._sink.holding:
                self._sink.lasts(now)
            if losses:
                self._sink.other(role, losses)
            return
        self._ender = self._optimized
        if self._operations.ended(not self._part):
            self._known.operations = self._operations.found
        spent = None
        if not self._part:
            spent = Spent(
                now, self._loading, self._transfer, self._forward, self._backward, self._optimizer,
                0 if self._last else self._first, opening,
            )  # fmt: skip
        self._part = False
        self._loading = self._transfer = self._forward = self._backward = self._optimizer = 0
        last, self._last = self._last, now
        if last:
            self.step_ns = now - last
            for listener in self._phases.listeners:
                listener("step", last, now)
        if self.missed:
            self.missed = self._late is None and items is None
            if self.missed:
                self._late = Late(now, losses, spent)
                return
            self.tell(items)  # It had as many as this one.
        more = self._known.optimizers > 1 and self.alike < ALIKE
        # At the very end: a run may be stopped here.
        self._sink.step(now, items, losses, spent, more=more)

    def ends(self) -> None:
        """The script has ended: tell of what was held back."""
        if self._looked is not None:
            self._settle_looked(self._looked.model, learns=True)
        self.tell()

    def tell(self, items: int | None = None) -> None:
        """Tell of the first step, if that is still to be done."""
        self._per_batch.ends()
        late, self._late = self._late, None
        if late is not None:
            self._sink.step(late.now, items, late.losses, late.spent, late=True)
            if self._sink.holding:
                self._sink.settle()

    def _own_losses(self, role: Hashable) -> list[Any]:
        """The losses of an optimizer that has stepped; what another's are is left."""
        aside, losses = self._aside, self._gathered() if self._kept else self._losses
        self._aside, self._losses = None, []
        if aside is None:
            return losses
        if None in (role, aside.role) or aside.role == role:
            return losses or aside.losses  # Or its gradients were kept beside, and put back.
        self._losses = losses
        return aside.losses

    def _gathered(self) -> list[Any]:
        """The losses since the last step; of a batch that was learned from again, the first.

        Where there were more of these, they were of no turn like the last.
        """
        kept, losses = self._kept, self._losses
        self._kept, self._losses = [], []
        return kept if len(kept) == len(losses) else losses


def _all(tensors: Any) -> Any:
    """What ``backward`` was called on: one tensor, or several."""
    return tensors if isinstance(tensors, list | tuple) else (tensors,)
