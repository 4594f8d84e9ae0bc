"""Real jobs of four ranks under gloo, one of which does something else: which is named."""

from __future__ import annotations

import re
import socket
from pathlib import Path

import pytest

from overseer.job.figures import job_facts
from overseer.rundir.reading import read_run
from overseer.views.job import divergence_text
from tests.running import Place

pytest.importorskip("torch")
PROGRAM = Path(__file__).with_name("diverging.py")
CASES = re.findall(r"\(\"([a-z ]+)\", (\d), \d+, (?:True|False)\)", PROGRAM.read_text())


def free_port() -> str:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return str(server.getsockname()[1])


@pytest.mark.slow
def test_of_twenty_divergences_eighteen_are_named(tmp_path: Path) -> None:
    said = dict[str, str]()
    for n, (kind, odd) in enumerate(CASES):
        place = Place(tmp_path / str(n))
        place.path.mkdir()
        flags = ["--no-voirfile", "--run-dir", "run", str(PROGRAM), f"{kind}-{n}", free_port()]
        place.voir(*flags, fresh=True, env={"DIVERGING_SECONDS": "25"})
        found = job_facts(read_run(place.path / "run")).get("job", {}).get("divergence", {})
        text = divergence_text(found, "rank") if found else "none"
        print(f"{kind}, rank {odd}: {text}")
        if found.get("ranks") == [int(odd)]:
            said[f"{kind}-{n}"] = text
    assert len(CASES) == 20
    assert len(said) >= 18, said
