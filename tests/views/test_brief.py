"""``voir show --brief`` and ``voir skill``: short pages for people and programs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from overseer.cli.commands import Terminal
from overseer.cli.show import show
from overseer.cli.skill import skill
from overseer.views.brief import brief_of, brief_text

#: 400 tokens of English text and figures, at some four characters each.
MOST = 1600
FACTS: dict[str, Any] = {
    "argv": ["voir", "--quiet", "main.py", "--lr", "0.1"],
    "script": "/home/me/main.py",
    "provenance": {"cwd": "/home/me"},
    "ended": "2026-01-01T00:00:05Z",
    "exit_status": 0,
    "seconds": 5.0,
    "diagnosis": {"verdict": "loader-bound", "why": "loading 61 %", "next": "num_workers=4"},
    "tasks": {
        "train": {
            "steps": 100, "items": 3200, "units": "items", "rate": {"steady": 810.0},
            "steady": {"verdict": "steady", "from_step": 12}, "loss": {"first": 2.0, "last": 0.5},
            "step_seconds": {"median": 0.0396},
            "breakdown": {"loading": 1.8, "forward": 0.6, "backward": 0.6},
        }
    },
    "host": {"cpu": {"process": {"mean": 48.0}}},
}  # fmt: skip


def test_a_brief_has_verdict_evidence_what_to_do_and_a_command() -> None:
    assert brief_of(FACTS).as_facts() == {
        "verdict": "loader-bound",
        "evidence": [
            "loading 61 %",
            "100 steps, 810 items/s, steady from step 12",
            "a step takes 40 ms: loading 60 %, forward 20 %, backward 20 %",
            "loss 2 → 0.5",
            "the script uses 48 % of the processors",
        ],
        "next": ["num_workers=4"],
        "command": "voir try 'WHAT YOU CHANGED' -- main.py --lr 0.1",
    }


@pytest.mark.parametrize(
    ("changes", "verdict", "command"),
    [
        ({"diagnosis": {"verdict": "pause-heavy"}}, "pause-heavy",
         "voir try 'WHAT YOU CHANGED' --metric train.rate.wall -- main.py --lr 0.1"),
        ({"seconds": 600.0}, "loader-bound",
         "voir try 'WHAT YOU CHANGED' --steps 124 -- main.py --lr 0.1"),
        ({"diagnosis": {}, "exit_status": 1, "error": "ValueError: no"}, "failed",
         "voir main.py --lr 0.1"),
        ({"diagnosis": {}, "state": "running"}, "running", "voir watch"),
        ({"argv": ["voir", "-m", "pack.train", "7"], "script": "-m pack.train"}, "loader-bound",
         "voir try 'WHAT YOU CHANGED' -- -m pack.train 7"),
        ({"diagnosis": {}, "tasks": {}}, "no verdict",
         "voir try 'WHAT YOU CHANGED' -- main.py --lr 0.1"),
    ],
)  # fmt: skip
def test_the_command_tests_what_the_verdict_is_about(
    changes: dict[str, Any], verdict: str, command: str
) -> None:
    found = brief_of({**FACTS, **changes})
    assert (found.verdict, found.command) == (verdict, command)


def test_a_brief_stays_below_400_tokens() -> None:
    long = "many words of a path or an error " * 40
    problems = [{"slug": "a-slug", "what": long, "remedy": long}] * 9
    said = {"verdict": long, "why": long, "next": long}
    more = {"diagnosis": said, "problems": problems, "error": long, "exit_status": 1}
    found = brief_of({**FACTS, **more, "argv": [*FACTS["argv"], long]})
    assert found.command == "voir main.py --lr 0.1" or found.command.startswith("voir try")
    text = brief_text(found, 80, False)
    assert len(" ".join(text.split())) <= MOST
    assert len(json.dumps(found.as_facts(), indent=1)) <= MOST


def test_a_brief_is_shown_as_text_and_as_json(tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text(json.dumps(FACTS))
    (text,) = show([str(tmp_path), "--brief"], Terminal())
    assert text.startswith("  verdict   loader-bound\n  evidence  loading 61 %\n")
    (text,) = show([str(tmp_path), "--brief", "--json"], Terminal())
    assert list(json.loads(text)) == ["verdict", "evidence", "next", "command"]


def test_the_page_for_agents_is_that_of_the_documentation() -> None:
    page = (Path(__file__).parents[2] / "docs/SKILL.md").read_text("utf-8")
    assert [*skill([], Terminal())] == [page]
    assert len(page) < 4000  # One page.
