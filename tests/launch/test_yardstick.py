"""CPython's own test_cmd_line_script, with ``python SCRIPT`` replaced by ``voir SCRIPT``."""

import re
import subprocess
from types import SimpleNamespace

import pytest

pytest.importorskip("test.test_cmd_line_script", reason="this python is without its tests")
from test.support import script_helper
from test.test_cmd_line_script import CmdLineTest  # noqa: F401

pytestmark = pytest.mark.filterwarnings("ignore")
#: Tests that give python no program to run (``-c``, stdin, the prompt): left as they are.
NO_PROGRAM = re.compile("dash_c_|_repl_|_stdin_loader|_running_source")
VALUED = {"-W", "-X", "--check-hash-based-pycs"}


def replace(command, entry):
    """``python FLAGS PROGRAM ...`` with ``entry`` between the flags and the program."""
    python, *rest = command
    flags = []
    while rest and rest[0].startswith("-") and rest[0] != "-":
        flag = rest.pop(0)
        letters = set(flag) if not flag.startswith("--") and flag not in VALUED else set()
        if letters & {"c", "i"}:
            return command
        if "m" in letters:
            flags += [flag.replace("m", "")] if flag != "-m" else []
            return [python, *flags, *entry, "-m", *rest]
        flags += [flag, rest.pop(0)] if flag in VALUED else [flag]
    return [python, *flags, *entry, *rest] if rest else command


@pytest.fixture(autouse=True)
def voir_runs_what_it_can(sides, monkeypatch, request):
    """Each test of CPython's has at least one program that voir runs."""
    ran = []

    def popen(command, **options):
        changed = replace(command, sides.command("voir", [])[1:])
        ran.append(changed != command)
        return subprocess.Popen(changed, **options)

    monkeypatch.chdir(sides.root)
    fake = SimpleNamespace(**{**vars(subprocess), "Popen": popen})
    monkeypatch.setattr(script_helper, "subprocess", fake)
    yield
    assert any(ran) or NO_PROGRAM.search(request.node.name)
