"""Events written down by hand, for tests of the fold.

A line is a span or a mark, then what it is of: ``next A 8`` (the loader A is asked and gives eight
items), ``learn M 8`` (the model M is called in training mode with gradients), ``back 0.5``. A span
takes a millisecond; ``back:7 0.5`` takes seven. ``wait 5`` lets time pass. What lies within braces
is within the span: ``scaler { opt O }``. ``2 { ... }`` is written twice. ``thread 2`` changes it.
"""

from __future__ import annotations

from typing import Any

from overseer.model.fold import Fold
from overseer.model.steps import Step
from overseer.recorder import sites as k
from overseer.recorder.log import EVENT

NAN = float("nan")
MS = 1_000_000
LEARNS, IGNORES = k.TRAINING | k.GRAD | k.MODEL, k.TRAINING | k.MODEL
#: By word: the kind, its flags, and whether what follows is an object and a value, or a value.
SPANS = {
    "next": (k.LOADING, 0, 2), "end": (k.LOADING, k.ENDED, 1), "loading": (k.LOADING, 0, 0),
    "iter": (k.ITERATE, 0, 1),
    "learn": (k.FORWARD, LEARNS, 2), "look": (k.FORWARD, k.MODEL, 2),
    "pass": (k.FORWARD, IGNORES, 2), "frozen": (k.FORWARD, k.MODEL | k.GRAD, 2),
    "failed-learn": (k.FORWARD, LEARNS | k.FAILED, 2),
    "back": (k.BACKWARD, 0, -1), "zeroed-back": (k.BACKWARD, k.ZEROED, -1),
    "late-back": (k.BACKWARD, k.LATER, -1), "failed-back": (k.BACKWARD, k.FAILED, -1),
    "opt": (k.OPTIMIZER, 0, 1), "failed-opt": (k.OPTIMIZER, k.FAILED, 1),
    "made": (k.MADE, 0, 1), "scale": (k.SCALE, 0, -1), "scaler": (k.SCALER, 0, 0),
    "save": (k.SAVE, 0, 0), "pair": (k.PAIR, 0, -1), "pause": (k.PAUSE, 0, 0),
    "compile": (k.COMPILE, 0, 0), "grads": (k.GRADIENTS, 0, 0),
    "wait-for-others": (k.COMMUNICATION, 0, 0),
    "turn": (k.STEP, 0, -1), "left-turn": (k.STEP, k.FAILED, -1),
    "left-pair": (k.PAIR, k.FAILED, -1),
}  # fmt: skip
#: Events that begin one of these.
BEGINS = {k.PAIR: k.PAIR_BEGINS, k.PAUSE: k.PAUSE_BEGINS}
MARKS = {
    "mark": (k.STEP, 0), "asks": (k.LOOP, 0), "came": (k.LOOP, k.CAME), "loss": (k.LOSS, 0),
    "batch": (k.BATCH, 0), "unread-loss": (k.LOSS, k.FAILED),
    "enters": (k.ENTERS, 0), "waits": (k.WAITS, 0), "pair-begins": (k.PAIR_BEGINS, 0),
    "time-first": (k.TIME_FIRST, 0), "thread-begins": (k.THREAD, 0),
}  # fmt: skip
#: A site for each kind, one of the task ``eval`` for marks, pairs and losses, one of a voirfile.
SITES: list[dict[str, Any]] = [{"kind": kind} for kind in range(64)]
SITES += [{"kind": kind, "task": "eval"} for kind in range(64)]
SITES += [{"kind": kind, "selector": "//f > x as step"} for kind in range(64)]
OF = {"eval": 64, "file": 128}


def identity(name: str) -> int:
    """A number for a name, the same each time."""
    return int.from_bytes(name.encode()[-4:], "little")


