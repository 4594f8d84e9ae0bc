"""Monitors of what a voirfile chooses: any functions, read every so often and given."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any

from overseer import instrument_definition
from overseer.boundary import problem

from .backends import gpu_monitor as gpu_reader
from .backends import select_backend
from .readings import cpu_monitor, io_monitor, network_monitor
from .sampling import FIRST_SECONDS, checked_interval, claim

if TYPE_CHECKING:
    from overseer import Overseer

Reader = Callable[[], Any]


def monitor(
    ov: Overseer,
    poll_interval: float = 10,
    worker_init: Callable[[], object] | None = None,
    **monitors: Reader,
) -> Generator[Any, Any, None]:
    """Give ``{"task": "main", "time": ..., key: value}`` for each of ``monitors``.

    The first readings come soon after the script began. A function that fails is reported and
    left out, the others go on.

    Args:
        ov: The overseer.
        poll_interval: Seconds between two readings.
        worker_init: Called once before the first.
        monitors: Functions without arguments, by the key of what they return.
    """
    seconds = checked_interval(poll_interval, "monitor(poll_interval)")
    claim(ov, *monitors)
    yield ov.phases.load_script
    if worker_init is not None:
        worker_init()
    readers = dict(monitors)
    with ov.every(seconds, lambda: _give_all(ov, readers), first=FIRST_SECONDS):
        yield ov.phases.run_script


def _give_all(ov: Overseer, readers: dict[str, Reader]) -> None:
    time = ov.clock.wall_ns() / 1e9
    for key, read in list(readers.items()):
        try:
            value = read()
        except Exception as error:
            del readers[key]
            ov.report(problem("instrument", f"monitor of {key}", error))
        else:
            ov.publish(**{"task": "main", "time": time, key: value})


@instrument_definition
def monitor_all(ov: Overseer, poll_interval: float = 10, arch: str | None = None) -> Any:
    """Give ``gpudata``, ``iodata``, ``netdata`` and ``cpudata`` every ``poll_interval`` seconds.

    Args:
        ov: The overseer.
        poll_interval: Seconds between two readings.
        arch: The kind of accelerator; found by itself when not given.
    """
    readers = {"iodata": io_monitor(), "netdata": network_monitor(), "cpudata": cpu_monitor()}
    return _with_devices(ov, poll_interval, arch, **readers)


@instrument_definition
def gpu_monitor(ov: Overseer, poll_interval: float = 10, arch: str | None = None) -> Any:
    """Give ``gpudata``: for each visible device its memory in MiB, load, temperature and power.

    Args:
        ov: The overseer.
        poll_interval: Seconds between two readings.
        arch: The kind of accelerator; found by itself when not given.
    """
    return _with_devices(ov, poll_interval, arch)


def _with_devices(ov: Overseer, poll_interval: float, arch: str | None, **more: Reader) -> Any:
    def chosen() -> object:
        return select_backend(arch, force=True)

    return monitor(ov, poll_interval, chosen, gpudata=gpu_reader(), **more)
