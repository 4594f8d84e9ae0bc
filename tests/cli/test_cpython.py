"""CPython's own tests of the language, with probes on their code: the outcome is the same."""

from __future__ import annotations

import ast
import importlib.util
import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from overseer.probes.scopes import loops, scopes
from tests.running import Place

#: One is tried every time.
MODULES = [
    "generators",
    *(
        pytest.param(name, marks=pytest.mark.slow)
        for name in ("grammar", "coroutines", "patma", "scope", "with")
    ),
]

#: What it prints is the outcome: how many tests ran, which were skipped, which failed and how.
SCRIPT = """
import io
import json
import unittest

from test import test_{name} as module

suite = unittest.defaultTestLoader.loadTestsFromModule(module)
done = unittest.TextTestRunner(stream=io.StringIO(), verbosity=0).run(suite)
print(done.testsRun, [str(test) for test, why in done.skipped])
for test, traceback in done.failures + done.errors:
    print(test, traceback)
"""

VOIRFILE = """
import json

with open("selectors.json") as file:
    selectors = json.load(file)

def instrument_everything(ov):
    yield ov.phases.{phase}
    count = 0
    def seen(event):
        nonlocal count
        count += 1
    for selector in selectors:
        ov.probe(selector).subscribe(seen)
    yield ov.phases.finalize
    with open("count", "w") as file:
        file.write(str(count))
"""


def selectors(module: str) -> Iterator[str]:
    """Probes for every variable, loop and marker of every class and function in ``module``."""
    try:
        spec = importlib.util.find_spec(module)
    except ImportError:
        spec = None
    if spec is None or spec.origin is None:
        pytest.skip(f"this Python comes without {module}")
    for scope in scopes(ast.parse(Path(spec.origin).read_bytes())):
        # ptera's grammar takes ASCII names only.
        names = [name for name in scope.bound if name.isascii()]
        names += [f"#{end}_{name}" for name in names if loops(scope, name)
                  for end in ("loop", "endloop")]  # fmt: skip
        if scope.is_function:
            names += ["#enter", "#exit", "#value", "#error"]
        if any(isinstance(node, ast.Yield) for node in scope.own):
            names += ["#yield", "#receive"]
        yield from (f"{'/'.join(('', module, *scope.path))} > {name}" for name in names)


@pytest.mark.parametrize("phase", ["parse_args", "load_script"])
@pytest.mark.parametrize("name", MODULES)
def test_the_tests_end_the_same_with_probes_on_all_they_have(
    tmp_path: Path, name: str, phase: str
) -> None:
    chosen = [*dict.fromkeys(selectors(f"test.test_{name}"))]
    assert len(chosen) > 800
    early = phase == "parse_args"
    if not early:
        chosen = chosen[:: len(chosen) // 30]  # Each recompiles its class, imported already.
    place = Place(tmp_path)
    place.write("main.py", SCRIPT.format(name=name))
    place.write("vf.py", VOIRFILE.format(phase=phase))
    place.write("selectors.json", json.dumps(chosen))
    plain = place.python("main.py")
    under = place.voir("--quiet", "--no-record", "--voirfile", "vf.py", "main.py")
    assert plain.status == under.status == 0, under.stderr
    assert under.stdout == plain.stdout
    assert int((tmp_path / "count").read_text()) > (500 if early else 5)
