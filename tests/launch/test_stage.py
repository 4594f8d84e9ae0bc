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
print(list(globals()), vars(sys.modules["__main__"]) is globals(), dir())
for name, value in sorted(globals().items()):
    print(name, type(value).__module__, type(value).__name__, value)
"""
SHOWING = ["main.py", "__main__.py", "sub/deep.py", "no_suffix", "with space.py", "sub/__main__.py"]
FILES = {
    **dict.fromkeys([*SHOWING, "pkg/__main__.py", "pkg/deep/leaf.py"], SHOW),
    "pkg/__init__.py": "print('package', __import__('sys').argv)",
    "pkg/inner.py": "from . import __name__ as up; print(up)" + SHOW,
    "pkg/deep/__init__.py": "",
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
    assert same(FILES, *argv, *rest).status == 0


@pytest.mark.parametrize("argv", ["main.py", "-m tokenize main.py", "."])
@pytest.mark.parametrize("flags", ["-I", "-E -s", "-OO -W error -X dev -B -u", "-P", ""])
def test_flags_and_a_safe_path_are_kept(same, argv, flags):
    env = {} if flags else {"PYTHONSAFEPATH": "1"}
    same(FILES, *argv.split(), flags=flags.split(), env=env)


#: Statements of a script, and the first line that it prints.
SCRIPTS = {
    "reads stdin itself": ("print(input(), sys.stdin.read())", "a b\nc\n"),
    "imports itself": ("import main\nprint(__name__, main.__name__)", "main main\n__main__ main\n"),
    "has its sources found and its classes pickled": (
        """
import inspect, linecache, pickle
class Point: x = 3
print(type(pickle.loads(pickle.dumps(Point()))) is Point, Point.__module__, Point.__qualname__)
print(inspect.getsource(Point), inspect.getsourcefile(Point), __file__)
print(linecache.getline(__file__, 4), inspect.getsource(inspect.getmodule(Point)))
""",
        "True __main__ Point\nclass Point: x = 3\n",
    ),
    "has a future statement": (
        """
def early(a: nothing) -> nowhere: pass
print(early.__annotations__)
def late(a: nothing) -> nowhere: pass
print(late.__annotations__, __doc__, eval("lambda: 0").__code__.co_flags & 0x1000000)
x: nonsense = 1
print(__annotations__, sys._getframe().f_code.co_flags & 0x1000000)
""",
        "{'a': 'nothing', 'return': 'nowhere'}\n{'a': 'nothing', 'return': 'nowhere'} Doc. ",
    ),
    "is annotated": (
        """
early: int = 1
bare: str
print(sys.modules["__main__"].__annotations__)
if early:
    conditional: bytes = b""
print(sys.modules["__main__"].__annotations__)
""",
        "{'early': <class 'int'>",
    ),
    "defines things in between": (
        """
