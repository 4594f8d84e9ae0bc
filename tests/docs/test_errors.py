"""The messages that docs/errors.md shows are those that voir prints."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.running import Place

from .blocks import ROOT, blocks, contains

EXAMPLES = {b.heading.strip("`"): b.text for b in blocks("text", ROOT / "docs/errors.md")}
GIVE = "from voir import give\n"


class Case:
    """How to get a message.

    Args:
        arguments: The command line; ``main.py`` where there are none.
        script: The text of ``main.py``, and ``voirfile`` of that.
        files: Further ones, by their names.
        env: Of the environment.
        mode: The permissions of the directory.
    """

    def __init__(
        self, *arguments: str, script: str = "", voirfile: str | None = None,
        files: dict[str, str] | None = None, env: dict[str, str] | None = None, mode: int = 0o755,
    ) -> None:  # fmt: skip
        own = {} if voirfile is None else {"voirfile.py": voirfile}
        self.arguments, self.files = arguments or ("main.py",), {**own, **(files or {})}
        self.script, self.env, self.mode = script, env or {}, mode


def instrument(name: str, phase: str, *lines: str, script: str = "") -> Case:
    """A run of ``script`` with an instrument that does something behind a phase."""
    body = "\n    ".join([f"def instrument_{name}(ov):", f"yield ov.phases.{phase}", *lines])
    return Case(script=script, voirfile=f"{body}\n")


SETTINGS = "--config", "settings.toml", "main.py"
COMMANDS = ("init", "show", "sql", "trace")
NOT_FINITE = "for x in [1, 2]:\n    loss = float('nan')\n"
TRAIN = "def train():\n    for x in [[1]]:\n        pass\n\ntrain()\n"
EPOCH = """def train_epoch(batches):
    for batch in batches:
        loss = 1 / batch

train_epoch([])
"""
BACKWARDS = """import torch

model = torch.nn.Linear(2, 2)
torch.optim.SGD(model.parameters())
for n in range(60):
    model(torch.ones(4, 2)).sum().backward()
"""
SWALLOWS = """for step in range(200):
    try:
        give(step=step, batch_size=1)
    except:
        pass
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
RUN = {"run/run.json": "{}"}
EMPTY = "voir-runs/20260102T030405-main-77"

