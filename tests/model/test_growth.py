"""Memory that keeps growing with the steps is told apart from memory that levels off."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from overseer.model.growth import MAX_SAMPLES, Growth

MIB = 1 << 20


def grown(
    levels: Iterable[float], steps: tuple[float, float] | None = None
) -> dict[str, float] | None:
    """The growth of a sample a second, in MiB; of ``steps`` made from and to these seconds."""
    now = 0.0

    def stepped() -> tuple[float, float] | None:
        return (steps[0], min(now, steps[1])) if steps is not None and now >= steps[0] else None

    growth = Growth(stepped)
    for level in levels:
        growth.add(now, level * MIB)
        now += 1
    return growth.grown()


def test_memory_that_keeps_growing_is_reported() -> None:
    found = grown(500 + 10 * n for n in range(100))
    assert found is not None
    assert 700 * MIB < found["bytes"] <= 1000 * MIB
    assert 70 < found["seconds"] < 80


#: A minute in which a data set is read into memory.
READING = [500.0 + 20 * n for n in range(60)]
FULL = [1700.0]
#: Levels, a sample a second, and from when to when steps were made.
KEEPS: dict[str, tuple[list[float], tuple[float, float] | None]] = {
    "flat": ([500] * 100, None),
    "fills": ([100 * n for n in range(20)] + [2000] * 80, None),
    "breathes": ([500, 900] * 50, None),
    "little beside what there is": ([5000 + n for n in range(100)], None),
    "one step up": ([500] * 60 + [1500] * 40, None),
    "too few samples": ([500 + 100 * n for n in range(8)], None),
    "none": ([], None),
    "grows before the steps": (READING + FULL * 40, (60.0, 99.0)),
    "grows before few steps": (READING + FULL * 5, (60.0, 64.0)),
    "grows behind the steps": ([500.0] * 40 + READING, (0.0, 39.0)),
    "grows behind few steps": ([500.0] * 20 + READING + FULL * 9, (5.0, 12.0)),
}


@pytest.mark.parametrize(("levels", "steps"), KEEPS.values(), ids=KEEPS)
def test_memory_that_finds_its_level_or_grows_while_no_step_is_made_is_not(
    levels: list[float], steps: tuple[float, float] | None
) -> None:
    assert grown(levels, steps) is None


@pytest.mark.parametrize("before", [60, 20_000], ids=["a minute", "hours"])
def test_growth_with_the_steps_is_separated_from_earlier_memory(before: int) -> None:
    reading = [500 + 1200 * n // before for n in range(before)]
    levels = [*reading, *(1700 + 10 * n for n in range(60)), *[5000] * 20]
    found = grown(levels, (float(before), before + 59.0))
    assert found is not None
    assert found["bytes"] == pytest.approx(440 * MIB, abs=20 * MIB)
    assert found["seconds"] == pytest.approx(44, abs=2)


def test_growth_is_found_in_bounded_memory_for_any_length() -> None:
    growth = Growth()
    assert not growth.known
    for second in range(100_000):
        growth.add(float(second), second * 10_000.0)
    found = growth.grown()
    assert growth.known
    assert found is not None
    assert found["bytes"] == pytest.approx(750_000_000, rel=0.05)
    assert len(growth._kept) <= MAX_SAMPLES
