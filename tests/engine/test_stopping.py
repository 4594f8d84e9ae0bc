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
import asyncio, sys, threading, time
from voir import StopProgram

def step(i):
    done = i

def train(n=10**6):
    for i in range(n):
        step(i)
        time.sleep(0.0005)

def plain():
    train()

def cleaning():
    try:
        train()
    except StopProgram:
        print("cleaned up")

def swallowing():
    for _ in range(3):
        try:
            train()
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
    from concurrent.futures import ThreadPoolExecutor
    with ThreadPoolExecutor(2) as threads:
        list(threads.map(train, [10**6] * 4))

async def tasks():
    while True:
        step(0)
        await asyncio.sleep(0)

def loop():
    asyncio.run(tasks())

globals()[sys.argv[1]]()
print("to the end")
"""
MARK = 'ov.probe("//step > #exit as step").give()'
#: What a voirfile does to stop the script.
WAYS = {
    "the flag": "",
    "early_stop": "ov.require(early_stop(n=20))",
    "a subscriber": 'ov.probe("//step > done").subscribe(lambda e: e["done"] == 20 and ov.stop(1))',
    "a timer": "ov.require(lambda ov: stopping(ov))",
    "another thread": "threading.Timer(0.2, ov.stop).start()",
}
#: What is printed, in each of the places in which the script may be.
PLACES = {
    "plain": "",
    "cleaning": "cleaned up\nto the end\n",
    "finishing": "finally\n",
    "joining": "",
    "daemon": "",
    "left": "to the end\n",
    "pool": "",
    "loop": "",
}


@pytest.fixture
def place(tmp_path: Path) -> Place:
    place = Place(tmp_path)
    place.write("main.py", SCRIPT)
    return place


def voirfile(place: Place, way: str = "") -> None:
    place.write(
        "voirfile.py",
        f"""
        import threading
        from voir.instruments import early_stop

        def stopping(ov):
            with ov.every(0.2, ov.stop, first=0.2):
                yield ov.phases.run_script

        def instrument_stopping(ov):
            yield ov.phases.load_script
            {MARK}
            {way}
        """,
    )


@pytest.mark.parametrize("where", PLACES)
def test_a_stop_ends_the_script_wherever_it_is(place: Place, where: str) -> None:
    voirfile(place)
    ran = place.voir("--no-record", "--stop", "20", "main.py", where)
    assert ran.seen == (0, PLACES[where])
    assert "stopped early: after 20 steps" in ran.stderr
    assert "Traceback" not in ran.stderr


@pytest.mark.parametrize("way", WAYS)
def test_everybody_may_ask_for_it(place: Place, way: str) -> None:
    voirfile(place, WAYS[way])
    flag = () if WAYS[way] else ("--stop", "20")
    ran = place.voir("--no-record", *flag, "main.py", "plain")
    assert ran.seen == (0, "")
    assert "stopped early" in ran.stderr
    assert "Traceback" not in ran.stderr


def test_a_stop_that_is_swallowed_is_raised_again_and_where_it_was_caught_is_said(
    place: Place,
) -> None:
    voirfile(place)
    ran = place.voir("--no-record", "--stop", "20", "main.py", "swallowing")
    assert ran.seen == (0, "to the end\n")
    line = next(n for n, text in enumerate(SCRIPT.split("\n"), 1) if "range(3)" in text) + 2
    assert f"/main.py:{line}" in ran.stderr
    assert "stop-swallowed" not in ran.stderr  # Three times, not a hundred.


def test_one_that_swallows_every_stop_is_let_go(place: Place) -> None:
    voirfile(place)
    place.write("main.py", SCRIPT.replace("range(3)", "range(200)").replace("10**6", "2"))
    ran = place.voir("--no-record", "--stop", "2", "main.py", "swallowing")
    assert ran.seen == (0, "to the end\n")
    assert "stop-swallowed" in ran.stderr


def test_an_abort_from_a_timer_fails_the_run(place: Place) -> None:
    voirfile(place, "ov.require(lambda ov: aborting(ov))")
    text = (place.path / "voirfile.py").read_text(encoding="utf-8")
    aborting = "def aborting(ov):\n    def act():\n        ov.abort(ValueError('bad'))\n"
    aborting += "    with ov.every(0.2, act, first=0.2):\n        yield ov.phases.run_script\n"
    (place.path / "voirfile.py").write_text(text + aborting, encoding="utf-8")
    ran = place.voir("--no-record", "main.py", "plain")
    assert ran.status == 1
    assert ran.stderr.count("ValueError: bad") == 1


def test_the_main_thread_is_known_though_gevent_gives_it_another_ident(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked = stopping.Stopping()
    monkeypatch.setattr(threading.main_thread(), "_ident", 1)
    monkeypatch.setattr(stopping, "interrupt", lambda ident: pytest.fail("it is this thread"))
    monkeypatch.setattr(asked, "_arm", lambda: None)
    asked.raises(StopProgram())
    assert asked.meant(KeyboardInterrupt()) is not asked.wish
