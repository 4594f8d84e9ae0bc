"""Monitors of what a voirfile chooses: each function is read, and one that fails is left out."""

from __future__ import annotations

import sys
import threading
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from instruments.custom import monitor
from overseer.errors import Problem
from overseer.overseer import Overseer

PATIENCE = 20


class Waiting(ModuleType):
    """What the script imports, to end when the test has seen enough."""

    def __init__(self) -> None:
        super().__init__("waiting")
        self.enough = threading.Event()


@pytest.fixture
def waiting(monkeypatch: pytest.MonkeyPatch) -> Waiting:
    module = Waiting()
    monkeypatch.setitem(sys.modules, "waiting", module)
    return module


def run(tmp_path: Path, *instruments: Any) -> list[Problem]:
    script = tmp_path / "main.py"
    script.write_text(f"import waiting\nassert waiting.enough.wait({PATIENCE})\n")
    problems: list[Problem] = []
    ov = Overseer(list(instruments), environ={"VOIR_NO_RECORD": "1"}, tell=problems.append)
    ov([str(script)])
    return problems


def test_every_function_is_read_and_given_under_its_key(tmp_path: Path, waiting: Waiting) -> None:
    seen: list[dict[str, Any]] = []
    began: list[str] = []

    def instrument(ov: Overseer) -> Any:
        ov.listen(seen.append)
        ov.listen(lambda event: len(seen) >= 6 and waiting.enough.set())
        yield from monitor(
            ov, 0.01, worker_init=lambda: began.append("init"), a=lambda: 1, b=lambda: [2]
        )

    assert run(tmp_path, instrument) == []
    assert began == ["init"]
    given = [event for event in seen if "a" in event or "b" in event]
    assert [set(event) for event in given[:2]] == [{"task", "time", "a"}, {"task", "time", "b"}]
    assert {event["task"] for event in given} == {"main"}


def test_a_function_that_fails_is_named_once_and_the_others_go_on(
    tmp_path: Path, waiting: Waiting
) -> None:
    seen: list[int] = []

    def broken() -> None:
        raise OSError("no such sensor")

    def instrument(ov: Overseer) -> Any:
        ov.given["?fine"] >> seen.append
        ov.listen(lambda event: len(seen) >= 3 and waiting.enough.set(), "fine")
        yield from monitor(ov, 0.01, broken=broken, fine=lambda: 1)

    (problem,) = run(tmp_path, instrument)
    assert (problem.who, "no such sensor" in problem.what) == ("monitor of broken", True)
    assert seen[:3] == [1, 1, 1]


def test_an_interval_that_is_none_is_refused(tmp_path: Path, waiting: Waiting) -> None:
    waiting.enough.set()
    (problem,) = run(tmp_path, lambda ov: monitor(ov, 0))
    assert problem.slug == "bad-interval" or "interval" in problem.what
