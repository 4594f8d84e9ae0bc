"""The checks of --verify, each on evidence that passes, fails, and says too little."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from instruments.verify.checks import Check, judge
from instruments.verify.evidence import Evidence, Loader, claim_of, graph_breaks
from instruments.verify.syncs import Site
from overseer.cli.verified import render

GOLDEN = Path(__file__).parents[2] / "golden" / "verify"
NAN = float("nan")


def site(device: str, milliseconds: float, where: str = "main.py:31") -> Site:
    one = Site(where, ".item()", device)
    for _ in range(59):
        one.add(1, round(milliseconds / 59 * 1e6))
    return one


def run(**differs: Any) -> dict[str, Any]:
    """What ``run.json`` says of 60 good steps of 32 items in six seconds."""
    task = {
        "steps": 60,
        "items": 1920,
        "units": "items",
        "rate": {"wall": 310.0, "steady": 320.0, "n": 50},
        "steady": {"verdict": "steady", "from_step": 10},
        "loading": {"seconds": 0.3, "share": 0.05},
        "compute": {"seconds": 5.7, "share": 0.95},
        "pause": {"seconds": 0.5, "count": 1},
        **differs.pop("task", {}),
    }
    probe = {"selector": "//train > loss", "state": "fired", "fired": 60}
    facts = {"script": "main.py", "exit_status": 0, "seconds": 7.5, "probes": [probe]}
    return {
        **facts,
        "instruments": [{"name": "a", "state": "ok"}],
        "tasks": {"train": task},
    } | differs


GOOD: dict[str, Any] = {
    "run": run(),
    "steps": 60,
    "with_batch": 60,
    "pairs": 60,
    "sizes": {32: 59, 17: 1},
    "losses": [2.0 - n / 50 for n in range(60)],
    "loss_events": 60,
    "device": "cuda",
    "claimed": "cuda",
    "claim": "use_cuda",
    "torch": True,
    "counted": 59,
    "window_ns": 6_000_000_000,
    "loader": Loader(32, 4),
    "cores": 8.0,
    "compiled": True,
    "promised": 3,
    "seconds": 7.5,
    "own_share": 0.002,
}


class Proposed:
    """What a script's text says of its steps."""

    learns = True

    def __init__(self, selector: str) -> None:
        self.selector = selector

    def line(self, role: str) -> str | None:
        return self.selector if role == "step" else None


def evidence(**differs: Any) -> Evidence:
    return Evidence(**{**GOOD, **differs})


def check(name: str, **differs: Any) -> Check:
    (found,) = [one for one in judge(evidence(**differs)) if one.check == name]
    return found


def test_a_good_run_passes_every_check() -> None:
    found = judge(evidence())
    assert [one for one in found if one.verdict != "PASS"] == []
    names = [one.check for one in found]
    assert len(names) == len(set(names)) == 18


def silent(state: str = "unresolved") -> dict[str, Any]:
    hint = "the script has no function trian; did you mean train?"
    return run(probes=[{"selector": "//trian > loss", "state": state, "hint": hint}])


NEVER = {"steady": {"verdict": "never steady"}}
BUSY = {"cpu": {"mean": 100.0, "process": {"mean": 28.0}}}
FAILING: list[tuple[str, str, dict[str, Any]]] = [
    ("misspelt probe", "probes", {"run": silent()}),
    ("silent probe", "probes", {"run": silent("never fired")}),
    ("no loss", "loss", {"losses": []}),
    ("nan", "finite loss", {"losses": [2.0] * 30 + [NAN] * 30}),
    ("rising loss", "loss trend", {"losses": [2.0 + n / 50 for n in range(60)]}),
    ("loss above its limit", "loss trend", {"loss_limit": 0.1}),
    ("no step", "step", {"steps": 0, "with_batch": 0, "pairs": 0}),
    ("step without batch", "step", {"with_batch": 0, "sizes": {}}),
    ("batch without size", "batch size", {"sizes": {}, "unsized": "set has no shape"}),
    ("wrong batch size", "batch size", {"sizes": {3: 60}}),
    ("empty batch", "batch size", {"sizes": {0: 60}}),
    ("no rate", "train rate", {"run": run(task={"rate": {}})}),
    ("no loading", "loading rate", {"run": run(task={"loading": {}})}),
    ("no compute", "compute rate", {"run": run(task={"compute": {}})}),
    ("never steady", "steady", {"run": run(task=NEVER)}),
    (
        "unexplained pauses",
        "pauses",
        {"run": run(task={"pause": {"seconds": 3.0, "count": 3, "unexplained": 3}})},
    ),
    ("parameters elsewhere", "device", {"device": "cpu"}),
    ("item on a gpu", "syncs", {"syncs": [site("cuda", 200), site("cuda", 1, "main.py:40")]}),
    ("dear item on a cpu", "syncs", {"syncs": [site("cpu", 900)]}),
    ("too many workers", "workers", {"loader": Loader(32, 16)}),
    (
        "too few workers",
        "workers",
        {
            "loader": Loader(32, 0),
            "run": run(task={"loading": {"seconds": 3.0, "share": 0.5}}),
        },
    ),
    (
        "failed instrument",
        "instruments",
        {
            "run": run(
                instruments=[
                    {
                        "name": "f",
                        "state": "failed",
                        "error": "KeyError: 'x'",
                        "failed_at": "v.py:3",
                    }
                ]
            )
        },
    ),
    ("graph breaks", "graph breaks", {"breaks_by_probes": 2}),
    ("broken promise", "emits", {"unkept": [("Temperature", "temperature.cpu")]}),
    ("dear instruments", "own cost", {"own_share": 0.034}),
]


