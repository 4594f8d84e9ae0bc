"""Records the processes that a script starts with ``multiprocessing``, beside its own run."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

from ..engine.child import ChildRun, state_of, when_working
from ..engine.overseer import Overseer, active
from ..engine.voirfile import stock
from ..imports import is_imported, on_import
from ..launch import DeadlySignals, before_exec
from ..launch.processes import Followed, at_end

#: Where voir is found.
VOIR_HOME = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
#: Modules of the instruments of a process that another run started; if it has inherited hooks.
SPAWNED, INHERITED = ("auto", "rate"), ("rate",)


def follow_processes(overseer: Overseer) -> Followed:
    """Record the processes that the script starts with ``multiprocessing``, while it is open."""

    def share() -> str:
        assert overseer.recording is not None
        return overseer.recording.directory.share()

    def state() -> dict[str, Any]:
        return {"home": VOIR_HOME, "state": state_of(overseer, share())}

    def forked() -> None:
        # Read here: a process that the script has started may start others itself.
        parent = active() or overseer
        known = state_of(overseer, share())
        parent.context.rank = parent.context.parallel = None  # Those of the parent itself.
        if is_imported("torch"):
            when_working(lambda: begin(known, parent))
            return
        for remove in parent.placed:
            remove()
        on_import("torch", lambda torch: begin(known))

    return Followed(share, state, forked)


def begin(
    state: dict[str, Any],
    parent: Overseer | None = None,
    at_end: Callable[[Callable[[BaseException | None], object]], object] = at_end,
) -> None:
    """Begin a run in a process that another run has started; never raises.

    Args:
        state: From :func:`.state_of`.
        parent: The run whose hooks this process has inherited; None: it places its own.
        at_end: Receives the function to call with the error, if any, when the process has ended.
    """
    try:
        child, undo = ChildRun(state, parent), ExitStack()

        def end(error: BaseException | None) -> None:
            stopped = child.close_with(error)
            undo.close()
            if stopped:
                raise SystemExit(0)  # Else multiprocessing prints it, and the process fails.

        def commands(subprocess: Any) -> None:
            from .programs import follow_commands

            undo.callback(follow_commands(child))

        def processes(process: Any) -> None:
            undo.enter_context(follow_processes(child))

        over = lambda: child.context.outcome.over  # noqa: E731
        undo.enter_context(DeadlySignals(child.end_by_signal, over, at_once=True))
        undo.enter_context(before_exec(child.end_by_exec))
        if parent is None:
            undo.callback(on_import("multiprocessing.process", processes).dispose)
            undo.callback(on_import("subprocess", commands).dispose)
        names = SPAWNED if parent is None else INHERITED
        if state["options"].get("stop") is not None:
            names = (*names, "early_stop")
        elif state["options"].get("verify") or state["options"].get("verify_json"):
            names = (*names, "verify")
        child.add_instruments(stock(lambda module, always: module in names))
        at_end(end)
        child.begin(state["argv"])
        if parent is not None:
            child.measuring.begin()
        if child.recording is not None and child.recording.several:
            child.join_job()
    except Exception:  # Then the process is not recorded.
        pass
