"""From a script's text to what a voirfile for it would say."""

from __future__ import annotations

import ast
import os

from . import roles
from .batch import Batch, asked_for, batch_of, marker_of, once_bound
from .findings import Finding, Missing, Reading
from .loop import (
    LOADERS,
    Found,
    Learning,
    find_loop,
    learning,
    loss_name,
    loss_within,
    main_loss,
    rare_step,
)
from .scopes import Function, Loop, Scope, bindings, called, scopes
from .sources import Source, project

_LOOK = {
    "loss": "where there is one: loss = criterion(output, target); loss.backward()",
    "step": "ov.probe('//FUNCTION(BATCH as batch) > #endloop_BATCH as step').give()",
    "loader": "give the DataLoader a name of its own: train_loader = DataLoader(...)",
    "model": "if a variable holds it: ov.probe('{home} > VARIABLE as model').give()",
    "options": "if there are any: ov.probe('{home} > VARIABLE as options').give()",
}
_NO_LOADER = "if there is one, it needs a name: train_loader = DataLoader(...)"
_NO_LOSS = "None is needed: its rate is that of its passes."
#: Where hooks see what has no name.
_BY_ITSELF = {
    "loss": "voir takes it from backward() by itself; or name it: loss = criterion(output, y)",
    "loader": "voir watches it by itself; or name it: train_loader = DataLoader(...)",
}


def read_script(script: Source) -> Reading:
    """Read the script and the modules of its project that it imports."""
    reader = _Reader([scope for source in project(script) for scope in scopes(source)])
    reader.read()
    found = reader.found
    learns = found is None or found.learning[0].kind != "forward"
    return Reading(script.path, reader.findings, reader.missing, reader.notes, learns)


