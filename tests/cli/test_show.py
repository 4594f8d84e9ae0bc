"""``voir show`` and ``voir runs``: runs that have ended, go on, were killed; and which is meant."""

from __future__ import annotations

import json
import os
import re
import socket
from pathlib import Path
from typing import Any

import pytest

from overseer.cli import runs as listing
from overseer.cli.commands import Terminal
from overseer.cli.runs import newest, run_directory
from overseer.errors import VoirError
from overseer.views.text import TO
from tests.running import Place

from .said import said

ENDED = {"ended": "2026-01-01T00:00:05Z", "exit_status": 0, "seconds": 5.0}
HERE = {"provenance": {"hostname": socket.gethostname()}}
FAR = {"provenance": {"hostname": "elsewhere"}}
TASK = {"steps": 9, "units": "items", "rate": {"wall": 31.0, "steady": 32.0},
        "loss": {"first": 2.5, "last": 0.5}}  # fmt: skip


def put(directory: Path, started: str = "2026-01-01T00:00:00Z", **more: Any) -> Path:
    directory.mkdir(parents=True, exist_ok=True)
    facts = {"script": "main.py", "started": started, "pid": os.getpid(), **more}
    (directory / "run.json").write_text(json.dumps(facts, indent=2))
    return directory


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Three runs; their names are in another order than their beginnings."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("VOIR_RUN_DIR", raising=False)
    monkeypatch.setenv("TZ", "UTC")
    base = tmp_path / "voir-runs"
    tasks = {"eval": {"steps": 20}, "train": TASK}
    put(base / "c", "2020-01-01T10:00:00.5Z", **{**ENDED, "script": "/x/oldest.py"})
    put(base / "a", "2020-01-02T10:00:00.5Z", ended="x", ended_by="killed", tasks=tasks)
    put(base / "b/rank0", "2020-01-03T10:00:00.5Z", **ENDED, world_size=2)
    (base / "notes").mkdir()
    (base / "README").touch()
    return base


NAMED = {None: "b", "-1": "b", "-2": "a", "-3": "c", "voir-runs": "b", "voir-runs/c": "c",
         "voir-runs/c/run.json": "c/run.json", "voir-runs/b/rank0": "b/rank0"}  # fmt: skip


