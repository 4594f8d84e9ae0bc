"""A stop gets through, whatever thread it is asked for on, and leaves clean-up alone."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from overseer.boundary import StopProgram
from overseer.engine import stopping
from tests.running import Place

#: One script with every way to be stopped in; ``step`` is what the voirfile marks.
SCRIPT = """
import asyncio, os, sys, threading, time
from concurrent.futures import ThreadPoolExecutor
from voir import StopProgram, give

def step(i):
    done = i

def train(n=10**6):
    for i in range(n):
        step(i)
        time.sleep(0.0005)

def cleaning():
    try:
        train()
    except StopProgram:
        print("cleaned up")

def swallowing(times=3, n=10**6):
    for _ in range(times):
        try:
            train(n)
        except BaseException:
            pass

def finishing():
    try:
        train()
    finally:
        print("finally")

def joining():
    thread = threading.Thread(target=train)
    thread.start()
    thread.join()

def daemon():
    threading.Thread(target=train, daemon=True).start()
    time.sleep(60)

def left():
    threading.Thread(target=train).start()

def pool():
    with ThreadPoolExecutor(2) as threads:
        list(threads.map(train, [10**6] * 4))

async def tasks():
    while True:
        step(0)
        await asyncio.sleep(0)

def loop():
    asyncio.run(tasks())

def forking():
    if child := os.fork():
        os.waitpid(child, 0)

globals()[sys.argv[1]](*map(int, sys.argv[2:]))
print("to the end")
"""
#: What is printed, in each of the places in which the script may be.
PLACES = {
    "train": "",
    "cleaning": "cleaned up\nto the end\n",
    "finishing": "finally\n",
    "joining": "",
    "daemon": "",
    "left": "to the end\n",
    "pool": "",
    "loop": "",
    "swallowing": "to the end\n",
    "swallowing 200 2": "to the end\n",
}
#: What a voirfile does to stop or fail the script.
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
    place = Place(tmp_path)
    place.write("main.py", SCRIPT)
    return place


def voirfile(place: Place, act: str = "") -> None:
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


@pytest.mark.parametrize("where", PLACES)
def test_a_stop_ends_the_script_wherever_it_is(place: Place, where: str) -> None:
    voirfile(place)
    ran = place.voir("--no-record", "--stop", "20", "main.py", *where.split())
    assert ran.seen == (0, PLACES[where])
    assert "stopped early: after 20 steps" in ran.stderr
    assert "Traceback" not in ran.stderr
    # It is raised again a hundred times, then the script is let go; where it was caught is said.
    assert ("stop-swallowed" in ran.stderr) == ("200" in where)
    line = next(n for n, text in enumerate(SCRIPT.split("\n"), 1) if "train(n)" in text)
    assert (f"/main.py:{line}" in ran.stderr) == ("swallowing" in where)


@pytest.mark.parametrize("way", STOPS)
def test_everybody_may_ask_for_it(place: Place, way: str) -> None:
    voirfile(place, STOPS[way])
    ran = place.voir("--no-record", "main.py", "train")
    assert ran.seen == (0, "")
    assert "stopped early" in ran.stderr
    assert "Traceback" not in ran.stderr


@pytest.mark.parametrize("way", FAILS)
@pytest.mark.parametrize("where", ["train", "joining", "left"])
def test_an_abort_fails_the_run_whatever_thread_it_is_on(
    place: Place, way: str, where: str
) -> None:
    voirfile(place, FAILS[way])
    ran = place.voir("--no-record", "main.py", where)
    # What waits for a thread that a timer's abort has ended goes on.
    ends = where == "left" or (way == "a timer" and where == "joining")
    assert ran.seen == (1, "to the end\n" * ends)
    assert ran.stderr.count("ValueError: bad") == 1


def test_the_child_of_a_fork_has_no_instruments(place: Place) -> None:
    voirfile(place, "yield ov.phases.run_script; print('instrument')")
    ran = place.voir("--no-record", "main.py", "forking")
    assert ran.seen == (0, "to the end\nto the end\ninstrument\n")


def test_the_main_thread_is_known_though_gevent_gives_it_another_ident(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = stopping.Stopping()
    monkeypatch.setattr(threading.main_thread(), "_ident", 1)
    monkeypatch.setattr(stopping, "interrupt", lambda ident: pytest.fail("it is this thread"))
    monkeypatch.setattr(asked, "_arm", lambda: None)
    asked.raises(StopProgram())
    assert asked.meant(KeyboardInterrupt()) is not asked.wish
