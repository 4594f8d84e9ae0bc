"""What cleans up after a stop that was swallowed does so to its end, and nothing else goes on."""

from __future__ import annotations

import sys
from pathlib import Path
from textwrap import dedent, indent

import pytest

from tests.running import Place

BEGIN = """
import asyncio, atexit, contextlib, sys, threading, time
import overseer.cleaning
from voir import give

done = []
atexit.register(lambda: print("steps", len(done), flush=True))

def step(i=0):
    done.append(i)
    give(step=i)

def train():
    for i in range(100):
        step(i)

class Closing:
    def __init__(self, name="closing"):
        self.name = name
    def __enter__(self):
        return self
    def close(self, *info):
        print(self.name, "begins")
        print(self.name, "ends")
    def __exit__(self, *info):
        self.close()

class Aliased(Closing):
    __exit__ = Closing.close

def cleans(*names):
    for name in names:
        print(name)
"""

#: What a script does with the stop, and what it is to print.
SWALLOWS = {
    "a finally behind a bare except": (
        """
        def main():
            try:
                train()
            except:
                print("handler begins")
                print("handler ends")
            finally:
                print("finally begins")
                cleans("a", "b")
                print("finally ends")
            print("goes on")
        main()
        """,
        ["handler begins", "handler ends", "finally begins", "a", "b", "finally ends"],
    ),
    "a finally behind a handler that returns": (
        """
        def main():
            try:
                train()
            except BaseException:
                cleans("handler")
                return None
            finally:
                cleans("a")
                cleans("b")
        main()
        print("goes on")
        """,
        ["handler", "a", "b"],
    ),
    "a finally in a loop that goes on": (
        """
        while True:
            try:
                step()
            except:
                continue
            finally:
                if len(done) > 3:
                    print("a")
                    print("b")
        """,
        ["a", "b"],
    ),
    "a finally in a for with an else": (
        """
        for i in range(100):
            try:
                step(i)
            except:
                pass
            finally:
                if i > 2:
                    cleans("a", "b")
        else:
            print("goes on")
        """,
        ["a", "b"],
    ),
    "one behind the other": (
        """
        try:
            try:
                try:
                    train()
                except:
                    print("handler")
                finally:
                    cleans("a")
                    cleans("b")
                print("goes on")
            finally:
                cleans("c")
                cleans("d")
        except:
            print("another")
        finally:
            cleans("e")
            cleans("f")
        print("goes on")
        """,
        ["handler", "a", "b", "c", "d", "another", "e", "f"],
    ),
    "an outer one that only sees a return": (
        """
        def inner():
            try:
                train()
            except:
                pass
        def main():
            try:
                inner()
            except:
                print("not reached")
            else:
                print("goes on")
            finally:
                cleans("a")
                cleans("b")
        main()
        """,
        ["a", "b"],
    ),
    "an else is no cleaning up": (
        """
        try:
            with contextlib.suppress(BaseException):
                train()
        except:
            print("handler")
        else:
            print("goes on")
        finally:
            cleans("a")
        """,
        ["a"],
    ),
    "a finally with a finally of its own": (
        """
        try:
            train()
        except:
            pass
        finally:
            try:
                cleans("a")
            finally:
                with Closing():
                    cleans("b")
            cleans("c")
        print("goes on")
        """,
        ["a", "b", "closing begins", "closing ends", "c"],
    ),
    "a finally that swallows an error of its own": (
        """
        try:
            train()
        except:
            pass
        finally:
            try:
                1 / 0
            except ZeroDivisionError:
                cleans("a")
            cleans("b")
        print("goes on")
        """,
        ["a", "b"],
    ),
    "a with": (
        """
        with Closing():
            try:
                train()
            except:
                pass
        print("goes on")
        """,
        ["closing begins", "closing ends"],
    ),
    "withs that a return leaves": (
        """
        def main():
            with Closing("outer"), Closing("middle"):
                with Closing("inner"):
                    try:
                        train()
                    except:
                        return 3
        main()
        print("goes on")
        """,
        [f"{name} {what}" for name in ("inner", "middle", "outer") for what in ("begins", "ends")],
    ),
    "a with that is left by another name": (
        """
        with Aliased():
            try:
                train()
            except:
                pass
        print("goes on")
        """,
        ["closing begins", "closing ends"],
    ),
    "a with in one line": (
        """
        def guarded():
            try:
                train()
            except:
                pass
        def main():
            with Aliased(): guarded()
        main()
        print("goes on")
        """,
        ["closing begins", "closing ends"],
    ),
    "a lock": (
        """
        lock = threading.Lock()
        atexit.register(lambda: print("locked", lock.locked()))
        with lock:
            try:
                train()
            except:
                pass
        print("goes on")
        """,
        ["locked False"],
    ),
    "a with in a loop": (
        """
        while True:
            with contextlib.suppress(BaseException): step()
        """,
        [],
    ),
    "a with in a loop around a handler": (
        """
        while True:
            with contextlib.nullcontext():
                try:
                    step()
                except:
                    pass
        """,
        [],
    ),
    "suppress": (
        """
        def main():
            try:
                with Closing(), contextlib.suppress(BaseException):
                    train()
            finally:
                cleans("a")
                cleans("b")
            print("goes on")
        main()
        """,
        ["closing begins", "closing ends", "a", "b"],
    ),
    "an exit that swallows": (
        """
        class Swallowing(Closing):
            def __exit__(self, *info):
                self.close()
                return True
        try:
            with Closing("outer"):
                with Swallowing("inner"):
                    train()
        finally:
            cleans("a")
            cleans("b")
        print("goes on")
        """,
        ["inner begins", "inner ends", "outer begins", "outer ends", "a", "b"],
    ),
    "a context manager made of a generator": (
        """
        @contextlib.contextmanager
        def manager():
            yield
            cleans("a")
            cleans("b")
        def main():
            with manager():
                try:
                    train()
                except:
                    pass
        main()
        print("goes on")
        """,
        ["a", "b"],
    ),
    "a stack of exits": (
        """
        def main():
            with contextlib.ExitStack() as stack:
                stack.callback(cleans, "a", "b")
                stack.enter_context(Closing())
                with contextlib.suppress(BaseException):
                    train()
        main()
        print("goes on")
        """,
        ["closing begins", "closing ends", "a", "b"],
    ),
    "a generator": (
        """
        def produce():
            try:
                while True:
                    step()
                    yield 1
            except:
                print("handler")
            finally:
                cleans("a")
                cleans("b")
        for _ in produce():
            pass
        print("goes on")
        """,
        ["handler", "a", "b"],
    ),
    "a generator around one": (
        """
        def produce():
            try:
                while True:
                    try:
                        step()
                        yield 1
                    except:
                        print("handler")
            finally:
                cleans("a")
                cleans("b")
        for _ in produce():
            pass
        print("goes on")
        """,
        ["handler", "a", "b"],
    ),
    "an iterator that ends by it": (
        """
        class Steps:
            def __iter__(self):
                return self
            def __next__(self):
                try:
                    step()
                except BaseException:
                    raise StopIteration
        try:
            for _ in Steps():
                pass
            print("goes on")
        except:
            print("handler")
        finally:
            cleans("a")
            cleans("b")
        """,
        ["handler", "a", "b"],
    ),
    "an error made of it": (
        """
        try:
            try:
                train()
            except BaseException:
                raise ValueError
            finally:
                cleans("a")
                cleans("b")
        except ValueError:
            print("handler")
        finally:
            cleans("c")
            cleans("d")
        print("goes on")
        """,
        ["a", "b", "handler", "c", "d"],
    ),
    "a coroutine": (
        """
        class Awaited:
            async def __aenter__(self):
                return self
            async def __aexit__(self, *info):
                await asyncio.sleep(0.01)
                cleans("c")
                cleans("d")
        async def main():
            async with Awaited():
                try:
                    train()
                except BaseException:
                    print("handler")
                finally:
                    cleans("a")
                    await asyncio.sleep(1.0)
                    cleans("b")
            print("goes on")
        asyncio.run(main())
        """,
        ["handler", "a", "b", "c", "d"],
    ),
}


