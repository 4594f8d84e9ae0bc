"""Run CPython's own test_cmd_line_script with ``python SCRIPT`` replaced by ``voir SCRIPT``.

``python yardstick.py ENTRY...`` prints a JSON object: for each test ``ok``, ``skipped`` or the end
of its failure, and under ``replaced`` the tests that ran a program at all. Tests that give python
no program (``-c``, stdin, ``-i``) run plain python: there is nothing for voir to run.
"""

import json
import subprocess
import sys
import unittest
from types import SimpleNamespace

VALUED = {"-W", "-X", "--check-hash-based-pycs"}


def replace(command, entry):
    """``python FLAGS PROGRAM ...`` with ``entry`` between the flags and the program."""
    python, *rest = command
    flags = []
    while rest and rest[0].startswith("-") and rest[0] != "-":
        flag = rest.pop(0)
        if flag in VALUED:
            flags += [flag, rest.pop(0)]
        elif flag.startswith("--"):
            flags.append(flag)
        elif "c" in flag or "i" in flag:
            return command
        elif "m" in flag:
            flags += [flag.replace("m", "")] if flag != "-m" else []
            return [python, *flags, *entry, "-m", *rest]
        else:
            flags.append(flag)
    return [python, *flags, *entry, *rest] if rest else command


class Result(unittest.TestResult):
    def __init__(self, replaced):
        super().__init__()
        self.verdicts = {}
        self.replaced = replaced
        self.current = None

    def startTest(self, test):
        self.current = test._testMethodName

    def addSuccess(self, test):
        self.verdicts.setdefault(self.current, "ok")

    def addSkip(self, test, reason):
        self.verdicts[self.current] = "skipped"

    def addFailure(self, test, error):
        self.verdicts[self.current] = str(error[1])[-2000:] or repr(error[1])

    addError = addFailure

    def addSubTest(self, test, subtest, error):
        if error is not None:
            self.addFailure(test, error)


def main(entry):
    from test import test_cmd_line_script
    from test.support import script_helper

    replaced = set()

    def popen(command, **options):
        changed = replace(command, entry)
        if changed != command:
            replaced.add(result.current)
        return subprocess.Popen(changed, **options)

    result = Result(replaced)
    script_helper.subprocess = SimpleNamespace(**{**vars(subprocess), "Popen": popen})
    unittest.defaultTestLoader.loadTestsFromModule(test_cmd_line_script).run(result)
    json.dump({"verdicts": result.verdicts, "replaced": sorted(replaced)}, sys.stdout)


if __name__ == "__main__":
    main(sys.argv[1:])
