"""The run of a process of :mod:`multiprocessing` that another run has started."""

from __future__ import annotations

import os
from argparse import Namespace
from contextlib import ExitStack, suppress

from ..boundary import StopProgram
from ..clock import process_start, time_ns
from ..launch import Target
from ..recorder import recorder
from ..recorder import sites as k
from .overseer import OF_PARENT, STRUCTURE_RING, VALUE_RING, Overseer

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

#: Types of options' values that another process receives.
SENDABLE = (str, int, float, bool, type(None), tuple, list, frozenset)
#: Kinds of events of a process that trains or evaluates a model.
WORKING = (
    k.LOADING, k.ITERATE, k.FORWARD, k.BACKWARD, k.OPTIMIZER, k.MADE, k.STEP, k.PAIR,
    k.COMMUNICATION, k.GRADIENTS,
)  # fmt: skip


def state_of(parent: Overseer, joins: str) -> dict[str, Any]:
    """What another process needs to begin a run.

    Args:
        parent: The run that starts it.
        joins: The directory of that run.
    """
    options = {name: v for name, v in vars(parent.options).items() if isinstance(v, SENDABLE)}
    target = parent.target
    return {
        "joins": joins,
        "options": options,
        "argv": list(parent.argv),
        "own": list(parent.own),
        "target": None if target is None else (target.kind, target.name),
        "file": parent.context.file(),
    }


def when_working(call: Callable[[], object]) -> None:
    """Record in a forked process, by the hooks of its parent; call back at the first event.

    Args:
        call: Must not raise.
    """
    recorder.open(STRUCTURE_RING, VALUE_RING, process_start(os.getpid()), time_ns())
    recorder.arm(sum(1 << kind for kind in WORKING), 1, call)


class ChildRun(Overseer):
    """Records what a process does from here on, with the options of the run that started it.

    Problems are only recorded: a job has many such processes.

    Args:
        state: From :func:`state_of`.
        parent: The run whose hooks and sites a forked process has inherited; its events are already
            recorded, see :func:`when_working`.
    """

    def __init__(self, state: dict[str, Any], parent: Overseer | None = None) -> None:
        super().__init__(tell=lambda problem: None)
        self._state, self._parent, self._script = state, parent, ExitStack()
        self.argv[:], self.own = state["argv"], state["own"]
        self.context.joins = state["joins"]
        if parent is not None:
            self.context.rank = parent.context.rank
            self.context.parallel = parent.context.parallel

    def _open_recorder(self) -> None:
        if self._parent is None:
            super()._open_recorder()
        else:
            self.context.first_site = self._parent.context.first_site

    def _parse(self, argv: list[str]) -> Target | None:
        self.options = self.context.options = Namespace(**{**self._state["options"], **OF_PARENT})
        target = self._state["target"]
        return None if target is None else Target(*target)

    def begin(self, argv: Iterable[str]) -> None:
        """As that of any run; the process's own code runs from here on."""
        super().begin(argv)
        self._script.enter_context(self.overhead.script())

    def _load(self) -> None:
        self.context.located, self.context.file = True, lambda: self._state["file"]

    @property
    def records_end(self) -> bool:
        """Whether a failure is recorded: of a rank, or of a process that has a record."""
        begun = self.recording is not None and self.recording.begun
        return begun or self.context.rank is not None

    def close_with(self, error: BaseException | None) -> bool:
        """End the run; never raises.

        Args:
            error: The exception that ended the process's function; its traceback stays as it is.

        Returns:
            Whether it is a stop that voir requested.
        """
        self._script.close()
        error = self.stopping.cause_of(error)
        stopped = isinstance(error, StopProgram)
        status = 0 if error is None or stopped else 1
        if isinstance(error, SystemExit):
            status = error.code if isinstance(error.code, int) else int(error.code is not None)
            if status and error.__context__ is not None:  # torch.multiprocessing.spawn raises it.
                error = error.__context__
        self.ending.announce = lambda error: status
        with suppress(BaseException):
            self._listening.close()
            self._left(error if status or stopped else None)
            if error is not None and status and self.records_end:
                self.log_error("error", error)
        with suppress(BaseException):
            self.finalize()
        with suppress(BaseException):
            self._inside.close()
        return stopped
