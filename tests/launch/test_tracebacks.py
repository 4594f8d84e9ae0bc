"""Tracebacks have no frame of voir's, and every frame that python's have."""

import sys

import pytest

ERRORS = {
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
    "a syntax error of compile": "compile('x = = 1', 'name', 'exec')",
    "a syntax error by hand": "raise SyntaxError('by hand', ('file', 3, 4, 'text'))",
    "an error in exec": "exec('\\n\\n1 / 0')",
    "an error in __del__": "class A:\n  def __del__(self): 1 / 0\na = A()\ndel a\nprint('on')",
    "an error in a thread": "import threading as t\nt.Thread(None, divmod, args=(1, 0)).start()",
    "an error in atexit": "import atexit\natexit.register(lambda: 1 / 0)",
    "an error without text": "class E(Exception):\n  def __str__(self): 1 / 0\nraise E",
    "an error in async code": "import asyncio\nasync def f(): 1 / 0\nasyncio.run(f())",
    "one printed by the script": "import traceback\ntry: 1 / 0\nexcept: traceback.print_exc()",
    "one raised twice": "try: 1 / 0\nexcept Exception as e: keep = e\nraise keep",
    "a nested group": """
def collect(*fs):
    for f in fs:
        try: f()
        except Exception as e: yield e
import near2
inner = ExceptionGroup("h", [*collect(near2.f)])
raise ExceptionGroup("g", [*collect(near2.f, lambda: 1 / 0), inner])
""",
    "one in the prefix": "'''Doc.'''\nimport sys\nclass A:\n    x = 1\n    1 / 0\nprint('never')",
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
EVERYWHERE = ("a deep one", "an error in a module", "a recursion caught", "a nested group")
WAYS = [(error, "main.py") for error in ERRORS]
WAYS += [(error, argv) for argv in ("-m main", ".") for error in (*EVERYWHERE, *[*ERRORS][-2:])]


@pytest.mark.parametrize(("error", "argv"), WAYS)
def test_a_traceback_is_pythons(same, error, argv):
    same({**FILES, "main.py": ERRORS[error], "__main__.py": ERRORS[error]}, *argv.split())


@pytest.mark.parametrize(("own", "limit"), [("", 1000), ("sys.setrecursionlimit(5000)", 5000)])
def test_the_recursion_limit_is_put_back_unless_the_script_has_set_its_own(same, own, limit):
    code = "import atexit, sys; atexit.register(lambda: print(sys.getrecursionlimit()))\n"
    assert same(code + own).stdout == f"{limit}\n"
