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

pytestmark = pytest.mark.slow

MODULES = ("grammar", "generators", "coroutines", "patma", "scope", "with")

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


def source(module: str) -> bytes:
    """The source of one of CPython's tests."""
    try:
        spec = importlib.util.find_spec(module)
    except ImportError:
        spec = None
    if spec is None or spec.origin is None:
        pytest.skip(f"this Python comes without {module}")
    return Path(spec.origin).read_bytes()


def selectors(module: str) -> list[str]:
    """Probes for every variable, loop and marker of every class and function in ``module``."""
    return list(dict.fromkeys(_selectors(module)))


def _selectors(module: str) -> Iterator[str]:
    for scope in scopes(ast.parse(source(module))):
        code = "/".join(("", module, *scope.path))
        # ptera's grammar takes ASCII names only.
        variables = [name for name in scope.bound if name.isascii()]
        for name in variables:
            yield f"{code} > {name}"
            if loops(scope, name):
                yield f"{code} > #loop_{name}"
                yield f"{code} > #endloop_{name}"
        if scope.is_function:
            yield from (f"{code} > {marker}" for marker in ("#enter", "#exit", "#value", "#error"))
        if any(isinstance(node, ast.Yield) for node in scope.own):
            yield from (f"{code} > #yield", f"{code} > #receive")


def outcomes(place: Place, name: str, phase: str, chosen: list[str]) -> tuple[str, str, int]:
    """What the tests say by themselves and under voir, and how many events there were."""
    place.write("main.py", SCRIPT.format(name=name))
    place.write("vf.py", VOIRFILE.format(phase=phase))
    place.write("selectors.json", json.dumps(chosen))
    plain = place.python("main.py")
    under = place.voir("--quiet", "--no-record", "--voirfile", "vf.py", "main.py")
    assert plain.status == under.status == 0, under.stderr
    return plain.stdout, under.stdout, int((place.path / "count").read_text())


@pytest.mark.parametrize("name", MODULES)
def test_the_tests_end_the_same_with_probes_on_all_they_have(tmp_path: Path, name: str) -> None:
    chosen = selectors(f"test.test_{name}")
    plain, under, events = outcomes(Place(tmp_path), name, "parse_args", chosen)
    assert under == plain
    assert len(chosen) > 800
    assert events > 500


@pytest.mark.parametrize("name", MODULES)
def test_the_tests_end_the_same_when_probes_come_after_they_were_imported(
    tmp_path: Path, name: str
) -> None:
    every = selectors(f"test.test_{name}")
    chosen = every[:: len(every) // 30]  # Each recompiles its class.
    plain, under, events = outcomes(Place(tmp_path), name, "load_script", chosen)
    assert under == plain
    assert events > 5
