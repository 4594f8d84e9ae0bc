"""A probe that came to nothing says why, with the nearest names that exist."""

# ruff: noqa: E501

from __future__ import annotations

import sys

import pytest

from .conftest import Make

SOURCE = """
import dataclasses, functools, json, math, os

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
    quick = lambda self: 3

class Wide(Model):
    def backward(self, grad):
        back = grad
        return back

class Deep:
    def forward(self, inp):
        return inp

@dataclasses.dataclass
class Config:
    lr: float

exec("def made(n):\\n    twice = n * 2\\n    return twice")
twofold = functools.partial(train, lr=2)
alias = train
model = Wide()
double = lambda n: n * 2
"""

UNRESOLVED = {
    # Names that do not exist, and those that do.
    "//train > los": "//train has no variable los; it has loss, loader, lr, batch, report",
    "//trian > loss": "there is no //trian; the script has train, train/report, Model, Model/forward, Wide",
    "//Model/forwrad > out": "there is no //Model/forwrad; //Model has forward",
    "//train/inner > x": "there is no //train/inner; //train has report",
    "//train > #loop_loss": "no loop of //train binds loss; its loops bind batch",
    "//train > #yield": "//train has no yield",
    "//Model > #enter": "#enter means nothing in //Model: only functions have it",
    "// > modle": "the top level of the script has no variable modle; "
                 "it has model, Model, dataclasses, functools, json",
    "/jsn/dumps > obj": "jsn was never imported; json was",
    "/json/dmps > obj": "there is no /json/dmps; json has dumps, dump, detect_encoding, load, loads",
    "/json > dmps": "the top level of json has no variable dmps; "
                    "it has dumps, dump, __version__, __all__, __author__",
    # Names that mean several things, or are those of something else.
    "//forward > out": "there is no //forward; write //Model/forward or //Deep/forward",
    "//Wide/forward > out": "//Wide/forward is defined as //Model/forward; write that",
    "//twofold > loss": "//twofold is defined as //train; write that",
    "//alias > loss": "//alias is defined as //train; write that",
    "//json/dumps > obj": "//json/dumps is defined as /json/dumps; write that",
    "/json/JSONDecoder/decode > obj":
        "/json/JSONDecoder/decode is defined as /json.decoder/JSONDecoder/decode; write that",
    "//json > obj": "//json is a module; its top level is /json",
    "//model > out": "//model is an object, not code: its methods are in //Wide",
    # Code that cannot be probed.
    "//double > n": "//double is a lambda: probes go into functions that def makes",
    "//Model/quick > self": "//Model/quick is a lambda: probes go into functions that def makes",
    "//made > twice":
        "//made was made at run time, by <string>, and has no source; probe what calls it",
    "//Config/__init__ > lr":
        "//Config/__init__ was made at run time, by <string>, and has no source; probe what calls it",
    "//print > end": "//print has no Python code: it is built in; probe what calls it",
    "//math/floor > x": "//math/floor has no Python code: it is built in; probe what calls it",
    "/sys/exit > x": "sys has no source file: it is built into the interpreter; probe what calls it",
    "/zipimport/zipimporter/load_module > x":
        "zipimport has no source file: it is frozen into the interpreter; probe what calls it",
}  # fmt: skip


def hint(script: Make, selector: str, **options: bool) -> str:
    made = script(SOURCE)
    made.probe(selector, **options)
    made.load().run()
    verdict = made.verdict()
    assert (verdict["state"], verdict["fired"]) == ("unresolved", 0)
    assert made.problems == []
    return str(verdict["hint"])


@pytest.mark.parametrize(("selector", "expected"), UNRESOLVED.items(), ids=UNRESOLVED)
def test_an_unresolved_probe_says_what_there_is(script: Make, selector: str, expected: str) -> None:
    import zipimport

    assert zipimport  # Not every Python has imported it by itself.
    assert hint(script, selector) == expected


@pytest.mark.skipif(sys.version_info < (3, 11), reason="not frozen before")
def test_a_frozen_module_of_the_library_can_be_had_as_a_file(script: Make) -> None:
    if __import__("posixpath").__spec__.origin != "frozen":
        pytest.skip("this Python freezes nothing")
    assert hint(script, "/posixpath/join > path") == (
        "posixpath has no source file: it is frozen into the interpreter; "
        "python -X frozen_modules=off -m voir runs it from its file"
    )


def test_an_extension_module_says_where_it_comes_from(script: Make) -> None:
    import _ctypes

    if not getattr(_ctypes, "__file__", None):
        pytest.skip("built in here")
    said = hint(script, "/_ctypes/sizeof > x")
    assert said == (
        f"_ctypes comes from {_ctypes.__file__}, not from Python source; probe what calls it"
    )


def test_what_is_only_read_cannot_be_overridden(script: Make) -> None:
    said = hint(script, "//train > print", overridable=True)
    assert said == "//train only reads print, so it cannot be overridden there"


def test_variables_of_two_definitions_do_not_make_one(script: Make) -> None:
    made = script("def f():\n    a = 1\ndef f():\n    b = 1\nf()\n")
    made.probe("//f(a) > b")
    made.load().run()
    assert made.verdict()["hint"] == "//f is defined 2 times, never with all of a and b"


def test_a_probe_that_never_fired_says_which_lines_were_never_reached(script: Make) -> None:
    made = script("def f(n):\n    if n:\n        x = 1\n        return x\n    x = 2\nf\n")
    made.probe("//f > x")
    made.load().run()
    assert made.verdict()["state"] == "never fired"
    assert made.verdict()["hint"] == "its place in //f, main.py:3, 5, was never reached"


def test_a_probe_set_behind_the_code_says_so(script: Make) -> None:
    made = script("import os\nx = 1\n").load().run()
    made.probe("// > x")
    assert (
        made.verdict()["hint"] == "that code had run already when the probe was set: set it earlier"
    )


def test_a_probe_set_when_the_script_has_ended_says_so(script: Make) -> None:
    made = script("def f():\n    x = 1\nf()\n").load().run()
    made.probe("//f > x", late=True)
    assert made.verdict()["hint"] == (
        "it was set when the script had ended: set it before run_script has"
    )


def test_a_probe_nobody_listens_to_says_so(script: Make) -> None:
    made = script("def f():\n    x = 1\nf()\n")
    made.placed("//f > x")
    made.load().run()
    assert made.verdict()["hint"] == (
        "nobody listened to it: add .give(), .display() or another subscriber"
    )


def test_one_that_fired_needs_no_words(script: Make) -> None:
    made = script("def f():\n    x = 1\nf()\n")
    made.probe("//f > x", where="voirfile.py:3")
    made.load().run()
    assert made.verdict() == {
        "selector": "//f > x", "state": "fired", "fired": 1, "where": "voirfile.py:3",
    }  # fmt: skip
