"""A script sees the world as if python had started it."""

import os
import py_compile
import zipfile
from importlib.util import MAGIC_NUMBER

import pytest

SHOW = """
import sys
print(sys.argv, sys.path)
print(sys.flags, sys._xoptions, sys.warnoptions, __debug__)
for name, value in sorted(globals().items()):
    print(name, type(value).__module__, type(value).__name__, value)
"""
FILES = dict.fromkeys(["main.py", "__main__.py", "sub/deep.py", "no_suffix", "with space.py"], SHOW)
PACKAGE = {
    "pkg/__init__.py": "print('package', __import__('sys').argv)",
    "pkg/__main__.py": SHOW,
    "pkg/inner.py": "from . import __name__ as up; print(up)" + SHOW,
    "pkg/deep/__init__.py": "",
    "pkg/deep/leaf.py": SHOW,
    "sub/__main__.py": SHOW,
}
WAYS = [
    *("main.py", "./main.py", "sub/../main.py", "sub/deep.py", "no_suffix", "with space.py"),
    *("-m main", "-m pkg", "-m pkg.inner", "-m pkg.deep.leaf", "-m tokenize main.py"),
    *(".", "sub", "./sub/", "archive.zip"),
]


@pytest.mark.parametrize("way", WAYS)
def test_a_script_finds_the_same_namespace_path_and_arguments(same, sides, way):
    with zipfile.ZipFile(sides.root / "archive.zip", "w") as archive:
        archive.writestr("__main__.py", SHOW + "import beside")
        archive.writestr("beside.py", "print(__name__)")
    argv = way.split() if way.startswith("-m") else [way]
    rest = [] if "tokenize" in way else ["-x", "--help", "-m", "", "a b", "--", "ü"]
    assert same({**FILES, **PACKAGE}, *argv, *rest).status == 0


@pytest.mark.parametrize("argv", ["main.py", "-m tokenize main.py", "."])
@pytest.mark.parametrize("flags", ["-I", "-E -s", "-OO -W error -X dev -B -u", "-P", ""])
def test_flags_and_a_safe_path_are_kept(same, argv, flags):
    env = {} if flags else {"PYTHONSAFEPATH": "1"}
    same(FILES, *argv.split(), flags=flags.split(), env=env)


def test_the_namespace_has_its_names_in_pythons_order_and_is_the_main_modules(same):
    code = "import sys\nmain = sys.modules['__main__']\n"
    assert same(f"{code}print(list(globals()), vars(main) is globals(), main, dir())").status == 0


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


def test_a_module_writes_its_bytecode_as_with_dash_m(sides):
    sides.write({"main.py": "print(__cached__)"})
    sides.run("voir", ("-m", "main"), env={"PYTHONDONTWRITEBYTECODE": ""})
    assert [file.name for file in sides.root.glob("__pycache__/main*")]


@pytest.mark.parametrize("code", [SHOW, "x = 1\ny = 0\nx / y\n", "x = 1\ny = = 0\n"])
def test_a_program_may_come_from_stdin(same, code):
    same({}, "-", "argument", stdin=code.encode())


def test_a_script_reads_stdin_itself(same):
    code = "import sys; print(input(), sys.stdin.read())"
    assert same(code, stdin=b"a\nb\nc").stdout == "a b\nc\n"


def test_a_script_may_come_through_a_pipe(sides):
    outcomes = []
    for side in ("python", "voir"):
        reading, writing = os.pipe()
        os.write(writing, b"print('through', __file__[:8]); 1/0")
        os.close(writing)
        outcomes.append(sides.run(side, (f"/dev/fd/{reading}",), pass_fds=(reading,)))
        os.close(reading)
    assert [(one.status, one.stdout) for one in outcomes] == [(1, "through /dev/fd/\n")] * 2


def test_the_working_directory_may_be_gone(same, sides):
    def leave():
        os.mkdir("gone")
        os.chdir("gone")
        os.rmdir("../gone")

    argv = str(sides.root / "main.py")
    assert same({"main.py": SHOW}, argv, preexec_fn=leave, side="launcher").status == 0


def test_a_compiled_script_runs(same, sides):
    (sides.root / "source.py").write_text(SHOW + "import near\n1/0")
    py_compile.compile(sides.root / "source.py", sides.root / "main.pyc", dfile="source.py")
    (sides.root / "disguised").write_bytes((sides.root / "main.pyc").read_bytes())
    assert "SourcelessFileLoader" in same({"near.py": ""}, "main.pyc").stdout
    same({}, "disguised")


@pytest.mark.parametrize(
    "content", [b"", b"garbage, as long as a header", MAGIC_NUMBER + bytes(12) + b"\xffnothing"]
)
def test_a_broken_compiled_script_is_refused_in_pythons_words(same, content):
    assert same({"main.pyc": content}, "main.pyc").status == 1


def test_classes_in_main_are_pickled_and_sources_found_again(same):
    code = """
import inspect, linecache, pickle
class Point:
    def __init__(self, x): self.x = x
def f():
    return 1  # a comment
again = pickle.loads(pickle.dumps(Point(3)))
print(again.x, type(again) is Point, Point.__module__, Point.__qualname__)
print(inspect.getsource(f), inspect.getsource(Point), inspect.getsourcefile(Point), __file__)
print(linecache.getline(__file__, 4), inspect.getsource(inspect.getmodule(f)))
"""
    stdout = same(code).stdout
    assert stdout.startswith("3 True __main__ Point\n")
    assert "a comment" in stdout


def test_warnings_show_the_right_line(same):
    code = """
import warnings
def f():
    warnings.warn("up", stacklevel=2)
f()
warnings.warn("old", DeprecationWarning)
for _ in range(3):
    warnings.warn("once")
"""
    outcome = same(code)
    assert "main.py:5: UserWarning: up" in outcome.stderr
    assert outcome.stderr.count("once") == 2  # The message, and the line.


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
    assert (outcome.status, "The docstring." in outcome.stdout) == (0, True)


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
def test_modules_beside_the_script_are_found_before_what_voir_has_imported(same, sides, how):
    """Only where they are modules, and not where python has imported its own already."""
    code = "import importlib, os\n"
    code += f"for name in {SHADOWS!r} + ['os']:\n"
    code += "    try: print(name, hasattr(importlib.import_module(name), 'mine'))\n"
    code += "    except ImportError: print(name, 'none')\n"
    files = {f"work/{how.format(name)}": "mine = 1" for name in [*SHADOWS, "os"]}
    files |= {"work/main.py": code, "elsewhere/file": ""}
    same(files, str(sides.root / "work/main.py"), cwd=sides.root / "elsewhere")


def test_the_module_that_voir_was_started_in_stays_alive(sides):
    # Python looks into it when the script has failed, and does not hold on to it.
    code = """\
import gc, sys, weakref
started = weakref.ref(sys.modules["__main__"])
from overseer.launch import program
program.fresh_main()
gc.collect()
print(started() is not None)
"""
    sides.write({"main.py": code})
    assert sides.run("python", ["main.py"]).stdout == "True\n"
