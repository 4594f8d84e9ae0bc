"""``voir show``: a run's summary again, and with ``--watch`` whenever its files change."""

from __future__ import annotations

import json
import os
import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from overseer.cli.show import show
from overseer.cli.summary import render
from overseer.errors import VoirError
from overseer.record.runfile import utc
from tests.running import Place

ENDED = {"ended": "2026-01-01T00:00:05Z", "exit_status": 0, "seconds": 5.0}


def facts(**more: Any) -> dict[str, Any]:
    """What this process would record at its start."""
    return {
        "script": "main.py",
        "started": utc(time.time_ns()),
        "pid": os.getpid(),
        "provenance": {"hostname": socket.gethostname()},
        **more,
    }


def put(directory: Path, found: dict[str, Any], *events: dict[str, Any]) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    (directory / "run.json").write_text(json.dumps(found))
    with (directory / "metrics.jsonl").open("a") as file:
        file.writelines(f"{json.dumps(event)}\n" for event in events)


def said(*argv: str) -> str:
    return "".join(show(list(argv), 80))


def test_a_run_that_has_ended_is_shown_as_it_was_at_its_end(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.write("main.py", "from voir import give\nfor n in range(3):\n    give(loss=n)\n")
    first = place.voir("--run-dir", "run", "main.py").stderr
    again = place.voir("show", "run")
    assert (again.status, again.stderr, again.stdout) == (0, "", first)


def test_a_stream_that_lacks_a_character_gets_it_escaped(tmp_path: Path) -> None:
    put(tmp_path / "run", facts(**ENDED))
    done = Place(tmp_path).voir("show", "run", env={"PYTHONIOENCODING": "ascii"})
    assert (done.status, done.stderr) == (0, "")
    assert done.stdout.startswith("voir: main.py \\xb7 finished")


def test_checks_are_shown_as_checks(tmp_path: Path) -> None:
    checks = [{"check": "loss", "verdict": "PASS", "evidence": "3 seen"}]
    put(tmp_path, facts(**ENDED, verify=checks))
    assert "PASS  loss          3 seen" in said(str(tmp_path))


def test_a_run_that_goes_on_is_shown_as_far_as_it_is(tmp_path: Path) -> None:
    rate = {"t": 2.0, "rate": 30.0, "units": "items/s"}
    put(tmp_path, facts(), {"t": 1.0, "loss": 2.5}, {"t": 1.0, "step": True}, rate)
    assert said(str(tmp_path)).splitlines()[:4] == [
        "voir: main.py · goes on · 2.00 s",
        "  train     1 step",
        "    rate    30.0 items/s · in the last window",
        "            median 30.0",
    ]


def test_a_run_that_was_killed_is_told_from_one_that_goes_on(tmp_path: Path) -> None:
    put(tmp_path, facts(pid=2**22 + 1))
    assert "main.py · did not finish" in said(str(tmp_path))
    put(tmp_path, facts(provenance={"hostname": "elsewhere"}))
    assert "main.py · goes on, or did not finish" in said(str(tmp_path))


def test_files_that_are_not_whole_are_told(tmp_path: Path) -> None:
    put(tmp_path, facts(**ENDED))
    with (tmp_path / "metrics.jsonl").open("a") as file:
        file.write('{"t": 1')
    assert "partial   metrics.jsonl ends within a line" in said(str(tmp_path))


def test_of_a_job_each_rank_is_shown_and_those_that_are_missing_are_named(tmp_path: Path) -> None:
    for rank in (0, 2):
        put(tmp_path / f"rank{rank}", facts(**ENDED, rank=rank, world_size=3))
    lines = said(str(tmp_path)).splitlines()
    assert [line for line in lines if "main.py" in line] == [
        "voir: main.py · rank 0 of 3 · finished · 5.00 s",
        "voir: main.py · rank 2 of 3 · finished · 5.00 s",
    ]
    assert lines[-1] == "  missing   rank 1 has recorded nothing"


def test_without_a_name_it_is_the_latest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(VoirError, match="holds no run"):
        said()
    for age, name in enumerate(["new", "old", "older"]):
        put(tmp_path / "voir-runs" / name, facts(**ENDED, script=f"{name}.py"))
        os.utime(tmp_path / "voir-runs" / name, (1e9 - age, 1e9 - age))
    assert said().startswith("voir: new.py")


@pytest.mark.parametrize("argv", [["x", "y"], ["--every", "0", "x"], ["--every", "soon", "x"]])
def test_a_wrong_command_line_is_refused(argv: list[str]) -> None:
    with pytest.raises(VoirError) as refused:
        said(*argv)
    assert refused.value.slug == "usage"


# Watching


class Waiting:
    """What happens while the watcher waits: one act each time."""

    def __init__(self, *acts: Callable[[], object]) -> None:
        self._acts = list(acts)
        self.waited: list[float] = []

    def __call__(self, seconds: float) -> None:
        self.waited.append(seconds)
        self._acts.pop(0)()


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Path]:
    put(tmp_path / "run", facts(), {"t": 1.0, "loss": 2.5})
    yield tmp_path / "run"


def test_each_change_is_shown_until_the_run_has_ended(run: Path) -> None:
    ended = facts(**ENDED)
    wait = Waiting(
        lambda: None,
        lambda: put(run, facts(), {"t": 2.0, "loss": 1.5}),
        lambda: (run / "run.json").write_text("{"),
        lambda: None,
        lambda: put(run, ended),
    )
    first, second, torn, last = show([str(run), "--watch", "--every", "7"], 80, wait=wait)
    assert "loss    2.5" in first
    assert "loss    2.5 → 1.5" in second
    assert torn.startswith(f"voir: {run}/run.json is no valid run.json")
    assert last == render({**ended, "directory": str(run)}, 80, False)
    assert wait.waited == [7.0] * 5


def test_a_run_that_has_ended_is_not_watched(run: Path) -> None:
    put(run, facts(**ENDED))
    assert len([*show([str(run), "--watch"], 80, wait=Waiting())]) == 1


def test_watching_ends_when_the_process_has(run: Path) -> None:
    wait = Waiting(lambda: put(run, facts(pid=2**22 + 1)))
    *_, last = show([str(run), "--watch"], 80, wait=wait)
    assert "did not finish" in last


def test_a_run_that_has_not_begun_is_waited_for(tmp_path: Path) -> None:
    wait = Waiting(lambda: None, lambda: put(tmp_path / "run", facts(**ENDED)))
    first, last = show([str(tmp_path / "run"), "--watch"], 80, wait=wait)
    assert first == f"voir: {tmp_path}/run: there is no such directory; waiting\n"
    assert "finished" in last


def test_ctrl_c_ends_it_cleanly_and_a_terminal_is_cleared(run: Path) -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    shown, last = show([str(run), "--watch"], 80, colour=True, wait=Waiting(interrupt))
    assert shown.startswith("\x1b[H\x1b[2J")
    assert last == "\n"
