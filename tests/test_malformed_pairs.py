"""One end of a pair that does not say what it is, is reported once, and harms nobody."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from overseer.boundary import StopProgram
from overseer.clock import FakeClock
from overseer.errors import Problem
from overseer.measure.steps import StepModel
from overseer.stream import Event, EventStream
from tests.running import Place

#: What may stand under ``$wrap`` by mistake, and what is said about it.
MALFORMED: list[tuple[Any, str]] = [
    (3, "it is of type int, and not a dict"),
    ("step", "it is of type str, and not a dict"),
    (None, "it is of type NoneType, and not a dict"),
    ({"name": "step", "id": 1}, "it has no 'step'"),
    ({"step": "begin", "id": 1}, "it has no 'name'"),
    ({"name": "step", "step": "begin", "id": []}, "its id is of type list"),
    ({"name": {}, "step": "begin", "id": 1}, "its name is of type dict"),
    ({"name": "step", "step": [], "id": 1}, "its step is of type list"),
]


SOUND = {"name": "step", "step": "begin", "id": 1}


class Hearing:
    """A stream with a listener that cannot cope with what is malformed, and one that can."""

    def __init__(self, error: BaseException | None = None, free: bool = False) -> None:
        self.problems: list[Problem] = []
        self.heard: list[Event] = []
        self.error = error
        self.stream = EventStream(self.problems.append)
        self.reader = Reader(self, free)
        self.stream.listen(self.reader, who="reader")
        self.stream.listen(self.heard.append, who="all")


class Reader:
    def __init__(self, hearing: Hearing, free: bool) -> None:
        self.hearing, self.free = hearing, free
        self.read: list[object] = []

    def __call__(self, event: Event) -> None:
        wrap = event.get("$wrap", SOUND)
        if self.hearing.error is not None and wrap is not SOUND:
            raise self.hearing.error
        self.read.append({wrap["name"], wrap["step"], wrap.get("id")})


@pytest.mark.parametrize("direct", [False, True])
@pytest.mark.parametrize(("wrap", "said"), MALFORMED)
def test_it_is_reported_once_and_who_listens_goes_on(wrap: Any, said: str, direct: bool) -> None:
    hearing = Hearing(free=direct)
    stream = hearing.stream
    give = stream.outlet(list).for_keys(("$wrap", "x")) if direct else stream.push
    give({"$wrap": wrap, "x": 1})
    give({"$wrap": wrap, "x": 2})
    give({"$wrap": SOUND, "x": 3})
    assert [event["x"] for event in hearing.heard] == [1, 2, 3]
    assert len(hearing.reader.read) == 1
    (problem,) = hearing.problems
    assert (problem.slug, problem.who) == ("bad-wrap", "$wrap")
    assert said in problem.what
    assert problem.where is not None and "test_malformed_pairs.py" in problem.where


def test_through_an_outlet_without_a_lock_too() -> None:
    problems: list[Problem] = []
    stream = EventStream(problems.append)
    reader = Reader(Hearing(), free=True)
    stream.listen(reader)
    give = stream.outlet(list).for_keys(("$wrap",))
    for wrap in (3, SOUND, 3, SOUND):
        give({"$wrap": wrap})
    assert (len(reader.read), [problem.slug for problem in problems]) == (2, ["bad-wrap"])


def test_a_listener_that_fails_with_a_sound_one_is_to_blame() -> None:
    hearing = Hearing(error=ValueError("its own"))
    hearing.stream.push({"$wrap": {**SOUND}})
    hearing.stream.push({"$wrap": SOUND})
    assert hearing.reader.read == []
    assert [(problem.slug, problem.who) for problem in hearing.problems] == [
        ("subscriber", "reader")
    ]


def test_what_the_user_asked_for_passes_through() -> None:
    hearing = Hearing(error=StopProgram())
    with pytest.raises(StopProgram):
        hearing.stream.push({"$wrap": 3})
    assert hearing.problems == []


def test_an_operator_that_has_failed_is_over() -> None:
    problems: list[Problem] = []
    stream = EventStream(problems.append)
    read: list[object] = []
    stream.listen(lambda event: read.append(event["$wrap"]["step"]), completed=list)
    stream.push({"$wrap": 3})
    stream.push({"$wrap": SOUND})
    assert (read, [problem.slug for problem in problems]) == ([], ["subscriber"])


@pytest.mark.parametrize(("wrap", "said"), MALFORMED)
def test_the_step_model_takes_nothing_that_would_harm_it_later(wrap: Any, said: str) -> None:
    problems: list[Problem] = []
    stream, model = EventStream(problems.append), StepModel(FakeClock())
    for listener, keys in model.listeners():
        stream.listen(listener, *keys)
    steps: list[Any] = []
    model.sinks.append(steps.extend)
    for number in range(5):
        stream.push({"$wrap": wrap, "batch": [1, 2]})
        for edge in ("begin", "end"):
            stream.push({"$wrap": {"name": "step", "step": edge, "id": number}, "batch": [1, 2]})
        model.drain()
    model.finish()
    assert [step.items for step in steps] == [2] * 5
    assert {problem.slug for problem in problems} <= {"bad-wrap"}


@pytest.mark.parametrize("flags", [(), ("--dash",), ("--stop", "500"), ("--trace",)])
def test_everything_else_goes_on(tmp_path: Path, flags: tuple[str, ...]) -> None:
    place = Place(tmp_path)
    place.write(
        "main.py",
        """
        import time
        from voir import give

        for number in range(10):
            give(**{"$wrap": {"name": "step"}})
            give(**{"$wrap": 3, "loss": 7.0})
            give(**{"$wrap": {"name": "step", "step": "begin", "id": []}})
            time.sleep(0.01)
            give(step=number, batch_size=4, loss=1.0)
        """,
    )
    ran = place.voir(*flags, "main.py")
    assert ran.status == 0
    assert ran.stderr.count("[bad-wrap]") == 1, ran.stderr
    assert "switched off" not in ran.stderr
    record = place.record()
    assert record["tasks"]["train"]["steps"] == 10
    assert record["tasks"]["train"]["items"] == 40
    assert [problem["slug"] for problem in record["problems"]] == ["bad-wrap"]
    assert {each["state"] for each in record["instruments"]} == {"ok"}
