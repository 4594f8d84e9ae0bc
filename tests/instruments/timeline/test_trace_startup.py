"""A run without a trace pays nothing for what traces need."""

from __future__ import annotations

from pathlib import Path

from tests.running import Place


def test_nothing_of_the_trace_room_is_imported_without_a_trace(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.write("main.py", "import sys, voir\nprint(*sorted(sys.modules), sep='\\n')\n")
    loaded = place.voir("--no-record", "main.py").stdout.split()
    assert "instruments.trace" in loaded
    assert [name for name in loaded if name.startswith("overseer.trace")] == []
    assert "instruments.timeline.session" not in loaded
