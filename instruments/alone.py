"""Steps where nobody tells of any: each batch of a loader, and the work on it, is one."""

from __future__ import annotations

import re
from _thread import get_ident
from collections.abc import Callable, Hashable
from itertools import count
from typing import TYPE_CHECKING, Any

from overseer import Overseer
from overseer.errors import VoirError
from overseer.measure.hearing import TASK
from overseer.measure.steps import STEP_PAIRS

from .loader import Loaders

if TYPE_CHECKING:
    from overseer.engine.bus import Subscription
    from overseer.measure.counts import Counts

#: What steps are told to hold where nothing says otherwise.
ITEMS = "items"
#: Threads that are told apart, and loaders that give batches for one step.
THREADS, LOADERS = 64, 16
#: What is called to make an optimizer.
_OPTIMIZER = re.compile(r"(?i:optim)|^(SGD|RMSprop|Rprop|LBFGS|Lion|Muon|\w*Ada\w*)$")


class Alone:
    """Tells of steps by a loader alone, until anybody else tells of one.

    A step ends when the script asks for the next batch. Whoever else may tell of steps goes first:
    probes for them, and PyTorch's hooks wherever the script's text shows that it learns.

    Args:
        ov: The run.
        loaders: Tells of waits.
        counts: Counts the items of a batch, once.
        every: All loaders count; else those that are given.
        works: Whether PyTorch's hooks have seen a model at work; None: there are no such hooks.

    Attributes:
        unfinished: Tells whether a step ends only because a stop passes; None: there is no stop.
    """

    def __init__(
        self,
        ov: Overseer,
        loaders: Loaders,
        counts: Counts,
        every: bool,
        works: Callable[[], Callable[[], bool] | None],
    ) -> None:
        self._ov, self._loaders, self._counts = ov, loaders, counts
        self._every, self._works = every, works
        self._learns: bool | None = None
        self._idle: bool | None = None
        self._listening: list[Subscription] = []
        self._works_on: dict[int, dict[Hashable, int | None]] = {}
        self._numbers = count(1)
        self._giving: set[int] = set()
        self._begun = self._over = False
        self.unfinished: Callable[[], bool] | None = None

    def begin(self) -> None:
        """There is a loader whose batches may be steps."""
        if self._begun or self._over:
            return
        self._begun = True
        if any(map(self._ov.shows, STEP_PAIRS)):  # One of them is the step itself.
            self._over = True
            return
        for key in ("step", "$wrap"):
            self._listening.append(self._ov.listen(self._told, key))
        self._loaders.listen(self._asked, _ignore, self._came)

    def close(self) -> None:
        """The script has ended, and so has the step it was in, unless by a stop."""
        if self.unfinished is not None:
            return
        for items in self._works_on.values():
            for each in list(items.values())[:1]:
                self._give(each)

    def only_given(self) -> None:
        """Somebody tells what loops there are, and whether their turns are steps."""
        self._every = False

    def end(self) -> None:
        """Tell of no more steps: somebody else does."""
        self._over = True
        self._works_on.clear()
        for each in self._listening:
            each.dispose()
        self._listening.clear()
        self._loaders.listen_no_more(self._asked, _ignore, self._came)

    def _told(self, event: dict[str, Any]) -> None:
        """Somebody tells of steps."""
        if get_ident() in self._giving:
            return
        if "step" in event or event["$wrap"].get("name") in STEP_PAIRS:
            self.end()

    def _give(self, items: int | None) -> None:
        """Tell of a step."""
        event: dict[str, Any] = {"step": next(self._numbers)}
        if items is not None:
            event["batch_size"] = items
            if (units := self._counts.units(TASK)) != ITEMS:
                event["units"] = units
        ident = get_ident()
        self._giving.add(ident)
        try:
            self._ov.publish(**event)
        finally:
            self._giving.discard(ident)

    def _asked(self, source: Hashable) -> None:
        thread = get_ident()
        if self._over:
            return
        items = self._works_on.get(thread, {})
        if source not in items or (self.unfinished is not None and self.unfinished()):
            return
        if self._others_may(source):
            self._loaders.passed_over |= source in self._loaders.given
            self.end()
            return
        learned = items[source]
        # Those that came by zip; one that came before has its own turn yet, around this one.
        for each in list(items)[list(items).index(source) :]:
            del items[each]
        self._give(learned)

    def _came(self, source: Hashable, batch: Any) -> None:
        thread = get_ident()
        if self._over:
            return
        if (self._every or source in self._loaders.given) and len(self._works_on) < THREADS:
            items = self._works_on.setdefault(thread, {})
            if len(items) < LOADERS:
                items[source] = self._counts({"batch": batch}, TASK)

    def _others_may(self, source: Hashable) -> bool:
        """Whether PyTorch's hooks may yet tell of steps.

        An optimizer that is made and not used leaves a loader that is given its steps.
        """
        works = self._works()
        if works is None:
            return False
        if self._learns is None:
            self._learns = _learns(self._ov)
        if self._learns or source not in self._loaders.given:
            return self._learns or works()
        if not works() or self._loaders.feeds.at_work:
            return works()
        if self._idle is None:
            self._idle = _idle(self._ov)
        return not self._idle


def _ignore(source: Hashable, exhausted: bool) -> None:
    """Nothing is to be done."""


def _learns(ov: Overseer) -> bool:
    """Whether the script's text shows that it learns, by PyTorch's means."""
    from overseer.reading import learns

    try:
        return ov.program is None or ov.program.file is None or learns(ov.program.file)
    except (VoirError, RecursionError):
        return True


def _idle(ov: Overseer) -> bool:
    """Whether the optimizers that the script's text makes are never used: no name of theirs is."""
    import ast

    from overseer.reading.scopes import called
    from overseer.reading.sources import open_script, project

    if ov.program is None or ov.program.file is None:
        return False
    try:
        trees = [source.tree for source in project(open_script(ov.program.file))]
    except (VoirError, RecursionError):
        return False
    used: set[str] = set()
    made: set[ast.AST] = set()
    named: list[tuple[ast.Call, str]] = []
    for node in (node for tree in trees for node in ast.walk(tree)):
        match node:
            case ast.Name(id=name, ctx=ast.Load()) | ast.Attribute(attr=name) | ast.alias(name):
                used.add(name)
            case ast.Call() if _OPTIMIZER.search(called(node)):
                made.add(node)
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call() as call):
                named.append((call, name))
    return bool(made) and made <= {call for call, name in named if name not in used}
