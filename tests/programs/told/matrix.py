"""Runs each program with each set of lines in several orders, and compares what voir says.

``VOIR_RECORDER=python python -m tests.programs.told.matrix ORDERS [PART OF A NAME]`` prints the
differences by case, as JSON. The recorder in Python reads the program's own clock, so that figures
are exact.
"""

from __future__ import annotations

import contextlib
import gc
import io
import json
import os
import sys
import tempfile
from collections.abc import Iterator
from functools import partial
from importlib import import_module
from itertools import pairwise, permutations
from multiprocessing import get_context
from pathlib import Path
from random import Random
from typing import Any

from tests.forkserver import renew

from .programs import PROGRAMS, TASKS, TELLING, TORCH, Program
from .truth import MS, T

#: Imported before the processes of the programs fork.
IMPORTED = (
    "instruments.advice", "instruments.auto", "overseer.cli.main", "overseer.engine.operators",
    "overseer.model.diagnosis", "overseer.probes.engine", "tests.model.test_alike", "torch._dynamo",
)  # fmt: skip
EVERY = {**PROGRAMS, **TELLING, **TASKS, **TORCH}


def sets(program: Program) -> Iterator[tuple[str, list[str]]]:
    """Sets of lines that make sense: the name says what they tell."""
    rest = [line for line in (program.loss, program.pause, *program.also) if line]
    for n, mark in enumerate(program.marks):
        yield f"mark{n}", [mark, *rest]
    for n, mark in enumerate(program.bare):
        yield f"bare{n}", [mark, *rest]
    for n, pair in enumerate(program.pairs):
        yield f"pair{n}", [pair, *rest]
        for m, mark in enumerate(program.marks):
            yield f"mark{m}+pair{n}", [mark, pair, *rest]
        for m, mark in enumerate(program.bare):
            yield f"bare{m}+pair{n}", [mark, pair, *rest]
    if program.loading:
        for n, mark in enumerate(program.marks):
            yield f"mark{n}+loading", [mark, program.loading, *rest]
        for n, pair in enumerate(program.pairs):
            yield f"pair{n}+loading", [pair, program.loading, *rest]
        if program.marks and program.pairs:
            lines = [program.marks[0], program.pairs[0], program.loading, *rest]
            yield "mark0+pair0+loading", lines


