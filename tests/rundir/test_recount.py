"""The figures of a killed run are those of its steps file, computed as while it went on."""

from __future__ import annotations

import json
import os
import random
import tracemalloc
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from overseer.errors import VoirError
from overseer.model.fold import Fold
from overseer.model.spans import parse_span
from overseer.model.steps import Step
from overseer.model.summary import Summary
from overseer.rundir.killed import as_it_is
from overseer.rundir.losses import losses_by_step
from overseer.rundir.reading import read_run
from overseer.rundir.recount import RECOUNTED, recounted
from overseer.rundir.steps import LOADED, LOSS_GIVEN, OF_BACKWARD, ROW, header, read_steps
from overseer.rundir.stepsfile import StepsFile
from overseer.rundir.tables import open_database
from overseer.rundir.tensorboard import event_file, scalars
from tests.cli.said import said
from tests.model.test_alike import BETWEEN, TURNS, varied, written
from tests.rundir.test_steps import FOREIGN
from tests.running import Place

NAN = float("nan")


class Live:
    """A random script's steps in a file, and the figures that they had while it ran."""

    def __init__(self, directory: Path, turn: str, seed: int, skip: str | None) -> None:
        chance, steps = random.Random(f"{turn} {seed}"), list[Step]()
        text = "made O;" if "opt O" in TURNS[turn] else ""
        for _ in range(4):
            text += f"{chance.randrange(20, 60)} {{ {TURNS[turn]} }}; {chance.choice(BETWEEN)};"
        sites, data = written(text)
        fold = Fold(sites, steps.append, together=steps.append)
        fold.feed(varied(data, chance))
        for task in fold.tasks.values():
            task.end_all()
        summary = Summary(fold, parse_span(skip, "--skip") if skip else None, 2)
        summary.add(steps)
        file = StepsFile(lambda: directory, lambda problem: None, 1.0, 0, 2, skip)
        file.add(steps)
        file.flush()
        self.about = {"steps": file.section()}
        self.tasks = {n: t for n, t in summary.section(final=True).items() if "steps" in t}
        ends: dict[str, int] = {}
        for step in steps:
            ends[step.task] = max(step.end, ends.get(step.task, 0))
        for name, task in fold.tasks.items():
            if task.given and name in self.tasks:  # Rows do not have all losses that are given.
                self.tasks[name]["loss"] = "given"
            if name in self.tasks and task.end > ends[name]:  # An evaluation after the last step.
                del self.tasks[name]["rate"]["wall"]


@pytest.mark.parametrize("skip", [None, "7", "0.02s"])
@pytest.mark.parametrize("turn", TURNS)
def test_the_figures_are_those_that_the_run_computed(
    tmp_path: Path, turn: str, skip: str | None
) -> None:
    for seed in range(3):
        run = Live(tmp_path, turn, seed, skip)
        found = recounted(tmp_path, run.about)
        for name, task in run.tasks.items():
            if "wall" not in task["rate"]:
                del found[name]["rate"]["wall"]
            for key in RECOUNTED | ({"loss"} if task.get("loss") != "given" else set()):
                assert repr(found[name].get(key)) == repr(task.get(key)), (name, seed)


def row(number: int, task: bytes = b"train", **more: Any) -> bytes:
    """A row of 10 ms; its loss is that of ``backward``."""
    values: dict[str, Any] = {
        "step": number, "task": task, "start": number * 10**7, "end": (number + 1) * 10**7,
        "items": 4.0, "loss": 1 / number, "loading": 10**6, "forward": 2 * 10**6,
        "backward": 3 * 10**6, "optimizer": 10**6, "communication": 0, "other": 3 * 10**6,
        "pause": 0, "thread": 1, "flags": LOADED | OF_BACKWARD,
    }  # fmt: skip
    return ROW.pack(*(values | more).values())


def put(directory: Path, rows: list[bytes], **facts: Any) -> dict[str, Any]:
    """A killed run of these rows; returns its facts, as they are read."""
    (directory / "steps.npy").write_bytes(header(len(rows)) + b"".join(rows))
    return killed(directory, **facts)


def killed(directory: Path, **more: Any) -> dict[str, Any]:
    host = {"hostname": os.uname().nodename}
    facts = {"pid": 4_194_305, "started": "2026-01-01T00:00:00Z", "provenance": host, **more}
    (directory / "run.json").write_text(json.dumps(facts))
    read = read_run(directory)
    assert (read.facts, read.unfinished) == (as_it_is(directory, facts), "ended" not in facts)
    return read.facts


