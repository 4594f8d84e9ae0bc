"""Ctrl-C while a run is closed: a second one right behind it is the same keystroke."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from overseer.launch import signals
from overseer.launch.signals import ECHO_SECONDS, InterruptGuard
from tests.running import Place

#: Interrupts itself, and again for 50 ms once it has ended: every time that something is to be
#: closed.
FORWARDED = """
import os, signal, sys, threading, time, voir
def running(frame):
    return frame is not None and (frame.f_code.co_filename == __file__ or running(frame.f_back))
def forward():
    main = threading.main_thread().ident
    while running(sys._current_frames()[main]): time.sleep(0.001)
    until = time.perf_counter() + 0.05
    while time.perf_counter() < until:
        time.sleep(0.002)
        os.kill(os.getpid(), signal.SIGINT)
try:
    for n, batch in enumerate(voir.iterate("train", [[1, 2]] * 9, report_batch=True)):
        if n == 5:
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(1)
except KeyboardInterrupt:
    threading.Thread(target=forward, daemon=True).start()
    LAST
"""

INTERRUPTED = """
import os, signal, voir
for batch in voir.iterate("train", [[1, 2]] * 9, report_batch=True):
    pass
os.kill(os.getpid(), signal.SIGINT)
"""

#: Interrupts itself while the run is closed, too late to be an echo.
LATER = f"""
import os, signal, time
def instrument_closing(ov):
    yield ov.phases.finalize
    time.sleep({2 * ECHO_SECONDS})
    os.kill(os.getpid(), signal.SIGINT)
    print("closed")
"""


@pytest.mark.parametrize(("last", "status"), [("raise", -2), ("raise SystemExit(130)", 130)])
def test_a_ctrl_c_that_is_forwarded_too_costs_nothing_of_what_the_run_came_to(
    tmp_path: Path, last: str, status: int
) -> None:
    place = Place(tmp_path)
    place.write("main.py", FORWARDED.replace("LAST", last))
    ran = place.voir("main.py")
    assert ran.status == status
    assert "  train " in ran.stderr and "excepthook" not in ran.stderr
    record = place.record()
    assert (record["exit_status"], record["problems"]) == (status, [])
    assert record["tasks"]["train"]["steps"] in (5, 6)


def test_a_ctrl_c_while_an_interrupted_run_is_closed_costs_nothing(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.write("main.py", INTERRUPTED)
    place.write("voirfile.py", LATER)
    ran = place.voir("main.py")
    assert (ran.status, ran.stdout) == (-2, "closed\n")
    assert place.record()["problems"] == []


@pytest.fixture
def echoes(monkeypatch: pytest.MonkeyPatch) -> Iterator[InterruptGuard]:
    """Of an interpreter that hears Ctrl-C as ever; see ``later`` for its clock."""
    monkeypatch.setattr(signals, "monotonic", lambda: now[0])
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield InterruptGuard()
    signal.signal(signal.SIGINT, before)


now = [100.0]


def keystroke(later: float = 0.0) -> bool:
    """Press Ctrl-C; whether it interrupts."""
    now[0] += later
    try:
        signal.raise_signal(signal.SIGINT)
    except KeyboardInterrupt:
        return True
    return False


def test_each_keystroke_has_its_echoes(echoes: InterruptGuard) -> None:
    echoes.begin(True)
    assert [keystroke(), keystroke(2 * ECHO_SECONDS), keystroke()] == [False, True, False]
    echoes.end()
    assert keystroke()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_while_a_run_is_closed_it_takes_a_second_one(echoes: InterruptGuard) -> None:
    echoes.begin(False, closing=True)  # The second at once is an echo of the first.
    assert [keystroke(), keystroke(), keystroke(2 * ECHO_SECONDS)] == [False, False, True]
    echoes.end()
    echoes.begin(False)
    assert keystroke(2 * ECHO_SECONDS)
    echoes.end()


def test_a_handler_of_the_scripts_hears_every_one(echoes: InterruptGuard) -> None:
    heard: list[int] = []
    signal.signal(signal.SIGINT, lambda signum, frame: heard.append(signum))
    echoes.begin(True)
    keystroke(), keystroke()
    echoes.end()
    assert len(heard) == 2
