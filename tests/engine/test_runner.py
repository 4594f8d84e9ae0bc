"""Runners of phases of one's own."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from giving import give

from overseer.boundary import StopProgram
from overseer.engine.runner import GivenRunner, PhaseRunner
from overseer.errors import VoirError


class Line(PhaseRunner):
    """Runs two phases, and notes what happens."""

    def __init__(self, **kwargs: Any) -> None:
        self.seen: list[Any] = []
        self.errors: list[BaseException] = []
        super().__init__(["one", "two"], args=(self,), kwargs=kwargs)

    def _run(self, *values: Any) -> None:
        for phase, value in zip(self.phases, values, strict=True):
            with self.run_phase(phase) as set_value:
                self.seen.append(phase.name)
                if isinstance(value, Exception):
                    raise value
                set_value(value)

    def _on_instrument_error(self, e: BaseException) -> None:
        self.errors.append(e)


def test_instruments_begin_with_the_run_and_get_the_phases_values() -> None:
    line = Line(extra="x")

    @line.require
    def instrument(ov: Line, extra: str) -> Any:
        ov.seen.append(extra)
        ov.seen.append((yield ov.phases.one))
        ov.seen.append((yield ov.phases.two))

    assert line.seen == []
    line(1, 2)
    assert line.seen == ["x", "one", 1, "two", 2]
    assert (line.status, line.errors) == ("done", [])


def test_an_error_of_the_run_reaches_those_who_wait_and_whoever_called() -> None:
    line, told = Line(), ValueError("no")

    @line.require
    def instrument(ov: Line) -> Any:
        try:
            yield ov.phases.one
        except ValueError as error:
            ov.seen.append(error)
            raise RuntimeError("mine") from None

    with pytest.raises(ValueError, match="no") as caught:
        line(told, 2)
    assert caught.value is told
    assert line.seen == ["one", told]
    assert [type(error) for error in line.errors] == [RuntimeError]


def test_a_stop_reaches_everybody_who_waits_and_nobody_outside() -> None:
    line = Line()

    @line.require
    def stops(ov: Line) -> Any:
        yield ov.phases.one
        ov.stop("enough")

    @line.require
    def waits(ov: Line) -> Any:
        try:
            yield ov.phases.two
        except StopProgram as stop:
            ov.seen.append(stop.args)

    line(1, 2)
    assert line.seen == ["one", ("enough",)]
    assert line.status == "stopped"


def test_an_abort_fails_the_run_when_everybody_has_been_told() -> None:
    line = Line()

    @line.require
    def aborts(ov: Line) -> Any:
        yield ov.phases.one
        ov.abort(KeyError("broken"))

    @line.require
    def goes_on(ov: Line) -> Any:
        yield ov.phases.one
        ov.seen.append("told")

    with pytest.raises(KeyError, match="broken"):
        line(1, 2)
    assert line.seen == ["one", "told"]


def test_an_instrument_that_still_waits_at_the_end_can_clean_up() -> None:
    line = Line()

    @line.require
    def waits(ov: Line) -> Any:
        try:
            yield ov.phases.two
        finally:
            ov.seen.append("cleaned up")

    with pytest.raises(ValueError, match="no"):
        line(ValueError("no"), 2)
    assert line.seen == ["one", "cleaned up"]


def test_a_second_run_is_refused() -> None:
    line = Line()
    line(1, 2)
    with pytest.raises(VoirError, match="not run before"):
        line(1, 2)


class Giving(GivenRunner):
    def __init__(self) -> None:
        super().__init__(["one"], args=(self,))

    def _run(self) -> None:
        with self.run_phase(self.phases.one):
            self.give(value=1)
            value = 2
            give(value)
            thread = threading.Thread(target=self.queue, kwargs={"value": 3})
            thread.start()
            thread.join()


def test_what_is_given_in_the_run_reaches_its_stream_from_anywhere() -> None:
    seen: list[int] = []
    ended: list[int] = []
    giving = Giving()

    @giving.require
    def instrument(ov: Giving) -> None:
        ov.given["?value"].accum(seen)
        ov.given["?value"].max() >> ended.append

    giving()
    assert (seen, ended) == ([1, 2, 3], [3])
    give(value=4)
    assert seen == [1, 2, 3]
