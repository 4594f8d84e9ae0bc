"""Tasks of asyncio that take turns on one thread have rows of their own."""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from overseer.trace import channel, open_trace
from overseer.trace import emit as emit_module
from overseer.trace.emit import tell_tasks_apart
from overseer.trace.reading import Slice, Trace
from overseer.trace.tracks import local

from .conftest import Tracing
from .processor import Processor

Begin = Callable[..., Tracing]


@pytest.fixture(autouse=True)
def _told_apart() -> Iterator[None]:
    before, local.turns = emit_module._running_loop, None
    tell_tasks_apart(asyncio)
    yield
    emit_module._running_loop = before


async def job(number: int, turns: int) -> None:
    with channel("app").span(f"job {number}"):
        for _ in range(turns):
            await asyncio.sleep(0)
        with channel("app").span(f"inner {number}"):
            channel("app").instant(f"mark {number}")
            for _ in range(turns):
                await asyncio.sleep(0)


async def all_jobs(count: int) -> None:
    with channel("app").span("all"):
        await asyncio.gather(*(job(number, number) for number in range(count)))


def rows(trace: Trace) -> dict[str, list[str]]:
    """The outermost spans of each row."""
    return {one.name: [each.label for each in one.slices] for one in trace.threads if one.slices}


def test_each_task_has_its_own_spans_whole(tracing: Begin, processor: Processor) -> None:
    trace = tracing()
    with channel("app").span("outside"):
        asyncio.run(all_jobs(3))
    processor.load(trace.end())
    assert processor.errors() == {}
    inside = processor.query(
        "select s.name as inner, p.name as outer from slice s join slice p on s.parent_id = p.id"
        " where s.name not like 'mark%'"
    )
    assert {row["inner"]: row["outer"] for row in inside} == {
        "all": "outside",
        **{f"inner {number}": f"job {number}" for number in range(3)},
    }
    read = open_trace(trace.path)
    assert (read.unfinished, trace.writer._encoder.unbalanced) == (0, 0)
    marked = {row.name: [one.label for one in row.instants] for row in read.threads}
    assert marked["MainThread task 3"] == ["mark 2"]


def test_rows_are_used_again(tracing: Begin) -> None:
    trace = tracing()
    for _ in range(3):
        asyncio.run(all_jobs(3))
    trace.end()
    read = open_trace(trace.path)
    names = sorted(row.name for row in read.threads if row.slices)
    assert names == ["MainThread", "MainThread task 2", "MainThread task 3"]
    assert sum(len(row.slices) for row in read.threads) == 3 * 4


def test_one_task_at_a_time_is_on_the_threads_row(tracing: Begin) -> None:
    async def one_by_one() -> None:
        for number in range(3):
            await asyncio.create_task(job(number, 1))

    trace = tracing()
    asyncio.run(one_by_one())
    trace.end()
    assert rows(open_trace(trace.path)) == {"MainThread": ["job 0", "job 1", "job 2"]}


def test_spans_begun_and_ended_by_hand_are_their_tasks_too(tracing: Begin) -> None:
    app = channel("app")

    async def by_hand(number: int) -> None:
        app.begin(f"job {number}")
        await asyncio.sleep(0)
        app.begin("left open")
        await asyncio.sleep(0)
        app.end("never begun")
        app.end(f"job {number}")

    async def both() -> None:
        await asyncio.gather(by_hand(0), by_hand(1))

    trace = tracing()
    asyncio.run(both())
    trace.end()
    read = open_trace(trace.path)
    spans: list[Slice] = [one for row in read.threads for one in row.slices]
    assert [one.label for one in spans] == ["job 0", "job 1"]
    assert [[each.label for each in one.children] for one in spans] == [["left open"]] * 2
    assert read.unfinished == 0


def test_what_pytorch_compiles_records_without_a_warning(tracing: Begin) -> None:
    torch = pytest.importorskip("torch")
    trace, app = tracing(), channel("app")

    @torch.compile(backend="eager")  # type: ignore[untyped-decorator]
    def twice(x: Any) -> Any:
        with app.span("twice"):
            app.instant("now")
            app.counter("calls").add(1)
            return x * 2

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert [twice(torch.ones(2)).sum().item() for _ in range(2)] == [4, 4]
    torch.compiler.reset()
    trace.end()
    read = open_trace(trace.path)
    assert [one.label for one in read.slices()] == ["twice"] * 2
    assert [one.label for one in read.instants() if one.channel == "app"] == ["now"] * 2
    assert read.counters["calls"].values == [1, 1]
