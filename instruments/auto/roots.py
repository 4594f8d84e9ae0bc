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

from .loop import EVALUATION, INFERENCE, Loop
from .passes import Pass
from .sizing import Sizes

#: Under which our hooks stand in torch's tables; torch's own keys are numbers.
KEY = "voir.auto"
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
        self._inside: Any = None
        self._begin = 0
        self._grad = self._evaluated = False
        self.alive = True

    def place(self) -> None:
        """Begin to look."""
        self._table = sys.modules[self._torch.nn.Module.__module__]._global_forward_pre_hooks
        self._compiling = self._torch.compiler.is_compiling
        self._grad_enabled = self._torch.is_grad_enabled
        self.arm()

    def remove(self) -> None:
        """Look no longer."""
        self.alive = False
        self.disarm()
        self._clean()

    def arm(self) -> None:
        """The next module to be called is an outermost one."""
        self._table[KEY] = self._entered

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
            self._inside = module
            module._forward_hooks_with_kwargs[KEY] = True
            module._forward_hooks_always_called[KEY] = True
            module._forward_hooks[KEY] = self._left
            self._grad = self._grad_enabled()
            self._begin = self._now()
            self._evaluated = self._loop().forward_begins(id(module), self._grad, module.training)
        except BaseException as error:
            self._failed(error)

    def _left(self, module: Any, args: Any, kwargs: Any, result: Any = None) -> None:
        """The module has ended, or has failed."""
        end = self._now()
        self._clean()
        if not self.alive:
            return
        self.arm()
        try:
            self._tell(module, args, kwargs, end)
        except BaseException as error:
            self._failed(error)

    def _tell(self, module: Any, args: Any, kwargs: Any, end: int) -> None:
        loop, sizes = self._loop(), self._sizes
        lead = sizes.lead(args, kwargs)
        items = sizes.of_call(lead, args, kwargs)
        trains = loop.trains
        task = EVALUATION if trains and not module.training else INFERENCE
        made = Pass(id(module), loop.batches.fetches, task, loop.batches.seen(items))
        away = lead is not None and not lead.is_cpu
        loop.forward_ends(made, items, self._begin, end, self._grad, self._evaluated, away)

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
