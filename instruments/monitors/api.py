"""The monitor functions of voir 0.2 that voirfiles import.

Each ``*_monitor`` function returns a callable; every call of it takes one reading.
"""

from __future__ import annotations

import os
from functools import partial
from importlib import import_module

from overseer import instrument_definition
from overseer.boundary import problem
from overseer.clock import Clock
from overseer.errors import VoirError

from ..sampling import FIRST_SECONDS, checked_interval, claim
from . import others
from .host import Machine, disks, interfaces, since
from .nvml import Nvml
from .others import NotAvailable
from .process import Tree, number

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Generator, KeysView
    from typing import Any

    from overseer import Overseer

    from .others import Number, Read

    Reading = dict[str, Any]

# The host


def cpu_monitor() -> Callable[[], Reading]:
    """Read ``memory`` (used and total bytes) and ``load`` (percent of the usable processors).

    The load covers the time since the last reading; at first, since this call.
    """
    machine, clock = Machine(), Clock()
    machine.look(clock.now_ns())

    def read() -> Reading:
        now = clock.now_ns()
        machine.look(now)
        memory = [*machine.memory(now)[:2]]
        return {"memory": memory, "load": machine.host.lately() or 0.0}

    return read


def process_monitor(pid: int, recursive: bool = True) -> Callable[[], Reading]:
    """Read a process's ``load`` (percent of the usable processors), ``memory`` and I/O bytes.

    Args:
        pid: The process.
        recursive: Include its descendants.
    """
    machine, clock = Machine(), Clock()
    tree = machine.tree = Tree(pid, clock, alone=not recursive)
    machine.look(clock.now_ns())

    def read() -> Reading:
        now = clock.now_ns()
        tree.weigh(now)
        machine.look(now)
        load, memory = machine.script.lately() or 0.0, [tree.memory, machine.memory(now)[1]]
        return {"pid": pid, "load": load, **number(tree.root), **tree.io, "memory": memory}

    return read


def io_monitor(perdisk: bool = False) -> Callable[[], Reading]:
    """Read the disks' I/O counters since this call: operations, bytes, milliseconds.

    Args:
        perdisk: Return a dict for each disk.
    """
    start = disks(perdisk)

    def read() -> Reading:
        now = {name: since(start.get(name, {}), each) for name, each in disks(perdisk).items()}
        return now if perdisk else now.get("", {})

    return read


def network_monitor(pernic: bool = False) -> Callable[[], Reading]:
    """Read the network counters since boot: bytes, packets, errors, drops.

    Args:
        pernic: Return a dict for each interface.
    """
    return lambda: interfaces(True) if pernic else interfaces().get("", {})


# Accelerators


class Backend:
    """The devices of one vendor.

    Attributes:
        arch: ``cuda``, ``rocm``, ``hpu``, ``xpu`` or ``cpu``.
    """

    def __init__(self, arch: str, read: Read) -> None:
        self.arch, self.read = arch, read

    @property
    def visible_devices(self) -> str | None:
        """The value of the variable that selects devices; None if it is not set."""
        return os.environ.get(BACKENDS[self.arch][1])

    def get_gpus_info(self, selection: Collection[str] | None = None) -> dict[Number, Any]:
        """Read each device, by its number.

        Args:
            selection: Numbers or UUIDs of the devices to read, as text; all by default.

        Returns:
            For each device: ``device``, ``product``, ``memory`` {used, total} MiB,
            ``utilization`` {compute, memory} 0 to 1, ``temperature`` Celsius, ``power`` W,
            ``selection_variable``. Readings that the device does not provide are None.
        """
        found = self.read().items()
        wanted = None if selection is None else {word.rpartition(":")[2] for word in selection}
        return {
            number: self._entry(number, told)
            for number, told in found
            if wanted is None or not wanted.isdisjoint((str(number), told["uuid"]))
        }

    def _entry(self, number: Number, told: Reading) -> Reading:
        used, total = told.get("memory") or (None, None)
        share = used / total if used is not None and total else None
        return {
            "device": number,
            "product": told["name"],
            "memory": {"used": used, "total": total},
            "utilization": {"compute": told.get("load"), "memory": share},
            "temperature": told.get("temperature"),
            "power": told.get("power"),
            "selection_variable": BACKENDS[self.arch][1],
        }


def _nvidia() -> Read:
    try:
        nvml = Nvml(import_module("pynvml"))
    except Exception as error:  # No library, or no driver; another package may have that name.
        raise NotAvailable(f"NVML cannot be used: {error}") from error
    return lambda: {d.index: told for d in nvml.visible(None) if (told := d.read())}


#: For each kind of device: the function that opens it, and the variable that selects devices.
BACKENDS: dict[str, tuple[Callable[[], Read], str]] = {
    "cpu": (lambda: dict, ""),
    "cuda": (_nvidia, "CUDA_VISIBLE_DEVICES"),
    "hpu": (others.habana, "HABANA_VISIBLE_MODULES"),
    "rocm": (others.amd, "ROCR_VISIBLE_DEVICES"),
    "xpu": (others.intel, "ONEAPI_DEVICE_SELECTOR"),
}
_selected: list[Backend] = []


def get_backends() -> KeysView[str]:
    """The names of the supported kinds of device."""
    return BACKENDS.keys()


def find_monitors() -> dict[str, object]:
    """The functions that open each kind of device."""
    return dict(BACKENDS)


