"""What was different about runs, by what they were made with."""

from __future__ import annotations

import pytest

from overseer.rundir.differences import differences


def run(*argv, **provenance):
    return {"argv": ["voir", *argv], "provenance": {"kernel": "Linux", **provenance}}


OLD = run(
    git={"sha": "0123456789ab" + 28 * "0", "dirty": True}, packages={"numpy": "1.26", "rich": "13"},
    env={"OMP_NUM_THREADS": "1", "TERM": "x"}, gpu={"devices": [{"name": "A"}]},
)  # fmt: skip
NEW = run(
    git={"sha": "fedcba987654" + 28 * "f"}, packages={"numpy": "2.0", "scipy": "1"},
    env={"OMP_NUM_THREADS": "2", "TERM": "y"}, gpu={"devices": [{"name": "B"}]},
)  # fmt: skip
EACH = [
    ("code", "git.sha", ["0123456789ab", "fedcba987654"]), ("code", "git.dirty", ["True", "-"]),
    ("options", "OMP_NUM_THREADS", ["1", "2"]),
    ("packages", "numpy", ["1.26", "2.0"]), ("packages", "rich", ["13", "-"]),
    ("packages", "scipy", ["-", "1"]),
    ("machine", "gpu.devices.0.name", ["A", "B"]),
]  # fmt: skip
OF_RANKS = [
    "RANK", "LOCAL_RANK", "GROUP_RANK", "ROLE_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE",
    "MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT",
    "TORCHELASTIC_USE_AGENT_STORE", "OMPI_COMM_WORLD_LOCAL_RANK", "SLURM_PROCID", "SLURM_JOB_ID",
    "SLURM_LOCALID", "SLURM_NODEID", "SLURM_STEP_NODELIST", "SLURM_RESTART_COUNT", "SLURM_NTASKS",
]  # fmt: skip
KERNELS = [("machine", "kernel", ["a, b", "b"])]
OF_SLURM = [("options", "SLURM_CPUS_PER_TASK", ["1", "-"])]
UNASKED = run(git={"sha": "a"}, packages={"numpy": "1"}, torch={"version": "2"})


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ([run("main.py", load_average=[1])], [run("main.py", load_average=[2])], []),
        ([OLD], [NEW], EACH),
        ([UNASKED], [run()], []),  # There was no time to find out.
        (
            [run(kernel="a"), run(kernel="b")],
            [run(kernel="b")],
            [("machine", "kernel", ["a, b", "b"])],
        ),
        ([{}], [{"provenance": None, "argv": 3}], []),
        ([run(env=dict.fromkeys(OF_RANKS, "1"))], [run(env=dict.fromkeys(OF_RANKS, "2"))], []),
        (
            [run(env={"SLURM_CPUS_PER_TASK": "1"})],
            [run()],
            [("options", "SLURM_CPUS_PER_TASK", ["1", "-"])],
        ),
    ],
)
def test_each_difference_is_named_with_the_values_of_both_sides(before, after, expected):
    assert [tuple(one) for one in differences([before, after])] == expected


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ("main.py --lr 1 -q", "main.py --lr 2 -q", [("--lr 1", "--lr 2")]),
        ("main.py", "main.py --lr 2", [("-", "--lr 2")]),
        ("main.py a b", "main.py b", [("a", "-")]),
        ("--stop 3 main.py x x", "main.py x", [("--stop 3 main.py x", "main.py")]),
        ("--run-dir a main.py", "--run-dir=b --quiet main.py", []),
    ],
)
def test_of_two_commands_what_differs_is_told(before, after, expected):
    found = differences([[run(*before.split())], [run(*after.split())]])
    assert [one.values for one in found] == [[*each] for each in expected]
    assert {(one.group, one.name) for one in found} <= {("options", "arguments")}


def test_of_three_sides_each_has_its_value():
    sides = [[run("main.py", "--lr", lr, gpu={"n": 1})] for lr in ("1", "2", "3")]
    assert differences(sides) == [("options", "arguments", ["--lr 1", "--lr 2", "--lr 3"])]
    sides.append([run("main.py", gpu={"n": 2})])
    assert differences(sides)[1:] == [("machine", "gpu.n", ["1", "1", "1", "2"])]
