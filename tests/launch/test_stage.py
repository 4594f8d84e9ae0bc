"""A script sees the world as if python had started it."""

import os
import zipfile

import pytest

SHOW = """
import sys
print(sys.argv)
print(sys.path)
for name, value in sorted(globals().items()):
    print(name, type(value).__module__, type(value).__name__, value)
"""


def test_arguments_arrive_as_they_were_typed(same):
    outcome = same(
        "import sys; print(sys.argv)", "main.py", "-x", "--help", "-m", "", "a b", "--", "ü"
    )
    assert "'--help', '-m', '', 'a b', '--', 'ü'" in outcome.stdout


@pytest.mark.parametrize("flags", [(), ("-I",), ("-E", "-s"), ("-O",)], ids=str)
def test_a_script_finds_the_same_namespace_and_path(same, flags):
    assert "__file__" in same(SHOW, flags=flags).stdout


@pytest.mark.parametrize("argv", [("main.py",), ("-m", "tokenize", "main.py"), (".",)], ids=str)
@pytest.mark.parametrize("how", ["flag", "environment"])
def test_a_safe_path_stays_safe(same, argv, how):
    options = {"flags": ("-P",)} if how == "flag" else {"env": {"PYTHONSAFEPATH": "1"}}
    same({"main.py": SHOW, "__main__.py": SHOW}, *argv, **options)


def test_the_namespace_has_its_names_in_pythons_order(same):
    assert same("print(list(globals()))").stdout.startswith("['__name__', '__doc__'")


@pytest.mark.parametrize(
    "name", ["main.py", "./main.py", "sub/../main.py", "sub/deep.py", "no_suffix", "with space.py"]
)
def test_a_file_is_named_as_it_was_typed(same, name):
    files = {"main.py": SHOW, "sub/deep.py": SHOW, "no_suffix": SHOW, "with space.py": SHOW}
    same(files, name)


def test_a_file_may_have_a_name_that_is_no_text(same, sides):
    name = b"caf\xe9.py"
    try:
        with open(os.path.join(os.fsencode(sides.root), name), "w") as file:
            file.write("import sys; print(ascii(__file__), ascii(sys.argv)); 1/0")
    except OSError:
        pytest.skip("this file system wants text")
    assert "caf\\udce9.py" in same({}, os.fsdecode(name)).stdout


def test_a_symbolic_link_names_itself_and_imports_from_where_it_points(same, sides):
    (sides.root / "link.py").symlink_to("sub/real.py")
    outcome = same({"sub/real.py": SHOW + "import near", "sub/near.py": ""}, "link.py")
    assert f"__file__ builtins str {sides.root}/link.py" in outcome.stdout


@pytest.mark.parametrize("argv", [("main",), ("pkg",), ("pkg.inner",), ("pkg.deep.leaf",)], ids=str)
def test_a_module_runs_as_with_dash_m(same, argv):
    files = {
        "main.py": SHOW,
        "pkg/__init__.py": "print('package', __import__('sys').argv)",
        "pkg/__main__.py": SHOW,
        "pkg/inner.py": "from . import __name__ as up; print(up)" + SHOW,
        "pkg/deep/__init__.py": "",
        "pkg/deep/leaf.py": SHOW,
    }
    same(files, "-m", *argv, "argument")


def test_a_module_writes_its_bytecode_as_with_dash_m(sides):
    (sides.root / "main.py").write_text("print(__cached__)")
    sides.run("voir", ("-m", "main"), env={"PYTHONDONTWRITEBYTECODE": ""})
    assert [file.name for file in sides.root.glob("__pycache__/main*")]


def test_the_standard_library_runs_as_with_dash_m(same):
    assert same("x = 1", "-m", "tokenize", "main.py").status == 0


@pytest.mark.parametrize("name", [".", "sub", "./sub/", "archive.zip"])
def test_a_directory_or_zip_runs_its_main(same, sides, name):
    with zipfile.ZipFile(sides.root / "archive.zip", "w") as archive:
        archive.writestr("__main__.py", SHOW + "import beside")
        archive.writestr("beside.py", "print(__name__)")
    same({"__main__.py": SHOW, "sub/__main__.py": SHOW}, name, "argument")


def test_a_program_may_come_from_stdin(same):
    outcome = same({}, "-", "argument", stdin=SHOW.encode())
    assert "['-', 'argument']" in outcome.stdout


def test_an_error_in_a_program_from_stdin_looks_the_same(same):
    assert "ZeroDivisionError" in same({}, "-", stdin=b"x = 1\ny = 0\nx / y\n").stderr
    assert "SyntaxError" in same({}, "-", stdin=b"x = 1\ny = = 0\n").stderr


def test_a_script_reads_the_rest_of_stdin(same):
    assert (
        same("import sys; print(input(), sys.stdin.read())", stdin=b"a\nb\nc").stdout == "a b\nc\n"
    )


def test_a_script_may_come_through_a_pipe(sides):
    outcomes = []
    for side in ("python", "voir"):
        reading, writing = os.pipe()
        os.write(writing, b"print('through', __file__[:8]); 1/0")
        os.close(writing)
        outcomes.append(sides.run(side, (f"/dev/fd/{reading}",), pass_fds=(reading,)))
        os.close(reading)
    plain, voir = outcomes
    assert (voir.status, voir.stdout) == (plain.status, plain.stdout) == (1, "through /dev/fd/\n")


def test_the_working_directory_may_be_gone(same, sides):
    def leave():
        os.mkdir("gone")
        os.chdir("gone")
        os.rmdir("../gone")

    argv = str(sides.root / "main.py")
    assert same({"main.py": SHOW}, argv, preexec_fn=leave, side="launcher").status == 0


