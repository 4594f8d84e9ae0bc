"""Scripts as people write them: what is read from each, and that its voirfile passes --verify."""

from __future__ import annotations

import importlib.util
import json
import shutil
from pathlib import Path

import pytest

from overseer.cli.init import init
from overseer.reading import open_script, read_script
from tests.forks import Done, Job, run_all

SCRIPTS = Path(__file__).with_name("scripts")


def pair(function: str, batch: str, marker: str) -> str:
    return (
        f"{function}({batch}, !#loop_{marker} as compute_start, !!#endloop_{marker} as compute_end)"
    )


#: Of each script: its steps, their items, and the selectors to be found, by role.
#: Steps are the optimizer's.
TRUTH: dict[str, tuple[int, int, dict[str, str]]] = {
    "function": (
        18,
        144,
        {
            "loss": "//train_epoch > loss",
            "step": "//train_epoch(inp as batch) > #endloop_inp as step",
            "pair": pair("//train_epoch", "inp as batch", "inp"),
            "loader": "//train_epoch > loader",
            "model": "//main > model",
            "options": "//main > args as options",
            "use_cuda": "//main > use_cuda",
            "pause": "//evaluate(!#enter as pause, !!#exit as resumed)",
        },
    ),
    "made_step": (
        12,
        96,
        {
            "loss": "//make_trainer/train_step > loss",
            "step": "//main(index as batch) > #endloop_start as step",
            "model": "//make_trainer > model",
        },
    ),
    "walrus": (
        12,
        96,
        {
            "loss": "//go > loss",
            "step": "//go(chunk as batch) > #endloop_chunk as step",
            "pair": "//take(!#enter as loading, !!#exit as loaded)",
            "model": "// > m as model",
        },
    ),
    "top_level": (
        12,
        96,
        {
            "loss": "// > loss",
            "step": "//(inputs as batch) > #endloop_i as step",
            "pair": pair("//", "inputs as batch", "i"),
            "loader": "// > train_loader as loader",
            "model": "// > net as model",
        },
    ),
    "trainer_class": (
        12,
        96,
        {
            "loss": "//Trainer/run_epoch > loss",
            "step": "//Trainer/run_epoch(batch) > #endloop_batch as step",
            "loader": "//Trainer/__init__ > train_loader as loader",
            "model": "//Trainer/__init__ > model",
            "pause": "//Trainer/save_checkpoint(!#enter as pause, !!#exit as resumed)",
        },
    ),
    "other_module": (
        12,
        96,
        {
            "loss": "/lib.engine/train_one_epoch > loss",
            "step": "/lib.engine/train_one_epoch(image as batch) > #endloop_step as step",
            "loader": "/lib.engine/train_one_epoch > data_loader as loader",
            "model": "//main > model",
            "options": "//main > args as options",
        },
    ),
    "accumulation": (
        6,
        96,
        {
            "loss": "//train > loss",
            "loader": "//train > loader",
            "model": "// > model",
        },
    ),
    "while_true": (
        12,
        288,
        {
            "loss": "//(loss) > #endloop__micro",
            "step": "//(X as batch) > #endloop__micro as step",
            "pair": "//(!#loop_iter_num as compute_start, !!#endloop_iter_num as compute_end)",
            "model": "// > model",
            "options": "// > config as options",
            "pause": "//estimate_loss(!#enter as pause, !!#exit as resumed)",
        },
    ),
    "gan": (
        12,
        96,
        {
            "loss": "//main > errG as loss",
            "other loss": "//main > errD_real",
            "step": "//main(data as batch) > #endloop_i as step",
            "loader": "//main > dataloader as loader",
            "model": "//main > netG as model",
        },
    ),
    "lbfgs": (
        12,
        96,
        {
            "loss": "//fit/closure > loss",
            "step": "//fit(features as batch) > #endloop_features as step",
            "loader": "//fit > loader",
        },
    ),
    "nested": (
        12,
        96,
        {
            "loss": "//run/train_step > loss",
            "step": "//run(xb as batch) > #endloop_xb as step",
            "loader": "//run > loader",
            "model": "//run > model",
        },
    ),
    "next_batch": (
        12,
        96,
        {
            "loss": "//train > loss",
            "step": "//train(batch) > #endloop_global_step as step",
            "loader": "//train > loader",
            "model": "//train > model",
        },
    ),
    "slices": (
        12,
        96,
        {
            "loss": "// > loss",
            "step": "//(xb as batch) > #endloop_start as step",
            "model": "// > model",
        },
    ),
    "full_batch": (
        20,
        640,
        {
            "loss": "// > loss",
            "step": "//(x as batch) > #endloop_t as step",
            "model": "// > model",
        },
    ),
    "amp": (
        12,
        96,
        {
            "loss": "//train > loss",
            "step": "//train(batch) > #endloop_step as step",
            "loader": "//train > train_dataloader as loader",
        },
    ),
    "same_names": (
        12,
        96,
        {
            "loss": "//main > loss",
            "step": "//main(x as batch) > loss as step",
            "loader": "//main > train_loader as loader",
        },
    ),
    "accelerator": (
        12,
        96,
        {
            "loss": "//training_function > loss",
            "step": "//training_function(batch) > #endloop_step as step",
            "loader": "//training_function > train_dataloader as loader",
            "model": "//training_function > model",
        },
    ),
    "attributes": (
        12,
        96,
        {
            "loss": "//Runner/update > loss",
            "step": "//Runner/run(batch) > #endloop_i as step",
            "loader": "//Runner/__init__(self) > #exit",
            "model": "//Runner/__init__(self) > #exit",
            "options": "//Runner/__init__ > cfg as options",
            "pause": "//Runner/validate(!#enter as pause, !!#exit as resumed)",
        },
    ),
    "output_loss": (
        12,
        96,
        {
            "loss": "//main(out) > #endloop_batch",
            "step": "//main(batch) > #endloop_batch as step",
            "loader": "//main > train_dl as loader",
            "model": "//main > model",
            "options": "// > CFG as options",
        },
    ),
    "by_hand": (
        12,
        96,
        {
            "loss": "//main > loss",
            "step": "//main(xb as batch) > #endloop_xb as step",
            "pair": pair("//main", "xb as batch", "xb"),
        },
    ),
    "inference": (
        12,
        96,
        {"step": "//predict(images as batch) > #endloop_images as step"},
    ),
}


