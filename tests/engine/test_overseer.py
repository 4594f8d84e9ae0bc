"""The walk through the phases, begun and ended by two calls."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest

from instruments.rate import instrument_rates
from overseer import Overseer, active, current_overseer
from overseer.boundary import StopProgram
from overseer.errors import UsageError


def begun(tmp_path: Path, script: str = "x = 1\n") -> Overseer:
    (tmp_path / "main.py").write_text(script)
    ov = Overseer([instrument_rates], stderr=io.StringIO(), environ={})
    ov.begin(["--no-record", str(tmp_path / "main.py")])
    return ov


def test_what_happens_between_the_two_calls_is_measured(tmp_path: Path) -> None:
    ov = begun(tmp_path)
    assert active() is current_overseer.get() is ov
    assert ov.phases.load_script.done
    for step in range(5):
        ov.give(step=step, batch_size=2)
    ov.finish()
    assert active() is current_overseer.get() is None
    assert (ov.status, ov.exit_status) == ("finalized", 0)
    assert ov.phases.run_script.done
    assert ov.phases.finalize.done
    assert (ov.summary["tasks"]["train"]["steps"], ov.summary["tasks"]["train"]["items"]) == (5, 10)


@pytest.mark.parametrize(
    ("error", "status", "stopped"),
    [
        (ValueError("bad"), 1, None), (SystemExit(3), 3, None), (SystemExit(0), 0, None),
        (StopProgram(7), 0, "ov.stop(7)"),
    ],
)  # fmt: skip
def test_it_ends_by_what_has_ended_the_script(
    tmp_path: Path, error: BaseException, status: int, stopped: str | None
) -> None:
    ov = begun(tmp_path)
    raised: Any = None
    try:
        ov.finish(error)
    except BaseException as caught:
        raised = caught
    assert raised is (None if stopped else error)
    assert (ov.exit_status, ov.stopped_early) == (status, stopped)
    assert active() is None


def test_a_beginning_that_fails_is_ended_too(tmp_path: Path) -> None:
    ov = Overseer([], stderr=io.StringIO(), environ={})
    with pytest.raises(UsageError) as raised:
        ov.begin(["--no-record"])
    with pytest.raises(UsageError, match="no script"):
        ov.finish(raised.value)
    assert (ov.status, active()) == ("finalized", None)
