"""Finds the lines where a script trains and evaluates, during the short run of ``voir init``.

Each is noted with the script's frames, innermost first.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress

from overseer.apart import aside_psutil
from overseer.boundary import StopProgram, in_plumbing, of_instruments, of_library
from overseer.imports import on_import
from overseer.recorder import sites as k

from .places import Places

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Generator
    from typing import Any

    from overseer import Overseer

#: The environment variable that names the file to write.
VARIABLE = "_VOIR_OBSERVE"
#: Steps of the run, and steps in which places are noted; evaluation is noted in all of them.
STEPS, FIRST = 20, 3
#: Frames per place, and places, that are noted.
DEEP, PLACES = 16, 256
#: Seconds after which a script is stopped: without torch; with torch but without a step.
NO_TORCH_SECONDS, NO_STEP_SECONDS = 5.0, 300.0


def instrument_observe(ov: Overseer) -> Generator[Any, Any, None]:
    """Write the places found to the file that ``voir init`` names."""
    file = os.environ.pop(VARIABLE, None)  # Not inherited by programs that the script starts.
    if file is None:
        return
    yield ov.phases.parse_args
    places = TrainingPlaces()
    watch = on_import("torch", places.watch)
    begun, children = ov.clock.now_ns(), 0.0

    def stop_waiting() -> None:
        nonlocal children
        fold = ov.measuring.fold
        if fold is not None and fold.tasks:
            return
        if (ov.clock.now_ns() - begun) / 1e9 > (
            NO_STEP_SECONDS if "torch" in sys.modules else NO_TORCH_SECONDS
        ):
            children = _worked()  # os.times() does not count running ones.
            ov.stopping.request(StopProgram("no step was seen"))

    def enough() -> None:
        ov.stopped_early = f"after {STEPS} steps"
        ov.stop(agreed=True)

    ov.measuring.stop_at(STEPS, None, enough)
    try:
        yield ov.phases.load_script
        with ov.every(1.0, stop_waiting, first=NO_TORCH_SECONDS):
            yield ov.phases.run_script(priority=1000)
    except GeneratorExit:
        raise
    except BaseException:
        pass  # The exit status shows the script's exception.
    finally:
        watch.dispose()
        places.remove()
    yield ov.phases.finalize(priority=-1000)
    _write(ov, places, file, children or sum(os.times()[2:4]))


class TrainingPlaces(Places):
    """Notes the places where the script uses torch."""

    def __init__(self) -> None:
        super().__init__()
        self._seen: dict[tuple[Any, ...], dict[str, Any]] = {}
        self._steps = self._depth = 0

    def watch(self, torch: Any) -> None:
        """Place the hooks in torch, which has just been imported."""
        if not hasattr(torch, "optim"):
            return
        optimizer = sys.modules["torch.optim.optimizer"]
        self.keep(optimizer.register_optimizer_step_pre_hook(self._steps_now).remove)
        self.put(torch.autograd, "backward", self._backward(torch.autograd.backward))
        self.put(torch.nn.Module, "__call__", self._call(torch, torch.nn.Module.__call__))

    @property
    def sites(self) -> list[dict[str, Any]]:
        """The places noted so far."""
        return [{**site, "steps": len(site["steps"])} for site in self._seen.values()]

    def _backward(self, inner: Any) -> Any:
        def backward(*args: Any, **kwargs: Any) -> Any:
            self._note("backward", sys._getframe(1))
            return inner(*args, **kwargs)

        return backward

    def _call(self, torch: Any, inner: Any) -> Any:
        """A ``Module.__call__`` that notes places; Dynamo compiles torch's own."""
        compiling, grad = torch.compiler.is_compiling, torch.is_grad_enabled
        own = torch.nn.Module._wrapped_call_impl

        def __call__(model: Any, *args: Any, **kwargs: Any) -> Any:
            if compiling():
                return own(model, *args, **kwargs)
            if self._depth:  # A submodule.
                return inner(model, *args, **kwargs)
            use = k.call(k.TRAINING * bool(model.training) | k.GRAD * grad())
            if use != k.NEITHER:
                self._note("learn" if use == k.LEARNING else "look", sys._getframe(1))
            self._depth += 1
            try:
                return inner(model, *args, **kwargs)
            finally:
                self._depth -= 1

        return __call__

    def _steps_now(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        self._note("step", sys._getframe(1))
        self._steps += 1

    def _note(self, kind: str, frame: Any) -> None:
        if (self._steps >= FIRST and kind != "look") or len(self._seen) >= PLACES:
            return
        stack: list[list[Any]] = []
        while frame is not None and len(stack) < DEEP:
            if not any(of(frame) for of in (of_library, in_plumbing, of_instruments)):
                module = str(frame.f_globals.get("__name__"))
                stack.append([module, frame.f_code.co_filename, frame.f_lineno])
            frame = frame.f_back
        key = (kind, *map(tuple, stack))
        if stack:
            site = self._seen.setdefault(key, {"kind": kind, "stack": stack, "steps": set()})
            site["steps"].add(self._steps)


def _worked() -> float:
    """Processor seconds of all programs that the script has started."""
    with aside_psutil:
        import psutil

        below = psutil.Process().children(recursive=True)
        seconds = sum(os.times()[2:4])
        for process in below:
            with suppress(psutil.Error):
                seconds += sum(process.cpu_times()[:4])
        return seconds


def _write(ov: Overseer, places: TrainingPlaces, path: str, children: float) -> None:
    import json

    measuring = ov.measuring
    seen = {
        "children": children,
        "torch": "torch" in sys.modules,
        "tasks": measuring.facts(final=True),
        "problems": [[one.what, one.remedy] for one in ov.problems],
        "sites": places.sites,
    }
    with open(path, "w", encoding="utf-8") as file:
        json.dump(seen, file)
