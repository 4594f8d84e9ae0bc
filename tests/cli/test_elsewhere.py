"""Probed code in other processes: it runs there as if never probed, and writes into no run."""

from __future__ import annotations

import multiprocessing
import re
from pathlib import Path

import pytest

from tests.running import Place

VOIRFILE = """
def instrument_probes(ov):
    yield ov.phases.parse_args
    for selector in {selectors!r}:
        ov.probe(selector).give()
"""


@pytest.fixture
def place(tmp_path: Path) -> Place:
    place = Place(tmp_path)
    place.write("helper.py", "def f(n):\n    x = n * 2\n    return x\n")
    receiver = """
        import pickle, sys
        function, arguments = pickle.loads(sys.stdin.buffer.read())
        print([str(function(n)) if n < 9 else list(function(2)) for n in arguments])
        """
    place.write("receiver.py", receiver)
    return place


def same_under_voir(place: Place, script: str, *selectors: str) -> list[object]:
    """Run ``script`` plainly and under voir, which must be the same; the values that were given."""
    place.write("main.py", script)
    place.write("vf.py", VOIRFILE.format(selectors=selectors))
    plain = place.python("main.py")
    under = place.voir("--quiet", "--voirfile", "vf.py", "main.py")
    assert plain.status == 0, plain.stderr
    assert (under.seen, under.stderr) == (plain.seen, plain.stderr)
    names = {"t", *re.findall(r"#?\w+", " ".join(selectors))}  # Monitors give, too.
    given = [event for event in place.metrics() if event.keys() <= names]
    return [[*event.values()][-1] for event in given]


def test_the_child_of_a_fork_writes_nothing_into_the_run(place: Place) -> None:
    script = """
        import os, sys, voir, warnings
        # Since 3.13 python counts threads when voir's are back already.
        warnings.simplefilter("ignore")
        def f(n):
            x = n * 2
            return x
        f(1)
        for leave in (os._exit, sys.exit):
            pid = os.fork()
            if pid == 0:
                voir.give(x="given")
                voir.log(x="logged")
                print("child", f(2), f(3), flush=True)
                leave(3)
            print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)
        f(4 if os.fork() and os.wait() else 5)
        """
    assert same_under_voir(place, script, "//f > x") == [2, 8]
    assert not [event for event in place.metrics() if event.get("x") in ("given", "logged")]
    (verdict,) = place.record()["probes"]
    assert verdict["fired"] == 2


@pytest.mark.parametrize("method", multiprocessing.get_all_start_methods())
def test_workers_run_unprobed(place: Place, method: str) -> None:
    script = """
        import multiprocessing
        def f(n):
            x = n * 2
            if (y := x + 1):
                return x
        def g(n):
            for i in range(n):
                got = yield i
        def work(n):
            return f(n), list(g(n))
        if __name__ == "__main__":
            work(9)
            context = multiprocessing.get_context("METHOD")
            with context.Pool(2) as pool: print(pool.map(work, range(3)))
            process = context.Process(target=work, args=(1,))
            process.start()
            process.join()
            print(process.exitcode)
        """.replace("METHOD", method)
    events = same_under_voir(place, script, "//f > x", "//f > y", "//f > #value", "//g > #yield")
    assert sorted(map(str, events)) == sorted(map(str, [18, 19, 18, *range(9)]))


def test_functions_that_are_sent_run_elsewhere_as_if_never_probed(place: Place) -> None:
    pytest.importorskip("cloudpickle", reason="needs cloudpickle")
    script = """
        import marshal, pickle, subprocess, sys, types
        import cloudpickle, helper
        def f(n):
            x = n * 2
            y = (z := x + 1)
            try: w = 1 / n
            except ZeroDivisionError as e: w = 0
            for i in range(2): pass
            return x, y, w
        def g(n):
            got = yield n
            return 5
        class A:
            def m(self, n):
                q = (r := n)
                return q, r
        print(f(0), list(g(2)), A().m(1), helper.f(1))
        data = [pickle.dumps((helper.f, [1, 2]))]
        data += map(cloudpickle.dumps, [(f, [0, 2]), (g, [9]), (A().m, [0, 1])])
        for each in data:
            subprocess.run([sys.executable, "receiver.py"], input=each, check=True)
        code = marshal.loads(marshal.dumps(f.__code__))
        again = types.FunctionType(code, {"__builtins__": __builtins__})
        print(again(0), pickle.loads(pickle.dumps(f)) is f)
        """
    events = same_under_voir(
        place, script, "//f > x", "//f > z", "//f > #enter", "//f > #value", "//f > #exit",
        "//f > e", "//f(w) > i", "//f(!#loop_i, !!#endloop_i)", "//f(x) > y", "//g > #yield",
        "//g > got", "//g > #receive", "//A/m > r", "//A/m > q", "/helper/f > x",
        "/helper/f > #value",
    )  # fmt: skip
    assert len(events) > 15
    assert events.count(2) == 3  # Those of helper.f, and what g yields.
