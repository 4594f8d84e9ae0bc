"""Where the numbers of a run come from: all of it true, nothing invented, little time spent."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest

from overseer.record import git, machine, provenance
from overseer.record.encode import simplify
from overseer.record.provenance import Provenance, installed, python, torch_facts


def make(**options):
    options.setdefault("argv", ["voir", "main.py"])
    options.setdefault("version", "0.1.0")
    options.setdefault("environ", {})
    return Provenance(**options)


def spawned(monkeypatch):
    """Processes started from now on."""
    calls = []
    real = subprocess.Popen.__init__

    def record(self, *args, **kwargs):
        calls.append(args[0])
        real(self, *args, **kwargs)

    monkeypatch.setattr(subprocess.Popen, "__init__", record)
    return calls


@pytest.fixture
def repository(tmp_path):
    """A repository with one commit of ``main.py``."""
    if shutil.which("git") is None:
        pytest.skip("git is not installed")
    top = tmp_path / "project"
    top.mkdir()
    run_git(top, "init", "-q", "-b", "work")
    (top / "main.py").write_text("print(1)\n")
    run_git(top, "add", "main.py")
    commit(top)
    return top


def run_git(top, *command):
    identity = ["-c", "user.name=Tester", "-c", "user.email=tester@example.org"]
    identity += ["-c", "commit.gpgsign=false"]
    done = subprocess.run(
        ["git", *identity, *command], cwd=top, check=True, capture_output=True, text=True
    )
    return done.stdout.strip()


def commit(top):
    run_git(top, "commit", "-q", "--allow-empty", "-m", "A commit")
    return run_git(top, "rev-parse", "HEAD")


def test_the_start_has_what_is_cheap_and_starts_no_process(monkeypatch, repository):
    started = spawned(monkeypatch)
    facts = make(script=repository / "main.py").at_start()
    assert started == []
    assert {
        "voir",
        "command",
        "cwd",
        "hostname",
        "kernel",
        "python",
        "env",
        "cpu",
        "memory",
    } <= set(facts)
    assert facts["git"] == {"sha": run_git(repository, "rev-parse", "HEAD"), "branch": "work"}


def test_the_start_stays_the_start_when_asked_again(monkeypatch):
    taken = make()
    first = dict(taken.at_start())
    monkeypatch.setattr(machine, "kernel", lambda: "another kernel")
    assert taken.at_start() == first


def test_the_end_adds_what_takes_longer(repository):
    taken = make(script=repository / "main.py")
    start = taken.at_start()
    end = taken.at_end(30)
    assert start.keys() <= end.keys()
    assert end["packages"]["pytest"] == pytest.__version__
    assert end["git"]["dirty"] is False


def test_everything_is_plain_json_and_nothing_is_unknown():
    def values(value):
        yield value
        for inner in value.values() if isinstance(value, dict) else ():
            yield from values(inner)

    taken = make(environ=dict(os.environ))
    taken.at_start()
    end = taken.at_end(30)
    assert simplify(end) == end
    assert not [value for value in values(end) if value is None or value == {}]


def test_what_is_not_there_in_time_is_absent(monkeypatch):
    forever = threading.Event()
    monkeypatch.setattr(machine, "gpus", lambda: forever.wait() and {})
    taken = make()
    taken.at_start()
    end = taken.at_end(0)
    forever.set()
    assert "gpu" not in end
    assert "command" in end


def test_a_part_that_fails_is_absent(monkeypatch):
    def broken(*args):
        raise RuntimeError("no such thing")

    monkeypatch.setattr(machine, "gpus", broken)
    assert "gpu" not in make().at_end(30)


def test_a_hash_that_cannot_be_computed_is_absent(tmp_path, monkeypatch):
    def fails(name, *more):
        raise ModuleNotFoundError(name) if name == "_sha2" else MemoryError

    voirfile = tmp_path / "voirfile.py"
    voirfile.touch()
    monkeypatch.setattr("builtins.__import__", fails)
    found = provenance._hashed(voirfile)
    monkeypatch.undo()
    assert found == {"path": str(voirfile)}


def test_the_command_can_be_pasted_and_shows_no_secret():
    argv = ["voir", "my script.py", "--token", "abcdef"]
    assert make(argv=argv).at_start()["command"] == "voir 'my script.py' --token '<hidden>'"


def test_voirfiles_are_identified_by_their_hash(tmp_path):
    voirfile = tmp_path / "voirfile.py"
    voirfile.write_bytes(b"x = 1\n")
    facts = make(voirfiles=[voirfile, tmp_path / "gone.py"]).at_start()
    assert facts["voirfiles"] == [
        {"path": str(voirfile), "sha256": hashlib.sha256(b"x = 1\n").hexdigest()},
        {"path": str(tmp_path / "gone.py")},
    ]


def test_seeds_that_are_set_are_told(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(initial_seed=lambda: 7))
    taken = make(environ={"PYTHONHASHSEED": "3"})
    assert taken.at_start()["seed"] == {"PYTHONHASHSEED": "3"}
    assert taken.at_end(30)["seed"] == {"PYTHONHASHSEED": "3", "torch": 7}
    assert "seed" not in make().at_start()


def test_a_deleted_current_directory_is_no_obstacle(tmp_path, monkeypatch):
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    taken = make()
    assert "cwd" not in taken.at_start()
    assert "command" in taken.at_end(30)


def test_the_interpreter_tells_its_flags_only_when_somebody_set_them():
    code = "import json; from overseer.record.provenance import python; print(json.dumps(python()))"
    root = str(Path(__file__).parents[2])

    def flags(*options):
        done = subprocess.run(
            [sys.executable, *options, "-c", code], env={"PYTHONPATH": root},
            capture_output=True, text=True, check=True,
        )  # fmt: skip
        return __import__("json").loads(done.stdout).get("flags")

    assert flags() is None
    assert flags("-O", "-B") == {"optimize": 1, "dont_write_bytecode": 1}
    assert python()["version"] == ".".join(map(str, sys.version_info[:3]))


# git


def change(top):
    (top / "main.py").write_text("print(2)\n")


def record(top):
    (top / "voir-runs").mkdir()
    (top / "voir-runs" / "run.json").write_text("{}")


@pytest.mark.parametrize(
    ("act", "script", "expected"),
    [
        (change, "main.py", {"dirty": True}),
        (record, "main.py", {"dirty": False}),
        (None, "new.py", {"dirty": True, "script": "untracked"}),
        (commit, "main.py", {"moved_to": ...}),  # What was run stays what was run.
    ],
)
def test_the_state_of_the_repository_is_that_at_the_end(repository, act, script, expected):
    (repository / "new.py").touch()
    taken = make(script=repository / script)
    start = taken.at_start()["git"]
    if act is not None:
        act(repository)
    end = taken.at_end(30)["git"]
    moved = run_git(repository, "rev-parse", "HEAD")
    assert end == {**start, **{k: moved if v is ... else v for k, v in expected.items()}}


def test_without_git_the_commit_is_known_and_the_state_is_not(repository, monkeypatch):
    monkeypatch.setenv("PATH", "")
    taken = make(script=repository / "main.py", environ={"PATH": ""})
    assert taken.at_start()["git"].keys() == taken.at_end(30)["git"].keys() == {"sha", "branch"}


def test_without_a_repository_there_is_nothing_to_tell(tmp_path):
    taken = make(script=tmp_path / "main.py")
    if git.repository(tmp_path) is None:
        assert "git" not in taken.at_start()
        assert "git" not in taken.at_end(30)


@pytest.mark.parametrize("arrange", ["plain", "packed", "detached", "worktree"])
def test_the_commit_is_read_from_the_repositorys_files(repository, arrange):
    sha, expected = run_git(repository, "rev-parse", "HEAD"), {"branch": "work"}
    if arrange == "packed":
        run_git(repository, "pack-refs", "--all")
    elif arrange == "detached":
        run_git(repository, "checkout", "-q", "--detach")
        expected = {}
    elif arrange == "worktree":
        run_git(repository, "worktree", "add", "-q", "-b", "other", "../tree")
        repository, expected = repository.parent / "tree", {"branch": "other"}
    assert git.head(repository) == {"sha": sha, **expected}


def test_a_repository_without_a_commit_has_only_a_branch(tmp_path):
    run_git(tmp_path, "init", "-q", "-b", "empty")
    assert git.head(tmp_path) == {"branch": "empty"}
    assert git.state(tmp_path, None, dict(os.environ), 30) == {"dirty": False, "branch": "empty"}


@pytest.mark.parametrize(
    "content", [b"", b"\xff\xfe", b"ref: refs/heads/../../../etc/passwd", b"x" * 40]
)
def test_a_damaged_head_is_no_commit(tmp_path, content):
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git" / "HEAD").write_bytes(content)
    assert "sha" not in git.head(tmp_path)


def test_nothing_that_the_repository_configures_is_run(repository, tmp_path):
    mark = tmp_path / "ran"
    script = tmp_path / "hook"
    script.write_text(f"#!/bin/sh\ntouch {mark}\n")
    script.chmod(0o755)
    run_git(repository, "config", "core.fsmonitor", str(script))
    run_git(repository, "config", "core.pager", str(script))
    run_git(repository, "config", "core.hooksPath", str(tmp_path))
    facts = git.state(
        repository, repository / "main.py", {**os.environ, "GIT_PAGER": str(script)}, 30
    )
    assert facts["dirty"] is False
    assert not mark.exists()


def test_variables_that_redirect_git_are_not_passed_on(repository, tmp_path):
    environ = {**os.environ, "GIT_DIR": str(tmp_path), "GIT_WORK_TREE": str(tmp_path)}
    assert git.state(repository, None, environ, 30)["dirty"] is False


def test_git_that_takes_too_long_is_not_waited_for(repository, tmp_path, monkeypatch):
    slow = tmp_path / "bin" / "git"
    slow.parent.mkdir()
    slow.write_text("#!/bin/sh\nexec sleep 60\n")
    slow.chmod(0o755)
    path = f"{slow.parent}:{os.environ['PATH']}"
    monkeypatch.setenv("PATH", path)
    assert git.state(repository, None, {"PATH": path}, 0.05) == {}


# The machine


def lay(root, files):
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def test_the_processor_is_told_as_the_system_tells_it(tmp_path):
    lay(tmp_path, {
        "proc/cpuinfo": "processor\t: 0\nmodel name\t: A Processor @ 2 GHz\nflags\t: x\n",
        "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor": "powersave\n",
    })  # fmt: skip
    facts = machine.cpu(tmp_path)
    assert (facts["model"], facts["governor"]) == ("A Processor @ 2 GHz", "powersave")
    assert facts["count"] == os.cpu_count()
    empty = machine.cpu(tmp_path / "nowhere")
    assert not {"model", "governor"} & set(empty)


@pytest.mark.parametrize(
    ("numbers", "text"), [([0], "0"), ([3, 1, 2, 0, 8], "0-3,8"), ([1, 3], "1,3"), ([], "")]
)
def test_processors_are_listed_as_taskset_does(numbers, text):
    assert machine.ranges(numbers) == text


@pytest.mark.parametrize(
    ("environ", "files", "expected"),
    [
        ({}, {}, None),
        ({}, {".dockerenv": ""}, {"kind": "docker"}),
        ({}, {"run/.containerenv": ""}, {"kind": "podman"}),
        ({"KUBERNETES_SERVICE_HOST": "h"}, {".dockerenv": ""}, {"kind": "kubernetes"}),
        ({"APPTAINER_CONTAINER": "x.sif"}, {}, {"kind": "apptainer"}),
        ({"container": "lxc"}, {}, {"kind": "lxc"}),
        ({}, {"proc/1/cgroup": "0::/kubepods/pod1\n"}, {"kind": "kubernetes"}),
        (
            {},
            {"sys/fs/cgroup/cpu.max": "150000 100000\n", "sys/fs/cgroup/memory.max": "1024\n"},
            {"cpus": 1.5, "memory": 1024},
        ),
        ({}, {"sys/fs/cgroup/cpu.max": "max 100000\n", "sys/fs/cgroup/memory.max": "max\n"}, None),
        (
            {},
            {"proc/self/cgroup": "0::/job/7\n", "sys/fs/cgroup/job/7/memory.max": "2048\n"},
            {"memory": 2048},
        ),
    ],
)  # fmt: skip
def test_a_container_is_told_by_its_marks_and_limits(tmp_path, environ, files, expected):
    assert machine.container(environ, lay(tmp_path, files)) == expected


def test_packages_are_read_from_names_alone(tmp_path):
    first, second = tmp_path / "first", tmp_path / "second"
    for name in ("Foo_Bar-1.2.dist-info", "old-0.1-py3.11.egg-info", "module", "x.dist-info"):
        (first / name).mkdir(parents=True)
    (second / "foo_bar-9.9.dist-info").mkdir(parents=True)
    found = installed([str(first), str(second), str(tmp_path / "gone"), str(first)])
    assert found == {"foo-bar": "1.2", "old": "0.1"}


# torch and GPUs


def test_torch_is_told_only_when_the_script_imported_it(monkeypatch):
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    assert torch_facts() is None
    assert "torch" not in sys.modules


def test_torch_tells_its_versions():
    torch = pytest.importorskip("torch")
    facts = torch_facts()
    assert facts["version"] == str(torch.__version__)
    assert facts["seed"] == torch.initial_seed()
    assert ("cuda" in facts) == (torch.version.cuda is not None)


def test_something_else_by_the_name_of_torch_is_no_obstacle(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(__version__="9"))
    assert torch_facts() == {"version": "9"}


class FakeNvml:
    """As pynvml, with one device that knows everything and one that knows little."""

    NVML_CLOCK_SM, NVML_CLOCK_MEM = 1, 2

    def __init__(self) -> None:
        self.open = 0

    def nvmlInit(self):
        self.open += 1

    def nvmlShutdown(self):
        self.open -= 1

    def nvmlDeviceGetCount(self):
        return 2

    def nvmlDeviceGetHandleByIndex(self, index):
        return index

    def nvmlDeviceGetName(self, handle):
        return b"GPU A" if handle == 0 else "GPU B"

    def nvmlDeviceGetUUID(self, handle):
        return f"GPU-{handle}"

    def nvmlDeviceGetEnforcedPowerLimit(self, handle):
        if handle == 1:
            raise RuntimeError("Not Supported")
        return 700_000

    def nvmlDeviceGetMemoryInfo(self, handle):
        return SimpleNamespace(total=80)

    def nvmlDeviceGetMaxClockInfo(self, handle, kind):
        if handle == 1:
            raise RuntimeError("Not Supported")
        return {1: 1980, 2: 2619}[kind]


def test_gpus_are_told_by_nvml_and_what_one_does_not_offer_is_absent(tmp_path, monkeypatch):
    lay(
        tmp_path, {"proc/driver/nvidia/version": "NVRM version: NVIDIA UNIX x86_64  570.1.2  Mon\n"}
    )
    nvml = FakeNvml()
    monkeypatch.setitem(sys.modules, "pynvml", nvml)
    assert machine.gpus(tmp_path) == {
        "driver": "570.1.2",
        "devices": [
            {
                "name": "GPU A", "uuid": "GPU-0", "power_limit": 700.0, "memory": 80,
                "max_clocks": {"sm": 1980, "memory": 2619},
            },
            {"name": "GPU B", "uuid": "GPU-1", "memory": 80},
        ],
    }  # fmt: skip
    assert nvml.open == 0


def test_without_nvml_the_drivers_own_files_tell_the_gpus(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pynvml", None)
    lay(tmp_path, {
        "proc/driver/nvidia/version": "NVRM version: x 570.1.2 y\n",
        "proc/driver/nvidia/gpus/0/information": "Model: \t\t GPU A\nGPU UUID: \t GPU-0\n",
    })  # fmt: skip
    assert machine.gpus(tmp_path)["devices"] == [{"name": "GPU A", "uuid": "GPU-0"}]


def test_without_a_driver_nothing_is_imported(tmp_path, monkeypatch):
    def forbidden():
        pytest.fail("imported")

    monkeypatch.setattr(machine, "_by_nvml", forbidden)
    assert machine.gpus(tmp_path) is None


def test_where_no_thread_can_begin_what_it_would_read_is_absent(monkeypatch):
    def none(*args):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(provenance, "start_new_thread", none)
    taken = make()
    taken.at_start()
    end = taken.at_end(30)
    assert "packages" not in end
    assert "command" in end
