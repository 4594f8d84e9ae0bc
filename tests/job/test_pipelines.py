"""Real pipelines: their figures are those of stages that sleep for known times."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from overseer.job.figures import job_facts
from overseer.rundir.reading import read_run
from overseer.views.summary import render
from tests.running import Place

torch = pytest.importorskip("torch", reason="torch comes with the extra [examples]")
pytestmark = pytest.mark.skipif(
    not hasattr(torch.distributed, "init_process_group"), reason="built without distributed"
)
SCRIPT = Path(__file__).with_name("pipelined.py")


def ran(path: Path, *arguments: object) -> dict[str, Any]:
    """The facts of a job of ``pipelined.py``."""
    place = Place(path)
    place.write("main.py", SCRIPT.read_text())
    voir = ["--no-voirfile", "--run-dir", "job", "main.py", *map(str, arguments)]
    done = place.voir(*voir, warm=True, env={"OMP_NUM_THREADS": "1"})
    assert done.status == 0, done.stderr
    return job_facts(read_run(path / "job"))


def test_the_stage_that_takes_three_times_as_long_sets_the_step(tmp_path: Path) -> None:
    facts = ran(tmp_path, 2, "Schedule1F1B", 4, 6, 10, 30)
    train = facts["tasks"]["train"]
    found = train["pipeline"]
    assert (found["schedule"], found["stages"], found["micro_batches"]) == ("1F1B", 2, 4)
    assert found["ideal"] == 1 / 5 < found["bubble"] < 0.6
    assert found["slowest"]["stages"] == [1] and 1.2 < found["imbalance"] < 1.5
    assert (found["batch"], found["accumulated"], found["items"]) == (2, 1, 8)
    assert train["items"] == 6 * 8 and facts["job"]["parallel"] == {"size": 1, "by": "pipeline"}
    assert "straggler" not in train
    assert "1F1B · 2 stages · 4 micro-batches" in render(facts, 200)


@pytest.mark.slow
@pytest.mark.parametrize(("ranks", "schedule", "seconds"), [
    (2, "ScheduleGPipe", (20, 20)), (3, "Schedule1F1B", (20, 40, 20)),
    (2, "ScheduleInterleaved1F1B", (20, 20, 20, 20)), (2, "ScheduleLoopedBFS", (20,) * 4),
    (2, "ScheduleInterleavedZeroBubble", (20,) * 4), (2, "ScheduleZBVZeroBubble", (20,) * 4),
    (2, "OfOnesOwn", (20, 20)),
])  # fmt: skip
def test_schedules_have_the_bubble_of_their_stages(
    tmp_path: Path, ranks: int, schedule: str, seconds: tuple[int, ...]
) -> None:
    found = ran(tmp_path, ranks, schedule, 4, 8, *seconds)["tasks"]["train"]["pipeline"]
    assert len(found["each"]) == found["stages"] == len(seconds)
    known = "ideal" in found
    assert known == (schedule in ("ScheduleGPipe", "Schedule1F1B", "ScheduleInterleaved1F1B",
                                  "ScheduleLoopedBFS"))  # fmt: skip
    if known:
        assert found["ideal"] - 0.03 < found["bubble"]
    for one, took in zip(found["each"], seconds, strict=True):
        assert 2 * 4 * took / 1000 <= one["seconds"] + 0.005 < 3 * 4 * took / 1000


@pytest.mark.slow
def test_a_pipeline_written_by_hand_is_known_by_its_messages(tmp_path: Path) -> None:
    train = ran(tmp_path, 3, "ByHand", 4, 8, 20, 40, 20)["tasks"]["train"]
    found = train["pipeline"]
    assert (found["by"], found["schedule"], found["stages"]) == ("messages", "GPipe", 3)
    assert found["slowest"]["stages"] == [1] and 1.3 < found["imbalance"] < 1.7
    assert 1 / 3 == found["ideal"] < found["bubble"] < 0.7
    assert "straggler" not in train
    assert train["items"] == 8 * 8
