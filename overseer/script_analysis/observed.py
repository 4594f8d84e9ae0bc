"""Writes the lines of a voirfile from what the hooks recorded in a run."""

from __future__ import annotations

import ast
from contextlib import suppress
from functools import cache
from typing import NamedTuple

from ..errors import VoirError
from .loop import Frame, Turns, function_at, given, named, progress, taken, turns_of
from .marks import loss_at, mark
from .script import open_source

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from typing import Any

    from ..probes.scopes import Scope
    from .script import ModuleSource

    Stack = list[Frame]
    Sites = dict[str, list[tuple[Stack, int]]]

#: Figures of training that are listed as unknown if the hooks did not find them.
REPORTED_PARTS = ("items", "loss", "loading")
PAUSE_PAIR = "(!#enter as pause, !!#exit as resumed)"
LOADING_PAIR = "(!#enter as loading, !!#exit as loaded)"


class Line(NamedTuple):
    """A line of a voirfile.

    Attributes:
        role: ``step``, ``loss``, ``loading``, ``pause`` or ``progress``; or ``step loss``.
        code: The code.
        comment: Explanation shown above it.
        live: The hooks do not see this, so the line is not commented out.
    """

    role: str
    code: str
    comment: str
    live: bool = False


class Findings(NamedTuple):
    """Result of analysing a script.

    Attributes:
        notes: Sentences about the script.
        lines: Lines of its voirfile.
    """

    notes: list[str]
    lines: list[Line]


class Seen:
    """Observed calls and their stacks.

    Args:
        sites: By kind (``step``, ``backward``, ``learn``, ``look``): stacks, innermost frame first,
            and the number of steps in which each ran.
        tasks: The run's ``tasks``; empty if the script was not run.
    """

    def __init__(self, sites: Sites, tasks: Mapping[str, Any]) -> None:
        self._sites, self.tasks = sites, tasks
        self.notes: list[str] = []
        self.train: Mapping[str, Any] = tasks.get("train") or {}
        learning = [s for kind in ("step", "backward", "learn") for s in self.stacks(kind)]
        self.trains = {id(frame.scope) for stack in learning for frame in stack}

    def stacks(self, kind: str) -> list[Stack]:
        """Stacks of this kind."""
        return [stack for stack, _ in self._sites.get(kind, ())]

    def findings(self, *notes: str) -> Findings:
        """Compose the voirfile's lines and notes; ``notes`` come first."""
        loops = self._loops()
        found = [line for loop, stack in loops for line in self._steps(loop, stack)]
        if "loading" not in self.train:
            found += [line for loop, _ in loops for line in loading(loop, self._learns)]
        found += [line for loop, stack in loops for line in self._progress(loop, stack)]
        found += self._pauses()
        return Findings([*notes, *self.notes], [*{line.code: line for line in found}.values()])

    def _learns(self, scope: Scope) -> bool:
        """True for functions in which training ran, and for methods of models."""
        beside = scope.outer.inner if scope.outer is not None else []
        return id(scope) in self.trains or any(one.path[-1] == "forward" for one in beside)

    def _loops(self) -> list[tuple[Turns, Stack]]:
        """Outermost loops whose iterations are steps, with the stacks of their steps."""
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
        inside = [one for one in self.stacks("backward") if any(map(loop.has, one))]
        first = inside[0] if inside else []
        own = next((turns_of([frame]) for frame in first if loop.has(frame)), None)
        found = mark(loop, stack[: next(n for n, one in enumerate(stack, 1) if loop.has(one))])
        here = found is not None and found.frame.scope is loop.frame.scope
        whole = found is not None and found.whole and (own is None or own.node is loop.node)
        batch = loop.batch if whole and here else None
        # Without the batch, a variable of each iteration may be bound before the model is called.
        if found is None or not (batch or found.name.startswith("#") or not found.whole):
            what = f"No probe counts the steps at {stack[0].place} exactly"
            self.notes.append(f"{what}: leave them to voir.")
            return
        loss = loss_at(first[0]) if len(inside) == 1 and whole else None
        along = loss if loss and first[0].scope is found.frame.scope else None
        what = found.what(loop)
        if batch is not None and self.train and "items" not in self.train:
            what += " voir does not see the items of its batch."
        yield Line("step loss" if along else "step", found.step(batch, along), what)
        if loss and not along:
            code = given(f"{first[0].selector} > {named(loss, 'loss')}")
            yield Line("loss", code, f"backward() is called on it at {first[0].place}.")

    def _progress(self, loop: Turns, stack: Stack) -> Iterator[Line]:
        """Line that gives finished epochs and their total, if there is training."""
        epochs = progress(stack, loop) if self.train else None
        if epochs is not None:
            where, code = epochs
            what = f"Each turn of the loop at {where} counts as an epoch."
            yield Line("progress", code, what, live="steps" in self.train)

    def _pauses(self) -> Iterator[Line]:
        """Lines for functions that only evaluate models, once every few steps."""
        steps = self.train.get("steps", 0)
        for stack, seen in self._sites.get("look", ()):
            functions = [f for f in stack if f.scope.is_function and not self._learns(f.scope)]
            if not functions or not steps or seen > max(1, steps // 2):
                continue
            frame = functions[-1]
            code = given(f"{frame.selector}{PAUSE_PAIR}")
            what = f"{frame.scope.path[-1]}() evaluates: the time in it is a pause."
            yield Line("pause", code, what, live="eval" not in self.tasks)


def observe(seen: Mapping[str, Any]) -> Findings:
    """Write a voirfile's lines for a script that was run under :mod:`instruments.observe`.

    Args:
        seen: The run's ``tasks``, and its ``sites``, each with a stack of frames.
    """

    @cache
    def known(path: str, module: str) -> ModuleSource | None:
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
        parts = [part for part in REPORTED_PARTS if part in train]
        notes.append(f"voir sees its {_listed(['steps', *parts])} without a voirfile.")
        unknown = [part for part in REPORTED_PARTS if part not in train]
        if unknown:
            notes.append(f"Not known: {_listed(unknown)}.")
    if others:
        notes.append(f"{'It also' if notes else 'voir'} sees passes of {_listed(others)}.")
    return Seen(sites, tasks).findings(*notes)


def loading(loop: Turns, learns: Callable[[Scope], bool]) -> Iterator[Line]:
    """Lines for functions that return a loop's batches, without those that train."""
    for name, value in taken(loop.node):
        found = function_at(loop.frame, value) if name == loop.batch else None
        if found is not None and not learns(found):
            code = given(f"{loop.frame.source.selector(found)}{LOADING_PAIR}")
            what = f"{found.path[-1]}() gives the batches: the time in it is loading."
            yield Line("loading", code, what, live=True)


def _listed(names: Sequence[str]) -> str:
    return " and ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)
