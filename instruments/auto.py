"""Hooks for scripts without a voirfile: on by default, ``--no-auto`` turns them off."""

from __future__ import annotations

import sys
from argparse import BooleanOptionalAction
from contextlib import ExitStack
from functools import cache, partial
from importlib import import_module

from overseer.errors import Problem
from overseer.imports import on_import
from overseer.recorder import recorder, table
from overseer.recorder import sites as k

TYPE_CHECKING = False
if TYPE_CHECKING:
    import ast
    from collections.abc import Callable, Generator, Iterator
    from typing import Any

    from overseer import Overseer

    from .hooks.parallel import DataParallel
    from .places import Places
else:
    import _ast as ast  # Of the rest of ast nothing is used here, and it takes 3 ms to import.

#: Methods of other frameworks to record, by module: class, method, kind of event, value to read.
#: Loaders of MosaicML and Accelerate use PyTorch's.
FRAMEWORKS = {
    "nvidia.dali.plugin.pytorch": [("DALIGenericIterator", "__next__", k.LOADING, k.RESULT)],
    # Its iterators are PyTorch's, except for ``__iter__``.
    "torchdata.stateful_dataloader.stateful_dataloader": [
        ("StatefulDataLoader", "__iter__", k.ITERATE, k.IDENTITY),
    ],
    # Keras on PyTorch has its own optimizers, and calls a model once to build it.
    "keras.src.optimizers.base_optimizer": [
        ("BaseOptimizer", "__init__", k.MADE, k.NOTHING),
        ("BaseOptimizer", "apply", k.OPTIMIZER, k.NOTHING),
    ],
    "keras.src.trainers.trainer": [("Trainer", "_symbolic_build", k.COMPILE, k.NOTHING)],
}  # fmt: skip
#: Modules that pickle functions by value.
PICKLERS = ("cloudpickle.cloudpickle", "joblib.externals.cloudpickle.cloudpickle",
            "ray.cloudpickle.cloudpickle")  # fmt: skip
#: Attributes that tell PyTorch from another module named ``torch``.
TORCH_NAMES = ("Tensor", "_C", "nn", "optim")
#: Method calls that make a loop a training loop.
LEARNS = frozenset({"backward", "step"})
FOLLOW = "voir --follow-children records Python programs that the script starts, too."


def instrument_auto(ov: Overseer) -> Generator[Any, Any, None]:
    """Place hooks when libraries are imported; remove them when the script has ended."""
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
    undo = ExitStack()

    @cache
    def places() -> Places:
        """Where hooks are placed; created for the first library that has any."""
        from .places import Places

        made = Places()
        undo.callback(made.remove)
        return made

    @cache
    def batches() -> DataParallel:
        """What is known of which batches this rank sees."""
        from .hooks.parallel import DataParallel

        return DataParallel(ov, sys.modules["torch"])

    ov.on_source.append(_go_over)
    waits: dict[str, Callable[[Any], object]] = {
        "torch": partial(_torch, ov, places, batches),
        "tqdm.std": partial(_tqdm, ov, places),
        "torch.utils.data.dataloader": partial(_loaders, ov, places),
        "torch._dynamo": partial(_place, places, "pytorch", "graphs"),
        "torch._dynamo.callback": partial(_place, places, "pytorch", "compilations"),
        "torch.distributed.distributed_c10d": partial(_place, places, "distributed", "collectives"),
        "torch.distributed._functional_collectives": partial(
            _place, places, "distributed", "functional"
        ),
        "torch.distributed.device_mesh": partial(_parallel, places, batches, "meshes"),
        "torch.distributed.fsdp._fully_shard._fsdp_common": partial(
            _parallel, places, batches, "sharded"
        ),
        "torch.distributed.pipelining.schedules": partial(_pipelines, ov, places, batches),
        **{name: lambda module: place_other(places(), module) for name in FRAMEWORKS},
        **{name: partial(_pickler, ov, places) for name in PICKLERS},
    }
    watches = [on_import(name, place) for name, place in waits.items()]
    watches.append(on_import("torch.distributed.distributed_c10d", partial(_ranks, ov, places)))
    for watch in watches:
        undo.callback(watch.dispose)
    ov.placed.append(undo.close)
    try:
        yield ov.phases.run_script(priority=60)  # Before the steps are summed up.
    finally:
        undo.close()
    seen = ov.measured is not None and ov.measured.facts()
    if ov.unrecorded and not seen and all(p["state"] != "fired" for p in ov.probe_verdicts()):
        others = f" and {len(ov.unrecorded) - 1} more" if len(ov.unrecorded) > 1 else ""
        what = f"no step was seen, but the script started {ov.unrecorded[0]}{others}"
        ov.report(Problem("other-processes", "auto", what, remedy=FOLLOW))


def _go_over(tree: Any) -> None:
    """Record the waits of the script's training loops."""
    wrap_loops(tree, table.add(k.LOOP, "for"))


