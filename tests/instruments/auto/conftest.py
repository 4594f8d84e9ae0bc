"""Fixtures of the tests of automatic instrumentation: scripts run in this process, both ways."""

from __future__ import annotations

import io
import json
import runpy
import sys
from contextlib import redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from instruments.auto import instrument_auto
from instruments.rate import instrument_rates
from overseer import Overseer
from overseer.clock import Clock

SCRIPTS = Path(__file__).with_name("scripts")


@dataclass
class Watched:
    """A script that was run under voir: what it printed, and what voir says of it."""

    output: str
    tasks: dict[str, Any]
    problems: list[str]
    overseer: Overseer
    error: BaseException | None = None

    @property
    def truth(self) -> dict[str, Any]:
        """What the script knows itself."""
        known: dict[str, Any] = json.loads(self.output.splitlines()[-1])
        return known


def watched(
    script: str | Path,
    *options: str,
    instruments: tuple[Any, ...] = (),
    clock: Clock | None = None,
) -> Watched:
    """Run a script under voir, in this process."""
    path = SCRIPTS / script
    all_of_them = [instrument_auto, instrument_rates, *instruments]
    overseer = Overseer(all_of_them, clock=clock, stderr=io.StringIO())
    printed, caught = io.StringIO(), None
    with redirect_stdout(printed):
        try:
            overseer(["--no-record", *options, str(path)])
        except BaseException as error:
            caught = error
    told = [f"{p.who}: {p.what} ({p.where})" for p in overseer.problems]
    return Watched(printed.getvalue(), overseer.summary.get("tasks", {}), told, overseer, caught)


def explained(pause: dict[str, Any]) -> int:
    """How many pauses have a cause: what a busy machine keeps waiting has none, and is one too."""
    return int(pause["count"] - pause.get("unexplained", 0))


def plain(script: str | Path) -> str:
    """What the script prints under python."""
    path = SCRIPTS / script
    printed = io.StringIO()
    sys.path.insert(0, str(path.parent))
    try:
        with redirect_stdout(printed):
            runpy.run_path(str(path), run_name="__main__")
    finally:
        sys.path.remove(str(path.parent))
    return printed.getvalue()


@pytest.fixture(autouse=True, scope="session")
def one_thread() -> None:
    """Tiny models are no work for several threads."""
    if (torch := sys.modules.get("torch")) is not None:
        torch.set_num_threads(1)


@pytest.fixture(autouse=True)
def nothing_is_left_in_torch() -> Any:
    """Fail a test that leaves a hook in torch."""
    yield
    torch = sys.modules.get("torch")
    if torch is not None:
        modules = torch.nn.modules.module
        optimizers = sys.modules[torch.optim.Optimizer.__module__]
        tables = [v for m in (modules, optimizers) for k, v in vars(m).items() if "_global_" in k]
        assert len(tables) >= 6
        assert [t for t in tables if isinstance(t, dict) and "voir.auto" in t] == []
        assert not hasattr(torch.nn.Module.compile, "_torchdynamo_disable")
