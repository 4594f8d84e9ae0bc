"""The messages that docs/errors.md shows are those that voir prints, and end it as it says."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.running import Place

from .blocks import ROOT, blocks, contains

EXAMPLES = {b.heading.strip("`"): b.text for b in blocks("text", ROOT / "docs/errors.md")}
GIVE = "from voir import give\n"
RAN = "print('ran')\n"
NONE: dict[str, str] = {}


class Case(NamedTuple):
    """How to get a message: a command line, the text of ``main.py``, further files."""

    arguments: str = "main.py"
    script: str = RAN
    files: Mapping[str, str] = NONE
    env: Mapping[str, str] = NONE
    mode: int = 0o755


def voirfile(text: str, arguments: str = "main.py", script: str = RAN, mode: int = 0o755) -> Case:
    return Case(arguments, script, {"voirfile.py": text}, mode=mode)


def losses(
    *lines: str, phase: str = "init", script: str = RAN, name: str = "losses", argv: str = "main.py"
) -> Case:
    """A run of ``script`` with an instrument that does something behind a phase."""
    body = [f"def instrument_{name}(ov):", f"yield ov.phases.{phase}", *lines]
    return voirfile("\n    ".join(body) + "\n", argv, script)


def load(name: str, *lines: str, script: str = RAN) -> Case:
    return losses(*lines, phase="load_script", script=script, name=name)


ENDED_RUN = '{"schema": 2, "ended": "2026-01-01T00:00:00Z", "started": "2026-01-01T00:00:00Z"}'
TRAIN = "def train():\n    for x in [[1]]:\n        pass\n\ntrain()\n"
EPOCH = "def train_epoch(x):\n    for batch in x:\n        loss = 1 / batch\n\ntrain_epoch([])\n"
BACKWARDS = """import torch
model = torch.nn.Linear(2, 2)
torch.optim.SGD(model.parameters())
for n in range(60):
    model(torch.ones(4, 2)).sum().backward()
"""
#: At once instead of after a minute.
HURRIES = """from overseer.model import hangs as texts
from overseer.rundir import hangs, killed, recording
killed.IDLE_SECONDS, killed.IDLE_STEPS = 0.1, 0
killed.HANG_SECONDS, killed.HANG_STEPS, recording.INTERVAL = 0.2, 0, 0.1
texts.hang_text = hangs.hang_text = lambda idle: "no step for 62 s"
__instruments__ = []
"""
HANGS = """import data
def train():
    for step in range(3):
        give(step=step, batch_size=1)
        if step == 2:
            data.fetch(1.5)

train()
"""
SWALLOWS = """for step in range(200):
    try:
        give(step=step, batch_size=1)
    except: pass
"""
OPTIONS = """from __future__ import annotations
from dataclasses import dataclass

def instrument_losses(ov):
    yield ov.phases.init

    @dataclass
    class Options:
        every: Interval = 10

    ov.argparser.add_from_model('options', Options)
"""
AGAIN = """from voir.phase import GivenOverseer

class Pipeline(GivenOverseer):
    pass

def instrument_again(ov):
    again = Pipeline([])
    again()
    again()
"""
BROKEN = """import os, sys
from importlib.util import spec_from_file_location
FILE = os.path.abspath('lib/psutil.py')
class Broken:
    @staticmethod
    def find_spec(name, *more):
        if name == 'psutil': return spec_from_file_location(name, FILE)
sys.meta_path.insert(0, Broken)
"""
GAUGES = {
    "lib/gauges-1.0.dist-info/METADATA": "Name: gauges\nVersion: 1.0\n",
    "lib/gauges-1.0.dist-info/entry_points.txt": "[voir.instrument]\ngauges = gauges:instrument\n",
}
NO_YAML = {"settings.yaml": "", "lib/sitecustomize.py": "import sys\nsys.modules['yaml'] = None\n"}
NO_PSUTIL = {"voirfile.py": BROKEN, "lib/psutil.py": "raise ImportError('no compiled part')\n"}
LIB = {"PYTHONPATH": "lib"}
RUN = {"run/run.json": "{}"}
EMPTY = "voir-runs/20260102T030405-main-77"
CONFIGURABLE = """from voir import configurable

