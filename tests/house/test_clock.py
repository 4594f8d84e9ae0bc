"""Time is read in one place: the script may patch it anywhere else."""

from __future__ import annotations

from .source import imports, modules

#: Modules that read python's clock.
ALLOWED = {"overseer.clock"}


def test_only_these_modules_import_time() -> None:
    everyone = modules("overseer", "instruments")
    found = {m.name for m in everyone for one in imports(m) if one.target == "time"}
    assert sorted(found ^ ALLOWED) == []
