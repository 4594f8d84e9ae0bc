"""Measure ``voir bench``: false alarms, a true difference, and its own time.

    python benchmarks/bench.py [--pairs 100] [--parts same slower harness reading] [--traceml BIN]

- same: pairs of identical processes, in turns. The same pairs go through three gates: voir's rule
  (blocks of ten pairs, with their controls); a paired t test on wall times that calls every
  significant difference one, as perfgate documents its rule (blocks of ten pairs; the program
  itself is not run); and one pair at a time with a threshold of 5 % of the step time, as TraceML
  has it. With ``--traceml`` its own ``compare`` judges the pairs: their step times are put into a
  summary of a real run of it.
- slower: the example with a busy loop of 4 % of a step, ten pairs.
- harness: the time of a bench without that of its processes, and a process of an empty script under
  voir and under plain python.
- reading: the time of ``voir compare`` for a bench of 1,000 processes.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from overseer.bench import judging
from overseer.bench.sides import CONTROL
from overseer.model.intervals import of_pairs

ROOT = Path(__file__).parents[1]
VOIR = [str(Path(sys.executable).with_name("voir"))]
#: A script that trains for a second.
SCRIPT = """
import torch
torch.manual_seed(0)
torch.set_num_threads(1)
layers = [torch.nn.Linear(64, 512), torch.nn.ReLU(), torch.nn.Linear(512, 10)]
model = torch.nn.Sequential(*layers)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
data = torch.utils.data.TensorDataset(torch.randn(12800, 64), torch.randint(0, 10, (12800,)))
for inp, target in torch.utils.data.DataLoader(data, batch_size=32):
    optimizer.zero_grad()
    torch.nn.functional.cross_entropy(model(inp), target).backward()
    optimizer.step()
"""
#: Guards of TraceML's gate: both runs must declare the same one.
GUARD = """
guard:
  schema_version: 1
  workload: {name: same}
  measurement: {start_step: 1, completed_steps: 400}
