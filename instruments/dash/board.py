"""What the dashboard knows at one moment, ready to be laid out; no clocks, no live objects."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Trend:
    """One figure over the run: its history (oldest first), and the values people ask for."""

    points: tuple[float, ...]
    last: float
    first: float | None = None
    low: float | None = None


@dataclass(frozen=True)
class Task:
    """One task's rows.

    Attributes:
        done: Finished part of ``total``, in the task's own unit.
        left: Seconds to go.
        through: The part of the run that the histories cover, when the progress tells.
        steps: Steps seen, shown when nobody tells the progress.
        loading: Share of loading + compute, 0..1; ``compute`` likewise.
    """

    name: str
    done: float | None = None
    total: float | None = None
    left: float | None = None
    through: float | None = None
    steps: int = 0
    loss: Trend | None = None
    rate: Trend | None = None
    units: str = "steps/s"
    loading: float | None = None
    compute: float | None = None

    @property
    def fraction(self) -> float:
        """The part that is done; above one when the total was wrong."""
        return self.done / self.total if self.done is not None and self.total else 0.0

    @property
    def finished(self) -> bool:
        """Whether all of a known total is done."""
        return self.done is not None and bool(self.total) and self.done >= (self.total or 0)


@dataclass(frozen=True)
class Meter:
    """How busy a device is: load 0..1, memory in bytes, and short notes such as ``231 W``."""

    label: str
    load: float | None = None
    used: float | None = None
    total: float | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Flow:
    """Bytes a second in two directions, each with its name."""

    label: str
    ways: tuple[tuple[str, float], ...]


@dataclass(frozen=True)
class Given:
    """Any other key: its last value in a few words, and how often it came."""

    label: str
    value: str
    count: int


@dataclass(frozen=True)
class Board:
    """Everything on the dashboard, each part in the order in which it first appeared."""

    title: str
    elapsed: float
    tasks: tuple[Task, ...] = ()
    host: tuple[Meter, ...] = ()
    gpus: tuple[Meter, ...] = ()
    flows: tuple[Flow, ...] = ()
    given: tuple[Given, ...] = ()

    @property
    def empty(self) -> bool:
        """Whether nothing has been given yet."""
        return not (self.tasks or self.host or self.gpus or self.flows or self.given)
