"""The workflow in examples/ci, run as the shell script that it is."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from textwrap import dedent

from tests.docs.blocks import ROOT
from tests.docs.shown import ShownPlace

STEP = re.compile(r"- name: Compare.*?run: \|\n(.*?)\n      - uses", re.DOTALL)


def git(place: ShownPlace, *arguments: str) -> None:
    identity = ("-c", "user.name=a", "-c", "user.email=a@localhost")
    assert place.run("git", *identity, *arguments).status == 0


def test_the_workflow_runs_both_commits_and_keeps_the_status(tmp_path: Path) -> None:
    place = ShownPlace(tmp_path)
    git(place, "init", "-q", "-b", "main", ".")
    git(place, "add", "-A")
    git(place, "commit", "-qm", "base")
    git(place, "update-ref", "refs/remotes/origin/main", "HEAD")
    script = place.path / "main.py"
    script.write_text(script.read_text() + "\nraise SystemExit('broken')\n")
    git(place, "commit", "-qam", "broken")
    found = STEP.search((ROOT / "examples/ci/bench.yml").read_text())
    assert found is not None
    place.write("step.sh", dedent(found[1]))
    summary = place.path / "summary.md"
    settings = {"GITHUB_BASE_REF": "main", "GITHUB_STEP_SUMMARY": str(summary), "RUNS": "1"}
    ran = place.run("bash", "-e", "step.sh", env={**place.env, **settings},
        stdin=subprocess.DEVNULL)  # fmt: skip
    assert ran.status == 6, ran.stderr  # tee ends with 0.
    verdict = json.loads((place.path / "verdict.json").read_text())
    assert (verdict["verdict"], verdict["status"]) == ("nothing measured", 6)
    assert "broken" in summary.read_text()
