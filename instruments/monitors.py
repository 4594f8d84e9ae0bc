"""The monitors that run unless told not to, and the options that steer them."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any

from .cpu import Cpu
from .disk import Disk
from .gpu import Gpu
from .memory import Memory
from .network import Network
from .process import Process
from .sampling import checked_interval, unread_of

if TYPE_CHECKING:
    from overseer.overseer import Overseer

HOST = (Cpu, Memory, Disk, Network, Process)


def instrument_monitors(ov: Overseer) -> Generator[Any, Any, None]:
    """Sample processors, memory, disks, network, the script's processes and GPUs, if any."""
    yield ov.phases.init
    _add_options(ov.argparser)
    yield ov.phases.parse_args
    seconds = float(ov.options.monitor_interval)
    if ov.options.monitor:
        for kind in HOST:
            ov.require(kind(seconds, by_default=True))
    if ov.options.poll_gpu is not None:
        ov.require(Gpu(float(ov.options.poll_gpu)))
    elif ov.options.monitor:
        ov.require(Gpu(seconds, by_default=True))
    try:
        yield ov.phases.run_script(priority=-100)  # When all monitors have come to their end.
    finally:
        unread_of(ov).say(ov)


def _add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--monitor",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="sample CPU, memory, disk, network, the script's processes and GPUs",
    )
    parser.add_argument(
        "--monitor-interval",
        type=_seconds("--monitor-interval"),
        default=1.0,
        metavar="S",
        help="seconds between two samples (default: 1)",
    )
    parser.add_argument(
        "--poll-gpu",
        type=_seconds("--poll-gpu"),
        metavar="S",
        help="sample NVIDIA GPUs every S seconds, and say so when that is not possible",
    )


def _seconds(option: str) -> Callable[[str], float]:
    return lambda text: checked_interval(text, option)
