"""Python's own way to run a script's file, for files that cannot be parsed from memory.

Only the interpreter's file parser words every error about encodings, null bytes and the like as
``python script.py`` does, so it is the one that gets to say what is wrong.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_FILE_INPUT = 257  # Py_file_input


def run_file(data: bytes, filename: str, namespace: dict[str, Any]) -> None:
    """Parse, compile and run ``data`` as the file ``filename``, in one go, as python does.

    Raises:
        ImportError: This python has no ctypes.
        BaseException: What python finds wrong with it, or the script raises.
    """
    import ctypes

    libc = ctypes.CDLL(None)
    libc.fdopen.restype = ctypes.c_void_p
    run = ctypes.PyDLL(None).PyRun_FileExFlags
    run.restype = ctypes.py_object
    python = ctypes.py_object
    run.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int, python, python, ctypes.c_int]
    run.argtypes += [ctypes.c_void_p]
    file = ctypes.c_void_p(libc.fdopen(_descriptor(data, filename), b"rb"))
    run(file, os.fsencode(filename), _FILE_INPUT, namespace, namespace, 1, None)


def _descriptor(data: bytes, filename: str) -> int:
    if sys.platform != "linux":
        return os.open(filename, os.O_RDONLY)
    # The script may have come through a pipe, which cannot be read twice.
    descriptor = os.memfd_create("script")
    with open(descriptor, "wb", closefd=False) as file:
        file.write(data)
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor
