"""However a script ends, the process ends as under python: stdout, stderr and exit status."""

import os
import signal
import subprocess
import sys

import pytest

EXITS = [
    "sys.exit()",
    "sys.exit(None)",
    "sys.exit(0)",
    "sys.exit(3)",
    "sys.exit(True)",
    "sys.exit(-1)",
    "sys.exit(256)",
    "sys.exit(2**31)",
    "sys.exit(2**63 - 1)",
    "sys.exit(2**63)",
    "sys.exit(-2**100)",
    "sys.exit(1.5)",
    "sys.exit('a message')",
    "sys.exit('')",
    "sys.exit(b'bytes')",
    "sys.exit((1, 2))",
    "sys.exit([])",
    "sys.exit(ValueError('the error'))",
    "raise SystemExit",
    "raise SystemExit(4, 5)",
    "exit(6)",
    "quit('bye')",
    "os._exit(7)",
    "os.abort()",
]

#: Pythons that leave an error of their own behind when an exit code cannot be used (gh-125842).
FORGETFUL = (3, 12) <= sys.version_info < (3, 12, 8) or sys.version_info[:3] == (3, 13, 0)
if FORGETFUL:
    EXITS = [exit for exit in EXITS if "2**63)" not in exit and "2**100" not in exit]


@pytest.mark.parametrize("exit", EXITS)
def test_every_way_to_exit(same, exit):
    same(f"import os, sys\nprint('before', flush=True)\n{exit}\nprint('never')")


@pytest.mark.parametrize("exit", ["sys.exit(3)", "sys.exit('a message')", "1 / 0"])
@pytest.mark.parametrize("place", ["prefix", "module", "package"])
def test_every_place_to_exit_from(same, exit, place):
    files = {"near.py": f"import sys\n{exit}", "main.py": "import near", "pkg/main.py": "1 / 1"}
    files["pkg/__init__.py"] = f"import sys\n{exit}"
    argv = {"prefix": ["main.py"], "module": ["-m", "main"], "package": ["-m", "pkg.main"]}
    same(files, *argv[place])


CUSTOM_EXITS = {
    "an int": "code = property(lambda self: 9)",
    "text": "code = 'custom'",
    "an error": "code = property(lambda self: 1 / 0)",
    "unprintable": "code = type('T', (), {'__str__': lambda self: 1 / 0})()",
}

if FORGETFUL:
    del CUSTOM_EXITS["unprintable"]


@pytest.mark.parametrize("body", CUSTOM_EXITS.values(), ids=CUSTOM_EXITS)
def test_an_exit_whose_code_is_computed(same, body):
    shown = "def __str__(self): return 'shown'"
    same(f"class Leave(SystemExit):\n    {body}\n    {shown}\nraise Leave(2)")


@pytest.mark.parametrize("stderr", ["None", "io.StringIO()", "1", "Broken()"])
@pytest.mark.parametrize("ending", ["sys.exit('a message')", "1 / 0", "pass"])
def test_whatever_the_script_has_made_of_stderr(same, stderr, ending):
    same(
        f"""
import io, sys
class Broken:
    def write(self, text): raise OSError("no")
sys.stderr = {stderr}
{ending}
"""
    )


def test_a_script_without_stderr_can_exit_with_a_message(same):
    same("import sys; del sys.stderr; sys.exit('a message')")


ENDINGS = {
    "the end": "pass",
    "an exit": "sys.exit(3)",
    "a message": "sys.exit('a message')",
    "an error": "raise ValueError('oh')",
    "an interrupt": "raise KeyboardInterrupt",
    "a custom interrupt": "raise type('Mine', (KeyboardInterrupt,), {})('oh')",
    "a generator's exit": "raise GeneratorExit",
    "a group": "raise BaseExceptionGroup('all', [ValueError(1), KeyboardInterrupt()])",
}
ending = pytest.mark.parametrize("ending", ENDINGS.values(), ids=ENDINGS)


@ending
@pytest.mark.parametrize("argv", [("main.py",), ("-m", "main"), (".",)], ids=str)
def test_streams_threads_and_atexit_come_in_pythons_order(same, ending, argv):
    code = f"""
import atexit, sys, threading
def last():
    names = sorted(n for n in main.__dict__ if n.startswith("__"))
    print("atexit", names, threading.main_thread().is_alive())
    print(getattr(sys, "last_value", "nothing"), sys.excepthook is sys.__excepthook__)
class Witness:
    def __del__(self, print=print): print("deleted", flush=True)
main = sys.modules["__main__"]
witness = Witness()
atexit.register(last)
started = threading.Event()
def work():
    started.wait()
    threading.main_thread().join()
    print("thread")
threading.Thread(target=work).start()
print("out", end=" ")
print("err", file=sys.stderr)
started.set()
{ending}
"""
    same({"main.py": code, "__main__.py": code}, *argv, stderr=subprocess.STDOUT)


