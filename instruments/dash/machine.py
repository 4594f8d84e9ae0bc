"""Meters and flows from what the monitors emit."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from instruments.dash.board import Flow, Meter
from instruments.dash.cells import clean
from instruments.dash.feed import Slot, Stamped
from instruments.dash.values import as_number, mapping, pair

_MIB = 1024.0**2
#: For each monitor of traffic: what its row is called, and its counters of bytes.
_TRAFFIC = {
    "iodata": ("disk", (("read", "read_bytes"), ("write", "write_bytes"))),
    "netdata": ("network", (("in", "bytes_recv"), ("out", "bytes_sent"))),
}


class Machine:
    """Reads the monitors' slots; remembers the counters of the sample before."""

    def __init__(self) -> None:
        self._before: dict[str, tuple[int, dict[str, float]]] = {}
        self._flows: dict[str, Flow] = {}

    def host(self, slots: Mapping[str, Slot]) -> tuple[Meter, ...]:
        """The host's own processors and memory, and the process's part of them."""
        rows = (("cpu", "cpudata"), ("process", "process"))
        return tuple(
            meter(label, mapping(slots[key].kept), percent=100.0, unit=1.0)
            for label, key in rows
            if key in slots
        )

    def gpus(self, slots: Mapping[str, Slot]) -> tuple[Meter, ...]:
        """One meter a GPU, in the order of their indices."""
        devices = mapping(slots["gpudata"].kept) if "gpudata" in slots else {}
        # A sort by index as text alone would put 10 before 2.
        ordered = sorted(devices.items(), key=lambda item: (len(str(item[0])), str(item[0])))
        return tuple(
            meter(f"gpu {clean(str(index))}", mapping(data), percent=1.0, unit=_MIB)
            for index, data in ordered
        )

    def flows(self, slots: Mapping[str, Slot]) -> tuple[Flow, ...]:
        """Traffic between the last two samples of each counter."""
        for key in _TRAFFIC:
            slot = slots.get(key)
            if isinstance(slot, Stamped):
                self._measure(key, slot)
        return tuple(self._flows.values())

    def _measure(self, key: str, slot: Stamped) -> None:
        label, ways = _TRAFFIC[key]
        at, now = slot.at, {name: total(slot.kept, name) for _, name in ways}
        then, before = self._before.get(key, (at, now))
        if at != then:
            seconds = (at - then) / 1e9
            speeds = ((way, max(0.0, now[name] - before[name]) / seconds) for way, name in ways)
            self._flows[key] = Flow(label, tuple(speeds))
        self._before[key] = (at, now)


def total(counters: object, name: str) -> float:
    """One counter, summed over disks or interfaces when they are apart."""
    data = mapping(counters)
    own = as_number(data.get(name))
    return own if own is not None else sum(total(v, name) for v in _nested(data.values()))


def _nested(values: Iterable[object]) -> list[object]:
    return [value for value in values if isinstance(value, Mapping)]


def meter(label: str, data: Mapping[object, object], percent: float, unit: float) -> Meter:
    """One device's meter.

    Args:
        percent: What the monitor calls a full load: 1 or 100.
        unit: Bytes in the monitor's unit of memory.
    """
    load = as_number(data.get("load"))
    used, size = pair(data.get("memory")) or (None, None)
    return Meter(
        label=label,
        load=None if load is None else load / percent,
        used=None if used is None else used * unit,
        total=None if size is None else size * unit,
        notes=tuple(_notes(data)),
    )


def _notes(data: Mapping[object, object]) -> list[str]:
    power, heat, name = (data.get(key) for key in ("power", "temperature", "name"))
    watts, celsius = as_number(power), as_number(heat)
    notes = [f"{watts:3.0f} W"] if watts is not None else []
    notes += [f"{celsius:2.0f} °C"] if celsius is not None else []
    return notes + ([clean(name)] if isinstance(name, str) else [])
