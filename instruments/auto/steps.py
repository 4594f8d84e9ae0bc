"""What becomes of the steps that are seen: they are given, unless somebody else tells of them."""

from __future__ import annotations

from _thread import get_ident
from collections import deque
from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, Any, NamedTuple

from overseer.engine.bus import Bus, inheriting
from overseer.measure.hearing import BEGAN, ENDED, MARK
from overseer.measure.steps import STEP_PAIRS

from .loop import EVALUATION, INFERENCE
from .passes import Pass
from .sink import Spent

if TYPE_CHECKING:
    from overseer.measure.losses import Losses

Event = dict[str, Any]
#: Tasks whose steps are no training steps, whoever gives them.
OTHERS = frozenset({"eval", "evaluation", "valid", "validation", "val", "test", "inference"})
TRAIN = "train"
#: The keys of a step in which nothing is missing.
KEYS = ("step", "batch_size", "loss")
#: Steps whose phases wait for the step model.
WAITING = 65536
#: Steps that are held back at most, where a probe is to tell of them.
HELD = 16
#: Optimizers, beside the first, whose losses are told apart.
OPTIMIZERS = 8


class Outlet:
    """Gives events to everybody but one listener."""

    inherits = False

    def __init__(self, bus: Bus, changed: Callable[[], object]) -> None:
        self._bus = bus
        bus.on_change(changed)

    def for_keys(self, keys: object, but: object) -> Callable[[Event], object]:
        """What takes events."""
        return lambda event: self._bus.push(inheriting(event), but)


class Held(NamedTuple):
    """A step that is held back, as :meth:`Steps.step` has it, and the device's mark."""

    number: int
    items: int | None
    losses: list[Any]
    ended: int
    spent: Spent | None
    mark: object


class HeldPass(NamedTuple):
    """A forward pass that is held back, as :meth:`Steps._give_pass` has it."""

    made: Pass
    number: int
    mark: object


