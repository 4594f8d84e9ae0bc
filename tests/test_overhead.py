"""Own cost is added up once: outside of the script, charged within it, and recorded."""

from __future__ import annotations

import threading

import pytest

from overseer.clock import Overhead
from tests.clocks import FakeClock

MS = 1_000_000


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock(now_ns=500 * MS)


def elsewhere(act: object) -> None:
    thread = threading.Thread(target=act)  # type: ignore[arg-type]
    thread.start()
    thread.join()


def test_all_of_the_thread_is_voirs_but_the_script(clock: FakeClock) -> None:
    overhead = Overhead(clock.cpu_ns, since_ns=400 * MS)
    clock.advance(0.05)
    with overhead.script():
        clock.advance(3.0)
        assert overhead.outside_ns == 150 * MS
    clock.advance(0.02)
    with pytest.raises(ZeroDivisionError), overhead.script():
        clock.advance(1.0)
        raise ZeroDivisionError
    clock.advance(0.03)
    assert overhead.outside_ns == 200 * MS
    seen: list[int] = []
    elsewhere(lambda: seen.append(overhead.outside_ns))
    assert seen == [170 * MS], "another thread's clock says nothing of this one"


def test_what_is_charged_counts_once(clock: FakeClock) -> None:
    """A thread of voir's, and work within the script; outside of it all is voir's anyway."""
    overhead = Overhead(clock.cpu_ns)
    clock.advance(0.01)
    overhead.charge(10 * MS)
    elsewhere(lambda: overhead.charge(2 * MS))
    with overhead.script():
        overhead.charge(3 * MS)
    assert overhead.total_ns(recorded_ns=MS) == 16 * MS


@pytest.mark.parametrize(
    ("run_ns", "share"), [(400 * MS, {"share": 0.1}), (5 * MS, {"share": 1.0}), (0, {})]
)
def test_the_section_is_what_run_json_has(
    clock: FakeClock, run_ns: int, share: dict[str, float]
) -> None:
    overhead = Overhead(clock.cpu_ns)
    clock.advance(0.01)
    assert overhead.section(30 * MS, run_ns) == {"seconds": 0.04, "outside": 0.01, **share}
