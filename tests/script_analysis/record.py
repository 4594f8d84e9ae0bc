"""Recording what ``voir init`` sees of programs, and what it writes for them.

``python -m tests.script_analysis.record [NAME ...]`` runs programs, or all, for a few steps.
It keeps what was seen in ``tests/golden/init/seen.json.gz``, and writes some voirfiles to
``NAME.py.txt``: read those.
"""

from __future__ import annotations

import gzip
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from overseer.script_analysis.observed import Findings, observe
from overseer.script_analysis.script import open_source, project
from overseer.script_analysis.text import read
from overseer.script_analysis.voirfile import voirfile_text
from tests.forking import close_all
from tests.programs.record import HERE, programs
from tests.running import Place

GOLDEN = HERE.parent / "golden" / "init"
SEEN = GOLDEN / "seen.json.gz"
#: One for each kind of thing that there is to see.
NAMES = (
    "accumulation", "by_hand", "checkpoints", "compiled", "gan", "lbfgs", "nanogpt",
    "trainer_class",
)  # fmt: skip
#: What is kept of a task.
FIGURES = ("steps", "items", "loss", "loading")


def findings(name: str, seen: dict[str, Any]) -> Findings:
    """What there is to write for a program, of which this was seen."""
    path = HERE / f"{name}.py"
    if not seen["tasks"]:
        return read(project(open_source(str(path)), str(HERE)))
    sites = [
        {**site, "stack": [[m, str(HERE / Path(file).name), n] for m, file, n in site["stack"]]}
        for site in seen["sites"]
    ]
    return observe({**seen, "sites": sites})


def text(name: str, seen: dict[str, Any]) -> str:
    """The voirfile for a program."""
    return voirfile_text(f"{name}.py", f"{name}.py", findings(name, seen))


def observed(name: str, place: Place) -> dict[str, Any]:
    """What is seen of a program in a few steps, as ``voir init`` runs it."""
    file, flags = place.path / "seen.json", ["--no-voirfile", "--no-record", "--quiet"]
    env = {"_VOIR_OBSERVE": str(file)}
    done = place.voir(*flags, str(HERE / f"{name}.py"), warm=True, env=env)
    assert file.exists(), done.stderr
    seen = json.loads(file.read_text())
    tasks = {
        task: {key: facts[key] for key in FIGURES if key in facts}
        for task, facts in seen["tasks"].items()
    }
    return {"tasks": tasks, "sites": seen["sites"]}


def recorded() -> dict[str, dict[str, Any]]:
    """What was seen of each program."""
    every: dict[str, dict[str, Any]] = json.loads(gzip.decompress(SEEN.read_bytes()))
    return every


def main(names: list[str]) -> None:
    """Record programs of these names, or all."""
    every = recorded() if names else {}
    for name in names or programs():
        with tempfile.TemporaryDirectory() as place:
            seen = observed(name, Place(Path(place)))
        for site in seen["sites"]:
            site["stack"] = [[m, Path(file).name, line] for m, file, line in site["stack"]]
        every[name] = seen
        if name in NAMES:
            (GOLDEN / f"{name}.py.txt").write_text(text(name, seen))
    written = json.dumps(every, sort_keys=True, separators=(",", ":")).encode()
    SEEN.write_bytes(gzip.compress(written, 9, mtime=0))
    close_all()


if __name__ == "__main__":
    main(sys.argv[1:])
