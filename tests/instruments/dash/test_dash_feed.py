"""What is remembered of events: little, bounded, and nothing that keeps the script's objects."""

import gc
import weakref
from pathlib import Path

import pytest

from instruments.dash.feed import Feed
from instruments.dash.values import DeviceScalar, as_text, describe, mapping, pair
from overseer.clock import FakeClock


@pytest.fixture
def feed():
    return Feed(FakeClock())


class Thing:
    def __repr__(self):
        raise AssertionError("a repr of the script's own was called")


def test_every_value_is_counted_and_the_last_one_kept(feed):
    for i in range(5):
        feed.hear({"acc": i / 10})
    slot = feed.tasks["train"]["acc"]
    assert (slot.count, slot.kept) == (5, 0.4)


def test_tasks_are_kept_apart(feed):
    feed.hear({"task": "train", "acc": 1.0})
    feed.hear({"task": "eval", "acc": 2.0})
    assert [slots["acc"].kept for slots in feed.tasks.values()] == [1.0, 2.0]


def test_a_task_of_any_kind_has_the_name_that_the_step_model_gives_it(feed):
    for task in ([1], {"a": 1}, 7, "eval", "", None):
        feed.hear({"task": task, "acc": 1.0})
    assert {name: slots["acc"].count for name, slots in feed.tasks.items()} == {
        "[1]": 1,
        "{'a': 1}": 1,
        "7": 1,
        "eval": 1,
        "train": 2,
    }


def test_machinery_is_not_shown(feed):
    feed.hear({"$event": "phase", "$data": {}, "acc": 1.0})
    assert [key for key, slot in feed.tasks["train"].items() if slot.count] == ["acc"]


def test_a_pair_counts_once_at_its_end(feed):
    for step in ("begin", "end"):
        feed.hear({"$wrap": {"step": step}, "batch": 3})
    assert feed.tasks["train"]["batch"].count == 1


def test_no_object_of_the_script_is_kept(feed):
    class Model(Thing):
        pass

    model = Model()
    gone = weakref.ref(model)
    feed.hear({"model": model, "models": [model], "named": {"m": model}})
    del model
    gc.collect()
    assert gone() is None
    kept = {key: slot.kept for key, slot in feed.tasks["train"].items()}
    assert kept == {"task": None, "model": "Model", "models": "[Model]", "named": "dict of 1"}


def test_made_up_keys_and_tasks_do_not_fill_the_memory(feed):
    for i in range(5000):
        feed.hear({"task": f"t{i}", f"key{i}": i})
    assert len(feed.tasks) <= 512
    assert sum(len(slots) for slots in feed.tasks.values()) <= 2 * 512


def test_losses_between_two_frames_are_all_kept_up_to_a_limit(feed):
    for i in range(1000):
        feed.hear({"loss": float(i)})
    slot = feed.tasks["train"]["loss"]
    assert slot.drain() == [float(i) for i in range(744, 1000)]
    assert slot.drain() == []
    assert slot.first == 0.0


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.5, "0.5000"),
        (1234, "1,234"),
        (True, "True"),
        (None, "None"),
        ("sgd\x1b[2J\n\tnesterov", "sgd[2J  nesterov"),
        (1j, "1j"),
        (Path("a/b"), "a/b"),
        ([1, 2.5], "[1, 2.5]"),
        ((1, "x"), "(1, x)"),
        (list(range(9)), "list of 9"),
        ({"a": 1}, "dict of 1"),
        (Thing(), "Thing"),
        (float("nan"), "nan"),
    ],
)
def test_a_value_in_few_words(value, text):
    assert as_text(describe(value)) == text


@pytest.mark.parametrize(
    ("value", "expected"),
    [((1, 2), (1.0, 2.0)), ([1, 2], (1.0, 2.0)), ((1,), None), ("ab", None), ((1, None), None)],
)
def test_progress_is_a_pair_of_numbers(value, expected):
    assert pair(value) == expected


def test_a_malformed_monitor_is_an_empty_one():
    assert mapping("busy") == {}


