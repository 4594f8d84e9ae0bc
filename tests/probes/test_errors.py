"""What is said of a selector that cannot be read, and of a probe that came to nothing."""

# ruff: noqa: E501, RET504

from __future__ import annotations

import functools
import sys
from typing import Any

import pytest

from overseer.errors import VoirError
from overseer.probes.selector import read

from .conftest import Make

#: The selector, what is wrong, and the character where reading ends.
UNREADABLE = [
    ("//f >", "something is missing or misplaced", 4),
    ("//f(a,, b) > c", "something is missing or misplaced", 6),
    ("//f > x ? y", "this character is not valid in a selector", 8),
    ("//größe > x", "only ASCII characters are allowed in a selector: probe another name", 4),
    ("//f > x, y", "a comma belongs inside parentheses", 7),
    ("//f > #lop_x", "unknown marker #lop_x; the markers are #enter, #exit, #value", 6),
    ("//f > #loop_", "unknown marker #loop_", 6),
    ("//f > 1", "1 is not the name of a variable", 6),
    ("//f > self.x", "attributes cannot be probed, only the variable they belong to", 6),
    ("//f.g > x", "only the module's part of a reference can have dots", 3),
    ("//f(!x, !y)", "only one variable can have the focus", 8),
    ("//f(!!x)", "an end !! needs a beginning !", 4),
    ("x", "a variable needs a function before it", 0),
    ("", "something is missing here", 0),
]  # fmt: skip


@pytest.mark.parametrize(("selector", "why", "column"), UNREADABLE)
def test_an_unreadable_selector_points_at_the_character(
    script: Make, selector: str, why: str, column: int
) -> None:
    with pytest.raises(VoirError) as raised:
        script("").placed(selector)
    said, shown, mark = raised.value.what.split("\n")
    assert raised.value.slug == "selector"
    assert why in said
    assert (shown, mark) == (f"    {selector}", f"    {' ' * column}^")


class Owner:
    def method(self, n: int) -> int:
        x = n
        return x

    @functools.lru_cache  # noqa: B019
    def cached(self) -> int:
        x = 2
        return x

    @classmethod
    def of_class(cls) -> int:
        x = 3
        return x


def known(n: int) -> int:
    x = n + 1
    return x


decorated = functools.wraps(known)(lambda n: known(n))


def factory() -> Any:
    def made() -> int:
        x = 1
        return x

    return made


#: What a voirfile that sets the probe knows by name.
ENV = {"known": known, "Owner": Owner, "decorated": decorated, "owner": Owner(), "made": factory()}


def test_a_name_is_what_the_voirfile_knows_by_it(script: Make) -> None:
    made = script("").load()
    names = ("known", "Owner.method", "Owner.cached", "Owner.of_class", "decorated")
    found = [made.probe(f"{name} > x", env=ENV) for name in names]
    known(1), Owner().method(2), Owner().cached(), Owner.of_class(), decorated(3)
    values = [[event["x"] for event in events] for events in found]
    assert values == [[2, 4], [2], [2], [3], [2, 4]]


@pytest.mark.parametrize(
    ("selector", "slug", "said"),
    [
        (
            "nothing > x",
            "unresolved-symbol",
            "nothing is not defined where the probe nothing > x is",
        ),
        ("nothing.f > x", "unresolved-symbol", "For a function of the script, write //nothing/f"),
        ("known.f > x", "unresolved-symbol", "has no attribute 'f'"),
        ("Owner > x", "not-probeable", "Name a method: Owner.__init__"),
        ("len > x", "not-probeable", "has no Python code to put a probe in"),
        ("owner > x", "not-probeable", "has no Python code to put a probe in"),
        ("owner.method > x", "not-probeable", f"Write /{__name__}/Owner/method(self) > ..., and"),
        ("made > x", "not-probeable", f"Write /{__name__}/factory/made > ..., which watches all"),
    ],
)
def test_a_name_that_is_no_function_is_refused(
    script: Make, selector: str, slug: str, said: str
) -> None:
    with pytest.raises(VoirError) as raised:
        script("").placed(selector, env=ENV)
    assert raised.value.slug == slug
    assert said in str(raised.value)


SLOW = {
    "//f > //g > x": "it spans several functions",
    "//f > $x": "it is generic",
    "//f(x, y)": "it is a total probe: it has no focus",
    "//f > x: @loss": "it selects by tag",
    "//f(x=1) > y": "it compares values",
    "//f(#value) > x": "it captures #value without focus on it",
    **dict.fromkeys(("//f(x) > y", "//f(!#loop_x, !!#endloop_x)", "//f() as result", "// > x")),
}


def test_selectors_of_the_slow_path_are_known_by_what_they_ask() -> None:
    assert {selector: read(selector).slow for selector in SLOW} == SLOW


SOURCE = """
import functools, json, math, os

def train(loader, lr=0.1):
    for batch in loader:
        loss = batch * lr
        print(loss)
    def report(loss):
        return loss
    return loss

class Model:
    def forward(self, inp):
        out = inp + 1
        return out

class Wide(Model):
    def backward(self, grad):
        back = grad
        return back

class Deep:
    def forward(self, inp):
        return inp

exec("def made(n):\\n    twice = n * 2\\n    return twice")
twofold = functools.partial(train, lr=2)
model = Wide()
double = lambda n: n * 2
"""

