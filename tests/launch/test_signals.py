"""A deadly signal finalizes the run, then kills; everything else about signals is the script's."""

import os
import re
import signal
import subprocess

import pytest

from tests.running import Ran

# Written at once: a signal in the middle of print() would find its stream locked.
READY = "import os, signal, sys\nos.write(1, b'ready\\n')\n"
#: A thread that is still there when the main one has ended. It waits until that one waits for it:
#: python loses a signal that comes just before.
THREAD = r"""
import os, threading, time
def work():
    threading.main_thread().join()
    time.sleep(0.3)
    os.write(1, b"ready\n")
    threading.Event().wait()
threading.Thread(target=work).start()
"""
HANDLER = r"""
import os, signal, sys
def handler(signum, frame):
    print("handled", flush=True)
    sys.exit(5)
signal.signal(signal.SIGTERM, handler)
os.write(1, b"ready\n")
signal.pause()
"""
#: In C code that lets other threads run, for longer than voir waits for it to come back.
IN_C = f"""
import ctypes, time
lock, libc = ctypes.create_string_buffer(64), ctypes.CDLL(None)
time.sleep(1.5)
{READY}
libc.pthread_mutex_lock(lock)
libc.pthread_mutex_lock(lock)
"""
CHILD = f"""{READY}
import subprocess
code = "import signal; print(signal.getsignal(15) is signal.SIG_DFL)"
subprocess.run([sys.executable, "-c", code])
"""


def waiting(how):
    return f"{READY}try:\n    {how}\nfinally:\n    print('unwound')"


@pytest.fixture
def end(sides):
    """Run a program that prints ``ready``, and send it signals; how it ended."""

    def end(code, *signals, side="told"):
        sides.write({"main.py": code})
        # Without PYTHONUNBUFFERED and its like: what is buffered is the subject of a test below.
        environ = {name: value for name, value in os.environ.items() if name[:6] != "PYTHON"}
        pipes = dict.fromkeys(["stdin", "stdout", "stderr"], subprocess.PIPE)
        options = {"cwd": sides.root, "env": environ, "text": True, **pipes}
        with subprocess.Popen(sides.command(side, ["main.py"], ["-B"]), **options) as process:
            try:
                assert process.stdout.readline() == "ready\n"
                for one in signals:
                    process.send_signal(one)
                out, err = process.communicate(timeout=30)
            finally:
                process.kill()
        return Ran(process.returncode, out, err)

    return end


TERM, HUP = signal.SIGTERM, signal.SIGHUP
ENDS = {
    "in a system call": (waiting("signal.pause()"), [TERM], -TERM, ""),
    "by SIGHUP": (waiting("signal.pause()"), [HUP], -HUP, ""),
    "while it reads": (waiting("input()"), [TERM], -TERM, ""),
    "in python": (waiting("while True: pass"), [TERM], -TERM, ""),
    "twice": (waiting("signal.pause()"), [TERM, TERM], -TERM, ""),
    "while threads are awaited": (THREAD, [TERM], -TERM, ""),
    "in C code that lets threads run": (IN_C, [TERM], -TERM, ""),
    "with output not flushed": (f"print('lost')\n{READY}signal.pause()", [TERM], -TERM, ""),
    "with a handler of the script's own": (HANDLER, [TERM], 5, "handled\n"),
    "without one, a child having the default": (CHILD, [], 0, "True\n"),
}


@pytest.mark.parametrize(("code", "signals", "status", "out"), ENDS.values(), ids=ENDS)
def test_the_run_is_finalized_once_and_the_process_ends(end, code, signals, status, out):
    assert end(code, *signals) == Ran(status, out, "finalized\n")
    if code != THREAD:  # There python may be past the waiting.
        assert end(code, *signals, side="python").seen == (status, out)


def test_ctrl_c_interrupts_and_finalizes(end):
    ended = end(f"{READY}signal.pause()", signal.SIGINT)
    assert ended.status == -signal.SIGINT
    assert ended.stderr.endswith("KeyboardInterrupt\nfinalized\n")
    assert "overseer" not in ended.stderr


def test_ctrl_c_while_threads_are_awaited_is_no_error(end):
    plain, ended = (end(THREAD, signal.SIGINT, side=side) for side in ("python", "told"))
    assert ended.status == plain.status == 0
    assert plain.stderr.endswith("KeyboardInterrupt: \n")
    assert re.search(r"\nKeyboardInterrupt(: )?\nfinalized\n\Z", ended.stderr)
    assert "overseer" not in ended.stderr


def test_an_ignored_signal_stays_ignored(same):
    code = "import os, signal\nos.kill(os.getpid(), signal.SIGHUP)\nprint('alive')"
    ignore = lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN)  # noqa: E731
    assert same(code, preexec_fn=ignore).stdout == "alive\n"


def test_a_script_finds_the_default_and_chains_it_as_under_python(same):
    code = """
import os, signal
before = signal.getsignal(signal.SIGTERM)
def handler(signum, frame):
    print("stopping", before is signal.SIG_DFL, callable(before))
print(signal.signal(signal.SIGTERM, handler) is signal.SIG_DFL)
os.kill(os.getpid(), signal.SIGTERM)
signal.signal(signal.SIGTERM, before)
os.kill(os.getpid(), signal.SIGTERM)
"""
    same(code)


def test_a_script_that_forks_is_not_warned_of_threads(same):
    code = """
import os, time, warnings
warnings.simplefilter("error")  # From 3.12 on python warns where there are several.
for _ in range(20):
    if not os.fork(): os._exit(0)
    print(os.wait()[1])
"""
    same(code)
