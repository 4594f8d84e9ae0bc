"""Ending a script that swallows its ending: an early stop gets through a bare ``except:``.

The stop is an exception, so that ``finally`` and ``with`` do their work. A script that catches
everything catches it too. Its handler may finish, and what cleans up behind it; then, at the next
line that runs outside of these, the stop is raised again, until it has left the script.

A stop in a thread of the script's ends that thread first, then the script: python 3.11 spins in a
traced thread while an exception waits for the main one (``RESUME`` is begun anew as long as any
does), so the main thread is told when no thread is traced any more.

A main thread that is in the standard library, where a lock may be half-way closed, takes the stop
up by a signal, and has it raised at the script's next line. If none comes, because it waits for
somebody whom the stop has ended, or in an event loop that has swallowed it, the wait is ended.
"""

from __future__ import annotations

import sys
import threading
from _queue import Empty
from _thread import start_new_thread
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from math import inf
from time import sleep
from types import FrameType
from typing import Any

from .boundary import StopProgram, Wish, in_library, in_standard, of_library, on_stop
from .cleaning import Cleaning
from .clock import monotonic
from .instructions import enters_handler, exhausts, waits
from .launch.signals import Knock

#: Whether a traced thread spins while an exception waits for the main one.
_SPINS = sys.version_info[:2] == (3, 11)
#: What marks the code of coroutines and of asynchronous generators; ``inspect`` is slow to import.
_AWAITS = 0x80 | 0x200
#: The function in which ``Thread.join`` waits, before 3.13.
_JOINS = "_wait_for_tstate_lock"
#: Packages whose code is left alone; those that run the script are not among them.
_OWN = {__package__, f"{__package__}.measure", f"{__package__}.probes"}
_OWN |= {"instruments", "instruments.auto"}
#: Seconds that threads have to be left before the script is ended whatever they do.
PATIENCE = 2.0
#: Tries to tell the main thread, a millisecond apart, before it is told in the midst of a wait.
TRIES = 1000
#: Seconds between two looks at where the main thread is, and how many in a row make a wait.
GLANCE, STILL = 0.05, 10

#: Where a thread is: its frame, without keeping that and what is in it alive, and its instruction.
Place = tuple[int, int]


