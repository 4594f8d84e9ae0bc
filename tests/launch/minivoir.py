"""The launcher and nothing else: ``python minivoir.py SCRIPT|-m MODULE[:FUNCTION] [ARGUMENTS]``."""

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from overseer.errors import VoirError
from overseer.launch import DeadlySignals, Ending, Target, in_child, locate

del sys.path[0]


def target(argv):
    if argv[0] != "-m":
        return Target("script", argv[0], tuple(argv[1:]))
    return Target("function" if ":" in argv[1] else "module", argv[1], tuple(argv[2:]))


def finalize(signum=None):
    if "MINIVOIR_TELL" in os.environ and not in_child():
        print(f"finalized {signum}", file=sys.stderr, flush=True)


def run(argv, ending):
    program, error = locate(target(argv)), None
    try:
        program.load()
        program.run()
    except BaseException as raised:
        error = raised
        error.__traceback__ = error.__traceback__.tb_next  # This frame: its module is __main__.
    ending.announce(error, program)
    return error


def main():
    ending = Ending()
    try:
        with DeadlySignals(finalize):
            error = run(sys.argv[1:], ending)
            finalize()
        if isinstance(error, VoirError):
            raise error
    except VoirError as refused:
        print(f"voir: {refused}", file=sys.stderr)
        sys.exit(getattr(refused, "status", 2))
    ending.leave(error)


main()
