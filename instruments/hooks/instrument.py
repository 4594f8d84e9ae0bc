"""What a plain script does, without a voirfile: on by default, ``--no-auto`` turns it off."""

from __future__ import annotations

import sys
from argparse import BooleanOptionalAction
from functools import partial

from overseer.errors import Problem
from overseer.imports import on_import
from overseer.recorder import recorder, table
from overseer.recorder import sites as k

from ..measuring import measuring_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Generator
    from typing import Any

    from overseer import Overseer

    from .place import Places

#: Frameworks' own loaders, by module: the class, what to record of it, as what, and what is read.
#: Those of others (MosaicML, Accelerate) go through PyTorch's.
LOADERS = {
    "nvidia.dali.plugin.pytorch": ("DALIGenericIterator", "__next__", k.LOADING, k.RESULT),
    # Its iterators are PyTorch's, but for how they begin.
    "torchdata.stateful_dataloader.stateful_dataloader": (
        "StatefulDataLoader", "__iter__", k.ITERATE, k.IDENTITY,
    ),
}  # fmt: skip
#: What a module has that is PyTorch; a script may have another of that name.
PARTS = ("Tensor", "_C", "nn", "optim")
REMEDY = "Run each process under voir, as `torchrun --no-python voir SCRIPT` does."


def instrument_auto(ov: Overseer) -> Generator[Any, Any, None]:
    """Place the hooks as libraries are imported, and take them out when the script has ended."""
    yield ov.phases.init
    ov.argparser.add_argument(
        "--auto",
        action=BooleanOptionalAction,
        default=True,
        help="see steps, losses and loading of PyTorch scripts without a voirfile",
    )
    yield ov.phases.parse_args
    if not ov.options.auto:
        return
    from .place import Places

    places, before = Places(), processes()
    ov.on_source = _go_over
    waits: dict[str, Callable[[Any], object]] = {
        "torch": partial(_torch, ov, places),
        "numpy": _known,
        "jax": _known,
        "tqdm.std": partial(_tqdm, ov, places),
        "torch.utils.data.dataloader": partial(_loaders, places),
        "torch._dynamo.callback": partial(_dynamo, places),
        "torch.distributed.distributed_c10d": partial(_collectives, places),
        **{name: partial(place_other, places) for name in LOADERS},
    }
    watches = [on_import(name, place) for name, place in waits.items()]
    try:
        yield ov.phases.run_script(priority=60)  # Before the steps are summed up.
    finally:
        for watch in watches:
            watch.dispose()
        places.remove()
    started = processes() - before
    fold = measuring_of(ov).fold  # None for a script that has not imported PyTorch.
    if started and fold is not None and not fold.tasks:
        n = "a process" if started == 1 else f"{started} processes"
        what = f"the script has shown no step, but started {n} of which voir sees none"
        ov.report(Problem("other-processes", "auto", what, remedy=REMEDY))


def processes() -> int:
    """How many processes the script has started by :mod:`multiprocessing`."""
    started = getattr(sys.modules.get("multiprocessing.process"), "_process_counter", None)
    text = repr(started)  # It reads: count(3).
    return int(text[6:-1]) - 1 if text.startswith("count(") and text[6:-1].isdecimal() else 0


def _go_over(tree: Any) -> None:
    """Have the script's loops told."""
    from .loops import wrap

    wrap(tree, partial(recorder.loop, table.add(k.LOOP, "for")))


def _known(library: Any) -> None:
    from overseer.recorder.values import values

    values.know(library)


def _torch(ov: Overseer, places: Places, torch: Any) -> None:
    if not all(hasattr(torch, part) for part in PARTS):
        return  # Something else of that name.
    from . import gradients, modules, optimizers

    begun = ov.clock.cpu_ns()
    _known(torch)
    why = modules.place(places, torch)
    if why:
        ov.report(Problem("late-hooks", "auto", f"calls of models are not seen: {why}"))
    gradients.place(places, torch)
    optimizers.place(places, sys.modules["torch.optim.optimizer"])
    measuring_of(ov).begin()
    if ov.recording is not None:
        ov.recording.prepare(True)  # An import in a step might set off a garbage collection there.
    ov.charge(ov.clock.cpu_ns() - begun)


def _loaders(places: Places, dataloader: Any) -> None:
    from . import loaders

    loaders.place(places, dataloader)


def place_other(places: Places, module: Any) -> None:
    """Record a framework's own loader, if the module has it."""
    name, method, kind, read = LOADERS[module.__name__]
    if hasattr(module, name):
        places.around(getattr(module, name), method, kind, read, 0)


def _dynamo(places: Places, callback: Any) -> None:
    from . import compiled

    compiled.place(places, callback)


def _collectives(places: Places, c10d: Any) -> None:
    from . import collectives

    collectives.place(places, c10d)


def _tqdm(ov: Overseer, places: Places, std: Any) -> None:
    from . import progress

    progress.place(ov, places, std)
