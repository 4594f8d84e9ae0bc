"""Processes that a script starts are as those of a script under python."""

import pytest

POOL = """
import multiprocessing, os, sys, time
class Item:
    def __init__(self, n): self.n = n
def square(item):
    return Item(item.n ** 2)
def name(_):
    main = sys.modules["__main__"]
    return main.__name__, getattr(main, "__mp_main__", None), __name__, sys.argv
if __name__ == "__main__":
    context = multiprocessing.get_context({how!r})
    with context.Pool(2) as pool:
        print([item.n for item in pool.map(square, map(Item, range(5)))])
        print(pool.map(name, [0]))
    child = context.Process(target=sys.exit, args=(7,))
    child.start(); child.join(); print(child.exitcode)
    child = context.Process(target=divmod, args=(1, 0))
    child.start(); child.join(); print(child.exitcode)
    child = context.Process(target=time.sleep, args=(60,))
    child.start(); child.terminate(); child.join(); print(child.exitcode)
"""


# Under python too, spawned processes do not find what the __main__ of a directory defines.
WAYS = [(how, argv) for how in ("fork", "spawn", "forkserver") for argv in ("main.py", "-m main")]


@pytest.mark.parametrize(("how", "argv"), [*WAYS, ("fork", ".")])
def test_multiprocessing_works_by(same, how, argv):
    code = POOL.format(how=how)
    files = {"main.py": code, "__main__.py": code}
    outcome = same(files, *argv.split(), flags=("-W", "ignore"))
    assert outcome.stdout.startswith("[0, 1, 4, 9, 16]\n")
    assert outcome.stdout.endswith("7\n1\n-15\n")


def test_spawned_processes_keep_the_flags(same):
    code = """
import multiprocessing, sys
def show(): print(sys.flags.optimize, sys.warnoptions, sys._xoptions, sys.path[0], flush=True)
if __name__ == "__main__":
    child = multiprocessing.get_context("spawn").Process(target=show)
    child.start(); child.join()
"""
    assert same(code, flags=("-O", "-W", "error", "-X", "utf8")).stdout.startswith("1 ['error']")


FORKED = """
import atexit, os, sys
atexit.register(lambda: print("atexit", os.getpid() == parent, flush=True))
parent = os.getpid()
child = os.fork()
if child:
    print("status", os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
else:
    {}
"""


@pytest.mark.parametrize("how", ["pass", "sys.exit(3)", "sys.exit('x')", "1 / 0", "os._exit(4)"])
def test_a_forked_child_ends_as_under_python(same, how):
    same(FORKED.format(how), flags=("-W", "ignore"))


@pytest.mark.parametrize("how", ["pass", "sys.exit(3)", "1 / 0"])
def test_a_forked_child_does_not_finalize_the_run(sides, how):
    (sides.root / "main.py").write_text(FORKED.format(how))
    told = sides.run("launcher", ("main.py",), env={"MINIVOIR_TELL": "1"}, flags=("-W", "ignore"))
    assert told.stderr.count("finalized") == 1


def test_a_forked_child_dies_of_sigterm_at_once(same):
    code = """
import os, signal
reading, writing = os.pipe()
child = os.fork()
if not child:
    print(signal.getsignal(signal.SIGTERM) is signal.SIG_DFL, flush=True)
    os.write(writing, b"x")
    signal.pause()
os.read(reading, 1)
os.kill(child, signal.SIGTERM)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    assert same(code, flags=("-W", "ignore")).stdout == "True\n-15\n"


def test_a_signal_sent_to_a_child_at_once_is_not_lost(same):
    code = """
import os, signal
for _ in range(50):
    child = os.fork()
    if not child:
        while True: signal.pause()
    os.kill(child, signal.SIGTERM)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -15
print(signal.pthread_sigmask(signal.SIG_BLOCK, []))
"""
    assert same(code, flags=("-W", "ignore"), side="launcher").stdout == "set()\n"
