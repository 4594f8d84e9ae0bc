"""Defines the kinds of events, and the table of sites.

An event contains the number of its site. The table maps it to the site's kind, label, selector or
keys, place in the code, and task.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Final

#: Version of the layout of events and header.
FORMAT: Final = 2
#: Control words of the header that other programs set, and the run sets to 0 when it has done what
#: they ask: the step after which it ends, or STOP_NOW; the number of steps to trace; its stacks.
WORD_STOP: Final = 0
WORD_TRACE: Final = 1
WORD_STACKS: Final = 2
STOP_NOW: Final = (1 << 63) - 1
#: Control words that the run sets: number of steps, end of the last one, and voir's latest
#: heartbeat, both in monotonic ns.
WORD_STEPS: Final = 5
WORD_STEPPED: Final = 6
WORD_BEAT: Final = 7
#: Offsets in the header, in words of 8 bytes: events recorded in each ring, and nanoseconds spent
#: on recording and the bus.
HEADS, OVERHEAD_WORD = slice(5, 7), 9
#: Rings: events that the fold reads, and all others.
STRUCTURE: Final = 0
VALUES: Final = 1

# Kinds of events. Their numbers are also in tables of sites, recorded logs and the C sources. All
# other facts about a kind are in its row of KINDS.
LOADING: Final = 1  #: span: a loader returns a batch; value: its items
#: span: an iterator over a loader is created; object: the loader; value: the iterator's identity
ITERATE: Final = 2
FORWARD: Final = 3  #: span: a root module is called; object: the module; value: rows of its input
BACKWARD: Final = 4  #: span: a backward pass; value: the tensor it was called on
OPTIMIZER: Final = 5  #: span: an optimizer's step; object: the optimizer
SCALE: Final = 6  #: span: ``GradScaler.scale``; value: the loss before scaling
SCALER: Final = 7  #: span: ``GradScaler.step``
ZERO_GRAD: Final = 8  #: no event: the next backward of the thread is ZEROED
MADE: Final = 9  #: span: an optimizer is created; object: the optimizer
SAVE: Final = 10  #: span: ``torch.save``
#: mark: a step given by the script or a voirfile has ended; value: its items. FAILED: an exception
#: left the iteration or call, so it does not count as a step
STEP: Final = 11
PAIR: Final = 12  #: span: a pair around the work on a batch; value: its items. FAILED: as for STEP
PAUSE: Final = 13  #: span: a declared pause
#: mark: a ``for`` loop requests the next item, or, with CAME, received it; object: the iterator
LOOP: Final = 14
COMPILE: Final = 16  #: span: Dynamo compiles
#: span: a collective or message is issued, or waited for; value: bytes of its tensors; object: the
#: collective's number in its group, from 1
COMMUNICATION: Final = 17
LOSS: Final = 18  #: mark: a given loss; value: the loss. FAILED: it cannot be read
BATCH: Final = 19  #: mark: a batch given without a step; value: its items
ENTERS: Final = 20  #: mark: a loop or call that contains a STEP begins
#: mark: first event of a thread; value: its native id. Its site is 0, which has no kind
THREAD: Final = 22
LATE: Final = 23  #: mark: the value of the event of site ``object`` that began at ``start``
#: span on a device, for the event of thread ``object`` that began at ``start``: its duration
#: without nested MARKED spans; value: ns before it, NaN if unknown. ``object`` 0: the last one
DEVICE: Final = 24
#: mark: a layer with time as its first dimension, instead of the batch, is part of a module
TIME_FIRST: Final = 26
GRADIENTS: Final = 27  #: span: ``torch.autograd.grad``
PAIR_BEGINS: Final = 28
LOADING_BEGINS: Final = 29
PAUSE_BEGINS: Final = 30  #: marks: a pair of this kind begins
WAITS: Final = 31  #: mark: a loop that contains pairs begins: it waits for its first batch
VALUE: Final = 32  #: mark: a value captured by a probe or given to a counter
SPAN: Final = 33  #: span: recorded by the user
INSTANT: Final = 34  #: mark: recorded by the user
MODULE: Final = 35  #: span: a module within a root module; object: the module
NOTE: Final = 36  #: text; object: its length in bytes; the text follows in further slots
#: mark: a schedule of a pipeline begins or ends, or a pass of a stage begins
STAGE: Final = 37
#: Kinds up to this one nest, and COMMUNICATION; the fold needs one comparison for most events.
LAST_NESTING: Final = SAVE

#: The parts of a step, in order.
PARTS = ("loading", "forward", "backward", "optimizer", "communication", "other")


class Kind:
    """A kind of event.

    Attributes:
        nests: Its time excludes nested spans.
        ring: ``STRUCTURE`` or ``VALUES``.
        part: The part of a step to which its time belongs.
        row: Its row in the trace; empty for none, or for the thread's row.
        label: The name of its spans in the trace.
        channel: The trace channel that enables it.
        doing: Activity of a run killed while such a span was open.
        opening: The kind that records its beginning; 0 for none.
        begins: The first step may begin with it.
        completes: Such an event may complete a step (for an optimizer nested in one, at the outer
            event's end); ``--stop`` waits for these.
        given: Recorded only for the script or a voirfile, never by a hook.
        timed: Its boundaries are marked on the device.
    """

    __slots__ = (
        "begins", "channel", "completes", "doing", "given", "label", "name", "nests", "number",
        "opening", "part", "ring", "row", "timed",
    )  # fmt: skip

    def __init__(
        self, number: int, name: str, ring: int = STRUCTURE, *, part: str = "other", row: str = "",
        label: str = "", channel: str = "", doing: str = "", opening: int = 0, begins: bool = False,
        completes: bool = False, given: bool = False, timed: bool = False,
    ) -> None:  # fmt: skip
        self.number, self.name, self.ring, self.part = number, name, ring, part
        self.nests = number <= LAST_NESTING or number == COMMUNICATION
        self.row, self.label = row, label or name
        self.channel = channel or ("passes" if row else "")
        self.doing, self.opening, self.begins = doing, opening, begins
        self.completes, self.given, self.timed = completes, given, timed


#: The one table of kinds, by number.
KINDS = {kind.number: kind for kind in (
    Kind(LOADING, "loading", part="loading", row="data loader", doing="loading",
         opening=LOADING_BEGINS, begins=True, timed=True),
    Kind(ITERATE, "iterate", part="loading", row="data loader", label="new epoch", doing="loading",
         begins=True, timed=True),
    Kind(FORWARD, "forward", part="forward", row="passes", doing="forward",
         begins=True, timed=True),
    Kind(BACKWARD, "backward", part="backward", row="passes", doing="backward",
         begins=True, completes=True, timed=True),
    Kind(OPTIMIZER, "optimizer", part="optimizer", row="optimizer", doing="the optimizer",
         begins=True, completes=True, timed=True),
    Kind(SCALE, "scale", part="backward", row="passes"),
    Kind(SCALER, "scaler", part="optimizer", row="optimizer", doing="the optimizer",
         completes=True, timed=True),
    Kind(ZERO_GRAD, "zero_grad"),
    Kind(MADE, "made"),
    Kind(SAVE, "save", row="checkpoints", label="checkpoint", channel="checkpoints",
         doing="a checkpoint", timed=True),
    Kind(STEP, "step", begins=True, completes=True, given=True, timed=True),
    Kind(PAIR, "pair", doing="a step", opening=PAIR_BEGINS,
         begins=True, completes=True, given=True, timed=True),
    Kind(PAUSE, "pause", row="pauses", doing="a pause", opening=PAUSE_BEGINS,
         given=True, timed=True),
    Kind(LOOP, "loop", begins=True, timed=True),
    Kind(COMPILE, "compile", row="compilation", doing="compiling"),
    Kind(COMMUNICATION, "communication", part="communication", row="communication", label="wait",
         doing="communication", timed=True),
    Kind(LOSS, "loss", channel="metrics", given=True),
    Kind(BATCH, "batch", begins=True, given=True),
    Kind(ENTERS, "enters", given=True, timed=True),
    Kind(THREAD, "thread", channel="voir"),
    Kind(LATE, "late", channel="metrics"),
    Kind(DEVICE, "device", row="device", label="execution"),
    Kind(TIME_FIRST, "time_first"),
    Kind(GRADIENTS, "gradients"),
    Kind(PAIR_BEGINS, "pair_begins", given=True, timed=True),
    Kind(LOADING_BEGINS, "loading_begins", timed=True),
    Kind(PAUSE_BEGINS, "pause_begins", given=True, timed=True),
    Kind(WAITS, "waits", given=True, timed=True),
    Kind(VALUE, "value", VALUES, channel="metrics"),
    Kind(SPAN, "span", VALUES, channel="given"),
    Kind(INSTANT, "instant", VALUES),
    Kind(MODULE, "module", VALUES, channel="modules"),
    Kind(NOTE, "note", VALUES),
    Kind(STAGE, "stage", channel="passes"),
)}  # fmt: skip

# Flags of an event.
TRAINING: Final = 1
GRAD: Final = 2
MODEL: Final = 4  #: FORWARD: in training mode; gradients enabled; has parameters or submodules
ENDED: Final = 8
FAILED: Final = 16  #: left by StopIteration; by any other exception
IN_OPTIMIZER: Final = 32
LATER: Final = 64  #: inside an optimizer's step; the value follows in a LATE event
ZEROED: Final = 1  #: BACKWARD: ``zero_grad`` was called since the last one
AMBIGUOUS: Final = 1  #: LOADING: the batch is a dictionary with tensors of several lengths
CAME: Final = 128  #: LOOP: an item was received; value: its items. LATER: like MARKED
MARKED: Final = 128  #: all other kinds: the time on the device follows in a DEVICE event

# Classes of model calls.
NEITHER: Final = 0
LEARNING: Final = 1
EVALUATION: Final = 2


def call(flags: int) -> int:
    """Classify a model call by the flags of its FORWARD event.

    With training mode and gradients it is learning; without both, evaluation. Anything else, such
    as a frozen model within a step, is neither.
    """
    learns = flags & (TRAINING | GRAD)
    return LEARNING if learns == TRAINING | GRAD else NEITHER if learns else EVALUATION


#: The same as a lookup table by flags, for code that handles each event.
CALLS: Final = bytes(map(call, range(4))) * 64

# Readers of a site's value, and a site's role in a pair.
NOTHING, NUMBER, LENGTH, MODULE_CALL, RESULT, IDENTITY, COLLECTIVE, MESSAGE = range(8)
PLAIN, BEGINS, ENDS = range(3)

#: The largest site number; further sites share it.
LAST = 65_000


class Sites:
    """The table of sites, indexed by the site number in events.

    Attributes:
        rows: One dictionary per number; number 0 is unused.
    """

    def __init__(self) -> None:
        self.rows: list[dict[str, Any]] = [{"kind": 0}]

    def add(self, kind: int, label: str = "", **more: Any) -> int:
        """Add a site; returns its number.

        Args:
            kind: The kind of its events.
            label: Its name for display.
            more: ``selector``, ``keys``, ``file``, ``line``, ``task``, ``unit``, if known.
        """
        if len(self.rows) > LAST:
            return LAST
        self.rows.append({"kind": kind, "label": label, **more})
        return len(self.rows) - 1


#: The table of this process.
table = Sites()
