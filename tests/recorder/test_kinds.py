"""The table of kinds, and what the C sources say of kinds and flags."""

from __future__ import annotations

import re
from itertools import count
from pathlib import Path

import pytest

import overseer.recorder
from overseer.model import events
from overseer.model.alike import read
from overseer.recorder import sites as k
from overseer.recorder.log import EVENT

#: The C sources that read events.
SOURCES = sorted(
    path
    for path in Path(overseer.recorder.__file__).parent.glob("*.c")
    if "enum kind" in path.read_text()
)
ENUM = re.compile(r"^enum (\w+) \{(.*?)\};", re.MULTILINE | re.DOTALL)
#: Flags of calls that C leaves to the fold, whatever they are.
UNUSUAL = k.ENDED | k.FAILED | k.IN_OPTIMIZER | k.LATER | k.MARKED


def tagged(source: Path) -> dict[tuple[str, str], int]:
    """The tagged enums of a C source: from a tag and a name to the number."""
    found = {}
    for tag, body in ENUM.findall(source.read_text()):
        following = count()
        for entry in body.split(","):
            name, _, value = (word.strip() for word in entry.partition("="))
            following = count(int(value)) if value else following
            found[tag, name] = next(following)
    return found


@pytest.mark.parametrize("source", SOURCES, ids=lambda source: source.name)
def test_c_has_the_numbers_of_kinds_and_flags(source: Path) -> None:
    numbers = tagged(source)
    assert {"kind", "flag"} <= {tag for tag, _ in numbers}
    assert numbers == {(tag, name): getattr(k, name) for tag, name in numbers}
    kinds = {name.lower(): number for (tag, name), number in numbers.items() if tag == "kind"}
    assert kinds == {name: number for name, number in kinds.items() if name == k.KINDS[number].name}


def test_each_kind_has_one_name_and_one_number() -> None:
    assert all(getattr(k, kind.name.upper()) == number for number, kind in k.KINDS.items())
    assert len({kind.name for kind in k.KINDS.values()}) == len(k.KINDS)
    assert max(k.KINDS) < 64  # One bit each, where some are waited for.


def test_kinds_that_open_another_one_are_of_its_ring() -> None:
    opening = [kind for kind in k.KINDS.values() if kind.opening]
    assert opening
    assert all(k.KINDS[kind.opening].ring == kind.ring for kind in opening)


def test_parts_have_the_numbers_that_the_fold_uses() -> None:
    numbers = [getattr(events, f"PART_{part.upper()}") for part in k.PARTS]
    assert numbers == list(range(len(k.PARTS)))


def test_c_puts_spans_into_the_same_parts() -> None:
    source = next(path for path in SOURCES if path.name == "_alike.c").read_text()
    found = re.search(r"part_of\[\] = \{(.*?)\}", source)
    assert found is not None
    parts = {"LOADS": "loading", "FORWARDS": "forward", "BACKWARDS": "backward"}
    parts |= {"OPTIMIZES": "optimizer"}
    spans = found[1].split(", ")[1:]
    assert [parts[span] for span in spans] == [k.KINDS[n].part for n in range(1, len(spans) + 1)]


def test_a_call_learns_in_training_mode_with_gradients_and_evaluates_with_neither() -> None:
    found = {
        k.TRAINING | k.GRAD: k.LEARNING,
        k.TRAINING: k.NEITHER,
        k.GRAD: k.NEITHER,
        0: k.EVALUATION,
    }
    for flags in range(256):
        assert k.call(flags) == k.CALLS[flags] == found[flags & (k.TRAINING | k.GRAD)]


@pytest.mark.skipif(read is None, reason="built without a compiler")
def test_c_takes_the_same_calls_for_learning() -> None:
    assert read is not None
    kinds, start = (k.LOADING, k.FORWARD, k.BACKWARD, k.OPTIMIZER), 1000
    for flags in range(256):
        data = b"".join(
            EVENT.pack(
                start + 20 * at, 8.0, 7, kind, 1, 10 | (flags << 56 if kind == k.FORWARD else 0)
            )
            for at, kind in enumerate(kinds * 5)
        )
        step, rest = len(kinds) * EVENT.size, events.PART_OTHER
        together = read(data, 0, step, bytes(range(32)), rest, rest, True, start)
        learns = k.call(flags) == k.LEARNING and not flags & UNUSUAL
        assert (together is not None) == learns, flags