def test_idle_executors_are_shut_down(same):
    code = """
from concurrent.futures import ThreadPoolExecutor
pool = ThreadPoolExecutor(2)
future = pool.submit(print, "worked")
"""
    assert same(code).stdout == "worked\n"


HOOKS = {
    "shows": "print('hook', kind, value, [f.name for f in traceback.extract_tb(tb)])",
    "raises": "raise OSError('hook')",
    "raises in a function": "helper()",
    "exits": "sys.exit(12)",
    "exits with a message": "sys.exit('message')",
    "is interrupted": "raise KeyboardInterrupt",
    "delegates": "sys.__excepthook__(kind, value, tb)",
    "looks back": "print(value is sys.last_value, tb is sys.last_traceback)",
}


@pytest.mark.parametrize("body", HOOKS.values(), ids=HOOKS)
@pytest.mark.parametrize("ending", ["1 / 0", "raise KeyboardInterrupt", "sys.exit(3)"])
def test_the_scripts_own_excepthook_is_asked(same, body, ending):
    same(
        f"""
import sys, tokenize, traceback  # A hook that has python evaluate text hides the interrupt.
def helper():
    1 + None
def hook(kind, value, tb):
    {body}
sys.excepthook = hook
def f():
    {ending}
f()
"""
    )


def test_a_hook_is_called_while_nothing_is_handled(same):
    code = "import sys; sys.excepthook = lambda *args: print(sys.exc_info())\n1 / 0"
    assert same(code, side="launcher").stdout == "(None, None, None)\n"


@pytest.mark.parametrize("damage", ["del sys.excepthook", "sys.excepthook = None"])
def test_a_missing_excepthook_is_reported(same, damage):
    same(f"import sys\n{damage}\n1 / 0", side="launcher")  # With None no thread can be started.


@pytest.mark.parametrize("where", ["the script", "an exit"])
def test_output_that_cannot_be_flushed_gives_120(same, where):
    end = "" if where == "the script" else "import sys; sys.exit(0)"
    reading, writing = os.pipe()
    os.close(reading)
    outcome = same(f"print('lost')\n{end}", stdout=writing)
    os.close(writing)
    assert outcome.status == 120
    assert "BrokenPipeError" in outcome.stderr


def test_output_into_a_closed_pipe_is_an_error_of_the_script(same):
    reading, writing = os.pipe()
    os.close(reading)
    outcome = same("print('lost', flush=True)", stdout=writing)
    os.close(writing)
    assert "BrokenPipeError" in outcome.stderr


def test_output_to_a_full_disk_fails_as_under_python(same):
    with open("/dev/full", "wb") as full:
        assert same("print('lost')", stdout=full).status == 120


def test_an_interrupt_kills_with_the_signal(same):
    outcome = same("import os, signal; os.kill(os.getpid(), signal.SIGINT); input()", stdin=b"")
    assert outcome.status == -signal.SIGINT
    assert outcome.stderr.endswith("KeyboardInterrupt\n")


def test_a_caught_interrupt_is_the_scripts_own_matter(same):
    code = """
import os, signal
try:
    os.kill(os.getpid(), signal.SIGINT)
    while True: pass
except KeyboardInterrupt:
    print("caught")
"""
    assert same(code).stdout == "caught\n"


def test_an_ignored_interrupt_stays_ignored(same):
    code = "import os, signal; os.kill(os.getpid(), signal.SIGINT); print('alive')"
    ignore = lambda: signal.signal(signal.SIGINT, signal.SIG_IGN)  # noqa: E731
    assert same(code, preexec_fn=ignore).stdout == "alive\n"


@pytest.mark.parametrize("ending", [*ENDINGS.values()], ids=ENDINGS)
def test_the_run_is_finalized_after_the_traceback(sides, ending):
    (sides.root / "main.py").write_text(f"import sys\n{ending}")
    plain = sides.run("python", ("main.py",))
    told = sides.run("launcher", ("main.py",), env={"MINIVOIR_TELL": "1"})
    assert (told.status, told.stderr) == (plain.status, plain.stderr + "finalized None\n")


def test_threads_end_before_the_run_is_finalized(sides):
    code = """
import sys, threading
def work():
    threading.main_thread().join()
    print("thread", file=sys.stderr)
threading.Thread(target=work).start()
"""
    (sides.root / "main.py").write_text(code)
    told = sides.run("launcher", ("main.py",), env={"MINIVOIR_TELL": "1"})
    assert told.stderr == "thread\nfinalized None\n"


def test_what_a_script_imports_at_exit_fails_as_ever(same):
    same(
        """
import atexit, threading
@atexit.register
def late():
    import concurrent.futures.thread  # It registers with threading, which has shut down.
"""
    )


@pytest.mark.parametrize("ending", ["", "raise SystemExit(3)", "1 / 0"])
def test_objects_that_are_left_over_still_find_their_module(same, ending):
    script = f"""
import os

class Left:
    def __del__(self):
        print("gone", __name__, os.sep)

left = Left()
{ending}
"""
    assert same(script).stdout == "gone __main__ /\n"