def test_what_rows_do_not_tell_stays_as_the_record_has_it(tmp_path: Path) -> None:
    pause = {"seconds": 3.0, "count": 1}
    before = {"steps": 60, "items_unknown": "?", "pause": pause, "rate": {"clock": "cuda events"}}
    facts = put(
        tmp_path,
        [row(n) for n in range(1, 101)],
        tasks={"other": {"steps": 2}, "train": before},
        steps={"path": "steps.npy", "rows": 60, "stride": 1, "start": 0},
    )
    task = facts["tasks"]["train"]
    assert [*facts["tasks"]] == ["train", "other"] and facts["tasks"]["other"] == {"steps": 2}
    assert (task["steps"], task["items"], task["pause"]) == (100, 400, pause)
    assert (task["rate"]["clock"], task["rate"]["steady"]) == ("cuda events", pytest.approx(400))
    assert task["loss"] == {"first": 1.0, "last": 0.01, "min": 0.01}
    assert "items_unknown" not in task and facts["ended_by"] == "killed"


@pytest.mark.parametrize(
    ("known", "about"),
    [
        ({"steps": 101}, {}),  # The last step may not be in the file yet.
        ({"steps": 100}, {}),
        ({"steps_at_least": 5}, {}),
        ({"steps": 5}, {"stride": 2}),
    ],
)
def test_figures_that_are_newer_or_complete_stay(
    tmp_path: Path, known: dict[str, Any], about: dict[str, Any]
) -> None:
    facts = put(tmp_path, [row(n) for n in range(1, 101)], tasks={"train": known}, steps=about)
    assert facts["tasks"] == {"train": known} and "problems" not in facts


def test_rows_that_were_thinned_after_the_last_record_determine_nothing(tmp_path: Path) -> None:
    known = {"train": {"steps": 5}}
    facts = put(tmp_path, [row(n) for n in range(2, 101, 2)], tasks=known, steps={"stride": 1})
    assert facts["tasks"] == known


def test_losses_that_the_script_gives_stay_as_the_record_has_them(tmp_path: Path) -> None:
    flags = LOADED | OF_BACKWARD
    rows = [row(n, flags=flags | (LOSS_GIVEN if n > 40 else 0)) for n in range(1, 101)]
    known = {"train": {"steps": 60, "loss": {"first": 7.0, "last": 6.0, "min": 5.0}}}
    task = put(tmp_path, rows, tasks=known)["tasks"]["train"]
    assert (task["steps"], task["loss"]) == (100, known["train"]["loss"])


def test_losses_and_items_that_are_nan(tmp_path: Path) -> None:
    rows = [row(n, loss=NAN if n % 7 == 0 else 0.5, items=NAN) for n in range(1, 101)]
    task = put(tmp_path, rows)["tasks"]["train"]
    assert (task["units"], task["loss"]["not_finite"], task["loss"]["last"]) == ("steps", 14, 0.5)
    assert "items" not in task


def test_names_that_were_shortened_are_whole_again(tmp_path: Path) -> None:
    rows = [row(n, b"x" * 22 + b"~1") for n in range(1, 101)]
    facts = put(tmp_path, rows, steps={"names": {"x" * 22 + "~1": "x" * 100}})
    assert [*facts["tasks"]] == ["x" * 100]


def test_ten_thousand_tasks_are_read(tmp_path: Path) -> None:
    facts = put(tmp_path, [row(1, b"task %d" % n) for n in range(10_000)])
    assert 1 <= len(facts["tasks"]) <= 10_000
    assert "problems" not in facts


@pytest.mark.parametrize(
    "change",
    [
        {"step": 0}, {"step": 4}, {"step": -(1 << 63)}, {"loading": -1}, {"other": (1 << 63) - 1},
        {"items": -1.0}, {"items": float("inf")}, {"items": 1e300}, {"pause": 1 << 62},
    ],
)  # fmt: skip
def test_a_row_that_is_no_step_is_said_in_a_sentence(
    tmp_path: Path, change: dict[str, Any]
) -> None:
    rows = [row(n) for n in range(1, 101)]
    rows[49] = row(**({"number": 50} | change)) if "step" not in change else row(50, **change)
    facts = put(tmp_path, rows, tasks={"train": {"steps": 7}}, problems="what?")
    (problem,) = facts["problems"]
    assert facts["tasks"] == {"train": {"steps": 7}} and problem["slug"] == "steps-damaged"
    assert problem["what"].endswith("steps.npy is damaged: step 1 or one after it is invalid")


@pytest.mark.parametrize("name", FOREIGN)
def test_another_file_is_said_in_a_sentence(tmp_path: Path, name: str) -> None:
    (tmp_path / "steps.npy").write_bytes(FOREIGN[name])
    facts = killed(tmp_path, tasks={"train": {"steps": 7}}, problems=[1])
    assert facts["tasks"] == {"train": {"steps": 7}}
    assert [facts["problems"][0], facts["problems"][1]["slug"]] == [1, "steps-damaged"]


