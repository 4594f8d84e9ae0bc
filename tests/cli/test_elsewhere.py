"""Probed code in other processes: it runs there as if never probed, and writes into no run."""

from __future__ import annotations

import json
import multiprocessing
import os
from pathlib import Path

import pytest

from tests.running import Place

VOIRFILE = """
import json

def instrument_probes(ov):
    yield ov.phases.parse_args
    seen = []
    for selector in {selectors!r}:
        ov.probe(selector).subscribe(lambda event: seen.append(list(event.values())[-1]))
        ov.probe(selector).give()
    yield ov.phases.finalize
    with open("events.json", "a") as file:
        file.write(json.dumps(seen, default=repr) + "\\n")
"""


def same_under_voir(place: Place, script: str, *selectors: str) -> list[object]:
    """Run ``script`` plainly and under voir, which must be the same; the events there were."""
    place.write("main.py", script)
    place.write("vf.py", VOIRFILE.format(selectors=selectors))
    plain = place.python("main.py")
    under = place.voir("--quiet", "--voirfile", "vf.py", "main.py")
    assert plain.status == 0, plain.stderr
    assert (under.seen, under.stderr) == (plain.seen, plain.stderr)
    (line,) = (place.path / "events.json").read_text().splitlines()
    events: list[object] = json.loads(line)
    assert len(place.runs) == 1
    return events


forks = pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")


@forks
def test_the_child_of_a_fork_writes_nothing_into_the_run(tmp_path: Path) -> None:
    place = Place(tmp_path)
    events = same_under_voir(
        place,
        """
        import os, sys, warnings
        # Since 3.13 python counts threads when voir's are back already.
        warnings.simplefilter("ignore")
        def f(n):
            x = n * 2
            return x
        f(1)
        for leave in (os._exit, sys.exit):
            pid = os.fork()
            if pid == 0:
                print("child", f(2), f(3), flush=True)
                leave(3)
            print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)
        pid = os.fork()
        if pid:
            os.waitpid(pid, 0)
            f(4)
        else:
            f(5)
        """,
        "//f > x",
    )
    assert events == [2, 8]
    assert [event["x"] for event in place.metrics() if "x" in event] == [2, 8]
    (verdict, _) = place.record()["probes"]
    assert verdict["fired"] == 2


WORKERS = """
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
    context = multiprocessing.get_context("{method}")
    with context.Pool(2) as pool:
        print(pool.map(work, range(3)))
    process = context.Process(target=work, args=(1,))
    process.start()
    process.join()
    print(process.exitcode)
"""


@pytest.mark.parametrize("method", multiprocessing.get_all_start_methods())
def test_workers_run_unprobed(tmp_path: Path, method: str) -> None:
    script = WORKERS.format(method=method)
    events = same_under_voir(
        Place(tmp_path), script, "//f > x", "//f > y", "//f > #value", "//g > #yield"
    )
    assert sorted(str(event) for event in events) == sorted(map(str, [18, 19, 18, *range(9)]))


RECEIVER = """
import pickle, sys
function, arguments = pickle.loads(sys.stdin.buffer.read())
print([str(function(n)) if n < 9 else list(function(2)) for n in arguments])
"""

SENDER = """
import marshal, pickle, subprocess, sys, types
import cloudpickle

def f(n):
    x = n * 2
    y = (z := x + 1)
    try:
        w = 1 / n
    except ZeroDivisionError as e:
        w = 0
    for i in range(2):
        pass
    return x, y, w
def g(n):
    for i in range(n):
        got = yield i
    return 5
class A:
    def m(self, n):
        q = (r := n)
        return q, r

def send(data):
    done = subprocess.run([sys.executable, "receiver.py"], input=data, capture_output=True)
    print(done.stdout.decode(), done.stderr.decode())

print(f(0), list(g(2)), A().m(1))
send(cloudpickle.dumps((f, [0, 2])))
send(cloudpickle.dumps((g, [9])))
send(cloudpickle.dumps((A().m, [0, 1])))
again = types.FunctionType(marshal.loads(marshal.dumps(f.__code__)), {"__builtins__": __builtins__})
print(again(0), pickle.loads(pickle.dumps(f)) is f)
"""


def test_functions_sent_by_value_run_elsewhere_as_if_never_probed(tmp_path: Path) -> None:
    pytest.importorskip("cloudpickle", reason="needs cloudpickle")
    place = Place(tmp_path)
    place.write("receiver.py", RECEIVER)
    events = same_under_voir(
        place, SENDER, "//f > x", "//f > z", "//f > #enter", "//f > #value", "//f > #exit",
        "//f > e", "//f(w) > i", "//f(!#loop_i, !!#endloop_i)", "//f(x) > y", "//g > #yield",
        "//g > got", "//g > #receive", "//A/m > r", "//A/m > q",
    )  # fmt: skip
    assert len(events) > 20


def test_functions_sent_by_name_run_elsewhere_as_if_never_probed(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.write("helper.py", "def f(n):\n    x = n * 2\n    return x\n")
    place.write("receiver.py", RECEIVER)
    events = same_under_voir(
        place,
        """
        import pickle, subprocess, sys
        import helper
        print(helper.f(1))
        data = pickle.dumps((helper.f, [1, 2]))
        done = subprocess.run([sys.executable, "receiver.py"], input=data, capture_output=True)
        print(done.stdout.decode(), done.stderr.decode())
        """,
        "/helper/f > x",
        "/helper/f > #value",
    )
    assert events == [2, 2]
