"""Events as the fold reads them: their layout, and which part of a step each kind is."""

from __future__ import annotations

import struct

from ..recorder import sites as k

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Final

#: start, value, object, site, thread, duration (low and high), depth, flags.
RECORD = struct.Struct("<QdIHHIHBB")

#: The parts of a step, by their places in :data:`~overseer.recorder.sites.PARTS`.
LOADING: Final = 0
FORWARD: Final = 1
BACKWARD: Final = 2
OPTIMIZER: Final = 3
COMMUNICATION: Final = 4
OTHER: Final = 5
#: Of an open step: what lies between pairs. That is loading, unless something else tells loading.
BETWEEN: Final = 6

#: The part that a span's own time belongs to, by its kind.
PART = [OTHER] * 256
for _kind in k.KINDS.values():
    PART[_kind.number] = k.PARTS.index(_kind.part)

#: Kinds with which the time of the first step may begin.
BEGIN = frozenset(kind.number for kind in k.KINDS.values() if kind.begins)