def test_any_clock_and_any_byte_is_read(tmp_path: Path) -> None:
    chance = random.Random(3)
    rows = [row(n, chance.choice([b"a", b"train"])) for n in range(1, 200)]
    for at in range(0, 199, 9):  # A clock that jumps.
        rows[at] = row(at + 1, start=chance.randrange(-(1 << 63), 1 << 63), end=-5)
    whole = b"".join(rows)
    assert put(tmp_path, rows)["tasks"]["train"]["steps"] >= 190
    for _ in range(150):
        data = bytearray(whole)
        for _ in range(chance.randrange(1, 4)):
            data[chance.randrange(len(data))] = chance.randrange(256)
        (tmp_path / "steps.npy").write_bytes(header(199) + data[: chance.randrange(len(data))])
        facts = killed(tmp_path, tasks={"train": {"steps": 1}}, steps={"skip": chance.choice("3x")})
        assert facts["tasks"]["train"]["steps"] >= 1


def readers(directory: Path, report: Any) -> None:
    """Read a run's steps in every other way."""
    run = read_run(directory)
    losses_by_step(run, report)
    assert all(len(each) > 20 for each in event_file(0.0, scalars(run)))
    with closing(open_database(run, report=report)) as database:
        database.execute("select count(*), max(seconds) from steps").fetchall()


@pytest.mark.parametrize("name", FOREIGN)
def test_other_readers_go_on_without_a_file_that_is_none_of_voirs(
    tmp_path: Path, name: str
) -> None:
    (tmp_path / "steps.npy").write_bytes(FOREIGN[name])
    killed(tmp_path, tasks={"train": {"steps": 7}})
    errors: list[VoirError] = []
    readers(tmp_path, errors.append)
    assert [error.slug for error in errors] == ["steps-damaged"] * 2


def test_other_readers_take_any_rows(tmp_path: Path) -> None:
    chance = random.Random(5)
    whole, odd = b"".join(map(row, range(1, 60))), {"train": {"steps": 1}, "a": 3, "b": [1]}
    for n in range(60):
        data = bytearray(chance.randbytes(len(whole)) if n % 3 == 0 else whole)
        data[chance.randrange(len(data))] = chance.randrange(256)
        (tmp_path / "steps.npy").write_bytes(header(59) + data[: chance.randrange(len(data))])
        about = {"names": {"train": chance.choice([[1], "a", "train"])}, "start": "x"}
        killed(tmp_path, tasks=odd, steps=about)
        readers(tmp_path, pytest.fail)


@pytest.mark.parametrize(
    "argv", [("sql", "run", "select count(*) from steps"), ("compare", "run", "run")]
)
def test_commands_say_that_the_file_is_damaged_and_go_on(
    tmp_path: Path, argv: tuple[str, ...], monkeypatch: Any, capsys: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("run").mkdir()
    Path("run/steps.npy").write_text("?")
    killed(Path("run"), ended="2026-01-01T00:00:09Z", tasks={"train": {"steps": 7}})
    assert said(*argv).strip()
    errors = capsys.readouterr().err
    assert "voir: run/steps.npy is not a file of steps: it is not a NumPy file; the" in errors


def test_memory_is_bounded_however_many_rows_there_are(tmp_path: Path) -> None:
    (tmp_path / "steps.npy").write_bytes(header(10_000_000) + b"".join(map(row, range(1, 9_000))))
    tracemalloc.start()
    assert recounted(tmp_path, {})["train"]["steps"] == 8_999
    assert tracemalloc.get_traced_memory()[1] < 24 << 20
    tracemalloc.stop()


SCRIPT = """
    import json, os, signal, time
    from pathlib import Path
    import voir
    from overseer.rundir import recording, stepsfile
    from overseer.rundir.steps import read_steps

    run, step = Path("run"), 0
    while not (run / "run.json").exists() or '"stride"' not in (run / "run.json").read_text():
        step += 1
        voir.give(step=step, batch_size=2)
        time.sleep(0.001)
    recording.Recording._rewrite = lambda self: None
    stepsfile.INTERVAL_NS = 0
    while len(read_steps(run / "steps.npy")) < 100 + json.loads((run / "run.json").read_text())[
        "tasks"]["train"]["steps"]:
        step += 1
        voir.give(step=step, batch_size=2)
        time.sleep(0.001)
    os.kill(os.getpid(), signal.SIGKILL)
    """


def test_a_killed_run_has_the_figures_of_its_last_rows(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.write("main.py", SCRIPT)
    assert place.voir("--run-dir", "run", "main.py").status == -9
    written = json.loads((tmp_path / "run/run.json").read_text())["tasks"]["train"]
    task = read_run(tmp_path / "run").facts["tasks"]["train"]
    steps = max(one["step"] for one in read_steps(tmp_path / "run/steps.npy"))
    assert (task["steps"], task["items"]) == (steps, 2 * steps)
    assert steps >= written["steps"] + 100
    shown = place.voir("show", "run")
    assert f"{steps:,} steps" in shown.stdout or f"{2 * steps:,}" in shown.stdout, shown.stdout
    assert json.loads((tmp_path / "run/run.json").read_text())["tasks"]["train"] == task
