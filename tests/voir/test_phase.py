"""Runners of phases of one's own."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
from giving import give

from overseer.boundary import StopProgram
from overseer.engine.phases import Misuse
from overseer.errors import VoirError
from voir.phase import BaseOverseer, GivenOverseer


class Line(BaseOverseer):
    """Runs two phases, and notes what happens."""

    def __init__(self, **kwargs: Any) -> None:
        self.seen: list[Any] = []
        self.errors: list[type[BaseException]] = []
        super().__init__(["one", "two"], args=(self,), kwargs=kwargs)

    def _run(self, *values: Any) -> None:
        for phase, value in zip(self.phases, values, strict=True):
            with self.run_phase(phase) as set_value:
                self.seen.append(phase.name)
                if isinstance(value, Exception):
                    raise value
                set_value(value)

    def _on_instrument_error(self, e: BaseException) -> None:
        self.errors.append(type(e))

    def _on_error(self, exc: BaseException) -> None:
        self.seen.append(f"failed: {exc}")


def test_instruments_begin_with_the_run_get_the_phases_values_and_run_once() -> None:
    line = Line(extra="x")

    @line.require
    def instrument(ov: Line, extra: str) -> Any:
        ov.seen.append(extra)
        ov.seen += [(yield ov.phases.one), (yield ov.phases.two)]

    @line.require
    def yields_no_phase(ov: Line, extra: str) -> Any:
        yield extra

    assert line.seen == []
    line(1, 2)
    assert line.seen == ["x", "one", "two", 1, 2]
    assert (line.status, line.errors) == ("done", [Misuse])
    with pytest.raises(VoirError, match="not run before"):
        line(1, 2)


def stops(ov: Line) -> None:
    ov.stop("enough")


def aborts(ov: Line) -> None:
    ov.abort(KeyError("broken"))


@pytest.mark.parametrize(
    ("value", "act", "seen", "raised", "status"),
    [
        (1, stops, ["one", "told", "after one", ("enough",)], None, "stopped"),
        (1, aborts, ["one", "told", "after one", "failed: 'broken'"], KeyError, "running"),
        (ValueError("no"), stops, ["one", "failed: no"], ValueError, "running"),
    ],
    ids=["stop", "abort", "error"],
)
def test_everybody_is_told_how_the_run_ends_and_cleans_up(
    value: object,
    act: Callable[[Line], None],
    seen: list[object],
    raised: type[Exception] | None,
    status: str,
) -> None:
    line = Line()

    @line.require
    def ends(ov: Line) -> Any:
        yield ov.phases.one
        ov.seen.append("told")
        act(ov)

    @line.require
    def fails(ov: Line) -> Any:
        try:
            yield ov.phases.one
        finally:
            raise RuntimeError("mine")

    @line.require
    def waits(ov: Line) -> Any:
        try:
            yield ov.phases.one
            ov.seen.append("after one")
            yield ov.phases.two
        except StopProgram as stop:
            ov.seen.append(stop.args)
        finally:
            ov.errors.append(GeneratorExit)

    if raised is None:
        line(value, 2)
    else:
        with pytest.raises(raised) as caught:
            line(value, 2)
        assert isinstance(value, int) or caught.value is value
    assert (line.seen, line.errors) == (seen, [RuntimeError, GeneratorExit])
    assert line.status == status


class Giving(GivenOverseer):
    def __init__(self) -> None:
        super().__init__(["one"], args=(self,))
        self.errors: list[BaseException] = []

    def _run(self) -> None:
        with self.run_phase(self.phases.one):
            self.give(value=1)
            value = 2
            give(value)
            thread = threading.Thread(target=self.queue, kwargs={"value": 3})
            thread.start()
            thread.join()

    def _on_instrument_error(self, e: BaseException) -> None:
        self.errors.append(e)


def test_what_is_given_in_the_run_reaches_its_stream_from_anywhere() -> None:
    seen: list[int] = []
    ended: list[int] = []
    giving = Giving()

    @giving.require
    def instrument(ov: Giving) -> None:
        ov.given["?value"].accum(seen)
        ov.given["?value"].max() >> ended.append
        ov.given["?$queued"] >> (lambda seconds: 1 / 0 if seconds > 1e9 else None)

    giving()
    assert (seen, ended) == ([1, 2, 3], [3])
    assert [str(error).partition("\n")[0] for error in giving.errors] == [
        "a subscriber failed: ZeroDivisionError: division by zero"
    ]
    give(value=4)
    assert seen == [1, 2, 3]