@pytest.mark.parametrize(
    ("name", "differs"), [(n, d) for _, n, d in FAILING], ids=lambda v: str(v)[:20]
)
def test_a_broken_run_fails_the_check_for_it_and_no_other(
    name: str, differs: dict[str, Any]
) -> None:
    failed = [one for one in judge(evidence(**differs)) if one.verdict == "FAIL"]
    assert [one.check for one in failed] == [name]
    assert failed[0].evidence
    assert failed[0].hint or name == "probes"


@pytest.mark.parametrize(
    ("name", "differs"),
    [
        ("probes", {"run": run(probes=[])}),
        ("probes", {"run": silent("never fired"), "cut": True}),
        ("loss", {"losses": [], "steps": 0, "pairs": 0, "others": 60}),
        ("step", {"with_batch": 0, "sizes": {}, "proposals": Proposed("//f > #endloop_x as step")}),
        ("loss trend", {"losses": [2.0, 1.0]}),
        ("loss trend", {"losses": [2.0, 1.0] * 30}),
        ("batch size", {"sizes": {}, "run": run()}),
        ("loading rate", {"run": run(task={"loading": {}}), "voirfile": False}),
        ("steady", {"run": run(task={"steady": {"verdict": "too few steps"}})}),
        ("steady", {"run": run(task=NEVER, host=BUSY)}),
        ("device", {"device": None}),
        ("device", {"claimed": None}),
        ("syncs", {"torch": False}),
        ("workers", {"loader": None}),
        ("workers", {"loader": Loader(32, None)}),
        ("graph breaks", {"compiled": False}),
        ("emits", {"promised": 0}),
        ("emits", {"unkept": [("Temperature", "t")], "seconds": 0.3}),
        ("own cost", {"own_share": None}),
        ("own cost", {"own_share": 0.04, "window_ns": 59 * 2_000_000}),
        ("own cost", {"own_share": 0.015, "run": run(host=BUSY)}),
        ("own cost", {"own_share": 0.08, "run": run(host=BUSY)}),
    ],
)
def test_thin_evidence_is_skipped(name: str, differs: dict[str, Any]) -> None:
    assert check(name, **differs).verdict == "SKIP"


def test_a_loss_passes_when_it_has_come_down_to_its_limit() -> None:
    assert check("loss trend", loss_limit=1.0).verdict == "PASS"


def test_waiting_calls_on_a_cpu_are_named_and_pass() -> None:
    found = check("syncs", syncs=[site("cpu", 0.2)])
    assert (found.verdict, "main.py:31" in found.evidence) == ("PASS", True)


def test_one_call_that_took_long_says_nothing_of_the_others() -> None:
    slow = site("cpu", 0.2)
    slow.add(1, 900_000_000)
    assert check("syncs", syncs=[slow]).verdict == "PASS"


def test_few_steps_say_nothing_of_what_waiting_costs() -> None:
    assert check("syncs", syncs=[site("cpu", 900)], counted=11).verdict == "PASS"


def test_a_probe_that_can_come_to_nothing_any_more_fails_where_the_script_was_stopped() -> None:
    assert check("probes", run=silent(), cut=True).verdict == "FAIL"


def test_each_probe_that_came_to_nothing_is_shown_up_to_a_few() -> None:
    probes = [{"selector": f"//f{n} > x", "state": "unresolved", "hint": ""} for n in range(7)]
    found = [one for one in judge(evidence(run=run(probes=probes))) if one.check == "probes"]
    assert [one.verdict for one in found] == ["FAIL"] * 5
    assert "//f0 > x" in found[0].evidence
    assert found[4].evidence.endswith("; and 2 more")