def test_numpy_values():
    np = pytest.importorskip("numpy")
    assert as_text(describe(np.float32(0.5))) == "0.5000"
    assert as_text(describe(np.zeros((2, 3)))) == "f64[2, 3]"
    assert as_text(describe(np.array(7))) == "7"


def test_tensors_keep_no_graph_and_no_storage(feed):
    torch = pytest.importorskip("torch")
    weight = torch.ones(3, requires_grad=True)
    loss = (weight * 2).sum()
    batch = torch.zeros(32, 1, 8, 8)
    graph, storage = weakref.ref(loss), weakref.ref(batch)
    feed.hear({"loss": loss, "batch": batch, "pair": (batch, torch.zeros(32, dtype=torch.long))})
    slots = feed.tasks["train"]
    assert not slots["loss"].kept.requires_grad
    del loss, batch
    gc.collect()
    assert graph() is None
    assert storage() is None
    shown = [as_text(slots[key].kept) for key in ("loss", "batch", "pair")]
    assert shown == ["6.000", "f32[32, 1, 8, 8]", "(f32[32, 1, 8, 8], i64[32])"]


def test_a_tensor_without_a_value_is_not_read(feed):
    torch = pytest.importorskip("torch")
    feed.hear({"loss": torch.zeros((), device="meta")})
    assert as_text(feed.tasks["train"]["loss"].kept) == "f32[]"


def test_a_subclass_of_tensor_is_not_read():
    torch = pytest.importorskip("torch")

    class Distributed(torch.Tensor):
        pass

    assert describe(torch.zeros(()).as_subclass(Distributed)) == "Distributed"


def test_a_copy_that_has_not_arrived_is_waited_for_and_not_overwritten(feed):
    class Slow(DeviceScalar):
        arrived = None

        def copy(self, tensor):
            raise AssertionError("a copy under way was overwritten")

        def read(self):
            return self.arrived

    feed.hear({"loss": 0.0})
    slot = feed.tasks["train"]["loss"]
    slot.drain()
    slot.kept, slot.fresh = Slow(), True
    slot.renew()
    assert slot.fresh
    assert slot.drain() == []
    slot.kept.arrived = 0.25
    assert slot.drain() == [0.25]
    slot.renew()
    assert not slot.fresh


def test_a_scalar_is_copied_whatever_its_type_and_mode():
    torch = pytest.importorskip("torch")
    cell = DeviceScalar()
    assert cell.read() is None
    with torch.inference_mode():
        cell.copy(torch.tensor([[0.5]], dtype=torch.bfloat16))
        assert cell.read() == 0.5
    cell.copy(torch.tensor(0.25, requires_grad=True) * 2)
    assert cell.read() == 0.5
    cell.copy(torch.tensor(7))
    assert cell.read() == 7.0


@pytest.mark.gpu
def test_a_value_on_the_device_is_shown_without_waiting_for_it(feed):
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("needs a CUDA device")
    torch.cuda.set_sync_debug_mode("error")
    try:
        feed.hear({"loss": torch.full((), 0.5, device="cuda")})
        feed.hear({"loss": torch.full((), 0.75, device="cuda")})
    finally:
        torch.cuda.set_sync_debug_mode("default")
    torch.cuda.synchronize()
    slot = feed.tasks["train"]["loss"]
    assert slot.count == 2
    assert slot.drain() == [0.5]
    slot.renew()
    feed.hear({"loss": torch.full((), 0.25, device="cuda", dtype=torch.bfloat16)})
    torch.cuda.synchronize()
    assert slot.drain() == [0.25]


@pytest.mark.gpu
def test_a_frame_does_not_break_a_graph_being_captured(feed):
    torch = pytest.importorskip("torch")
    if not torch.cuda.is_available():
        pytest.skip("needs a CUDA device")
    static, graph = torch.zeros((), device="cuda"), torch.cuda.CUDAGraph()
    feed.hear({"loss": static + 1})
    torch.cuda.synchronize()
    slot = feed.tasks["train"]["loss"]
    with torch.cuda.graph(graph):
        slot.drain()
        slot.renew()
        out = static + 2
        feed.hear({"loss": out})
    graph.replay()
    torch.cuda.synchronize()
    assert float(out) == 2.0
    assert not slot.fresh
