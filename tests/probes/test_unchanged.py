"""What the script and its tools see is as without probes."""

from __future__ import annotations
import __future__

import ast
import bdb
import builtins
import os
import subprocess
import sys
import traceback
from pathlib import Path
from typing import Any

import pytest

from overseer.boundary import StopProgram
from tests.running import environment

from .conftest import Make
from .scripts import Script, seen

SOURCE = """
def f(n):
    "doc"
    x = n
    total = use(
        x,
        n,
    )
    for i in range(2):
        if i == n:
            break
        y = 1 / (n - 3)
    try:
        z = [x
             for _ in range(2)]
    except ZeroDivisionError as error:
        z = error
    return (
        z
    )
def use(*values):
    return values
class A:
    def m(self, n):
        x = n
        return x
def outer(k):
    def inner(n):
        x = n + k
        return x
    return inner
def g(n):
    for i in range(n):
        yield i
"""
SELECTORS = ["//f > x", "//f > total", "//f > #enter", "//f > #exit", "//f > #error", "//f > z",
             "//f(n) > #value", "//f(i, !#loop_i, !!#endloop_i)", "//f > #endloop_i", "//f > y",
             "//A/m(n) > x", "//outer/inner > x", "//outer > inner", "//g > #yield",
             "//g(!#loop_i, !!#endloop_i)"]  # fmt: skip


def probed(script: Make, early: bool, source: str = SOURCE) -> tuple[Script, dict[str, Any]]:
    """The script with probes, and its namespace without."""
    made = script(source)
    if not early:
        made.load()
    for selector in SELECTORS:
        made.probe(selector)
    if early:
        made.load()
    plain: dict[str, Any] = {}
    exec(compile(made.source, str(made.path), "exec", dont_inherit=True), plain)
    return made, plain


both = pytest.mark.parametrize("early", [True, False])
SHAPE = ("co_argcount", "co_kwonlyargcount", "co_flags", "co_name", "co_qualname", "co_freevars",
         "co_cellvars", "co_firstlineno", "co_filename")  # fmt: skip


@both
def test_functions_look_and_act_the_same(script: Make, early: bool) -> None:
    made, plain = probed(script, early)
    for name in ("f", "A.m", "outer", "outer(1)", "g"):
        ours, own = made.call(name), eval(name, plain)
        for attribute in SHAPE:
            assert getattr(ours.__code__, attribute) == getattr(own.__code__, attribute)
        assert set(ours.__code__.co_varnames) == set(own.__code__.co_varnames)
        assert (ours.__doc__, ours.__qualname__) == (own.__doc__, own.__qualname__)
        assert ours.__code__ != own.__code__
    assert not [name for name in (*dir(builtins), *vars(made.main)) if " " in name]
    for call in ("f(0)", "f(1)", "f(3)", "f(None)", "list(g(None))"):
        without = seen(lambda call=call: eval(call, plain), made.path)
        assert seen(lambda call=call: made.call(call), made.path) == without


class Debugger(bdb.Bdb):
    """Stops at breakpoints in a file, and notes where, each place in a row once."""

    def __init__(self, path: Path, lines: list[int]) -> None:
        super().__init__()
        self.stops: list[tuple[int, Any]] = []
        for line in lines:
            assert self.set_break(str(path), line) is None

    def user_line(self, frame: Any) -> None:
        stop = (frame.f_lineno, frame.f_locals.get("i"))
        if self.break_here(frame) and stop not in self.stops[-1:]:
            self.stops.append(stop)
        self.set_continue()

    def run_call(self, function: Any) -> list[tuple[int, Any]]:
        before = sys.gettrace()
        try:
            self.runcall(function, 1)
        finally:
            sys.settrace(before)
        return self.stops


@both
def test_breakpoints_stop_where_they_would(script: Make, early: bool) -> None:
    made, plain = probed(script, early)
    lines = [4, 5, 9, 10, 11, 12, 14, 18]
    without = Debugger(made.path, lines).run_call(plain["f"])
    assert {line for line, _ in without} == set(lines)
    assert Debugger(made.path, lines).run_call(made.main.f) == without


@pytest.mark.parametrize(
    ("selector", "line"),
    [("//f > #enter", 4), ("//f(n) > x", 4), ("//f > total", 5), ("//f(missing) > total", 5),
     ("//f > #loop_i", 9), ("//f > #value", 19), ("//f > z", 14), ("//f > #endloop_i", 11)],
)  # fmt: skip
def test_a_listener_may_end_the_script_whose_traceback_names_the_line_of_the_event(
    script: Make, selector: str, line: int
) -> None:
    source = SOURCE.replace("    return (\n", "    if not x: missing = 1\n    return (\n")
    made, heard = script(source).load(), []

    def fail(event: dict[str, Any]) -> None:
        raise StopProgram

    probe = made.placed(selector)
    probe.listen(fail)
    probe.listen(heard.append)  # All are called before.
    with pytest.raises(StopProgram) as raised:
        made.call("f(1)")
    frames = traceback.extract_tb(raised.value.__traceback__)
    at = [frame.lineno for frame in frames if frame.filename == str(made.path)]
    assert at in ([line], [line + 1])
    assert [frame.name for frame in frames][-2:] == ["hand", "fail"]
    assert (len(heard), made.problems) == (1, [])


