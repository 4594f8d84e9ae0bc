"""An early stop gets through although the script's main thread waits, or nobody runs its lines."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.running import Place

STEP = """
import atexit, queue, signal, threading, time
from voir import give

done = []
atexit.register(lambda: print("steps", len(done)))

def step(i):
    done.append(i)
    give(step=i)

def steps(each=lambda i: None):
    for i in range(200):
        step(i)
        each(i)
"""

WAITS = {
    "an event": """
        ready = threading.Event()
        def work():
            steps()
            ready.set()
        threading.Thread(target=work, daemon=True).start()
        ready.wait()
    """,
    "a queue": """
        results = queue.Queue()
        threading.Thread(target=steps, args=[results.put]).start()
        while results.get() < 199:
            pass
    """,
    "a queue in C": """
        results = queue.SimpleQueue()
        threading.Thread(target=steps, args=[results.put]).start()
        while results.get() < 199:
            pass
    """,
    "a bare except around a wait": """
        tasks, results = queue.Queue(1), queue.Queue()
        def work():
            while True:
                try:
                    i = tasks.get()
                    step(i)
                    results.put(i)
                except: pass
        threading.Thread(target=work, daemon=True).start()
        for i in range(200):
            try:
                tasks.put(i)
                results.get()
            except: pass
    """,
    "a daemon that is joined and waits": """
        results = queue.Queue()
        def read():
            while results.get() < 199:
                pass
        threading.Thread(target=steps, args=[results.put]).start()
        reader = threading.Thread(target=read, daemon=True)
        reader.start()
        reader.join()
    """,
    "a pool that loses its work": """
        from multiprocessing.pool import ThreadPool
        with ThreadPool(1) as pool:
            for i in range(200):
                try: pool.apply(step, [i])
                except BaseException: pass
    """,
    "a pool's result": """
        from concurrent.futures import ThreadPoolExecutor
        with ThreadPoolExecutor(1) as pool:
            for i in range(200):
                try: pool.submit(step, i).result()
                except BaseException: pass
    """,
    "a pool that has much to do": """
        from concurrent.futures import ThreadPoolExecutor
        with ThreadPoolExecutor(1) as pool:
            futures = [pool.submit(step, i) for i in range(200)]
        errors = [future.exception() for future in futures]
    """,
    "a pool whose first result ends the script": """
        from concurrent.futures import ThreadPoolExecutor, as_completed
        pool = ThreadPoolExecutor(1)
        futures = [pool.submit(step, i) for i in range(2000)]
        for future in as_completed(futures):
            future.result()
    """,
    "an executor of an event loop": """
        import asyncio
        async def main():
            for i in range(200):
                try: await asyncio.get_running_loop().run_in_executor(None, step, i)
                except BaseException: pass
        asyncio.run(main())
    """,
    "a task": """
        import asyncio
        async def work(tasks):
            while True:
                step(await tasks.get())
                tasks.task_done()
        async def main():
            tasks = asyncio.Queue()
            for i in range(200):
                tasks.put_nowait(i)
            worker = asyncio.create_task(work(tasks))
            await tasks.join()
        asyncio.run(main())
    """,
    "a callback": """
        import asyncio
        async def main():
            loop, ready = asyncio.get_running_loop(), asyncio.Event()
            def call(i):
                try: step(i)
                except: pass
                loop.call_soon(call, i + 1) if i < 199 else ready.set()
            loop.call_soon(call, 0)
            await ready.wait()
        asyncio.run(main())
    """,
}


@pytest.mark.parametrize("wait", WAITS.values(), ids=WAITS.keys())
def test_a_stop_reaches_a_script_that_waits(tmp_path: Path, wait: str) -> None:
    place = stepping(tmp_path, wait)
    done = place.voir("--no-record", "--no-monitor", "--stop", "4", "main.py")
    assert done.seen == (0, "steps 4\n"), done.stderr
    assert "Traceback" not in done.stderr and "retrieved" not in done.stderr
    assert "stopped early" in done.stderr


def stepping(tmp_path: Path, body: str) -> Place:
    place = Place(tmp_path)
    place.write("body.py", body)
    body = (tmp_path / "body.py").read_text()
    place.write("main.py", STEP + body + "\nprint('the end of the script')\n")
    return place


CLEANING = {
    "a thread": """
        saver = threading.Thread(target=lambda: (time.sleep(1), print("saved")))
        try:
            steps()
        finally:
            saver.start()
            saver.join()
    """,
    "a queue": """
        saved = queue.Queue()
        try:
            steps()
        finally:
            threading.Timer(1, saved.put, ["saved"]).start()
            print(saved.get())
    """,
    "a coroutine": """
        import asyncio
        async def save():
            await asyncio.sleep(1)
            print("saved")
        async def main():
            try:
                for i in range(200):
                    step(i)
                    await asyncio.sleep(0)
            finally:
                await save()
        asyncio.run(main())
    """,
    "the pool that was stopped": """
        from concurrent.futures import ThreadPoolExecutor
        with ThreadPoolExecutor(1) as pool:
            try:
                pool.submit(steps).result()
            finally:
                print(pool.submit(lambda: "saved").result())
    """,
}


@pytest.mark.parametrize("cleaning", CLEANING.values(), ids=CLEANING.keys())
def test_what_cleans_up_may_wait(tmp_path: Path, cleaning: str) -> None:
    place = stepping(tmp_path, cleaning)
    done = place.voir("--no-record", "--no-monitor", "--stop", "4", "main.py")
    assert done.seen == (0, "saved\nsteps 4\n"), done.stderr
    assert "Traceback" not in done.stderr


def test_a_thread_that_has_time_is_waited_for_at_the_end(tmp_path: Path) -> None:
    body = """
        def save():
            time.sleep(1.5)
            print("saved")
        threading.Thread(target=save).start()
        steps()
    """
    done = stepping(tmp_path, body).voir("--no-record", "--stop", "4", "main.py")
    assert done.seen == (0, "saved\nsteps 4\n"), done.stderr
    assert "ignored" not in done.stderr


def test_a_signal_that_the_script_uses_is_left_to_it(tmp_path: Path) -> None:
    body = """
        import os
        signal.signal(signal.SIGURG, lambda signum, frame: print("urgent"))
        atexit.register(os.kill, os.getpid(), signal.SIGURG)
        thread = threading.Thread(target=steps)
        thread.start()
        thread.join()
    """
    done = stepping(tmp_path, body).voir("--no-record", "--no-monitor", "--stop", "4", "main.py")
    assert done.seen == (0, "urgent\nsteps 4\n"), done.stderr


def test_a_run_that_is_not_to_be_stopped_has_no_handler(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.write("main.py", "import signal\nprint(signal.getsignal(signal.SIGURG))\n")
    plain = place.python("main.py").stdout
    assert place.voir("main.py").stdout == plain
    assert place.voir("--stop", "3", "main.py").stdout != plain
