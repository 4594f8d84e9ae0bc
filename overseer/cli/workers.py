"""Records the workers of Ray Train: each worker of a cluster of Ray imports this module."""

from __future__ import annotations

import os
import pickle
import sys
from collections.abc import Callable
from contextlib import ExitStack, suppress
from functools import wraps
from typing import Any

from ..boundary import StopProgram
from ..engine.child import state_of
from ..engine.overseer import Overseer
from ..errors import Problem
from ..imports import on_import
from ..launch.commands import finds_voir
from ..launch.processes import on_lookup

#: The variable with the modules that Ray's workers import, and that with what this one needs.
PRELOAD, STATE = "RAY_preload_python_modules", "_VOIR_WORKERS"
#: Options that end a training function early.
STOPPING = ("stop", "verify", "verify_json")
#: The module of the class that runs the training function in a worker.
RUNNER = "ray.train.v2._internal.execution.worker_group.thread_runner"


def follow_workers(overseer: Overseer, module: Any) -> Callable[[], None]:
    """Record the workers of Ray Train in clusters that the script starts.

    Args:
        overseer: The run of the script.
        module: ``ray._private.node``.

    Returns:
        Ends it.
    """
    undo = ExitStack()

    def missed(why: str, remedy: str) -> None:
        what = f"workers of Ray Train are not recorded: {why}"
        problem = Problem("other-processes", "ray", what, remedy=remedy)
        undo.callback(on_import("ray.train", lambda train: overseer.report(problem)).dispose)

    def starts(node: Any) -> None:
        assert overseer.recording is not None
        joins = overseer.recording.directory.share()
        if not joins:
            return
        if not finds_voir((sys.executable,), os.sep, None):
            missed("their Python does not find voir", "Install voir for it.")
            return
        given = node._ray_params.env_vars or {}
        others = given.get(PRELOAD, os.environ.get(PRELOAD))
        modules = f"{others},{__name__}" if others else __name__
        sent = pickle.dumps((state_of(overseer, joins), others)).hex()
        node._ray_params.env_vars = {**given, PRELOAD: modules, STATE: sent}

    def connects(node: Any) -> None:
        if not node.all_processes:
            missed("their cluster runs already", "ray.init() starts one, without an address.")

    undo.callback(on_lookup(module.Node, "start_raylet", starts))
    undo.callback(on_lookup(module.Node, "check_version_info", connects))
    return undo.close


def wait_for_training(sent: str) -> None:
    """Record this worker while it runs a training function.

    Args:
        sent: The value of ``STATE``.
    """
    state, others = pickle.loads(bytes.fromhex(sent))
    os.environ.update({PRELOAD: others} if others else {})
    ends: list[Callable[[BaseException | None], object]] = []
    stops: list[StopProgram] = []

    def begins(runner: Any) -> None:
        from .children import begin

        begin(state, at_end=ends.append)
        if any(map(state["options"].get, STOPPING)):  # Else tracebacks stay as they are.
            run = runner.run
            runner.run = lambda target: run(stoppable(target))

    def stoppable(target: Any) -> Any:
        @wraps(target)
        def run() -> Any:
            try:
                return target()
            except StopProgram as stop:
                stops.append(stop)  # Else Ray counts it as a failure.

        return run

    def ended(runner: Any) -> None:
        error = runner.get_error()
        while ends:
            with suppress(SystemExit):  # After a stop.
                ends.pop()(stops.pop() if stops else getattr(error, "_base_exc", error))

    def ready(module: Any) -> None:
        on_lookup(module.ThreadRunner, "__init__", begins)
        on_lookup(module.ThreadRunner, "get_return_value", ended)

    on_import(RUNNER, ready)


if STATE in os.environ:
    os.environ.pop(PRELOAD, None)
    with suppress(Exception):  # Then the worker is not recorded.
        wait_for_training(os.environ.pop(STATE))
