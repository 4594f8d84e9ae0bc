"""Reads the stacks of this process's threads: where its main thread is, and all of them as text.

A stack is a list of frames with their lines, the innermost first, without voir's own frames.
"""

from __future__ import annotations

import linecache
import sys
import threading
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import Any

from ..boundary import (
    ControlFlow,
    command_file,
    entries_of,
    in_plumbing,
    of_library,
    of_voir,
)  # fmt: skip
from ..files import whole
from ..model.hangs import REDUCER
from ..recorder import recorder
from ..timers import hidden
from .killed import STACKS_FILE
from .workers import due_worker

Stack = list[tuple[FrameType, int]]

#: Functions that only call the one that the user named.
_WRAPPERS = frozenset({
    "wrapper", "inner", "_fn", "__call__", "_wrapped_call_impl", "_call_impl", "decorate_context",
})  # fmt: skip
#: Python's function that imports a module.
_IMPORTS = "_find_and_load"
#: Modules of PyTorch whose functions communicate; the beginnings of names of those that do not; and
#: those that are no collectives, which have no number.
_COLLECTIVES = ("torch.distributed.distributed_c10d", "torch.distributed._functional_collectives")
_LOCAL = ("_", "init_", "destroy_", "new_", "split_", "is_", "get_")
#: The method of DDP that makes its buffers equal, in forward.
_BUFFERS = "_sync_buffers"
_MESSAGES = frozenset({"send", "recv", "isend", "irecv", "batch_isend_irecv"})
#: Modules in which a program may stay for minutes, by what they do; by the first parts of a name.
_LONG = {
    "compiling": (
        "torch._dynamo.convert_frame", "torch._inductor.compile_fx", "triton.compiler",
        "torch._inductor.async_compile", "torch.utils.cpp_extension", "jax._src.compiler",
    ),
    "a checkpoint": ("torch.serialization", "torch.distributed.checkpoint", "safetensors"),
    "a debugger": ("pdb", "bdb", "debugpy", "pydevd", "_pydevd", "_pytest.debugging"),
}  # fmt: skip


def main_stack() -> Stack:
    """The stack of the main thread; empty if it is not known."""
    return stack_of(sys._current_frames().get(threading.main_thread().ident or 0))


def stack_of(frame: FrameType | None) -> Stack:
    """The stack of a thread whose innermost frame is ``frame``, up to where voir called it."""
    found: Stack = []
    begun = None
    while frame is not None:
        if command_file(frame.f_code.co_filename):
            begun = len(found)
        elif not of_voir(frame):
            found.append((frame, frame.f_lineno or 0))
        frame = frame.f_back
    return found[:begun]


def unwound(error: BaseException) -> Stack:
    """The stack that an exception has left."""
    found = [(entry.tb_frame, entry.tb_lineno) for entry in entries_of(error.__traceback__)]
    return [each for each in reversed(found) if not of_voir(each[0])]


def handled(stack: Stack) -> BaseException | None:
    """The exception that the main thread's code is handling, as in ``finally``; None for none."""
    found: Any = sys._current_exceptions().get(threading.main_thread().ident or 0)
    error = found[1] if isinstance(found, tuple) else found  # A tuple before Python 3.12.
    if not isinstance(error, BaseException) or isinstance(error, ControlFlow):
        return None
    frames = [frame for frame, _ in stack]
    inside = any(entry.tb_frame in frames for entry in entries_of(error.__traceback__))
    return error if inside else None


def position(stack: Stack) -> object:
    """A value that changes when the thread goes on; a loop that polls has the same one again."""
    return tuple((frame.f_code, frame.f_lasti) for frame, _ in stack)


def long_work(stack: Stack) -> str:
    """What legitimately takes minutes: ``compiling``, ``a checkpoint``, ``a debugger``; or ""."""
    if any(frame.f_trace is not None for frame, _ in stack):
        return "a debugger"
    names = [f"{frame.f_globals.get('__name__')}." for frame, _ in stack]
    for what, modules in _LONG.items():
        if any(name.startswith(tuple(f"{each}." for each in modules)) for name in names):
            return what
    return ""


def importing(stack: Stack) -> bool:
    """Whether the thread imports a module."""
    return any(frame.f_code.co_name == _IMPORTS for frame, _ in stack)


def place_of(stack: Stack, communicating: bool = False) -> dict[str, Any]:
    """The place of a stack, with the keys of ``idle`` in ``run.json``.

    Args:
        stack: The stack.
        communicating: The thread is in a collective or waits for one.

    Returns:
        ``file``, ``line`` and ``function`` of the innermost frame of the user's own code; ``call``,
        what this frame has called; ``collective``; ``worker``.
    """
    if not stack:
        return {}
    own = next((n for n, (frame, _) in enumerate(stack) if _is_own(frame)), len(stack) - 1)
    frame, line = stack[own]
    found: dict[str, Any] = {
        "file": frame.f_code.co_filename,
        "line": line,
        "function": frame.f_code.co_name,
        "call": _called(stack[:own], frame) or None,
        "collective": _collective(stack[:own], communicating),
        "worker": due_worker([each for each, _ in stack[:own]]),
    }
    if found["collective"] is not None:
        found["collective"]["name"] = found["collective"]["name"] or found["call"] or "a collective"
        found["collective"]["where"] = f"{found['file']}:{line}"
    return {key: value for key, value in found.items() if value is not None}