def _torch(
    ov: Overseer, placed: Callable[[], Places], batches: Callable[[], DataParallel], torch: Any
) -> None:
    if not all(hasattr(torch, part) for part in TORCH_NAMES):
        return  # Another module of that name.
    from .hooks import distributed, parallel, pytorch

    begun, places = ov.clock.cpu_ns(), placed()
    why = pytorch.models(places, torch)
    if why:
        ov.report(Problem("late-hooks", "auto", f"voir cannot see calls of models: {why}"))
    pytorch.gradients(places, torch)
    pytorch.optimizers(places, sys.modules["torch.optim.optimizer"])
    pytorch.parameters(places, sys.modules["torch.optim.optimizer"], ov.summary)
    distributed.reducers(places, torch)
    parallel.modules(places, batches(), torch)
    ov.measuring.begin()
    if ov.recording is not None:
        ov.recording.prepare(True)  # An import during a step may trigger a garbage collection.
    ov.charge(ov.clock.cpu_ns() - begun)


def _place(placed: Callable[[], Places], file: str, hooks: str, module: Any) -> None:
    """Place hooks in a part of PyTorch: a function of a file of :mod:`.hooks`."""
    getattr(import_module(f"{__package__}.hooks.{file}"), hooks)(placed(), module)


def _parallel(
    placed: Callable[[], Places], batches: Callable[[], DataParallel], hooks: str, module: Any
) -> None:
    from .hooks import parallel

    getattr(parallel, hooks)(placed(), batches(), module)


def _pipelines(
    ov: Overseer, placed: Callable[[], Places], batches: Callable[[], DataParallel], schedules: Any
) -> None:
    from .hooks import pipelines

    pipelines.place(ov, placed(), batches(), schedules)


def _loaders(ov: Overseer, placed: Callable[[], Places], dataloader: Any) -> None:
    from .hooks import workers

    _place(placed, "pytorch", "loaders", dataloader)
    workers.place(ov, placed(), dataloader)


def _ranks(ov: Overseer, placed: Callable[[], Places], c10d: Any) -> None:
    from .hooks import process_group

    process_group.place(ov, placed(), c10d)


def place_other(places: Places, module: Any) -> None:
    """Record the methods of a framework that are in :data:`FRAMEWORKS`, if the module has them."""
    keras = sys.modules.get("keras.src.backend.config")
    if module.__name__.startswith("keras.") and (keras is None or keras.backend() != "torch"):
        return  # With other backends, what is called there is traced and compiled.
    for name, method, kind, read in FRAMEWORKS[module.__name__]:
        if hasattr(module, name):
            places.around(getattr(module, name), method, kind, read, 0)


def _pickler(ov: Overseer, placed: Callable[[], Places], module: Any) -> None:
    """Pickle functions for other processes without the code that voir inserted."""
    from types import CodeType

    from overseer.probes.travel import reducer

    table = getattr(getattr(module, "Pickler", None), "_dispatch_table", {})
    if (reduce := table.get(CodeType)) is not None:
        placed().keep(partial(table.__setitem__, CodeType, reduce))
        table[CodeType] = reducer(reduce, lambda: ov.program.plain if ov.program else None)


def _tqdm(ov: Overseer, placed: Callable[[], Places], std: Any) -> None:
    from .hooks import progress

    progress.place(ov, placed(), std)


# Waits of training loops, which count as loading


def wrap_loops(tree: ast.Module, site: int) -> None:
    """Record the waits of training loops; change the tree in place.

    A training loop calls ``.backward(`` or ``.step(`` in its body, or in a function of the same
    file that the body calls.

    Args:
        tree: A module.
        site: Number of the site that records the waits.
    """
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    functions = [(one.name, _called(one)) for one in _walk([tree]) if isinstance(one, kinds)]
    learns, before = set(LEARNS), 0
    while len(learns) != before:
        before = len(learns)
        learns |= {function for function, calls in functions if calls & learns}
    name = ""
    for node in _walk([tree]):
        if isinstance(node, ast.AsyncFor) and _called(node) & learns:
            from .hooks.asynchronous import wrap

            wrap(node, site)
        elif isinstance(node, ast.For) and _called(node) & learns:
            # Imported only for scripts with a training loop.
            from overseer.probes.names import COMPILING, put

            name = name or put("loop", partial(recorder.loop, site))  # Dynamo never sees it.
            # Same position as the iterator's expression, so that tracebacks do not change.
            there = {one: getattr(node, one) for one in node._attributes}
            compiling = ast.Call(_name(COMPILING, there), [], [], **there)
            names = (_name("iter", there), _name(name, there))
            node.iter = ast.Call(ast.IfExp(compiling, *names, **there), [node.iter], [], **there)


def _name(name: str, there: dict[str, int]) -> ast.Name:
    return ast.Name(name, ast.Load(), **there)


def _called(node: Any) -> set[Any]:
    """Names of the functions and methods called in the body of a node."""
    calls = (one for one in _walk(node.body) if isinstance(one, ast.Call))
    return {getattr(one.func, "attr", getattr(one.func, "id", None)) for one in calls}


def _walk(nodes: list[Any]) -> Iterator[Any]:
    """Yield these nodes and their descendants."""
    nodes = list(nodes)
    while nodes:
        node = nodes.pop()
        yield node
        for name in node._fields:
            value = getattr(node, name, None)
            for one in value if isinstance(value, list) else (value,):
                if isinstance(one, ast.AST):
                    nodes.append(one)
