"""Several steps on what a policy makes of a loader's batch: all of them count what it is given."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest

from instruments.auto.batches import Batches

from .conftest import Watched, watched

MODEL, OTHER, THIRD = 1, 2, 3
#: What is learned from in each of an iteration's steps: a model, and how many items it is given.
Turn = tuple[tuple[int, int], ...]


def steps(turns: list[Turn], prompts: int = 4, times: int = 4) -> list[int | None]:
    """What each step has learned from, where one batch is fetched for all ``turns``."""
    batches, found = Batches(), []
    for _ in range(times):
        batches.fetched("loader", prompts)
        found += [step(batches, *turn) for turn in turns]
    return found


def step(batches: Batches, *turn: tuple[int, int]) -> int | None:
    """What it has learned from."""
    for model, items in turn:
        batches.given(model, items)
    batches.learned()
    return batches.take()


@pytest.mark.parametrize("many", [3, 4, 8])
@pytest.mark.parametrize("given", [1, 4, 8, 64])
def test_steps_on_one_batch_count_what_the_model_is_given(given: int, many: int) -> None:
    found = steps([((MODEL, given),)] * many)
    assert found[many:] == [given] * (3 * many)


def test_of_the_first_step_it_is_not_known_yet() -> None:
    batches = Batches()
    batches.fetched("loader", 4)
    assert [step(batches, (MODEL, 8)) for _ in range(4)] == [4, 8, 8, 8]


def test_a_critic_that_learns_several_times_from_all_of_a_batch_learns_from_what_it_has() -> None:
    """What is made up beside the last batch of an epoch, which is smaller, is as much as ever."""
    batches, found = Batches(), []
    for items in (8, 8, 4, 8, 8, 4):
        batches.fetched("loader", items)
        found.append(step(batches, (MODEL, 8)))
        for _ in range(4):
            step(batches, (MODEL, 8))
    assert found == [8, 8, 4, 8, 8, 4]


def test_a_step_may_learn_from_several_of_the_minibatches() -> None:
    batches, found = Batches(), []
    for _ in range(3):
        batches.fetched("loader", 4)
        for _ in range(4):
            for _ in range(2):
                batches.given(MODEL, 8)
                batches.learned()
            found.append(batches.take())
    assert found[4:] == [16] * 8


#: What is learned from in an iteration, where a batch of 4 images is cut into 64 patches.
ONCE: dict[str, list[Turn]] = {
    "one step": [((MODEL, 64),)],
    "two optimizers": [((MODEL, 64),)] * 2,
    "two optimizers, of one each": [((MODEL, 64),), ((OTHER, 64),)],
    "a discriminator, and a generator": [((MODEL, 64), (OTHER, 64)), ((OTHER, 64), (MODEL, 64))],
    "a generator that learns twice": [((MODEL, 64), (OTHER, 64))] * 3,
    "an actor, and critics": [((MODEL, 64), (THIRD, 64)), ((OTHER, 64), (MODEL, 64), (THIRD, 64))],
    "three, of one each": [((MODEL, 64),), ((OTHER, 64),), ((THIRD, 64),)],
}


@pytest.mark.parametrize("name", ONCE)
def test_the_loaders_batch_counts_where_it_is_one_steps(name: str) -> None:
    """What other optimizers take for theirs is asked for, and belongs to the same step."""
    turns = ONCE[name]
    assert steps(turns)[:: len(turns)] == [4] * 4


def test_the_loaders_batch_counts_again_where_it_is_one_steps_again() -> None:
    """The first batch was learned by heart, to try the model."""
    batches, found = Batches(), []
    batches.fetched("loader", 4)
    for _ in range(20):
        step(batches, (MODEL, 64))
    batches.begun()
    for _ in range(8):
        batches.fetched("loader", 4)
        found.append(step(batches, (MODEL, 64)))
    assert found[1:] == [4] * 7


def test_steps_without_a_batch_now_and_then_change_nothing() -> None:
    batches, found = Batches(), []
    for _ in range(6):
        for _ in range(3):
            batches.fetched("loader", 4)
            found.append(step(batches, (MODEL, 64)))
        for _ in range(4):
            step(batches, (MODEL, 64))
    assert found == [4] * 18


def test_what_one_loaders_batches_are_for_says_nothing_of_anothers() -> None:
    batches, found = Batches(), []
    for _ in range(4):
        batches.fetched("prompts", 4)
        found.append([step(batches, (MODEL, 8)) for _ in range(4)])
    for _ in range(4):
        batches.fetched("images", 4)
        assert step(batches, (MODEL, 64)) == 4
    assert found[1:] == [[8] * 4] * 3


def test_a_loader_that_has_another_s_name_is_another() -> None:
    batches = Batches()
    for _ in range(2):
        batches.fetched("loader", 4)
        for _ in range(4):
            step(batches, (MODEL, 8))
    batches.renamed("loader")
    batches.fetched("loader", 4)
    assert step(batches, (MODEL, 64)) == 4


def test_what_is_taken_and_put_back_is_no_step() -> None:
    batches, found = Batches(), []
    for _ in range(6):
        batches.fetched("loader", 4)
        first = step(batches, (MODEL, 64))
        for _ in range(3):
            step(batches, (MODEL, 64))
            batches.return_(None)
        batches.return_(first)
        found.append(batches.take())
    assert found == [4] * 6


def test_a_batch_of_which_it_is_known_that_none_knows_its_size_has_none() -> None:
    assert steps([((MODEL, 8),)] * 4, prompts=0)[::4] == [None] * 4


def test_loaders_read_together_count_as_they_did() -> None:
    batches, found = Batches(), []
    for _ in range(4):
        batches.fetched("one", 4)
        batches.fetched("two", 6)
        found.append([step(batches, (MODEL, 64)) for _ in range(4)])
    assert found == [[6, 64, 64, 64]] * 4


#: Prompts of a loader, what a policy writes to them, and steps on parts of that.
ROLLOUTS = """
    import torch
    from torch import nn
    from torch.utils.data import DataLoader

    policy = nn.Sequential(nn.Embedding(50, 4), nn.Linear(4, 50))
    optimizer = torch.optim.SGD(policy.parameters(), lr=0.01)
    prompts = DataLoader(list(torch.randint(0, 50, (TIMES * PROMPTS, 4))), batch_size=PROMPTS)

    def of(ids):
        return policy(ids).log_softmax(-1)

    for some in prompts:
        policy.train(TRAINING)
        ids = some.repeat_interleave(EACH, 0)
        with torch.no_grad():
            for _ in range(3):
                ids = torch.cat([ids, policy(ids)[:, -1:].argmax(-1)], 1)
            old = of(ids)
        policy.train()
        for _ in range(EPOCHS):
            for part in torch.randperm(len(ids)).split(PART):
                optimizer.zero_grad()
                (of(ids[part]) - old[part]).exp().mean().backward()
                optimizer.step()
    """


def run(tmp_path: Path, script: str, **numbers: object) -> Watched:
    """Run a script with these numbers in it."""
    script = dedent(script)
    for name, number in numbers.items():
        script = script.replace(name, str(number))
    path = tmp_path / "main.py"
    path.write_text(script)
    seen = watched(path)
    assert (seen.error, seen.problems) == (None, [])
    return seen


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize(
    ("prompts", "each", "part", "epochs"),
    [(4, 4, 8, 2), (4, 8, 16, 2), (4, 4, 16, 4), (16, 1, 4, 2)],
)
def test_a_policy_learns_from_what_it_wrote(
    tmp_path: Path, prompts: int, each: int, part: int, epochs: int, training: bool
) -> None:
    pytest.importorskip("torch", reason="torch comes with the extra [examples]")
    train = run(
        tmp_path, ROLLOUTS, TIMES=6, PROMPTS=prompts, EACH=each, PART=part, EPOCHS=epochs,
        TRAINING=training,
    ).tasks["train"]  # fmt: skip
    many = 6 * epochs * prompts * each // part
    assert (train["steps"], train["items"]) == (many, (many - 1) * part + prompts)


def test_so_it_does_where_most_steps_are_only_counted(tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="torch comes with the extra [examples]")
    train = run(
        tmp_path, ROLLOUTS, TIMES=3, PROMPTS=4, EACH=4, PART=8, EPOCHS=50, TRAINING=False
    ).tasks["train"]
    assert (train["steps"], train["items"]) == (300, 299 * 8 + 4)
    assert train["breakdown"]["watched"] < 300


#: 6 batches of 4 images, of which a model is given the 4 patches of each.
PATCHES = """
    import torch
    from torch import nn
    from torch.utils.data import DataLoader

    model, other = nn.Linear(4, 4), nn.Linear(4, 4)
    one = torch.optim.SGD(model.parameters(), lr=0.01)
    two = torch.optim.SGD(other.parameters(), lr=0.01)
    for images in DataLoader(list(torch.randn(TIMES * 4, 16)), batch_size=4):
        for optimizer in (one, two)[:MANY]:
            def loss():
                optimizer.zero_grad()
                found = other(model(images.reshape(-1, 4))).pow(2).mean()
                found.backward()
                return found
            CALLS
    """
CALLS = {"a step": "loss(); optimizer.step()", "a closure": "optimizer.step(loss)"}
#: Gradients of the same batch are summed up, in four parts.
CALLS["accumulated"] = "[loss() for _ in range(4)]; optimizer.step()"


@pytest.mark.parametrize("many", [1, 2])
@pytest.mark.parametrize("calls", CALLS)
def test_patches_of_a_batch_that_is_one_steps_count_as_the_batch(
    tmp_path: Path, calls: str, many: int
) -> None:
    pytest.importorskip("torch", reason="torch comes with the extra [examples]")
    seen = run(tmp_path, PATCHES, TIMES=6, MANY=many, CALLS=CALLS[calls])
    train = seen.tasks["train"]
    assert (train["steps"], train["items"]) == (6, 24)


def test_so_they_do_where_most_steps_are_only_counted(tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="torch comes with the extra [examples]")
    seen = run(tmp_path, PATCHES, TIMES=600, MANY=1, CALLS=CALLS["a step"])
    train = seen.tasks["train"]
    assert (train["steps"], train["items"]) == (600, 2400)
