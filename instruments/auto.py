"""Hooks for scripts without a voirfile: on by default, ``--no-auto`` turns them off."""

from __future__ import annotations

import sys
from argparse import BooleanOptionalAction
from contextlib import ExitStack
from functools import cache, partial

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

    from .places import Places
else:
    import _ast as ast  # Of the rest of ast nothing is used here, and it takes 3 ms to import.

#: What frameworks have of their own, by module: the class, the method to record, as what, and what
#: is read. Loaders of others (MosaicML, Accelerate) go through PyTorch's.
FRAMEWORKS = {
    "nvidia.dali.plugin.pytorch": [("DALIGenericIterator", "__next__", k.LOADING, k.RESULT)],
    # Its iterators are PyTorch's, but for how they begin.
    "torchdata.stateful_dataloader.stateful_dataloader": [
        ("StatefulDataLoader", "__iter__", k.ITERATE, k.IDENTITY),
    ],
    # Keras on PyTorch has optimizers of its own, and calls a model once to build it.
    "keras.src.optimizers.base_optimizer": [
        ("BaseOptimizer", "__init__", k.MADE, k.NOTHING),
        ("BaseOptimizer", "apply", k.OPTIMIZER, k.NOTHING),
    ],
    "keras.src.trainers.trainer": [("Trainer", "_symbolic_build", k.COMPILE, k.NOTHING)],
}  # fmt: skip
#: Modules that pickle functions by value.
PICKLERS = ("cloudpickle.cloudpickle", "joblib.externals.cloudpickle.cloudpickle",
            "ray.cloudpickle.cloudpickle")  # fmt: skip
#: What a module has that is PyTorch; a script may have another of that name.
PARTS = ("Tensor", "_C", "nn", "optim")
#: Methods by which the body of a loop learns.
LEARNS = frozenset({"backward", "step"})
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
    undo, before = ExitStack(), processes()

    @cache
    def places() -> Places:
        """Where hooks are placed; created for the first library that has any."""
        from .places import Places

        made = Places()
        undo.callback(made.remove)
        return made

    ov.on_source.append(_go_over)
    waits: dict[str, Callable[[Any], object]] = {
        "torch": partial(_torch, ov, places),
        "tqdm.std": partial(_tqdm, ov, places),
        "torch.utils.data.dataloader": partial(_place, places, "loaders"),
        "torch._dynamo": partial(_place, places, "graphs"),
        "torch._dynamo.callback": partial(_place, places, "compilations"),
        "torch.distributed.distributed_c10d": partial(_place, places, "collectives"),
        **{name: lambda module: place_other(places(), module) for name in FRAMEWORKS},
        **{name: partial(_pickler, ov, places) for name in PICKLERS},
    }
    watches = [on_import(name, place) for name, place in waits.items()]
    try:
        yield ov.phases.run_script(priority=60)  # Before the steps are summed up.
    finally:
        for watch in watches:
            watch.dispose()
        undo.close()
    started = processes() - before
    fold = ov.measured.fold if ov.measured is not None else None
    if started and fold is not None and not fold.tasks:  # None: it has not imported PyTorch.
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
    wrap_loops(tree, table.add(k.LOOP, "for"))


def _torch(ov: Overseer, placed: Callable[[], Places], torch: Any) -> None:
    if not all(hasattr(torch, part) for part in PARTS):
        return  # Something else of that name.
    from .hooks import pytorch

    begun, places = ov.clock.cpu_ns(), placed()
    why = pytorch.models(places, torch)
    if why:
        ov.report(Problem("late-hooks", "auto", f"calls of models are not seen: {why}"))
    pytorch.gradients(places, torch)
    pytorch.optimizers(places, sys.modules["torch.optim.optimizer"])
    ov.measuring.begin()
    if ov.recording is not None:
        ov.recording.prepare(True)  # An import in a step might set off a garbage collection there.
    ov.charge(ov.clock.cpu_ns() - begun)


def _place(placed: Callable[[], Places], hooks: str, module: Any) -> None:
    """Place hooks in a part of PyTorch's."""
    from .hooks import pytorch

    getattr(pytorch, hooks)(placed(), module)


def place_other(places: Places, module: Any) -> None:
    """Record the methods of a framework that are in :data:`FRAMEWORKS`, if the module has them."""
    keras = sys.modules.get("keras.src.backend.config")
    if module.__name__.startswith("keras.") and (keras is None or keras.backend() != "torch"):
        return  # With other backends, what is called there is traced and compiled.
    for name, method, kind, read in FRAMEWORKS[module.__name__]:
        if hasattr(module, name):
            places.around(getattr(module, name), method, kind, read, 0)


def _pickler(ov: Overseer, placed: Callable[[], Places], module: Any) -> None:
    """Have functions sent to other processes without what was inserted into them."""
    from types import CodeType

    from overseer.probes.travel import reducer

    table = getattr(getattr(module, "Pickler", None), "_dispatch_table", {})
    if (reduce := table.get(CodeType)) is not None:
        placed().keep(partial(table.__setitem__, CodeType, reduce))
        table[CodeType] = reducer(reduce, lambda: ov.program.plain if ov.program else None)


def _tqdm(ov: Overseer, placed: Callable[[], Places], std: Any) -> None:
    from .hooks import progress

    progress.place(ov, placed(), std)


# What a loop of the script waits for is loading, if its body learns


def wrap_loops(tree: ast.Module, site: int) -> None:
    """Have the waits of loops whose body learns recorded.

    A body learns that calls ``.backward(`` or ``.step(``, itself or in a function of the same file.
    The tree is changed in place; without such a loop it stays as it is.

    Args:
        tree: A module.
        site: The number of the site.
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
            # Not imported for a script that does not learn.
            from overseer.probes.names import COMPILING, put

            name = name or put("loop", partial(recorder.loop, site))  # Dynamo never sees it.
            # The position at which a loop asks for its iterator: tracebacks are as before.
            there = {one: getattr(node, one) for one in node._attributes}
            compiling = ast.Call(_name(COMPILING, there), [], [], **there)
            names = (_name("iter", there), _name(name, there))
            node.iter = ast.Call(ast.IfExp(compiling, *names, **there), [node.iter], [], **there)


def _name(name: str, there: dict[str, int]) -> ast.Name:
    return ast.Name(name, ast.Load(), **there)


def _called(node: Any) -> set[Any]:
    """The names of what is called in the body of a node."""
    calls = (one for one in _walk(node.body) if isinstance(one, ast.Call))
    return {getattr(one.func, "attr", getattr(one.func, "id", None)) for one in calls}


def _walk(nodes: list[Any]) -> Iterator[Any]:
    """These nodes and all below them."""
    nodes = list(nodes)
    while nodes:
        node = nodes.pop()
        yield node
        for name in node._fields:
            value = getattr(node, name, None)
            for one in value if isinstance(value, list) else (value,):
                if isinstance(one, ast.AST):
                    nodes.append(one)
