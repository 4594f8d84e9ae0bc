"""Ranks that record in detail: lists of numbers and ranges."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from instruments.ranks import is_chosen
from overseer.engine.options import OptionParser, add_options
from overseer.errors import UsageError
from overseer.rundir.job import ranks_of


def test_a_list_has_numbers_and_ranges() -> None:
    assert ranks_of("0,3, 8-10", "--ranks") == {0, 3, 8, 9, 10}


@pytest.mark.parametrize("text", ["", "a", "3-1", "1,,2", "-1", "1-", "²"])
def test_another_text_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="is not a list of ranks"):
        ranks_of(text, "--ranks")


@pytest.mark.parametrize(
    ("rank", "own", "every", "chosen", "missing"),
    [
        (None, None, None, True, None),
        (None, None, {0}, True, None),
        (None, {1}, None, False, "rank 1 does not exist: ranks are 0 to 0"),
        (2, None, {0, 2}, True, None),
        (2, None, {0}, False, None),
        (2, {2}, {0}, True, None),  # The option for one thing comes first.
        (2, {2, 9}, None, True, "rank 9 does not exist: ranks are 0 to 3"),
    ],
)
def test_a_process_knows_whether_it_is_chosen(
    rank: int | None, own: Any, every: Any, chosen: bool, missing: str | None
) -> None:
    environ = {} if rank is None else {"RANK": str(rank), "WORLD_SIZE": "4"}
    problems: list[Any] = []
    options = SimpleNamespace(ranks=every)
    ov: Any = SimpleNamespace(environ=environ, options=options, report=problems.append)
    assert is_chosen(ov, "--trace-rank", own) is chosen
    assert [each.what for each in problems] == ([missing] if missing else [])


@pytest.mark.parametrize("text", ["x", "-1", "1.5"])
def test_the_rank_of_a_summary_is_a_number(text: str) -> None:
    parser = OptionParser(environ={})
    add_options(parser)
    with pytest.raises(UsageError, match="which is not a rank"):
        parser.resolve([f"--summary-rank={text}"])
