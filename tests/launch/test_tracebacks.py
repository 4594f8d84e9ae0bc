"""Tracebacks have no frame of voir's, and every frame that python's have."""

import sys

import pytest

ERRORS = {
    "an error": "1 / 0",
    "a deep one": "def f(n): return f(n - 1) if n else 1 / 0\nprint(f(5))",
    "a cause": "try: 1 / 0\nexcept ZeroDivisionError as e: raise ValueError('b') from e",
    "a context": "try: 1 / 0\nexcept ZeroDivisionError: None.x",
    "a hidden context": "try: 1 / 0\nexcept ZeroDivisionError: raise NameError from None",
    "a missing module": "import nothing_of_that_name",
    "an error in a module": "import near",
    "an error in a package": "from pkg import inner",
    "a syntax error in a module": "import broken",
    "a recursion": "def f(): f()\nf()",
    "a recursion caught": """
def f(n):
    try: return f(n + 1)
    except RecursionError: return n
print(f(0))
""",
    "a recursion of lambdas": "f = lambda n: f(n + 1)\nf(1)",
    "a syntax error of compile": "compile('x = = 1', 'name', 'exec')",
    "a syntax error by hand": "raise SyntaxError('by hand', ('file', 3, 4, 'text'))",
    "an error in exec": "exec('\\n\\n1 / 0')",
    "a note": "e = ValueError('x')\ne.add_note('noted')\nraise e",
    "an error in __del__": "class A:\n  def __del__(self): 1 / 0\na = A()\ndel a\nprint('on')",
    "an error in a thread": """
import threading
threading.Thread(target=lambda: 1 / 0, name="T").start()
""",
    "an error in atexit": "import atexit\natexit.register(lambda: 1 / 0)",
    "an error without text": "class E(Exception):\n  def __str__(self): 1 / 0\nraise E",
    "an error in async code": "import asyncio\nasync def f(): 1 / 0\nasyncio.run(f())",
    "one printed by the script": """
import traceback
try: 1 / 0
except Exception: traceback.print_exc()
""",
    "one raised twice": "try: 1 / 0\nexcept Exception as e: keep = e\nraise keep",
    "an error with a frame of exec": "exec(compile('def g(): 1 / 0', 'made up', 'exec'))\ng()",
    "a group": "raise ExceptionGroup('g', [ValueError(1), TypeError(2)])",
    "a nested group": """
def collect(*fs):
    for f in fs:
        try: f()
        except Exception as e: yield e
import near2
inner = ExceptionGroup("h", [*collect(near2.f)])
raise ExceptionGroup("g", [*collect(near2.f, lambda: 1 / 0), inner])
""",
}
if sys.version_info[:2] != (3, 12):  # There, recursion through C has a limit that stands fast.
    ERRORS["a recursion through C"] = "class A:\n  def __repr__(self): return repr(self)\nrepr(A())"

FILES = {
    "near.py": "def f():\n    1 / 0\nf()",
    "near2.py": "def f():\n    import near",
    "pkg/__init__.py": "",
    "pkg/inner.py": "from .. import nothing",
    "broken.py": "x = 1\ny = = 2\n",
}


@pytest.mark.parametrize("argv", [("main.py",), ("-m", "main"), (".",)], ids=str)
@pytest.mark.parametrize("code", ERRORS.values(), ids=ERRORS)
def test_a_traceback_is_pythons(same, code, argv):
    same({**FILES, "main.py": code, "__main__.py": code}, *argv)


@pytest.mark.parametrize("argv", [("main.py",), ("-m", "main")], ids=str)
def test_a_traceback_from_the_prefix_is_pythons(same, argv):
    code = "'''Doc.'''\nimport sys\nclass A:\n    x = 1\n    1 / 0\nprint('never')"
    assert "line 5, in A" in same(code, *argv).stderr


def test_the_recursion_limit_is_put_back(sides):
    code = "import atexit, sys; atexit.register(lambda: print(sys.getrecursionlimit()))"
    (sides.root / "main.py").write_text(code)
    assert sides.run("voir", ("main.py",)).stdout == "1000\n"


def test_a_recursion_limit_of_the_scripts_own_stays(same):
    code = """
import atexit, sys
atexit.register(lambda: print(sys.getrecursionlimit()))
sys.setrecursionlimit(5000)
"""
    assert same(code).stdout == "5000\n"
