"""Finds the root modules and tells when their forward begins and ends; submodules pay nothing.

A global forward pre-hook is there only while no module is at work: it takes itself out for as long
as the outermost module runs, so that no submodule pays for it and ``torch.compile`` never sees it.
That one module is given a hook to tell when it has ended, and keeps nothing.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any
from weakref import ref

from overseer.launch.tracebacks import menders

from .light import Counting
from .loop import EVALUATION, INFERENCE, Loop
from .passes import Pass
from .sizing import Given, Sizes

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
#: Modules of which it is remembered whether they have parameters.
MODULES = 4096


class Roots:
    """Sees each outermost module's forward.

    Args:
        torch: The module, which the script has imported.
        now: Reads the clock.
        loop: The calling thread's loop.
        sizes: Sizes what a module is given.
        failed: Told of errors; raises those that are meant for the script.
    """

    def __init__(
        self,
        torch: Any,
        now: Callable[[], int],
        loop: Callable[[], Loop],
        sizes: Sizes,
        failed: Callable[[BaseException], None],
    ) -> None:
        self._torch, self._now, self._loop, self._failed = torch, now, loop, failed
        self._sizes = sizes
        self._table: dict[Any, Any] = {}
        self._models: dict[int, ref[Any]] = {}
        self._others: dict[int, ref[Any]] = {}
        self._wrapped: list[tuple[ref[Any], Any]] = []
        self._inside: Any = None
        self._passing: Any = None
        self._given = Given(None, False)
        self._begin = 0
        self._grad = self._evaluated = False
        self._counting: Counting | None = None
        self._hook: Callable[..., None] | None = self._entered
        self.alive = True

    def place(self) -> None:
        """Begin to look.

        Raises:
            AttributeError: This version of torch has no such table.
        """
        self._table = sys.modules[self._torch.nn.Module.__module__]._global_forward_pre_hooks
        self._compiling = self._torch.compiler.is_compiling
        self._grad_enabled = self._torch.is_grad_enabled
        menders.append(self.mend)
        self.arm()

    def remove(self) -> None:
        """Look no longer."""
        self.alive = False
        self.disarm()
        self._clean()
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
        self.disarm()
        self.arm()

    def _sized(self, module: Any, args: Any) -> None:
        """A module is called in a light step while no other is: only its batch's size is needed."""
        counting = self._counting
        if self._compiling() or counting is None or not self.alive:
            return
        if id(module) == counting.pattern.model and module.training and self._grad_enabled():
            self._table.pop(KEY, None)
            try:
                counting.items = args[0].shape[0]
            except BaseException as error:
                self._failed(error)
        elif self._is_model(module):
            counting.leave()
            self._entered(module, args)

    def disarm(self) -> None:
        """The next module to be called is not an outermost one."""
        self._table.pop(KEY, None)

    def _entered(self, module: Any, args: Any) -> None:
        """A module is called while no other is."""
        if self._compiling() or not self.alive or not self._is_model(module):
            return
        self.disarm()
        if self._inside is not None:
            self._clean()  # An exception that no hook sees has ended its forward.
        try:
            module._forward_hooks_with_kwargs[KEY] = True
            module._forward_hooks_always_called[KEY] = True
            module._forward_hooks[KEY] = self._left
            self._begins(module)
        except BaseException as error:
            self._failed(error)

    def _left(self, module: Any, args: Any, kwargs: Any, result: Any = None) -> None:
        """The module has ended, or has failed."""
        end = self._now()
        self._mend_failure(module)
        self._clean()
        if self.alive:
            self._ends(module, self._sizes.of_call(args, kwargs), end)

    def compiled_enters(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
        """A module that ``torch.compile`` has made is called: it wants no hook in torch's table."""
        module, *given = args
        if KEY in self._table and self.alive:
            self.disarm()  # Torch warns of hooks for all modules where a compiled one is called.
            if not self._is_model(module):
                self._passing = module
                return True
            try:
                self._given = self._sizes.of_call(tuple(given), kwargs)
                counting = self._counting
                if counting is not None:
                    if id(module) == counting.pattern.model and self._grad_enabled():
                        counting.items = self._given.items
                        return True
                    counting.leave()
                    self.disarm()
                self._begins(module)
            except BaseException as error:
                self._failed(error)
        return True

    def compiled_leaves(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """It has ended, or has failed."""
        if self._passing is args[0]:
            self._passing = None
            self.arm()
        elif self._inside is not None and self._inside is args[0] and self.alive:
            self._inside = None
            self._ends(args[0], self._given, self._now())

    def compiled_in_place(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """``module.compile()`` has made what the module's call comes to from now on."""
        module = args[0]
        own = module._compiled_call_impl
        enters, leaves = self.compiled_enters, self.compiled_leaves

        def compiled(*args: Any, **kwargs: Any) -> Any:
            enters((module, *args), kwargs)
            try:
                return own(*args, **kwargs)
            finally:
                leaves((module,), kwargs)

        if own is not None and self.alive:
            module._compiled_call_impl = compiled  # It is never pickled.
            self._wrapped.append((ref(module), own))

    def _begins(self, module: Any) -> None:
        self._inside = module
        self._grad = self._grad_enabled()
        self._begin = self._now()
        self._evaluated = self._loop().forward_begins(id(module), self._grad, module.training)

    def _ends(self, module: Any, given: Given, end: int) -> None:
        self.arm()
        try:
            loop = self._loop()
            task = EVALUATION if loop.trains and not module.training else INFERENCE
            batches = loop.batches
            made = Pass(id(module), batches.fetches, task, batches.seen(given.items))
            loop.forward_ends(made, given, self._begin, end, self._grad, self._evaluated)
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

    def _clean(self) -> None:
        """Take the hook out of the module it is in."""
        module, self._inside = self._inside, None
        if module is not None:
            module._forward_hooks.pop(KEY, None)
            module._forward_hooks_with_kwargs.pop(KEY, None)
            module._forward_hooks_always_called.pop(KEY, None)

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
                table[ident] = ref(module, lambda _: table.pop(ident, None))
        except Exception:
            return False  # One that is not what it seems; it is left alone.
        return has