def test_a_run_is_named_by_its_path_or_how_far_back_it_is(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for named, found in NAMED.items():
        assert run_directory(named) == Path("voir-runs") / found
    with pytest.raises(VoirError, match=r"^-4 is further back than the 3 existing runs"):
        run_directory("-4")
    monkeypatch.setenv("VOIR_RUN_DIR", "elsewhere")
    with pytest.raises(VoirError, match=r"^elsewhere/ contains no run"):
        run_directory(None)
    place.rename("elsewhere")
    assert said("show").startswith("voir: main.py · 1 of 2 ranks · finished")
    assert "  A elsewhere/a · main.py" in said("compare")


def test_of_each_run_only_the_beginning_is_read_to_find_the_newest(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started = []
    for n in range(100):
        begun = f"2026-01-01T00:{n // 60:02}:{n % 60:02}Z"
        started.append(put(place / f"{n * 79 % 100}", begun, provenance="x" * 10_000))
    monkeypatch.setattr(listing, "read_run", None)
    assert newest(place)[:100] == started[::-1]


def test_all_of_a_run_is_shown_or_its_facts_for_programs(place: Path) -> None:
    put(place / "c", app={f"key{n}": n for n in range(20)}, **ENDED)
    assert "key19" not in said("show", "voir-runs/c")
    assert "key19 19" in said("show", "voir-runs/c", "--all")
    facts = json.loads(said("show", "voir-runs/c", "--json"))
    assert (facts["app"]["key19"], facts["seconds"]) == (19, 5.0)
    assert json.loads(said("show", "voir-runs/b", "--json"))["world_size"] == 2


def test_a_file_of_events_that_is_not_whole_is_told(place: Path) -> None:
    for line, partial in (('{"t": 1}\n', False), ('{"t": 1', True)):
        (place / "c/metrics.jsonl").write_text(line)
        told = "partial   metrics.jsonl ends in the middle of a line" in said("show", "voir-runs/c")
        assert told == partial


def test_runs_are_listed_newest_first(place: Path) -> None:
    (place / "d").mkdir()
    (place / "d/run.json").write_text("{")
    lines = [" ".join(line.split()) for line in said("runs").splitlines()]
    assert "voir-runs/d/run.json is not a valid run.json" in lines.pop(1)
    assert lines == [
        "run started script ranks steady overall loss took ended",
        "-2 2020-01-03 main.py 1 5.00 s finished",
        "-3 2020-01-02 main.py 32.0 items/s 31.0 2.5 → 0.5 killed",
        "-4 2020-01-01 oldest.py 5.00 s finished",
    ]
    two = said("runs", "voir-runs", "-n", "2").splitlines()
    assert [line.split()[0] for line in two] == ["run", "-1", "-2"]
    newest, killed, oldest = json.loads(said("runs", "--json"))[1:]
    assert (newest["run"], newest["exit_status"], newest["tasks"]) == ("voir-runs/b", 0, {})
    assert (oldest["seconds"], oldest["ended"]) == (5.0, "finished")
    assert (killed["ended"], killed["started"]) == ("killed", "2020-01-02T10:00:00.5Z")
    assert killed["tasks"] == {"eval": {"steps": 20}, "train": TASK}


def test_runs_are_named_by_what_they_were_called_and_compared_by_their_tags(place: Path) -> None:
    for n in range(4):
        labels = {"name": "base" if n < 2 else "lr", "tags": ["sweep"] if n else []}
        argv = ["voir", "--name", "x", "main.py", "--epochs", "3", "--lr", str(n)]
        overall = {"steps": 9, "rate": {"wall": 31.0}}
        put(place / f"n{n}", f"2021-01-0{n + 1}T00:00:00Z", argv=argv, **labels, **ENDED,
            tasks={"train": overall})  # fmt: skip
    put(place / "n4", "2022-01-01T00:00:00Z", script="other.py", argv=["voir", "other.py", "-q"])
    found = {"base": "n1", "lr": "n3", "sweep": "n3"}
    for label, name in found.items():
        assert run_directory(label) == Path("voir-runs") / name
        assert f"voir-runs/{name}" in said("show", label)
    assert run_directory("nobody") == Path("nobody")
    base, sweep = json.loads(said("compare", "base", "sweep", "--json"))["sides"]
    assert base["runs"] == ["voir-runs/n1"]
    assert sweep["runs"] == [f"voir-runs/n{n}" for n in (3, 2, 1)]
    lines = [" ".join(line.split()) for line in said("runs", "-n", "5").splitlines()]
    assert lines == [
        "run name started script overall took ended arguments",
        "-1 2022-01-01 other.py did not finish",
        "-2 lr [sweep] 2021-01-04 main.py 31.0 items/s 5.00 s finished --lr 3",
        "-3 lr [sweep] 2021-01-03 main.py 31.0 items/s 5.00 s finished --lr 2",
        "-4 base [sweep] 2021-01-02 main.py 31.0 items/s 5.00 s finished --lr 1",
        "-5 base 2021-01-01 main.py 31.0 items/s 5.00 s finished --lr 0",
    ]
    assert json.loads(said("runs", "--json"))[1]["name"] == "lr"
    narrow = "".join(listing.runs(["-n", "5"], Terminal(80, height=9))).splitlines()
    assert max(map(len, narrow)) <= 80
    assert narrow[3:5] == ["     --lr 3", narrow[4]]


def test_a_run_that_has_ended_is_shown_as_it_was_at_its_end(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.write("main.py", "from voir import give\nfor n in range(3):\n    give(loss=n)\n")
    first = place.voir("--run-dir", "run", "main.py").stderr
    again = place.voir("show", "run")
    assert (again.status, again.stderr, again.stdout) == (0, "", first)
    labels = "--name", "base", "--tag", "a", "--tag", "b"
    called = place.voir(*labels, "main.py").stderr.splitlines()
    assert called[0].startswith("voir: main.py · base · finished")
    assert (place.record()["name"], place.record()["tags"]) == ("base", ["a", "b"])
    assert place.voir("show", "base").stdout.splitlines() == called
    for label in ("", "-1", "a/b", "a,b", "."):
        refused = place.voir("--name", label, "main.py")
        assert (refused.status, "names no run" in refused.stderr) == (2, True)
    plain = place.voir("show", "run", env={"PYTHONIOENCODING": "ascii"})
    assert plain.stdout.startswith("voir: main.py | finished")


@pytest.mark.parametrize(
    ("found", "first"),
    [(HERE, "running"), ({**HERE, "pid": 2**22 + 1}, "killed"),
     (FAR, "running, or did not finish")],
)  # fmt: skip
def test_a_run_without_an_end_goes_on_or_was_killed(
    tmp_path: Path, found: dict[str, Any], first: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    killed = "overseer.rundir.killed"
    monkeypatch.setattr(f"{killed}.now_doing", lambda header: "running")
    monkeypatch.setattr(f"{killed}.lives", lambda header: "pid" not in found)
    monkeypatch.setattr(f"{killed}.how", lambda header: "killed")
    monkeypatch.setattr(f"{killed}._idle", lambda *args: {})
    if "pid" not in found:
        monkeypatch.setattr(f"{killed}.read_header", lambda directory: object())
    put(tmp_path, seconds=5.0, tasks={"train": TASK}, **found)
    shown = said("show", str(tmp_path))
    assert ("; figures of " in shown) == (first == "running")
    lines = re.sub(r"; figures of [\d.]+ s ago", "", shown).splitlines()
    assert lines[:2] == [f"voir: main.py · {first} · 5.00 s", "  train     9 steps"]


def test_a_job_has_one_summary_and_each_rank_its_own(tmp_path: Path) -> None:
    parallel = {rank: {"data": [rank, 3], "by": "DDP"} for rank in (0, 2)}
    for rank in (0, 2):
        task = {**TASK, "items": 90, "rate": {"wall": 10.0 + rank}, "loss": {"last": 1 + rank}}
        put(tmp_path / f"rank{rank}", **ENDED, rank=rank, world_size=3,
            parallel=parallel[rank], tasks={"train": task})  # fmt: skip
    lines = said("show", str(tmp_path)).splitlines()
    assert lines[0] == "voir: main.py · 2 of 3 ranks · finished · 5.00 s"
    assert "  train     9 steps · 180 items" in lines
    assert "    rate    20.0 items/s overall" in lines  # Over the time of the job: 9 s.
    assert f"    ranks   10.0{TO}12.0 items/s each · slowest 0" in lines
    assert "    loss    1 · of rank 0" in lines
    assert "  missing   rank 1 recorded nothing" in lines
    (facts,) = [json.loads(said("show", "--json", str(tmp_path)))]
    assert facts["job"]["missing"] == [1]
    assert facts["tasks"]["train"]["rate"]["wall"] == 20.0
    one = said("show", "--rank", "2", str(tmp_path)).splitlines()
    assert one[0] == "voir: main.py · rank 2 of 3 · finished · 5.00 s"
    with pytest.raises(VoirError, match="has no rank 1"):
        said("show", "--rank", "1", str(tmp_path))


def test_a_run_that_is_no_rank_has_no_rank_to_show(tmp_path: Path) -> None:
    """Not even if it is the directory of one process of several."""
    cases = [({}, "run", "the run of one process"), ({}, "process1", "It is process 1 alone"),
             ({"rank": 2, "world_size": 4}, "rank2", "It is rank 2 alone")]  # fmt: skip
    for more, name, remedy in cases:
        put(tmp_path / name, **ENDED, **more)
        with pytest.raises(VoirError, match="has no rank 3") as refused:
            said("show", "--rank", "3", str(tmp_path / name))
        assert remedy in str(refused.value)


def test_directories_of_two_machines_are_shown_as_one_job(tmp_path: Path) -> None:
    for rank in range(4):
        put(tmp_path / f"disk{rank // 2}/job/rank{rank}", **ENDED, rank=rank, world_size=4,
            parallel={"data": [rank, 4], "by": "DDP"})  # fmt: skip
    named = [str(tmp_path / f"disk{disk}/job") for disk in range(2)]
    assert "2 of 4 ranks" in said("show", named[0])
    assert said("show", "--as-one-job", *named).startswith("voir: main.py · 4 ranks · finished")
    with pytest.raises(VoirError, match="both rank 0"):
        said("show", "--as-one-job", named[0], named[0])
    with pytest.raises(VoirError, match="names no run"):
        said("show", "--as-one-job")


def test_of_a_job_the_worst_result_of_each_check_is_shown(tmp_path: Path) -> None:
    for rank, verdict in enumerate(("PASS", "FAIL")):
        checks = [
            {"check": name, "verdict": said_of, "evidence": f"{rank} seen"}
            for name, said_of in (("steps", "PASS"), ("loss", verdict))
        ]
        put(tmp_path / f"rank{rank}", **ENDED, rank=rank, world_size=2, verify=checks)
    lines = said("show", str(tmp_path)).splitlines()
    assert (
        lines[0]
        == "voir: main.py · 2 ranks · finished · 5.00 s · checks of rank 0 · 1 PASS · 1 FAIL"
    )
    assert "  PASS  steps         0 seen" in lines
    assert "  FAIL  loss          rank 1: 1 seen" in lines
