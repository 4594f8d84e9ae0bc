"""Commands of Python programs: which ones are found, and how launchers hand voir on."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from overseer.cli.programs import absolute
from overseer.launch.commands import python_command, watch_commands
from tests.running import Place, environment

#: Arguments after the interpreter, and where its options end; None: no program is run.
COMMANDS = [
    ("main.py", 1),
    ("main.py -c 1", 1),
    ("-u main.py 1", 2),
    ("-uB -W ignore -Xutf8 -X dev main.py", 7),
    ("-m package.module -x", 1),
    ("-mpackage.module", 1),
    ("-u -um package.module", 3),
    ("-c pass", None),
    ("-uc pass main.py", None),
    ("-", None),
    ("-i main.py", None),
    ("-V", None),
    ("--version", None),
    ("-m", None),
    ("", None),
]


@pytest.mark.parametrize(("given", "at"), COMMANDS)
def test_the_program_follows_the_options_of_python(given: str, at: int | None) -> None:
    found = python_command([sys.executable, *given.split()])
    if at is None:
        assert found is None
    else:
        assert found is not None and len(found.start) == at
        assert found.target[0] in ("main.py", "-m")


def test_only_this_interpreter_is_known_to_have_voir() -> None:
    beside = Path(sys.executable).with_name("python")
    assert python_command([str(beside), "main.py"]) is not None
    for other in ("/usr/bin/true", "no such program", "/usr/bin/python3", "ls"):
        assert python_command([other, "main.py"]) is None
    assert python_command(f"{sys.executable} main.py") is None
    assert python_command([sys.executable, 7]) is None


def test_a_changed_command_is_not_visible_to_the_script(tmp_path: Path) -> None:
    Path(tmp_path, "main.py").write_text("import sys; print(sys.argv[1:])")

    def with_more(command, cwd, environ):
        assert (cwd, environ) == (tmp_path, None)
        return [*command.start, *command.target, "more"], environ

    start, undo = subprocess.Popen._execute_child, watch_commands(with_more)
    try:
        command = [sys.executable, "main.py"]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
        assert (done.stdout, done.args) == ("['more']\n", command)
        with pytest.raises(FileNotFoundError) as raised:
            subprocess.run(["./no such program"])
        files = [os.path.basename(entry.path) for entry in raised.traceback]
        assert set(files) == {"test_commands.py", "subprocess.py"}
    finally:
        undo()
    assert subprocess.Popen._execute_child is start


def test_a_command_that_cannot_be_changed_is_run_as_it_is(tmp_path: Path) -> None:
    undo = watch_commands(lambda command, cwd, environ: 1 / 0)  # type: ignore[arg-type]
    try:
        assert subprocess.run([sys.executable, "-m", "this"], stdout=subprocess.DEVNULL)
    finally:
        undo()


def test_files_in_options_are_found_from_any_directory() -> None:
    given = ["--voirfile", "a.py", "--config=b.yaml", "--run-dir=/c", "--trace", "--config"]
    made = ["--voirfile", "/at/a.py", "--config=/at/b.yaml", "--run-dir=/c", "--trace", "--config"]
    assert absolute(given, "/at") == made


LAUNCHER = """
import os, subprocess, sys
import sysconfig
for rank in "01":
    env = {**os.environ, "RANK": rank, "WORLD_SIZE": "2", "MASTER_PORT": "29500"}
    done = subprocess.run([sys.executable, "-u", *sys.argv[1:]], env=env)
    print("ended", done.returncode, *done.args[1:], flush=True)
print(subprocess.check_output([sys.executable, "-c", "print('as it is')"], text=True), end="")
sys.exit(done.returncode)
"""
WORKER = """
import os, sys
import voir
voir.log(x=int(os.environ["RANK"]))
print("worker", *sys.argv[1:], *[name for name in os.environ if "VOIR" in name], flush=True)
sys.exit(int(os.environ["RANK"]))
"""


@pytest.mark.parametrize("target", [["main.py", "--n", "1"], ["-m", "main", "--n", "1"]])
def test_a_launcher_under_voir_starts_its_processes_under_voir(tmp_path, target) -> None:
    place = Place(tmp_path)
    place.write("torchrun", LAUNCHER)
    place.write("main.py", WORKER)
    done = place.voir("--quiet", "--no-voirfile", "torchrun", *target)
    ends = [f"worker --n 1\nended {rank} -u {' '.join(target)}\n" for rank in range(2)]
    assert done.seen == (1, "".join(ends) + "as it is\n")
    assert done.stderr == ""
    (job,) = place.runs
    assert sorted(path.name for path in job.iterdir()) == ["job.json", "rank0", "rank1"]


def test_a_launcher_fails_as_without_voir(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.write("torchrun", "import os\ndef f(): os.kill('x', 1)\nf()")
    plain, under = place.python("torchrun"), place.voir("torchrun")
    assert (under.status, under.stderr) == (plain.status, plain.stderr)


def test_an_interpreter_that_does_not_find_voir_runs_the_program_without(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.write("torchrun", LAUNCHER.replace('"-u"', '"-S"'))
    place.write("main.py", "print('worker')")
    done = place.voir("torchrun", "main.py", env={"PYTHONPATH": ""})
    assert done.stdout.count("worker\n") == 2
    assert done.stderr == "voir: not recorded: main.py, whose python does not find voir\n"


TRAIN = """
import sys, torch, torch.distributed as dist
dist.init_process_group("gloo")
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(8, 1))
optimizer = torch.optim.SGD(model.parameters(), 0.01)
for _ in range(10):
    loss = model(torch.randn(16, 8)).mean()
    optimizer.zero_grad(); loss.backward(); optimizer.step()
dist.destroy_process_group()
"""
SCRIPT = str(Path(sys.executable).with_name("voir"))
TORCHRUN = str(Path(sys.executable).with_name("torchrun"))
LAUNCHES = [
    [SCRIPT, "-m", "torch.distributed.run", "main.py"],
    [SCRIPT, TORCHRUN, "main.py"],
    [TORCHRUN, "-m", "voir", "main.py"],
    [TORCHRUN, "--no-python", SCRIPT, "main.py"],
]


@pytest.mark.slow
@pytest.mark.parametrize("launch", LAUNCHES, ids=["module", "script", "-m voir", "--no-python"])
def test_each_way_to_launch_records_each_rank(tmp_path: Path, launch: list[str]) -> None:
    place = Place(tmp_path)
    place.write("main.py", TRAIN)
    at = next(n for n, word in enumerate(launch) if "torch" in word) + 1
    options = ["--standalone", "--nproc-per-node=2"]
    done = place.run(*launch[:at], *options, *launch[at:], env={"PATH": environment()["PATH"]})
    assert done.status == 0, done.stderr
    (job,) = place.runs
    assert {path.parent.name for path in job.glob("rank*/steps.npy")} == {"rank0", "rank1"}
