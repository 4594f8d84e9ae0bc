"""Finds the root modules and tells when their forward begins and ends; submodules pay nothing.

A global forward pre-hook is there only while no module is at work: it takes itself out for as long
as the outermost module runs, so that no submodule pays for it and ``torch.compile`` never sees it.
That one module is given a hook to tell when it has ended, and keeps nothing. Where several threads
use modules at once, the global hook stays, and what each is in the middle of tells an outermost
module from those within.
"""

from __future__ import annotations

import sys
import threading
from _thread import get_ident
from collections.abc import Callable
from functools import partial
from typing import Any
from weakref import ref

from overseer.launch.tracebacks import menders
from overseer.wrapping import enclosed

from .hooked import Hooked
from .light import Counting
from .loop import EVALUATION, INFERENCE, Loop
from .passes import Pass
from .sizing import Given, Shape, Sizes, weight_of

#: Under which our hooks stand in torch's tables; torch's own keys are numbers.
KEY = "voir.auto"
#: Torch's tables of hooks: for all modules, and of each.
_GLOBAL = (
    "_global_backward_pre_hooks",
    "_global_backward_hooks",
    "_global_forward_hooks",
    "_global_forward_pre_hooks",
)
_OWN = ("_backward_hooks", "_backward_pre_hooks", "_forward_hooks", "_forward_pre_hooks")
#: What a model is called with, before it has been looked at.
UNKNOWN = Given(None, False)
#: Modules of which it is remembered whether they have parameters.
MODULES = 4096


