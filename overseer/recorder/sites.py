"""What recorded events stand for: the table of kinds of events, and the table of sites.

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
HEADS, OVERHEAD_WORD = slice(5, 7), 9
#: Rings: what the fold's rules read, and everything else.
STRUCTURE: Final = 0
VALUES: Final = 1

# Kinds of events: their numbers, which tables of sites, recorded logs and the C sources have too.
# What else is known of a kind is in its row of KINDS.
LOADING: Final = 1  #: span: a loader is asked for a batch; value: its items
#: span: a loader begins anew; object: the loader; value: identity of its iterator
ITERATE: Final = 2
FORWARD: Final = 3  #: span: a root module is called; object: the module; value: rows of its input
BACKWARD: Final = 4  #: span: value: what it was called on
OPTIMIZER: Final = 5  #: span: an optimizer's step; object: the optimizer
SCALE: Final = 6  #: span: ``GradScaler.scale``; value: the loss before scaling
SCALER: Final = 7  #: span: ``GradScaler.step``
ZERO_GRAD: Final = 8  #: no event: the next backward of the thread is ZEROED
MADE: Final = 9  #: span: an optimizer is made; object: the optimizer
SAVE: Final = 10  #: span: ``torch.save``
#: mark: the script or a voirfile says that a step has ended; value: its items. FAILED: an exception
#: has left the turn of the loop, or the call: it is no step
STEP: Final = 11
PAIR: Final = 12  #: span: a pair around the work on a batch; value: its items. FAILED: as of a STEP
PAUSE: Final = 13  #: span: a declared pause
#: mark: a ``for`` loop asks for the next item, CAME: it has come; object: the iterator
LOOP: Final = 14
COMPILE: Final = 16  #: span: Dynamo compiles
COMMUNICATION: Final = 17  #: span: a collective
LOSS: Final = 18  #: mark: a loss that was given; value. FAILED: it cannot be read
BATCH: Final = 19  #: mark: a batch that was given without a step; value: its items
ENTERS: Final = 20  #: mark: a loop, or a call, begins in which a STEP comes
#: mark: a thread records for the first time; value: its native id. Its site is 0, which has no kind
THREAD: Final = 22
LATE: Final = 23  #: mark: the value of the event of site ``object`` that began at ``start``
#: span on a device: of the event of thread ``object`` that began at ``start``, or the mark then;
#: its duration without MARKED spans within; value: ns before it, NaN: not known. ``object`` 0: no
#: more will come
DEVICE: Final = 24
#: mark: a layer that takes time in the place of the batch is part of a module
TIME_FIRST: Final = 26
GRADIENTS: Final = 27  #: span: ``torch.autograd.grad``
PAIR_BEGINS: Final = 28
LOADING_BEGINS: Final = 29
PAUSE_BEGINS: Final = 30  #: marks: a pair of this kind begins
WAITS: Final = 31  #: mark: a loop begins, in whose turns are pairs: it waits for its first batch
VALUE: Final = 32  #: mark: a number that a probe saw, or a counter was given
SPAN: Final = 33  #: span: a user's
INSTANT: Final = 34  #: mark: a user's
MODULE: Final = 35  #: span: a module within a root module; object: the module
NOTE: Final = 36  #: text: object: its length in bytes; the text follows in slots of its own
#: The kinds up to this one nest: one comparison tells the fold so, for each event.
LAST_NESTING: Final = SAVE

#: The parts of a step, in the order in which they come.
PARTS = ("loading", "forward", "backward", "optimizer", "communication", "other")


class Kind:
    """A kind of events.

    Attributes:
        nests: Whether the time of spans within it is not counted as its own.
        ring: ``STRUCTURE`` or ``VALUES``.
        part: The part of a step that its own time belongs to.
        row: The row of the trace that shows it, its spans' ``label``, and the ``channel`` that
            switches them; an empty row: none, or the thread's.
        doing: What a run does that was killed while it was open.
        opening: The kind that records its beginning; 0: none does.
        begins: Whether the time of the first step may begin with it.
        tells: Whether each event may tell a step, an optimizer's within one of these with its end:
            ``--stop`` waits for these.
        given: Whether only the script or a voirfile tells it, and no hook.
        timed: Whether its boundaries are marked on a device.
    """

    __slots__ = (
        "begins", "channel", "doing", "given", "label", "name", "nests", "number", "opening",
        "part", "ring", "row", "tells", "timed",
    )  # fmt: skip

    def __init__(
        self, number: int, name: str, ring: int = STRUCTURE, *, part: str = "other", row: str = "",
        label: str = "", channel: str = "", doing: str = "", opening: int = 0, begins: bool = False,
        tells: bool = False, given: bool = False, timed: bool = False,
    ) -> None:  # fmt: skip
        self.number, self.name, self.ring, self.part = number, name, ring, part
        self.nests = number <= LAST_NESTING
        self.row, self.label = row, label or name
        self.channel = channel or ("passes" if row else "")
        self.doing, self.opening, self.begins = doing, opening, begins
        self.tells, self.given, self.timed = tells, given, timed


#: The one table of kinds, by number.
KINDS = {kind.number: kind for kind in (
    Kind(LOADING, "loading", part="loading", row="data loader", doing="loading",
         opening=LOADING_BEGINS, begins=True, timed=True),
    Kind(ITERATE, "iterate", part="loading", row="data loader", label="new epoch", doing="loading",
         begins=True, timed=True),
    Kind(FORWARD, "forward", part="forward", row="passes", doing="forward",
         begins=True, timed=True),
    Kind(BACKWARD, "backward", part="backward", row="passes", doing="backward",
         begins=True, tells=True, timed=True),
    Kind(OPTIMIZER, "optimizer", part="optimizer", row="optimizer", doing="the optimizer",
         begins=True, tells=True, timed=True),
    Kind(SCALE, "scale", part="backward", row="passes"),
    Kind(SCALER, "scaler", part="optimizer", row="optimizer", doing="the optimizer",
         tells=True, timed=True),
    Kind(ZERO_GRAD, "zero_grad"),
    Kind(MADE, "made"),
    Kind(SAVE, "save", row="checkpoints", label="checkpoint", channel="checkpoints",
         doing="a checkpoint", timed=True),
    Kind(STEP, "step", begins=True, tells=True, given=True, timed=True),
    Kind(PAIR, "pair", doing="a step", opening=PAIR_BEGINS,
         begins=True, tells=True, given=True, timed=True),
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
)}  # fmt: skip

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

# What a call of a model is.
NEITHER: Final = 0
LEARNING: Final = 1
EVALUATION: Final = 2


def call(flags: int) -> int:
    """What a call of a model is, by the flags of its FORWARD event.

    In training mode and with gradients the model learns; with neither it is evaluated. Anything
    else, such as a frozen model within a step, is neither.
    """
    learns = flags & (TRAINING | GRAD)
    return LEARNING if learns == TRAINING | GRAD else NEITHER if learns else EVALUATION


#: The same by flags, for what looks at each event; it depends on the lowest two only.
CALLS: Final = bytes(map(call, range(4))) * 64

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