def script(tmp_path: Path, body: str) -> Place:
    place = Place(tmp_path)
    place.write("main.py", BEGIN + dedent(body) + "\nprint('the end of the script')\n")
    return place


@pytest.mark.parametrize(("body", "printed"), SWALLOWS.values(), ids=SWALLOWS.keys())
def test_what_cleans_up_comes_to_its_end(tmp_path: Path, body: str, printed: list[str]) -> None:
    done = script(tmp_path, body).voir("--no-record", "--no-monitor", "--stop", "4", "main.py")
    assert "Traceback" not in done.stderr and "stopped early" in done.stderr
    assert done.status == 0
    assert sorted(done.stdout.split("\n")[:-1]) == sorted([*printed, "steps 4"])
    assert [line for line in done.stdout.split("\n") if line in printed] == printed


@pytest.mark.parametrize(("body", "printed"), SWALLOWS.values(), ids=SWALLOWS.keys())
def test_it_does_in_a_thread(tmp_path: Path, body: str, printed: list[str]) -> None:
    work = "def work():\n" + indent(dedent(body) + "print('goes on')\n", "    ")
    start = "thread = threading.Thread(target=work)\nthread.start()\nthread.join()\n"
    place = script(tmp_path, work + start)
    done = place.voir("--no-record", "--no-monitor", "--stop", "4", "main.py")
    assert "Traceback" not in done.stderr and "stopped early" in done.stderr
    assert done.status == 0
    assert sorted(done.stdout.split("\n")[:-1]) == sorted([*printed, "steps 4"])
    assert [line for line in done.stdout.split("\n") if line in printed] == printed


