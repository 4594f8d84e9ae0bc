"""The rank of a process is known once it makes a process group."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from instruments.hooks import process_group
from instruments.places import Places


def group(rank: int, size: int) -> Any:
    return SimpleNamespace(rank=lambda: rank, size=lambda: size)


def test_the_first_process_group_of_several_processes_tells_the_rank(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("LOCAL_RANK", "0")
    made: list[Any] = []
    c10d: Any = SimpleNamespace(__name__="c10d", _update_default_pg=made.append)
    ov: Any = SimpleNamespace(context=SimpleNamespace(rank=None))
    places, inner = Places(), c10d._update_default_pg
    process_group.place(ov, places, c10d)
    for one in (None, group(0, 1), object()):
        c10d._update_default_pg(one)
        assert ov.context.rank is None
    for one in (group(2, 4), None, group(1, 2)):
        c10d._update_default_pg(one)
        assert ov.context.rank[:3] == (2, 4, 0)
    assert len(made) == 6
    places.remove()
    assert c10d._update_default_pg == inner


def test_a_pytorch_without_that_function_is_left_alone() -> None:
    process_group.place(None, Places(), SimpleNamespace())  # type: ignore[arg-type]
