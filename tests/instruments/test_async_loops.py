"""What an ``async for`` waits for: recorded, and nothing about the script is different."""

from __future__ import annotations

import ast
import contextlib
import io
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from instruments.auto import wrap_loops
from overseer.recorder import log, recorder
from overseer.recorder import sites as k

from .inside import run

#: Goes over all that an ``async for`` may be over, and notes which lines run.
SCRIPT = """
import sys, traceback

class Learner:
    def step(self): pass

learner, lines, ended = Learner(), [], []

async def batches(n, fails=None):
    try:
        for i in range(n):
            if i == fails:
                raise ValueError("no batch")
            yield [i] * 8, i
    finally:
        ended.append(n)

class Raises:
    def __aiter__(self):
        return self
    def __anext__(self):
        raise KeyError("at once")

class NoIterator:
    def __aiter__(self):
        return 3

class Ends:
    def __aiter__(self):
        return self
    async def __anext__(self):
        raise StopAsyncIteration

async def train(batches, most=9):
    async for x, (*y, z) in (
        batches
    ):
        learner.step()
        if z == most:
            break
        if z == 1:
            continue
    else:
        print("whole")

def drive(coroutine):
    try:
        coroutine.send(None)
    except StopIteration:
        print("done")
    except Exception:
        print(traceback.format_exc())

def traced(frame, event, arg):
    if frame.f_code.co_filename == __file__:
        lines.append((event, frame.f_lineno, frame.f_code.co_name))
    return traced

def pairs(n, fails=None):
    async def made():
        async for batch, i in batches(n, fails):
            yield batch, (batch, i)
    return made()

kept = pairs(5)
for over in (pairs(3), pairs(5, 1), Ends(), Raises(), NoIterator(), 3, None, kept):
    sys.settrace(traced)
    drive(train(over, most=2))
    sys.settrace(None)
    print(ended, len(lines))
drive(kept.aclose())
print(ended, sorted(globals()))
"""


def carried_out(path: Path, site: int | None) -> tuple[str, list[Any]]:
    """What the script prints and its lines, with its loops recorded at a site, or as it is."""
    tree = ast.parse(path.read_text())
    if site is not None:
        wrap_loops(tree, site)
    names: dict[str, Any] = {"__name__": "script", "__file__": str(path)}
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        exec(compile(tree, str(path), "exec"), names)
    return printed.getvalue(), names["lines"]


@pytest.fixture
def opened() -> Iterator[None]:
    recorder.open(1 << 10, 64)
    yield
    recorder.close()


@pytest.mark.usefixtures("opened")
def test_a_script_with_async_loops_is_as_it_is_without_voir(tmp_path: Path) -> None:
    path = tmp_path / "main.py"
    path.write_text(SCRIPT)
    before = sys.gettrace()
    try:
        plain, found = carried_out(path, None), carried_out(path, 7)
    finally:
        sys.settrace(before)
    assert found == plain
    assert "KeyError: 'at once'" in plain[0] and "ValueError: no batch" in plain[0]


LEARNS = """
class Learner:
    def step(self): pass

async def batches(n):
    for i in range(n):
        yield [i] * 8, i

async def train(over):
    async for batch in batches(3):
        pass
    async for batch, i in over:
        Learner().step()
        if i == 2:
            break

for n in (2, 5, 0):
    try:
        train(batches(n)).send(None)
    except StopIteration:
        pass
"""


@pytest.mark.usefixtures("opened")
def test_each_wait_of_a_loop_that_learns_is_marked_with_the_size_of_what_came() -> None:
    tree = ast.parse(LEARNS)
    wrap_loops(tree, 7)
    exec(compile(tree, "main.py", "exec"), {})
    found = [(e.flags, e.value) for e in log.events(recorder.drain(0, 0)[0]) if e.site == 7]
    asks, came, over = (0, None), (k.CAME, 8.0), (k.CAME | k.ENDED, None)
    told = [(flags, value if value == value else None) for flags, value in found]
    assert told == [asks, came] * 2 + [asks, over] + [asks, came] * 3 + [asks, over]


TRAINS = """
import asyncio, time, torch
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

async def batches(n):
    for _ in range(n):
        await asyncio.sleep(0.003)
        yield torch.randn(8, 4), torch.randn(8, 1)

async def main():
    {loop} batches(20):
        loss = (model(x) - y).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

asyncio.run(main())
"""


@pytest.mark.parametrize(
    ("loop", "known"), [("async for x, y in", True), ("for x, y in [b async for b in", False)]
)
def test_what_an_async_for_waits_for_is_loading(loop: str, known: bool, tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="torch comes with the extra [examples]")
    text = TRAINS.format(loop=loop)
    ran = run(tmp_path, text if known else text.replace("batches(20):", "batches(20)]:"))
    train = ran.tasks["train"]
    assert (train["steps"], train["items"], "loading" in train) == (20, 160, known)