def file_of(name: str) -> Path:
    single = SCRIPTS / f"{name}.py"
    return single if single.exists() else SCRIPTS / name / "main.py"


def test_every_script_has_its_truth() -> None:
    files = {path.stem for path in SCRIPTS.iterdir() if path.suffix == ".py" or path.is_dir()}
    assert files - {"__pycache__"} == set(TRUTH)


@pytest.mark.parametrize("name", TRUTH)
def test_the_selectors_are_read_from_the_text(name: str) -> None:
    reading = read_script(open_script(str(file_of(name))))
    found = {role: finding.selector for role in TRUTH[name][2] if (finding := reading.of(role))}
    assert found == TRUTH[name][2]
    for finding in reading.findings:
        path, _, line = finding.where.rpartition(":")
        assert int(line) <= len(Path(path).read_text().splitlines())


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Path, Done]]:
    """What became of each script: one process that has torch, and a fork for each run."""
    if importlib.util.find_spec("torch") is None:
        pytest.skip("needs torch")
    jobs = {}
    for name in TRUTH:
        place = tmp_path_factory.mktemp(name)
        shutil.copytree(file_of(name).parent, place, dirs_exist_ok=True)
        script = file_of(name).name
        init([str(place / script)], 80)
        jobs[name] = Job(str(place), [["--verify", "--run-dir", "run", script]])
    done = run_all(list(jobs.values()))
    return {
        name: (Path(job.place), one) for (name, job), one in zip(jobs.items(), done, strict=True)
    }


@pytest.mark.parametrize("name", TRUTH)
def test_what_init_writes_passes_verify(ran: dict[str, tuple[Path, Done]], name: str) -> None:
    steps, items, _ = TRUTH[name]
    place, done = ran[name]
    assert done.statuses == [0], done.said
    run = json.loads((place / "run/run.json").read_text())
    verdicts = {check["check"]: check["verdict"] for check in run["verify"]}
    assert verdicts["probes"] == verdicts["step"] == "PASS"
    assert "FAIL" not in verdicts.values()
    train = run["tasks"]["train"]
    assert (train["steps"], train["items"]) == (steps, items)
