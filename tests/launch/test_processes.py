"""Processes that a script starts are as those of a script under python."""

import re

import pytest

POOL = """
import multiprocessing, sys, time
class Item:
    def __init__(self, n): self.n = n
def square(item): return Item(item.n ** 2)
def name(_):
    main = sys.modules["__main__"]
    flags = sys.flags.optimize, sys.warnoptions, sys._xoptions, sys.path[0]
    return main.__name__, getattr(main, "__mp_main__", None), __name__, sys.argv, flags
if __name__ == "__main__":
    context = multiprocessing.get_context({how!r})
    with context.Pool(2) as pool:
        print([item.n for item in pool.map(square, map(Item, range(5)))], pool.map(name, [0]))
    for target, args in (sys.exit, (7,)), (divmod, (1, 0)), (time.sleep, (60,)):
        child = context.Process(target=target, args=args)
        child.start()
        if target is time.sleep: child.terminate()
        child.join(); print(child.exitcode)
"""
# Under python too, spawned processes do not find what the __main__ of a directory defines.
WAYS = [(how, argv) for how in ("fork", "spawn", "forkserver") for argv in ("main.py", "-m main")]


@pytest.mark.parametrize(("how", "argv"), [*WAYS, ("fork", ".")])
def test_multiprocessing_works_by(same, how, argv):
    code = POOL.format(how=how)
    flags = ("-O", "-W", "ignore", "-X", "utf8")
    outcome = same({"main.py": code, "__main__.py": code}, *argv.split(), flags=flags)
    assert re.fullmatch(r"\[0, 1, 4, 9, 16\] .*\n7\n1\n-15\n", outcome.stdout)


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
def test_a_forked_child_ends_as_under_python_and_does_not_finalize_the_run(same, sides, how):
    same(FORKED.format(how), flags=("-W", "ignore"))
    told = sides.run("told", ("main.py",), flags=("-W", "ignore"))
    assert told.stderr.count("finalized") == 1


def test_a_forked_child_has_the_default_and_dies_of_sigterm_at_once(same):
    code = """
import os, signal
def fork(act):
    child = os.fork()
    if not child:
        act()
        while True: signal.pause()
    return child
def end(child):
    os.kill(child, signal.SIGTERM)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -15
def show():
    os.write(writing, b"%d" % (signal.getsignal(signal.SIGTERM) is signal.SIG_DFL))
reading, writing = os.pipe()
child = fork(show)
print(os.read(reading, 1))
end(child)
for _ in range(50): end(fork(int))  # A signal that comes before the child is set up is not lost.
print(signal.pthread_sigmask(signal.SIG_BLOCK, []))
"""
    assert same(code, flags=("-W", "ignore")).stdout == "b'1'\nset()\n"
