"""Where the numbers of a run come from: all of it true, nothing invented, little time spent."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import threading
from types import SimpleNamespace

import pytest

from overseer.encode import simplify
from overseer.record import git, machine, provenance
from overseer.record.provenance import Provenance, installed, python, torch_facts
from tests.running import SCHEMA


def make(**options):
    return Provenance(**{"argv": ["voir"], "version": "0.1.0", "environ": {}, **options})


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
    settings = ("user.name=Tester", "user.email=tester@example.org", "commit.gpgsign=false")
    every = ["git", *(word for setting in settings for word in ("-c", setting)), *command]
    return subprocess.run(every, cwd=top, check=True, capture_output=True, text=True).stdout.strip()


def commit(top):
    run_git(top, "commit", "-q", "--allow-empty", "-m", "A commit")


def test_the_start_has_what_is_cheap_starts_no_process_and_stays_as_it_is(monkeypatch, repository):
    sha, argv = run_git(repository, "rev-parse", "HEAD"), ["voir", "a b.py", "--token", "abcdef"]
    taken = make(argv=argv, script=repository / "main.py")
    with monkeypatch.context() as patched:
        patched.setattr(subprocess, "Popen", lambda *args, **more: pytest.exit("a process"))
        facts = dict(taken.at_start())
    early = "voir command cwd hostname kernel python env cpu memory git"
    assert set(early.split()) <= facts.keys()
    assert facts["git"] == {"sha": sha, "branch": "work"}
    assert facts["command"] == "voir 'a b.py' --token '<hidden>'", "it can be pasted"
    monkeypatch.setattr(machine, "kernel", lambda: "another kernel")
    assert taken.at_start() == facts


def test_the_end_adds_what_takes_longer_and_all_of_it_is_known_and_plain_json(repository):
    def values(value):
        yield value
        for inner in value.values() if isinstance(value, dict) else ():
            yield from values(inner)

    taken = make(script=repository / "main.py", environ=dict(os.environ))
    start, end = taken.at_start(), taken.at_end(30)
    assert start.keys() <= end.keys()
    assert (end["packages"]["pytest"], end["git"]["dirty"]) == (pytest.__version__, False)
    assert simplify(end) == end
    assert not [value for value in values(end) if value is None or value == {}]


@pytest.mark.parametrize("trouble", ["late", "failing", "without threads"])
def test_what_cannot_be_had_in_time_is_absent(monkeypatch, trouble):
    def fails(*args):
        raise RuntimeError("can't")

    forever = threading.Event()
    monkeypatch.setattr(machine, "gpus", forever.wait if trouble == "late" else fails)
    if trouble == "without threads":
        monkeypatch.setattr(provenance, "start_new_thread", fails)
    end = make().at_end(0 if trouble == "late" else 30)
    forever.set()
    assert ("gpu" in end, "command" in end) == (False, True)
    assert "packages" not in end or trouble != "without threads"


def test_voirfiles_are_identified_by_their_hash(tmp_path, monkeypatch):
    voirfile, gone = tmp_path / "voirfile.py", {"path": str(tmp_path / "gone.py")}
    voirfile.write_bytes(b"x = 1\n")
    facts = make(voirfiles=[voirfile, tmp_path / "gone.py"]).at_start()
    sha = hashlib.sha256(b"x = 1\n").hexdigest()
    assert facts["voirfiles"] == [{"path": str(voirfile), "sha256": sha}, gone]

    def fails(name, *more):
        raise ModuleNotFoundError(name) if name == "_sha2" else MemoryError

    with monkeypatch.context() as patched:
        patched.setattr("builtins.__import__", fails)
        found = provenance._hashed(voirfile)
    assert found == {"path": str(voirfile)}, "a hash that cannot be computed is absent"


def test_seeds_that_are_set_are_told(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(initial_seed=lambda: 7))
    taken = make(environ={"PYTHONHASHSEED": "3"})
    assert taken.at_start()["seed"] == {"PYTHONHASHSEED": "3"}
    assert taken.at_end(30)["seed"] == {"PYTHONHASHSEED": "3", "torch": 7}
    assert "seed" not in make().at_start()


def test_a_deleted_current_directory_is_no_obstacle(tmp_path, monkeypatch):
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    taken = make()
    assert ("cwd" in taken.at_start(), "command" in taken.at_end(30)) == (False, True)


@pytest.mark.parametrize(
    ("options", "flags"), [((), None), (("-O", "-B"), {"optimize": 1, "dont_write_bytecode": 1})]
)
def test_the_interpreter_tells_its_flags_only_when_somebody_set_them(options, flags):
    code = "import json; from overseer.record.provenance import python; print(json.dumps(python()))"
    command, env = [sys.executable, *options, "-c", code], {"PYTHONPATH": str(SCHEMA.parents[1])}
    found = json.loads(subprocess.check_output(command, env=env))
    assert found.get("flags") == flags
    assert found["version"] == python()["version"] == ".".join(map(str, sys.version_info[:3]))


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
    moved = run_git(repository, "rev-parse", "HEAD")
    end = {**start, **{k: moved if v is ... else v for k, v in expected.items()}}
    assert taken.at_end(30)["git"] == end


def test_without_git_the_commit_is_known_and_the_state_is_not(repository, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", "")
    taken = make(script=repository / "main.py", environ={"PATH": ""})
    assert taken.at_start()["git"].keys() == taken.at_end(30)["git"].keys() == {"sha", "branch"}
    (tmp_path / "git").write_text("#!/bin/sh\nexec /bin/sleep 60\n")
    (tmp_path / "git").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert git.state(repository, None, dict(os.environ), 0.05) == {}, "it takes too long"


def test_without_a_repository_there_is_nothing_to_tell(tmp_path):
    if git.repository(tmp_path) is None:
        assert "git" not in make(script=tmp_path / "main.py").at_end(30)


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


def test_a_damaged_head_is_no_commit(tmp_path):
    (tmp_path / ".git").mkdir()
    for content in (b"", b"\xff\xfe", b"ref: refs/heads/../../../etc/passwd", b"x" * 40):
        (tmp_path / ".git" / "HEAD").write_bytes(content)
        assert "sha" not in git.head(tmp_path)


def test_nothing_that_repository_or_environment_configure_is_run_or_passed_on(repository, tmp_path):
    mark, script = tmp_path / "ran", tmp_path / "hook"
    script.write_text(f"#!/bin/sh\ntouch {mark}\n")
    script.chmod(0o755)
    for name in ("fsmonitor", "pager", "hooksPath"):
        run_git(repository, "config", f"core.{name}", str(script))
    redirected = {"GIT_PAGER": str(script), "GIT_DIR": str(tmp_path), "GIT_WORK_TREE": "/"}
    found = git.state(repository, repository / "main.py", {**os.environ, **redirected}, 30)
    assert (found["dirty"], mark.exists()) == (False, False)


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
    assert not {"model", "governor"} & machine.cpu(tmp_path / "nowhere").keys()


def test_processors_are_listed_as_taskset_does():
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
    assert (torch_facts(), "torch" in sys.modules) == (None, False)
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(__version__="9"))
    assert torch_facts() == {"version": "9"}, "something else by its name is no obstacle"


def test_torch_tells_its_versions():
    torch = pytest.importorskip("torch")
    facts = torch_facts()
    assert (facts["version"], facts["seed"]) == (str(torch.__version__), torch.initial_seed())
    assert ("cuda" in facts) == (torch.version.cuda is not None)


def fake_nvml(calls):
    """As pynvml, with one device that knows everything and one that knows little."""
    return SimpleNamespace(
        NVML_CLOCK_SM=0, NVML_CLOCK_MEM=1,
        nvmlInit=lambda: calls.append("init"), nvmlShutdown=lambda: calls.append("shutdown"),
        nvmlDeviceGetCount=lambda: 2, nvmlDeviceGetHandleByIndex=lambda index: index,
        nvmlDeviceGetName=[b"GPU A", "GPU B"].__getitem__, nvmlDeviceGetUUID="GPU-{}".format,
        nvmlDeviceGetEnforcedPowerLimit=[700_000].__getitem__,
        nvmlDeviceGetMemoryInfo=lambda handle: SimpleNamespace(total=80),
        nvmlDeviceGetMaxClockInfo=lambda handle, kind: [[1980, 2619]][handle][kind],
    )  # fmt: skip


DRIVER = {"proc/driver/nvidia/version": "NVRM version: NVIDIA UNIX x86_64  570.1.2  Mon\n"}
FULL = {
    "name": "GPU A", "uuid": "GPU-0", "power_limit": 700.0, "memory": 80,
    "max_clocks": {"sm": 1980, "memory": 2619},
}  # fmt: skip


def test_gpus_are_told_by_nvml_and_what_one_does_not_offer_is_absent(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pynvml", fake_nvml(calls := []))
    assert machine.gpus(lay(tmp_path, DRIVER)) == {
        "driver": "570.1.2", "devices": [FULL, {"name": "GPU B", "uuid": "GPU-1", "memory": 80}],
    }  # fmt: skip
    assert calls == ["init", "shutdown"]


def test_without_nvml_the_drivers_own_files_tell_the_gpus(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pynvml", None)
    information = "Model: \t\t GPU A\nGPU UUID: \t GPU-0\n"
    lay(tmp_path, {**DRIVER, "proc/driver/nvidia/gpus/0/information": information})
    assert machine.gpus(tmp_path)["devices"] == [{"name": "GPU A", "uuid": "GPU-0"}]


def test_without_a_driver_nothing_is_imported(tmp_path, monkeypatch):
    monkeypatch.setattr(machine, "_by_nvml", lambda: pytest.fail("imported"))
    assert machine.gpus(tmp_path) is None
