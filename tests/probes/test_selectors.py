"""Selectors: what they mean, and where the ones that cannot be read go wrong."""
# ruff: noqa: RET504 - the variables are what is looked at

from __future__ import annotations

import functools
from typing import Any

import pytest

from overseer.errors import VoirError
from overseer.probes.ptera_bridge import read
from overseer.probes.selectors import Asked

from .conftest import Make

#: The selector, and below it the character where reading ends.
UNREADABLE = [
    ("//f >", "something is missing or does not belong",
     "    ^"),
    ("//f > > x", "something is missing or does not belong",
     "      ^"),
    ("//f > x y", "something is missing or does not belong",
     "        ^"),
    ("//f(x > y", "something is missing or does not belong",
     "   ^"),
    ("//f(a,, b) > c", "something is missing or does not belong",
     "      ^"),
    ("//f(x)) > y", "something is missing or does not belong",
     "      ^"),
    ("//f > ☃", "this character has no meaning in a selector",
     "      ^"),
    ("//f > x, y", "a comma belongs inside parentheses",
     "       ^"),
    ("//f > #lop_x", "there is no marker #lop_x; there are #enter, #exit, #value",
     "      ^"),
    ("//f > #loop_", "there is no marker #loop_",
     "      ^"),
    ("//f > 1", "1 is not the name of a variable",
     "      ^"),
    ("//f > self.x", "attributes cannot be probed, only the variable they belong to",
     "      ^"),
    ("//f.g > x", "only the module's part of a reference can have dots",
     "   ^"),
    ("//f(!x, !y)", "only one variable can have the focus",
     "        ^"),
    ("//f(!!x)", "an end !! needs its beginning !",
     "    ^"),
    ("x", "a variable needs a function before it",
     "^"),
    ("", "something is missing here",
     "^"),
]  # fmt: skip


@pytest.mark.parametrize(("selector", "why", "pointer"), UNREADABLE)
def test_an_unreadable_selector_points_at_the_character(
    script: Make, selector: str, why: str, pointer: str
) -> None:
    with pytest.raises(VoirError) as raised:
        script("").placed(selector)
    said, shown, mark = raised.value.what.split("\n")
    assert raised.value.slug == "selector"
    assert why in said
    assert (shown, mark) == (f"    {selector}", f"    {pointer}")


class Owner:
    def method(self, n: int) -> int:
        x = n
        return x

    @functools.lru_cache  # noqa: B019
    def cached(self) -> int:
        y = 2
        return y


def known(n: int) -> int:
    x = n + 1
    return x


@functools.wraps(known)
def decorated(n: int) -> int:
    return known(n)


#: What a voirfile that sets the probe knows by name.
ENV = {"known": known, "Owner": Owner, "decorated": decorated, "owner": Owner()}


@pytest.mark.parametrize(
    ("selector", "call"),
    [
        ("known > x", lambda: known(1)),
        ("Owner.method > x", lambda: Owner().method(2)),
        ("Owner.cached > y", lambda: Owner().cached()),
        ("decorated > x", lambda: known(1)),
    ],
)
def test_a_name_is_what_the_voirfile_knows_by_it(script: Make, selector: str, call: Any) -> None:
    made = script("").load()
    events = made.probe(selector, env=ENV)
    call()
    assert len(events) == 1
    assert made.problems == []


def test_a_method_of_one_object_is_seen_for_that_object(script: Make) -> None:
    made = script("").load()
    events = made.probe("owner.method > x", env=ENV)
    Owner().method(1)
    ENV["owner"].method(2)
    assert [event["x"] for event in events] == [2]


@pytest.mark.parametrize(
    ("selector", "slug", "why"),
    [
        ("nothing > x", "unresolved-symbol", "there is no nothing where the probe nothing > x is"),
        ("known.f > x", "unresolved-symbol", "has no attribute 'f'"),
        ("Owner > x", "not-probeable", "Owner in Owner > x is a class"),
        ("len > x", "not-probeable", "has no Python code to put a probe in"),
        ("owner > x", "not-probeable", "has no Python code to put a probe in"),
    ],
)
def test_a_name_that_is_no_function_is_refused(
    script: Make, selector: str, slug: str, why: str
) -> None:
    with pytest.raises(VoirError) as raised:
        script("").placed(selector, env=ENV)
    assert raised.value.slug == slug
    assert why in raised.value.what


@pytest.mark.parametrize(
    ("selector", "why"),
    [
        ("//f > //g > x", "it spans several functions"),
        ("//f > $x", "it is generic"),
        ("//f(x, y)", "it is a total probe: it has no focus"),
        ("//f > x: @loss", "it selects by tag"),
        ("//f(#value) > x", "it captures #value without focus on it"),
        ("//f(x) > y", None),
        ("//f(!#loop_x, !!#endloop_x)", None),
        ("//f(x=1) > y", None),
        ("//f() as result", None),
        ("// > x", None),
    ],
)
def test_what_the_compiled_engine_cannot_do_goes_to_ptera(selector: str, why: str | None) -> None:
    assert read(Asked(selector)).slow == why


def test_one_bad_selector_does_not_stop_the_next(script: Make) -> None:
    made = script("def f():\n    x = 1\n")
    missing = made.probe("//g > x")
    with pytest.raises(VoirError):
        made.placed("//f >")
    events = made.probe("//f > x")
    made.load()
    made.call("f()")
    assert (events, missing) == ([{"x": 1}], [])


def test_values_that_are_asked_for_are_compared(script: Make) -> None:
    made = script("def f(n):\n    x = n * 2\n    return x\n").load()
    events = made.probe("//f(n=2) > x")
    odd = made.probe("//f(n~odd) > x", env={"odd": lambda n: n % 2})
    for n in (1, 2, 3):
        made.call(f"f({n})")
    assert events == [{"n": 2, "x": 4}]
    assert [event["n"] for event in odd] == [1, 3]


def test_several_names_come_along_and_may_be_called_otherwise(script: Make) -> None:
    made = script("def f(n, k=5):\n    x = n * 2\n    y = x\n    return y\n").load()
    events = made.probe("//f(n as number, k, x, !y as why)")
    made.call("f(1)")
    assert events == [{"number": 1, "k": 5, "x": 2, "why": 2}]


def test_a_name_without_value_does_not_come_along(script: Make) -> None:
    made = script("def f():\n    x = 1\n    y = 2\n    x = 3\n").load()
    events = made.probe("//f(y) > x")
    made.call("f()")
    assert events == [{"x": 1}, {"y": 2, "x": 3}]


@pytest.mark.parametrize("selector", ["//größe > θ", "//größe(θ=3) > #value as θ"])
def test_names_may_have_any_letters_that_pythons_have(script: Make, selector: str) -> None:
    made = script("def größe(n):\n    θ = n\n    return θ\n")
    events = made.probe(selector)
    made.load().call("größe(3)")
    assert [event["θ"] for event in events] == [3]
    assert made.verdict()["state"] == "fired"


def test_where_a_selector_with_other_letters_is_wrong_is_still_pointed_at(script: Make) -> None:
    with pytest.raises(VoirError) as caught:
        script("").probe("//größe > θ ? x")
    assert caught.value.what.endswith(f"\n    //größe > θ ? x\n    {' ' * 12}^")
