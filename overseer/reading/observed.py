"""Writes the lines of a voirfile from what the hooks recorded."""

from __future__ import annotations

import ast
from contextlib import suppress
from functools import cache
from typing import NamedTuple

from ..errors import VoirError
from ..probes.scopes import bindings
from .loop import (
    Frame,
    Turns,
    called,
    calls_at,
    conditional,
    given,
    losing,
    loss_at,
    named,
    names_in,
    progress,
    turns_of,
)  # fmt: skip
from .script import open_source

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Any

    from ..probes.scopes import Scope
    from .script import Source

    Stack = list[Frame]
    Sites = dict[str, list[tuple[Stack, int]]]

#: The parts of a training that are told by name where they are not known.
PARTS = ("items", "loss", "loading")
PAUSE = "(!#enter as pause, !!#exit as resumed)"
LOADING = "(!#enter as loading, !!#exit as loaded)"


class Line(NamedTuple):
    """A line of a voirfile.

    Attributes:
        role: ``step``, ``loss``, ``loading`` or ``pause``; of a line for two of them, both.
        code: The line.
        comment: What it is, for a person.
        live: Whether voir does not see it by itself.
    """

    role: str
    code: str
    comment: str
    live: bool = False


class Findings(NamedTuple):
    """What is known of a script.

    Attributes:
        notes: What to say of it, a sentence each.
        lines: Of a voirfile.
    """

    notes: list[str]
    lines: list[Line]