class Insistence:
    """Raises a stop again wherever it has been swallowed.

    Tracing is switched on when the stop is raised, not before: until then this costs nothing.

    Args:
        elsewhere: Has the main thread end by a stop or an abort that another has raised; returns
            whether it did. The second argument is whether to do so in the midst of a wait, too.
        begins: Called in each thread that a stop or an abort is raised in, before it is left.
        knock: Reaches the main thread while that waits.

    Attributes:
        stop: The stop that has reached the main thread.
        over: The script has been left: nothing is to be raised any more.
    """

    def __init__(
        self,
        elsewhere: Callable[[Wish, bool], bool],
        begins: Callable[[], object],
        knock: Knock,
    ) -> None:
        self.stop: StopProgram | None = None
        self.over = self._watched = False
        self._elsewhere, self._begins, self._knock = elsewhere, begins, knock
        self._main: Traced | None = None
        self._lock = threading.Lock()
        self._threads: dict[int, Traced] = {}
        self._told = self._seen = self._telling = False

    def expect(self) -> None:
        """A stop is to be expected: a signal is kept for it, which others are spared."""
        self._knock.begin()

    def begin(self, stop: Wish) -> None:
        """The stop has just been raised, in code that the script called."""
        if threading.get_ident() != threading.main_thread().ident:
            self._in_a_thread(stop)
        elif isinstance(stop, StopProgram):
            self._on_main(stop, sys._getframe(1))

    def take_up(self, stop: BaseException) -> None:
        """Have the main thread raise the stop at the script's next line; returns before it does."""
        if isinstance(stop, StopProgram) and self.stop is None and not self._knock.asked:
            self._knock.ask(partial(self._on_main, stop))

    def watch(self) -> None:
        """From here on, the main thread is not to wait for ever for what the stop has ended."""
        if not self._watched:
            self._watched = True
            # Not by way of threading, whose locks the code that a signal interrupts may hold.
            start_new_thread(self._watch, ())

    def end(self) -> None:
        """The script has been left."""
        self._seen = self.over = True
        if self._main is not None:
            self._main.end()
            self.stop = self._main = None

    def _on_main(self, stop: StopProgram, frame: FrameType) -> None:
        if self.stop is None and not self.over:
            self.stop, self._seen = stop, True
            self._begins()
            self._main = Traced(stop, None)
            self._main.begin(frame)
            self.watch()

    def _watch(self) -> None:
        place, times = None, 0
        while not self.over:
            sleep(GLANCE)
            before, place = place, _place()
            times = times + 1 if place == before else 0
            # A call that a signal interrupts may fail; what cleans up is to be left alone.
            if times >= STILL and not self._cleans():
                self._knock.ask(partial(self._wake, place))
                times = 0

    def _cleans(self) -> bool:
        main = self._main
        return due_to(_handled_by_main()) or (main is not None and main.cleans(_main_frame()))

    def _wake(self, place: Place | None, frame: FrameType) -> None:
        """On the main thread: end the wait at ``place`` by the stop, if it does not clean up.

        A stop that was thrown at a thread that did not come to raise it is raised by the mere call.
        """
        if self.stop is None or self._main is None or self.over or _joins(frame):
            return
        cleans = due_to(sys.exc_info()[1]) or self._main.cleans(frame)
        if not cleans and (id(frame), frame.f_lasti) == place:
            raise Again(self.stop)

    def _released(self) -> bool:
        """Whether the threads of a pool may work again: the script cleans up, perhaps with them."""
        return self.over or self._main is None or self._main.met

    def _in_a_thread(self, wish: Wish) -> None:
        self._begins()
        frame = sys._getframe(2)
        if _of_a_timer(frame):
            return  # It finishes what it was about, and sees to that then.
        outermost = _outermost(frame)
        if not isinstance(wish, StopProgram) or outermost is None:
            self._tell(wish, True)
            return
        ident = threading.get_ident()
        with self._lock:
            spins = _SPINS and self._told and not self._seen
            if ident in self._threads or spins or _insisted_on():
                return
            traced = Traced(wish, outermost, self._left, self._released)
            self._threads[ident] = traced
            first = len(self._threads) == 1 and not self._told
        if first:
            threading.Thread(target=self._hurry, args=[wish], daemon=True).start()
        traced.begin(frame)

    def _left(self, traced: Traced) -> None:
        """A thread has left the script's code, or is let go."""
        with self._lock:
            self._threads = {k: v for k, v in self._threads.items() if v is not traced}
            if self._threads or self._telling:
                return
            self._telling = True
        # A pool's thread has other work to come, at which it is to be stopped again.
        if not self._tell(traced.stop, traced.ends or not _SPINS):
            tell = threading.Thread(target=self._go_on_telling, args=[traced.stop], daemon=True)
            tell.start()

    def _hurry(self, wish: StopProgram) -> None:
        """End the script although a thread is still at work, as soon as that is safe."""
        wait = threading.Event().wait
        wait(PATIENCE)
        for traced in list(self._threads.values()):
            # It is let go where it next does anything. One that cleans up after a stop that it has
            # swallowed would go on then, but where it spins it has to be.
            traced.over = _SPINS or not traced.cleaning.under_way
        # A thread that does nothing that shows, and a script that waits: for it perhaps.
        while self._threads and in_library(_main_frame()):
            wait(0.05)
        with self._lock:
            self._threads.clear()
        self._tell(wish, True)

    def _tell(self, wish: Wish, late: bool) -> bool:
        """Have the main thread end, unless others see to that; returns whether that is done.

        Args:
            wish: By what.
            late: If it goes on waiting for something, too.
        """
        for tries in range(TRIES + 2):
            if self._try(wish, late and tries > TRIES):
                return True
            sleep(0.001)
        return False

    def _go_on_telling(self, wish: Wish) -> None:
        while not self._try(wish, False):
            sleep(0.002)

    def _try(self, wish: Wish, late: bool) -> bool:
        with self._lock:
            if not self._told and not self._seen and not (_SPINS and self._threads):
                self._told = self._elsewhere(wish, late)
            return self._told or self._seen


