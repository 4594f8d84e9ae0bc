"""What was different about runs, by what they were made with."""

from __future__ import annotations

import pytest

from overseer.record.differences import differences


def run(*argv, **provenance):
    return {"argv": ["voir", *argv], "provenance": {"kernel": "Linux", **provenance}}


def told(before, after):
    return [tuple(one) for one in differences(before, after)]


def test_runs_made_alike_have_no_differences():
    assert told([run("main.py", load_average=[1])], [run("main.py", load_average=[2])]) == []


def test_each_difference_is_named_with_both_values():
    before = run(
        git={"sha": "0123456789abcdef", "dirty": True}, packages={"numpy": "1.26", "rich": "13"},
        env={"OMP_NUM_THREADS": "1", "TERM": "x"}, gpu={"devices": [{"name": "A"}]},
    )  # fmt: skip
    after = run(
        git={"sha": "fedcba9876543210"}, packages={"numpy": "2.0", "scipy": "1"},
        env={"OMP_NUM_THREADS": "2", "TERM": "y"}, gpu={"devices": [{"name": "B"}]},
    )  # fmt: skip
    assert told([before], [after]) == [
        ("git.sha", "0123456789ab", "fedcba987654"),
        ("git.dirty", "True", "-"),
        ("numpy", "1.26", "2.0"),
        ("rich", "13", "-"),
        ("gpu.devices.0.name", "A", "B"),
        ("OMP_NUM_THREADS", "1", "2"),
        ("scipy", "-", "1"),
    ]


def test_what_a_run_had_no_time_to_find_out_is_no_difference():
    whole = run(git={"sha": "a"}, packages={"numpy": "1"}, torch={"version": "2"})
    assert told([whole], [run()]) == []


def test_several_runs_a_side_are_told_by_all_their_values():
    sides = [run(kernel="a"), run(kernel="b")], [run(kernel="b")]
    assert told(*sides) == [("kernel", "a, b", "b")]


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ("main.py --lr 1 -q", "main.py --lr 2 -q", ("--lr 1", "--lr 2")),
        ("main.py", "main.py --lr 2", ("-", "--lr 2")),
        ("main.py a b", "main.py b", ("a", "-")),
        ("--stop 3 main.py x x", "main.py x", ("--stop 3 main.py x", "main.py")),
        ("--run-dir a main.py", "--run-dir=b --quiet main.py", None),
    ],
)
def test_of_two_commands_what_differs_is_told(before, after, expected):
    found = told([run(*before.split())], [run(*after.split())])
    assert found == ([("arguments", *expected)] if expected else [])


def test_a_record_without_provenance_has_none():
    for facts in ({}, {"provenance": None, "argv": 3}):
        assert told([facts], [facts]) == []
