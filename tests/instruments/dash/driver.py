"""Plays a script under the dashboard, for tests that watch it from outside through a pty.

``python driver.py SCENE``: everything that a scene prints goes to the real stdout and stderr, as a
script's output would. Frames are drawn when the scene says so.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import sys
import termios

from emulator import FakeOverseer

from instruments.dash import dash


def train(ov):
    """Prints, with frames between, within lines and after lines."""
    for i in range(60):
        print(f"line {i} ", end="")
        if i % 5 == 0:
            sys.stdout.flush()
            ov.tick()
        print(f"of 60 é\t\x1b[1mbold\x1b[0m {i}")
        ov.give(loss=2.0 / (i + 1), progress=(i + 1, 60), acc=i / 60)
        if i % 9 == 0:
            print(f"warning {i}", file=sys.stderr)
    ov.tick()
    print("the end, without a newline", end="")


def interrupted(ov):
    """Waits to be interrupted, the dashboard on the screen."""
    train(ov)
    print("\nready", flush=True)
    signal.pause()


def resized(ov):
    """Waits for its terminal to be resized in the middle."""
    train(ov)
    print("\nready", flush=True)
    sys.stdin.readline()
    train(ov)


def forked(ov):
    """Forks a child that ends like a script of its own."""
    train(ov)
    sys.stdout.flush()
    child = os.fork()
    if not child:
        for timer in ov.timers:
            timer()
        ov.finish()
        sys.exit(0)
    os.waitpid(child, 0)
    print("\nparent goes on")


def leaves(ov):
    """Ends without the overseer's help: only ``atexit`` is left."""
    train(ov)
    kept.append(ov)
    sys.exit(0)


kept: list[FakeOverseer] = []


def main(scene):
    with contextlib.suppress(OSError):
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    ov = FakeOverseer(stderr=sys.stderr)
    ov.start(dash)
    if scene == "leaves":
        leaves(ov)
    try:
        globals()[scene](ov)
    except KeyboardInterrupt:
        pass
    finally:
        ov.finish()


if __name__ == "__main__":
    main(sys.argv[1])
