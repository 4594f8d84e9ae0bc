"""What the script makes of its descriptors, directories and limits: it ends as under python."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.running import VOIR, Place

CLOSINGS = {
    "stderr": "os.close(2)",
    "all": "os.closerange(0, 4096)",
    "stderr, and a file takes its place": "os.close(2); open('file', 'wb', 0).write(b'its own')",
}
GIVES = "from voir import give\ngive(x=1)\n"


@pytest.mark.parametrize("closing", CLOSINGS.values(), ids=CLOSINGS)
@pytest.mark.parametrize("status", [0, 4])
def test_stderr_that_the_script_has_closed_changes_no_status(
    tmp_path: Path, closing: str, status: int
) -> None:
    place = Place(tmp_path)
    place.write("main.py", f"import os, sys\n{GIVES}{closing}\nsys.exit({status})\n")
    assert place.voir("main.py", fresh=True).status == status
    if "file" in closing:
        assert (tmp_path / "file").read_bytes() == b"its own"


@pytest.mark.parametrize("status", [2, 3])
def test_without_a_descriptor_left_the_status_is_the_scripts(tmp_path: Path, status: int) -> None:
    place = Place(tmp_path)
    limit = "import resource, sys\nresource.setrlimit(resource.RLIMIT_NOFILE, (3, 3))\n"
    place.write("main.py", f"{limit}sys.exit({status})\n")
    done = place.voir("--no-record", "main.py", fresh=True)
    assert done.status == status
    assert all(line.startswith(("voir: ", "  ")) for line in done.stderr.splitlines())


@pytest.mark.parametrize("target", ["/dev/full", "pipe"])
def test_stderr_that_takes_nothing_changes_no_status(tmp_path: Path, target: str) -> None:
    (tmp_path / "main.py").touch()
    if target == "pipe":
        reading, writing = os.pipe()
        os.close(reading)
    else:
        writing = os.open(target, os.O_WRONLY)
    assert subprocess.run([*VOIR, "main.py"], cwd=tmp_path, stderr=writing).returncode == 0
    os.close(writing)


@pytest.mark.parametrize("before", ["", "whole\n", "cut off"])
@pytest.mark.parametrize("flags", [os.O_TRUNC, os.O_APPEND])
def test_in_a_file_the_summary_begins_a_line(tmp_path: Path, before: str, flags: int) -> None:
    code = f"import sys\nsys.stderr.write({before!r})\nsys.stderr.flush()\n"
    (tmp_path / "main.py").write_text(code)
    file = os.open(tmp_path / "said", os.O_WRONLY | os.O_CREAT | flags)
    subprocess.run([*VOIR, "main.py"], cwd=tmp_path, stderr=file, check=True)
    os.close(file)
    text = (tmp_path / "said").read_text()
    assert text.startswith(before + "\n" * (before == "cut off") + "voir: main.py")


@pytest.mark.parametrize("argv", ["../main.py", "../main.py one two", "../link.py", "-m main"])
def test_it_can_be_started_in_a_directory_that_has_been_deleted(tmp_path: Path, argv: str) -> None:
    code = "import sys\nprint(sys.argv, sys.path[0], __file__)\nsys.exit(3)\n"
    (tmp_path / "main.py").write_text(code)
    (tmp_path / "link.py").symlink_to(tmp_path / "main.py")
    outcomes = []
    for command in (sys.executable, f"{' '.join(VOIR)} --quiet"):
        line = f"mkdir gone; cd gone; rmdir ../gone; exec {command} {argv}"
        env = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
        done = subprocess.run(["sh", "-c", line], cwd=tmp_path, env=env, capture_output=True)
        outcomes.append((done.returncode, done.stdout))
    assert outcomes[0] == outcomes[1]


@pytest.mark.parametrize("options", ["", "--run-dir work/deeper/run"])
def test_a_directory_that_the_script_deletes_stays_deleted(tmp_path: Path, options: str) -> None:
    code = f"{GIVES}import os, shutil\nshutil.rmtree({str(tmp_path / 'work')!r})\n"
    (tmp_path / "main.py").write_text(code)
    (tmp_path / "work").mkdir()
    where = tmp_path if options else tmp_path / "work"
    command = [*VOIR, *options.split(), str(tmp_path / "main.py")]
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    done = subprocess.run(command, cwd=where, env=env, capture_output=True, text=True)
    assert done.returncode == 0
    assert "work has been deleted" in done.stderr
    assert not (tmp_path / "work").exists()


def test_a_limit_of_file_sizes_ends_the_script_by_its_own_writes_only(tmp_path: Path) -> None:
    place = Place(tmp_path)
    code = """
        import resource, signal, sys, time
        from voir import log
        log(before=1)
        signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
        log(after=2)
        time.sleep(1.5)  # It is written once a second.
        print("ran", flush=True)
        {end}
        """
    for end, status in (("sys.exit(3)", 3), ("open('f', 'wb').write(b'x')", -signal.SIGXFSZ)):
        place.write("main.py", code.format(end=end))
        for options in ((), ("--trace",)):
            done = place.voir(*options, "main.py", fresh=True)
            assert done.seen == (status, "ran\n"), done.stderr


LIMITS = """
import atexit, sys, threading
def depth(n=0):
    try: return depth(n + 1)
    except RecursionError: return n
def deep(n):
    if n: return deep(n - 1)
    sys.setrecursionlimit(8)
print(depth(), sys.getrecursionlimit())
for limit in (0, -1, 'x', 2.5, 20, 10, 3000):
    try: print(limit, sys.setrecursionlimit(limit), depth())
    except Exception as error: print(type(error), error)