def _is_own(frame: FrameType) -> bool:
    name = frame.f_code.co_filename  # Made by namedtuple, dataclass, attrs; or by Inductor.
    made = name == "<string>" or "torchinductor_" in name
    return not (made or of_library(frame) or in_plumbing(frame))


def _called(inner: Stack, own: FrameType) -> str:
    """What the user's frame has called; ``import NAME`` for the innermost import."""
    for frame, _ in inner:
        if frame.f_code.co_name == _IMPORTS and "name" in frame.f_locals:
            return f"import {frame.f_locals['name']}"
    names = (frame.f_code.co_name for frame, _ in reversed(inner))
    called = next((name for name in names if name not in _WRAPPERS), "")
    return called if called and not called.startswith("__") else _written(own) or called


def _written(frame: FrameType) -> str:
    """The call as the user wrote it: ``time.sleep``; empty if the source cannot be read."""
    import ast

    with suppress(Exception):
        places = [*frame.f_code.co_positions()][frame.f_lasti // 2]
        first, last, begin, end = places
        if first is not None and last is not None:
            lines = linecache.getlines(frame.f_code.co_filename)[first - 1 : last]
            data = "".join(lines).encode()
            after = sum(len(line.encode()) for line in lines[:-1]) + (end or 0)
            written: Any = ast.parse(data[begin:after].decode().strip()).body[0]
            # Of a loop that asks for its next item, Python 3.11 tells the whole loop.
            called = written.iter if isinstance(written, ast.For) else written.value
            return ast.unparse(called.func if isinstance(called, ast.Call) else called)[:80]
    return ""


def _collective(inner: Stack, communicating: bool) -> dict[str, Any] | None:
    """The collective in which the thread is, or for which it waits."""
    numbers, reducing = recorder.waiting()
    name, group, size = "", None, dict[str, int]()
    for frame, _ in inner:
        function = frame.f_code.co_name
        communicates = frame.f_globals.get("__name__") in _COLLECTIVES
        if (
            communicates and function not in _WRAPPERS and not function.startswith(_LOCAL)
        ):  # The last one is what the user called.
            name, group, size = function, _group_of(frame), _bytes_of(frame) or size
    of_buffers = any(frame.f_code.co_name == _BUFFERS for frame, _ in inner)
    if (reducing or of_buffers) and not name:
        return {"name": REDUCER}
    if not (name or communicating):
        return None
    if group is None and len(numbers) == 1:
        [group] = numbers
    known: dict[str, Any] = {"group": group} if group is not None else {}
    if group in numbers and name not in _MESSAGES:
        known["number"] = numbers[group]
    return {"name": name, **known, **size}


def _group_of(frame: FrameType) -> str | None:
    """The name of the process group that a function of torch.distributed was given."""
    with suppress(Exception):
        group = frame.f_locals.get("group")
        if group is None:  # The whole job's.
            group = sys.modules["torch.distributed.distributed_c10d"]._get_default_group()
        return str(group.group_name)
    return None


def _bytes_of(frame: FrameType) -> dict[str, int]:
    """The bytes of the largest tensor that such a function was given."""
    with suppress(Exception):
        tensor = sys.modules["torch"].Tensor
        given = [each for each in frame.f_locals.values() if isinstance(each, tensor)]
        return {"bytes": max(each.numel() * each.element_size() for each in given)}
    return {}


def write_stacks(directory: Path, more: str = "") -> None:
    """Write the stacks of all threads into the run's directory, with more text below."""
    with whole(directory / STACKS_FILE, durable=False) as file:
        file.write((all_stacks() + more).encode("utf-8", "backslashreplace"))


def all_stacks() -> str:
    """The stacks of all threads but voir's, as Python prints tracebacks; the main thread first."""
    frames, main = sys._current_frames(), threading.main_thread().ident
    listed: dict[int, Any] = dict(getattr(threading, "_active", {}))
    texts = []
    for ident in sorted(frames.keys() - hidden, key=lambda each: each != main):
        name = getattr(listed.get(ident), "name", "a thread that threading does not know")
        lines = [f"Thread {ident} ({name}), most recent call last:"]
        lines += map(_line, reversed(stack_of(frames[ident])))
        texts.append("\n".join(lines))
    return "\n\n".join(texts) + "\n"


def _line(entry: tuple[FrameType, int]) -> str:
    frame, line = entry
    code = frame.f_code
    source = linecache.getline(code.co_filename, line).strip()
    said = f'  File "{code.co_filename}", line {line}, in {code.co_qualname}'
    return f"{said}\n    {source}" if source else said