"""
BLOCK = 10


def bench(place: Path, *arguments: str) -> dict[str, Any]:
    """Run a bench; the content of its bench.json."""
    target = Path(tempfile.mkdtemp(dir=place))
    command = [*VOIR, "bench", "--run-dir", str(target), *arguments]
    subprocess.run(command, cwd=place, check=False, stdout=subprocess.DEVNULL)
    return {"directory": target, **json.loads((target / "bench.json").read_text())}


def rounds(found: dict[str, Any], side: str, key: str) -> dict[int, float]:
    """The figure of each counted process of a side, by round."""
    again = {each["repeats"] for each in found["processes"]}
    return {each["round"]: each[key] for each in found["processes"]
        if each["side"] == side and each["round"] and each["round"] not in again}  # fmt: skip


def step_seconds(found: dict[str, Any], side: str) -> dict[int, float]:
    """Mean seconds of a step, by round."""
    made = dict[int, float]()
    for each in found["processes"]:
        if each["side"] == side and each["round"]:
            facts = json.loads((found["directory"] / each["run"] / "run.json").read_text())
            task = facts["tasks"]["train"]
            seconds = task["loading"]["seconds"] + task["compute"]["seconds"]
            made[each["round"]] = seconds / task["steps"]
    return made


def of_voir(found: dict[str, Any], threshold: float) -> list[str]:
    """Verdicts on blocks of ten rounds."""
    a, b, control = (rounds(found, side, "value") for side in ("A", "B", CONTROL))
    made = []
    for first in range(1, len(b), BLOCK):
        block = [each for each in range(first, first + BLOCK) if each in a and each in b]
        with_control = [each for each in block if each in control]
        change = of_pairs([a[each] for each in block], [b[each] for each in block])
        other = [[side[each] for each in with_control] for side in (a, control, b)]
        verdict = judging.judged(change, "up", threshold)
        against = of_pairs(other[0], other[1]), of_pairs(other[1], other[2])
        made.append(judging.guarded(verdict, change, *against, threshold).verdict)
    return made


def of_paired_t(found: dict[str, Any]) -> list[bool]:
    """For blocks of ten rounds: whether the 95 % interval of wall times excludes no difference."""
    a, b = (rounds(found, side, "seconds") for side in "AB")
    made = []
    for first in range(1, len(b), BLOCK):
        block = [each for each in range(first, first + BLOCK) if each in a and each in b]
        interval = of_pairs([a[each] for each in block], [b[each] for each in block]).interval
        made.append(interval is not None and not interval[0] <= 1 <= interval[1])
    return made


class TraceML:
    """Its gate, with a summary of a real run as the form to fill in."""

    def __init__(self, command: str, place: Path) -> None:
        self._command, self._place = command, place
        (place / "traceml.yaml").write_text(GUARD)
        head = "import traceml_ai as traceml\ntraceml.init(mode='auto')\n"
        wrapped = SCRIPT.replace(
            "    optimizer.zero", "    with traceml.trace_step(model):\n        optimizer.zero"
        )
        wrapped = wrapped.replace("\n    torch.nn.f", "\n        torch.nn.f")
        wrapped = wrapped.replace("\n    optimizer.step", "\n        optimizer.step")
        (place / "traced.py").write_text(head + wrapped)
        run = [command, "run", "--run-name", "form", "traced.py"]
        subprocess.run(run, cwd=place, check=True, capture_output=True)
        self._form = (place / "logs/form/final_summary.json").read_text()

    def verdict(self, before: float, after: float) -> str:
        """What it says of a pair of step times in seconds."""
        for name, seconds in (("a.json", before), ("b.json", after)):
            summary = json.loads(self._form)
            fill(summary, 1000 * seconds)
            (self._place / name).write_text(json.dumps(summary))
        compared = [self._command, "compare", "a.json", "b.json", "--output", "compared"]
        threshold = ["--max-step-time-regression-pct", "5"]
        subprocess.run([*compared, *threshold], cwd=self._place, check=False, capture_output=True)
        found = json.loads((self._place / "compared.json").read_text())
        return str(policy(found)["result"])


def policy(found: Any) -> dict[str, Any]:
    """The decision for CI, wherever it is in the comparison."""
    if isinstance(found, dict):
        if "threshold_pct" in found:
            return found
        for each in found.values():
            if inside := policy(each):
                return inside
    return {}


def fill(summary: Any, milliseconds: float) -> None:
    """Replace every step time in a summary."""
    for key, value in summary.items() if isinstance(summary, dict) else ():
        if key in ("step_time_ms", "step_time_cpu_ms"):
            summary[key] = (
                {**value, "value": milliseconds} if isinstance(value, dict) else milliseconds
            )
        else:
            fill(value, milliseconds)


def same(place: Path, pairs: int, traceml: str | None) -> None:
    """Identical processes through each gate."""
    (place / "main.py").write_text(SCRIPT)
    found = bench(place, "--runs", str(pairs), "main.py", "--", "main.py")
    disturbed = sum(bool(each.get("disturbed")) for each in found["processes"])
    print(f"identical processes: {pairs} pairs, {disturbed} processes disturbed")
    a, b = step_seconds(found, "A"), step_seconds(found, "B")
    changes = [b[each] / a[each] - 1 for each in a if each in b]
    print(f"  step time, B against A: standard deviation {100 * statistics.stdev(changes):.1f} %")
    for threshold in (0.01, 0.03, 0.05):
        said = of_voir(found, threshold)
        wrong = sum(each in (judging.REGRESSION, judging.IMPROVEMENT) for each in said)
        none = said.count(judging.EQUIVALENT)
        print(f"  voir, threshold {threshold:.0%}: {wrong} of {len(said)} blocks called different, "
            f"{none} no difference")  # fmt: skip
    said_t = of_paired_t(found)
    print(f"  paired t on wall times: {sum(said_t)} of {len(said_t)} blocks called different")
    beyond = sum(each > 0.05 for each in changes), sum(abs(each) > 0.05 for each in changes)
    print(f"  one pair, 5 %: {beyond[0]} of {len(changes)} called slower, {beyond[1]} different")
    if traceml:
        gate = TraceML(traceml, place)
        results = [gate.verdict(a[each], b[each]) for each in a if each in b]
        counts = {each: results.count(each) for each in sorted(set(results))}
        print(f"  TraceML's compare: {counts}")


def slower(place: Path) -> None:
    """The example with and without a busy loop of 4 % of a step."""
    text = (ROOT / "examples/digits/main.py").read_text()
    (place / "old.py").write_text(text)
    found = bench(place, "--runs", "1", "old.py", "--epochs", "4")
    wait = 0.04 * statistics.mean(step_seconds(found, "A").values())
    step = next(line for line in text.splitlines() if line.strip() == "optimizer.step()")
    indent = step[: len(step) - len(step.lstrip())]
    loop = [f"until = time.perf_counter() + {wait}", "while time.perf_counter() < until: pass"]
    busy = "\n".join([step, *(indent + each for each in loop)])
    (place / "new.py").write_text(
        text.replace("import argparse", "import argparse, time").replace(step, busy)
    )
    for name in ("old.py", "new.py"):
        found = bench(place, "old.py", "--epochs", "4", "--", name, "--epochs", "4")
        verdict = found["verdict"]
        low, high = verdict["interval"]
        ratio, low, high = (100 * (each - 1) for each in (verdict["ratio"], low, high))
        control = 100 * (verdict["control"]["ratio"] - 1)
        print(f"the example against {name}: {verdict['verdict']}, {ratio:+.1f} % ({low:+.1f} to "
            f"{high:+.1f}), {verdict['n']} pairs; control {control:+.1f} %")  # fmt: skip


def harness(place: Path) -> None:
    """What a bench adds to its processes."""
    (place / "empty.py").write_text("")
    began = time.perf_counter()
    found = bench(place, "--runs", "20", "--until", "0", "--metric", "wall", "empty.py")
    whole = time.perf_counter() - began
    own = [each["seconds"] for each in found["processes"]]
    plain = []
    for _ in own:
        began = time.perf_counter()
        subprocess.run([sys.executable, "empty.py"], cwd=place, check=True)
        plain.append(time.perf_counter() - began)
    print(f"an empty script: {statistics.median(own):.3f} s under voir, "
        f"{statistics.median(plain):.3f} s under python; the bench adds "
        f"{(whole - sum(own)) / len(own):.3f} s a process, its own start included")  # fmt: skip


def reading(place: Path) -> None:
    """1,000 recorded processes."""
    (place / "main.py").write_text(SCRIPT)
    found = bench(place, "--runs", "2", "main.py", "--", "main.py")
    target, processes = found.pop("directory"), []
    for number in range(1, 501):
        for side in "AB":
            one = next(e for e in found["processes"] if e["side"] == side and e["round"])
            run = f"{side}/{number:03}"
            if not (target / run).exists():
                shutil.copytree(target / one["run"], target / run)
            processes.append({**one, "round": number, "run": run, "repeats": 0, "disturbed": []})
    (target / "bench.json").write_text(json.dumps({**found, "processes": processes}))
    began = time.perf_counter()
    subprocess.run([*VOIR, "compare", str(target)], check=True, stdout=subprocess.DEVNULL)
    print(f"voir compare of a bench of 1,000 processes: {time.perf_counter() - began:.2f} s")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--pairs", type=int, default=100)
    parts = ["same", "slower", "harness", "reading"]
    parser.add_argument("--parts", nargs="*", default=parts, choices=parts)
    parser.add_argument("--traceml", help="the command traceml of an environment with PyTorch")
    options = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = "1"
    with tempfile.TemporaryDirectory(prefix="voir-benchmark-") as directory:
        for part in options.parts:
            place = Path(directory) / part
            place.mkdir()
            if part == "same":
                same(place, options.pairs, options.traceml)
            else:
                {"slower": slower, "harness": harness, "reading": reading}[part](place)


if __name__ == "__main__":
    main()