def test_a_compiled_script_runs(same, sides):
    import py_compile

    (sides.root / "source.py").write_text(SHOW + "import near\n1/0")
    py_compile.compile(sides.root / "source.py", sides.root / "main.pyc", dfile="source.py")
    (sides.root / "disguised").write_bytes((sides.root / "main.pyc").read_bytes())
    assert "SourcelessFileLoader" in same({"near.py": ""}, "main.pyc").stdout
    same({}, "disguised")


@pytest.mark.parametrize("content", [b"", b"garbage that is long enough to have a header", None])
def test_a_broken_compiled_script_is_refused_in_pythons_words(same, content):
    from importlib.util import MAGIC_NUMBER

    if content is None:
        content = MAGIC_NUMBER + bytes(12) + b"\xffnothing"
    assert same({"main.pyc": content}, "main.pyc").status == 1


def test_classes_in_main_can_be_pickled(same):
    code = """
import pickle
class Point:
    def __init__(self, x): self.x = x
again = pickle.loads(pickle.dumps(Point(3)))
print(again.x, type(again) is Point, Point.__module__, Point.__qualname__)
"""
    assert same(code).stdout == "3 True __main__ Point\n"


def test_main_is_the_module_whose_globals_the_script_has(same):
    code = "import sys; m = sys.modules['__main__']; print(vars(m) is globals(), m, dir())"
    assert same(code).stdout.startswith("True <module '__main__' from ")


def test_source_can_be_found_again(same):
    code = """
import inspect, linecache
def f():
    return 1  # a comment
class C: pass
x = 1 if f() else 2
print(inspect.getsource(f), inspect.getsource(C), inspect.getsourcefile(C), __file__)
print(linecache.getline(__file__, 4), inspect.getsource(inspect.getmodule(f)))
"""
    assert "a comment" in same(code).stdout


def test_warnings_show_the_right_line(same):
    code = """
import warnings
def f():
    warnings.warn("up", stacklevel=2)
f()
warnings.warn("here")
warnings.warn("old", DeprecationWarning)
for _ in range(3):
    warnings.warn("once")
"""
    outcome = same(code)
    assert "main.py:5: UserWarning: up" in outcome.stderr
    assert outcome.stderr.count("once") == 2  # The message, and the line.


def test_flags_of_the_interpreter_are_kept(same):
    code = "import sys; print(sys.flags, sys._xoptions, sys.warnoptions, __debug__); assert False"
    flags = ("-OO", "-W", "error", "-X", "dev", "-B", "-u")
    assert same(code, flags=flags).status == 0


@pytest.mark.parametrize("closed", [0, 1, 2])
def test_a_standard_stream_may_be_closed(same, closed):
    code = """
import os, sys
print(sys.stdin is None, sys.stdout is None, sys.stderr is None)
os.write(os.open("seen", os.O_WRONLY | os.O_CREAT), b"which descriptor is free")
print(os.listdir("/proc/self/fd") if os.path.exists("/proc") else "")
1 / 0
"""
    same(code, preexec_fn=lambda: os.close(closed))


def test_a_future_statement_holds_for_all_of_the_script(same):
    code = """
'''The docstring.'''
from __future__ import annotations
import sys
def early(a: nothing) -> nowhere: pass
print(early.__annotations__)
def late(a: nothing) -> nowhere: pass
print(late.__annotations__, __doc__)
print(eval("lambda: 0").__code__.co_flags & 0x1000000, sys._getframe().f_code.co_flags & 0x1000000)
x: nonsense = 1
print(__annotations__)
"""
    outcome = same(code)
    assert outcome.status == 0
    assert "The docstring." in outcome.stdout


def test_annotations_of_the_module_are_complete(same):
    code = """
import sys
early: int = 1
bare: str
print(sys.modules["__main__"].__annotations__)
late: float = 2.0
if early:
    conditional: bytes = b""
print(sys.modules["__main__"].__annotations__)
"""
    assert "conditional" in same(code).stdout


def test_the_name_in_parentheses_is_the_module_itself(same):
    files = {"main.py": "import main\nprint(__name__, main.__name__)"}
    assert same(files).stdout.split() == ["main", "main", "__main__", "main"]


SHADOWS = ["argparse", "ast", "bisect", "difflib", "inspect", "instruments", "signal", "textwrap"]


@pytest.mark.parametrize("how", ["{}.py", "{}/__init__.py", "{}/data.txt"])
def test_modules_beside_the_script_are_found_before_what_voir_has_imported(sides, how):
    """Only where they are modules, and not where python has imported its own already."""
    code = "import importlib, os\n"
    code += f"for name in {SHADOWS!r} + ['os']:\n"
    code += "    try: print(name, hasattr(importlib.import_module(name), 'mine'))\n"
    code += "    except ImportError: print(name, 'none')\n"
    files = {f"work/{how.format(name)}": "mine = 1" for name in [*SHADOWS, "os"]}
    sides.write({**files, "work/main.py": code, "elsewhere/file": ""})
    argv, elsewhere = (str(sides.root / "work/main.py"),), sides.root / "elsewhere"
    assert sides.run("voir", argv, cwd=elsewhere) == sides.run("python", argv, cwd=elsewhere)


def test_the_module_that_voir_was_started_in_stays_alive(sides):
    # Python looks into it when the script has failed, and does not hold on to it.
    sides.write(
        {
            "main.py": """\
import gc, sys, weakref
started = weakref.ref(sys.modules["__main__"])
from overseer.launch import program
program.fresh_main()
gc.collect()
print(started() is not None)
"""
        }
    )
    assert sides.run("python", ["main.py"]).stdout == "True\n"