def attribute(name: str) -> Backend | None:
    """Provide ``DEVICESMI``, the devices selected last, as a module attribute.

    Raises:
        AttributeError: Any other name.
    """
    if name == "DEVICESMI":
        return _selected[-1] if _selected else None
    raise AttributeError(f"module 'voir.instruments.gpu' has no attribute {name!r}")


def deduce_backend() -> str:
    """Find the kind of device in this machine; ``cpu`` without an accelerator.

    Raises:
        VoirError: There are several kinds (``gpu-kinds``).
    """
    suitable = [name for name in BACKENDS if _has(name)]
    if len(suitable) > 1:
        what = f"this machine has devices of several kinds: {', '.join(suitable)}"
        raise VoirError("gpu-kinds", what, f"Name one: arch={suitable[0]!r}.")
    return suitable[0] if suitable else "cpu"


def _has(name: str) -> bool:
    try:
        return bool(BACKENDS[name][0]()())
    except Exception:
        return False


def select_backend(arch: str | None = None, force: bool = False) -> Backend:
    """Select the devices of kind ``arch``; by default, the kind that this machine has.

    Args:
        arch: One of :func:`get_backends`.
        force: Open the devices again.

    Raises:
        NotAvailable: The kind is unknown, or this machine has no such device.
    """
    if _selected and not force and arch in (None, _selected[0].arch):
        return _selected[0]
    name = arch or deduce_backend()
    if name not in BACKENDS:
        raise NotAvailable(f"there is no backend {name!r}; there are {', '.join(BACKENDS)}")
    _selected[:] = [Backend(name, BACKENDS[name][0]())]
    return _selected[0]


def gpu_info(smi: Backend, visible: bool = True) -> Reading:
    """Read the devices of ``smi``, under the key ``gpus``.

    Args:
        smi: The devices.
        visible: Only those that the environment makes visible to scripts.
    """
    named = smi.visible_devices if visible else None
    selection = [word.strip() for word in named.split(",")] if named else None
    return {"arch": smi.arch, "gpus": smi.get_gpus_info(selection)}


def get_gpu_info(arch: str | None = None, visible: bool = True) -> Reading:
    """Read the devices of kind ``arch``; by default, of the kind that this machine has."""
    return gpu_info(select_backend(arch), visible)


def gpu_monitor() -> Callable[[], Reading]:
    """Read each visible device: the value of ``gpudata``."""
    return lambda: {
        device["device"]: {
            "memory": [device["memory"]["used"], device["memory"]["total"]],
            "load": device["utilization"]["compute"],
            "temperature": device["temperature"],
            "power": device["power"],
        }
        for device in get_gpu_info()["gpus"].values()
    }


# In a run


def monitor(
    ov: Overseer,
    poll_interval: float = 10,
    worker_init: Callable[[], object] | None = None,
    **monitors: Callable[[], Any],
) -> Generator[Any, Any, None]:
    """Give ``{"task": "main", "time": ..., key: value}`` for each of ``monitors``.

    The first readings follow soon after the script starts. A function that raises is reported and
    disabled; the others go on.

    Args:
        ov: The overseer.
        poll_interval: Seconds between readings.
        worker_init: Called once before the first reading.
        monitors: Functions without arguments, by the key under which their results are given.
    """
    seconds = checked_interval(poll_interval, "monitor(poll_interval)")
    claim(ov, *monitors)

    def give_all() -> None:
        time = ov.clock.wall_ns() / 1e9
        for key, read in list(monitors.items()):
            try:
                value = read()
            except Exception as error:
                del monitors[key]
                ov.report(problem("instrument", f"monitor of {key}", error))
            else:
                ov.publish(**{"task": "main", "time": time, key: value})

    yield ov.phases.load_script
    with ov.every(seconds, _after(worker_init, give_all), first=FIRST_SECONDS):
        yield ov.phases.run_script


@instrument_definition
def monitor_all(ov: Overseer, poll_interval: float = 10, arch: str | None = None) -> Any:
    """Give ``gpudata``, ``iodata``, ``netdata`` and ``cpudata`` every ``poll_interval`` seconds.

    Args:
        ov: The overseer.
        poll_interval: Seconds between two readings.
        arch: The kind of accelerator; found by itself when not given.
    """
    host = {"iodata": io_monitor(), "netdata": network_monitor(), "cpudata": cpu_monitor()}
    begin = partial(select_backend, arch, force=True)
    return monitor(ov, poll_interval, begin, gpudata=gpu_monitor(), **host)


@instrument_definition
def instrument_gpus(ov: Overseer, poll_interval: float = 10, arch: str | None = None) -> Any:
    """Give ``gpudata``: for each visible device its memory in MiB, load, temperature and power.

    Args:
        ov: The overseer.
        poll_interval: Seconds between two readings.
        arch: The kind of accelerator; found by itself when not given.
    """
    begin = partial(select_backend, arch, force=True)
    return monitor(ov, poll_interval, begin, gpudata=gpu_monitor())


def _after(begin: Callable[[], object] | None, read: Callable[[], Any]) -> Callable[[], Any]:
    """``read``, with a call of ``begin`` before the first one."""
    waiting = [] if begin is None else [begin]

    def call() -> Any:
        while waiting:
            waiting.pop()()
        return read()

    return call