class Seen:
    """What ran where.

    Args:
        sites: By kind (``step``, ``backward``, ``learn``, ``look``): stacks, innermost frame first,
            and in how many steps each ran.
        tasks: The ``tasks`` of the run; empty where nothing ran.
    """

    def __init__(self, sites: Sites, tasks: Mapping[str, Any]) -> None:
        self._sites, self.tasks = sites, tasks
        self.notes: list[str] = []
        self.train: Mapping[str, Any] = tasks.get("train") or {}
        learning = [s for kind in ("step", "backward", "learn") for s in self.stacks(kind)]
        self.trains = {id(frame.scope) for stack in learning for frame in stack}

    def stacks(self, kind: str) -> list[Stack]:
        """Where this happened."""
        return [stack for stack, _ in self._sites.get(kind, ())]

    def findings(self, *notes: str) -> Findings:
        """What to write for what was seen, and what to say besides ``notes``."""
        loops = self._loops()
        found = [line for loop, stack in loops for line in self._steps(loop, stack)]
        found += [line for loop, _ in loops for line in self._loading(loop)]
        found += [line for loop, stack in loops for line in self._progress(loop, stack)]
        found += self._pauses()
        return Findings([*notes, *self.notes], [*{line.code: line for line in found}.values()])

    def _learns(self, scope: Scope) -> bool:
        """Whether a function is part of what learns: a training ran in it, or it is a model's."""
        beside = scope.outer.inner if scope.outer is not None else []
        return id(scope) in self.trains or any(one.path[-1] == "forward" for one in beside)

    def _loops(self) -> list[tuple[Turns, Stack]]:
        """The loops whose turns are steps, without those within others; and where they step."""
        backwards = self.stacks("backward")
        found: dict[int, tuple[Turns, Stack]] = {}
        for stack in self.stacks("step") or backwards or self.stacks("learn"):
            loop = turns_of(stack, backwards)
            if loop is not None:
                found.setdefault(id(loop.node), (loop, stack))
        nodes = [loop.node for loop, _ in found.values()]
        within = {id(one) for node in nodes for part in node.body for one in ast.walk(part)}
        return [one for key, one in found.items() if key not in within]

    def _steps(self, loop: Turns, stack: Stack) -> Iterator[Line]:
        step = next(filter(loop.has, stack))
        inside = [stack for stack in self.stacks("backward") if any(map(loop.has, stack))]
        first = inside[0] if inside else []
        own = next((turns_of([frame]) for frame in first if loop.has(frame)), None)
        if conditional(loop, step, [next(filter(loop.has, stack)) for stack in inside]):
            where = loop.frame.source.place(loop.node.lineno)
            self.notes.append(f"Turns of the loop at {where} add up: leave their steps to voir.")
            return
        adds_up = own is not None and own.node is not loop.node
        loss = loss_at(first[0]) if first else None
        alone = loss if len(inside) == 1 and not adds_up else None
        here = alone if first and first[0].scope is loop.frame.scope else None
        plain = loop._replace(batch=None) if adds_up else loop
        batch = None if adds_up else self._batch(loop)
        code = plain.step(batch, here)
        where = loop.frame.source.place(loop.node.lineno)
        if code is not None:
            role = "step loss" if here else "step"
            sizes = batch is not None and "items" not in self.train
            also = "; voir does not see the items of its batch" if sizes else ""
            yield Line(role, code, f"Each turn of the loop at {where} is a step{also}.")
        for stack in inside:
            name, at = loss_at(stack[0]), stack[0]
            if name is None or name == here or (name == "loss" and alone is None):
                continue
            if sum(name in bindings(node) for node in at.scope.own) == 1:
                what = f"backward() is called on it at {at.source.place(at.line)}."
                focus = named(name, "loss") if alone else name
                code = given(f"{at.source.selector(at.scope)} > {focus}")
                yield Line("loss" if alone else "value", code, what)

    def _batch(self, loop: Turns) -> str | None:
        """The variable with the batch: the loop's, else what the model is called on, if needed."""
        if loop.batch is not None or "items" in self.train:
            return loop.batch
        return next((name for name, _ in self._arguments(loop)), None)

    def _arguments(self, loop: Turns) -> Iterator[tuple[str, Any]]:
        """Variables bound in the loop that models learn from, and where they are bound.

        They are the first argument of the model, or any of a function that calls it.
        """
        for stack in self.stacks("learn"):
            frame = next(filter(loop.has, stack), None)
            for call in calls_at(frame) if frame is not None else ():
                passed = [*call.args, *(word.value for word in call.keywords)]
                for name in names_in(*(passed[:1] if frame is stack[0] else passed)):
                    for node in ast.walk(loop.node):
                        if isinstance(node, ast.Assign) and name in bindings(node):
                            yield name, node

    def _loading(self, loop: Turns) -> Iterator[Line]:
        """Functions that give the batches, where no loader was seen."""
        for _, node in self._arguments(loop) if "loading" not in self.train else ():
            found = _function(loop.frame, node.value)
            if found is not None and not self._learns(found):
                code = given(f"{loop.frame.source.selector(found)}{LOADING}")
                what = f"{found.path[-1]}() gives the batches: the time in it is loading."
                yield Line("loading", code, what, live=True)

    def _progress(self, loop: Turns, stack: Stack) -> Iterator[Line]:
        """The epochs that are done, of how many, where there is a training."""
        epochs = progress(stack, loop) if self.train else None
        if epochs is not None:
            where, code = epochs
            what = f"Each turn of the loop at {where} counts as an epoch."
            yield Line("progress", code, what, live="steps" in self.train)

    def _pauses(self) -> Iterator[Line]:
        """Functions in which models were only looked at, once every few steps."""
        steps = self.train.get("steps", 0)
        for stack, seen in self._sites.get("look", ()):
            functions = [f for f in stack if f.scope.is_function and not self._learns(f.scope)]
            if not functions or not steps or seen > max(1, steps // 2):
                continue
            frame = functions[-1]
            code = given(f"{frame.source.selector(frame.scope)}{PAUSE}")
            what = f"{frame.scope.path[-1]}() evaluates: the time in it is a pause."
            yield Line("pause", code, what, live="eval" not in self.tasks)


def observe(seen: Mapping[str, Any]) -> Findings:
    """What to write for a script that was run: see :mod:`instruments.observe` for what it noted.

    Args:
        seen: Its ``tasks``, and its ``sites``, each a place with the frames that led there.
    """

    @cache
    def known(path: str, module: str) -> Source | None:
        with suppress(VoirError):
            return open_source(path, module)
        return None

    sites: Sites = {}
    for site in seen["sites"]:
        read = ((known(path, module), line) for module, path, line in site["stack"])
        stack = [Frame(source, source.at(line), line) for source, line in read if source]
        if stack:
            sites.setdefault(site["kind"], []).append((stack, site["steps"]))
    tasks = seen["tasks"]
    train, others = tasks.get("train") or {}, [name for name in tasks if name != "train"]
    notes = []
    if train.get("steps"):
        parts = [part for part in PARTS if part in train]
        notes.append(f"voir sees its {_listed(['steps', *parts])} without a voirfile.")
        unknown = [part for part in PARTS if part not in train]
        if unknown:
            notes.append(f"Not known: {_listed(unknown)}.")
    if others:
        notes.append(f"{'It also' if notes else 'voir'} sees passes of {_listed(others)}.")
    return Seen(sites, tasks).findings(*notes)


def read(sources: Sequence[Source]) -> Findings:
    """What the text alone says: of a training that voir will see, else of a loop with a loss."""
    sites: Sites = {"step": [], "backward": []}
    for source, scope in ((one, scope) for one in sources for scope in one.scopes):
        for call in (node for node in scope.own if isinstance(node, ast.Call)):
            schedules = any("sched" in name.lower() for name in names_in(call.func))
            if isinstance(call.func, ast.Attribute) and not schedules and called(call) in sites:
                sites[called(call)].append(([Frame(source, scope, call.lineno)], 0))
    if sites["backward"]:
        note = "It calls backward(): where that runs, voir sees steps without a voirfile."
        return Seen(sites, {"train": {"items": None}}).findings(note)
    loops = losing(sources)
    if len({id(loop.frame.scope) for loop, _ in loops}) != 1 or len(loops) > 1:
        return Findings([], [])
    loop, loss = loops[0]
    code = loop.step(None, loss)
    where = loop.frame.source.place(loop.node.lineno)
    what = f"Each turn of the loop at {where} is a step, with {loss}."
    return Findings([], [Line("step loss", code, what, live=True)] if code is not None else [])


def _listed(names: Sequence[str]) -> str:
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)


def _function(frame: Frame, call: Any) -> Scope | None:
    """The function of the frame's module that is called."""
    func, path = getattr(call, "func", None), frame.scope.path
    if isinstance(func, ast.Name):
        return frame.source.named(*path, func.id) or frame.source.named(func.id)
    if isinstance(func, ast.Attribute) and isinstance(func.value, ast.Name) and path:
        return frame.source.named(*path[:-1], func.attr) if func.value.id == "self" else None
    return None
