"""Learning by ``torch.func``: the gradients of a function, where no ``backward`` is called."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


class Transforms:
    """Looks at what ``torch.func`` asks ``autograd.grad`` for.

    Args:
        torch: The module.
    """

    def __init__(self, torch: Any) -> None:
        self._known: Any = getattr(torch._C, "_functorch", None)

    @property
    def outermost(self) -> bool:
        """Whether a function's gradients are asked for, and not within those of another."""
        if self._known is None or self._known.peek_interpreter_stack() is None:
            return False
        levels = [level.key() for level in self._known.get_interpreter_stack()]
        return levels.count(levels[-1]) == 1

    def losses(self, outputs: Any, inputs: Sequence[Any]) -> list[Any] | None:
        """The losses that are learned from, those that can be read; None where nothing is learned.

        The gradients of one number by several tensors are a model's; by a single one, most often
        those of its input.
        """
        known: Any = self._known
        if len(inputs) < 2 or len(outputs) != 1 or outputs[0].dim():
            return None
        loss = outputs[0]
        while known.is_gradtrackingtensor(loss):
            loss = known.get_unwrapped(loss)
        return [] if known.is_functorch_wrapped_tensor(loss) else [loss]