class Traced:
    """One thread that a stop is insisted on in.

    Args:
        stop: The stop.
        outermost: The script's own outermost frame in a thread; None on the main one.
        left: Called when that frame has been left, on the thread itself.
        released: Whether a thread that does not end with that frame may do other work.

    Attributes:
        cleaning: Tells whether it cleans up after the stop.
        ends: With that frame, the thread ends.
        over: Do not insist any longer.
        met: The stop has been raised in the script's own code.
        suspended: Coroutines that wait for something while they handle the stop or clean up after
            it, and until when they may.
    """

    def __init__(
        self,
        stop: StopProgram,
        outermost: FrameType | None,
        left: Callable[[Traced], object] = id,
        released: Callable[[], bool] = bool,
    ) -> None:
        self.stop = stop
        self.over = self.met = self._ended = self._parked = False
        self.suspended: dict[int, float] = {}
        self.cleaning = Cleaning(None)
        self._released = released
        self.ends = _ends(outermost)
        self._outermost, self._left = outermost, left
        self._before = sys.gettrace(), sys.getprofile()
        self._unwinding: FrameType | None = None

    def begin(self, frame: FrameType | None) -> None:
        """Trace the calling thread from here on."""
        self.cleaning = Cleaning(frame)
        self._arm(frame)
        sys.setprofile(self._rearm)

    def cleans(self, frame: FrameType | None) -> bool:
        """Whether the thread cleans up after the stop in ``frame``, or a coroutine of its is to."""
        now = monotonic()
        waits = any(now < until for until in list(self.suspended.values()))
        return waits or now < self.cleaning.until(frame)

    def end(self) -> None:
        """Leave the calling thread alone."""
        self._ended = True
        trace, profile = self._before
        sys.settrace(trace)
        sys.setprofile(profile)

    def _arm(self, frame: FrameType | None) -> None:
        while frame is not None:
            if not _ours(frame):
                frame.f_trace = self._trace
            frame = frame.f_back
        sys.settrace(self._trace)

    def _rearm(self, frame: FrameType, event: str, argument: object) -> None:
        if event == "return":
            self.cleaning.left(frame)
        if self.over or (self._parked and self._released()):
            self._let_go()
        elif event == "return" and frame is self._outermost:
            self._park()
        # Python drops a trace function that has raised; this one is to raise as often as needed.
        elif not self._ended and sys.gettrace() is None:
            self._arm(frame)

    def _park(self) -> None:
        """The script's code has been left; what a pool's thread begins next is stopped, too."""
        outermost, self._outermost = self._outermost, None
        self._parked = not self.ends
        if self.ends:
            self.end()
        else:
            _forsake(outermost, self.stop)
        self._left(self)
        if self._parked and self._released():
            self.end()

    def _let_go(self) -> None:
        if not self._ended:
            self._outermost = None
            self.end()
            if not self._parked:
                self._left(self)

    def _trace(self, frame: FrameType, event: str, argument: Any) -> Any:
        if self._ended or (event == "call" and _ours(frame)):
            return None
        if event == "exception":
            self._unwinding = None if exhausts(frame, argument[0]) else frame
            self.met = self.met or (not in_standard(frame) and due_to(argument[1]))
        elif event == "line" and not self._enters_handler(frame) and self._swallowed(frame):
            self.met = True
            raise Again(self.stop)
        elif event in ("call", "return"):
            self._suspends(frame, event)
        return self._trace

    def _suspends(self, frame: FrameType, event: str) -> None:
        # To python, an ``await`` is a return from the coroutine, and then a call.
        if event == "call":
            self.suspended.pop(id(frame), None)
        elif frame.f_code.co_flags & _AWAITS and frame is not self._unwinding and waits(frame):
            handles = due_to(sys.exc_info()[1])
            self.suspended[id(frame)] = inf if handles else self.cleaning.until(frame)

    def _swallowed(self, frame: FrameType) -> bool:
        """Whether code runs that is neither handling the stop nor cleaning up after it.

        The standard library's keeps the order that its own code needs: an event loop that does not
        come to call back waits for ever. Of what is freed on the way, python ignores what it
        raises: it would only not clean up.
        """
        error = sys.exc_info()[1]
        if in_standard(frame) or isinstance(error, GeneratorExit):
            return False
        if due_to(error):  # The threads of a pool have each a stop of their own.
            return False
        return not self.cleaning(frame) and not _frees(frame)

    def _enters_handler(self, frame: FrameType) -> bool:
        # The first line after an exception is the handler's; python says so before it handles it.
        # Of one that goes on after a ``with`` it says nothing but where the handler begins.
        unwinding, self._unwinding = self._unwinding, None
        return frame is unwinding or enters_handler(frame)


