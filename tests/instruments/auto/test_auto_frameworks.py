"""Loops of frameworks need nothing more: each is run as it is, in an environment with them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="torch comes with the extra [examples]")

ROOT = Path(__file__).parents[3]
#: Within their major versions: what is tested is that voir keeps up with them.
FRAMEWORKS = ["lightning>=2.6,<3", "accelerate>=1.15,<2", "transformers>=5.23,<6"]


@pytest.fixture(scope="module")
def python() -> Path:
    """The python of an environment in the tree with the frameworks, which shares this one's torch.

    It is made once, and again when what is to be in it changes.
    """
    home = ROOT / ".venv-frameworks"
    stamp, wanted = home / "installed", " ".join([*FRAMEWORKS, sys.version])
    if not stamp.exists() or stamp.read_text() != wanted:
        subprocess.run([sys.executable, "-m", "venv", "--clear", home], check=True, timeout=120)
        ours = sysconfig.get_paths()["purelib"]
        (home / Path(ours).relative_to(sys.prefix) / "shared.pth").write_text(ours)
        pip = [home / "bin/python", "-m", "pip", "install", "-q", "--disable-pip-version-check"]
        done = subprocess.run([*pip, *FRAMEWORKS], capture_output=True, timeout=400)
        if done.returncode:
            pytest.skip(f"the frameworks cannot be installed: {done.stderr[-300:]!r}")
        stamp.write_text(wanted)
    return home / "bin/python"


@pytest.mark.slow
@pytest.mark.parametrize("framework", ["accelerate", "lightning", "transformers"])
def test_steps_and_items_are_the_true_ones(framework: str, python: Path, tmp_path: Path) -> None:
    script = Path(__file__).with_name("frameworks") / f"with_{framework}.py"
    run = tmp_path / "run"
    environ = {k: v for k, v in os.environ.items() if not k.startswith(("VOIR", "PYTEST"))}
    done = subprocess.run(
        [python, "-m", "voir", "--no-voirfile", "--run-dir", run, script],
        cwd=tmp_path,
        env={**environ, "PYTHONPATH": str(ROOT), "HF_HUB_OFFLINE": "1"},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    record = json.loads((run / "run.json").read_text())
    assert record["problems"] == []
    tasks = {name: [task["steps"], task["items"]] for name, task in record["tasks"].items()}
    assert tasks == json.loads(done.stdout.splitlines()[-1])
