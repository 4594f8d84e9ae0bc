"""Time is read in one place, for the script may have replaced it everywhere else."""

from __future__ import annotations

from .source import imports, modules

#: Who reads python's clock itself, and why that is the real one.
ALLOWED = {
    "overseer.clock",  # The place.
    "overseer.began",  # Before anything else.
    "overseer.engine.overseer",  # Loaded, with its function, before the script.
    "overseer.insist",  # So is this one.
    "instruments.meter",  # And this one.
    "overseer.cli.show",  # No script runs.
    "overseer.proc.multiplexer",  # The script's own tool.
}


def test_nobody_else_asks_python_for_the_time() -> None:
    everyone = modules("overseer", "instruments")
    found = {m.name for m in everyone for one in imports(m) if one.target == "time"}
    assert sorted(found - ALLOWED) == []