class Steps:
    """Gives steps and losses; what a voirfile or the script gives itself has precedence.

    The first step is held back until its iteration is over: by then whoever else tells of steps or
    losses has done so once. Where a probe is to, more of them are, until the next batch is asked
    for: an iteration may have several. So is each step where a script has several optimizers, which
    are done then. Who begins later is given way to from then on.

    Args:
        push: Gives an event.
        outlet: Makes a quicker way to give events whose keys are known.
        satisfied: Called when events that have no ``task`` need not be heard any more.
        losses: Makes what reads losses of further optimizers.
        awaited: Tells whether a probe is to tell of steps or losses.
        mark: Returns the device's mark for what ends at a time; None where there is none.
        evaluates: Told when the first step of an evaluation began.
        resumes: Told when training went on behind it.

    Attributes:
        holding: A step, or a forward pass, is held back.
        train: How many training steps have been seen.
        spent: The phases of steps that the step model has not judged yet.
        elsewhere: Tasks whose steps somebody else tells of.
        losses_elsewhere: Somebody else tells of losses.
        told: Of both, so that nothing has to be told of training.
    """

    def __init__(
        self,
        push: Callable[[Event], object],
        outlet: Callable[[Callable[[], object]], Outlet],
        satisfied: Callable[[], object],
        losses: Callable[[], Losses],
        awaited: Callable[[], bool],
        mark: Callable[[int], object],
        evaluates: Callable[[int], object],
        resumes: Callable[[int], object],
    ) -> None:
        self._push, self._satisfied, self._losses = push, satisfied, losses
        self._awaited, self._mark, self._evaluates = awaited, mark, evaluates
        self._evaluated, self._resumes = 0, resumes
        self._giving: set[int] = set()
        self._quick = push
        self._outlet = outlet(self._changed)
        self._held: list[Held] = []
        self._pass: HeldPass | None = None
        self._most = self._holder = 0
        self._firmly = False
        self._counts: dict[str, int] = {}
        self.holding = False
        self.train = 0
        self.spent: deque[Spent] = deque(maxlen=WAITING)
        self.elsewhere: set[str] = set()
        self.losses_elsewhere = self.told = False
        self._units: dict[str, str] = {}
        self._others: Losses | None = None
        self._roles: dict[Hashable, int] = {}

    def _changed(self) -> None:
        """Others listen now: the quick way is another."""
        self._quick = quick = self._outlet.for_keys(KEYS, but=self)
        if self._outlet.inherits:
            self._quick = lambda event: self._give(event, quick)

    # What others give

    #: Any thread may call this, also while another does.
    free = True

    def for_keys(self, keys: tuple[str, ...]) -> Callable[[Event], object]:
        """What hears events of just these keys; the first of a kind is enough."""
        if "task" in keys:
            return self
        if "loss" not in keys and "step" not in keys and "$wrap" not in keys:
            return _ignore
        heard: set[object] = set()

        def once(event: Event) -> None:
            if get_ident() in self._giving:
                return
            name = event["$wrap"]["name"] if paired else None
            if name not in heard:
                heard.add(name)
                self(event)

        paired = "$wrap" in keys
        return once

    def __call__(self, event: Event) -> None:
        """Any given event."""
        if get_ident() in self._giving:
            return
        if "loss" in event:
            self.losses_elsewhere = True
        if "step" in event or "$wrap" in event or ("task" in event and _sized(event)):
            self._hear_step(event)
        if not self.told and self.losses_elsewhere and TRAIN in self.elsewhere:
            self.told = True
            self._satisfied()

    def _hear_step(self, event: Event) -> None:
        wrap = event.get("$wrap")
        if wrap is not None and wrap.get("name") not in STEP_PAIRS:
            return
        task = str(event.get("task", TRAIN))
        self.elsewhere.add(task if task in OTHERS else TRAIN)
        if TRAIN in self.elsewhere:
            self._firmly = False  # What was to be waited for has come.

    # What is seen

    @property
    def nothing(self) -> bool:
        """Whether no step of any task was seen, nor told of by others."""
        return not (self.train or self._counts or self.elsewhere)

    def step(
        self,
        now: int,
        items: int | None,
        losses: list[Any],
        spent: Spent | None,
        late: bool = False,
        more: bool = False,
    ) -> None:
        """A training step has ended; a while ago, if it is told ``late``.

        Where its iteration may have ``more`` optimizers, it is held back until that is over.
        """
        self.train = number = self.train + 1
        own = self._holder == get_ident()
        if own and self._held and len(self._held) == self._most:
            self.settle(over=True)
        goes_on = own and bool(self._held)
        firmly = more and TRAIN not in self.elsewhere
        free = not self._held and (own or not self.holding)
        if free and (number == 1 or firmly):
            awaited = number == 1 and self._awaited()
            self._most, self._firmly = HELD if awaited else 1, awaited or firmly
            self._holder, self.holding, goes_on = get_ident(), True, True
        if goes_on:
            self._held.append(Held(number, items, losses, now, spent, self._mark(now)))
        else:
            if spent is not None:
                self.spent.append(spent)
            self._give_step(number, items, losses, now if late else None)

    def mark(self, now: int) -> object:
        """The device's mark for what has just ended; None where there is none."""
        return self._mark(now)

    def lasts(self, now: int) -> None:
        """The iteration has gone on until ``now``, with another optimizer."""
        if self._held and self._holder == get_ident():
            self._held[-1] = self._held[-1]._replace(ended=now, mark=self._mark(now))

    def counted(self, items: int | None, loss: Any) -> None:
        """A training step has ended of which only this was seen; the loss may hang on its graph."""
        if self.holding:
            self.settle(asked=True)
        self.train = number = self.train + 1
        if self.elsewhere or self.losses_elsewhere or items is None:
            self._give_step(number, items, [loss.detach()])
            return
        self._quick({"step": number, "batch_size": items, "loss": loss})

    def settle(
        self, over: bool = False, asked: bool = False, again: bool = False, once: bool = False
    ) -> None:
        """The iteration of what is held back is over, if it is the calling thread's.

        Args:
            over: It certainly is, or the whole run is.
            asked: The next batch is asked for.
            again: The optimizer that stepped is to step once more. Without these it seems to be.
            once: The same batch is learned from once more, if none was asked for.
        """
        sure = self._held and (asked or not self._firmly or (again and self._most == 1))
        if not over and (self._holder != get_ident() or not sure):
            return
        held, self._held = self._held, []
        self.holding = self._pass is not None
        for each in held:
            self._give_held(each, once and not asked)
        if over:
            self._give_held_pass()

    def _give_held(self, held: Held, once: bool) -> None:
        """Give a step that was held back; ``once`` where its batch is learned from once more.

        A loop that asks for none has but that: what came between the first step's batch and its
        work is the script's setup, where it took longer than that. Else it may prepare the batch.
        """
        spent, there, began = held.spent, None, None
        if spent is not None:
            opening = spent.opening
            if once and opening is not None and opening.waited > held.ended - opening.began:
                there = opening.source
                spent = spent._replace(loading=0, transfer=0, began=opening.began)
            self.spent.append(spent)
            if held.number == 1 and spent.began:
                began = spent.began, there
        self._give_step(held.number, held.items, held.losses, held.ended, began, held.mark)

    def _give_step(
        self,
        number: int,
        items: int | None,
        losses: list[Any],
        ended: int | None = None,
        began: tuple[int, Hashable] | None = None,
        mark: object = None,
    ) -> None:
        event: Event = {}
        if TRAIN not in self.elsewhere:
            event["step"] = number
            if ended is not None:
                event |= _then(ended, mark)
                if began is not None:
                    event[BEGAN] = began
            if items is not None:
                event["batch_size"] = items
                if ended is not None:
                    event |= self._units
        if losses and not self.losses_elsewhere:
            event["loss"] = losses[0] if len(losses) == 1 else _sum(losses)
        if event:
            self._give(event)

    def other(self, role: Hashable, losses: list[Any]) -> None:
        """Another optimizer has stepped in the same iteration, on losses of its own."""
        roles = self._roles
        if self.losses_elsewhere or (role not in roles and len(roles) >= OPTIMIZERS):
            return
        if self._others is None:
            self._others = self._losses()
        number = roles.setdefault(role, len(roles) + 2)
        self._others({"task": f"optimizer {number}", "loss": _sum(losses)})

    def losses(self) -> dict[str, dict[str, float]]:
        """The losses of those optimizers that are not the first to step, by their order."""
        if self._others is None:
            return {}
        found = self._others.summary().items()
        said = {name: {"first": of.first, "last": of.last, "min": of.min} for name, of in found}
        return {name: {k: v for k, v in of.items() if v is not None} for name, of in said.items()}

    def count_tokens(self) -> None:
        """Loaders say how many tokens their batches hold, which are counted."""
        self._units = {"units": "tokens"}

    def evaluated(self, made: Pass) -> None:
        """A forward pass has ended that nothing is learned from; the first is held back, maybe."""
        own = self._holder == get_ident()
        if self.holding and own:
            self._give_held_pass()
            self.settle(asked=self._most == 1)
        if made.task in self.elsewhere or (made.task == INFERENCE and self._told_of_passes()):
            return
        first = made.task not in self._counts
        number = self._counts[made.task] = self._counts.get(made.task, 0) + 1
        if first and (own or not self.holding) and self._awaited():
            mark = made.mark if made.late else self._mark(made.ended)
            self._pass = HeldPass(made, number, mark)
            self._holder, self.holding = get_ident(), True
        else:
            self._give_pass(made, number, made.mark, made.late)

    def resumes(self, began: int) -> None:
        """Training has gone on behind an evaluation, which lasted until then."""
        if self._evaluated == self.train and TRAIN not in self.elsewhere:
            self._resumes(began)

    def fetches(self) -> None:
        """A loader is asked: the iteration of a pass that is held back is over."""
        if self._holder == get_ident():
            self._give_held_pass()

    def _give_held_pass(self) -> None:
        held, self._pass = self._pass, None
        self.holding = bool(self._held)
        if held is not None:
            self._give_pass(*held, late=True)

    def _give_pass(self, made: Pass, number: int, mark: object, late: bool = False) -> None:
        if made.task in self.elsewhere:
            return
        event: Event = {"task": made.task, "step": number}
        if self._evaluated != self.train and made.task == EVALUATION:
            self._evaluated = self.train
            self._evaluates(made.began)
        if late:
            event |= _then(made.ended, mark)
        if made.items is not None:
            event |= {"batch_size": made.items, **self._units}
        self._give(event)

    def _told_of_passes(self) -> bool:
        """Whether the steps that somebody else tells of can but be these passes."""
        return TRAIN in self.elsewhere and not self.train

    def _give(self, event: Event, push: Callable[[Event], object] | None = None) -> None:
        ident = get_ident()
        self._giving.add(ident)
        try:
            (push or self._push)(event)
        finally:
            self._giving.discard(ident)


def _then(ended: int, mark: object) -> Event:
    """When it was that an event tells of late."""
    return {ENDED: ended} if mark is None else {ENDED: ended, MARK: mark}


def _sized(event: Event) -> bool:
    return "batch" in event or "batch_size" in event


def _sum(losses: list[Any]) -> Any:
    """The sum of the losses, on their device."""
    total = losses[0]
    for loss in losses[1:]:
        total = total + loss
    return total


def _ignore(event: Event) -> None:
    """Nothing is to be heard from it."""
