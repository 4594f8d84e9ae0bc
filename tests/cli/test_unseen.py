"""Nothing shows: whatever a script asks about itself, it is answered as without voir."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.running import PYTHON, Place

#: It looks at itself in every way there is, and prints what it finds.
SCRIPT = '''
"""Doc of the script."""
import builtins, dis, inspect, pickle, sys, traceback

class Base:
    "Base doc"
    def m(self, a, *, b=2):
        "m doc"
        x = a + b
        if "__class__" in dir():
            x += 1
        return super().__hash__() and x

def f(n, lim=3, *, key: "str" = None) -> int:
    """f doc"""
    at_first = sorted(locals())
    total = 0
    for i in range(n):
        total += i
    return at_first, total, dir(), sorted(locals())

class C(Base):
    z: int = 5
    names = sorted(locals())
    def gen(self):
        for i in range(2):
            got = yield i
    class In:
        q = 1

def outer(k):
    def inner(v):
        w = v + k
        return w
    return inner

def boom(n):
    x = 1
    y = (
        n
        / 0
    )
    return y

async def co():
    v = 1
    return v

def depth(n):
    a = n
    return depth(n + 1)

class Slots:
    __slots__ = ("a",)
    def __init__(self):
        self.a = 1
        b = 2

def frame():
    here = sys._getframe()
    found = inspect.getframeinfo(here)
    return found.lineno, found.function, found.code_context, sorted(here.f_locals)

def traced(function, *args):
    seen = []
    def tracer(frame, event, arg):
        if frame.f_code.co_filename == __file__:
            seen.append((event, frame.f_code.co_name, frame.f_lineno))
            return tracer
    sys.settrace(tracer)
    try:
        function(*args)
    except ZeroDivisionError:
        pass
    sys.settrace(None)
    return seen

print(__doc__, __file__, sorted(globals()), dir(), sorted(vars()))
print(f(4))
for fn in (f, Base.m, C.gen, outer, outer(1), boom, co, frame):
    code = fn.__code__
    print(fn.__qualname__, inspect.signature(fn), fn.__defaults__, fn.__kwdefaults__, fn.__doc__)
    print(code.co_varnames, code.co_freevars, code.co_cellvars, code.co_nlocals, code.co_flags)
    print(code.co_firstlineno, code.co_name, sorted(fn.__dict__), fn.__annotations__, fn.__module__)
    print(sorted({line for _, _, line in code.co_lines() if line}))
    print(inspect.getsource(fn), inspect.getdoc(fn), inspect.iscoroutinefunction(fn))
print(C.names, sorted(C.__dict__), C.__annotations__, C.In.__qualname__, inspect.getsource(C))
print(len(dir(builtins)), dir(builtins))
print(pickle.dumps(f), pickle.dumps(C()), pickle.dumps(Base.m))
print(Base().m(1), Slots().a, sorted(vars(Slots)), frame())
print(traced(f, 2), traced(Base().m, 2), traced(outer(1), 2), traced(lambda: list(C().gen())))
exec("value = 1; print(sorted(locals())[:3])", {})
assert f is None, "gone under -O"
'''

ENDING = """
try:
    boom(3)
except ZeroDivisionError as error:
    traceback.print_exc()
    print([(e.name, e.lineno, e.line, e.colno if hasattr(e, "colno") else 0)
           for e in traceback.extract_tb(error.__traceback__)])
try:
    depth(0)
except RecursionError as error:
    print(error)
boom(4)
"""

SELECTORS = [
    "//f > total", "//f > n", "//f > i", "//f > #enter", "//f > #value", "//f > #exit",
    "//f > #endloop_i", "//f(!#loop_i, !!#endloop_i)", "//f(total) > i", "//Base/m > x",
    "//C/gen > got", "//C/gen > #yield", "//outer/inner > w", "//outer > inner", "//boom > y",
    "//boom > x", "//boom > #error", "//boom > #exit", "//boom(!x, !!y)", "//co > v", "//depth > a",
    "//Slots/__init__ > b", "//frame > found", "//frame > here", "//C > z", "//C/In > q", "// > fn",
    "// > C",
]  # fmt: skip

VOIRFILE = """
def instrument_probes(ov):
    yield ov.phases.{phase}
    for number, selector in enumerate({selectors!r}):
        if number % 5 == 2 and "#" not in selector:
            probe = ov.probe(selector, overridable=True)
            probe.koverride(lambda **values: list(values.values())[-1])
        else:
            ov.probe(selector).subscribe(lambda event: None)