try: deep(10)
except RecursionError as error: print(error)
sys.setrecursionlimit({})
atexit.register(lambda: print(sys.getrecursionlimit()))
print(depth(), sys.setrecursionlimit.__name__)
print('end')
"""


@pytest.mark.parametrize("limit", [25, 5000])
@pytest.mark.parametrize("argv", [("main.py",), ("-m", "main")])
def test_limits_of_recursion_are_the_scripts_own(same, limit, argv):
    same({"main.py": LIMITS.replace("{}", str(limit))}, *argv)


def test_a_run_with_a_low_limit_of_recursion_is_recorded(tmp_path: Path) -> None:
    place = Place(tmp_path)
    code = f"{GIVES}import sys, time\nsys.setrecursionlimit(20)\ntime.sleep(1.5)\n"
    place.write("main.py", f"{code}print('ran')\nsys.exit(3)\n")
    done = place.voir("main.py")
    assert (done.seen, "RecursionError" in done.stderr) == ((3, "ran\n"), False)
    assert place.record()["exit_status"] == 3


@pytest.mark.parametrize("options", [(), ("--no-record",)])
def test_a_script_that_allows_itself_no_memory_waits_for_nothing_and_is_told_nothing(
    tmp_path: Path, options: tuple[str, ...]
) -> None:
    place = Place(tmp_path)
    limit = "resource.setrlimit(resource.RLIMIT_AS, (1 << 20, 1 << 20))"
    place.write("main.py", f"import resource, sys\n{limit}\nprint('ran')\nsys.exit(3)\n")
    done = place.voir(*options, "main.py", fresh=True)
    assert done.seen == (3, "ran\n")
    assert done.stderr.startswith("voir: main.py · exit status 3"), done.stderr
    assert "MemoryError" not in done.stderr
    seconds = float(done.stderr.split(" · ")[2].partition(" ")[0])
    assert " ms · " in done.stderr or seconds < 2  # It was 2 s a thread.


EVERY = "for name in dir(builtins):\n  if name[:1] != '_': setattr(builtins, name, None)"
TAKEN = [
    "builtins.print = builtins.open = builtins.len = builtins.isinstance = None",
    "builtins.BaseException = builtins.BaseExceptionGroup = builtins.KeyboardInterrupt = None",
    "del builtins.len, builtins.any",
    "builtins.input = None\natexit.register(lambda: sys.stdout.write(str(builtins.input)))",
    EVERY,
]


@pytest.mark.parametrize("taken", TAKEN)
@pytest.mark.parametrize("ending", ["", "sys.exit(4)", "1 / 0"])
def test_what_the_script_has_taken_out_of_builtins_ends_it_as_under_python(same, taken, ending):
    if sys.version_info >= (3, 13) and (ending == "1 / 0" or taken is EVERY):
        pytest.skip("Python itself shows errors by code that needs builtins.")
    same(f"import atexit, builtins, sys\n{taken}\n{ending}\n")


FORKS = """
import os, sys, threading, time, warnings
warnings.simplefilter("always")
warnings.showwarning = lambda *args: print(args[1].__name__, *args[2:4])
from multiprocessing import get_context
os.register_at_fork(after_in_parent=lambda: [str(n) for n in range(9)])
def fork():
    if not (child := os.fork()): os._exit(0)
    os.waitpid(child, 0)
for _ in range(5):
    fork()
    time.sleep(0.02)
process = get_context("fork").Process(target=int)
process.start()
process.join()
thread = threading.Thread(target=time.sleep, args=(0.2,))
thread.start()
{}
"""


@pytest.mark.parametrize("beside", ["", "fork()"])
def test_python_warns_of_forks_beside_threads_as_without_voir(same, beside):
    same(FORKS.replace("{}", beside))


def test_a_run_that_forks_goes_on_being_recorded(tmp_path: Path) -> None:
    place = Place(tmp_path)
    code = f"{GIVES}import os, time\nif not os.fork(): os._exit(0)\nos.wait()\n{GIVES}"
    check = "import glob\ntime.sleep(1.5)\nprint(bool(glob.glob('run/run.json')))\n"
    place.write("main.py", code + check)
    done = place.voir("--run-dir", "run", "main.py", fresh=True)
    assert done.seen == (0, "True\n")


@pytest.mark.parametrize("ending", ["", "sys.exit(3)", "sys.exit('message')", "1 / 0"])
def test_pythoninspect_shows_what_it_shows_under_python(same, sides, ending):
    same(f"import sys\n{ending}\n", env={"PYTHONINSPECT": "1"})
    command = [str(Path(sys.executable).with_name("voir")), "--quiet", "--no-record", "main.py"]
    if Path(command[0]).exists():
        env = {**os.environ, "PYTHONINSPECT": "1"}
        done = subprocess.run(command, cwd=sides.root, env=env, capture_output=True, input=b"")
        assert done.stderr.count(b"Traceback") == bool(ending)


@pytest.mark.skipif(sys.platform != "linux", reason="It needs util-linux's script.")
@pytest.mark.parametrize("ending", ["", "sys.exit(3)"])
def test_pythoninspect_opens_a_prompt_that_knows_the_scripts_names(tmp_path: Path, ending: str):
    if shutil.which("script") is None:
        pytest.skip("It needs the command script.")
    place = Place(tmp_path)
    place.write("main.py", f"import sys\nmine = 40\n{ending}\n")
    asked = "print(mine + 2)\n1 / 0\n"
    line = f"PYTHON_BASIC_REPL=1 PYTHONINSPECT=1 {' '.join(VOIR)} --quiet main.py"
    done = place.run("script", "-qc", line, "/dev/null", input=asked.encode())
    assert "\n42" in done.stdout and "ZeroDivisionError" in done.stdout


def test_a_script_named_voirfile_runs_once(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.write("voirfile.py", "print('ran')\n")
    assert place.voir("voirfile.py").seen == (0, "ran\n")
