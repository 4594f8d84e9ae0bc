"""Finds where a script trains and evaluates, for ``voir init``, which runs it briefly.

Each place is noted with the script's frames that led there, innermost first.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress

from overseer.apart import aside_psutil
from overseer.boundary import StopProgram, in_plumbing, of_instruments, of_library
from overseer.imports import on_import
from overseer.recorder import sites as k

from .measuring import measuring_of
from .places import Places

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Generator
    from typing import Any

    from overseer import Overseer

#: The environment variable by which that names it.
VARIABLE = "_VOIR_OBSERVE"
#: Steps for which the script is run; those in which places are noted; where models are only looked
#: at is noted in all.
STEPS, FIRST = 20, 3
#: Frames of one place, and places, that are noted.
DEEP, PLACES = 16, 256
#: Seconds after which a script without torch is stopped, and one with it but without a step.
WITHOUT, PATIENCE = 5.0, 300.0


def instrument_observe(ov: Overseer) -> Generator[Any, Any, None]:
    """Write what was seen, and where, to the file that ``voir init`` names."""
    file = os.environ.pop(VARIABLE, None)  # No program that the script starts is to do it, too.
    if file is None:
        return
    yield ov.phases.parse_args
    places = Noted()
    watch = on_import("torch", places.watch)
    begun, children = ov.clock.now_ns(), 0.0

    def stop_waiting() -> None:
        nonlocal children
        fold = measuring_of(ov).fold
        if fold is not None and fold.tasks:
            return
        if (ov.clock.now_ns() - begun) / 1e9 > (PATIENCE if "torch" in sys.modules else WITHOUT):
            children = _worked()  # Those that run are not known to os.times().
            ov.stopping.request(StopProgram("no step was seen"))

    def enough() -> None:
        ov.stopped_early = f"after {STEPS} steps"
        ov.stop()

    measuring_of(ov).stop_at(STEPS, None, enough)
    try:
        yield ov.phases.load_script
        with ov.every(1.0, stop_waiting, first=WITHOUT):
            yield ov.phases.run_script(priority=1000)
    except GeneratorExit:
        raise
    except BaseException:
        pass  # What the script ended by is told by its exit status.
    finally:
        watch.dispose()
        places.remove()
    yield ov.phases.finalize(priority=-1000)
    _write(ov, places, file, children or sum(os.times()[2:4]))


class Noted(Places):
    """Notes places while torch is used."""

    def __init__(self) -> None:
        super().__init__()
        self._seen: dict[tuple[Any, ...], dict[str, Any]] = {}
        self._steps = self._depth = 0

    def watch(self, torch: Any) -> None:
        """Note what the script does with torch, which has just been imported."""
        if not hasattr(torch, "optim"):
            return
        optimizer = sys.modules["torch.optim.optimizer"]
        self.keep(optimizer.register_optimizer_step_pre_hook(self._steps_now).remove)
        self.put(torch.autograd, "backward", self._backward(torch.autograd.backward))
        self.put(torch.nn.Module, "__call__", self._call(torch, torch.nn.Module.__call__))

    @property
    def sites(self) -> list[dict[str, Any]]:
        """What was noted."""
        return [{**site, "steps": len(site["steps"])} for site in self._seen.values()]

    def _backward(self, inner: Any) -> Any:
        def backward(*args: Any, **kwargs: Any) -> Any:
            self._note("backward", sys._getframe(1))
            return inner(*args, **kwargs)

        return backward

    def _call(self, torch: Any, inner: Any) -> Any:
        """``Module.__call__``; Dynamo is shown torch's own."""
        compiling, grad = torch.compiler.is_compiling, torch.is_grad_enabled
        own = torch.nn.Module._wrapped_call_impl

        def __call__(model: Any, *args: Any, **kwargs: Any) -> Any:
            if compiling():
                return own(model, *args, **kwargs)
            if self._depth:  # It is part of another.
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
    """Processor seconds of programs that the script started, and that these started."""
    with aside_psutil:
        import psutil

        below = psutil.Process().children(recursive=True)
        seconds = sum(os.times()[2:4])
        for process in below:
            with suppress(psutil.Error):
                seconds += sum(process.cpu_times()[:4])
        return seconds


def _write(ov: Overseer, places: Noted, path: str, children: float) -> None:
    import json

    measuring = measuring_of(ov)
    seen = {
        "children": children,
        "torch": "torch" in sys.modules,
        "tasks": measuring.facts(final=True),
        "problems": [[one.what, one.remedy] for one in ov.problems],
        "sites": places.sites,
    }
    with open(path, "w", encoding="utf-8") as file:
        json.dump(seen, file)