def test_what_cannot_be_a_batch_is_answered_by_what_can() -> None:
    line = 'ov.probe("//f(x as batch) > #endloop_x as step").give()'
    unknown = {"sizes": {}, "unsized": "SGD has neither shape nor length"}
    assert check("batch size", **unknown, proposals=Proposed(line)).hint == line
    own = run(probes=[{"selector": "//f(x as batch) > #endloop_x as step", "state": "fired"}])
    known = check("batch size", **unknown, run=own, proposals=Proposed(line))
    assert "batch_size_calc" in str(known.hint)


def test_a_step_without_a_batch_fails_where_the_text_shows_one() -> None:
    line = "//f(x as batch) > #endloop_x as step"
    found = check("step", with_batch=0, sizes={}, proposals=Proposed(line))
    assert (found.verdict, found.hint) == ("FAIL", line)


def test_a_script_that_failed_before_its_first_step_is_said_to_have() -> None:
    nothing = {"steps": 0, "with_batch": 0, "pairs": 0, "losses": [], "sizes": {}}
    failed = run(exit_status=1, tasks={})
    for name in ("loss", "step"):
        assert "failed before, with status 1" in check(name, **nothing, run=failed).evidence


def test_items_that_are_a_multiple_of_the_loaders_batch_pass() -> None:
    assert check("batch size", sizes={96: 60}).verdict == "PASS"


@pytest.mark.parametrize(
    ("seen", "claimed"),
    [
        ({"use_cuda": True}, "cuda"),
        ({"use_cuda": False, "options": {"device": "cuda"}}, "cpu"),
        ({"options": {"device": "cuda:1"}}, "cuda"),
        ({"options": {"no_cuda": False}}, "cuda"),
        ({"options": {"no_cuda": True}}, "cpu"),
        ({"options": {"cuda": False}}, "cpu"),
        ({"options": {"device": "auto"}}, None),
        ({"options": 3}, None),
        ({}, None),
    ],
)
def test_the_device_that_is_claimed(seen: dict[str, Any], claimed: str | None) -> None:
    assert claim_of(seen)[0] == claimed


def test_without_dynamo_there_are_no_graph_breaks(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "torch._dynamo.utils", None)  # type: ignore[arg-type]
    assert graph_breaks() == (None, 0)


def test_graph_breaks_of_probes_are_told_from_the_scripts(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys
    from types import SimpleNamespace

    breaks = {"call of print": 3, "Unsupported: builtin <voir 1f-2e loss>": 2}
    counters = {"frames": {"ok": 1}, "graph_break": breaks}
    monkeypatch.setitem(
        sys.modules,
        "torch._dynamo.utils",
        SimpleNamespace(counters=counters),  # type: ignore[arg-type]
    )
    assert graph_breaks() == (3, 2)


# What is shown


def shown(width: int, **differs: Any) -> str:
    facts = {**GOOD, **differs}
    checks = [one.as_facts() for one in judge(Evidence(**facts))]
    return render({**facts["run"], "verify": checks, "directory": "voir-runs/1"}, width, False)


SCREENS: dict[str, dict[str, Any]] = {
    "good": {},
    "broken": {
        "run": silent() | {"exit_status": 1},
        "losses": [2.0] * 30 + [NAN] * 30,
        "sizes": {3: 60},
        "device": "cpu",
        "syncs": [site("cuda", 200), site("cuda", 1, "main.py:40")],
        "loader": Loader(32, 16),
        "own_share": 0.034,
    },
}


@pytest.mark.parametrize("width", [80, 120])
@pytest.mark.parametrize("name", SCREENS)
def test_the_screen_looks_as_it_should(name: str, width: int) -> None:
    path = GOLDEN / f"{name}.{width}.txt"
    actual = shown(width, **SCREENS[name])
    if os.environ.get("VOIR_UPDATE_GOLDEN"):
        path.parent.mkdir(exist_ok=True)
        path.write_text(actual, encoding="utf-8")
    expected = path.read_text(encoding="utf-8") if path.exists() else ""
    if actual != expected:
        path.with_suffix(".actual").write_text(actual, encoding="utf-8")
    assert actual == expected, f"compare {path} with {path.with_suffix('.actual')}"


def test_colours_change_nothing_but_colours() -> None:
    import re

    checks = [one.as_facts() for one in judge(evidence(losses=[]))]
    facts = {**run(), "verify": checks}
    plain, coloured = (render(facts, 80, colour) for colour in (False, True))
    assert re.sub(r"\x1b\[[\d;]*m", "", coloured) == plain
    assert "\x1b" not in plain


def test_no_record_makes_the_screen_fail() -> None:
    for checks in ([{}], [{"verdict": 3, "check": None, "hint": [1]}], [{"verdict": "FAIL"}]):
        assert render({"verify": checks, "script": "\x1b[2J"}, 40, False).startswith("voir:")
