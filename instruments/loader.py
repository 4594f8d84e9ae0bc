"""Watches loaders from within: probes in their own code say when the script waits for a batch.

The loader, its iterator and its batches stay the very objects the script made: nothing is wrapped,
so ``isinstance``, pickling, the order of random numbers and tracebacks are as without voir, and
the probes are gone when the run is over.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from types import FunctionType, GeneratorType
from typing import TYPE_CHECKING, Any
from weakref import ref

from overseer import Overseer
from overseer.errors import Problem
from overseer.imports import Watch, on_import
from overseer.measure.audience import Audience

from .feeds import EXPRESSION, Feeds, Markers, Watched, is_torchs, yielding
from .feeds import TORCH as TORCH
from .leaving import Leaving

if TYPE_CHECKING:
    from overseer.measure.steps import StepModel
    from overseer.measure.waiting import Lull, Waits

#: The class whose ``__next__`` gives a DataLoader's batches; the second before PyTorch 1.2.
ITERATORS = ("_BaseDataLoaderIter", "_DataLoaderIter")
#: The class of those with workers, and what ends these.
WORKED, SHUTS = "_MultiProcessingDataLoaderIter", "_shutdown_workers"
#: How many kinds of loaders are watched; a script that makes up more has them unwatched.
KINDS = 64
#: So many loaders are remembered, to know of one with the name of another that it is another.
NAMES = 1024
#: What a DataLoader reads from.
DATA = "dataset"
#: How the verdict on a probe in a generator ends that has no ``yield`` of its own.
YIELDLESS = "has no yield"
#: What to do where a loader cannot be watched.
REMEDY = "Probe the loop instead: !#loop_X as compute_start, !!#endloop_X as compute_end."
_GENERATOR = 0x20  # inspect.CO_GENERATOR, without importing inspect.


class Loaders:
    """Watches loaders, and tells when one is asked for a batch and when it has answered.

    Args:
        ov: The run.

    Attributes:
        unseen: What kind of loader was given that cannot be watched from within, if one was.
        unheard: One of those may have kept the script waiting.
        told: It has been told that a loader cannot be watched.
        feeds: Watches generators.
        given: Names of the loaders that were given.
        passed_over: Batches of one that was given were no steps, for PyTorch's were to come.
    """

    def __init__(self, ov: Overseer) -> None:
        self._ov = ov
        self.unseen: str | None = None
        self.unheard = self.told = self.passed_over = False
        self._audience = Audience()
        self._waits: list[Waits] = []
        self._seen: set[object] = set()
        self._read: dict[Hashable, tuple[object, ...]] = {}
        self._waiting: Watch | None = None
        self._leaving: Leaving | None = None
        self._selectors: set[str] = set()
        self.feeds = Feeds(ov, self._audience, self._place, self._answers_at)
        self.given = self.feeds.given

    def listen(
        self,
        begins: Callable[[Hashable], object],
        ends: Callable[[Hashable, bool], object],
        batch: Callable[[Hashable, Any], object] | None = None,
    ) -> None:
        """Tell of waits for batches.

        Args:
            begins: Called with a name for the loader when the script begins to wait for it.
            ends: Called with that name, and whether the loader has no more, when the wait is over.
            batch: Called with that name and each batch that has come, after ``ends``.
        """
        self.hear_all()
        self._audience.begins.append(begins)
        self._audience.ends.append(ends)
        if batch is not None:
            self._audience.batches.append(batch)

    def listen_to_waits(
        self,
        waiting: Callable[[Hashable], object],
        waited: Callable[[int, int], object],
        other: Callable[[Hashable], object],
    ) -> None:
        """Tell when waits of what is no loader, but keeps the script's loop waiting, are over.

        Args:
            waiting: Called with a name when one begins; late for the first, of which nobody knows
                what it is for. And with None when a loader begins anew.
            waited: Called with the times at which each began and ended, in nanoseconds.
            other: Called with the name of a loader which is another one from here on.
        """
        self._audience.waiting.append(waiting)
        self._audience.waited_for.append(waited)
        self._audience.others.append(other)

    def listen_no_more(
        self,
        begins: Callable[[Hashable], object],
        ends: Callable[[Hashable, bool], object],
        batch: Callable[[Hashable, Any], object],
    ) -> None:
        """Tell no more of waits."""
        audience = self._audience  # Someone may be going through these lists.
        audience.begins = [each for each in audience.begins if each != begins]
        audience.ends = [each for each in audience.ends if each != ends]
        audience.batches = [each for each in audience.batches if each != batch]

    def measure(self, model: StepModel) -> None:
        """Have the step model note waits; it is told before anybody else."""
        self._audience.model = model

    def expect(self, lull: Lull) -> bool:
        """Tell nobody but the step model of the batches of one loader; whether that can be done.

        That ends when it gives no more, when another loader does, or by :meth:`hear_all`; the
        lull is told when all its batches have come.
        """
        return any(waits.expect(lull) for waits in tuple(self._waits))

    def hear_all(self) -> None:
        """Tell everybody of all batches."""
        for waits in tuple(self._waits):
            waits.slow()

    def watch_torch(self) -> None:
        """Watch every DataLoader, from when the script imports them; imports nothing itself."""
        if self._waiting is None:
            self._waiting = on_import(TORCH.rpartition(".")[0], self._torch_imported)

    def watch(self, loader: object) -> None:
        """Watch ``loader`` and those like it."""
        from overseer.measure.waiting import name_of

        kind = type(loader)
        if isinstance(loader, GeneratorType):
            if not self.feeds.watch(loader):
                self.unseen = "generator"
                self.unheard |= loader.gi_code.co_name == EXPRESSION
            return
        self.feeds.add(name_of(loader))
        if kind in self._seen or len(self._seen) >= KINDS:
            return
        self._seen.add(kind)
        if is_torchs(loader):
            self.watch_torch()
        elif isinstance(own := getattr(kind, "__next__", None), FunctionType):
            if self.feeds.answers(own.__code__):
                return
            self._answers(own)
            if isinstance(begins := getattr(kind, "__iter__", None), FunctionType):
                self._begins(begins)
        elif isinstance(own := getattr(kind, "__iter__", None), FunctionType):
            if not self.feeds.known(own.__code__):
                self._iterates(own)
        else:
            self.unseen = kind.__name__
            # What holds its batches keeps nobody waiting; what makes each when it is asked may.
            self.unheard |= hasattr(kind, "__next__")
            self.unheard |= isinstance(getattr(kind, "__getitem__", None), FunctionType)

    def close(self) -> None:
        """Watch no longer; probes that found no code to be in are told."""
        if self._waiting is not None:
            self._waiting.dispose()
        if self._leaving is not None:
            self._leaving.close()
        told = self._selectors and not self.feeds.in_vain
        for verdict in self._ov.probes.verdicts() if told else ():
            if verdict["state"] != "unresolved" or verdict["selector"] not in self._selectors:
                continue
            # What only hands on another's batches, by ``yield from``, keeps nobody waiting.
            if not (self._audience.heard and verdict["hint"].endswith(YIELDLESS)):
                self._unwatched(verdict["hint"])

    def _torch_imported(self, package: Any) -> None:
        from overseer.measure.waiting import name_of

        for name in ITERATORS:
            kind = getattr(package.dataloader, name, None)
            own = getattr(kind, "__next__", None)
            if isinstance(own, FunctionType):
                self._answers(own)
                begins = getattr(getattr(package.dataloader, "DataLoader", None), "__iter__", None)
                if isinstance(begins, FunctionType):
                    self._leaving = Leaving(self._audience, name_of)
                    self._begins(begins, self._leaving)
                shuts = getattr(getattr(package.dataloader, WORKED, None), SHUTS, None)
                if isinstance(shuts, FunctionType):
                    self._place_in(
                        shuts, {"#enter": self._shuts(False), "#exit": self._shuts(True)}
                    )
                return
        self._unwatched(f"{TORCH} has none of {', '.join(ITERATORS)}")

    def _unwatched(self, why: str) -> None:
        self.told = True
        self._ov.report(Problem("unwatched-loader", "loader", why, remedy=REMEDY))

    def _answers(self, function: FunctionType) -> None:
        """Watch a ``__next__``: it returns a batch, or raises StopIteration."""
        from overseer.measure.waiting import Waits

        held = _holds_batch(function)
        waits = Waits(self._audience, at_exit=held)
        self._waits.append(waits)
        self._place_in(function, {"#enter": waits.ask, "#error as error": waits.error})
        if held:
            self._place_in(function, {"#exit": waits.give}, ", data as batch")
        else:
            self._place_in(function, {"#value as batch": waits.give})

    def _answers_at(self, where: str, anew: str | None) -> None:
        """Watch a ``__next__`` of the script's own, and the ``__iter__`` with it."""
        from overseer.measure.waiting import Waits

        waits = Waits(self._audience)
        self._waits.append(waits)
        self._place(where, {"#enter": waits.ask, "#error as error": waits.error}, {})
        self._place(where, {"#value as batch": waits.give}, {})
        if anew is not None:
            self._place(anew, {"#enter": self._begun}, {})

    def _begins(self, function: FunctionType, leaving: Leaving | None = None) -> None:
        """Watch an ``__iter__``: it begins anew, and its batches may not have been used up."""
        self._place_in(function, {"#enter": self._begun})
        if leaving is not None:
            code, made = function.__code__, leaving.made
            self._place_in(function, {"#value as iterator": lambda e: made(code, e["iterator"])})

    def _shuts(self, over: bool) -> Callable[[dict[str, Any]], object]:
        """What listens to a loader that begins, or is ``over`` with, shutting its workers down."""
        from overseer.measure.waiting import name_of

        return lambda event: self._audience.shuts(name_of(event["self"]), over)

    def _begun(self, event: dict[str, Any]) -> None:
        from overseer.measure.waiting import SAMPLER, name_of

        loader = event["self"]
        name = name_of(loader)
        data = getattr(loader, DATA, None) if is_torchs(loader) else None
        if self._is_other(name, getattr(loader, SAMPLER, loader), data):
            self._audience.other(name)
        self._audience.begun(name)

    def _is_other(self, name: Hashable, *parts: object) -> bool:
        """Whether this name is no longer what had it before: that may be gone, its address is not.

        Args:
            name: The name.
            parts: What has it now: that itself, and what it reads from.
        """
        own = tuple(map(_reference, parts))
        before = self._read.pop(name, own)
        self._read[name] = own
        if len(self._read) > NAMES:
            del self._read[next(iter(self._read))]
        # Not by ==: that of references asks the script's objects.
        return any(
            old is not new and not (type(new) is int and old == new)
            for old, new in zip(before, own, strict=True)
        )

    def _iterates(self, function: FunctionType) -> None:
        """Watch an ``__iter__``: a generator, or what returns an iterator of a kind of its own."""
        if function.__code__.co_flags & _GENERATOR:
            watched = Watched(function, self._audience, self._ov.clock.now_ns, Watched.LOADER)
            self._place_in(function, yielding(watched, None))
        elif function not in self._seen:
            self._seen.add(function)
            self._place_in(function, {"#value as iterator": self._iterator})

    def _iterator(self, event: dict[str, Any]) -> None:
        self.watch(event["iterator"])  # So that is given, too.

    def _place_in(self, function: FunctionType, markers: Markers, more: str = "") -> None:
        """Listen at places in a method, with the loader itself as ``self``, and ``more``."""
        own = f"{function.__code__.co_varnames[0]} as self"
        self._place(f"code({own}{more})", markers, {"code": function})

    def _place(
        self, where: str, markers: Markers, env: Mapping[str, Any]
    ) -> list[Callable[[], object]]:
        """Listen at places in code; returns what ends that."""
        selectors = [f"{where} > {marker}" for marker in markers]
        self._selectors.update(selectors)
        placed = [self._ov.probes.probe(selector, env=env) for selector in selectors]
        heard = zip(placed, markers.values(), strict=True)
        return [probe.listen(listener, "loader").dispose for probe, listener in heard]


def _reference(value: object) -> object:
    """What is the same for the same object, and no other's later; its address if need be."""
    try:
        return ref(value)  # As long as one is kept, it is the one that there is.
    except TypeError:
        return id(value)


def _holds_batch(function: FunctionType) -> bool:
    """Whether this is PyTorch's: the batch is in ``data`` when the call ends.

    Its ``return`` stands in a ``with``. Leaving that lets other threads run, and with workers
    there is one that runs for longer than many a batch is waited for.
    """
    code = function.__code__
    return "data" in code.co_varnames and "_next_data" in code.co_names
