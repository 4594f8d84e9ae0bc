"""Time is read in one place, for the script may have replaced it everywhere else."""

from __future__ import annotations

from .source import imports, modules

#: Who reads python's clock itself, and why that is the real one.
ALLOWED = {
    "overseer.clock",  # The place.
    "overseer.cli.show",  # No script runs.
}


def test_nobody_else_asks_python_for_the_time() -> None:
    everyone = modules("overseer", "instruments")
    found = {m.name for m in everyone for one in imports(m) if one.target == "time"}
    assert sorted(found ^ ALLOWED) == []
