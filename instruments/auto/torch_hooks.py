"""Hooks in torch: they tell a thread's loop what happens, and are gone when the run is over.

Optimizers are seen by torch's own global hooks, root modules by one that is mostly not there (see
:mod:`.roots`), loaders and ``backward`` by probes in torch's code, what is called rarely by
functions in the place of torch's. No object of the script's is changed.
"""

from __future__ import annotations

import os
import sys
from _thread import get_ident
from collections.abc import Callable, Hashable
from functools import partial
from typing import Any
from weakref import WeakSet, WeakValueDictionary

from overseer import Overseer
from overseer.boundary import problem, wished
from overseer.errors import Problem
from overseer.imports import on_import
from overseer.wrapping import ahead_of, behind, enclosed

from ..loader import ITERATORS, TORCH, Loaders
from .gradients import Gradients
from .hooked import LIGHT, Hooked
from .light import ALIKE, Counting
from .loop import Known, Loop
from .phases import Phases
from .roots import KEY, Roots
from .sink import Sink
from .sizing import Asked, Sizes
from .turns import role_of

WHO = "auto"
#: What the constructor of an optimizer calls to have its ``step`` call hooks.
PREPARES = "_patch_step_function"
#: Reasons for which batches have no size that are told.
REASONS = 8


class TorchHooks:
    """Hooks in torch that serve one run.

    Args:
        ov: The run.
        torch: The module, which the script has imported.
        sink: Where steps go.
        phases: Who listens to phases.
        loaders: The loaders that are watched.
        asked: What a voirfile asks for, and who measures it.
    """

    def __init__(
        self, ov: Overseer, torch: Any, sink: Sink, phases: Phases, loaders: Loaders, asked: Asked
    ) -> None:
        self._ov, self._torch, self._sink, self._phases = ov, torch, sink, phases
        self._loaders, self._asked_for = loaders, asked
        self._now = ov.clock.now_ns
        self._known = Known(ov.expects_stop)
        self._known.works = loaders.feeds.confirm
        self._known.nodes = getattr(torch._C._autograd, "_get_sequence_nr", int)
        self._loops: dict[int, Loop] = {}
        self._asked: dict[int, int] = {}
        self._waited_for: dict[int, Hashable] = {}
        self._sizes = Sizes(torch, asked, sink.count_tokens, self._unsized)
        self._reasons: set[str] = set()
        self._undo: list[Callable[[], object]] = []
        self._counting = Counting(self._switch, self._sizes.of_batch, self._sizes.way, self._now)
        self._gradient_hooks: Gradients | None = None
        self._optimizer_tables: list[tuple[dict[Any, Any], Callable[..., Any]]] = []
        self._optimizers_made: WeakValueDictionary[int, Any] = WeakValueDictionary()
        self.alive = True
        self._hooked = Hooked(ov)
        self.roots = Roots(
            torch, self._now, self.loop, self._loops, self._sizes, self.failed, self._hooked
        )
        _placed.add(self)

    @property
    def operations(self) -> int | None:
        """How many operations a step of the script's consists of, once that is known."""
        return self._known.operations

    @property
    def unused(self) -> int:
        """How often the script has called ``backward`` since an optimizer stepped."""
        return sum(loop.unused for loop in list(self._loops.values()))

    @property
    def gradients(self) -> int:
        """How often it has called ``autograd.grad``, or a function that ``torch.func`` made."""
        return 0 if self._gradient_hooks is None else self._gradient_hooks.taken

    def works(self) -> bool:
        """Whether a model has been at work, or something has been learned."""
        return self._known.trains or any(loop.works for loop in list(self._loops.values()))

    def place(self) -> None:
        """Put the hooks in; what this version of torch does not have is left out."""
        parts = (
            self.roots.place,
            self._loaders_begin,
            self._compiled,
            self._optimizers,
            self._gradients,
        )
        for part in parts:
            try:
                part()
            except (AttributeError, KeyError) as missing:
                name = part.__name__.strip("_")
                what = f"this version of torch shows nothing of its {name}: {missing}"
                self._ov.report(Problem("auto", WHO, what))

    def remove(self) -> None:
        """Take the hooks out; the script has ended."""
        if self.alive:
            try:
                self._tell_rest()
            except BaseException as error:
                self.failed(error)
        self.silence()
        self.roots.remove()
        for undo in self._undo:
            undo()
        self._undo.clear()

    def _tell_rest(self) -> None:
        """Tell of steps that were held back."""
        if self._known.unseen.on:
            loop = self.loop()
            loop.look(self._now())
            loop.believe()
        for loop in list(self._loops.values()):
            loop.ends()
            self._tell_unsized(loop)

    def silence(self) -> None:
        """Tell nothing any more."""
        self.alive = self.roots.alive = self._counting.on = False

    def failed(self, error: BaseException) -> None:
        """Report what went wrong in a hook, once; all of them are silent from here on.

        Raises:
            BaseException: The error itself, when it is what the user asked for.
        """
        if wished(error):
            raise error
        if self.alive:
            self.silence()
            self._ov.report(problem("auto", WHO, error, "automatic instrumentation failed"))

    def _unsized(self, reason: str) -> None:
        """Report that the function that was asked for does not say how many items there are."""
        if reason not in self._reasons and len(self._reasons) < REASONS:
            self._reasons.add(reason)
            what = f"how many items a batch holds is not known: {reason}"
            remedy = "Have batch_size_calc say it of every batch: steps of others have no items."
            self._ov.report(Problem("batch-size", WHO, what, remedy=remedy))

    def _tell_unsized(self, loop: Loop) -> None:
        """Report it of what a model is given, where it is clear that no loader gives batches."""
        reason, self._sizes.reason = self._sizes.reason, None
        if reason is not None and not loop.batches.fetches:
            self._unsized(reason)

    def _switch(self, light: bool) -> None:
        """Light steps begin, or end: the hooks that they do not need are out meanwhile."""
        counting = self._counting
        if light:
            self._hooked.times = LIGHT
        self.roots.count(counting if light else None)
        if self._gradient_hooks is not None:
            self._gradient_hooks.light(light)
        tables = self._optimizer_tables if self.alive or light else []
        for table, hook in tables if not light or counting.told else tables[:1]:
            if light:
                table.pop(KEY, None)
            else:
                table[KEY] = hook
        if not light:
            self._loaders.hear_all()
        elif counting.source is not None:
            self._loaders.expect(counting)

    def loop(self) -> Loop:
        """The calling thread's loop."""
        ident = get_ident()
        found = self._loops.get(ident)
        if found is None:
            found = self._loops[ident] = Loop(self._sink, self._phases, self._known)
            self.roots.recount()
        return found

    def _alone(self, loop: Loop) -> bool:
        """Whether only this thread uses modules; that another has ended is seen now and then."""
        if self.roots.several and loop.alike % ALIKE == 0:
            self.roots.recount()
        return not self.roots.several

    # Loaders

    def asked(self, source: Hashable) -> None:
        """A loader is asked for a batch."""
        counting = self._counting
        if counting.on and get_ident() == counting.thread:
            if source == counting.source and not counting.ending:
                return
            idle = counting.loss is None and counting.items is None
            counting.leave(between=idle or source == counting.source)
        if self.alive:
            now = self._asked[get_ident()] = self._now()
            try:
                self.loop().fetches(now, source)
            except BaseException as error:
                self.failed(error)

    def answered(self, source: Hashable, exhausted: bool) -> None:
        """A loader has answered."""
        if exhausted and self.alive:
            counting = self._counting
            if counting.on and get_ident() == counting.thread:
                if counting.lasts(source):
                    self.roots.peek()
                    return
                counting.leave(between=True)
            loop = self.loop()
            if loop.accumulates(source):
                self._asked_for.learned()
            loop.exhausted(source)
            self._asked.pop(get_ident(), None)

    def came(self, source: Hashable, batch: Any) -> None:
        """What a loader answered is this batch."""
        if self.alive:
            counting = self._counting
            if counting.on and get_ident() == counting.thread:
                if source == counting.source:
                    counting.items = self._sizes.of_batch(batch)
                    counting.left -= 1
                    counting.ending |= counting.left <= 0
                    return
                counting.leave()  # That it was asked was not told: the wait is not known.
            now = self._now()
            begin = self._asked.pop(get_ident(), now)
            try:
                self.loop().fetched(source, self._sizes.of_batch(batch), begin, now)
            except BaseException as error:
                self.failed(error)

    def waits(self, source: Hashable) -> None:
        """A loop waits for what is no loader, or one begins: an iteration seems to be over.

        It is where the same is waited for again.
        """
        if not self.alive:
            return
        again = False
        if source is not None:
            thread = get_ident()
            again = self._waited_for.get(thread) == source
            self._waited_for[thread] = source
        if self._sink.holding:
            try:
                self._sink.settle(asked=again)
            except BaseException as error:
                self.failed(error)

    def waited(self, begin: int, end: int) -> None:
        """Something that is no loader has kept a loop waiting for a batch."""
        if self.alive and not self._counting.on:
            self.loop().waited(begin, end)

    def other(self, source: Hashable) -> None:
        """A loader of this name is gone, and another has it."""
        if self.alive:
            self.loop().batches.renamed(source)

    def _loaders_begin(self) -> None:
        """See that a loader begins anew."""

        def begins(iterator: Any) -> None:
            if self.alive:
                self.loop().loader_begins()

        def imported(package: Any) -> None:
            kind = getattr(package.dataloader, ITERATORS[0], None)
            if kind is not None and "__init__" in vars(kind):
                self._undo.append(ahead_of(kind, "__init__", begins))

        self._undo.append(on_import(TORCH.rpartition(".")[0], imported).dispose)

    # Compiled modules

    def _compiled(self) -> None:
        """See modules that ``torch.compile`` makes from when the script first calls it."""
        module = self._torch.nn.Module
        self._undo.append(behind(module, "compile", self.roots.compiled_in_place))
        self._undo.append(ahead_of(module, "eval", self._evaluates))
        watch = on_import("torch._dynamo.eval_frame", self._dynamo_imported)
        self._undo.append(watch.dispose)

    def _dynamo_imported(self, module: Any) -> None:
        """See the first module that is compiled: until then, a long file need not be read."""
        kind = module.OptimizedModule

        def first(compiled: Any) -> None:
            undo()
            if self.alive:
                self._compiled_modules(kind)

        undo = ahead_of(kind, "__init__", first)
        self._undo.append(undo)

    def _compiled_modules(self, kind: type) -> None:
        """See the calls of modules of this kind, which ``torch.compile`` makes."""
        roots, env = self.roots, {"code": kind.__call__}
        for marker, hook in (
            ("(self, args, kwargs) > #enter", roots.compiled_enters),
            ("(self) > #exit", roots.compiled_leaves),
        ):
            probe = self._ov.probes.probe(f"code{marker}", env=env)
            self._undo.append(probe.listen(hook, WHO).dispose)

    def _evaluates(self, model: Any) -> None:
        if self._counting.on and get_ident() == self._counting.thread:
            self.roots.peek()

    def _gradients(self) -> None:
        hooks = Gradients(
            self._ov.probes, self._now, self.loop, self.roots, self._counting, self.failed
        )
        self._undo += hooks.place(self._torch)
        self._gradient_hooks = hooks

    # Optimizers

    def _optimizers(self) -> None:
        """See every optimizer's step by torch's global hooks, and that one is made."""
        optimizer = sys.modules[self._torch.optim.Optimizer.__module__]
        before, after = self._optimizer_hooks()
        self._optimizer_tables = [
            (optimizer._global_optimizer_pre_hooks, before),
            (optimizer._global_optimizer_post_hooks, after),
        ]
        for table, hook in self._optimizer_tables:
            table[KEY] = hook
            self._undo.append(partial(table.pop, KEY, None))

        kind = optimizer.Optimizer
        # What its constructor calls, and which does not raise: errors there do not show us.
        called = PREPARES if PREPARES in vars(kind) else "__init__"
        self._undo.append(ahead_of(kind, called, self._made))

    def _made(self, optimizer: Any) -> None:
        """An optimizer is made, or has its state loaded, as by Accelerate: then it is the same."""
        if self._optimizers_made.get(id(optimizer)) is not optimizer:
            self._optimizers_made[id(optimizer)] = optimizer
            self._known.optimizers += 1
        self._known.unseen.made(optimizer)
        self._known.trains = True

    def _optimizer_hooks(self) -> tuple[Callable[..., Any], Callable[..., None]]:
        now, loop_of, compiling = self._now, self.loop, self._torch.compiler.is_compiling
        counting, phases, sink = self._counting, self._phases, self._sink
        rearm, counted, sizes = self.roots.arm, sink.counted, self._sizes
        hooked = self._hooked

        def before(optimizer: Any, args: Any, kwargs: Any) -> Any:
            others = None
            if not compiling() and self.alive:
                begun = hooked.begins() if hooked.on else None
                try:
                    loop = loop_of()
                    loop.optimizer_begins(now(), id(optimizer))
                    if (len(args) > 1 or kwargs) and loop.steps(id(optimizer)):
                        others = _with_closure(loop, now, args, kwargs)
                except BaseException as error:
                    self.failed(error)
                if begun is not None:
                    hooked.ends(begun)
            return others

        def after(optimizer: Any, args: Any, kwargs: Any) -> None:
            begun = hooked.begins() if hooked.on and not compiling() else None
            try:
                if counting.on:
                    loss, fetched = counting.loss, counting.fetched
                    if (
                        loss is not None
                        and id(optimizer) == counting.optimizer
                        and get_ident() == counting.thread
                    ):
                        items = fetched.pop() or None if fetched else counting.same()
                        counting.loss, counting.last = None, items
                        if counting.source is None:
                            rearm()
                            counting.left -= 1
                            if counting.left <= 0:
                                counting.done(now())
                        counted(items, loss)
                        hooked.on = not sink.train % LIGHT
                        return
                    if counting.told:
                        return
                    if get_ident() == counting.thread:
                        counting.leave()
                    else:
                        counting.cease()
                    loop_of().optimizer_begins(now(), id(optimizer))
                if compiling() or not self.alive:
                    return
                loop = loop_of()
                loop.optimizer_ends(now(), id(optimizer), role_of(optimizer))
                if sizes.reason is not None:
                    self._tell_unsized(loop)
                hooked.stepped(sink.train)
                if loop.alike >= ALIKE and not phases.listeners and self._alone(loop):
                    counting.consider(loop, sink.told)
            except BaseException as error:
                self.failed(error)
            finally:
                if begun is not None:
                    hooked.ends(begun)

        return before, after


def _with_closure(
    loop: Loop, now: Callable[[], int], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]] | None:
    """What ``step`` is to be called with so that its closure shows when it is at work, if any.

    Args:
        loop: The calling thread's.
        now: Reads the clock.
        args: What it is called with; the first is the optimizer.
        kwargs: And by name.
    """
    own = kwargs.get("closure") if len(args) < 2 else args[1]
    if not callable(own):
        return None
    seen = enclosed(own, lambda *_: loop.closure_begins(now()), lambda: loop.closure_ends(now()))
    if len(args) < 2:
        return args, {**kwargs, "closure": seen}
    return (args[0], seen, *args[2:]), kwargs


_placed: WeakSet[TorchHooks] = WeakSet()


def _after_fork() -> None:
    for hooks in _placed:
        hooks.silence()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
