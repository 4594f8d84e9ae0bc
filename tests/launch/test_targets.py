"""What can be run, what cannot, and what is said about it."""

import os
import sys
from pathlib import Path

import pytest

from overseer.launch import CannotRun, Target, locate

MODULE = """
import sys
def main(): print(__name__, sys.argv, sys.path[0]); return 5
class Command:
    @staticmethod
    def go(): print("gone")
class Loud:
    def __call__(self): print("called")
loud = Loud()
limit = 3
def fail(): 1 / 0
def leave(): sys.exit(4)
"""
FUNCTIONS = {
    "main": (5, "tool ['{root}/tool.py', 'a', '-b'] {root}\n"),
    "Command.go": (0, "gone\n"),
    "loud": (0, "called\n"),
    "fail": (1, ""),
    "leave": (4, ""),
}


@pytest.mark.parametrize(("name", "seen"), FUNCTIONS.items())
def test_a_function_is_a_program(sides, name, seen):
    sides.write({"tool.py": MODULE})
    outcome = sides.run("voir", ("-m", f"tool:{name}", "a", "-b"))
    assert outcome.seen == (seen[0], seen[1].format(root=sides.root))
    assert "overseer" not in outcome.stderr


def test_the_value_of_a_function_is_the_value_of_the_program(tmp_path, monkeypatch):
    for name, value in (("argv", []), ("path", sys.path[:]), ("modules", sys.modules.copy())):
        monkeypatch.setattr(sys, name, value)
    monkeypatch.chdir(tmp_path)
    Path("valued_tool.py").write_text("def main(): return [1, 2]")
    program = locate(Target("function", "valued_tool:main"))
    program.load()
    assert program.run() == [1, 2]


REFUSED = {
    "nothing.py": (2, "can't open file '{root}/nothing.py': [Errno 2]"),
    "tol.py": (2, "Did you mean {root}/tool.py?"),
    "initt x": (2, "Did you mean the command init?"),
    "empty": (1, "can't find '__main__' module in '{root}/empty'"),
    "-m nothing": (1, "No module named nothing."),
    "-m pkg.nothing": (1, "No module named pkg.nothing."),
    "-m pkg": (1, "'pkg' is a package and cannot be directly executed"),
    "-m tool.py": (1, "Try using 'tool' instead of 'tool.py'"),
    "-m .tool": (1, "Relative module names not supported"),
    "-m sys": (1, "No code object available for sys"),
    "-m nothing:f": (1, "No module named nothing."),
    "-m tool:mian": (1, "module 'tool' has no attribute 'mian' [no-function] It has: main"),
    "-m tool:": (1, "-m tool: names no function"),
    "-m :main": (1, "-m :main names no function"),
    "-m tool:Command.stop": (1, "'Command' has no attribute 'stop'"),
    "-m tool:limit": (1, "tool:limit is not a function but int"),
}


@pytest.mark.parametrize("words", REFUSED)
def test_what_cannot_be_run_is_refused_in_one_message(sides, words):
    sides.write({"tool.py": MODULE, "empty/file": "", "pkg/__init__.py": ""})
    outcome, (status, said) = sides.run("voir", words.split()), REFUSED[words]
    assert said.format(root=sides.root) in " ".join(outcome.stderr.split())
    assert outcome.stderr.startswith("voir: ")
    assert outcome.seen == (status, "")
    assert "Traceback" not in outcome.stderr


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_may_not_be_read_is_refused(tmp_path):
    (tmp_path / "main.py").touch(mode=0o000)
    with pytest.raises(CannotRun, match=r"\[Errno 13\]") as refused:
        locate(Target("script", str(tmp_path / "main.py")))
    assert "permissions" in refused.value.remedy


def test_an_import_that_fails_inside_the_module_is_the_modules_error(sides):
    sides.write({"tool.py": "import missing_dependency\ndef main(): pass"})
    outcome = sides.run("voir", ("-m", "tool:main"))
    assert outcome.stderr.endswith("No module named 'missing_dependency'\n")
    assert 'tool.py", line 1, in <module>' in outcome.stderr


ORIGINS = {
    "main.py": "main.py", "pkg": "pkg/__main__.py", "-": None,
    "-m pkg": "pkg/__main__.py", "-m pkg.inner": "pkg/inner.py", "-m main": "main.py",
    "-m pkg.inner:f": "pkg/inner.py", "-m pkg:f": "pkg/__init__.py",
    "-m nothing": None, "-m pkg.nothing.x": None, "-m sys": None,
}  # fmt: skip


def test_the_file_is_known_before_anything_runs(sides, monkeypatch):
    names = ("main.py", "pkg/__init__.py", "pkg/__main__.py", "pkg/inner.py")
    sides.write(dict.fromkeys(names, "1 / 0"))
    monkeypatch.chdir(sides.root)
    for words, origin in ORIGINS.items():
        kind = "script" if not words.startswith("-m") else "function" if ":" in words else "module"
        program = locate(Target(kind, words.split()[-1]))
        assert program.origin == (origin and sides.root / origin), words
    assert "pkg" not in sys.modules