def cases(orders: int) -> dict[str, tuple[str, str, list[str]]]:
    """By name: the program, what is told, and the lines, in up to ``orders`` orders."""
    found = {}
    for name, program in EVERY.items():
        told_alone = [] if name not in TELLING else [program.loss, *program.also]
        alone = [("itself", [line for line in told_alone if line])] if name in TELLING else []
        for told, lines in [*alone, *sets(program)]:
            if program.updates and "pair" in told and "+pair" not in told:
                continue  # Each pair would be a step.
            every = list(permutations(lines))
            for number, order in enumerate(every[:: -(-len(every) // orders)]):
                found[f"{name}: {told} #{number}"] = name, told, list(order)
    return found


class Said:
    """What voir says of a program: by task, its steps."""

    def __init__(
        self, script: Path, lines: list[str], options: tuple[str, ...] = (), hooks: bool = False
    ) -> None:
        from instruments.auto import instrument_auto
        from instruments.rate import instrument_rates
        from overseer import Overseer
        from overseer.recorder import table

        self.first, self.events = len(table.rows), list[bytes]()
        self.steps: dict[str, list[Any]] = {}
        self.windows: list[dict[str, Any]] = []

        def instrument_lines(ov: Overseer) -> Any:
            ov.measuring.also(self._take)
            ov.measuring.read(self.events.append)
            ov.given.where("rate", task="train").subscribe(self.windows.append)
            yield ov.phases.load_script
            for line in lines:
                task, colon, selector = line.partition(": ")
                if colon:
                    ov.probe(selector).give(task=task)
                else:
                    ov.probe(line).give()

        T.begin()
        stock = [instrument_auto, instrument_rates] if hooks else [instrument_rates]
        overseer = Overseer([*stock, instrument_lines], stderr=io.StringIO())
        with contextlib.redirect_stdout(io.StringIO()):
            overseer(["--no-record", *options, str(script)])
        slugs = [problem.slug for problem in overseer.problems]
        self.problems = [slug for slug in slugs if slug != "late-hooks"]  # Torch is there.
        self.tasks = overseer.summary.get("tasks", {})
        self.fold = overseer.measuring.fold

    def _take(self, steps: list[Any]) -> None:
        for step in steps:
            self.steps.setdefault(step.task, []).append(step)


def total(values: Any) -> float:
    """Milliseconds."""
    return round(sum(values), 6)


def differences(program: Program, told: str, lines: list[str], said: Said) -> list[str]:
    """What voir says that is not so."""
    found: list[str] = []

    def same(what: str, is_said: Any, true: Any) -> None:
        if is_said != true:
            found.append(f"{what}: said {is_said}, true {true}")

    true = T.tasks["train"]["steps"]
    steps = said.steps.get("train", [])
    same("steps", len(steps), len(true))
    if found:
        return found
    items = [step.items for step in steps]
    own = [line for line in lines if ": " not in line]
    words = "as batch", "batch,", "batch)", "> batch"
    sized = any(w in line for line in own for w in words)
    if not (sized or "voir." in program.text or "DataLoader" in program.text):
        same("items", [i for i in items if i == i], [])
    else:
        same("items", items, [step["items"] for step in true])
    itself = "voir." in program.text and "step=True" not in program.text
    # Hooks see what a loader waits for, and loops that learn: these call T.step().
    loads = "pair" in told or "loading" in told or itself or program.hooks
    # A pair's or a mark's first step begins with it: what it waited for is not known.
    later = [(step, s) for step, s in zip(true, steps, strict=True) if not step["first"]]
    waited = [said.parts[0] / MS for _, said in later]
    spent = [sum(said.parts) / MS for _, said in later]
    if loads:
        same("loading", total(waited), total(step["load"] for step, _ in later))
    else:
        same("loading", any(step.loaded for step in steps), False)
    paused = sum(step["pause"] for step in true)
    if program.pause:
        same("pause", said.tasks["train"]["pause"]["seconds"] * 1e3, paused)
    same("time", total(spent), total(step["load"] + step["work"] for step, _ in later))
    first = sum(steps[0].parts) / MS
    # A function's first call, or a pair that no loop is around, begins without its batch.
    least = true[0]["work"] + (0.0 if program.calls else true[0]["load"])
    if "+loading" in told or not program.calls:
        same("first step", round(first, 6), least if not program.calls else first)
    losses = T.tasks["train"]["losses"]
    if program.loss:
        loss = said.tasks["train"]["loss"]
        same("losses", [loss["first"], loss["last"]], [losses[0], losses[-1]])
    same("problems", said.problems, [] if all(i == i for i in items) else ["batch-size"])
    return found + others(said)


def others(said: Said) -> list[str]:
    """What voir says of other tasks that is not so."""
    found: list[str] = []
    for task, known in T.tasks.items():
        if task == "train":
            continue
        true, steps = known["steps"], said.steps.get(task, [])
        if len(steps) != len(true):
            return [f"{task}: said {len(steps)} steps, true {len(true)}"]
        times = [round(sum(step.parts) / MS, 6) for step in steps]
        if task == "eval":
            real = [step["load"] + step["work"] for step in true]
            if [step.items for step in steps] != [step["items"] for step in true]:
                found.append(f"eval: items {[step.items for step in steps]}")
            after = [s["load"] + s["work"] for s in true if s["after"]]
            pause = said.tasks["train"]["pause"]["seconds"] * 1e3
            if round(pause, 6) != sum(after):
                found.append(f"eval: pauses {pause}, true {sum(after)}")
        else:
            ends = [step["at"] / MS for step in true]
            real = [None, *(b - a for a, b in pairwise(ends))]
            if task == "inner":  # The first after a step begins where that ended.
                real = [5.0 if n % 4 else None for n in range(len(true))]
        wrong = [(a, b) for a, b in zip(times[1:], real[1:], strict=True) if b and a != b]
        if wrong:
            found.append(f"{task}: times said and true {wrong[:3]}")
    return found


def optioned(program: Program, script: Path) -> Iterator[tuple[str, list[str]]]:
    """What options make of a program of which marks and pairs tell the same steps."""
    lines = [line for line in (program.marks[0], program.pairs[0], program.loss) if line]
    said = Said(script, lines)
    plain = said.tasks["train"]
    n, items = plain["steps"], plain.get("items")
    for only in ("step", "wrap"):
        told = Said(script, lines, ("--metric", only)).tasks["train"]
        sized = only == "step" or "batch," in program.pairs[0]
        true = n, items if sized else None
        yield f"--metric {only}", [] if (told["steps"], told.get("items")) == true else [told]
    told = Said(script, lines, ("--items-per-step", "3")).tasks["train"]
    wrong = told["steps"] != n or told.get("items") != (items and 3 * items)
    yield "--items-per-step", [told] if wrong else []
    told = Said(script, lines, ("--skip", "3")).tasks["train"]
    wrong = (told["steps"], told["rate"]["skipped"], told["rate"]["n"]) != (n, 3, n - 3)
    yield "--skip", [told] if wrong else []
    windows = Said(script, lines, ("--interval", "5", "--train-rate")).windows
    steps = said.steps["train"]
    rates = []
    for at in range(0, n, 5):
        some = steps[at : at + 5]
        seconds = sum(sum(step.parts) for step in some) / 1e9
        known = all(step.items == step.items for step in some)
        rates.append(round((sum(s.items for s in some) if known else len(some)) / seconds, 6))
    found = [round(window["rate"], 6) for window in windows]
    yield "--interval", [] if found == rates else [found, rates]


def _compare(said: Said, case: str) -> None:
    """Compare steps counted together with steps counted one by one."""
    from overseer.recorder import table
    from tests.model.test_alike import compare

    compare(table.rows, b"".join(said.events), Random(case), first=said.first)


def tried(program: str, orders: int, wanted: str = "") -> dict[str, list[str]]:
    """What differs, by case, of one program; in a fork of the process that is prepared."""
    renew(os.getppid())
    found: dict[str, list[str]] = {}
    with tempfile.TemporaryDirectory() as directory, contextlib.chdir(directory):
        script, it = Path(directory) / "main.py", EVERY[program]
        for name, (of, told, lines) in cases(orders).items():
            if of != program or wanted not in name:
                continue
            script.write_text(it.script)
            try:
                said = Said(script, lines, hooks=it.hooks)
                found[name] = differences(it, told, lines, said)
                _compare(said, name)
            except Exception as error:
                found[name] = [f"{type(error).__name__}: {error}"]
        if program in PROGRAMS and it.marks and it.pairs and not it.updates and wanted in program:
            script.write_text(it.script)
            found |= {f"{program}: {name} #0": wrong for name, wrong in optioned(it, script)}
    return found


def prepare() -> None:
    """Import here what the process of each program would import."""
    from overseer.recorder import fallback, recorder

    assert recorder is fallback
    fallback.now = T.now  # Before others import it.
    for name in IMPORTED:
        with contextlib.suppress(ImportError):
            import_module(name)
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(1)
    gc.freeze()


def main(orders: str, *wanted: str) -> None:
    """Run all cases, or those whose name has the argument in it; each program in a process."""
    prepare()
    found: dict[str, list[str]] = {}
    one = partial(tried, orders=int(orders), wanted="".join(wanted))
    with get_context("fork").Pool(2, maxtasksperchild=1) as processes:
        for differing in processes.imap(one, EVERY):
            found |= differing
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main(*sys.argv[1:])
