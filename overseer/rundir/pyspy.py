"""Reads the stacks of a process from outside with py-spy, where that is installed.

While C code holds the interpreter's lock, no thread of the process can look, voir's included: only
another process can. py-spy does not stop the process (``--nonblocking``).
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

from ..boundary import command_file, own_file, voir_file
from ..clock import now_ns
from ..files import whole
from ..recorder import sites as k
from ..recorder.encode import encode
from ..recorder.log import lives, read_header
from . import killed

#: Seconds to wait for py-spy; processes to look at, one after the other.
PATIENCE, MOST_PROCESSES = 5.0, 4


def look_inside(directories: Iterable[Path]) -> None:
    """Write the stacks, and the place, of live runs whose interpreter's lock is held.

    Those of this machine and this user; whoever has done it since their thread last ran need not
    do it again.

    Args:
        directories: Those of the runs.
    """
    held = filter(_is_held, directories) if shutil.which("py-spy") else ()
    for directory, _ in zip(held, range(MOST_PROCESSES), strict=False):
        with suppress(OSError, ValueError):
            _look(directory)


def _is_held(directory: Path) -> bool:
    found = read_header(os.fspath(directory))
    if found is None or not killed.is_ours(directory) or not lives(found):
        return False
    silent = killed.silent_for(found, now_ns())
    return silent >= killed.IDLE_SECONDS and not killed.seen_from_outside(directory, found)


def _look(directory: Path) -> None:
    found = read_header(os.fspath(directory))
    place, text = (found and seen_in(found.pid)) or ({}, "")
    if found is None or not place:
        return
    steps, silent = found.control[k.WORD_STEPS], killed.silent_for(found, now_ns())
    known = encode({"step": steps, "silent": silent, **place, "by": "py-spy"})
    for name, content in ((killed.STACKS_FILE, text.encode()), (killed.PLACE_FILE, known)):
        with whole(directory / name, durable=False) as file:
            file.write(content)


def seen_in(pid: int) -> tuple[dict[str, Any], str]:
    """What py-spy sees in a process.

    Returns:
        The place of its main thread, with the keys of ``idle``, and the stacks of all threads as
        text; both empty if py-spy is not installed, or fails.
    """
    command = ["py-spy", "dump", "--nonblocking", "--json", "--pid", str(pid)]
    with suppress(OSError, ValueError, subprocess.SubprocessError):
        done = subprocess.run(command, capture_output=True, timeout=PATIENCE, check=True)
        threads = [each for each in json.loads(done.stdout) if _frames(each)]
        threads.sort(key=lambda each: each.get("os_thread_id") != pid)
        if threads and threads[0].get("os_thread_id") == pid:
            return _place(_frames(threads[0])), "\n\n".join(map(_text, threads)) + "\n"
    return {}, ""


def _frames(thread: dict[str, Any]) -> list[dict[str, Any]]:
    """The frames of a thread, the innermost first, without voir's and what is outside of them."""
    kept: list[dict[str, Any]] = []
    begun = None
    for frame in thread["frames"]:
        if command_file(frame["filename"]):
            begun = len(kept)
        elif not voir_file(frame["filename"]):
            kept.append(frame)
    return kept[:begun]


def _place(frames: list[dict[str, Any]]) -> dict[str, Any]:
    own = next((n for n, each in enumerate(frames) if own_file(each["filename"])), len(frames) - 1)
    frame = frames[own]
    place = {"file": frame["filename"], "line": frame["line"], "function": _name(frame)}
    return {**place, "call": _name(frames[own - 1])} if own else place


def _name(frame: dict[str, Any]) -> str:
    return str(frame["name"]).rpartition(".")[2]


def _text(thread: dict[str, Any]) -> str:
    named = thread.get("thread_name") or thread.get("os_thread_id")
    lines = [f"Thread {thread.get('thread_id')} ({named}), most recent call last, by py-spy:"]
    lines += [
        f'  File "{each["filename"]}", line {each["line"]}, in {each["name"]}'
        for each in reversed(_frames(thread))
    ]
    return "\n".join(lines)
