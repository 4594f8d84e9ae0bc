"""Where memory is scarce voir gives up its own part, and the script runs."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from overseer import Overseer
from overseer.engine import overseer
from tests.running import Place

SIZE = "print(next(each.split()[1] for each in open('/proc/self/status') if 'VmSize' in each))\n"


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
def test_what_has_no_memory_is_off_and_named_in_the_record(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.write("size.py", SIZE)
    place.write("main.py", "from voir import log\nlog(x=1)\nprint('ran')\n")
    limit = int(place.python("size.py").stdout) + 24_000
    done = place.run("sh", "-c", f"ulimit -v {limit}; exec {sys.executable} -m voir main.py")
    assert done.seen == (0, "ran\n"), done.stderr
    assert "Traceback" not in done.stderr
    assert "timer" in {problem["slug"] for problem in place.record()["problems"]}


def test_a_recorder_without_memory_has_small_rings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(overseer, "STRUCTURE_RING", 1 << 56)
    place = Place(tmp_path)
    ov = Overseer([])
    ov(["--quiet", "--no-record", str(place.write("main.py", "pass"))])
    assert [(one.slug, one.who) for one in ov.problems] == [("record-incomplete", "the recorder")]
