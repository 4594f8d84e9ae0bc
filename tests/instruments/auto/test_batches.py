"""Of how many items a step is, where a script gives up some of what it was given."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest

from instruments.auto.batches import AHEAD, Batches

from .conftest import watched

MODEL, OTHER, THIRD = 1, 2, 3


def steps(*numbers: int, items: int | None = 4) -> list[int | None]:
    """What each step has learned from, of so many batches that a forward pass was made with."""
    batches, found = Batches(), []
    for number in numbers:
        for _ in range(number):
            batches.fetched("loader", items)
            batches.given(MODEL, items)
        batches.learned()
        found.append(batches.take())
    return found


@pytest.mark.parametrize(
    ("numbers", "counted"),
    [
        ([5, 5, 5], [1, 9, 5]),  # The second step shows what the first was of.
        ([5, 2, 5, 2, 5], [1, 1, 10, 2, 5]),  # An epoch's last ones are fewer.
        ([1, 5, 5, 2, 5, 5], [1, 1, 9, 2, 5, 5]),  # The first batch is a step by itself.
        ([3, 3, 4, 3, 3], [1, 5, 3, 3, 3]),  # One of the losses was not finite.
        ([2, 1, 1, 1], [1, 1, 1, 1]),  # The model was only tried.
        ([1, 1, 1, 2, 1, 1, 3, 2, 2, 1], [1] * 10),
        ([1, 1, 2, 2, 2, 2], [1] * 6),
        ([3, 1, 2, 4, 1, 1, 2, 2, 3], [1] * 9),  # Only what is hard is learned from.
        ([100, 100, 100], [1, 199, 100]),
    ],
)
def test_losses_are_summed_up_of_as_many_batches_each_time(
    numbers: list[int], counted: list[int]
) -> None:
    assert steps(*numbers) == [4 * number for number in counted]


@pytest.mark.parametrize("dropped", [False, True])
@pytest.mark.parametrize(("epoch", "group"), [(7, 4), (10, 4), (5, 2)])
def test_a_sum_of_losses_may_go_on_where_the_loader_begins_anew(
    epoch: int, group: int, dropped: bool
) -> None:
    """Or what an epoch leaves is dropped at its end, and each begins with a sum of its own."""
    batches, found = Batches(), []
    groups = 0
    for _ in range(6):
        batches.begun()
        groups = 0 if dropped else groups
        for _ in range(epoch):
            batches.fetched("loader", 4)
            batches.given(MODEL, 4)
            groups += 1
            if groups == group:
                groups = 0
                batches.learned()
                found.append(batches.take())
        batches.exhausted("loader")
    steps = 6 * (epoch // group) if dropped else 6 * epoch // group
    assert (len(found), sum(filter(None, found))) == (steps, steps * group * 4)


def test_of_several_batches_one_of_which_has_no_known_size_nothing_is_said() -> None:
    assert steps(1, 1, items=None) == [None, None]
    batches, found = Batches(), []
    for _ in range(3):
        for items in (None, 4):
            batches.fetched("loader", items)
            batches.given(MODEL, 4)
        batches.learned()
        found.append(batches.take())
    assert found == [4, None, None]


def test_what_no_forward_pass_was_made_with_is_left_out() -> None:
    batches, found = Batches(), []
    for left_out in ((), (0, 2), (1, 3), (0, 1)):
        for i in range(3 + len(left_out)):
            batches.fetched("loader", 4)
            if i not in left_out:
                batches.given(MODEL, 4)
        batches.learned()
        found.append(batches.take())
    assert found == [4, 20, 12, 12]


def test_a_batch_that_is_fetched_before_the_last_one_is_learned_from_is_the_next_steps() -> None:
    batches, found = Batches(), []
    batches.fetched("loader", 1)
    for items in range(2, 9):
        batches.given(MODEL, items - 1)
        batches.fetched("loader", items)
        batches.learned()
        found.append(batches.take())
    assert found == [1, 2, 3, 4, 5, 6, 7]


@pytest.mark.parametrize("skipped", [1, 3, 9, 30])
@pytest.mark.parametrize("every", [False, True])
@pytest.mark.parametrize("sizes", [[4] * 39 + [1], [1 + n * 7 % 11 for n in range(40)]])
def test_batches_that_are_skipped_before_the_first_step_are_not_read_ahead(
    sizes: list[int | None], every: bool, skipped: int
) -> None:
    """The script resumes in the midst of an epoch; or leaves out as many of each."""
    batches, found = Batches(), []
    for epoch in range(3):
        batches.begun()
        for at, items in enumerate(sizes):
            batches.fetched("loader", items)
            if at >= skipped or (epoch and not every):
                batches.given(MODEL, items)
                batches.learned()
                found.append(batches.take())
        batches.exhausted("loader")
    rest = sizes if not every else sizes[skipped:]
    assert found == sizes[skipped:] + rest + rest


def test_batches_of_which_nothing_is_ever_learned_are_forgotten() -> None:
    batches = Batches()
    for _ in range(2):
        batches.fetched("loader", 4)
        batches.given(MODEL, 4)
        batches.learned()
        assert batches.take() == 4
    for _ in range(40 * AHEAD):
        batches.fetched("loader", 4)
        batches.given(MODEL, 4)
    assert len(batches._loaded["loader"]) < 20 * AHEAD
    batches.begun()
    batches.fetched("loader", 4)
    batches.learned()
    assert batches.take() == 4


def acts(batches: Batches, times: int = 1) -> None:
    """An agent acts with gradients recorded, and nobody learns from that."""
    for _ in range(times):
        batches.given(MODEL, 1, alone=True)


@pytest.mark.parametrize("times", [1, 4, 100])
def test_what_an_agent_acts_on_is_not_learned_from(times: int) -> None:
    batches, found = Batches(), []
    for _ in range(3):
        acts(batches, times)
        batches.given(OTHER, 64)
        batches.given(THIRD, 64)
        batches.learned()
        found.append(batches.take())
        batches.given(MODEL, 64)
        batches.given(OTHER, 64)
        batches.learned()
        batches.take()  # The agent's optimizer ends no iteration.
    assert found[1:] == [64, 64]


def test_single_samples_that_are_all_a_model_learns_from_count() -> None:
    """One picture, and many places in it that another model is given."""
    batches = Batches()
    for _ in range(4):
        batches.given(MODEL, 1, alone=True)
        batches.given(OTHER, 128)
        batches.learned()
        assert batches.take() == 1
    for _ in range(4):  # What is left of the data is a single one.
        batches.given(MODEL, 16)
        batches.given(OTHER, 16 * 128)
        batches.learned()
        assert batches.take() == 16
    batches.given(MODEL, 1, alone=True)
    batches.given(OTHER, 128)
    batches.learned()
    assert batches.take() == 1


def test_an_actor_and_its_critics_learn_from_what_is_remembered(tmp_path: Path) -> None:
    """As in CleanRL's soft actor-critic, where the actor acts with gradients."""
    pytest.importorskip("torch", reason="torch comes with the extra [examples]")
    script = """
        import torch
        from torch import nn

        actor, critic, other = nn.Linear(4, 1), nn.Linear(5, 1), nn.Linear(5, 1)
        critics = torch.optim.SGD([*critic.parameters(), *other.parameters()], lr=0.01)
        actors = torch.optim.SGD(actor.parameters(), lr=0.01)
        memory = torch.randn(400, 4)
        for turn in range(60):
            actor(torch.randn(1, 4)).detach()
            states = memory[torch.randint(400, (16,))]
            with torch.no_grad():
                wanted = critic(torch.cat([states, actor(states)], 1)) * 0.9
            both = torch.cat([states, torch.randn(16, 1)], 1)
            loss = (critic(both) - wanted).pow(2).mean() + (other(both) - wanted).pow(2).mean()
            critics.zero_grad()
            loss.backward()
            critics.step()
            if turn % 2 == 0:
                loss = -critic(torch.cat([states, actor(states)], 1)).mean()
                actors.zero_grad()
                loss.backward()
                actors.step()
    """
    path = tmp_path / "main.py"
    path.write_text(dedent(script))
    train = watched(path).tasks["train"]
    # Of the very first step it is not known yet that the actor learns from batches.
    assert (train["steps"], train["items"]) == (60, 59 * 16 + 1)


def test_a_loader_that_has_another_s_name_feeds_nothing() -> None:
    batches = Batches()
    for _ in range(3):
        batches.fetched("loader", 32)
        batches.given(MODEL, 32)
        batches.learned()
        assert batches.take() == 32
    assert batches.feeds("loader")
    batches.fetched("loader", 32)
    batches.renamed("loader")
    batches.begun()
    assert not batches.feeds("loader")
    assert not batches.waits("loader")
    batches.fetched("loader", 8)
    assert batches.other
    assert batches.seen(800) == 8
