"""Nothing shows: whatever a script asks about itself, it is answered as without voir."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.running import PYTHON, Place

#: It looks at itself in every way there is, and prints what it finds; it ends by an error, with a
#: generator and a coroutine that have not ended.
SCRIPT = '''
"""Doc of the script."""
import builtins, inspect, os, pickle, sys, traceback
class Base:
    def m(self, a, *, b=2):
        "m doc"
        x = a + b
        if "__class__" in dir(): x += 1
        return super().__hash__() and x
def f(n, lim=3, *, key: "str" = None) -> int:
    """f doc"""
    at_first, total = sorted(locals()), 0
    for i in range(n):
        total += i
    return at_first, total, dir(), sorted(locals())
def binds(a, *c, **e):
    y = x = a
    x, (g, *h) = x + 4, (2, 3)
    with open(os.devnull) as null: import math as m
    match {"a": a}:
        case {"a": k, **rest}: return [w := one for one in range(2)]
class C(Base):
    __slots__ = ("a",)
    names, z = sorted(locals()), 5
    def gen(self):
        try:
            for i in range(2):
                got = yield i
        finally:
            last = print("closed")
    class In: q: int = 1
def outer(k):
    def inner(v):
        w = v + k
        return w
    return inner
def boom(n):
    x = 1
    y = (n
        / 0)
async def co(): v = await Never()
class Never:
    def __await__(self): yield
def depth(n):
    a = n
    return depth(n + 1)
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
    function(*args)
    sys.settrace(None)
    return seen
print(__doc__, __file__, sorted(globals()), dir(), sorted(vars()), dir(builtins))
for fn in (f, Base.m, C.gen, binds, outer, outer(1), boom, co, frame):
    code = fn.__code__
    print(fn.__qualname__, inspect.signature(fn), fn.__defaults__, fn.__kwdefaults__, fn.__doc__)
    print(code.co_varnames, code.co_freevars, code.co_cellvars, code.co_nlocals, code.co_flags)
    print(code.co_firstlineno, code.co_name, sorted(fn.__dict__), fn.__annotations__, fn.__module__)
    print(sorted({line for _, _, line in code.co_lines() if line}), inspect.getsource(fn))
print(C.names, sorted(vars(C)), C.In.__annotations__, C.In.__qualname__, inspect.getsource(C))
print(pickle.dumps(f), pickle.dumps(Base()), pickle.dumps(Base.m))
print(f(4), binds(1, 2, d=3), Base().m(1), frame())
print(traced(f, 2), traced(Base().m, 2), traced(outer(1), 2))
exec("value = 1; print(sorted(locals())[:3])", {})
try:
    boom(3)
except ZeroDivisionError as error:
    traceback.print_exc()
    print([(e.name, e.lineno, e.line, e.colno) for e in traceback.extract_tb(error.__traceback__)])
try: depth(0)
except RecursionError as error: print(error)
running, waits = C().gen(), co()
print(next(running), waits.send(None))
assert f is None, "gone under -O"
boom(4)
'''
#: How often each fires: "early", in the script's definitions, if it was set before they ran.
FIRED = """
//f > total 8; //f > n 2; //f > i 6; //f > #enter 2; //f > #value 2; //f > #exit 2
//f > #endloop_i 6; //f(!#loop_i, !!#endloop_i) 12; //f(total) > i 6; //Base/m > x 4
//C/gen > got 0; //C/gen > #yield 1; //C/gen > last 0; //C/gen > #exit 0; //outer/inner > w 1
//outer > inner 2; //boom > y 0; //boom > x 2; //boom > #error 2; //boom(!x, !!y) 2; //co > v 0
//co > #exit 0; //frame > found 1; //frame > here 1; //C > z early; //C/In > q early; // > fn 9
// > C early; //binds > y 1; //binds > x 2; //binds > h 1; //binds > c 1; //binds > e 1
//binds > null 1; //binds > m 1; //binds > rest 1; //binds > w 2; //depth > a deep
"""
VOIRFILE = """
def instrument_probes(ov):
    yield ov.phases.{phase}
    for number, selector in enumerate({selectors!r}):
        if number % 5 == 2 and "#" not in selector:
            probe = ov.probe(selector, overridable=True)
            probe.koverride(lambda **values: list(values.values())[-1])
        else:
            ov.probe(selector).subscribe(lambda event: None)
    yield ov.phases.finalize
    with open("fired", "w") as file:
        print(*(probe["fired"] for probe in ov.probe_verdicts()), file=file)
"""


@pytest.mark.parametrize("flags", [(), ("-O",), ("-OO",)], ids=["plain", "O", "OO"])
@pytest.mark.parametrize("phase", ["parse_args", "load_script"])
def test_a_script_that_looks_at_itself_sees_no_probe(
    tmp_path: Path, phase: str, flags: tuple[str, ...]
) -> None:
    place, rows = Place(tmp_path), FIRED.strip().replace("\n", "; ").split("; ")
    place.write("main.py", SCRIPT if flags else SCRIPT.replace("f is None", "f"))
    expected = dict(row.rsplit(" ", 1) for row in rows)
    place.write("vf.py", VOIRFILE.format(phase=phase, selectors=[*expected]))
    plain = place.python(*flags, "main.py")
    under = place.run(*PYTHON, *flags, "-m", "voir", "--quiet", "--no-record",
                      "--voirfile", "vf.py", "main.py")  # fmt: skip
    assert plain.stderr.count("Traceback") == 2 and "closed" in plain.stdout
    assert under.seen == plain.seen
    ours = ("voir: ", "  at ", "  its place", "  its code", "  there is")
    said = [line for line in under.stderr.splitlines() if not line.startswith(ours)]
    assert said == plain.stderr.splitlines()
    fired = dict(zip(expected, (tmp_path / "fired").read_text().split(), strict=True))
    assert int(fired.pop("//depth > a")) > 100 and expected.pop("//depth > a") == "deep"
    early = {"early": str(int(phase == "parse_args"))}
    assert fired == {selector: early.get(n, n) for selector, n in expected.items()}
