"""What a trace costs: an event on the script's thread, beside peers; writing; bytes; a whole run.

    python benchmarks/trace.py [--seconds S] [--rounds N] [--no-run]

One process, one thread's time, the best of many short rounds with the garbage collector on; the
peers are viztracer's ``log_event`` and PyTorch's ``record_function`` where they are installed, a
line of JSON, and a tuple put into a list, which is the least that Python can do. Then 200,000
events a second while the writer runs on a thread of its own, and the example under ``voir`` with
``--trace`` and without, in turn.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import redirect_stdout
from pathlib import Path
from time import perf_counter, perf_counter_ns
from typing import Any, NamedTuple

import voir
from overseer.clock import Clock
from overseer.timers import Timer
from overseer.trace import channel
from overseer.trace.process import this_process
from overseer.trace.recorder import recorder
from overseer.trace.writer import Writer

ROOT = Path(__file__).resolve().parents[1]
CALLS, SECONDS = 2_000, 2.0
TRAIN = "train"
EMPTY = "a call of an empty function; in no other row"


Calls = dict[str, Callable[[], object]]


def nanoseconds(calls: Calls, after: Callable[[], object] = lambda: None) -> dict[str, float]:
    """What each of ``calls`` takes, the empty call that is :data:`EMPTY` left out of the others.

    In turn, the least of many short rounds: other programs slow some of them down, not all.
    """
    best = dict.fromkeys({EMPTY: None, **calls}, float("inf"))
    until = perf_counter() + SECONDS
    while perf_counter() < until:
        for name, function in {EMPTY: lambda: None, **calls}.items():
            since = perf_counter_ns()
            for _ in range(CALLS):
                function()
            best[name] = min(best[name], (perf_counter_ns() - since) / CALLS)
            after()
    return {name: took - best[EMPTY] if name != EMPTY else took for name, took in best.items()}


def ours() -> dict[str, float]:
    app = channel("benchmark")
    loss = app.counter("Loss")

    def span() -> None:
        with app.span("step"):
            pass

    def arguments() -> None:
        with app.span("step", number=1, name="x"):
            pass

    calls: Calls = {
        "span, no arguments": span,
        "span, two arguments": arguments,
        "counter": lambda: loss.add(1.5),
        "instant": lambda: app.instant("now"),
    }
    off = nanoseconds({f"{name}, tracing off": call for name, call in {**calls, **parts()}.items()})
    recorder.start()
    on = nanoseconds(calls, recorder.take)
    recorder.stop()
    return on | off


def parts() -> Calls:
    """``voir.profile`` around a part of a script; where there is a run, that begins a trace."""

    def part() -> None:
        with voir.profile():
            pass

    def options() -> None:
        with voir.profile(level="op", ms_duration=15000, steps="10:20"):
            pass

    return {"voir.profile": part, "voir.profile, three arguments": options}


def peers() -> dict[str, float]:
    lines: list[object] = []

    def put() -> None:
        lines.append((perf_counter_ns(), "B", "step"))

    def line() -> None:
        lines.append(json.dumps({"ph": "B", "ts": perf_counter_ns(), "name": "step", "pid": 1}))

    calls: Calls = {"one event: a tuple into a list": put, "one event: json.dumps of a line": line}
    return nanoseconds(calls, lines.clear) | _viztracer() | _torch()


def _viztracer() -> dict[str, float]:
    try:
        from viztracer import VizTracer
    except ImportError:
        return {}
    tracer = VizTracer(verbose=0, max_stack_depth=0, tracer_entries=1_000_000)
    tracer.start()

    def span() -> None:
        with tracer.log_event("step"):
            pass

    took = nanoseconds({"span: viztracer's log_event": span}, tracer.clear)
    tracer.stop()
    tracer.clear()
    return took


def _torch() -> dict[str, float]:
    try:
        import torch
    except ImportError:
        return {}

    def span() -> None:
        with torch.profiler.record_function("step"):
            pass

    off = nanoseconds({"span: record_function, not profiling": span})
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]):
        on = nanoseconds({"span: record_function, profiling": span})
    return on | off


def sustained(seconds: float, rate: int = 200_000) -> str:
    """Record ``rate`` events a second while a thread writes them."""
    import psutil

    from overseer.boundary import Guarded

    with tempfile.TemporaryDirectory() as tmp:
        path = Path(tmp) / "trace.pftrace"
        writer = Writer(str(path), this_process("b", Clock()), recorder, 256 << 20, print)
        recorder.start()
        app = channel("benchmark")
        loss = app.counter("Loss")
        memory, used = psutil.Process(), time.thread_time()
        chunk, late, sizes = rate // 1000, 0, []
        with Timer(0.1, Guarded(writer.flush, "writer", print), 0.1, lambda ns: None):
            begun = perf_counter()
            for turn in range(int(seconds * 1000)):
                for number in range(chunk // 4):
                    with app.span("step"):
                        loss.add(number)
                        app.instant("now")
                if turn % 1000 == 999:
                    sizes.append(memory.memory_info().rss / 1e6)
                ahead = begun + (turn + 1) / 1000 - perf_counter()
                if ahead > 0:
                    time.sleep(ahead)
                else:
                    late += ahead < -0.05
            took = perf_counter() - begun
            used = time.thread_time() - used
        writer.close()
        recorder.stop()
        sealed = path.stat().st_size
        return (
            f"{writer.events:,} events in {took:.1f} s ({writer.events / took:,.0f} a second), "
            f"{writer.dropped:,} dropped; {sealed / writer.events:.1f} bytes an event sealed; "
            f"the recording thread used {used / took:.0%} of a core; memory "
            f"{sizes[len(sizes) // 2]:.0f} MB in the middle, {sizes[-1]:.0f} MB at the end"
        )


class Arm(NamedTuple):
    """Runs of the example with a trace, or without.

    Attributes:
        steps: Nanoseconds of each step of training.
        behind: Processor seconds of other threads than the script's, in all.
    """

    steps: list[int]
    behind: list[float]

    @property
    def floor(self) -> float:
        """Microseconds of a step that nothing else disturbed."""
        return sorted(self.steps)[len(self.steps) // 10] / 1e3

    @property
    def threads(self) -> float:
        """Microseconds that the other threads took for a step."""
        return sum(self.behind) / len(self.steps) * 1e6


def arms(rounds: int) -> tuple[Arm, Arm]:
    """Epochs of the example without a trace and with one, in turn, in this process."""
    import torch

    torch.set_num_threads(1)
    found = Arm([], []), Arm([], [])
    for number in range(2 * rounds + 2):
        traced = number % 2
        steps, behind = _epoch(["--trace"] if traced else [])
        if number > 1:  # The first of each imports what it needs.
            found[traced].steps.extend(steps)
            found[traced].behind.append(behind)
    return found


def _epoch(options: list[str]) -> tuple[list[int], float]:
    """One epoch under voir; the time of each step, and processor time of other threads."""
    from instruments import __instruments__
    from instruments.meter import measuring_of
    from overseer import Overseer

    steps: list[int] = []

    def instrument_times(ov: Any) -> Iterator[Any]:
        yield ov.phases.parse_args(priority=-200)

        def train(more: Any) -> None:
            steps.extend(one.end_ns - one.start_ns for one in more if one.task == TRAIN)

        measuring_of(ov).begin().also(train)

    with tempfile.TemporaryDirectory() as tmp, redirect_stdout(io.StringIO()):
        ov = Overseer([*__instruments__, instrument_times], stderr=io.StringIO())
        used, own = time.process_time(), time.thread_time()
        ov(["--quiet", "--run-dir", f"{tmp}/run", *options, *_example(1)])
        return steps, time.process_time() - used - (time.thread_time() - own)


def ends(rounds: int) -> float:
    """Processor seconds that a trace adds where a run begins and ends: the least of each."""
    least: dict[str, float] = {}
    script = "import voir\nfor n in range(3): voir.give(step=n, batch_size=4, loss=1.0)\n"
    with tempfile.TemporaryDirectory() as tmp:
        Path(tmp, "main.py").write_text(script)
        for number in range(rounds):
            for option in ("--quiet", "--trace"):
                voir = [sys.executable, "-m", "voir", "--quiet", option, "--run-dir"]
                used = _processor([*voir, f"{number}{option}", "main.py"], tmp)
                least[option] = min(used, least.get(option, used))
    return least["--trace"] - least["--quiet"]


def example(rounds: int, epochs: int) -> str:
    """What ``--trace`` adds to a run of the example, and how large its trace is."""
    with tempfile.TemporaryDirectory() as tmp:
        voir = [sys.executable, "-m", "voir", "--quiet", "--run-dir"]
        whole = min(_processor([*voir, f"{tmp}/{n}", *_example(epochs)]) for n in range(3))
        _processor([*voir, f"{tmp}/run", "--trace", *_example(epochs)])
        facts = json.loads(Path(tmp, "run/run.json").read_text())
        sizes = _sizes(Path(tmp, "run/trace.pftrace"), facts["trace"]["events"])
        steps = facts["tasks"]["train"]["steps"]
    around = ends(max(rounds // 2, 5))
    without, traced = arms(rounds)
    script, behind = traced.floor - without.floor, traced.threads - without.threads
    parts = [Arm(arm.steps[half::2], []).floor for arm in (without, traced) for half in (0, 1)]
    doubt = max(abs(parts[0] - parts[1]), abs(parts[2] - parts[3]))
    added = around + steps * (script + behind) / 1e6
    return (
        f"{sizes}.\nWith --trace, beside without, over {len(traced.steps):,} steps of each in "
        f"turn:\n- a step that nothing disturbs (the 10th percentile): {without.floor:,.0f} us, "
        f"{script:+.1f} us (halves of them differ by {doubt:.1f} us): "
        f"{script / without.floor:+.2%}\n- on the thread that writes: {behind:+.1f} us of "
        f"processor time a step: {behind / without.floor:+.2%}\n- where a run begins and ends: "
        f"{around * 1e3:+.0f} ms of processor time\n- a run of {steps:,} steps: {whole:.2f} s of "
        f"processor time, {added * 1e3:+.0f} ms: {added / whole:+.2%}"
    )


def _example(epochs: int) -> list[str]:
    return [str(ROOT / "examples/digits/main.py"), "--epochs", str(epochs)]


def _processor(command: list[str], cwd: str | Path = ROOT) -> float:
    """Processor seconds of a command; its libraries may use one thread, which varies less."""
    environ = {**os.environ, "OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(command, cwd=cwd, env=environ, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise SystemExit(f"{command} ended with {process.returncode}")
    return usage.ru_utime + usage.ru_stime


def _sizes(path: Path, events: int) -> str:
    """Bytes an event of a trace, as it was written and as it is."""
    from overseer.trace.packets import _COMPRESSED, Damage, _framed, _unpacked
    from overseer.trace.wire import fields

    data, plain = path.read_bytes(), 0
    for packet in _framed(data, Damage(), bytearray()):
        found = dict(fields(packet))
        inner = found.get(_COMPRESSED)
        plain += len(_unpacked(inner, Damage())) if isinstance(inner, bytes) else len(packet)
    return f"{plain / events:.1f} bytes an event unsealed, {len(data) / events:.1f} sealed"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=10.0, help="of sustained events")
    parser.add_argument("--rounds", type=int, default=30, help="of the example (default: 30)")
    parser.add_argument("--epochs", type=int, default=10, help="of the example (default: 10)")
    parser.add_argument("--no-run", action="store_true", help="leave the example out")
    options = parser.parse_args()
    print("| what | ns on the calling thread |\n|---|---|")
    for name, took in (ours() | peers()).items():
        print(f"| {name} | {took:,.0f} |")
    print(f"\n{sustained(options.seconds)}")
    if not options.no_run:
        print(f"\nThe example's trace: {example(options.rounds, options.epochs)}")


if __name__ == "__main__":
    main()
