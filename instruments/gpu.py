"""NVIDIA GPUs: utilisation, memory, power, clocks, and whether they throttle."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar

from overseer.clock import now_ns
from overseer.errors import Problem
from overseer.measure.growth import Growth, Stepped

from .meter import stepped_in
from .nvml import MIB, SILENT, Device, Nvml, may_pass
from .sampling import Monitor, Running

if TYPE_CHECKING:
    from overseer.overseer import Overseer

WHO = "gpu monitor"
EXTRA = 'pip install "voir-overseer[gpu]"'
NO_SMI = "Make nvidia-smi work on this machine, or leave --poll-gpu out."
UNREAD = object()

#: Library not found, driver not loaded: the ordinary state of a machine without NVIDIA's devices.
NO_NVIDIA = {9, 12}


class DeviceSummary:
    """What one device did during the run, in a fixed amount of memory."""

    def __init__(self, device: Device, stepped: Stepped = lambda: None) -> None:
        self._device = device
        self._load = Running()
        self._memory = Running()
        self._growth = Growth(stepped)
        self._memory_total: float | None = None
        self._power = Running()
        self._power_limit: float | None = None
        self._temperature = Running()
        self._clocks: dict[str, Running] = {}
        self._throttled: Counter[str] | None = None
        self._throttle_samples = 0

    def add(self, data: dict[str, Any]) -> None:
        """Take one reading into account."""
        self._load.add(data.get("load"))
        self._power.add(data.get("power"))
        self._power_limit = data.get("power_limit", self._power_limit)
        self._temperature.add(data.get("temperature"))
        if "memory" in data:
            used, self._memory_total = data["memory"]
            self._memory.add(used)
            self._growth.add(now_ns() / 1e9, used * MIB)
        for name, mhz in data.get("clocks", {}).items():
            self._clocks.setdefault(name, Running()).add(mhz)
        if "throttle" in data:
            self._throttle_samples += 1
            self._throttled = self._throttled or Counter()
            self._throttled.update(data["throttle"])

    def entry(self) -> dict[str, Any]:
        """The device's entry in the run's record; what it never told is absent.

        Utilisation is 0 to 1, memory bytes, power W, clocks MHz, temperature Celsius;
        ``throttled`` maps each reason to its share of the samples; empty when there was none.
        """
        power, limit = self._power.mean_max(), self._power_limit
        entries: dict[str, Any] = {
            "kind": "cuda",
            "name": self._device.name,
            "uuid": self._device.uuid,
            "index": self._device.index,
            "utilisation": self._load.mean_max(),
            "memory": self._bytes(),
            "power": {**power, "limit": limit} if power and limit is not None else power,
            "temperature": self._temperature.mean_max(),
            "clocks": {name: _spread(clock) for name, clock in self._clocks.items()},
        }
        told = {key: value for key, value in entries.items() if value not in ({}, "")}
        return told if self._throttled is None else {**told, "throttled": self._shares()}

    def _bytes(self) -> dict[str, Any]:
        if not self._memory.n or self._memory_total is None:
            return {}
        grown = self._growth.grown()
        return {
            "peak": round(self._memory.greatest * MIB),
            "total": round(self._memory_total * MIB),
            **({"growth": grown._asdict()} if grown is not None else {}),
        }

    def _shares(self) -> dict[str, float]:
        counts = self._throttled or Counter()
        n = self._throttle_samples
        return {reason: round(count / n, 3) for reason, count in counts.items()}


def _spread(clock: Running) -> dict[str, float]:
    return {**clock.mean_max(), "min": clock.least}


class GpuSampler:
    """Reads every visible device; one that is lost is reported once and left alone.

    What fails for once is left out of that sample, and asked again at the next.

    Args:
        report: Where a problem goes.
        asked: Whether the user asked for GPUs, so that their absence is worth a word.
        stepped: When steps have been made.
    """

    def __init__(
        self,
        report: Callable[[Problem], None],
        asked: bool,
        stepped: Stepped = lambda: None,
    ) -> None:
        self._report = report
        self._asked = asked
        self._stepped = stepped
        self._nvml: Nvml | None = None
        self._off = False
        self._waits = False
        self._selection: object = UNREAD
        self._failures = 0
        self._devices: list[Device] = []
        self._lost: set[str] = set()
        self._summaries: dict[str, DeviceSummary] = {}

    def start(self) -> None:
        """The library is imported and opened at the first reading, on the sampler's thread."""

    def read(self) -> dict[int | str, dict[str, Any]] | None:
        """Each visible device's reading under its number; ``None`` when there is none."""
        if self._off:
            return None
        self._waits = True
        try:
            return self._read()
        finally:
            self._waits = False

    def _read(self) -> dict[int | str, dict[str, Any]] | None:
        nvml = self._nvml = self._nvml or self._open()
        if nvml is None:
            self._off = True
            return None
        self._choose(nvml)
        readings = {device.index: self._reading(nvml, device) for device in self._devices}
        return {index: data for index, data in readings.items() if data is not None} or None

    def _open(self) -> Nvml | None:
        try:
            library = import_module("pynvml")
        except ImportError:
            self._say("missing-extra", "it needs nvidia-ml-py, which is not installed", EXTRA)
            return None
        except Exception as error:  # The library it loads may be damaged.
            what = f"pynvml cannot be imported: {type(error).__name__}: {error}"
            self._say("gpu-driver", what, NO_SMI)
            return None
        try:
            return Nvml(library)
        except Exception as error:  # Another package may have that name.
            code = getattr(error, "value", None)
            why = f"{type(error).__name__}: {error}" if code is None else str(error)
            broken = code is not None and code not in NO_NVIDIA
            self._say("gpu-driver", f"NVML cannot be used: {why}", NO_SMI, always=broken)
            return None

    def _choose(self, nvml: Nvml) -> None:
        """Find the visible devices, again when the script has set the variable meanwhile."""
        selection = os.environ.get("CUDA_VISIBLE_DEVICES")
        if selection == self._selection:
            return
        try:
            self._devices = nvml.visible(selection)
        except nvml.error as error:
            if not self._tries_again([error]):
                self._off = True
                self._say("gpu-driver", f"NVML failed: {error}", NO_SMI, always=True)
            return
        if self._tries_again(nvml.unreachable.values()):
            return
        first, self._selection = self._selection is UNREAD, selection
        for index, why in nvml.unreachable.items():
            self._lose(str(index), f"GPU {index} cannot be opened: {why}")
        if first:
            self._doubt(nvml, selection)

    def _tries_again(self, errors: Iterable[Exception]) -> bool:
        """Whether devices are looked for again at the next sample, as some errors may pass."""
        self._failures = self._failures + 1 if any(map(may_pass, errors)) else 0
        return 0 < self._failures < SILENT

    def _doubt(self, nvml: Nvml, selection: str | None) -> None:
        """Say when nothing is visible, or when CUDA may number the devices in another order."""
        if not self._devices and not nvml.unreachable:
            why = "there is none" if selection is None else f"CUDA_VISIBLE_DEVICES={selection!r}"
            self._say("gpu-none", f"no GPU is visible: {why}", None)
        numbered = any(word.strip().isdigit() for word in (selection or "").split(","))
        if not numbered or os.environ.get("CUDA_DEVICE_ORDER") == "PCI_BUS_ID":
            return
        try:
            kinds = {device.name for device in nvml.visible(None)}
        except nvml.error:
            return
        if len(kinds) > 1:  # CUDA counts fastest first.
            what = f"the GPUs differ, so CUDA may mean others by {selection} than those sampled"
            self._say("gpu-order", what, "Set CUDA_DEVICE_ORDER=PCI_BUS_ID.", always=True)

    def _reading(self, nvml: Nvml, device: Device) -> dict[str, Any] | None:
        if device.uuid in self._lost:
            return None
        try:
            data = device.read()
        except nvml.error as error:
            self._lose(device.uuid, f"{device.name} {device.index} no longer answers: {error}")
            return None
        if data:
            self._summary(device).add(data)
        return data or None

    def _lose(self, key: str, what: str) -> None:
        if key not in self._lost:
            self._lost.add(key)
            self._say("gpu-lost", what, "It is not sampled; the script goes on.", always=True)

    def _summary(self, device: Device) -> DeviceSummary:
        return self._summaries.setdefault(device.uuid, DeviceSummary(device, self._stepped))

    def _say(self, slug: str, what: str, remedy: str | None, always: bool = False) -> None:
        if self._asked or always:
            self._report(Problem(slug, WHO, what, remedy=remedy))

    def summarise(self, summary: dict[str, Any]) -> None:
        """Fill ``devices``, one entry for each device that was read at least once."""
        if self._waits:  # The end of a run has waited for it, in vain.
            what = "NVML does not answer: a call of it has not come back"
            self._say("gpu-driver", what, NO_SMI, always=True)
        entries = [device.entry() for device in self._summaries.values()]
        if entries:
            summary.setdefault("devices", []).extend(entries)


class Gpu(Monitor):
    """Emit ``gpudata`` every ``seconds``: each visible NVIDIA GPU's reading under its number.

    Utilisation is the share of time in which some kernel ran, whoever's it was; it says nothing
    about how much of the device that kernel used. Nothing here touches CUDA or synchronises.
    """

    key: ClassVar[str] = "gpudata"
    emits: ClassVar[dict[str, str]] = {
        "gpudata.load": "1",
        "gpudata.memory": "MiB",
        "gpudata.temperature": "C",
        "gpudata.power": "W",
        "gpudata.power_limit": "W",
        "gpudata.clocks": "MHz",
        "gpudata.throttle": "reasons",
    }

    def sampler(self, ov: Overseer) -> GpuSampler:
        """A fresh sampler for one run."""
        return GpuSampler(ov.report, not self.by_default, partial(stepped_in, ov))
