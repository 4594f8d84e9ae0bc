"""What goes through the machine's network interfaces."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from .sampling import Monitor, import_psutil

if TYPE_CHECKING:
    from overseer.overseer import Overseer

FIELDS = (
    "bytes_sent",
    "bytes_recv",
    "packets_sent",
    "packets_recv",
    "errin",
    "errout",
    "dropin",
    "dropout",
)


class NetworkSampler:
    """Reads the counters of all interfaces together, the loopback included."""

    def start(self) -> None:
        """Counters since boot need no baseline."""

    def read(self) -> dict[str, int] | None:
        """The counters since boot; ``None`` when there is no interface."""
        psutil = import_psutil()

        counters = psutil.net_io_counters()
        return None if counters is None else {name: getattr(counters, name) for name in FIELDS}

    def summarise(self, summary: dict[str, Any]) -> None:
        """The network has no place in the run's summary; its events tell."""


class Network(Monitor):
    """Emit ``netdata`` every ``seconds``: bytes, packets, errors and drops since boot."""

    key: ClassVar[str] = "netdata"
    emits: ClassVar[dict[str, str]] = {
        f"netdata.{name}": "B" if "bytes" in name else "1" for name in FIELDS
    }

    def sampler(self, ov: Overseer) -> NetworkSampler:
        """A fresh sampler for one run."""
        return NetworkSampler()