@configurable
def instrument_losses(ov, options): pass
"""
PLAIN_CLASS = "class Model:\n    pass\n\ndef instrument_losses(ov):\n    ov.probe('Model > loss')\n"
RATE = "from voir.instruments import rate\n\ninstrument_speed = rate(method='steps')\n"
SETTINGS = "--config settings.toml main.py"

#: The script runs, and ends with a status of its own.
TOLD = {
    "missing-key": losses("ov.given['loss'].print()", script=GIVE + "give(epoch=1)\n"),
    "not-an-instrument": voirfile("instrument_scale = 0.5\n"),
    "not-overridable": load("scale", "ov.probe('//main > scale')['scale'].override(1.0)",
                            script="def main():\n    scale = 0.5\n\nmain()\n"),
    "given-twice": load("steps", "for _ in range(2):", "    ov.probe('//train(x as batch) > "
                        "#endloop_x as step').give()", script=TRAIN),
    "nothing-given": losses("ov.given['?loss'].min().print()"),
    "option-late": losses("ov.argparser.add_argument('--every')", phase="parse_args"),
    "option-twice": losses("ov.argparser.add_argument('--quiet')"),
    "option-type": voirfile(OPTIONS),
    "positional-option": losses("ov.argparser.add_argument('every')"),
    "unnamed": Case(script="from giving import give\nexec('give(1 + 1)')\n"),
    "voirfile-empty": voirfile("def probes(ov):\n    yield ov.phases.load_script\n"),
    "data-parallel": load("pipelines", "ov.data_parallel(2, 2)"),
    "pipeline": load("stages", "ov.pipeline(2, 2)"),
    "config-untrusted": Case(files={"pyproject.toml": "[tool.voir]\nstop = 1\n"}, mode=0o777),
    "async-instrument": voirfile("\n\nasync def instrument_losses(ov):\n    pass\n"),
    "instrument": load("timing", "share = 1 / 0"),
    "not-a-dataclass": losses("", "class Options:", "    every: int = 10", "",
                              "ov.argparser.add_from_model('options', Options)"),
    "not-a-phase": voirfile("def instrument_losses(ov):\n    yield 'load_script'\n"),
    "not-configurable": voirfile(CONFIGURABLE),
    "reduction": losses("losses = ov.given['?loss']", "losses.average().map(lambda loss: loss + '')"
                        ".print()", script=GIVE + "give(loss=1.0)\n"),
    "stuck": voirfile("def instrument_losses(ov):\n    while 1:\n        yield ov.phases.init\n"),
    "stop-swallowed": Case("--stop 3 main.py", GIVE + SWALLOWS),
    "subscriber": losses("x = ov.given['?x']", "x.map(lambda x: 1 / x).print()",
                         script=GIVE + "give(x=0)\n", name="ratio"),
    "voirfile-failed": voirfile("import json\nsettings = json.load(open('settings.json'))\n"),
    "voirfile-syntax": voirfile("\ndef instrument_probes(ov)\n    yield ov.phases.init\n"),
    "voirfile-untrusted": voirfile("", mode=0o777),
    "selector": load("losses", "ov.probe('//train > > loss').give()"),
    "not-probeable": voirfile(PLAIN_CLASS),
    "silent-probe": load("losses", "ov.probe('//train_epoch > loss').give()", script=EPOCH),
    "unresolved-symbol": load("losses", "ov.probe('train_epoch > loss').give()"),
    "bad-method": voirfile(RATE),
    "batch-size": Case("--train-rate main.py",
                       GIVE + "for step in range(9): give(step=step, batch=object())\n"),
    "loss-unread": Case(script=GIVE + "for step in range(9): give(loss=object())\n"),
    "entry-point": Case(files=GAUGES, env=LIB),
    "no-rate": Case("--train-rate main.py", EPOCH),
    "no-step": Case(script=BACKWARDS),
    "late-hooks": voirfile("import torch._dynamo\n\ndef instrument_losses(ov):\n    pass\n",
                           script="import torch\n"),
    "run-twice": voirfile(AGAIN),
    "app-object": Case(script="import voir\nvoir.app([1, 2])\n"),
    "unknown-variable": Case(env={"VOIR_RUNDIR": "runs/mine"}),
    "tensorboard-nothing": Case("--no-record --tensorboard logs main.py"),
    "verify-json": Case("--verify-json missing/checks.json main.py"),
    "bad-wrap": Case(script=GIVE + "give(**{'$wrap': {'name': 'step', 'id': 1}})\n"),
    "not-sampled": Case(script="import time\ntime.sleep(0.8)\n", files=NO_PSUTIL),
    "data-fd": Case(env={"DATA_FD": "99"}),
    "span-selector": load("timeline", 'ov.span("//train_epoch > loss")'),
    "trace-channels": Case("--trace --trace-channels stepz main.py"),
    "trace-nowhere": Case("--trace --no-record main.py"),
    "hang": Case("--run-dir run main.py", GIVE + HANGS,
                 {"voirfile.py": HURRIES, "data.py": "from time import sleep as fetch\n"}),
    "no-such-rank": Case("--trace --trace-rank 4 main.py", env={"RANK": "0", "WORLD_SIZE": "4"}),
    "trace-unasked": Case("--trace-steps 1:3 main.py"),
    "trace-steps": Case("--trace --trace-steps 1000:1010 main.py",
                        GIVE + "for number in range(135): give(step=number)\n"),
    "record-unwritable": Case(script=GIVE + "give(x=1)\ngive(x=2)\n", files={"voir-runs": ""}),
    "on-end": Case("--on-end true main.py", files={"voir-runs": ""}),
    "steps-damaged": Case("sql run 'select * from steps'", "",
                          files={**RUN, "run/metrics.jsonl": "", "run/steps.npy": "step"}),
}  # fmt: skip
#: The script does not run.
STARTS = """import subprocess, sys
for _ in range(4):
    subprocess.run([sys.executable, "train.py"])