def f(x=print("first")): return x
class C: print("second")
print("third", f())
import json
""",
        "first\nsecond\nthird None\n",
    ),
}


@pytest.mark.parametrize(("code", "start"), SCRIPTS.values(), ids=SCRIPTS)
def test_a_script_that(same, code, start):
    future = "from __future__ import annotations\n" if "nonsense" in code else ""
    outcome = same(f"'Doc.'\n{future}import sys\n{code}", stdin=b"a\nb\nc")
    assert (outcome.status, outcome.stdout[: len(start)]) == (0, start)


def test_a_symbolic_link_names_itself_and_imports_from_where_it_points(same, sides):
    (sides.root / "link.py").symlink_to("sub/real.py")
    outcome = same({"sub/real.py": SHOW + "import near", "sub/near.py": ""}, "link.py")
    assert f"__file__ builtins str {sides.root}/link.py" in outcome.stdout


def test_a_module_writes_its_bytecode_as_with_dash_m(sides):
    sides.write({"main.py": "print(__cached__)"})
    sides.run("voir", ("-m", "main"), env={"PYTHONDONTWRITEBYTECODE": ""})
    assert [file.name for file in sides.root.glob("__pycache__/main*")]


@pytest.mark.parametrize("code", [SHOW, "x = 1\ny = 0\nx / y\n", "x = 1\ny = = 0\n"])
def test_a_program_may_come_from_stdin_and_through_a_pipe(same, sides, code):
    same({}, "-", "argument", stdin=code.encode())
    for side in ("python", "voir"):
        reading, writing = os.pipe()
        os.write(writing, b"print('through', __file__[:8]); 1/0")
        os.close(writing)
        outcome = sides.run(side, (f"/dev/fd/{reading}",), pass_fds=(reading,))
        os.close(reading)
        assert outcome.seen == (1, "through /dev/fd/\n")


def test_the_working_directory_may_be_gone(same, sides):
    def leave():
        os.mkdir("gone")
        os.chdir("gone")
        os.rmdir("../gone")

    same({"main.py": SHOW}, str(sides.root / "main.py"), preexec_fn=leave)


GARBAGE = [b"", b"garbage, as long as a header", MAGIC_NUMBER + bytes(12) + b"\xffnothing"]


def test_a_compiled_script_runs_and_a_broken_one_is_refused_in_pythons_words(same, sides):
    (sides.root / "source.py").write_text(SHOW + "import near\n1/0")
    py_compile.compile(sides.root / "source.py", sides.root / "main.pyc", dfile="source.py")
    (sides.root / "disguised").write_bytes((sides.root / "main.pyc").read_bytes())
    assert "SourcelessFileLoader" in same({"near.py": ""}, "main.pyc").stdout
    same({}, "disguised")
    for content in GARBAGE:
        assert same({"main.pyc": content}, "main.pyc").status == 1


def test_warnings_show_the_right_line(same):
    code = """
import warnings
def f(): warnings.warn("up", stacklevel=2)
f()
warnings.warn("old", DeprecationWarning)
for _ in range(3): warnings.warn("once")
"""
    outcome = same(code)
    assert "main.py:4: UserWarning: up" in outcome.stderr
    assert outcome.stderr.count("once") == 2  # The message, and the line.


@pytest.mark.parametrize("closed", [0, 1, 2])
def test_a_standard_stream_may_be_closed(same, closed):
    code = """
import os, sys
print(sys.stdin is None, sys.stdout is None, sys.stderr is None)
print(os.open(os.devnull, os.O_RDONLY), os.path.exists("/proc") and os.listdir("/proc/self/fd"))
1 / 0
"""
    same(code, preexec_fn=lambda: os.close(closed))


SHADOWS = ["argparse", "ast", "bisect", "difflib", "inspect", "instruments", "signal", "textwrap"]


@pytest.mark.parametrize("how", ["{}.py", "{}/__init__.py", "{}/data.txt"])
def test_modules_beside_the_script_are_found_before_what_voir_has_imported(same, sides, how):
    """Only where they are modules, and not where python has imported its own already."""
    code = f"""
import importlib
for name in {[*SHADOWS, "os"]}:
    try: print(name, hasattr(importlib.import_module(name), 'mine'))
    except ImportError: print(name, 'none')
"""
    files = {f"work/{how.format(name)}": "mine = 1" for name in [*SHADOWS, "os"]}
    files |= {"work/main.py": code, "elsewhere/file": ""}
    same(files, str(sides.root / "work/main.py"), cwd=sides.root / "elsewhere")


def test_the_module_that_voir_was_started_in_stays_alive(sides):
    # Python looks into it when the script has failed, and does not hold on to it.
    code = """
import gc, sys, weakref
started = weakref.ref(sys.modules["__main__"])
from overseer.launch import program
program.fresh_main()
gc.collect()
print(started() is not None)
"""
    sides.write({"main.py": code})
    # Not as a script: that python holds on to.
    assert sides.run("python", ["-m", "main"]).stdout == "True\n"
