"""What ``--profile`` and its kin come to, in terms of ``--trace`` and its own."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest

from instruments.timeline.options import add_options
from instruments.timeline.settings import Settings, settings_of, switched_off
from overseer.errors import UsageError
from overseer.options import OptionParser


def resolved(*argv: str, **environ: str) -> Any:
    parser = OptionParser(environ=environ)
    add_options(parser)
    return parser.resolve(list(argv))


OP = Settings(level="op", steps=(0, 2))


@pytest.mark.parametrize(
    ("argv", "expected"),
    [
        ([], None),
        (["--profile"], OP),
        (["--profile", "--profile-steps=5"], OP._replace(steps=(0, 5))),
        (["--profile", "--profile-skip=3"], OP._replace(steps=(3, 5))),
        (["--profile", "--profile-every=10"], OP._replace(steps=(0, 20), every=10)),
        (["--profile", "--profile-rank=1"], OP._replace(rank=1)),
        (["--profile", "--trace-level=module"], OP._replace(level="module")),
        (["--profile", "--trace-steps=7:"], OP._replace(steps=(7, None))),
        (["--profile", "--trace-every=3"], OP._replace(steps=(0, 6), every=3)),
        (["--profile", "--no-profile"], None),
        (["--profile", "--no-trace"], None),
        (["--no-trace", "--profile"], None),
        (["--profile", "--trace-level=off"], None),
        (["--profile-steps=5"], None),
        (["--trace", "--profile-steps=5"], Settings()),
        (["--trace", "--trace-rank=2"], Settings(rank=2)),
        (["--trace", "--trace-ring"], Settings(ring=True)),
    ],
)
def test_options(argv: list[str], expected: Settings | None) -> None:
    assert settings_of(resolved(*argv)) == expected


@pytest.mark.parametrize(
    ("environ", "argv", "expected"),
    [
        ({"VOIR_PROFILE": "1"}, [], OP),
        ({"VOIR_PROFILE": "1", "VOIR_PROFILE_STEPS": "4"}, [], OP._replace(steps=(0, 4))),
        ({"VOIR_PROFILE": "1"}, ["--no-profile"], None),
        ({"VOIR_TRACE": '{"profile": true, "profile_steps": 4}'}, [], OP._replace(steps=(0, 4))),
        ({"VOIR_TRACE": '{"profile": true, "profile_rank": 1}'}, [], OP._replace(rank=1)),
        ({"VOIR_TRACE": '{"profile": true, "level": "step"}'}, [], OP._replace(level="step")),
        ({"VOIR_TRACE": '{"enable": false, "profile": true}'}, [], None),
        ({"VOIR_TRACE": '{"profile": true}'}, ["--no-profile"], Settings()),
        ({"VOIR_TRACE": '{"ring": true}'}, [], Settings(ring=True)),
        ({"VOIR_TRACE": "1", "VOIR_TRACE_RING": "1"}, [], Settings(ring=True)),
        ({"VOIR_TRACE": '{"steps": null, "enable": null}'}, [], Settings()),
        ({"VOIR_TRACE": '{"steps": [2, 4], "every": 2.0}'}, [], Settings(steps=(2, 4), every=2)),
        ({"VOIR_TRACE": "0"}, ["--profile"], OP),
        ({"VOIR_TRACE": "1"}, ["--no-trace"], None),
    ],
)
def test_variables(environ: dict[str, str], argv: list[str], expected: Settings | None) -> None:
    assert settings_of(resolved(*argv, **environ)) == expected


@pytest.mark.parametrize(
    "odd",
    [
        {"directory": 5},
        {"directory": ""},
        {"directory": ["a"]},
        {"modules": {"a": 1}},
        {"channels": []},
        {"channels": {"a": 1}},
        {"level": ["op"]},
        {"steps": [1, 2, 3]},
        {"every": 1.5},
        {"duration": True},
        {"duration": math.nan},
        {"max_mb": "much"},
        {"ring": "maybe"},
    ],
    ids=str,
)
def test_values_of_odd_types_are_refused(odd: dict[str, object]) -> None:
    with pytest.raises(UsageError) as refused:
        resolved(VOIR_TRACE=json.dumps(odd))
    assert refused.value.slug == "trace-settings"
    assert refused.value.what.startswith("VOIR_TRACE: ")


def test_numbers_that_make_no_sense_are_refused() -> None:
    for argv in ("--profile-steps=0", "--profile-skip=-1", "--profile-rank=one"):
        with pytest.raises(UsageError) as refused:
            resolved(argv)
        assert refused.value.slug == "trace-settings"


def test_a_script_may_trace_parts_of_itself_unless_traces_are_switched_off() -> None:
    assert not switched_off(resolved())
    assert not switched_off(resolved("--trace"))
    assert not switched_off(resolved(VOIR_TRACE="1"))
    for argv in ("--no-trace", "--trace-level=off"):
        assert switched_off(resolved(argv))
    assert switched_off(resolved(VOIR_TRACE='{"enable": false}'))
