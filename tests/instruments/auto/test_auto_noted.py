"""Runs long enough for inserted code to note events by itself: the figures are the script's own."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("torch", reason="torch comes with the extra [examples]")

from instruments.auto.torch_hooks import TorchHooks
from overseer import Overseer
from overseer.probes import quick

from .conftest import SCRIPTS, watched
from .test_auto_precedence import LOSS, PAIR, STEP, giving


class Noted:
    """How many events inserted code has noted by itself, at the end of the run."""

    def __init__(self) -> None:
        self.of = 0

    def __call__(self, ov: Overseer) -> Any:
        yield ov.phases.run_script
        engine = ov._engine
        self.of = sum(engine.noted.values()) if engine is not None else 0


@pytest.mark.parametrize("dense", [False, True], ids=["noted", "ordinary"])
@pytest.mark.parametrize(
    "selectors",
    [(), (STEP, LOSS), (STEP, LOSS, PAIR), ("//main > loader",)],
    ids=["automatic", "step", "pair", "loader"],
)
def test_figures_are_the_scripts_own(
    monkeypatch: pytest.MonkeyPatch, selectors: tuple[str, ...], dense: bool
) -> None:
    if dense:
        monkeypatch.setattr(quick, "SPARSE_NS", 10**12)
    noted = Noted()
    found = watched(SCRIPTS / "long/epochs.py", instruments=(giving(*selectors), noted))
    truth, train = found.truth, found.tasks["train"]
    assert (found.problems, found.error) == ([], None)
    assert (train["steps"], train["items"]) == (truth["steps"], truth["items"])
    loss = {name: pytest.approx(truth[name]) for name in ("first", "last", "min")}
    assert train["loss"] == loss
    assert found.tasks["eval"]["steps"] == truth["passes"]
    assert train["loading"]["seconds"] > 0
    # From which step on events are noted goes by the clock: how many there are is the machine's.
    assert (noted.of > 0) is not dense


def test_light_steps_go_on_with_the_next_epoch(monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[bool] = []
    switch = TorchHooks._switch

    def counted(hooks: TorchHooks, light: bool) -> None:
        begun.append(light)
        switch(hooks, light)

    monkeypatch.setattr(TorchHooks, "_switch", counted)
    monkeypatch.setattr("instruments.auto.light.FULL_NS", 10**12)  # However long the steps are.
    found = watched(SCRIPTS / "short_epochs.py")
    assert found.tasks["train"]["steps"] == found.truth["steps"] == 480
    # Of 40 epochs, four are followed by a pass over the same loader, three by an evaluation.
    assert 0 < begun.count(True) <= 8
