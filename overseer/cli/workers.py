"""Records the workers of Ray Train: each worker of a cluster of Ray imports this module."""

from __future__ import annotations

import os
import pickle
import sys
from collections.abc import Callable
from contextlib import ExitStack, suppress
from functools import wraps
from pathlib import Path
from typing import Any

from ..boundary import StopProgram
from ..engine.child import state_of
from ..engine.overseer import Overseer
from ..errors import Problem
from ..imports import on_import
from ..launch.commands import finds_voir
from ..launch.processes import on_lookup
from ..rundir.job import attempt_directory

#: The variable with the modules that Ray's workers import, and that with what this one needs.
PRELOAD, STATE = "RAY_preload_python_modules", "_VOIR_WORKERS"
#: Options that end a training function early.
STOPPING = ("stop", "verify", "verify_json")
#: Prefix of a file that says where the ranks of an attempt meet.
MEETING = "meeting-"
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

        meeting = "-".join(os.environ.get(name, "") for name in ("MASTER_ADDR", "MASTER_PORT"))
        begin({**state, "joins": attempt_of(state["joins"], meeting)}, at_end=ends.append)

    def ended(runner: Any) -> None:
        error = runner.get_error()
        while ends:
            with suppress(SystemExit):  # After a stop.
                ends.pop()(stops.pop() if stops else getattr(error, "_base_exc", error))

    def ready(module: Any) -> None:
        Runner = module.ThreadRunner
        if any(map(state["options"].get, STOPPING)):  # Else tracebacks stay as they are.
            inner = Runner.run
            Runner.run = lambda runner, target: inner(runner, stoppable(target, stops.append))
        on_lookup(Runner, "run", begins)
        on_lookup(Runner, "get_return_value", ended)

    on_import(RUNNER, ready)


def stoppable(function: Any, stopped: Callable[[StopProgram], object]) -> Any:
    """A function that returns if it is stopped: Ray would count a stop as a failure."""

    @wraps(function)
    def run() -> Any:
        try:
            return function()
        except StopProgram as stop:
            stopped(stop)

    return run


def attempt_of(directory: str, meeting: str) -> str:
    """The directory of an attempt of a job, all of whose workers start again if one fails.

    Args:
        directory: That of the run of the script; it is created.
        meeting: Where the workers of this attempt meet.
    """
    number, own = 1, f"{MEETING}{meeting}"
    while True:
        at = attempt_directory(Path(directory), number)
        at.mkdir(parents=True, exist_ok=True)
        if not any(each.name != own for each in at.glob(f"{MEETING}*")):
            (at / own).touch()
            return str(at)
        number += 1


if STATE in os.environ:
    os.environ.pop(PRELOAD, None)
    with suppress(Exception):  # Then the worker is not recorded.
        wait_for_training(os.environ.pop(STATE))
