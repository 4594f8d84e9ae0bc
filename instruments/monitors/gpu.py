"""Samples NVIDIA GPUs: utilisation, memory, power, clocks, throttling."""

from __future__ import annotations

import os
from collections import Counter
from importlib import import_module

from overseer.errors import Problem
from overseer.model.catalogue import METRIC_GROUPS
from overseer.model.growth import Growth

from ..sampling import LOST, MachineMonitor, Running
from .nvml import MIB, Nvml, NvmlDevice

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from overseer import Overseer

NO_SMI = "Make nvidia-smi work on this machine, or leave --poll-gpu out."
#: NVML's exceptions on a machine without NVIDIA GPUs.
NO_GPU = ("NVMLError_LibraryNotFound", "NVMLError_DriverNotLoaded")


class DeviceSummary:
    """Figures of one device over the run, in bounded memory.

    Attributes:
        samples: Count of readings.
        silent: Consecutive samples without a reading.
    """

    def __init__(self, device: NvmlDevice, growth: Growth) -> None:
        self.samples = self.silent = 0
        self._device, self._growth = device, growth
        self._figures: dict[str, Running] = {}
        self._last: dict[str, Any] = {}
        self._throttled: Counter[str] = Counter()
        self._watched = 0

    def add(self, reading: dict[str, Any], now_ns: int) -> None:
        """Add one reading; an empty one counts as silence."""
        if not reading:
            self.silent += 1
            return
        self.samples, self.silent = self.samples + 1, 0
        self._last.update(reading)
        used = reading["memory"][0] * MIB if "memory" in reading else None
        figures = {"memory": used, **reading.get("clocks", {})}
        figures |= {name: reading.get(name) for name in ("load", "power", "temperature")}
        for name, value in figures.items():
            self._figures.setdefault(name, Running()).add(value)
        if used is not None:
            self._growth.add(now_ns / 1e9, used)
        if "throttle" in reading:
            self._watched += 1
            self._throttled.update(reading["throttle"])

    def entry(self) -> dict[str, Any]:
        """The device's entry in ``run.json``, without the figures that it never provided.

        Utilisation is 0 to 1, memory bytes, power W, clocks MHz, temperature Celsius.
        ``throttled`` maps each reason to its share of the samples; it is empty without throttling.
        """
        figures = {name: figure for name, figure in self._figures.items() if figure.n}
        told = {name: figure.mean_max() for name, figure in figures.items()}
        power, limit = told.get("power"), self._last.get("power_limit")
        clocks = {n: {**told[n], "min": figures[n].least} for n in ("sm", "mem") if n in told}
        shares = {why: round(n / self._watched, 3) for why, n in self._throttled.items()}
        entry: dict[str, Any] = {
            "kind": "cuda",
            "name": self._device.name or None,
            "uuid": self._device.uuid,
            "index": self._device.index,
            "utilisation": told.get("load"),
            "memory": self._memory(figures["memory"]) if "memory" in figures else None,
            "power": {**power, "limit": limit} if power and limit is not None else power,
            "temperature": told.get("temperature"),
            "clocks": clocks or None,
            "throttled": shares if self._watched else None,
        }
        return {key: value for key, value in entry.items() if value is not None}

    def _memory(self, used: Running) -> dict[str, Any]:
        total = round(self._last["memory"][1] * MIB)
        grown = self._growth.grown()
        sizes = {"peak": round(used.greatest), "total": total}
        return {**sizes, "growth": grown} if grown is not None else sizes


class Gpu(MachineMonitor):
    """Emit ``gpudata`` every ``seconds``: the reading of each visible NVIDIA GPU by its number.

    Utilisation is the share of time in which any process's kernel ran, whatever part of the device
    that kernel used. Nothing here touches CUDA or synchronises.

    A figure that cannot be read is absent from that sample. After three samples without any
    figure, the device counts as lost: this is reported once, and sampling of it ends.
    """

    key, tells, thread = "gpudata", "GPUs", "gpu"  # NVML may hang; the others go on.
    emits = METRIC_GROUPS["gpudata"].units

    def begin(self, ov: Overseer) -> None:
        """Prepare to read in this run."""
        self._report = ov.report
        self._stepped = ov.measuring.stepped
        self._nvml: Nvml | None = None
        self._off = False
        self._selection: str | None = "not read yet"
        self._devices: dict[NvmlDevice, DeviceSummary] = {}
        self._visible: list[NvmlDevice] = []

    def read(self, now_ns: int) -> dict[int | str, dict[str, Any]] | None:
        """Return the reading of each visible device by its number; None without a device."""
        if self._nvml is None and not self._off:
            self._open()
        if self._nvml is None:
            return None
        selection = os.environ.get("CUDA_VISIBLE_DEVICES")  # The script may set it.
        if selection != self._selection:
            first = self._selection == "not read yet"
            self._visible = self._nvml.visible(selection)
            self._selection = selection
            if first:
                self._doubt(self._nvml, selection)
        readings = {device.index: self._reading(device, now_ns) for device in self._visible}
        return {index: reading for index, reading in readings.items() if reading} or None

    def _open(self) -> None:
        self._off = True
        try:
            self._nvml = Nvml(import_module("pynvml"))
        except ImportError:
            remedy = 'pip install "voir-overseer[gpu]"'
            self._say("missing-extra", "it needs nvidia-ml-py, which is not installed", remedy)
        except Exception as error:  # Another package may have the name pynvml.
            kind = type(error).__name__
            nvml = kind.startswith("NVMLError")
            why = error if nvml else f"{kind}: {error}"
            always = nvml and kind not in NO_GPU
            self._say("gpu-driver", f"NVML cannot be used: {why}", NO_SMI, always)

    def _doubt(self, nvml: Nvml, selection: str | None) -> None:
        """Report that no device is visible, or that CUDA may number devices in another order."""
        if not self._visible:
            why = "there is none" if selection is None else f"CUDA_VISIBLE_DEVICES={selection!r}"
            self._say("gpu-none", f"no GPU is visible: {why}")
        numbered = any(word.strip().isdigit() for word in (selection or "").split(","))
        every = nvml.visible(None) if numbered else []
        names = {device.name for device in every if device.opened()}
        if len(names) > 1 and os.environ.get("CUDA_DEVICE_ORDER") != "PCI_BUS_ID":
            what = f"GPUs of different models: CUDA's {selection} may be other devices than NVML's"
            self._say("gpu-order", what, "Set CUDA_DEVICE_ORDER=PCI_BUS_ID.", True)

    def _reading(self, device: NvmlDevice, now_ns: int) -> dict[str, Any]:
        summary = self._devices.setdefault(device, DeviceSummary(device, Growth(self._stepped)))
        if summary.silent == LOST:
            return {}
        reading = device.read()
        summary.add(reading, now_ns)
        if summary.silent == LOST:
            name = device.name or "GPU"
            what = f"{name} {device.index} does not answer: {device.error}"
            self._say("gpu-lost", what, "It is not sampled; the script goes on.", True)
        return reading

    def _say(self, slug: str, what: str, remedy: str | None = None, always: bool = False) -> None:
        if not self.by_default or always:
            self._report(Problem(slug, "gpu monitor", what, remedy=remedy))

    def summarise(self, summary: dict[str, Any], now_ns: int | None) -> None:
        """Fill ``devices`` with an entry for each device that was read."""
        if now_ns is None:
            what = "NVML does not answer: a call to it has not returned"
            self._say("gpu-driver", what, NO_SMI, True)
        entries = [device.entry() for device in self._devices.values() if device.samples]
        if entries:
            summary.setdefault("devices", []).extend(entries)