class Roots:
    """Sees each outermost module's forward.

    Args:
        torch: The module, which the script has imported.
        now: Reads the clock.
        loop: The calling thread's loop.
        loops: Those of all threads.
        sizes: Sizes what a module is given.
        failed: Told of errors; raises those that are meant for the script.
        hooked: Times hooks that are due.

    Attributes:
        several: Several threads use modules.
    """

    def __init__(
        self,
        torch: Any,
        now: Callable[[], int],
        loop: Callable[[], Loop],
        loops: dict[int, Loop],
        sizes: Sizes,
        failed: Callable[[BaseException], None],
        hooked: Hooked,
    ) -> None:
        self._hooked = hooked
        self._torch, self._now, self._loop, self._failed = torch, now, loop, failed
        self._loops, self._sizes = loops, sizes
        self._table: dict[Any, Any] = {}
        self._models: dict[int, ref[Any]] = {}
        self._others: dict[int, ref[Any]] = {}
        self._weights: dict[int, Shape | None] = {}
        self._wrapped: list[tuple[ref[Any], Any]] = []
        self._counting: Counting | None = None
        self._hook: Callable[..., None] | None = self._entered
        self._told = False
        self.alive = True
        self.several = False

    def __deepcopy__(self, memo: Any) -> Roots:
        """Of a module that is copied while it is at work, our hook in it is no part."""
        return self

    def place(self) -> None:
        """Begin to look.

        Raises:
            AttributeError: This version of torch has no such table.
        """
        self._table = sys.modules[self._torch.nn.Module.__module__]._global_forward_pre_hooks
        self._apart = self._compiles_or_traces()
        self._grad_enabled = self._torch.is_grad_enabled
        menders.append(self.mend)
        self.arm()

    def _compiles_or_traces(self) -> Callable[[], bool]:
        """Tells whether what is asked of a tensor would become a part of the graph at work."""
        compiling = self._torch.compiler.is_compiling
        tracing = getattr(self._torch._C, "_is_tracing", self._torch.jit.is_tracing)

        def apart() -> bool:
            return bool(tracing() or compiling())

        return apart

    def remove(self) -> None:
        """Look no longer."""
        self.alive = self.several = False
        self.disarm()
        for loop in list(self._loops.values()):
            self._clean(loop)
            self._clean_bare(loop)
        if self.mend in menders:
            menders.remove(self.mend)
        for module, own in self._wrapped:
            if (found := module()) is not None:
                found._compiled_call_impl = own

    def arm(self) -> None:
        """The next module to be called is an outermost one."""
        if self._hook is not None and self.alive:
            self._table[KEY] = self._hook

    def count(self, counting: Counting | None) -> None:
        """From here on only see what light steps need; None: see everything again."""
        self._counting = counting
        self._hook = self._entered
        if counting is not None:
            self._hook = self._sized if counting.source is None else None
            self._told = self._sizes.function is not None and not self._loop().batches.fetches
        self.disarm()
        self.arm()

    def _sized(self, module: Any, args: Any) -> None:
        """A module is called in a light step while no other is: only its batch's size is needed."""
        counting = self._counting
        if self._apart() or counting is None or not self.alive:
            return
        if self.several or get_ident() != counting.thread:
            self._sized_among_several(counting, module, args)
        elif id(module) == counting.pattern.model and module.training and self._grad_enabled():
            self._table.pop(KEY, None)
            try:
                if self._told:
                    counting.items = self._sizes.told(UNKNOWN, args, {}).items
                    return
                shape = args[0].shape
                counting.items = shape[0] if len(shape) != counting.single else 1
            except BaseException as error:
                self._failed(error)
        elif self._is_model(module):
            counting.leave()
            self._entered(module, args)

    def peek(self) -> None:
        """Look at the next module to be called, also in light steps that a loader feeds.

        For one was put into evaluation mode, or the loader's epoch is over.
        """
        if self._counting is not None and self._hook is None and self.alive:
            self._table[KEY] = self._peeked

    def _peeked(self, module: Any, args: Any) -> None:
        """A module is called in a light step that may be none: see :meth:`peek`."""
        counting = self._counting
        if self._apart() or counting is None or not self.alive or not self._is_model(module):
            return
        if get_ident() != counting.thread:
            return
        self._table.pop(KEY, None)
        if not (module.training and self._grad_enabled()):
            counting.leave(between=counting.items is None)
            self._entered(module, args)

    def _sized_among_several(self, counting: Counting, module: Any, args: Any) -> None:
        if get_ident() != counting.thread:
            counting.cease()
        elif counting.items is not None:
            return  # The one whose batch has been sized is still at work.
        else:
            counting.leave()
        self._entered(module, args)

    def disarm(self) -> None:
        """The next module to be called is not an outermost one."""
        if not self.several:
            self._table.pop(KEY, None)

    def joins(self, loop: Loop, late: bool = False) -> None:
        """The calling thread, whose loop this is, uses modules; ``late``: it has used one before.

        Its first forward was not seen while another thread was at work in a module.
        """
        loop.works, loop.missed = True, late and len(self._loops) > 1
        self.recount()

    def recount(self) -> None:
        """Find out whether several threads that use modules are alive; forget the others."""
        loops = self._loops
        if len(loops) > 1:
            alive = {thread.ident for thread in threading.enumerate()}
            for ident in loops.keys() - alive - {get_ident()}:
                loops.pop(ident, None)
        several = sum(loop.works for loop in list(loops.values())) > 1
        if several != self.several:
            self.several = several
            self.arm()

    def _entered(self, module: Any, args: Any) -> None:
        """A module is called while no other is."""
        if self._apart() or not self.alive:
            return
        if not self._is_model(module):
            loop = self._loops.get(get_ident())
            if loop is not None and loop.within.way.cut and not self.several:
                self._bare_enters(loop, module)
            return
        if self.several and not self._outermost():
            return
        hooked = self._hooked
        hooked.passes += 1
        begun = hooked.begins() if (times := hooked.pass_times) else None
        loop = self._loop()
        if not loop.works:
            self.joins(loop)
        self.disarm()
        if loop.within.module is not None:
            self._clean(loop)  # An exception that no hook sees has ended its forward.
        try:
            loop.within.module = module  # Before the hook is there: see _clean.
            module._forward_hooks_with_kwargs[KEY] = True
            module._forward_hooks_always_called[KEY] = True
            module._forward_hooks[KEY] = self._left
            self._begins(loop, module, args)
        except BaseException as error:
            self._failed(error)
        if begun is not None:
            hooked.ends(begun, times)

    def _bare_enters(self, loop: Loop, module: Any) -> None:
        """A module without parameters is called, maybe between a model's forward and ``backward``.

        The global hook stays: a criterion may use models, which are seen as if it were a function.
        """
        within = loop.within
        if not within.way.bare_counts:
            return
        hooked = self._hooked  # It is timed where its model is.
        begun = hooked.begins() if (times := hooked.pass_times) else None
        if within.bare is not None:
            self._clean_bare(loop)  # An exception that no hook sees has ended it.
        try:
            within.bare = module
            module._forward_hooks_with_kwargs[KEY] = True
            module._forward_hooks_always_called[KEY] = True
            module._forward_hooks[KEY] = self._bare_left
            within.way.bare_begins(self._now())
        except BaseException as error:
            self._failed(error)
        if begun is not None:
            hooked.ends(begun, times)

    def _bare_left(self, module: Any, args: Any, kwargs: Any, result: Any = None) -> None:
        """The module without parameters has ended, or has failed."""
        end = self._now()
        begun = self._hooked.begins() if (times := self._hooked.pass_times) else None
        self._mend_failure(module)
        self._drop(module)
        loop = self._loops.get(get_ident())
        if loop is not None and loop.within.bare is module:
            loop.within.bare = None
            if self.alive:
                loop.within.way.bare_ends(end)
        if begun is not None:
            self._hooked.ends(begun, times)

    def _outermost(self) -> bool:
        """Whether the calling thread is in no module, and is not one of torch's own."""
        loop = self._loops.get(get_ident())
        if loop is not None:
            return loop.within.module is None and not loop.learning
        return any(thread.ident == get_ident() for thread in threading.enumerate())

    def _left(self, module: Any, args: Any, kwargs: Any, result: Any = None) -> None:
        """The module has ended, or has failed."""
        end = self._now()
        begun = self._hooked.begins() if (times := self._hooked.pass_times) else None
        self._mend_failure(module)
        loop = self._loop()
        if loop.within.module is not module:
            self._unhook(module, loop)  # Another thread's, which is at work in it, or a copy.
            return
        self._clean(loop)
        if self.alive:
            self._ends(loop, module, self._given(loop, module, args, kwargs), end)
        if begun is not None:
            self._hooked.ends(begun, times)

    def compiled_enters(self, event: dict[str, Any]) -> None:
        """A module that ``torch.compile`` has made is called: it wants no hook in torch's table.

        Args:
            event: The module is ``self``; ``args`` and ``kwargs`` are what it is called with.
        """
        module, given = event["self"], event["args"]
        if KEY in self._table and self.alive and not (self.several and not self._outermost()):
            # Torch warns of hooks for all modules where a compiled one is called.
            self._table.pop(KEY, None)
            loop = self._loop()
            within = loop.within
            if not self._is_model(module):
                within.passing = module
                return
            if not loop.works:
                loop.works = True
            try:
                within.given = self._given(loop, module, given, event["kwargs"])
                counting = self._counting
                if counting is not None:
                    if id(module) == counting.pattern.model and self._grad_enabled():
                        if counting.source is None:
                            counting.items = within.given.items
                        return
                    counting.leave(between=counting.source is not None and counting.items is None)
                    self._table.pop(KEY, None)
                within.module = module
                self._begins(loop, module, given)
            except BaseException as error:
                self._failed(error)

    def compiled_leaves(self, event: dict[str, Any]) -> None:
        """It has ended, or has failed."""
        module = event["self"]
        loop = self._loop()
        within = loop.within
        if within.passing is module:
            within.passing = None
            self.arm()
        elif within.module is not None and within.module is module and self.alive:
            within.module = None
            self._ends(loop, module, within.given, self._now())

    def compiled_in_place(self, module: Any) -> None:
        """``module.compile()`` has made what the module's call comes to from now on."""
        own = module._compiled_call_impl

        def enters(args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            self.compiled_enters({"self": module, "args": args, "kwargs": kwargs})

        if own is not None and self.alive:
            leaves = partial(self.compiled_leaves, {"self": module})
            module._compiled_call_impl = enclosed(own, enters, leaves)  # It is never pickled.
            self._wrapped.append((ref(module), own))

    def _given(
        self, loop: Loop, module: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Given:
        given = self._sizes.of_call(args, kwargs, self._weights.get(id(module)))
        return given if loop.batches.fetches else self._sizes.told(given, args, kwargs)

    def _begins(self, loop: Loop, module: Any, args: tuple[Any, ...]) -> None:
        within = loop.within
        within.grad = grad = self._grad_enabled()
        within.begin = self._now()
        learns = grad and module.training and (loop.trains or self._sizes.in_graph(args))
        within.evaluated = loop.forward_begins(id(module), grad, module.training, learns)

    def _ends(self, loop: Loop, module: Any, given: Given, end: int) -> None:
        self.arm()
        try:
            batches, within = loop.batches, loop.within
            acts = given.alone and not batches.fetches  # As an agent does, in evaluation mode too.
            evaluates = loop.trains and not acts and (not module.training or batches.other)
            task = EVALUATION if evaluates else INFERENCE
            items = batches.seen(given.items)
            made = Pass(id(module), batches.fetches, task, items, end, within.begin)
            loop.forward_ends(made, given, within.begin, end, within.grad, within.evaluated)
        except BaseException as error:
            self._failed(error)

    def _mend_failure(self, module: Any) -> None:
        """If the module has failed, let the error's traceback be as without our hook."""
        caller, error = sys._getframe(2), sys.exc_info()[1]
        entry = error.__traceback__ if error is not None else None
        if error is not None and entry is not None and entry.tb_frame is caller:
            try:
                self.mend(error)
            except Exception as ours:
                self._failed(ours)

    def mend(self, error: BaseException) -> None:
        """Let the error's traceback be as without our hooks."""
        from .frames import mend

        mend(error, self._only_ours)

    def _only_ours(self, module: Any) -> bool:
        """Whether the module has no hooks but ours, and there are none for all modules."""
        space = sys.modules[self._torch.nn.Module.__module__]
        tables = [getattr(space, name, {}) for name in _GLOBAL]
        tables += [getattr(module, name, {}) for name in _OWN]
        return not any(set(table) - {KEY} for table in tables)

    def _clean(self, loop: Loop) -> None:
        """Take the hook out of the module that the loop's thread is in."""
        within = loop.within
        module, within.module = within.module, None
        if module is not None:
            self._unhook(module, loop)

    def _clean_bare(self, loop: Loop) -> None:
        """Take the hook out of the module without parameters that the loop's thread is in."""
        module, loop.within.bare = loop.within.bare, None
        if module is not None:
            self._drop(module)

    def _drop(self, module: Any) -> None:
        module._forward_hooks.pop(KEY, None)
        module._forward_hooks_with_kwargs.pop(KEY, None)
        module._forward_hooks_always_called.pop(KEY, None)

    def _unhook(self, module: Any, loop: Loop) -> None:
        """Take the hook out of a module, unless another thread than the loop's is at work in it."""
        if self.several and self._shared(module, loop):
            return
        self._drop(module)
        if self.several and self._shared(module, loop):  # It has come just now.
            module._forward_hooks_with_kwargs[KEY] = True
            module._forward_hooks_always_called[KEY] = True
            module._forward_hooks[KEY] = self._left

    def _shared(self, module: Any, loop: Loop) -> bool:
        others = list(self._loops.values())
        return any(each.within.module is module and each is not loop for each in others)

    def _is_model(self, module: Any) -> bool:
        """Whether it has parameters; a loss function has none and is no model."""
        ident = id(module)
        if ident in self._models:
            return True
        if ident in self._others:
            return False
        return self._look(module, ident)

    def _look(self, module: Any, ident: int) -> bool:
        try:
            has = next(iter(module.parameters()), None) is not None
            table = self._models if has else self._others
            if len(table) < MODULES:
                table[ident] = ref(module, lambda _: self._forget(table, ident))
                if has:
                    self._weights[ident] = weight_of(module)
        except Exception:
            return False  # One that is not what it seems; it is left alone.
        return has

    def _forget(self, table: dict[int, ref[Any]], ident: int) -> None:
        table.pop(ident, None)
        self._weights.pop(ident, None)
        counting = self._counting
        if counting is not None and counting.pattern.model == ident:
            counting.pattern = counting.pattern._replace(model=0)  # The next is another.