"""


def unplaced(text: str) -> str:
    """``text`` without what voir says on its own behalf."""
    return "".join(
        line for line in text.splitlines(keepends=True)
        if not line.startswith(("voir: ", "  at ", "  its place", "  that code", "  there is"))
    )  # fmt: skip


@pytest.mark.parametrize("flags", [(), ("-O",), ("-OO",)], ids=["plain", "O", "OO"])
@pytest.mark.parametrize("phase", ["parse_args", "load_script"])
def test_a_script_that_looks_at_itself_sees_no_probe(
    tmp_path: Path, phase: str, flags: tuple[str, ...]
) -> None:
    place = Place(tmp_path)
    body = SCRIPT.replace('assert f is None, "gone under -O"', "") if not flags else SCRIPT
    place.write("main.py", body + ENDING)
    place.write("vf.py", VOIRFILE.format(phase=phase, selectors=SELECTORS))
    plain = place.python(*flags, "main.py")
    under = place.run(*PYTHON, *flags, "-m", "voir", "--quiet", "--no-record",
                      "--voirfile", "vf.py", "main.py")  # fmt: skip
    assert "Traceback" in plain.stderr
    assert under.status == plain.status == 1
    assert under.stdout == plain.stdout
    assert unplaced(under.stderr) == plain.stderr


@pytest.mark.parametrize("phase", ["parse_args", "load_script"])
def test_coverage_counts_the_same_lines_and_branches(tmp_path: Path, phase: str) -> None:
    coverage = pytest.importorskip("coverage", reason="needs coverage")
    found = {"PYTHONPATH": str(Path(coverage.__file__).parents[1])}
    place = Place(tmp_path)
    # One tracer at a time: the script must not set its own.
    place.write("main.py", SCRIPT.replace("sys.settrace(", "str(") + ENDING)
    place.write("vf.py", VOIRFILE.format(phase=phase, selectors=SELECTORS))
    voir = ("-m", "voir", "--quiet", "--no-record", "--voirfile", "vf.py")
    assert counted(place, found) == counted(place, found, *voir)


def counted(place: Place, env: dict[str, str], *under: str) -> dict[str, object]:
    """What coverage has counted in ``main.py``, run under ``under``."""
    coverage = (*PYTHON, "-m", "coverage")
    place.run(*coverage, "run", "--branch", "--include=main.py", *under, "main.py", env=env)
    place.run(*coverage, "json", "-q", "-o", "counted.json", env=env)
    found = json.loads((place.path / "counted.json").read_text())["files"]["main.py"]
    kinds = ("executed_lines", "missing_lines", "executed_branches", "missing_branches")
    return {kind: sorted(found[kind]) for kind in kinds}


@pytest.mark.parametrize("ending", ["", "1 / 0"])
def test_what_is_suspended_when_python_ends_is_closed_as_ever(tmp_path: Path, ending: str) -> None:
    place = Place(tmp_path)
    place.write(
        "main.py",
        f"""
        def counting(n):
            try:
                for i in range(n):
                    got = yield i
            finally:
                last = n
                print("closed")
        async def waiting():
            try:
                await Never()
            finally:
                print("left")
        class Never:
            def __await__(self):
                yield
        numbers = counting(3)
        print(next(numbers))
        waits = waiting()
        print(waits.send(None))
        {ending}
        """,
    )
    selectors = [
        "//counting > #exit", "//counting > #yield", "//counting > last", "//counting > #receive",
        "//counting(!#loop_i, !!#endloop_i)", "//waiting > #exit", "//waiting > #error",
    ]  # fmt: skip
    place.write("vf.py", VOIRFILE.format(phase="parse_args", selectors=selectors))
    plain = place.python("main.py")
    under = place.voir("--quiet", "--no-record", "--voirfile", "vf.py", "main.py")
    assert "closed" in plain.stdout
    assert under.seen == plain.seen
    assert unplaced(under.stderr) == plain.stderr
