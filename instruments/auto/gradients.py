"""Sees what a script does with gradients: ``backward``, ``zero_grad``, scaled losses."""

from __future__ import annotations

from _thread import get_ident
from collections.abc import Callable
from typing import Any

from overseer.wrapping import Undo, around

from .codes import Codes
from .light import Counting
from .loop import Loop
from .roots import Roots
from .turns import role_of

Event = dict[str, Any]
Hook = Callable[[Event], object]


class Gradients:
    """Hooks around torch's functions for gradients.

    Args:
        probes: Places probes.
        now: Reads the clock.
        loop: The calling thread's loop.
        roots: Must not look at modules that are called within ``backward``.
        counting: The light steps.
        failed: Told of errors; raises those that are meant for the script.
    """

    def __init__(
        self,
        probes: Any,
        now: Callable[[], int],
        loop: Callable[[], Loop],
        roots: Roots,
        counting: Counting,
        failed: Callable[[BaseException], None],
    ) -> None:
        self._probes = probes
        self._now, self._loop, self._roots = now, loop, roots
        self._counting, self._failed = counting, failed
        self._codes: list[Codes] = []
        self._grad: Codes | None = None

    def place(self, torch: Any) -> list[Undo]:
        """Put the hooks in; returns what takes them out.

        ``Tensor.backward`` ends in ``autograd.backward``: however it is called, this is seen.

        Raises:
            AttributeError, KeyError: This version of torch has no such functions.
        """
        enter, leave = self._zero_hooks()
        begins, ends = self._backward_hooks()
        backward, undo = self._probe(
            torch.autograd.backward, [("(tensors) > #enter", begins), (" > #exit", ends)]
        )
        zero, undo_zero = self._probe(
            torch.optim.Optimizer.zero_grad, [("(self) > #enter", enter), (" > #exit", leave)]
        )
        grad, undo_grad = self._probe(torch.autograd.grad, self._grad_hooks(torch.nn.Parameter))
        self._codes = [backward, zero]
        self._grad = grad
        module, scaler = torch.nn.Module, torch.amp.GradScaler
        return [
            backward.close,
            zero.close,
            grad.close,
            *undo,
            *undo_zero,
            *undo_grad,
            around(
                module, "zero_grad", lambda args, _: enter({"self": args[0]}), lambda *_: leave({})
            ),
            around(scaler, "scale", self._scale),
        ]

    def light(self, on: bool) -> None:
        """Light steps begin or end: what they do not need is out of torch's code meanwhile."""
        markers = -1 if not on else 0 if self._counting.told else 1
        for codes in self._codes:
            codes.use(markers)
        if self._grad is not None:
            self._grad.use(0 if on else -1)

    def _backward_hooks(self) -> tuple[Hook, Hook]:
        counting, roots, loop, now = self._counting, self._roots, self._loop, self._now
        failed = self._failed

        def enter(event: Event) -> None:
            if counting.on:
                if counting.told:
                    return
                if get_ident() != counting.thread:
                    counting.cease()
                elif counting.loss is None:
                    scaled, counting.scaled = counting.scaled, None
                    counting.loss = event["tensors"] if scaled is None else scaled
                    counting.learned_at = counting.left
                    return
                else:
                    counting.leave(again=True)
                unmarked(event["tensors"])  # Of this one, the end will not be seen.
            elif roots.alive:
                try:
                    own = loop()
                    if not own.works:
                        roots.joins(own)
                    roots.disarm()
                    own.backward_begins(now(), event["tensors"])
                except BaseException as error:
                    failed(error)

        def unmarked(losses: Any) -> None:
            try:
                own = loop()
                if not own.works:
                    roots.joins(own)
                own.learned(losses)
            except BaseException as error:
                failed(error)

        def leave(event: Event) -> None:
            if counting.on or not roots.alive:
                return
            try:
                if loop().backward_ends(now()):
                    roots.arm()
            except BaseException as error:
                failed(error)

        return enter, leave

    def _grad_hooks(self, parameter: type) -> list[tuple[str, Hook]]:
        """Hooks in ``autograd.grad``, by which a script learns that does without ``backward``."""
        counting, roots, loop, now = self._counting, self._roots, self._loop, self._now
        begun: set[int] = set()

        def enter(event: Event) -> None:
            inputs = event["inputs"]
            first = inputs[0] if type(inputs) in (list, tuple) and inputs else inputs
            if counting.on or event["create_graph"] or not isinstance(first, parameter):
                return  # A penalty's, or those of a batch.
            if roots.alive:
                roots.disarm()
                begun.add(get_ident())
                try:
                    loop().gradients_begin(now(), event["outputs"])
                except BaseException as error:
                    self._failed(error)

        def leave(event: Event) -> None:
            if get_ident() not in begun:
                return
            begun.discard(get_ident())
            try:
                if roots.alive and loop().gradients_end(now()):
                    roots.arm()
            except BaseException as error:
                self._failed(error)

        return [("(outputs, inputs, create_graph) > #enter", enter), (" > #exit", leave)]

    def _zero_hooks(self) -> tuple[Hook, Hook]:
        counting, roots, loop, now = self._counting, self._roots, self._loop, self._now
        begun: dict[int, tuple[int, Any]] = {}

        def enter(event: Event) -> bool:
            if counting.on:
                if get_ident() != counting.thread:
                    counting.cease()
                    return False
                if counting.loss is None:
                    return False
                counting.leave()
            begun[get_ident()] = now(), role_of(event["self"])
            return True

        def leave(event: Event) -> None:
            if counting.on or not roots.alive:
                return
            begin, role = begun.pop(get_ident(), (0, None))
            try:
                if begin:
                    loop().zero_grad(begin, now(), role)
            except BaseException as error:
                self._failed(error)

        return enter, leave

    def _scale(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        losses = args[1] if len(args) > 1 else kwargs.get("outputs")
        counting = self._counting
        if counting.on and get_ident() == counting.thread:
            counting.scaled = None if counting.told else losses
        elif self._roots.alive:
            self._loop().scales(losses)

    def _probe(self, function: Any, hooks: list[tuple[str, Hook]]) -> tuple[Codes, list[Undo]]:
        """Have ``hooks`` called by markers in torch's own code."""
        while hasattr(function, "__wrapped__"):
            function = function.__wrapped__
        codes, undo, env = Codes(function), [], {"code": function}
        for at, hook in hooks:
            undo.append(self._probes.probe(f"code{at}", env=env).listen(hook, "auto").dispose)
            codes.placed()
        return codes, undo
