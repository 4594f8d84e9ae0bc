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
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from time import perf_counter, perf_counter_ns

import voir
from overseer.clock import Clock
from overseer.timers import Timer
from overseer.trace import channel
from overseer.trace.process import this_process
from overseer.trace.recorder import recorder
from overseer.trace.writer import Writer

ROOT = Path(__file__).resolve().parents[1]
CALLS, SECONDS = 2_000, 2.0
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


def run(rounds: int, epochs: int) -> tuple[list[float], list[float], str]:
    """The example with a trace as a ratio to the example without, round by round.

    Returns:
        The ratios of the median step, those of the processor time of the whole process, and what
        the trace came to.
    """
    steps, used, sizes = [], [], ""
    for number in range(rounds):
        took, cpu = {}, {}
        for options in ([], ["--trace"]) if number % 2 else (["--trace"], []):
            with tempfile.TemporaryDirectory() as tmp:
                voir = [sys.executable, "-m", "voir", "--quiet", "--run-dir", f"{tmp}/run"]
                cpu[bool(options)] = _processor([*voir, *options, *_example(epochs)])
                facts = json.loads(Path(tmp, "run/run.json").read_text())
                took[bool(options)] = facts["tasks"]["train"]["rate"]["median"]
                if options:
                    sizes = _sizes(Path(tmp, "run/trace.pftrace"), facts["trace"]["events"])
        steps.append(took[False] / took[True])
        used.append(cpu[True] / cpu[False])
    return steps, used, sizes


def _example(epochs: int) -> list[str]:
    return [str(ROOT / "examples/digits/main.py"), "--epochs", str(epochs)]


def _processor(command: list[str]) -> float:
    """Processor seconds of a command; its libraries may use one thread, which varies less."""
    environ = {**os.environ, "OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(command, cwd=ROOT, env=environ, stdout=subprocess.DEVNULL)
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
    for packet in _framed(data, Damage()):
        found = dict(fields(packet))
        inner = found.get(_COMPRESSED)
        plain += len(_unpacked(inner, Damage())) if isinstance(inner, bytes) else len(packet)
    return f"{plain / events:.1f} bytes an event unsealed, {len(data) / events:.1f} sealed"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=10.0, help="of sustained events")
    parser.add_argument("--rounds", type=int, default=5, help="of the example (default: 5)")
    parser.add_argument("--epochs", type=int, default=10, help="of the example (default: 10)")
    parser.add_argument("--no-run", action="store_true", help="leave the example out")
    options = parser.parse_args()
    print("| what | ns on the calling thread |\n|---|---|")
    for name, took in (ours() | peers()).items():
        print(f"| {name} | {took:,.0f} |")
    print(f"\n{sustained(options.seconds)}")
    if not options.no_run:
        steps, used, sizes = run(options.rounds, options.epochs)
        print(f"\nThe example's trace: {sizes}. With --trace, beside without:")
        for name, ratios in (("the median step", steps), ("processor time of the run", used)):
            spread = f"{min(ratios) - 1:+.1%} to {max(ratios) - 1:+.1%}"
            middle = statistics.median(ratios) - 1
            print(f"- {name}: {middle:+.1%} (median of {len(ratios)}, {spread})")


if __name__ == "__main__":
    main()
