"""When nothing is traced, next to nothing is done."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any

import pytest

import voir
from overseer.trace import channel
from overseer.trace.recorder import recorder


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


@pytest.fixture
def recording(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(recorder, "channels", {})
    recorder.start()
    yield
    recorder.stop()
    recorder.take()


def test_what_another_thread_switches_off_in_this_moment_fails_nowhere(recording: None) -> None:
    class Label:
        def __repr__(self) -> str:
            made.disable()
            return "switched off"

    made = channel("threads")
    made.begin(Label())
    made.enable()
    made.instant(Label())
    assert not made.recording


def test_a_channel_that_is_made_while_recording_begins_records(
    recording: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Slow(dict[str, Any]):
        def setdefault(self, name: str, made: Any = None) -> Any:
            recorder.start()
            return super().setdefault(name, made)

    recorder.stop()
    monkeypatch.setattr(recorder, "channels", Slow())
    assert channel("new").recording


def test_a_channel_follows_the_last_of_several_switches(
    recording: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, put_of = channel("twice"), recorder.put_of

    def meanwhile(asked: Any) -> Any:
        put = put_of(asked)
        monkeypatch.undo()
        recorder.stop()
        return put

    monkeypatch.setattr(recorder, "put_of", meanwhile)
    made.enable()
    assert not made.recording
