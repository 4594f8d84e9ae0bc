"""A stop gets through, whatever thread it is asked for on, and leaves clean-up alone."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from overseer.boundary import StopProgram
from overseer.engine import ending as stopping
from overseer.measure.alarm import Alarm
from tests.running import Place

#: The beginning of every script here; the voirfile marks ``step``.
SCRIPT = """
import asyncio, os, threading, time
from concurrent.futures import ThreadPoolExecutor
from voir import StopProgram

def step(i):
    done = i

def train(n=10**6):
    for i in range(n):
        step(i)
        time.sleep(0.0005)

async def tasks():
    while True:
        step(0)
        await asyncio.sleep(0)

thread = threading.Thread(target=train, daemon=True)
"""
CLEANING = "try:\n    train()\nexcept StopProgram:\n    print('cleaned up')\nfinally:\n    print(2)"
SWALLOWING = "for _ in range({}):\n    try:\n        train({})\n    except BaseException: pass"
JOINING = "thread.start()\nthread.join()"
LEFT = "thread.daemon = False\nthread.start()"
POOL = "with ThreadPoolExecutor(2) as threads:\n    list(threads.map(train, [10**6] * 4))"
END = "to the end\n"
#: Where the script is when it is to stop, and what it prints.
PLACES = {
    "train()": "",
    CLEANING: f"cleaned up\n2\n{END}",
    JOINING: "",
    "thread.start()\ntime.sleep(60)": "",
    LEFT: END,
    POOL: "",
    "asyncio.run(tasks())": "",
    SWALLOWING.format(3, ""): END,
    SWALLOWING.format(200, 2): END,
}
#: Actions of a voirfile that stop or fail the script.
STOPS = {
    "early_stop": "ov.require(early_stop(n=20))",
    "a subscriber": 'ov.probe("//step > done").subscribe(lambda e: e["done"] == 20 and ov.stop(1))',
    "a timer": "ov.require(timed(ov.stop))",
    "another thread": "threading.Timer(0.2, ov.stop).start()",
}
FAILS = {
    "a timer": "ov.require(timed(lambda: fail(ov)))",
    "a subscriber": 'ov.probe("//step > done").subscribe(lambda e: e["done"] == 200 and fail(ov))',
}


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def write(place: Place, script: str, act: str = "") -> None:
    (place.path / "main.py").write_text(f"{SCRIPT}\n{script}\nprint('to the end')\n")
    place.write(
        "voirfile.py",
        f"""
        import threading
        from voir import instrument_definition
        from voir.instruments import early_stop

        @instrument_definition
        def timed(ov, act):
            with ov.every(0.2, act, first=0.2):
                yield ov.phases.run_script

        def fail(ov):
            ov.abort(ValueError("bad"))

        def instrument_stopping(ov):
            yield ov.phases.load_script
            ov.probe("//step > #exit as step").give()
            {act}
        """,
    )


@pytest.mark.parametrize("script", PLACES)
def test_a_stop_ends_the_script_wherever_it_is(place: Place, script: str) -> None:
    write(place, script)
    ran = place.voir("--no-record", "--stop", "20", "main.py")
    assert ran.seen == (0, PLACES[script])
    assert "stopped early: after 20 steps" in ran.stderr
    assert "Traceback" not in ran.stderr
    # It is raised again a hundred times, then the script is let go; where it was caught is said.
    assert ("stop-swallowed" in ran.stderr) == ("200" in script)
    line = SCRIPT.count("\n") + 4
    assert (f"/main.py:{line}" in ran.stderr) == ("BaseException" in script)


@pytest.mark.parametrize("way", STOPS)
def test_everybody_may_ask_for_it(place: Place, way: str) -> None:
    write(place, "train()", STOPS[way])
    ran = place.voir("--no-record", "main.py")
    assert ran.seen == (0, "")
    assert "stopped early" in ran.stderr
    assert "Traceback" not in ran.stderr


@pytest.mark.parametrize("way", FAILS)
@pytest.mark.parametrize("script", ["train()", JOINING, LEFT])
def test_an_abort_fails_the_run_whatever_thread_it_is_on(
    place: Place, way: str, script: str
) -> None:
    write(place, script, FAILS[way])
    ran = place.voir("--no-record", "main.py")
    # What waits for a thread that a timer's abort has ended goes on.
    ends = script == LEFT or (way == "a timer" and script == JOINING)
    assert ran.seen == (1, END * ends)
    assert ran.stderr.splitlines().count("ValueError: bad") == 1


def test_the_child_of_a_fork_has_no_instruments(place: Place) -> None:
    act = "yield ov.phases.run_script\n            print('instrument')"
    write(place, "child = os.fork()\nif child: os.waitpid(child, 0)", act)
    ran = place.voir("--no-record", "main.py")
    assert ran.seen == (0, f"{END}{END}instrument\n")


def test_the_main_thread_is_known_though_gevent_gives_it_another_ident(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = stopping.Stopping(Alarm)
    monkeypatch.setattr(threading.main_thread(), "_ident", 1)
    monkeypatch.setattr(stopping, "interrupt", lambda ident: pytest.fail("it is this thread"))
    monkeypatch.setattr(asked, "_arm", lambda: None)
    asked.raising(StopProgram())
    assert asked.cause_of(KeyboardInterrupt()) is not asked.requested
