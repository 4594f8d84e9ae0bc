"""Ctrl-C while a run is closed: a second one right behind it is the same keystroke."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from overseer.launch import signals
from overseer.launch.signals import ECHO, Echoes
from tests.running import Place

#: Interrupts itself, and again for 50 ms once it has ended: every time that something is to be
#: closed.
FORWARDED = """
import os, signal, sys, threading, time
import voir

def running(frame):
    return frame is not None and (frame.f_code.co_filename == __file__ or running(frame.f_back))

def forward():
    main = threading.main_thread().ident
    while running(sys._current_frames()[main]):
        time.sleep(0.001)
    until = time.perf_counter() + 0.05
    while time.perf_counter() < until:
        time.sleep(0.002)
        os.kill(os.getpid(), signal.SIGINT)

def work():
    for n, batch in enumerate(voir.iterate("train", [[1, 2]] * 9, report_batch=True)):
        if n == 5:
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(1)

try:
    work()
except KeyboardInterrupt:
    threading.Thread(target=forward, daemon=True).start()
    LAST
"""


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


@pytest.mark.parametrize(("last", "status"), [("raise", -2), ("raise SystemExit(130)", 130)])
def test_a_ctrl_c_that_is_forwarded_too_costs_nothing_of_what_the_run_came_to(
    place: Place, last: str, status: int
) -> None:
    place.write("main.py", FORWARDED.replace("LAST", last))
    ran = place.voir("main.py")
    assert ran.status == status
    assert "  train " in ran.stderr
    assert "excepthook" not in ran.stderr
    record = place.record()
    assert (record["exit_status"], record["problems"]) == (status, [])
    assert record["tasks"]["train"]["steps"] in (5, 6)


@pytest.fixture
def default() -> Iterator[None]:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("default")
def test_each_keystroke_has_its_echoes(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr(signals, "monotonic", lambda: now)
    echoes = Echoes()
    echoes.begin(True)
    signal.raise_signal(signal.SIGINT)
    now += 2 * ECHO
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)
    signal.raise_signal(signal.SIGINT)
    echoes.end()
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.usefixtures("default")
@pytest.mark.parametrize("closing", [False, True])
def test_while_a_run_is_closed_it_takes_a_second_one(
    monkeypatch: pytest.MonkeyPatch, closing: bool
) -> None:
    now = 100.0
    monkeypatch.setattr(signals, "monotonic", lambda: now)
    echoes = Echoes()
    echoes.begin(False, closing=closing)
    for _ in range(2 if closing else 0):  # The second is its echo.
        signal.raise_signal(signal.SIGINT)
    now += 2 * ECHO
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)
    echoes.end()


@pytest.mark.usefixtures("default")
def test_a_handler_of_the_scripts_hears_every_one() -> None:
    heard: list[int] = []
    signal.signal(signal.SIGINT, lambda signum, frame: heard.append(signum))
    echoes = Echoes()
    echoes.begin(True)
    signal.raise_signal(signal.SIGINT)
    signal.raise_signal(signal.SIGINT)
    echoes.end()
    assert len(heard) == 2
