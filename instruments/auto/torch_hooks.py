"""Hooks in torch: they tell a thread's loop what happens, and are gone when the run is over.

What can be is seen by torch's own global hooks (optimizers), or by probes in torch's code
(``backward``, ``zero_grad``, loaders), which leave every object and name as it was.
"""

from __future__ import annotations

import sys
from _thread import get_ident
from collections.abc import Callable, Hashable
from functools import partial
from types import FunctionType
from typing import Any

from overseer import Overseer
from overseer.boundary import problem, wished
from overseer.errors import Problem
from overseer.imports import on_import

from .loop import Known, Loop, Sink
from .phases import Phases
from .roots import KEY, Roots
from .sizing import Sizes

WHO = "auto"
Hook = Callable[[dict[str, Any]], None]


class TorchHooks:
    """Hooks in torch that serve one run.

    Args:
        ov: The run.
        torch: The module, which the script has imported.
        sink: Where steps go.
        phases: Who listens to phases.
    """

    def __init__(self, ov: Overseer, torch: Any, sink: Sink, phases: Phases) -> None:
        self._ov, self._torch, self._sink, self._phases = ov, torch, sink, phases
        self._now = ov.clock.now_ns
        self._known = Known()
        self._loops: dict[int, Loop] = {}
        self._asked: dict[int, int] = {}
        self._sizes = Sizes(torch)
        self._undo: list[Callable[[], object]] = []
        self.alive = True
        self.roots = Roots(torch, self._now, self.loop, self._sizes, self.failed)

    def place(self) -> None:
        """Put the hooks in; what this version of torch does not have is left out."""
        parts = (
            self.roots.place,
            self._compiled,
            self._optimizers,
            self._backwards,
            self._zeroes,
            self._scalers,
        )
        for part in parts:
            try:
                part()
            except (AttributeError, KeyError) as missing:
                name = part.__name__.strip("_")
                what = f"this version of torch shows nothing of its {name}: {missing}"
                self._ov.report(Problem("auto", WHO, what))

    def remove(self) -> None:
        """Take the hooks out."""
        self.alive = False
        self.roots.remove()
        for undo in self._undo:
            undo()
        self._undo.clear()

    def failed(self, error: BaseException) -> None:
        """Report what went wrong in a hook, once; all of them are silent from here on.

        Raises:
            BaseException: The error itself, when it is what the user asked for.
        """
        if wished(error):
            raise error
        if self.alive:
            self.alive = self.roots.alive = False
            self._ov.report(problem("auto", WHO, error, "automatic instrumentation failed"))

    def loop(self) -> Loop:
        """The calling thread's loop."""
        ident = get_ident()
        found = self._loops.get(ident)
        if found is None:
            found = self._loops[ident] = Loop(self._sink, self._phases, self._known)
        return found

    # Loaders

    def asked(self, source: Hashable) -> None:
        """A loader is asked for a batch."""
        if self.alive:
            self._asked[get_ident()] = self._now()
            try:
                self.loop().fetches()
            except BaseException as error:
                self.failed(error)

    def answered(self, source: Hashable, exhausted: bool) -> None:
        """A loader has answered."""
        if exhausted and self.alive:
            self.loop().batches.exhausted(source)

    def came(self, source: Hashable, batch: Any) -> None:
        """What a loader answered is this batch."""
        if self.alive:
            now = self._now()
            begin = self._asked.get(get_ident(), now)
            try:
                self.loop().fetched(source, self._sizes.of_batch(batch), begin, now)
            except BaseException as error:
                self.failed(error)

    # Compiled modules

    def _compiled(self) -> None:
        """See modules that ``torch.compile`` makes from when the script first calls it."""
        watch = on_import("torch._dynamo.eval_frame", self._dynamo_imported)
        self._undo.append(watch.dispose)
        self._probe(self._torch.nn.Module.compile, {"(self) > #exit": self.roots.compiled_in_place})

    def _dynamo_imported(self, module: Any) -> None:
        hooks: dict[str, Hook] = {
            "(self, args, kwargs) > #enter": self.roots.compiled_enters,
            "(self) > #exit": self.roots.compiled_leaves,
        }
        if self.alive:
            self._probe(vars(module.OptimizedModule)["__call__"], hooks)

    # Optimizers

    def _optimizers(self) -> None:
        """See every optimizer's step by torch's global hooks, and that one is made."""
        optimizer = sys.modules[self._torch.optim.Optimizer.__module__]
        before, after = self._optimizer_hooks()
        for table, hook in (
            (optimizer._global_optimizer_pre_hooks, before),
            (optimizer._global_optimizer_post_hooks, after),
        ):
            table[KEY] = hook
            self._undo.append(partial(table.pop, KEY, None))

        def made(event: dict[str, Any]) -> None:
            self._known.optimizers += 1
            self._known.trains = True

        self._probe(optimizer.Optimizer.__init__, {"> #enter": made})

    def _optimizer_hooks(self) -> tuple[Callable[..., None], Callable[..., None]]:
        now, loop_of, compiling = self._now, self.loop, self._torch.compiler.is_compiling

        def before(optimizer: Any, args: Any, kwargs: Any) -> None:
            if not compiling() and self.alive:
                try:
                    loop_of().optimizer_begins(now(), id(optimizer))
                except BaseException as error:
                    self.failed(error)

        def after(optimizer: Any, args: Any, kwargs: Any) -> None:
            if not compiling() and self.alive:
                try:
                    loop_of().optimizer_ends(now(), id(optimizer), _role(optimizer))
                except BaseException as error:
                    self.failed(error)

        return before, after

    # What is seen by probes in torch's code

    def _backwards(self) -> None:
        now, loop_of, roots = self._now, self.loop, self.roots

        def enter(event: dict[str, Any]) -> None:
            if self.alive:
                roots.disarm()
                try:
                    loop_of().backward_begins(now(), event["tensors"])
                except BaseException as error:
                    self.failed(error)

        def leave(event: dict[str, Any]) -> None:
            if self.alive:
                try:
                    if loop_of().backward_ends(now()):
                        roots.arm()
                except BaseException as error:
                    self.failed(error)

        self._probe(self._torch.autograd.backward, {"(tensors) > #enter": enter, "> #exit": leave})

    def _zeroes(self) -> None:
        now, loop_of = self._now, self.loop
        begun: dict[int, int] = {}

        def enter(event: dict[str, Any]) -> None:
            begun[get_ident()] = now()

        def leave(event: dict[str, Any]) -> None:
            if self.alive and (begin := begun.pop(get_ident(), None)) is not None:
                try:
                    loop_of().zero_grad(begin, now())
                except BaseException as error:
                    self.failed(error)

        for owner in (self._torch.optim.Optimizer, self._torch.nn.Module):
            self._probe(owner.zero_grad, {"> #enter": enter, "> #exit": leave})

    def _scalers(self) -> None:
        loop_of = self.loop

        def scale(event: dict[str, Any]) -> None:
            if self.alive:
                loop_of().scales(event["outputs"])

        self._probe(self._torch.amp.GradScaler.scale, {"(outputs) > #enter": scale})

    def _probe(self, function: Any, hooks: dict[str, Hook]) -> None:
        """Have ``hooks`` called by markers in torch's own code."""
        while hasattr(function, "__wrapped__"):
            function = function.__wrapped__
        if isinstance(function, FunctionType):
            for marker, hook in hooks.items():
                selector = f"code{'' if marker.startswith('(') else ' '}{marker}"
                placed = self._ov.probes.probe(selector, env={"code": function})
                self._undo.append(placed.listen(hook, WHO).dispose)


def _role(optimizer: Any) -> Hashable:
    """A name for what an optimizer trains: its first parameter."""
    try:
        return id(optimizer.param_groups[0]["params"][0])
    except Exception:
        return id(optimizer)
