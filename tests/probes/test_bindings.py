"""Every way to bind a name is one event, right after; the statement and its errors stay."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from textwrap import dedent, indent

import pytest

from .conftest import Make
from .scripts import Script, seen


@dataclass(frozen=True)
class Form:
    """A body of ``f(a, *, k=2)`` that is called with 1, and the values that ``x`` takes in it."""

    name: str
    body: str
    expected: list[object]
    since: tuple[int, int] = (3, 10)

    @property
    def source(self) -> str:
        body = indent(dedent(self.body).strip(), "    ")
        return f"import contextlib\nGLOBAL = 5\ndef f(a, *, k=2):\n{body}\n"


UNPACKING_FAILS = """
x = 1
x, y = a, 2, 3
"""

FORMS = [
    Form("assign", "x = a", [1]),
    Form("assign twice", "x = a\nx = x + 1", [1, 2]),
    Form("chain", "x = y = a", [1]),
    Form("chain, last", "y = x = a", [1]),
    Form("chain of targets", "(x, y) = z = (a, 2)", [1]),
    Form("annotated", "x: int = a", [1]),
    Form("annotation only", "x: int\nx = 3", [3]),
    Form("augmented", "x = 1\nx += a", [1, 2]),
    Form("augmented in place", "x = []\ny = x\nx += [a]\nreturn y is x", [[1], [1]]),
    Form("tuple", "x, y = a, 2", [1]),
    Form("list", "[y, x] = a, 2", [2]),
    Form("star", "y, *x = 1, 2, 3", [[2, 3]]),
    Form("nested", "y, (z, [x, *_]) = 1, (2, [3, 4])", [3]),
    Form("from an iterator", "x, y = iter([a, 2])", [1]),
    Form("swap", "x, y = 1, 2\nx, y = y, x", [1, 2]),
    Form("unpacking fails", UNPACKING_FAILS, [1]),
    Form("value fails", "x = a\nx = 1 / 0", [1]),
    Form("attribute and item bind nothing", "class C: pass\nC.x = [0]\nC.x[0] = a", []),
    Form("for", "for x in (1, 2):\n    pass", [1, 2]),
    Form("for with targets", "for i, (y, *x) in enumerate([(1, 2), (3, 4)]):\n    i", [[2], [4]]),
    Form("for, nothing", "for x in ():\n    pass\nelse:\n    x = 0", [0]),
    Form("for with continue and break",
         "for x in range(9):\n    if x == 1: continue\n    if x == 3: break", [0, 1, 2, 3]),
    Form("for over what fails", "for x in map((1).__truediv__, (1, 0)):\n    pass", [1.0]),
    Form("with", "with contextlib.nullcontext(a) as x:\n    pass", [1]),
    Form("with, several",
         "n = contextlib.nullcontext\nwith n(1) as x, n(x) as y, n(y + 1) as x:\n    pass", [1, 2]),
    Form("with, the second fails",
         "n = contextlib.nullcontext\nwith n(1) as x, n(1 / 0) as y:\n    pass", [1]),
    Form("with targets", "with contextlib.nullcontext((1, 2)) as (y, x):\n    pass", [2]),
    Form("with that swallows",
         "with contextlib.suppress(ZeroDivisionError) as y:\n    x = 1\n    1 / 0\nreturn x", [1]),
    Form("except as", "try:\n    1 / 0\nexcept ZeroDivisionError as x:\n    x = str(x)",
         ["ZeroDivisionError", "division by zero"]),
    Form("except as, unbound after",
         "try:\n    1 / 0\nexcept ZeroDivisionError as x:\n    pass\nreturn x",
         ["ZeroDivisionError"]),
    Form("import", "import json.decoder as x, json", ["module json.decoder"]),
    Form("import of a package", "import os.path\nx = os.path.sep", ["/"]),
    Form("from import", "from math import pi, tau as x", [6.283185307179586]),
    Form("walrus", "if (x := a + 1) > 1:\n    return x", [2]),
    Form("walrus in a call", "print((x := a), (x := x + 1))", [1, 2]),
    Form("walrus in a comprehension", "return [x := i for i in range(2)]", [0, 1]),
    Form("walrus in a generator", "return list((x := i) for i in range(2))", [0, 1]),
    Form("walrus in a condition of a comprehension",
         "return [x for i in range(3) if (x := i) != 1]", [0, 1, 2]),
    Form("walrus in a while", "n = 0\nwhile (x := n) < 2:\n    n += 1", [0, 1, 2]),
    Form("walrus in a default", "def g(p=(x := a)): return p\nreturn g()", [1]),
    Form("walrus in a decorator",
         "@(x := (lambda g: g))\ndef g(): return 4\nreturn g()", ["function"]),
    Form("walrus in a lambda is the lambda's", "return (lambda: (x := 1))()", []),
    Form("comprehension's own variable", "return [x for x in (1, 2)]", []),
    Form("match", "match [a, 2]:\n    case [x, y]:\n        return y", [1]),
    Form("match, guard says no",
         "match a:\n    case x if x > 5:\n        return 0\n    case x:\n        return x", [1, 1]),
    Form("match, no case", "x = 0\nmatch a:\n    case 7 as x:\n        return 0", [0]),
    Form("match star", "match [1, 2, 3]:\n    case [y, *x]:\n        pass", [[2, 3]]),
    Form("match mapping", "match {'p': 1, 'q': 2}:\n    case {'p': y, **x}:\n        pass",
         [{"q": 2}]),
    Form("match class and or",
         "match 1.5:\n    case int(x) | float(x):\n        return x", [1.5]),
    Form("def", "def x(): return 1\nreturn x()", ["function"]),
    Form("class", "class x: pass\nreturn x.__name__", ["type"]),
    Form("del is no event", "x = 1\ndel x\nx = 2", [1, 2]),
    Form("global", "global x\nx = a\nx += 1", [1, 2]),
    Form("nonlocal is the inner function's",
         "x = 1\ndef g():\n    nonlocal x\n    x = 2\ng()\nreturn x", [1]),
    Form("in if and try",
         "if a:\n    x = 1\ntry:\n    x = 2\nfinally:\n    x = 3", [1, 2, 3]),
    Form("after return", "x = 1\nreturn x\nx = 2", [1]),
    Form("lambda bodies and strings untouched", "x = 'x = 1'\nreturn (lambda: x)()", ["x = 1"]),
    Form("one line", "x = 1; x = 2", [1, 2]),
    Form("except group", "try:\n    raise ExceptionGroup('', [ValueError(1)])\n"
         "except* ValueError as x:\n    pass", ["ExceptionGroup"], since=(3, 11)),
    Form("type statement", "type x = int\nreturn x.__value__", ["TypeAliasType"], since=(3, 12)),
]  # fmt: skip

KNOWN = {"function", "type", "ZeroDivisionError", "ExceptionGroup", "TypeAliasType"}


def plain(value: object) -> object:
    """What stands for a value that has no literal."""
    if type(value).__name__ == "module":
        return f"module {value.__name__}"
    return type(value).__name__ if type(value).__name__ in KNOWN else value


def supported(forms: list[Form]) -> list[object]:
    return [
        pytest.param(
            form,
            id=form.name,
            marks=pytest.mark.skipif(sys.version_info < form.since, reason="newer syntax"),
        )
        for form in forms
    ]


def check(made: Script, form: Form, events: list[dict[str, object]], call: str) -> None:
    """The call prints and ends as in plain python, and the events are those expected."""
    namespace: dict[str, object] = {}
    exec(compile(made.source, str(made.path), "exec", dont_inherit=True), namespace)
    without = seen(lambda: eval(call, namespace), made.path)
    assert seen(lambda: made.call(call), made.path) == without
    values = [plain(event["x"]) for event in events]
    assert values == form.expected
    assert made.problems == []


@pytest.mark.parametrize("form", supported(FORMS))
def test_a_name_bound_this_way_is_seen_when_the_probe_was_there_first(
    script: Make, form: Form
) -> None:
    made = script(form.source)
    events = made.probe("//f > x")
    made.load().run()
    check(made, form, events, "f(1)")


@pytest.mark.parametrize("form", supported(FORMS))
def test_a_name_bound_this_way_is_seen_when_the_function_was_there_first(
    script: Make, form: Form
) -> None:
    made = script(form.source).load().run()
    events = made.probe("//f > x")
    check(made, form, events, "f(1)")


PARAMETERS = [
    ("f(p, /, q, *r, s=4, **t)", "f(1, 2, 3, u=5)",
     {"p": 1, "q": 2, "r": (3,), "s": 4, "t": {"u": 5}}),
    ("f(p=1, q=2)", "f()", {"p": 1, "q": 2}),
]  # fmt: skip


@pytest.mark.parametrize(("signature", "call", "expected"), PARAMETERS)
def test_parameters_of_every_kind_are_seen_when_the_call_begins(
    script: Make, signature: str, call: str, expected: dict[str, object]
) -> None:
    made = script(f"def {signature}:\n    'doc'\n    return 0\n").load()
    events = {name: made.probe(f"//f > {name}") for name in expected}
    made.call(call)
    assert {name: [event[name] for event in found] for name, found in events.items()} == {
        name: [value] for name, value in expected.items()
    }
    assert made.call("f.__doc__") == "doc"


def test_a_parameter_is_seen_again_when_it_is_bound_again(script: Make) -> None:
    made = script("def f(p):\n    p += 1\n    return p\n").load()
    events = made.probe("//f > p")
    made.call("f(1)")
    assert events == [{"p": 1}, {"p": 2}]


def test_a_default_is_evaluated_once(script: Make) -> None:
    made = script("count = []\ndef f(x=count.append(1)):\n    return x\n")
    events = made.probe("//f > x")
    made.load().run()
    assert made.call("f(), f(), count") == (None, None, [1])
    assert events == [{"x": None}, {"x": None}]


def test_a_name_that_is_only_read_is_seen_when_the_call_begins(script: Make) -> None:
    made = script("def f():\n    return rate\nrate = 0.1\n").load().run()
    events = made.probe("//f > rate")
    made.call("f()")
    assert events == [{"rate": 0.1}]


def test_names_that_several_statements_bind_are_told_apart(script: Make) -> None:
    made = script("def f():\n    x, y = 1, 2\n    y = x\n").load()
    xs, ys = made.probe("//f > x"), made.probe("//f > y")
    made.call("f()")
    assert (xs, ys) == ([{"x": 1}], [{"y": 2}, {"y": 1}])