def test_what_cleans_up_may_wait(tmp_path: Path) -> None:
    body = """
        ready = threading.Event()
        try:
            train()
        except:
            pass
        finally:
            threading.Timer(1.2, ready.set).start()
            print(ready.wait(20))
        print("goes on")
    """
    done = script(tmp_path, body).voir("--no-record", "--no-monitor", "--stop", "4", "main.py")
    assert done.seen == (0, "True\nsteps 4\n"), done.stderr


@pytest.mark.skipif(sys.version_info[:2] == (3, 11), reason="A traced thread spins: it is let go.")
def test_a_thread_that_cleans_up_for_long_does_not_go_on(tmp_path: Path) -> None:
    body = """
        import overseer.insist
        overseer.insist.PATIENCE = 1.0
        ready = threading.Event()
        def work():
            try:
                train()
            except:
                pass
            finally:
                ready.wait(20)
                cleans("a", "b")
            print("goes on")
        threading.Thread(target=work).start()
        try:
            while True:
                sum(range(1000))
        finally:
            ready.set()
    """
    done = script(tmp_path, body).voir("--no-record", "--no-monitor", "--stop", "4", "main.py")
    assert done.seen == (0, "a\nb\nsteps 4\n"), done.stderr


ENDLESS = {
    "works": "while True:\n    time.sleep(0.001)",
    "trains": "while True:\n    try: give(step=1)\n    except: pass",
    "waits": "threading.Event().wait()",
    "awaits": "asyncio.run(asyncio.sleep(1e6))",
}


@pytest.mark.parametrize("endless", ENDLESS.values(), ids=ENDLESS.keys())
def test_what_does_not_come_to_an_end_is_ended(tmp_path: Path, endless: str) -> None:
    body = """
        overseer.cleaning.LIMIT = 0.3
        try:
            try:
                train()
            except:
                pass
            finally:
                print("begins")
                # endless
                print("ends")
        finally:
            cleans("a")
            cleans("b")
    """
    body = dedent(body).replace("# endless", indent(endless, " " * 8).strip())
    done = script(tmp_path, body).voir("--no-record", "--no-monitor", "--stop", "4", "main.py")
    assert done.seen == (0, "begins\na\nb\nsteps 4\n"), done.stderr


def test_a_coroutine_that_cleans_up_for_ever_is_ended(tmp_path: Path) -> None:
    body = """
        overseer.cleaning.LIMIT = 0.3
        async def main():
            try:
                train()
            except:
                pass
            finally:
                while True:
                    await asyncio.sleep(0.01)
        asyncio.run(main())
    """
    done = script(tmp_path, body).voir("--no-record", "--no-monitor", "--stop", "4", "main.py")
    assert done.seen == (0, "steps 4\n"), done.stderr


def test_a_training_within_a_finally_is_stopped_there(tmp_path: Path) -> None:
    body = """
        try:
            print("warms up")
        finally:
            with Closing():
                for i in range(100):
                    try:
                        step(i)
                    except:
                        print("swallowed", i)
    """
    done = script(tmp_path, body).voir("--no-record", "--no-monitor", "--stop", "4", "main.py")
    printed = "warms up\nswallowed 3\nclosing begins\nclosing ends\nsteps 4\n"
    assert done.seen == (0, printed), done.stderr


def test_a_training_within_an_exit_is_stopped_there(tmp_path: Path) -> None:
    body = """
        class Trains:
            def __enter__(self):
                return self
            def __exit__(self, *info):
                for i in range(100):
                    try: step(i)
                    except: pass
        with Trains():
            pass
    """
    done = script(tmp_path, body).voir("--no-record", "--no-monitor", "--stop", "4", "main.py")
    assert done.seen == (0, "steps 4\n"), done.stderr


def test_code_without_a_text_is_ended_all_the_same(tmp_path: Path) -> None:
    body = '''
        exec("""if True:
            while True:
                try:
                    step()
                except:
                    pass
                finally:
                    done[-1]
        """)
    '''
    done = script(tmp_path, body).voir("--no-record", "--no-monitor", "--stop", "4", "main.py")
    assert done.seen == (0, "steps 4\n"), done.stderr


def test_a_probed_function_cleans_up(tmp_path: Path) -> None:
    place = script(
        tmp_path,
        """
        def main():
            try:
                for i in range(100):
                    done.append(i)
            except:
                print("handler")
            finally:
                cleans("a")
                cleans("b")
        main()
        """,
    )
    place.write(
        "voirfile.py",
        """
        def instrument_probes(ov):
            yield ov.phases.load_script
            ov.probe("//main > #endloop_i as step").give()
        """,
    )
    done = place.voir("--no-record", "--no-monitor", "--stop", "4", "main.py")
    assert done.seen == (0, "handler\na\nb\nsteps 4\n"), done.stderr
