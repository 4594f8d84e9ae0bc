"""The instrument that samples the machine and its GPUs, on by default."""

from __future__ import annotations

from argparse import BooleanOptionalAction

from overseer.context import maybe_rank

from .sampling import GLANCE_SECONDS, checked_interval, sampling_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping
    from typing import Any

    from overseer import Overseer

    from .sampling import MachineMonitor


def instrument_monitors(ov: Overseer) -> Generator[Any, Any, None]:
    """Sample processors, memory, disks, network, the script's processes and GPUs, if any."""
    yield ov.phases.init
    add = ov.argparser.add_argument
    add("--monitor", action=BooleanOptionalAction, default=True,
        help="sample the machine, GPUs and the script's processes")  # fmt: skip
    add("--monitor-interval", type=_seconds("--monitor-interval"), default=1.0, metavar="S",
        help="seconds between two samples (default: 1)")  # fmt: skip
    add("--poll-gpu", metavar="S", type=_seconds("--poll-gpu"), help="sample NVIDIA GPUs every "
        "S seconds, and say so when that is not possible")  # fmt: skip
    yield ov.phases.parse_args
    if ov.options.ranks is not None:
        from .ranks import is_chosen

        if not is_chosen(ov):
            return
    seconds, asked = float(ov.options.monitor_interval), ov.options.poll_gpu
    first = samples_machine(ov)
    if ov.options.monitor:
        tick = min(seconds, GLANCE_SECONDS)
        sampling_of(ov, "host").by_default(ov, tick, lambda: _host(ov, seconds, first))
    if asked is not None or (ov.options.monitor and (first or _has_own_device(ov.environ))):
        each = seconds if asked is None else float(asked)
        sampling_of(ov, "gpu").by_default(ov, each, lambda: _gpu(each, asked is None))


def samples_machine(ov: Overseer) -> bool:
    """Whether this process samples its machine: of the ranks there, only the first one."""
    if ov.context.joins:  # The process that started this one does.
        return False
    if not maybe_rank(ov.environ):
        return True
    from overseer.rundir.job import find_rank

    rank = find_rank(ov.environ)
    return rank is None or not rank.local_rank


def _has_own_device(environ: Mapping[str, str]) -> bool:
    """Whether the launcher gave this rank a GPU that the first one does not see."""
    return environ.get("CUDA_VISIBLE_DEVICES", ",").count(",") == 0


def _seconds(option: str) -> Callable[[str], float]:
    return lambda text: checked_interval(text, option)


# They are imported at the first sample: a script that ends before has not waited for that.


def _host(ov: Overseer, seconds: float, whole: bool) -> list[MachineMonitor]:
    from .monitors.host import Cpu, Disk, Memory, Network, machine_of
    from .monitors.process import ProcessTree

    machine_of(ov).whole = whole
    kinds = (Cpu, Memory, Disk, Network, ProcessTree) if whole else (ProcessTree,)
    return [kind(seconds, by_default=True) for kind in kinds]


def _gpu(seconds: float, by_default: bool) -> list[MachineMonitor]:
    from .monitors.gpu import Gpu

    return [Gpu(seconds, by_default)]