CASES = {
    "missing-key": instrument(
        "losses", "init", "ov.given['loss'].print()", script=GIVE + "give(epoch=1)\n"
    ),
    "not-an-instrument": Case(voirfile="instrument_scale = 0.5\n"),
    "not-overridable": instrument(
        "scale", "load_script", "ov.probe('//main > scale')['scale'].override(1.0)",
        script="def main():\n    scale = 0.5\n\nmain()\n",
    ),
    "given-twice": instrument(
        "steps", "load_script", "for _ in range(2):",
        "    ov.probe('//train(x as batch) > #endloop_x as step').give()", script=TRAIN,
    ),
    "nothing-given": instrument("losses", "init", "ov.given['?loss'].min().print()"),
    "option-late": instrument("losses", "parse_args", "ov.argparser.add_argument('--every')"),
    "option-twice": instrument("losses", "init", "ov.argparser.add_argument('--quiet')"),
    "option-type": Case(voirfile=OPTIONS),
    "positional-option": instrument("losses", "init", "ov.argparser.add_argument('every')"),
    "unnamed": Case(script="from giving import give\nexec('give(1 + 1)')\n"),
    "voirfile-empty": Case(voirfile="def probes(ov):\n    yield ov.phases.load_script\n"),
    "config-untrusted": Case(files={"pyproject.toml": "[tool.voir]\nstop = 1\n"}, mode=0o777),
    "async-instrument": Case(voirfile="\n\nasync def instrument_losses(ov):\n    pass\n"),
    "instrument": instrument("timing", "load_script", "share = 1 / 0"),
    "not-a-dataclass": instrument(
        "losses", "init", "", "class Options:", "    every: int = 10", "",
        "ov.argparser.add_from_model('options', Options)",
    ),
    "not-a-phase": Case(voirfile="def instrument_losses(ov):\n    yield 'load_script'\n"),
    "not-configurable": Case(
        voirfile="from voir import configurable\n\n"
        "@configurable\ndef instrument_losses(ov, options):\n    pass\n"
    ),
    "reduction": instrument(
        "losses", "init", "losses = ov.given['?loss']",
        "losses.average().map(lambda loss: loss + '').print()", script=GIVE + "give(loss=1.0)\n",
    ),
    "stuck": Case(
        voirfile="def instrument_losses(ov):\n    while True:\n        yield ov.phases.init\n"
    ),
    "stop-swallowed": Case("--stop", "3", "main.py", script=GIVE + SWALLOWS),
    "subscriber": instrument(
        "ratio", "init", "x = ov.given['?x']", "x.map(lambda x: 1 / x).print()",
        script=GIVE + "give(x=0)\n",
    ),
    "voirfile-failed": Case(voirfile="import json\nsettings = json.load(open('settings.json'))\n"),
    "voirfile-missing": Case("--voirfile", "probes.py", "main.py"),
    "voirfile-syntax": Case(voirfile="\ndef instrument_probes(ov)\n    yield ov.phases.init\n"),
    "voirfile-untrusted": Case(voirfile="", mode=0o777),
    "selector": instrument("losses", "load_script", "ov.probe('//train > > loss').give()"),
    "not-probeable": Case(
        voirfile="class Model:\n    pass\n\n"
        "def instrument_losses(ov):\n    ov.probe('Model > loss').give()\n"
    ),
    "silent-probe": instrument(
        "losses", "load_script", "ov.probe('//train_epoch > loss').give()", script=EPOCH
    ),
    "unresolved-symbol": instrument(
        "losses", "load_script", "ov.probe('train_epoch > loss').give()"
    ),
    "config-malformed": Case(*SETTINGS, files={"settings.toml": "stop = \n"}),
    "config-missing": Case(*SETTINGS),
    "config-option": Case(*SETTINGS, files={"settings.toml": "run-dri = 'x'"}),
    "missing-extra": Case(
        "--config", "settings.yaml", "main.py", files=NO_YAML, env={"PYTHONPATH": "lib"}
    ),
    "bad-method": Case(
        voirfile="from voir.instruments import rate\n\ninstrument_speed = rate(method='steps')\n"
    ),
    "bad-span": Case("--skip", "ten", "main.py"),
    "batch-size": Case(
        "--train-rate", "main.py",
        script=GIVE + "for step in range(9):\n    give(step=step, batch=object())\n",
    ),
    "entry-point": Case(files=GAUGES, env={"PYTHONPATH": "lib"}),
    "option-help": Case(
        "--help", "main.py", voirfile="def instrument_losses(ov):\n    yield ov.phases.init\n"
        "    ov.argparser.add_argument('--share', help='the share in %')\n",
    ),
    "no-rate": Case("--train-rate", "main.py"),
    "no-step": Case(script=BACKWARDS),
    "late-hooks": Case(
        script="import torch\n",
        voirfile="import torch._dynamo\n\ndef instrument_losses(ov):\n    pass\n",
    ),
    "not-a-run": Case("show", "src", files={"src/data.py": ""}),
    "run-damaged": Case("show", "run", files={"run/run.json": ""}),
    "run-missing": Case("show", "voir-runs/yesterday"),
    "run-twice": Case(voirfile=AGAIN),
    "sql": Case("sql", "run", "select los from events", files={**RUN, "run/metrics.jsonl": ""}),
    "sql-unwritable": Case("sql", "run", "--to", "run.db", files={**RUN, "run.db": ""}),
    "option-value": Case(env={"VOIR_DEBUG": "perhaps"}),
    "unknown-option": Case("--dahs", "main.py"),
    "app-file": Case("--app", "app.json", "main.py", files={"app.json": "[1, 2]"}),
    "app-object": Case(script="import voir\nvoir.app([1, 2])\n"),
    "unknown-variable": Case(env={"VOIR_RUNDIR": "runs/mine"}),
    "tensorboard-nothing": Case("--no-record", "--tensorboard", "logs", "main.py"),
    "usage": Case("--quiet=no", "main.py"),
    "no-file": Case("mian.py"),
    "no-function": Case("-m", "json:dumpz"),
    "no-main": Case("src", files={"src/data.py": ""}),
    "no-module": Case("-m", "json.nowhere"),
    "no-script": Case("--quiet"),
    "init-check": Case("init", "--static", "--check", "main.py", script=NOT_FINITE),
    "init-empty": Case("init", "main.py"),
    "init-exists": Case("init", "main.py", script="x = 1", voirfile=""),
    "init-notebook": Case("init", "main.ipynb", files={"main.ipynb": "{}"}),
    "init-script": Case("init", "mian.py"),
    "init-syntax": Case("init", "main.py", script="while True\n    pass\n"),
    "init-write": Case("init", "-o", "missing/voirfile.py", "main.py", script="x = 1"),
    "verify-json": Case("--verify-json", "missing/checks.json", "main.py"),
    "bad-wrap": Case(script=GIVE + "give(**{'$wrap': {'name': 'step', 'id': 1}})\n"),
    "not-sampled": Case(
        script="import time\ntime.sleep(0.8)\n", voirfile=BROKEN,
        files={"lib/psutil.py": "raise ImportError('no compiled part')\n"},
    ),
    "data-fd": Case(env={"DATA_FD": "99"}),
    "no-trace": Case("trace", "summary", EMPTY, files={f"{EMPTY}/run.json": "{}"}),
    "not-a-trace": Case("trace", "summary", "results.json", files={"results.json": "[1, 2]"}),
    "span-selector": instrument("timeline", "load_script", 'ov.span("//train_epoch > loss")'),
    "trace-channels": Case("--trace", "--trace-channels", "stepz", "main.py"),
    "trace-nowhere": Case("--trace", "--no-record", "main.py"),
    "trace-rank": Case(
        "--trace", "--trace-rank", "4", "main.py", env={"RANK": "0", "WORLD_SIZE": "4"}
    ),
    "trace-settings": Case(env={"VOIR_TRACE": '{"enable": tru}'}),
    "trace-unasked": Case("--trace-steps", "1:3", "main.py"),
    "trace-steps": Case(
        "--trace", "--trace-steps", "1000:1010", "main.py",
        script=GIVE + "for number in range(135):\n    give(step=number)\n",
    ),
    "record-unwritable": Case(script=GIVE + "give(x=1)\n", files={"voir-runs": ""}),
    "run-dir-not-a-directory": Case("--run-dir", "main.py", "main.py"),
    "run-dir-taken": Case("--run-dir", "run", "main.py", files=RUN),
}  # fmt: skip


def said(case: Case, path: Path) -> str:
    """What voir says in a directory that the documentation calls ``/project``."""
    place = Place(path)
    place.write("main.py", case.script)
    for name, text in case.files.items():
        place.write(name, text)
    path.chmod(case.mode)
    quiet = [] if case.arguments[0] in COMMANDS else ["--quiet"]
    stderr = place.voir(*quiet, *case.arguments, env=case.env).stderr
    said = stderr.replace(str(path), "/project")
    return said.replace(sys.executable, "/project/.venv/bin/python")


@pytest.mark.parametrize("slug", CASES)
def test_the_message_shown_is_the_one_that_is_printed(slug: str, tmp_path: Path) -> None:
    actual = said(CASES[slug], tmp_path)
    assert contains(EXAMPLES[slug], actual), f"it says:\n{actual}"