FUTURES = [name for name in __future__.all_feature_names if name != "barry_as_FLUFL"]


@both
@pytest.mark.parametrize("name", FUTURES)
def test_every_future_holds(script: Make, name: str, early: bool) -> None:
    source = f"from __future__ import {name}\ndef f(x: int):\n    y = x\n    return y\nprint\n"
    made = script(source + "def g(x: int):\n    z: int = x\n    return z\n")
    if not early:
        made.load().run()
    ys, zs = made.probe("//f > y"), made.probe("//g > z")
    if early:
        made.load().run()
    made.call("f(1), g(2)")
    assert (ys, zs) == ([{"y": 1}], [{"z": 2}])
    annotation = made.call("g.__annotations__['x']")
    assert annotation == ("int" if name == "annotations" else int)


def test_what_others_hang_on_nodes_that_all_trees_share_is_no_part_of_the_code(
    script: Make,
) -> None:
    """Python has one ``Load``; what finds a call's source by its frame leaves that there."""
    context = ast.parse("x", mode="eval").body.ctx  # type: ignore[attr-defined]
    context.frame = sys._getframe()
    try:
        made = script(SOURCE).load()
        heard = made.probe("//g > #yield")
        assert made.call("list(g(3))") == [0, 1, 2]
        assert len(heard) == 3
    finally:
        del context.frame


DELETING = """
import weakref
class Batch: pass
living = weakref.WeakSet()
def f(n):
    alive = []
    for batch in (Batch() for _ in range(n)):
        living.add(batch)
        more = None
        del batch
        alive.append(len(living))
    return alive
"""


def test_what_a_turn_deletes_is_gone(script: Make) -> None:
    made = script(DELETING).load().run()
    without = made.call("f(4)")
    made.probe("//f(batch, more) > #endloop_batch as step")
    made.placed("//f(batch, !#loop_batch as s, !!#endloop_batch as e)").listen(lambda event: None)
    assert made.call("f(4)") == without


def test_the_child_of_a_fork_is_silent(script: Make) -> None:
    made = script(SOURCE).load()
    events, pairs = made.probe("//f > x"), made.probe("//g(!#loop_i, !!#endloop_i)")
    made.placed("//f > z", overridable=True).intercept(lambda event: 7)
    made.call("f(1), list(g(1))")
    child = os.fork()
    if not child:
        value, _ = made.call("f(1), list(g(1))")
        made.engine.close()
        os._exit((value, len(events), len(pairs)) != ([1, 1], 1, 2))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    made.call("f(1)")
    assert (len(events), len(pairs)) == (2, 2)


def test_functions_that_are_sent_to_another_process_run_there(script: Make, tmp_path: Path) -> None:
    cloudpickle = pytest.importorskip("cloudpickle")
    made = script(SOURCE)
    for selector in SELECTORS:
        made.probe(selector)
    made.placed("//A/m > x", overridable=True).intercept(lambda event: 7)
    made.load()
    assert made.call("A().m(1)") == 7
    made.main.__dict__["__name__"] = "sent"  # So that it is sent by value.
    for function in (made.main.f, made.main.g, made.main.A.m, made.main.outer(1)):
        function.__module__ = "sent"
    sent = cloudpickle.dumps(
        (made.main.f, made.main.outer(1), made.main.g, made.main.A.m), protocol=4
    )
    (tmp_path / "sent").write_bytes(sent)
    code = (
        "import pickle; f, inner, g, m = pickle.load(open('sent', 'rb'));"
        "print(f(1), inner(1), list(g(2)), m(None, 5))"
    )
    assert ended(tmp_path, "-c", code) == (0, "[1, 1] 2 [0, 1] 5\n", "")


def ended(place: Path, *command: str) -> tuple[int, str, str]:
    """The exit status, and what python says on stdout and stderr."""
    done = subprocess.run(
        [sys.executable, *command], cwd=place, env=environment(), capture_output=True, text=True
    )
    return done.returncode, done.stdout, done.stderr


def test_a_generator_that_is_suspended_when_python_ends_makes_no_noise(tmp_path: Path) -> None:
    script = """
import ast, sys, types
from overseer.probes import Engine
engine = Engine(print)
for selector in ("//g > #exit", "//g(!#loop_i, !!#endloop_i)", "//g > #value"):
    engine.probe(selector).listen(lambda event: None)
main = sys.modules["__main__"]
source = "def g(n):\\n    for i in range(n):\\n        yield i\\n"
exec(compile(engine.instrument(ast.parse(source), "__main__", "x"), "x", "exec"), main.__dict__)
kept = g(3)
next(kept)
"""
    (tmp_path / "main.py").write_text(script)
    assert ended(tmp_path, "main.py") == (0, "", "")
