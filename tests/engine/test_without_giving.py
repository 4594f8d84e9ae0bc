"""Scripts give, iterate and inherit keys without giving, and go on with it when it is there."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.running import PYTHON, Place


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


EVALUATES = """
    import sys, voir
    imported = []
    class Watch:
        def find_spec(self, name, path=None, target=None):
            imported.append(name.partition(".")[0])
    def work(batch):
        loss = float(batch)
    def evaluate():
        for batch in voir.iterate("eval", range(3), report_batch=True, batch_size=4):
            with voir.give.wrap("part"), voir.give.inherit(part=1):
                voir.give(within=batch)
    def train():
        for batch in range(4):
            work(batch)
            if batch == 2:
                evaluate()
    sys.meta_path.insert(0, Watch())
    train()
    sys.meta_path.pop(0)
    print({"giving", "reactivex", "asyncio", "ssl", "varname"} & {*imported, *sys.modules})
    """


def test_an_evaluation_that_is_the_first_to_iterate_imports_nothing_of_givings(
    place: Place,
) -> None:
    place.probes(["//work > loss"])
    place.write("main.py", EVALUATES)
    ran = place.voir("main.py")
    assert ran.seen == (0, "set()\n"), ran.stderr
    events = place.metrics()
    assert [(e["task"], e["part"]) for e in events if "within" in e] == [("eval", 1)] * 3
    assert [e.get("task") for e in events if "loss" in e] == ["train"] * 4
    assert place.record()["tasks"]["eval"]["items"] == 12


TOGETHER = """
    import sys, threading, voir
    when, heard = sys.argv[1], []
    if when == "before":
        import giving
    def within(number):
        voir.give(ours=number)
        if number == 1:
            if when == "in a thread":
                thread = threading.Thread(target=__import__, args=("giving",))
                thread.start()
                thread.join()
            import giving
            with giving.given() as given:
                given.subscribe(heard.append)
                giving.give(theirs=number)
                voir.give(both=number)
    assert ("giving" in sys.modules) == (when == "before")
    with voir.give.inherit(run=1):
        for number in voir.iterate("train", range(3), report_batch=True):
            within(number)
    import giving
    with giving.give.inherit(task="eval"), voir.give.inherit(run=2):
        voir.give(ours=3)
        giving.give(theirs=3)
        with giving.give.wrap("a"), voir.give.wrap("b"):
            pass
    voir.give(ours=4)
    giving.give(theirs=4)
    print([{k: v for k, v in event.items() if k != "$wrap"} for event in heard])
    print(len(sys.wrapped), len(set(sys.wrapped)))
    """
WRAPPED = """
    import sys
    def instrument_blocks(ov):
        yield ov.phases.load_script
        ov.listen(lambda event: sys.wrapped.append(event["$wrap"]["id"]), "$wrap")
        sys.wrapped = []
    """


@pytest.mark.parametrize("when", ["before", "between", "in a thread"])
def test_it_works_together_with_giving_whenever_that_is_imported(place: Place, when: str) -> None:
    place.write("voirfile.py", WRAPPED)
    place.write("main.py", TOGETHER)
    ran = place.voir("main.py", when)
    inherited = {"run": 1, "task": "train"}
    expected = [{**inherited, "theirs": 1}, {**inherited, "both": 1}]
    assert ran.seen == (0, f"{expected}\n10 5\n"), ran.stderr
    found = [
        (key, event[key], event.get("task"), event.get("run"))
        for event in place.metrics()
        for key in ("ours", "theirs", "both")
        if key in event
    ]
    during = [(number, "train", 1) for number in range(3)]
    after = [(3, "eval", 2), (4, None, None)]
    assert [(*rest,) for key, *rest in found if key == "ours"] == [*during, *after]
    assert [(*rest,) for key, *rest in found if key != "ours"] == [during[1], during[1], *after]


def test_under_plain_python_blocks_reach_a_given_of_the_script_s_own(place: Place) -> None:
    place.write(
        "main.py",
        """
        import voir
        with voir.give.inherit(run=1):
            import giving
            with giving.given() as given, voir.give.wrap_inherit("part", x=2):
                heard = given["?y"].accum()
                whole = given.accum()
                giving.give(y=3)
        print(heard, [sorted(event) for event in whole])
        """,
    )
    ran = place.run(*PYTHON, "main.py")
    assert ran.stdout == "[3] [['run', 'x', 'y'], ['$wrap', 'run', 'x']]\n", ran.stderr
