"""Sees what a script does with gradients: ``backward``, ``zero_grad``, scaled losses."""

from __future__ import annotations

from _thread import get_ident
from collections.abc import Callable
from typing import Any

from overseer.wrapping import Undo, ahead_of

from .codes import Codes
from .light import Counting
from .loop import Loop
from .roots import Roots
from .transforms import Transforms
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

    Attributes:
        taken: How often ``autograd.grad`` was called, but for gradients of gradients.
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
        self._backward: Codes
        self._zero: Codes
        self._grad: Codes
        self.taken = 0

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
        grad, undo_grad = self._probe(torch.autograd.grad, self._grad_hooks(torch))
        self._backward, self._zero, self._grad = backward, zero, grad
        module, scaler = torch.nn.Module, torch.amp.GradScaler

        def zeroed(of: Any) -> None:
            if enter({"self": of}):
                leave({})  # How long it takes is not seen, and is next to nothing.

        return [
            backward.close,
            zero.close,
            grad.close,
            *undo,
            *undo_zero,
            *undo_grad,
            ahead_of(module, "zero_grad", zeroed),
            self._scales(scaler),
        ]

    def light(self, on: bool) -> None:
        """Light steps begin or end: what they do not need is out of torch's code meanwhile.

        When gradients are put to zero makes no difference to steps that learn from one loss each.
        """
        self._backward.use(-1 if not on else 0 if self._counting.told else 1)
        self._zero.use(0 if on else -1)
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
                        roots.joins(own, late=True)
                    roots.disarm()
                    own.backward_begins(now(), event["tensors"])
                except BaseException as error:
                    failed(error)

        def unmarked(losses: Any) -> None:
            try:
                own = loop()
                if not own.works:
                    roots.joins(own, late=True)
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

    def _grad_hooks(self, torch: Any) -> list[tuple[str, Hook]]:
        """Hooks in ``autograd.grad``, by which a script learns that does without ``backward``."""
        counting, roots, loop, now = self._counting, self._roots, self._loop, self._now
        begun: set[int] = set()
        parameter, transforms = torch.nn.Parameter, Transforms(torch)

        def enter(event: Event) -> None:
            if counting.on or not roots.alive:
                return
            try:
                losses = learned(event)
                if losses is not None:
                    roots.disarm()
                    begun.add(get_ident())
                    loop().gradients_begin(now(), losses)
            except BaseException as error:
                self._failed(error)

        def learned(event: Event) -> Any:
            inputs = event["inputs"]
            if event["create_graph"]:  # A penalty's, or those of a function.
                losses = None
                if transforms.outermost:
                    losses = transforms.losses(event["outputs"], inputs)
                    if losses is None:
                        loop().batches.repeated()  # Nothing is learned from what it was given.
                    self.taken += losses is not None
                return losses
            self.taken += 1
            first = inputs[0] if type(inputs) in (list, tuple) and inputs else inputs
            return event["outputs"] if isinstance(first, parameter) else None

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

    def _scales(self, scaler: Any) -> Undo:
        """See what is scaled; the hook is placed when the first scaler is used."""
        undo: list[Undo] = []

        def used(instance: Any) -> None:
            undo.pop()()
            try:
                probed = self._probe(scaler.scale, [("(outputs) > #enter", self._scale)])
                undo.extend([probed[0].close, *probed[1]])
            except BaseException as error:
                self._failed(error)

        undo.append(ahead_of(scaler, "scale", used))

        def leave() -> None:
            for each in undo:
                each()

        return leave

    def _scale(self, event: Event) -> None:
        losses, counting = event["outputs"], self._counting
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
