"""Where the numbers of a run come from: all of it true, nothing invented, little time spent."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import threading
from types import SimpleNamespace

import pytest

from overseer.rundir import git, machine, provenance
from overseer.rundir.provenance import Provenance, installed, torch_facts
from tests.running import SCHEMA


def make(**options):
    return Provenance(**{"argv": ["voir"], "version": "0.1.0", "environ": {}, **options})


def shell(command, at):
    options = {"check": True, "capture_output": True, "text": True}
    return subprocess.run(command, shell=True, cwd=at, **options).stdout.strip()


@pytest.fixture
def repository(tmp_path):
    """A repository with one commit of ``main.py``."""
    if shutil.which("git") is None:
        pytest.skip("git is not installed")
    (tmp_path / "project").mkdir()
    shell("git init -q -b work . && echo 1 > main.py && git add main.py", tmp_path / "project")
    for name, value in {"user.name": "T", "user.email": "t@x", "commit.gpgsign": "false"}.items():
        shell(f"git config {name} {value}", tmp_path / "project")
    shell("git commit -q -m first", tmp_path / "project")
    return tmp_path / "project"


def test_the_start_has_what_is_cheap_without_a_process_and_the_end_the_rest(
    monkeypatch, repository
):
    sha, argv = shell("git rev-parse HEAD", repository), ["voir", "a b.py", "--token", "abcdef"]
    taken = make(argv=argv, script=repository / "main.py", environ=dict(os.environ))
    with monkeypatch.context() as patched:
        patched.setattr(subprocess, "Popen", lambda *args, **more: pytest.exit("a process"))
        start = dict(taken.at_start())
    early = "voir command cwd hostname kernel python env cpu memory git"
    assert set(early.split()) <= start.keys()
    assert start["git"] == {"sha": sha, "branch": "work"}
    assert start["command"] == "voir 'a b.py' --token '<hidden>'", "it can be pasted"
    monkeypatch.setattr(machine, "kernel", lambda: "another kernel")
    assert taken.at_start() == start
    end = taken.at_end(30)
    assert start.keys() <= end.keys()
    assert (end["packages"]["pytest"], end["git"]["dirty"]) == (pytest.__version__, False)
    text = json.dumps(end)
    assert json.loads(text) == end
    assert not re.search(r'": (null|\{\})', text), "all of it is known"


@pytest.mark.parametrize("trouble", ["late", "failing", "without threads"])
def test_what_cannot_be_had_in_time_is_absent(monkeypatch, trouble):
    def fails(*args):
        raise RuntimeError("can't")

    forever = threading.Event()
    monkeypatch.setattr(machine, "gpus", forever.wait if trouble == "late" else fails)
    if trouble == "without threads":
        monkeypatch.setattr(provenance, "start", fails)
    end = make().at_end(0 if trouble == "late" else 30)
    forever.set()
    assert ("gpu" in end, "command" in end) == (False, True)
    assert "packages" not in end or trouble != "without threads"


def test_voirfiles_are_told_with_their_hash_and_seeds_that_are_set(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(initial_seed=lambda: 7))
    voirfile, gone = tmp_path / "voirfile.py", tmp_path / "gone.py"
    voirfile.write_bytes(b"x = 1\n")
    taken = make(voirfiles=[voirfile, gone], environ={"PYTHONHASHSEED": "3"})
    assert taken.at_start()["voirfiles"] == [
        {"path": str(voirfile), "sha256": hashlib.sha256(b"x = 1\n").hexdigest()},
        {"path": str(gone)},
    ]
    assert taken.at_start()["seed"] == {"PYTHONHASHSEED": "3"}
    assert taken.at_end(30)["seed"] == {"PYTHONHASHSEED": "3", "torch": 7}
    assert not {"seed", "voirfiles"} & make().at_start().keys()


def test_a_deleted_current_directory_is_no_obstacle(tmp_path, monkeypatch):
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    end = make().at_end(30)
    assert ("cwd" in end, "git" in end, "command" in end) == (False, False, True)


def test_the_interpreter_tells_its_flags_only_when_somebody_set_them():
    code = "import json; from overseer.rundir.provenance import python; print(json.dumps(python()))"
    for options, flags in ([], None), (["-O", "-B"], {"optimize": 1, "dont_write_bytecode": 1}):
        command, env = (
            [sys.executable, *options, "-c", code],
            {"PYTHONPATH": str(SCHEMA.parents[1])},
        )
        found = json.loads(subprocess.check_output(command, env=env))
        assert (found.get("flags"), found["version"]) == (flags, platform.python_version())


# git


@pytest.mark.parametrize(
    ("act", "script", "expected"),
    [
        ("echo 2 > main.py", "main.py", {"dirty": True, "changes": "1 file, +1 -1"}),
        ("mkdir voir-runs && touch voir-runs/run.json", "main.py", {"dirty": False}),
        ("touch new.py", "new.py", {"dirty": True, "script": "untracked"}),
        # What was run stays what was run.
        ("git commit -q --allow-empty -m second", "main.py", {"moved_to": ...}),
    ],
)
def test_the_state_of_the_repository_is_that_at_the_end(repository, act, script, expected):
    taken = make(script=repository / script)
    start = taken.at_start()["git"]
    shell(act, repository)
    moved = shell("git rev-parse HEAD", repository)
    end = {**start, **{k: moved if v is ... else v for k, v in expected.items()}}
    assert taken.at_end(30)["git"] == end
    assert ("+2\n" in taken.diff, taken.diff == "") == ("changes" in end, "changes" not in end)


def test_the_size_of_a_diff_is_that_of_git_and_runs_nothing_of_the_repository(repository):
    environ, (first,) = dict(os.environ), shell("git rev-parse HEAD", repository).split()
    shell("git config diff.external 'touch ran; false' && seq 9 > more.py", repository)
    shell("echo '*.py diff=x' > .gitattributes", repository)
    shell("git config diff.x.textconv 'touch ran'", repository)
    shell("git add . && git commit -qm more && seq 8 > main.py", repository)
    assert git.diff_size(repository, (first, "HEAD"), environ, 30) == "2 files, +10 -0"
    assert git.diff_size(repository, (first, first), environ, 30) == ""
    assert git.diff_size(repository, ("HEAD",), environ, 30) == "1 file, +7 -0"
    assert git.diff_size(repository, ("nobody", "HEAD"), environ, 30) == ""
    shell("git config color.ui always && echo 'https://me:secret@x' > main.py", repository)
    size, text = git.diff(repository, ("HEAD",), environ, 30)
    assert size == "1 file, +1 -1"
    assert text.startswith("diff --git a/main.py b/main.py\n")
    assert text.endswith("\n-1\n+https://<hidden>@x\n")
    assert git.diff(repository, ("nobody", "HEAD"), environ, 30) == ("", "")
    assert [*map(git.is_commit, (first, "HEAD", f"--output={first}"))] == [True, False, False]
    assert not (repository / "ran").exists()


def test_without_git_the_commit_is_known_and_the_state_is_not(repository, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", "")
    taken = make(script=repository / "main.py", environ={"PATH": ""})
    assert taken.at_start()["git"].keys() == taken.at_end(30)["git"].keys() == {"sha", "branch"}
    (tmp_path / "git").write_text("#!/bin/sh\nexec /bin/sleep 60\n")
    (tmp_path / "git").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert git.state(repository, None, dict(os.environ), 0.05) == {}, "it takes too long"


def test_the_commit_is_read_from_the_repositorys_files(repository):
    sha, tree = shell("git rev-parse HEAD", repository), repository.parent / "tree"
    shell("git worktree add -q -b other ../tree", repository)
    for _ in range(2):
        assert git.head(repository) == {"sha": sha, "branch": "work"}
        assert git.head(tree) == {"sha": sha, "branch": "other"}
        shell("git pack-refs --all", repository)
    shell("git checkout -q --detach", repository)
    assert git.head(repository) == {"sha": sha}


def test_a_repository_without_a_commit_or_with_a_damaged_head_has_none(tmp_path):
    shell("git init -q -b empty", tmp_path)
    assert git.head(tmp_path) == {"branch": "empty"}
    assert git.state(tmp_path, None, dict(os.environ), 30) == {"dirty": False, "branch": "empty"}
    for content in (b"", b"\xff\xfe", b"ref: refs/heads/../../../etc/passwd", b"x" * 40):
        (tmp_path / ".git" / "HEAD").write_bytes(content)
        assert "sha" not in git.head(tmp_path)


def test_nothing_that_repository_or_environment_configure_is_run_or_passed_on(repository, tmp_path):
    mark, script = tmp_path / "ran", tmp_path / "hook"
    script.write_text(f"#!/bin/sh\ntouch {mark}\n")
    script.chmod(0o755)
    for name in ("fsmonitor", "pager", "hooksPath"):
        shell(f"git config core.{name} {script}", repository)
    redirected = {"GIT_PAGER": str(script), "GIT_DIR": str(tmp_path), "GIT_WORK_TREE": "/"}
    found = git.state(repository, repository / "main.py", {**os.environ, **redirected}, 30)
    assert (found["dirty"], mark.exists()) == (False, False)


# The machine


def lay(root, files):
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


def test_the_processor_is_told_as_the_system_and_taskset_tell_it(tmp_path):
    governor = "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"
    info = "processor\t: 0\nmodel name\t: A Processor @ 2 GHz\nflags\t: x\n"
    facts = machine.cpu(lay(tmp_path, {"proc/cpuinfo": info, governor: "powersave\n"}))
    told = (facts["model"], facts["governor"], facts["count"])
    assert told == ("A Processor @ 2 GHz", "powersave", os.cpu_count())
    assert not {"model", "governor"} & machine.cpu(tmp_path / "nowhere").keys()
    found = map(machine.ranges, ([0], [3, 1, 2, 0, 8], [1, 3], []))
    assert list(found) == ["0", "0-3,8", "1,3", ""]


CGROUP = "sys/fs/cgroup"
UNLIMITED = {f"{CGROUP}/cpu.max": "max 100000\n", f"{CGROUP}/memory.max": "max\n"}
LIMITED = {f"{CGROUP}/cpu.max": "150000 100000\n", f"{CGROUP}/memory.max": "1024\n"}
LEAF = {"proc/self/cgroup": "0::/job/7\n", f"{CGROUP}/job/7/memory.max": "2048\n"}


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
        ({}, LIMITED, {"cpus": 1.5, "memory": 1024}),
        ({}, UNLIMITED, None),
        ({}, LEAF, {"memory": 2048}),
    ],
)
def test_a_container_is_told_by_its_marks_and_limits(tmp_path, environ, files, expected):
    assert machine.container(environ, lay(tmp_path, files)) == expected


def test_packages_are_read_from_names_alone_and_the_first_counts(tmp_path):
    names = ("Foo_Bar-1.2.dist-info", "old-0.1-py3.11.egg-info", "module", "x.dist-info")
    for name in (*(f"1/{name}" for name in names), "2/foo_bar-9.9.dist-info"):
        (tmp_path / name).mkdir(parents=True)
    found = installed([str(tmp_path / at) for at in ("1", "2", "gone", "1")])
    assert found == {"foo-bar": "1.2", "old": "0.1"}


# torch and GPUs


def test_torch_is_told_only_when_the_script_imported_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    assert torch_facts() is None
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(__version__="9"))
    assert torch_facts() == {"version": "9"}, "something else by its name is no obstacle"
    monkeypatch.undo()
    torch = pytest.importorskip("torch")
    facts = torch_facts()
    assert (facts["version"], facts["seed"]) == (str(torch.__version__), torch.initial_seed())
    assert ("cuda" in facts) == (torch.version.cuda is not None)


def test_gpus_are_told_by_nvml_else_by_the_drivers_files_and_nothing_without(tmp_path, monkeypatch):
    """One device knows everything, and one knows little."""
    calls = []
    nvml = SimpleNamespace(
        NVML_CLOCK_SM=0, NVML_CLOCK_MEM=1,
        nvmlInit=lambda: calls.append("init"), nvmlShutdown=lambda: calls.append("shutdown"),
        nvmlDeviceGetCount=lambda: 2, nvmlDeviceGetHandleByIndex=lambda index: index,
        nvmlDeviceGetName=[b"GPU A", "GPU B"].__getitem__, nvmlDeviceGetUUID="GPU-{}".format,
        nvmlDeviceGetEnforcedPowerLimit=[700_000].__getitem__,
        nvmlDeviceGetMemoryInfo=lambda handle: SimpleNamespace(total=80),
        nvmlDeviceGetMaxClockInfo=lambda handle, kind: [[1980, 2619]][handle][kind],
    )  # fmt: skip
    monkeypatch.setitem(sys.modules, "pynvml", nvml)
    assert (machine.gpus(tmp_path), calls) == (None, []), "without a driver nothing is imported"
    lay(tmp_path, {
        "proc/driver/nvidia/version": "NVRM version: NVIDIA UNIX x86_64  570.1.2  Mon\n",
        "proc/driver/nvidia/gpus/0/information": "Model: \t\t GPU C\nGPU UUID: \t GPU-0\n",
    })  # fmt: skip
    clocks = {"sm": 1980, "memory": 2619}
    assert machine.gpus(tmp_path) == {"driver": "570.1.2", "devices": [
        {"name": "GPU A", "uuid": "GPU-0", "power_limit": 700.0, "memory": 80,
         "max_clocks": clocks},
        {"name": "GPU B", "uuid": "GPU-1", "memory": 80},
    ]}  # fmt: skip
    assert calls == ["init", "shutdown"]
    monkeypatch.setitem(sys.modules, "pynvml", None)
    assert machine.gpus(tmp_path)["devices"] == [{"name": "GPU C", "uuid": "GPU-0"}]