class Writer:
    """Makes the events of what is written."""

    def __init__(self) -> None:
        self.now, self.thread, self.depth, self.optimizers = MS, 1, 0, 0
        self.events: list[bytes] = []
        self.late: list[tuple[int, int]] = []

    def put(
        self, kind: int, start: int, ns: int, value: float, object_: int, flags: int, site: int = 0
    ) -> None:
        """One event."""
        rest = ns | self.depth << 48 | (flags | k.IN_OPTIMIZER * bool(self.optimizers)) << 56
        self.events.append(EVENT.pack(start, value, object_, site + kind, self.thread, rest))

    def write(self, text: str) -> Writer:
        """Write lines."""
        for sign in ";{}":
            text = text.replace(sign, f" {sign} ")
        words = text.replace("\n", " ; ").split()
        assert self._block(words, 0) == len(words)
        return self

    def _block(self, words: list[str], at: int) -> int:
        while at < len(words) and words[at] != "}":
            if words[at] == ";":
                at += 1
                continue
            end = at
            while end < len(words) and words[end] not in (";", "{", "}"):
                end += 1
            inner = end if end < len(words) and words[end] == "{" else None
            at = self._line(words[at:end], words, inner, end)
        return at

    def _line(self, line: list[str], words: list[str], inner: int | None, end: int) -> int:
        word, _, length = line[0].partition(":")
        ns = int(float(length or 1) * MS)
        if word.isdecimal():
            assert inner is not None
            for _ in range(int(word)):
                end = self._block(words, inner + 1)
            return end + 1
        if word == "wait":
            self.now += int(float(line[1]) * MS)
        elif word == "thread":
            self.thread = int(line[1])
        elif word == "arrives":
            start, site = self.late.pop(0)
            self.put(k.LATE, start, 0, float(line[1]), site, 0)
        elif word in MARKS:
            kind, flags = MARKS[word]
            of = OF.get(line[1], 0) if len(line) > 1 else 0
            site = {"thread-begins": -k.THREAD}.get(word, of)
            value = float(line[-1]) if len(line) > 1 and line[-1] not in OF else NAN
            self.put(kind, self.now, 0, value, 0, flags, site)
        else:
            return self._span(word, line[1:], ns, words, inner, end)
        return end

    def _span(
        self, word: str, rest: list[str], ns: int, words: list[str], inner: int | None, end: int
    ) -> int:
        kind, flags, form = SPANS[word]
        start = self.now
        site = OF.get(rest[0], 0) if rest else 0
        begins = k.LOADING_BEGINS if word == "loading" else BEGINS.get(kind)
        if begins is not None:
            self.put(begins, start, 0, NAN, 0, 0, site)
        if inner is not None:
            deeper = kind not in (*BEGINS, k.STEP)
            self.depth, self.optimizers = (
                self.depth + deeper,
                self.optimizers + (kind == k.OPTIMIZER),
            )
            end = self._block(words, inner + 1) + 1
            self.depth, self.optimizers = (
                self.depth - deeper,
                self.optimizers - (kind == k.OPTIMIZER),
            )
        self.now += ns
        object_ = identity(rest[0]) if form > 0 else 0
        value = float(rest[-1]) if rest and form in (2, -1) and rest[-1] not in OF else NAN
        if word in ("next", "end"):
            object_ = identity(f"{rest[0]}#")
        elif word == "iter":
            value = float(identity(f"{rest[0]}#"))
        elif word == "late-back":
            self.late.append((start, kind))
        self.put(kind, start, self.now - start, value, object_, flags, site)
        return end

    @property
    def data(self) -> bytes:
        """All events."""
        return b"".join(self.events)


class Folded:
    """The fold's result for events.

    Attributes:
        fold: The fold.
        steps: Finished steps.
    """

    def __init__(
        self, data: bytes, piece: int = 0, method: str | None = None, lost: int = 0
    ) -> None:
        self.steps: list[Step] = []
        used = {site for _, _, _, site, _, _ in EVENT.iter_unpack(data)}
        sites = [row if at in used else {"kind": 63} for at, row in enumerate(SITES)]
        self.fold = Fold(sites, self.steps.append, method)
        size = piece * EVENT.size or len(data) or 1
        for at in range(0, len(data), size):
            self.fold.feed(data[at : at + size], lost if not at else 0)
        self.fold.finish()

    def told(self, task: str = "train") -> tuple[int, float | None]:
        """Steps and items of a task; None: unknown."""
        found = self.fold.tasks.get(task)
        if found is None:
            return 0, 0
        return found.steps, found.items if found.items == found.items else None

    @property
    def losses(self) -> list[float]:
        """Of the training's steps."""
        return [step.loss for step in self.steps if step.task == "train"]

    def parts(self, number: int = 1) -> list[float]:
        """The parts of a step of the training, in milliseconds."""
        step = next(s for s in self.steps if (s.task, s.number) == ("train", number))
        return [ns / MS for ns in step.parts]

    @property
    def pauses(self) -> dict[str, tuple[int, float]]:
        """Of the training, by kind: how many, and how many milliseconds."""
        kinds = self.fold.task("train").pauses.kinds
        return {kind: (n, ns / MS) for kind, (n, ns) in kinds.items()}


def folded(text: str, **how: Any) -> Folded:
    """The fold's result for a text; optimizers that step were made before."""
    before = "made O;" if "opt" in text and "made" not in text else ""
    return Folded(Writer().write(before + text).data, **how)