"""
TOLD["other-processes"] = Case("--no-monitor main.py", STARTS, {"train.py": ""})
REFUSED = {
    "voirfile-missing": Case("--voirfile probes.py main.py"),
    "config-malformed": Case(SETTINGS, files={"settings.toml": "stop = \n"}),
    "config-missing": Case(SETTINGS),
    "config-option": Case(SETTINGS, files={"settings.toml": "run-dri = 'x'"}),
    "missing-extra": Case("--config settings.yaml main.py", files=NO_YAML, env=LIB),
    "bad-span": Case("--skip ten main.py"),
    "option-help": losses("ov.argparser.add_argument('--share', help='the share in %')",
                          argv="--help main.py"),
    "not-a-run": Case("show src", files={"src/data.py": ""}),
    "run-damaged": Case("show run", files={"run/run.json": ""}),
    "no-answer": Case("stop run", files={"run/run.json": ENDED_RUN}),
    "run-missing": Case("show voir-runs/yesterday"),
    "sql": Case("sql run 'select los from events'", files={**RUN, "run/metrics.jsonl": ""}),
    "sql-unwritable": Case("sql run --to run.db", files={**RUN, "run.db": ""}),
    "option-value": Case(env={"VOIR_DEBUG": "perhaps"}),
    "unknown-option": Case("--dahs main.py"),
    "app-file": Case("--app app.json main.py", files={"app.json": "[1, 2]"}),
    "usage": Case("--quiet=no main.py"),
    "no-file": Case("mian.py"),
    "no-function": Case("-m json:dumpz"),
    "no-main": Case("src", files={"src/data.py": ""}),
    "no-module": Case("-m json.nowhere"),
    "no-script": Case("--quiet"),
    "init-check": Case("init --check main.py",
                       "for x in [1, 2]:\n    loss = float('nan')\n"),
    "init-empty": Case("init main.py", ""),
    "init-exists": voirfile("", "init main.py"),
    "init-notebook": Case("init main.ipynb", files={"main.ipynb": "{}"}),
    "init-script": Case("init mian.py"),
    "init-syntax": Case("init main.py", "while True\n    pass\n"),
    "init-write": Case("init -o missing/voirfile.py main.py"),
    "no-trace": Case("trace summary " + EMPTY, files={f"{EMPTY}/run.json": "{}"}),
    "not-a-trace": Case("trace summary results.json", files={"results.json": "[1, 2]"}),
    "trace-settings": Case(env={"VOIR_TRACE": '{"enable": tru}'}),
    "run-dir-not-a-directory": Case("--run-dir main.py main.py"),
    "run-dir-taken": Case("--run-dir run main.py", files=RUN),
}  # fmt: skip
CASES = TOLD | REFUSED


@pytest.mark.parametrize("slug", CASES)
def test_the_message_shown_is_the_one_that_is_printed(slug: str, tmp_path: Path) -> None:
    case, place = CASES[slug], Place(tmp_path)
    for name, text in {"main.py": case.script, **case.files}.items():
        place.write(name, text)
    tmp_path.chmod(case.mode)
    command = case.arguments.split(" ")[0] in ("init", "show", "sql", "stop", "trace")
    quiet = [] if command else ["--quiet"]
    warm = slug == "no-step"  # The other that imports torch is about when that is.
    done = place.voir(*quiet, *shlex.split(case.arguments), env=case.env, warm=warm)
    # The documentation's directory is called /project.
    actual = done.stderr.replace(str(tmp_path), "/project")
    actual = actual.replace(sys.executable, "/project/.venv/bin/python")
    assert contains(EXAMPLES[slug], actual), f"it says:\n{actual}"
    assert actual.count(f"[{slug}]") == 1
    python = slug in ("no-function", "no-main", "no-module")  # Python's own status is 1.
    assert done.status == (slug in REFUSED) * (1 if python else 2)
    assert (done.stdout == "ran\n") == (slug in TOLD and case.script == RAN)
