"""A deadly signal finalizes the run, then kills; everything else about signals is the script's."""

import os
import signal
import subprocess

import pytest

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


class Running:
    """A program under voir that has printed ``ready``."""

    def __init__(self, sides, code, side="launcher", **env):
        (sides.root / "main.py").write_text(code)
        # Without PYTHONUNBUFFERED and its like: what is buffered is the subject of a test below.
        environ = {name: value for name, value in os.environ.items() if name[:6] != "PYTHON"}
        environ |= {"PYTHONDONTWRITEBYTECODE": "1", "MINIVOIR_TELL": "1", **env}
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        command = sides.command(side, ["main.py"])
        self.process = subprocess.Popen(command, cwd=sides.root, env=environ, **pipes)
        assert self.process.stdout.readline() == b"ready\n"

    def end(self, *signals):
        for one in signals:
            self.process.send_signal(one)
        out, err = self.process.communicate(timeout=30)
        return self.process.returncode, out.decode(), err.decode()


@pytest.fixture
def start(sides):
    started = []

    def start(code, **options):
        started.append(Running(sides, code, **options))
        return started[-1]

    yield start
    for running in started:
        running.process.kill()
        running.process.communicate()


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("wait", ["signal.pause()", "input()", "while True: pass"])
def test_the_run_is_finalized_and_the_process_dies_of_the_signal(start, signum, wait):
    code = f"{READY}try:\n    {wait}\nfinally:\n    print('unwound')"
    assert start(code).end(signum) == (-signum, "", f"finalized {int(signum)}\n")


def test_output_that_was_not_flushed_is_lost_as_under_python(start):
    code = f"{READY}sys.stdout.write('lost')\nos.write(1, b'kept')\nsignal.pause()"
    for side in ("python", "launcher"):
        running = start(code, side=side)
        assert running.process.stdout.read(4) == b"kept"
        assert running.end(signal.SIGTERM)[:2] == (-signal.SIGTERM, "")


def test_the_scripts_own_handler_wins(start):
    code = r"""
import os, signal, sys
def handler(signum, frame):
    print("handled", flush=True)
    sys.exit(5)
signal.signal(signal.SIGTERM, handler)
os.write(1, b"ready\n")
signal.pause()
"""
    assert start(code).end(signal.SIGTERM) == (5, "handled\n", "finalized None\n")


def test_an_ignored_signal_stays_ignored(sides):
    code = "import os, signal\nos.kill(os.getpid(), signal.SIGHUP)\nprint('alive')"
    (sides.root / "main.py").write_text(code)
    ignore = lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN)  # noqa: E731
    assert sides.run("voir", ("main.py",), preexec_fn=ignore).stdout == "alive\n"


def test_a_signal_that_comes_twice_finalizes_once(start):
    code = f"{READY}signal.pause()"
    status, _, err = start(code).end(signal.SIGTERM, signal.SIGTERM)
    assert (status, err) == (-signal.SIGTERM, "finalized 15\n")


def test_programs_that_the_script_starts_have_the_default(start):
    code = f"""{READY}
import subprocess
child = subprocess.Popen([sys.executable, "-c",
    "import signal; print(signal.getsignal(15) is signal.SIG_DFL)"])
child.wait()
"""
    assert start(code).end() == (0, "True\n", "finalized None\n")


def test_a_signal_while_threads_are_awaited_kills_as_well(start):
    status, _, err = start(THREAD).end(signal.SIGTERM)
    assert (status, err) == (-signal.SIGTERM, "finalized 15\n")


def test_ctrl_c_interrupts_and_finalizes(start):
    status, _, err = start(f"{READY}signal.pause()").end(signal.SIGINT)
    assert status == -signal.SIGINT
    assert err.endswith("KeyboardInterrupt\nfinalized None\n")
    assert "overseer" not in err


def test_ctrl_c_while_threads_are_awaited_is_no_error(start):
    plain, _, complaint = start(THREAD, side="python").end(signal.SIGINT)
    status, _, err = start(THREAD).end(signal.SIGINT)
    assert status == plain == 0
    assert complaint.endswith("KeyboardInterrupt: \n")
    *_, interrupt, finalized = err.splitlines()
    assert (interrupt.rstrip(": "), finalized) == ("KeyboardInterrupt", "finalized None")
    assert "overseer" not in err


def test_a_script_in_c_code_that_lets_threads_run_is_finalized_as_well(start):
    code = "import ctypes, time\nlock = ctypes.create_string_buffer(64)\ntime.sleep(1.5)\n"
    code += f"libc = ctypes.CDLL(None)\n{READY}"
    code += "libc.pthread_mutex_lock(lock)\nlibc.pthread_mutex_lock(lock)"
    assert start(code).end(signal.SIGTERM) == (-signal.SIGTERM, "", "finalized 15\n")


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
