"""A script that a voirfile sets probes on, and what is said of its steps."""

from __future__ import annotations

from typing import Any

from tests.running import Place


def probed(
    place: Place, script: str, probes: list[str], arguments: tuple[str, ...], slug: str
) -> tuple[Any, list[str]]:
    """The training as it was measured, and what is said under ``slug``, on the screen as well."""
    place.write("main.py", script)
    place.probes(probes)
    ran = place.voir("--no-monitor", *arguments, "main.py")
    assert ran.status == 0, ran.stderr
    found: dict[str, Any] = place.record()
    told = [problem["what"] for problem in found["problems"] if problem["slug"] == slug]
    assert ran.stderr.count(f"[{slug}]") == len(told)
    return found["tasks"]["train"], told
