"""What the machine's disks read and write."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from .sampling import Monitor, import_psutil

if TYPE_CHECKING:
    from overseer.overseer import Overseer

FIELDS = (
    "read_count",
    "write_count",
    "read_bytes",
    "write_bytes",
    "read_time",
    "write_time",
    "busy_time",
)


class DiskSampler:
    """Reads the disks' counters as differences to the first reading."""

    def __init__(self) -> None:
        self._first: dict[str, int] | None = None

    def start(self) -> None:
        """The baseline is the first reading: psutil is not imported before it."""

    def read(self) -> dict[str, int] | None:
        """The counters' growth since the first reading; a field the system lacks is absent."""
        psutil = import_psutil()

        counters = psutil.disk_io_counters()
        if counters is None:
            return None
        now = {name: getattr(counters, name) for name in FIELDS if hasattr(counters, name)}
        self._first = self._first or now
        return {name: value - self._first[name] for name, value in now.items()}

    def summarise(self, summary: dict[str, Any]) -> None:
        """Disks have no place in the run's summary; their events tell."""


class Disk(Monitor):
    """Emit ``iodata`` every ``seconds``: what all disks did since the first sample."""

    key: ClassVar[str] = "iodata"
    emits: ClassVar[dict[str, str]] = {
        f"iodata.{name}": "B" if "bytes" in name else "ms" if "time" in name else "1"
        for name in FIELDS
    }

    def sampler(self, ov: Overseer) -> DiskSampler:
        """A fresh sampler for one run."""
        return DiskSampler()
