"""The layout of events, and the part of a step that each kind belongs to."""

from __future__ import annotations

import struct

from ..recorder import sites as k

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final

#: start, value, object, site, thread, duration (low and high), depth, flags.
RECORD = struct.Struct("<QdIHHIHBB")

#: The parts of a step, as indices of :data:`~overseer.recorder.sites.PARTS`.
PART_LOADING: Final = 0
PART_FORWARD: Final = 1
PART_BACKWARD: Final = 2
PART_OPTIMIZER: Final = 3
PART_COMMUNICATION: Final = 4
PART_OTHER: Final = 5
#: Time between pairs in an open step: loading, unless other events show the loading.
PART_BETWEEN: Final = 6

#: The part of a span's exclusive time, by kind.
PART_OF = [PART_OTHER] * 256
for _kind in k.KINDS.values():
    PART_OF[_kind.number] = k.PARTS.index(_kind.part)

#: Kinds of events that can begin the first step.
FIRST_KINDS = frozenset(kind.number for kind in k.KINDS.values() if kind.begins)
