"""When nothing is traced, next to nothing is done."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import pytest

import voir
from overseer.trace import channel


def python_calls(run: Callable[[], object]) -> list[str]:
    """The names of the Python functions that ``run`` calls."""
    calls: list[str] = []

    def profiled(frame: Any, event: str, argument: object) -> None:
        if event == "call":
            calls.append(frame.f_code.co_name)

    sys.setprofile(profiled)
    try:
        run()
    finally:
        sys.setprofile(None)
    return calls[1:]


SPANS: dict[str, Callable[[], AbstractContextManager[object]]] = {
    "span": lambda: channel("app").span("step", number=1, name="x"),  # type: ignore[dict-item]
    "profile": lambda: voir.profile(level="op", ms_duration=15000.0, steps="10:20"),  # type: ignore[dict-item,return-value]
}


@pytest.mark.parametrize("name", SPANS)
def test_entering_and_leaving_calls_no_python(name: str) -> None:
    made = SPANS[name]()

    def run() -> None:
        with made as entered:
            assert entered is made

    assert python_calls(run) == []


def test_to_ask_for_a_span_is_one_call() -> None:
    app = channel("app")
    assert python_calls(lambda: app.span("step", number=1)) == ["span"]
    assert python_calls(lambda: voir.profile(level="op", steps="10:20")) == ["profile"]


@pytest.mark.parametrize("name", SPANS)
def test_errors_pass_and_functions_stay_as_they_are(name: str) -> None:
    made = SPANS[name]()
    with pytest.raises(KeyError, match="x"), made:
        raise KeyError("x")
    assert made(len) is len  # type: ignore[operator]
