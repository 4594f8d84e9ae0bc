"""The messages that docs/errors.md shows are those that voir prints."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.running import Place

from .blocks import ROOT, blocks, contains

EXAMPLES = {b.heading.strip("`"): b.text for b in blocks("text", ROOT / "docs/errors.md")}
GIVE = "from voir import give\n"


@dataclass(frozen=True)
class Case:
    """How to get a message: files, and the command line.

    Attributes:
        mode: The permissions of the directory.
    """

    arguments: tuple[str, ...] = ("main.py",)
    files: dict[str, str] = field(default_factory=dict)
    env: dict[str, str] = field(default_factory=dict)
    mode: int = 0o755


def voirfile(text: str, script: str = "", *arguments: str) -> Case:
    """A run of ``script`` with a voirfile."""
    return Case((*arguments, "main.py"), {"voirfile.py": text, "main.py": script})


COMMANDS = ("init",), ("show",), ("sql",), ("trace",)
NOT_FINITE = "for x in [1, 2]:\n    loss = float('nan')\n"


def usage(*arguments: str, **files: str) -> Case:
    """A command line that is refused; ``__`` in the name of a file stands for a dot."""
    return Case(arguments, {name.replace("__", "."): text for name, text in files.items()})


CASES = {
    "missing-key": voirfile(
        "def instrument_losses(ov):\n    yield ov.phases.init\n    ov.given['loss'].print()\n",
        GIVE + "give(epoch=1)\n",
    ),
    "not-an-instrument": voirfile("instrument_scale = 0.5\n"),
    "not-overridable": voirfile(
        "def instrument_scale(ov):\n"
        "    yield ov.phases.load_script\n"
        "    ov.probe('//main > scale')['scale'].override(1.0)\n",
        "def main():\n    scale = 0.5\n\nmain()\n",
    ),
    "given-twice": voirfile(
        "def instrument_steps(ov):\n"
        "    yield ov.phases.load_script\n"
        "    for _ in range(2):\n"
        "        ov.probe('//train(x as batch) > #endloop_x as step').give()\n",
        "def train():\n    for x in [[1]]:\n        pass\n\ntrain()\n",
    ),
    "nothing-given": voirfile(
        "def instrument_losses(ov):\n"
        "    yield ov.phases.init\n"
        "    ov.given['?loss'].min().print()\n"
    ),
    "option-late": voirfile(
        "def instrument_losses(ov):\n"
        "    yield ov.phases.parse_args\n"
        "    ov.argparser.add_argument('--every')\n"
    ),
    "option-twice": voirfile(
        "def instrument_losses(ov):\n"
        "    yield ov.phases.init\n"
        "    ov.argparser.add_argument('--quiet')\n"
    ),
    "option-type": voirfile(
        "from __future__ import annotations\n"
        "from dataclasses import dataclass\n\n"
        "def instrument_losses(ov):\n"
        "    yield ov.phases.init\n\n"
        "    @dataclass\n"
        "    class Options:\n"
        "        every: Interval = 10\n\n"
        "    ov.argparser.add_from_model('options', Options)\n"
    ),
    "positional-option": voirfile(
        "def instrument_losses(ov):\n"
        "    yield ov.phases.init\n"
        "    ov.argparser.add_argument('every')\n"
    ),
    "unnamed": Case(files={"main.py": "from giving import give\nexec('give(1 + 1)')\n"}),
    "voirfile-empty": voirfile("def probes(ov):\n    yield ov.phases.load_script\n"),
    "config-untrusted": Case(files={"pyproject.toml": "[tool.voir]\nstop = 1\n"}, mode=0o777),
    "async-instrument": voirfile("\n\nasync def instrument_losses(ov):\n    pass\n"),
    "instrument": voirfile(
        "def instrument_timing(ov):\n    yield ov.phases.load_script\n    share = 1 / 0\n"
    ),
    "not-a-dataclass": voirfile(
        "def instrument_losses(ov):\n"
        "    yield ov.phases.init\n\n"
        "    class Options:\n"
        "        every: int = 10\n\n"
        "    ov.argparser.add_from_model('options', Options)\n"
    ),
    "not-a-phase": voirfile("def instrument_losses(ov):\n    yield 'load_script'\n"),
    "not-configurable": voirfile(
        "from voir import configurable\n\n@configurable\ndef instrument_losses(ov, options):\n"
        "    pass\n"
    ),
    "reduction": voirfile(
        "def instrument_losses(ov):\n"
        "    yield ov.phases.init\n"
        "    losses = ov.given['?loss']\n"
        "    losses.average().map(lambda loss: loss + '').print()\n",
        GIVE + "give(loss=1.0)\n",
    ),
    "stuck": voirfile(
        "def instrument_losses(ov):\n    while True:\n        yield ov.phases.init\n"
    ),
    "stop-swallowed": Case(
        ("--stop", "3", "main.py"),
        {
            "main.py": GIVE
            + "for step in range(200):\n    try:\n        give(step=step, batch_size=1)\n"
            "    except:\n        pass\n"
        },
    ),
    "subscriber": voirfile(
        "def instrument_ratio(ov):\n"
        "    yield ov.phases.init\n"
        "    x = ov.given['?x']\n"
        "    x.map(lambda x: 1 / x).print()\n",
        GIVE + "give(x=0)\n",
    ),
    "voirfile-failed": voirfile("import json\nsettings = json.load(open('settings.json'))\n"),
    "voirfile-missing": usage("--voirfile", "probes.py", "main.py"),
    "voirfile-syntax": voirfile("\ndef instrument_probes(ov)\n    yield ov.phases.init\n"),
    "voirfile-untrusted": Case(files={"voirfile.py": ""}, mode=0o777),
    "selector": voirfile(
        "def instrument_losses(ov):\n"
        "    yield ov.phases.load_script\n"
        "    ov.probe('//train > > loss').give()\n"
    ),
    "not-probeable": voirfile(
        "class Model:\n    pass\n\ndef instrument_losses(ov):\n"
        "    ov.probe('Model > loss').give()\n"
    ),
    "silent-probe": voirfile(
        "def instrument_losses(ov):\n"
        "    yield ov.phases.load_script\n"
        "    ov.probe('//train_epoch > loss').give()\n",
        "def train_epoch(batches):\n"
        "    for batch in batches:\n"
        "        loss = 1 / batch\n\ntrain_epoch([])\n",
    ),
    "unresolved-symbol": voirfile(
        "def instrument_losses(ov):\n"
        "    yield ov.phases.load_script\n"
        "    ov.probe('train_epoch > loss').give()\n"
    ),
    "config-malformed": usage("--config", "settings.toml", "main.py", settings__toml="stop = \n"),
    "config-missing": usage("--config", "settings.toml", "main.py"),
    "config-option": usage("--config", "settings.toml", "main.py", settings__toml="run-dri = 'x'"),
    "missing-extra": Case(
        ("--config", "settings.yaml", "main.py"),
        {
            "settings.yaml": "",
            "lib/sitecustomize.py": "import sys\nsys.modules['yaml'] = None\n",
        },
        env={"PYTHONPATH": "lib"},
    ),
    "bad-method": voirfile(
        "from voir.instruments import rate\n\ninstrument_speed = rate(method='steps')\n"
    ),
    "bad-span": usage("--skip", "ten", "main.py"),
    "batch-size": usage(
        "--train-rate",
        "main.py",
        main__py=GIVE + "for step in range(9):\n    give(step=step, batch=object())\n",
    ),
    "entry-point": Case(
        files={
            "lib/gauges-1.0.dist-info/METADATA": "Name: gauges\nVersion: 1.0\n",
            "lib/gauges-1.0.dist-info/entry_points.txt": (
                "[voir.instrument]\ngauges = gauges:instrument\n"
            ),
        },
        env={"PYTHONPATH": "lib"},
    ),
    "option-help": Case(
        ("--help", "main.py"),
        {
            "voirfile.py": "def instrument_losses(ov):\n    yield ov.phases.init\n"
            "    ov.argparser.add_argument('--share', help='the share in %')\n"
        },
    ),
    "no-rate": usage("--train-rate", "main.py"),
    "no-step": usage(
        "main.py",
        main__py="import torch\n\nmodel = torch.nn.Linear(2, 2)\n"
        "torch.optim.SGD(model.parameters())\nfor n in range(60):\n"
        "    model(torch.ones(4, 2)).sum().backward()\n",
    ),
    "late-hooks": voirfile(
        "import torch._dynamo\n\ndef instrument_losses(ov):\n    pass\n", "import torch\n"
    ),
    "not-a-run": usage("show", "src", **{"src/data.py": ""}),
    "run-damaged": usage("show", "run", **{"run/run.json": ""}),
    "run-missing": usage("show", "voir-runs/yesterday"),
    "run-twice": voirfile(
        "from voir.phase import GivenOverseer\n\nclass Pipeline(GivenOverseer):\n"
        "    pass\n\n"
        "def instrument_again(ov):\n"
        "    again = Pipeline([])\n    again()\n    again()\n"
    ),
    "sql": Case(
        ("sql", "run", "select los from events"), {"run/run.json": "{}", "run/metrics.jsonl": ""}
    ),
    "sql-unwritable": usage("sql", "run", "--to", "run.db", run__db="", **{"run/run.json": "{}"}),
    "option-value": Case(env={"VOIR_DEBUG": "perhaps"}),
    "unknown-option": usage("--dahs", "main.py"),
    "app-file": usage("--app", "app.json", "main.py", app__json="[1, 2]", main__py=""),
    "app-object": usage("main.py", main__py="import voir\nvoir.app([1, 2])\n"),
    "unknown-variable": Case(files={"main.py": ""}, env={"VOIR_RUNDIR": "runs/mine"}),
    "tensorboard-nothing": usage("--no-record", "--tensorboard", "logs", "main.py", main__py=""),
    "usage": usage("--quiet=no", "main.py"),
    "no-file": usage("mian.py"),
    "no-function": usage("-m", "json:dumpz"),
    "no-main": usage("src", **{"src/data.py": ""}),
    "no-module": usage("-m", "json.nowhere"),
    "no-script": usage(),
    "init-check": usage("init", "--static", "--check", "main.py", main__py=NOT_FINITE),
    "init-empty": usage("init", "main.py"),
    "init-exists": usage("init", "main.py", main__py="x = 1", voirfile__py=""),
    "init-notebook": usage("init", "main.ipynb", main__ipynb="{}"),
    "init-script": usage("init", "mian.py"),
    "init-syntax": usage("init", "main.py", main__py="while True\n    pass\n"),
    "init-write": usage("init", "-o", "missing/voirfile.py", "main.py", main__py="x = 1"),
    "verify-json": usage("--verify-json", "missing/checks.json", "main.py"),
    "bad-wrap": usage("main.py", main__py=GIVE + "give(**{'$wrap': {'name': 'step', 'id': 1}})\n"),
    "not-sampled": Case(
        files={
            "main.py": "import time\ntime.sleep(0.8)\n",
            "lib/psutil.py": "raise ImportError('no compiled part')\n",
            "voirfile.py": (
                "import os, sys\n"
                "from importlib.util import spec_from_file_location\n"
                "FILE = os.path.abspath('lib/psutil.py')\n\n"
                "class Broken:\n"
                "    @staticmethod\n"
                "    def find_spec(name, *more):\n"
                "        if name == 'psutil': return spec_from_file_location(name, FILE)\n\n"
                "sys.meta_path.insert(0, Broken)\n"
            ),
        },
    ),
    "data-fd": Case(env={"DATA_FD": "99"}),
    "no-trace": Case(
        ("trace", "summary", "voir-runs/20260102T030405-main-77"),
        {"voir-runs/20260102T030405-main-77/run.json": "{}"},
    ),
    "not-a-trace": usage("trace", "summary", "results.json", results__json="[1, 2]"),
    "span-selector": voirfile(
        "def instrument_timeline(ov):\n"
        "    yield ov.phases.load_script\n"
        '    ov.span("//train_epoch > loss")\n'
    ),
    "trace-channels": usage("--trace", "--trace-channels", "stepz", "main.py"),
    "trace-nowhere": usage("--trace", "--no-record", "main.py"),
    "trace-rank": Case(
        ("--trace", "--trace-rank", "4", "main.py"), env={"RANK": "0", "WORLD_SIZE": "4"}
    ),
    "trace-settings": Case(env={"VOIR_TRACE": '{"enable": tru}'}),
    "trace-unasked": usage("--trace-steps", "1:3", "main.py"),
    "trace-steps": Case(
        ("--trace", "--trace-steps", "1000:1010", "main.py"),
        {"main.py": GIVE + "for number in range(135):\n    give(step=number)\n"},
    ),
    "record-unwritable": Case(files={"main.py": GIVE + "give(x=1)\n", "voir-runs": ""}),
    "run-dir-not-a-directory": usage("--run-dir", "main.py", "main.py"),
    "run-dir-taken": usage("--run-dir", "run", "main.py", **{"run/run.json": "{}"}),
}


def said(case: Case, path: Path) -> str:
    """What voir says in a directory that the documentation calls ``/project``."""
    place = Place(path)
    place.write("main.py", "")
    for name, text in case.files.items():
        place.write(name, text)
    path.chmod(case.mode)
    quiet = [] if case.arguments[:1] in COMMANDS else ["--quiet"]
    stderr = place.voir(*quiet, *case.arguments, env=case.env).stderr
    return stderr.replace(str(path), "/project").replace(
        sys.executable, "/project/.venv/bin/python"
    )


@pytest.mark.parametrize("slug", CASES)
def test_the_message_shown_is_the_one_that_is_printed(slug: str, tmp_path: Path) -> None:
    actual = said(CASES[slug], tmp_path)
    assert contains(EXAMPLES[slug], actual), f"it says:\n{actual}"
