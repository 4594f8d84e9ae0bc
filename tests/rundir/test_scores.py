"""What the summary says of values that were given: the last, and the best."""

from __future__ import annotations

from pathlib import Path

from overseer.recorder.encode import PendingValue
from overseer.rundir.scores import MAX_SCORES, Scores
from tests.running import Place


def test_the_best_is_the_lowest_of_a_loss_an_error_or_a_perplexity_else_the_highest() -> None:
    scores = Scores()
    for value in (2.0, 1.0, 3.0, 2.5):
        scores.add({"t": 0.1, "accuracy": value, "val_loss": value, "Error_rate": value})
        scores.add({"task": "eval", "perplexity": value, "task_id": "x", "flag": True})
    high, low = {"last": 2.5, "best": 3.0}, {"last": 2.5, "best": 1.0}
    assert scores.section() == {
        "accuracy": high, "val_loss": low, "Error_rate": low, "eval/perplexity": low
    }  # fmt: skip


def test_what_is_no_value_is_left_out_and_so_are_too_many() -> None:
    scores, late = Scores(), PendingValue({"shape": []})
    scores.add({"step": 3, "batch_size": 4, "loss": 1.0, "$queued": 2.0, "x": float("nan")})
    scores.add({"$event": "phase", "number": 3})
    scores.add({"lr": 1e-3, "learning_rate": 1e-3, "turn": 2})
    scores.add({"late": late})
    assert scores.section() is None
    late.arrived(0.5)
    scores.add({"late": late})
    assert scores.section() == {"late": {"last": 0.5, "best": 0.5}}
    scores.add({f"key{n}": n for n in range(2 * MAX_SCORES)})
    assert len(scores.section() or ()) == MAX_SCORES


def test_they_are_in_the_record_and_in_the_summary(tmp_path: Path) -> None:
    place = Place(tmp_path)
    lines = "from voir import give\nfor x in (0.5, 0.75, 0.7): give(accuracy=x)\n"
    place.write("main.py", lines)
    done = place.voir("main.py")
    assert place.record()["values"] == {"accuracy": {"last": 0.7, "best": 0.75}}
    assert "  given     accuracy 0.7, best 0.75\n" in done.stderr