UNRESOLVED = {
    # Names that do not exist, and those that do.
    "//train > los": "//train has no variable los; it has loss, loader, lr, batch, report",
    "//trian > loss": "//trian does not exist; the script has train, train/report, Model, Model/forward, Wide",
    "//Model/forwrad > out": "//Model/forwrad does not exist; //Model has forward",
    "//train/inner > x": "//train/inner does not exist; //train has report",
    "//train > #loop_loss": "no loop of //train binds loss; its loops bind batch",
    "//train > #yield": "//train has no yield",
    "//Model > #enter": "#enter is not valid in //Model: only functions have it",
    "// > modle": "the top level of the script has no variable modle; "
                 "it has model, Model, functools, json, math",
    "/jsn/dumps > obj": "jsn was never imported; json was",
    "/json/dmps > obj": "/json/dmps does not exist; json has dumps, dump, detect_encoding, load, loads",
    "/json > dmps": "the top level of json has no variable dmps; "
                    "it has dumps, dump, __version__, __all__, __author__",
    # Names that mean several things, or are those of something else.
    "//forward > out": "//forward does not exist; write //Model/forward or //Deep/forward",
    "//Wide/forward > out": "//Wide/forward is defined as //Model/forward; write that",
    "//twofold > loss": "//twofold is defined as //train; write that",
    "//json/dumps > obj": "//json/dumps is defined as /json/dumps; write that",
    "/json/JSONDecoder/decode > obj":
        "/json/JSONDecoder/decode is defined as /json.decoder/JSONDecoder/decode; write that",
    "//json > obj": "//json is a module; its top level is /json",
    "//model > out": "//model is an object, not code: its methods are in //Wide",
    # Code that cannot be probed.
    "//double > n": "//double is a lambda: only functions defined with def can be probed",
    "//made > twice":
        "//made was made at run time, by <string>, and has no source; probe what calls it",
    "//print > end": "//print has no Python code: it is built in; probe what calls it",
    "//math/floor > x": "//math/floor has no Python code: it is built in; probe what calls it",
    "/sys/exit > x": "sys has no source file: it is built into the interpreter; probe what calls it",
    "/zipimport/zipimporter/load_module > x":
        "zipimport has no source file: it is frozen into the interpreter; probe what calls it",
    "/posixpath/join > path":
        "posixpath has no source file: it is frozen into the interpreter; "
        "python -X frozen_modules=off -m voir runs it from its file",
}  # fmt: skip


@pytest.mark.parametrize(("selector", "expected"), UNRESOLVED.items(), ids=UNRESOLVED)
def test_an_unresolved_probe_says_what_there_is(script: Make, selector: str, expected: str) -> None:
    import zipimport

    assert zipimport  # Not every Python has imported it by itself.
    if "posixpath" in selector and sys.modules["posixpath"].__spec__.origin != "frozen":  # type: ignore[union-attr]
        pytest.skip("this Python freezes nothing")
    made = script(SOURCE)
    made.probe(selector)
    made.load().run()
    verdict = made.verdict()
    assert (verdict["state"], verdict["fired"]) == ("unresolved", 0)
    assert verdict["hint"] == expected
    assert made.problems == []


TWICE = "def f():\n    a = 1\ndef f():\n    b = 1\n    return f\nf()\n"
BRANCH = "def f(n):\n    if n:\n        x = 1\n        return x\n    x = 2\nf\n"
#: A program, a selector, options, when it is set, its state, and what is said.
VERDICTS = [
    (TWICE, "//f(a) > b", {}, "early", "unresolved",
     "//f is defined 2 times, never with all of a and b"),
    (TWICE, "//f > f", {"overridable": True}, "early", "unresolved",
     "//f only reads f, so it cannot be overridden there"),
    (BRANCH, "//f > x", {}, "early", "never fired",
     "its place in //f, main.py:3, 5, was never reached"),
    ("import os\nx = 1\n", "// > x", {}, "late", "never fired",
     "its code had already run when the probe was set: set it earlier"),
    (TWICE, "//f > b", {"late": True}, "late", "never fired",
     "it was set after the script had ended: set it before run_script ends"),
    (TWICE, "//f > b", {"where": "voirfile.py:3"}, "early", "fired", None),
]  # fmt: skip


@pytest.mark.parametrize(("source", "selector", "options", "when", "state", "hint"), VERDICTS)
def test_the_verdict_says_what_became_of_a_probe(
    script: Make, source: str, selector: str, options: Any, when: str, state: str, hint: str | None
) -> None:
    made = script(source)
    made.watch(selector, when == "early", **options)
    expected = {"selector": selector, "state": state, "fired": int(state == "fired")}
    where = {"where": options["where"]} if "where" in options else {}
    assert made.verdict() == {**expected, **where, **({"hint": hint} if hint else {})}


def test_one_bad_selector_does_not_stop_the_next_nor_one_that_nobody_listens_to(
    script: Make,
) -> None:
    made = script("def f():\n    x = 1\n")
    with pytest.raises(VoirError):
        made.placed("//f >")
    events, unheard = made.probe("//f > x"), made.placed("//f > x")
    made.load()
    hint = "it has no subscriber: add .give(), .display() or another one"
    assert made.verdict()["hint"] == hint
    unheard.listen(print).dispose()  # As at the end of a run.
    assert "was never reached" in made.verdict()["hint"]
    made.call("f()")
    assert events == [{"x": 1}]
    assert list(made.engine.fired.values()) == [1, 0]


def test_a_script_that_cannot_be_compiled_with_probes_runs_without(script: Make) -> None:
    deep = "".join(f"{' ' * n}for i{n} in (1,):\n" for n in range(19))
    made = script(f"import os\nprint\n{deep}{' ' * 19}x = 1\n")  # 20 blocks are the limit.
    events = [made.probe(f"// > #endloop_i{n}") for n in range(4)]
    made.load().run()
    assert made.call("x") == 1
    assert events == [[]] * 4
    assert "with probes in it: too many statically nested blocks" in made.verdict()["hint"]
