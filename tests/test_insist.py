"""An early stop is not swallowed by the script, and stops at exactly the step it names."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent, indent

import pytest

from tests.running import Place

LOOPS = {
    "a bare except": """
        for i in range(100):
            try:
                step(i)
            except:
                print("swallowed", i)
    """,
    "a loop that never gives up": """
        i = 0
        while True:
            try:
                step(i)
                i += 1
            except BaseException:
                pass
    """,
    "handlers within handlers": """
        def guarded(i):
            try:
                try:
                    step(i)
                except:
                    pass
                print("after the inner one")
            except:
                print("the outer one")
            print("after the outer one")

        for i in range(100):
            guarded(i)
    """,
    "suppress": """
        import contextlib
        for i in range(100):
            with contextlib.suppress(BaseException):
                step(i)
    """,
    "an exception made of it": """
        for i in range(100):
            try:
                step(i)
            except BaseException as error:
                raise RuntimeError("lost") from error
    """,
    "sys.exit in the handler": """
        import sys
        for i in range(100):
            try:
                step(i)
            except:
                sys.exit(3)
    """,
    "a loop within a handler within a loop": """
        for epoch in range(10):
            try:
                for i in range(10):
                    try: step(i)
                    except: pass
            except: pass
            finally: pass
    """,
    "an event loop": """
        import asyncio

        async def work():
            for i in range(100):
                step(i)
                await asyncio.sleep(0)

        async def main():
            await asyncio.gather(asyncio.create_task(work()), return_exceptions=True)

        asyncio.run(main())
    """,
    "a generator": """
        def produce():
            for i in range(100):
                try:
                    step(i)
                    yield i
                except BaseException:
                    print("generator goes on")

        for _ in produce():
            pass
    """,
}


@pytest.mark.parametrize("loop", LOOPS.values(), ids=LOOPS.keys())
def test_a_stop_gets_through(tmp_path: Path, loop: str) -> None:
    place = Place(tmp_path)
    place.write("steps.py", "from voir import give\ndef step(i):\n    give(step=i)\n")
    place.write("body.py", loop)
    body = (tmp_path / "body.py").read_text()
    prefix = "import atexit, steps\ndone = []\n"
    prefix += "def step(i):\n    done.append(i)\n    steps.step(i)\n"
    prefix += "atexit.register(lambda: print('steps', len(done)))\n"
    place.write("main.py", prefix + body + "\nprint('the end of the script')\n")
    done = place.voir("--stop", "4", "main.py")
    assert done.status == 0, done.stderr
    assert done.stdout.endswith("steps 4\n")
    assert "the end of the script" not in done.stdout
    assert "Traceback" not in done.stderr
    assert "stopped early" in done.stderr


@pytest.mark.parametrize("loop", LOOPS.values(), ids=LOOPS.keys())
def test_a_stop_gets_through_in_a_thread(tmp_path: Path, loop: str) -> None:
    place = Place(tmp_path)
    place.write("steps.py", "from voir import give\ndef step(i):\n    give(step=i)\n")
    begin = "import atexit, steps, threading\ndone = []\n"
    begin += "def step(i):\n    done.append(i)\n    steps.step(i)\n"
    begin += "atexit.register(lambda: print('steps', len(done)))\n"
    end = "print('the end of the thread')\n"
    work = begin + "def work():\n" + indent(dedent(loop) + end, "    ")
    start = "thread = threading.Thread(target=work)\nthread.start()\nwhile thread: pass\n"
    place.write("main.py", work + start + "print('the end of the script')\n")
    done = place.voir("--no-record", "--no-monitor", "--stop", "4", "main.py")
    assert done.status == 0, done.stderr
    assert done.stdout.endswith("steps 4\n")
    assert "the end" not in done.stdout
    assert "Traceback" not in done.stderr
    assert "stopped early" in done.stderr


def test_a_script_that_waits_for_its_thread_ends_with_it(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.write(
        "main.py",
        """
        import threading
        from voir import give

        def work():
            for i in range(100):
                try:
                    give(step=i)
                except:
                    print("swallowed", i)

        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        print("the end")
        """,
    )
    done = place.voir("--no-record", "--no-monitor", "--stop", "4", "main.py")
    assert done.seen == (0, "swallowed 3\n"), done.stderr


def test_a_stop_gets_through_in_the_threads_of_a_pool(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.write(
        "main.py",
        """
        from concurrent.futures import ThreadPoolExecutor
        from voir import give

        done = []

        def work(_):
            for i in range(10_000):
                try:
                    give(step=i)
                except BaseException:
                    continue
                done.append(i)

        try:
            with ThreadPoolExecutor(2) as pool:
                list(pool.map(work, range(8)))
        finally:
            print(len(done) < 8)
        print("the end")
        """,
    )
    done = place.voir("--no-record", "--no-monitor", "--stop", "4", "main.py")
    assert done.seen == (0, "True\n"), done.stderr


def test_a_thread_that_cleans_up_for_long_holds_up_the_stop_and_no_more(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.write(
        "main.py",
        """
        import threading
        import overseer.insist
        from voir import give

        overseer.insist.PATIENCE = 0.01
        seen = threading.Event()

        def work():
            try:
                for i in range(100):
                    give(step=i)
            finally:
                seen.wait(20)
                print("cleaned up", seen.is_set())

        threading.Thread(target=work).start()
        try:
            while True:
                sum(range(1000))
        finally:
            seen.set()
        """,
    )
    done = place.voir("--no-record", "--no-monitor", "--stop", "4", "main.py")
    assert done.seen == (0, "cleaned up True\n"), done.stderr


def test_what_is_freed_on_the_way_cleans_up(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.write(
        "main.py",
        """
        from voir import give

        class Batches:
            def __iter__(self):
                return self
            def __next__(self):
                return 1
            def __del__(self):
                done = ["freed"]
                print(*done)

        def train():
            for batch in Batches():  # It is freed while the stop passes by.
                give(step=batch)

        train()
        """,
    )
    done = place.voir("--no-record", "--stop", "2", "main.py")
    assert done.seen == (0, "freed\n")
    assert "ignored" not in done.stderr


def test_finally_and_with_do_their_work_once(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.write(
        "main.py",
        """
        from voir import give

        class Closing:
            def __enter__(self):
                return self
            def __exit__(self, *info):
                print("closed", info[0].__name__)
                return False

        def train():
            try:
                with Closing():
                    for i in range(100):
                        give(step=i)
            finally:
                for name in ("checkpoint", "log"):
                    print("saved", name)

        try:
            train()
        except Exception:
            print("not an Exception")
        """,
    )
    done = place.voir("--stop", "2", "main.py")
    assert done.seen == (0, "closed StopProgram\nsaved checkpoint\nsaved log\n")


def test_every_with_is_left_that_was_entered(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.write(
        "main.py",
        """
        from voir import give

        class Entered:
            def __init__(self, name):
                self.name = name
            def __enter__(self):
                return self
            def __exit__(self, kind, error, trace):
                print("left", self.name, kind is not None)

        with Entered(1), Entered(2):
            with Entered(3):
                try:
                    for i in range(20):
                        give(step=i)
                finally:
                    with Entered("cleaning up"):
                        print("finally")
        """,
    )
    done = place.voir("--no-record", "--stop", "5", "main.py")
    assert done.stdout.splitlines() == [
        "finally",
        "left cleaning up False",
        "left 3 True",
        "left 2 True",
        "left 1 True",
    ]
