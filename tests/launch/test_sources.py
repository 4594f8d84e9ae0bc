"""Whatever a source file looks like, it is read, refused and warned about as python does it."""

import re
import sys
from functools import partial

import pytest

from overseer.launch.source import parse_main

SOURCES = {
    "empty": b"",
    "only a docstring": b"'''doc'''",
    "a docstring and more": b"'''doc'''\nprint(__doc__)",
    "no docstring but a late string": b"import sys\n'''late'''\nprint(__doc__)",
    "a string after work": b"x = [1][0]\n'''late'''\nprint(__doc__)",
    "an f-string first": b"f'''{1}'''\nprint(__doc__)",
    "a byte order mark": b"\xef\xbb\xbfprint(ascii('caf\xc3\xa9'))",
    "a byte order mark and latin-1": b"\xef\xbb\xbf# coding: latin-1\nprint(1)",
    "latin-1 on the second line": b"#!/bin/sh\n# -*- coding: latin-1 -*-\nprint(ascii('\xe9'))",
    "latin-1 on the third line": b"#\n#\n# coding: latin-1\nprint(ascii('caf\xe9'))",
    "undeclared latin-1 in a comment": b"x = 1\n# caf\xe9\nprint(x)",
    "latin-1 declared utf-8": b"# coding: utf-8\nx = 'caf\xe9'",
    "an unknown encoding": b"# coding: klingon\nprint(1)",
    "not a text encoding": b"# coding: hex\nprint(1)",
    "utf-16": "print(1)".encode("utf-16"),
    "shift-jis": "# coding: shift-jis\nprint(ascii('\u3042'))".encode("shift-jis"),
    "CRLF": b"x = '''a\r\nb'''\r\nprint(ascii(x))\r\n",
    "CR": b"x = 1\rprint(x)\r",
    "no newline at the end": b"if 1:\n    print(1)",
    "a form feed": b"\x0cprint(1)\n\x0c\nprint(2)",
    "a continuation at the end": b"x = 1 \\",
    "a null byte": b"x = 1\nx = '\0'\n",
    "a null byte in a comment": b"x = 1\n# \0 \nprint(x)",
    "ctrl-z": b"print(1)\n\x1a",
    "unindented": b"if 1:\n        x = 1\n    y = 2",
    "tabs and spaces": b"if 1:\n\tx = 1\n        y = 2",
    "an unclosed string": b"x = '''abc\n\ny = 2\n",
    "wide characters before the error": "x = '\u3042\u3042\u3042' = 1\n".encode(),
    "await at the top": b"print(1)\nawait x\n",
    "a late future import": b"print(1)\nfrom __future__ import annotations\n",
    "FLUFL": b"from __future__ import barry_as_FLUFL\nprint(1 <> 2)\n",
    "a late global": b"x = 1\nglobal x\n",
    "a bad escape": b"x = '\\q'\nprint(x)",
    "an identity with a literal": b"x = 5\nprint(x is 5)\nprint(x is 5)",
    "both a warning and an error": b"x = 1 is 1\nreturn\n",
    "two warnings": b"x = 1 is 1\ny = '\\q'\n'x' ()\n",
    "too deep nesting": b"x = " + b"(" * 300 + b"1" + b")" * 300,
    "a longer sum": b"x = " + b"+".join([b"1"] * 3000) + b"\nprint(x)",
    "many attributes": b"import sys\nsys" + b".x" * 3000,
    "one line": b"import sys; x = 1; print(x); y = 2",
}


slow = partial(pytest.param, marks=pytest.mark.slow)
WAYS = ["main.py", "-W default -m main", slow("-W error main.py"), slow("-W default main.py")]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("source", SOURCES.values(), ids=SOURCES)
def test_a_source_is_read_as_python_reads_it(same, source, way):
    flags, argv = re.fullmatch("(-W [a-z]+ )?(.*)", way).groups("")
    same({"main.py": source}, *argv.split(), flags=flags.split())


def test_nothing_of_a_file_with_an_error_runs(same):
    assert same("import near\nprint(1)\nreturn").stdout == ""


ANNOTATED = ("x: int = 1\n", "") if sys.version_info < (3, 14) else ("", "x: int = 1")
PREFIXES = [
    ("import a\nfrom b import c\ndef f(): 0\nx = -1\n", ""),
    ("@f\nclass C(D): x = g()\n", ""),
    ("x = y = {'a': [1, (2, 3)], 'b': {4}}\n", ""),
    ("import os\nos.environ['X'] = '1'\nimport a\n", ""),
    ("import os\n", "os.environ[k] = 1\n"),
    ANNOTATED,
    ("import a\n", "x = a()\ndef f(): 0"),
    ("import a\n", "x = a\n"),
    ("", "x = 1 + 1\nimport a"),
    ("", "x = [*a]\n"),
    ("", "a, b = 1, 2\n"),
    ("import a\n", "if x:\n  import b\n"),
    ("", "x = f'{y}'\n"),
    ("x = 1\n", "del x\n"),
]
if sys.version_info >= (3, 12):
    PREFIXES.append(("type X = int\n", "f()"))


@pytest.mark.parametrize(("prefix", "rest"), PREFIXES)
def test_the_prefix_is_what_defines_things(prefix, rest):
    unit = parse_main((prefix + rest).encode(), "main.py")
    alone = [compile(part, "main.py", "exec").co_names for part in (prefix, rest)]
    assert [unit.prefix(None).co_names, unit.rest(None).co_names] == alone


def test_both_parts_are_instrumented_before_each_is_compiled():
    unit, seen = parse_main(b"import a\nx = a.b()\n", "main.py"), []

    def instrument(tree, module, filename):
        seen.append((len(tree.body), module, filename))
        return tree

    for n, part in enumerate((unit.prefix, unit.rest), 1):
        part(instrument)
        assert seen == [(1, "__main__", "main.py")] * n