class _Reader:
    """Looks for each role in turn."""

    def __init__(self, every: list[Scope]) -> None:
        self.scopes = every
        self.findings: list[Finding] = []
        self.missing: list[Missing] = []
        self.notes: list[str] = []
        self.found: Found | None = None

    def read(self) -> None:
        """Fill in findings and what is missing."""
        self.found = find_loop(self.scopes)
        framework = roles.uses_framework(self.scopes) if self._in_vain() else None
        if framework is not None:
            self._framework(framework)
        elif self.found is None:
            why = "no loop calls backward, an optimizer's step, or a model"
            self._miss("loss", why)
            self._miss("step", why)
        else:
            self._loss(self.found)
            self._steps(self.found)
            self._others(self.found)
        self._things()

    def _in_vain(self) -> bool:
        return self.found is None or self.found.learning[0].kind == "forward"

    def _add(
        self, role: str, selector: str, comment: str, where: str, code: str | None = None
    ) -> None:
        self.findings.append(Finding(role, selector, comment, where, code))

    def _show(self, role: str, found: roles.Variable, comment: str) -> None:
        """Add a variable, or an attribute, under the name of its role."""
        self._add(role, found.known_as(role), comment, found.where, found.code(role))

    def _miss(self, role: str, why: str, look: str = "") -> None:
        home = "//main" if roles.function_named("main", self.scopes) is not None else "//"
        self.missing.append(Missing(role, why, (look or _LOOK[role]).replace("{home}", home)))

    # The loop

    def _loss(self, found: Found) -> None:
        places = [place for place in found.learning if place.kind in ("backward", "update")]
        named = [(place, name) for place in places if (name := loss_name(place))]
        if not named:
            if not any(self._held(place, found) for place in places):
                forward = found.learning[0].kind == "forward"
                look = _BY_ITSELF["loss"] if places else _NO_LOSS if forward else ""
                self._miss("loss", self._why_no_loss(found), look)
            return
        home = named[0][0].scope
        names = list(dict.fromkeys(name for place, name in named if place.scope is home))
        main = main_loss(names)
        for name in sorted(names, key=lambda name: name != main):
            shown = roles.variable(home, name)
            if shown is None:
                continue
            if name != main:
                self._add("other loss", shown.selector, f"Another loss: {name}.", shown.where)
            elif self._often(shown, found) and self._at_the_end(shown, found):
                continue  # It comes with the step.
            else:
                said = f"The loss: each value of {name} in {shown.scope.said}."
                self._add("loss", shown.known_as("loss"), said, shown.where)

    def _held(self, place: Learning, found: Found) -> bool:
        """The loss is a part of what a variable holds; whether it could be shown."""
        held = loss_within(place)
        marker = marker_of(place.scope, place.loops[-1]) if place.loops else None
        if held is None or (place.loops and marker is None):
            return False
        end = f"#endloop_{marker}" if marker else "#exit"
        selector = f"{place.scope.reference}({held.name}) > {end}"
        code = roles.subscription(selector, "loss", f'event["{held.name}"]{held.path}')
        said = f"The loss: {held.name}{held.path} as it is at the end of each iteration."
        self._add("loss", selector, said, place.scope.where(place.call), code)
        return True

    def _why_no_loss(self, found: Found) -> str:
        if found.learning[0].kind == "forward":
            return "the script learns nothing: backward is never called"
        places = [place for place in found.learning if place.kind == "backward"]
        if places:
            written = ast.unparse(places[0].call)[:60]
            return f"{written} ({_short(places[0].scope.where(places[0].call))}) names no variable"
        return "backward is never called in the script's own text"

    def _often(self, loss: roles.Variable, found: Found) -> bool:
        """Whether the loss gets its value in several statements of one iteration."""
        loop = found.micro or found.loop
        times = [
            seen
            for seen in loss.scope.seen
            if loop in seen.loops and loss.name in bindings(seen.node)
        ]
        return loss.scope is found.scope and len(times) > 1

    def _at_the_end(self, loss: roles.Variable, found: Found) -> bool:
        """Give the loss as it is when an iteration ends; whether that is possible."""
        loop = found.micro or found.loop
        marker = marker_of(found.scope, loop)
        if marker is None:
            return False
        as_loss = loss.name if loss.name == "loss" else f"{loss.name} as loss"
        selector = f"{loss.scope.reference}({as_loss}) > #endloop_{marker}"
        said = f"The loss: {loss.name} as it is at the end of each iteration."
        self._add("loss", selector, said, loss.where)
        return True

    def _steps(self, found: Found) -> None:
        scope, loop = found.scope, found.loop
        now_and_then = rare_step(found)
        if now_and_then is not None:
            self.notes.append(
                f"Not each iteration is a step ({_short(scope.where(now_and_then))}): voir counts "
                "the optimizer's by itself, and adds up the items of each."
            )
            return
        batch = batch_of(scope, loop)
        if found.micro is not None and not batch.iterates:
            self._accumulation(found, batch)
            return
        self._step(scope, batch, loop, "At the end of each iteration: a step, and its batch.")
        if batch.iterates:
            self._pair(scope, batch, loop)
        else:
            self._drawn(scope, batch, loop)

    def _others(self, found: Found) -> None:
        """Say that another loop learns, too."""
        for place in found.learning:
            if place.kind == "step" and place.loops and found.loop not in place.loops:
                where = _short(place.scope.where(place.loops[-1]))
                told = f"Another loop learns, too ({where}): its steps need a probe of their own."
                self.notes.append(told)
                return

    def _step(self, scope: Scope, batch: Batch, loop: Loop, comment: str) -> None:
        captured = f"({_as_batch(batch.name)})" if batch.name else ""
        where = scope.where(loop)
        if batch.name is None:
            self.notes.append(
                f"No variable holds the batch at {_short(where)}: without it, steps have no items."
            )
        if batch.marker is not None:
            selector = f"{scope.reference}{captured} > #endloop_{batch.marker} as step"
            self._add("step", selector, comment, where)
            return
        name = once_bound(scope, loop)
        if name is None:
            self._miss("step", f"other loops have the same variables as that at {_short(where)}")
            return
        told = f"Another loop has the same variables, so each value of {name} is a step."
        self._add("step", f"{scope.reference}{captured} > {name} as step", told, where)

    def _pair(self, scope: Scope, batch: Batch, loop: ast.AST) -> None:
        if batch.marker is None:
            return
        captured = f"{_as_batch(batch.name)}, " if batch.name else ""
        m = batch.marker
        selector = (
            f"{scope.reference}({captured}"
            f"!#loop_{m} as compute_start, !!#endloop_{m} as compute_end)"
        )
        said = "The start and the end of the work on each batch; what lies between is loading."
        self._add("pair", selector, said, scope.where(loop))

    def _drawn(self, scope: Scope, batch: Batch, loop: Loop) -> None:
        """Batches are drawn within an iteration: by a function, from a loader, from memory.

        A pair around one that asks an iterator would call the wait for it compute.
        """
        function = self._drawing(scope, batch)
        if function is not None:
            self._loading(function)
        elif batch.node is not loop and called(batch.source or loop) == "next":
            return
        elif asked := asked_for(scope, loop):
            if not self._loaders(scope, loop, batch.source, []):
                self.notes.append(
                    "Loading is not known unless voir sees it by itself: a pair around "
                    f"{ast.unparse(asked[0])[:50]} ({_short(scope.where(asked[0]))}) would take "
                    "the wait for compute."
                )
        elif roles.loader_of(scope, batch.source, []) is None:
            self._pair(scope, batch._replace(name=None), loop)

    def _drawing(self, scope: Scope, batch: Batch) -> Scope | None:
        """The script's own function that gives a batch."""
        name = called(batch.source) if batch.source is not None else ""
        return roles.function_named(name, self.scopes) if name and name != "next" else None

    def _loading(self, function: Scope) -> None:
        selector = f"{function.reference}(!#enter as loading, !!#exit as loaded)"
        said = f"Loading is what {function.said} takes."
        self._add("pair", selector, said, function.where(function.node))

    def _accumulation(self, found: Found, outer: Batch) -> None:
        """A step is made of several batches: a pair around them, and each batch within."""
        assert found.micro is not None
        scope, inner = found.scope, batch_of(found.scope, found.micro)
        if inner.name is None:
            inner = inner._replace(name=outer.name, source=outer.source)
        said = "Each part of a step, and its batch; their items are added up."
        self._step(scope, inner, found.micro, said)
        if outer.marker is not None:
            m = outer.marker
            selector = (
                f"{scope.reference}(!#loop_{m} as compute_start, !!#endloop_{m} as compute_end)"
            )
            self._add("pair", selector, "A step: all of its parts.", scope.where(found.loop))
        function = self._drawing(scope, inner)
        if function is not None:
            self._loading(function)

    # A trainer's loop

    def _framework(self, call: str) -> None:
        self.notes.append(
            f"The loop is in the trainer's own code ({call}): voir sees its steps by itself."
        )
        for scope in self.scopes:
            if isinstance(scope.node, Function) and scope.path[-1] == "training_step":
                names = [n for n in scope.bound if "loss" in n.lower()]
                for name in names[:1]:
                    shown = roles.Variable(scope, name, scope.bound[name])
                    said = f"The loss: each value of {name} in {scope.said}."
                    self._add("loss", shown.known_as("loss"), said, shown.where)

    # Everything else

    def _things(self) -> None:
        self._loader()
        found = self.found
        scope = found.scope if found is not None else self.scopes[0]
        model = roles.model_of(scope, self.scopes)
        if model is not None:
            self._show("model", model, "What is trained.")
        else:
            self._miss("model", "no optimizer is made for the parameters of a variable")
        self._options()
        self._cuda()
        for each in roles.pausing(self.scopes, scope) if found is not None else ():
            said = f"{each.said} is no part of a step."
            selector = f"{each.reference}(!#enter as pause, !!#exit as resumed)"
            self._add("pause", selector, said, each.where(each.node))

    def _options(self) -> None:
        said = "What the script was asked to do."
        options = roles.options_of(self.scopes)
        command = roles.command_of(self.scopes)
        if options is not None:
            self._show("options", options, said)
            self.findings[-1] = self.findings[-1]._replace(early=roles.is_early(options))
        elif command is not None:
            names = command.parameters[: roles.OPTIONS]
            selector = f"{command.reference}({', '.join(names)}) > #enter"
            code = roles.subscription(selector, "options", "event")
            self._add("options", selector, said, command.where(command.node), code)
        else:
            self._miss("options", "no call of parse_args, and no variable that sounds like options")

    def _loader(self) -> None:
        found = self.found
        if found is None:
            scope, source = self.scopes[0], None
            loaders = self._loaders(scope, None, source, self.scopes)
        else:
            scope = found.scope
            loop = found.micro if found.micro is not None else found.loop
            source = batch_of(scope, loop).source or batch_of(scope, found.loop).source
            loaders = self._loaders(scope, loop, source, self.scopes)
        for loader in loaders:
            self._show("loader", loader, "What it is fed with.")
        if loaders:
            return
        if called(source or scope.node) in LOADERS:
            why = f"{called(source or scope.node)}(...) has no name of its own"
            self._miss("loader", why, _BY_ITSELF["loader"])
        elif source is not None and isinstance(source, ast.Call):
            look = "" if roles.makes_loader(self.scopes) else _NO_LOADER
            self._miss("loader", f"batches come from {ast.unparse(source)[:50]}", look)
        else:
            why = "no loop goes over a variable, and no DataLoader is made"
            self._miss("loader", why, _NO_LOADER)

    def _loaders(
        self, scope: Scope, loop: Loop | None, source: ast.expr | None, others: list[Scope]
    ) -> list[roles.Variable]:
        """The variables that hold loaders; failing that, one that is made in ``others``.

        Several where an iteration asks each for its part and no variable holds what they give;
        none where one of these is unknown, for loading would be too short.
        """
        if loop is not None and source is not None:
            asked, batch = asked_for(scope, loop), batch_of(scope, loop)
            if len(asked) > 1 and not batch.iterates and batch.node is loop:
                every = [roles.loader_of(scope, each, []) for each in asked]
                return [] if None in every else [v for v in dict.fromkeys(every) if v is not None]
        loader = roles.loader_of(scope, source, others)
        return [loader] if loader is not None else []

    def _cuda(self) -> None:
        found = roles.cuda_of(self.scopes)
        if found is None:
            return
        if found.name == "use_cuda":
            self._add("use_cuda", found.selector, "Whether a GPU is to be used.", found.where)
            return
        code = roles.subscription(found.selector, "use_cuda", '"cuda" in str(event["device"])')
        said = "Which device is to be used."
        self._add("use_cuda", found.selector, said, found.where, code)
        self.findings[-1] = self.findings[-1]._replace(early=roles.is_early(found))


def _as_batch(name: str) -> str:
    return name if name == "batch" else f"{name} as batch"


def _short(where: str) -> str:
    """A place by the name of its file alone."""
    return os.path.basename(where)


__all__ = ["learning", "read_script"]
