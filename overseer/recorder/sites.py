"""What recorded events stand for: kinds of events, and the table of sites.

An event holds the number of its site. The table says what the site is: its kind, a label, the
selector or keys that it stands for, where it is in the code, and its task.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Final

#: The layout of events and header.
FORMAT: Final = 2
#: Control words of the header: how many steps there have been, when the last one ended, and when
#: voir last was at work, both in monotonic ns. The words before are free for who controls a run.
WORD_STEPS: Final = 5
WORD_STEPPED: Final = 6
WORD_BEAT: Final = 7
#: Where numbers of the header are, in words of 8 bytes: how many events the rings have had, and
#: nanoseconds that recording and the bus have cost.
HEADS, OWN = slice(5, 7), 9
#: Rings: what the fold's rules read, and everything else.
STRUCTURE: Final = 0
VALUES: Final = 1

# Kinds of the structure ring. The C recorder knows FORWARD, BACKWARD, OPTIMIZER, ZERO_GRAD, STEP,
# LOOP, COMPILE, LOSS, ENTERS, THREAD and WAITS by these numbers.
LOADING: Final = 1  #: span: a loader is asked for a batch; value: its items
ITERATE: Final = (
    2  #: span: a loader begins anew; object: the loader; value: identity of its iterator
)
FORWARD: Final = 3  #: span: a root module is called; object: the module; value: rows of its input
BACKWARD: Final = 4  #: span: value: what it was called on
OPTIMIZER: Final = 5  #: span: an optimizer's step; object: the optimizer
SCALE: Final = 6  #: span: ``GradScaler.scale``; value: the loss before scaling
SCALER: Final = 7  #: span: ``GradScaler.step``
ZERO_GRAD: Final = 8  #: no event: the next backward of the thread is ZEROED
MADE: Final = 9  #: span: an optimizer is made; object: the optimizer
SAVE: Final = 10  #: span: ``torch.save``
STEP: Final = (
    11  #: mark: the script or a voirfile says that a step has ended; value: its items. FAILED:
)
#: an exception has left the turn of the loop, or the call: it is no step
PAIR: Final = 12  #: span: a pair around the work on a batch; value: its items. FAILED: as of a STEP
PAUSE: Final = 13  #: span: a declared pause
LOOP: Final = (
    14  #: mark: a ``for`` loop asks for the next item, CAME: it has come; object: the iterator
)
COMPILE: Final = 16  #: span: Dynamo compiles
COMMUNICATION: Final = 17  #: span: a collective
ENTERS: Final = 20  #: mark: a loop, or a call, begins in which a STEP comes
LOSS: Final = 18  #: mark: a loss that was given; value. FAILED: it cannot be read
BATCH: Final = 19  #: mark: a batch that was given without a step; value: its items
THREAD: Final = 22  #: mark: a thread records for the first time; value: its native id
LATE: Final = 23  #: mark: the value of the event of site ``object`` that began at ``start``
DEVICE: Final = (
    24  #: span on a device: of the event of thread ``object`` that began at ``start``, or the
)
#: mark then; its duration without MARKED spans within; value: ns before it, NaN: not known.
#: ``object`` 0: no more will come
TIME_FIRST: Final = (
    26  #: mark: a layer that takes time in the place of the batch is part of a module
)
GRADIENTS: Final = 27  #: span: ``torch.autograd.grad``
PAIR_BEGINS: Final = 28
LOADING_BEGINS: Final = 29
PAUSE_BEGINS: Final = 30  #: marks: a pair of this kind begins
WAITS: Final = 31  #: mark: a loop begins, in whose turns are pairs: it waits for its first batch

# Kinds of the value ring.
VALUE: Final = 32  #: mark: a number that a probe saw, or a counter was given
SPAN: Final = 33  #: span: a user's
INSTANT: Final = 34  #: mark: a user's
MODULE: Final = 35  #: span: a module within a root module; object: the module
NOTE: Final = 36  #: text: object: its length in bytes; the text follows in slots of its own

# Flags of an event.
TRAINING: Final = 1
GRAD: Final = 2
MODEL: Final = 4  #: of a module: its mode, whether gradients are on, parameters
ENDED: Final = 8
FAILED: Final = 16  #: StopIteration, or any other exception
IN_OPTIMIZER: Final = 32
LATER: Final = 64  #: inside of an optimizer's step; the value comes as a LATE event
ZEROED: Final = 1  #: of a backward: ``zero_grad`` was called since the last one
AMBIGUOUS: Final = 1  #: of a loader's batch: a dictionary with tensors of several lengths
CAME: Final = 128  #: of a loop: its next item has come; value: its items. LATER: as MARKED
MARKED: Final = 128  #: of any other: its time on a device comes as a DEVICE event

# What a site reads of its value, and its role in a pair.
NOTHING, NUMBER, LENGTH, MODULE_CALL, RESULT, IDENTITY = range(6)
PLAIN, BEGINS, ENDS = range(3)

#: The largest number that a site can have; further ones share it.
LAST = 65_000


class Sites:
    """The table of sites: from the number in an event to what it stands for.

    Attributes:
        rows: One dictionary for each number; number 0 stands for nothing.
    """

    def __init__(self) -> None:
        self.rows: list[dict[str, Any]] = [{"kind": 0}]

    def add(self, kind: int, label: str = "", **more: Any) -> int:
        """Enter a site; returns its number.

        Args:
            kind: The kind of its events.
            label: What to call it.
            more: ``selector``, ``keys``, ``file``, ``line``, ``task``, ``unit``, as far as known.
        """
        if len(self.rows) > LAST:
            return LAST
        self.rows.append({"kind": kind, "label": label, **more})
        return len(self.rows) - 1


#: The table of this process.
table = Sites()