def _ours(frame: FrameType) -> bool:
    """Whether the engine's own code runs, or a library's that it has called.

    To trace it would make what it notes late; a stop in the midst of it would lose a step.
    """
    called: FrameType | None = frame
    while called is not None:
        names = called.f_globals
        if names.get("__package__") in _OWN or names.get("__name__") == Knock.__module__:
            return True
        if not of_library(called):
            return False
        called = called.f_back
    return False


def _outermost(frame: FrameType | None) -> FrameType | None:
    """The frame of the script's own in which a thread's work began; None when there is none."""
    found = None
    while frame is not None:
        if not in_library(frame):
            found = frame
        frame = frame.f_back
    return found


def _of_a_timer(frame: FrameType) -> bool:
    """Whether it is voir's own thread that calls."""
    while frame.f_back is not None:
        frame = frame.f_back
    return frame.f_globals.get("__name__") == f"{__package__}.timers"


def _ends(outermost: FrameType | None) -> bool:
    """Whether a thread has nothing to do behind its outermost frame."""
    frame = outermost.f_back if outermost is not None else None
    while frame is not None and frame.f_globals.get("__name__") == threading.__name__:
        frame = frame.f_back
    return frame is None


def _forsake(frame: FrameType | None, stop: StopProgram) -> None:
    """End by the stop, too, what the pool of ``concurrent.futures`` has not begun by now."""
    while frame is not None and frame.f_globals.get("__name__") != "concurrent.futures.thread":
        frame = frame.f_back
    while frame is not None and frame.f_code.co_name != "_worker":
        frame = frame.f_back
    queue = frame.f_locals.get("work_queue") if frame is not None else None
    while queue is not None and not queue.empty():
        try:
            item = queue.get_nowait()
        except Empty:  # Another thread of the pool has been quicker.
            return
        if item is None:  # The pool is to end: what says so has to stay.
            queue.put(item)
            return
        if item.future.set_running_or_notify_cancel():
            item.future.set_exception(stop)


def _frees(frame: FrameType | None) -> bool:
    """Whether a frame is part of freeing an object."""
    while frame is not None and frame.f_code.co_name != "__del__":
        frame = frame.f_back
    return frame is not None


def _insisted_on() -> bool:
    """Whether a stop is insisted on in this thread, be it at the moment between two works."""
    return isinstance(getattr(sys.getprofile(), "__self__", None), Traced)


def _joins(frame: FrameType) -> bool:
    """Whether a frame waits for a thread that must not be taken for ended.

    Before 3.13, ``join`` does so when it is interrupted, and python at its end would not wait for
    that thread. For a daemon it does not anyway.
    """
    thread = frame.f_locals.get("self") if frame.f_code.co_name == _JOINS else None
    return isinstance(thread, threading.Thread) and not thread.daemon


def _main_frame() -> FrameType | None:
    return sys._current_frames().get(threading.main_thread().ident or 0)


def _place() -> Place | None:
    frame = _main_frame()
    return None if frame is None else (id(frame), frame.f_lasti)


def _handled_by_main() -> BaseException | None:
    error = sys._current_exceptions().get(threading.main_thread().ident or 0)
    return error[1] if isinstance(error, tuple) else error  # A tuple before 3.12.


class Again(StopProgram):
    """The stop, raised anew after it has been swallowed.

    When it is swallowed itself nothing might be called for a while, and nobody notice. That python
    frees it then is a call.
    """

    def __init__(self, stop: StopProgram) -> None:
        super().__init__(*stop.args)
        self.stop = stop

    def __del__(self) -> None: ...


def due_to(error: BaseException | None, stop: Wish | None = None) -> bool:
    """Whether ``error`` is the stop, or any, or was raised while it was handled."""
    seen = 0
    while error is not None and seen < 100:
        if error is stop or (isinstance(error, Again) and error.stop is stop):
            return True
        if stop is None and isinstance(error, Wish):
            return True
        error, seen = error.__cause__ or error.__context__, seen + 1
    return False


@contextmanager
def insisting(
    elsewhere: Callable[[Wish, bool], bool], begins: Callable[[], object]
) -> Iterator[Insistence]:
    """Within, a stop that a subscriber raises is insisted on.

    Args:
        elsewhere: Has the main thread end by what another has raised: see :class:`Insistence`.
        begins: Called in each thread that something is raised in.
    """
    knock = Knock()
    insistence = Insistence(elsewhere, begins, knock)
    try:
        with on_stop(insistence.begin):
            yield insistence
    finally:
        insistence.end()
        knock.close()
