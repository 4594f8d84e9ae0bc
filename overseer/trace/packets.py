"""A trace file's packets one by one, whatever became of the file."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import dataclass

from .wire import Malformed, Value, fields, read_varint

#: Field 1 of Trace, TracePacket.packet, as bytes: every packet begins with it.
_PACKET = 0x0A
_COMPRESSED = 50
#: What a compressed packet may hold; ours have at most a few megabytes.
LARGEST = 1 << 28
#: How much of one is unpacked at once.
PIECE = 64
#: TracePacket.compressed_packets, as bytes.
_COMPRESSED_BEGINS = b"\x92\x03"
#: So many packets in a row are no coincidence.
_SURE = 3
#: TracePacket fields that packets of traces begin with, as bytes.
_OPENINGS = (
    b"\x40",
    b"\x50",
    b"\x92\x03",
    b"\xe2\x03",
    b"\x62",
    b"\x5a",
    b"\x32",
    b"\x1a",
    b"\x12",
)


@dataclass
class Damage:
    """What could not be read.

    Attributes:
        bytes: How many bytes of the file.
        packets: Packets whose extent is known and whose contents make no sense.
        tail: Bytes at the end that begin a packet and do not finish it, or are zeros.
        blocks: Compressed packets, whether what is in them could be read or not.
    """

    bytes: int = 0
    packets: int = 0
    tail: int = 0
    blocks: int = 0


Fields = list[tuple[int, Value]]


def packets(data: bytes, damage: Damage) -> Iterator[Fields]:
    """The fields of each packet that can be read, compressed ones unpacked."""
    return (found for _, found in with_bytes(data, damage))


def with_bytes(data: bytes, damage: Damage) -> Iterator[tuple[memoryview, Fields]]:
    """The same, each with the bytes it was read from."""
    return _read(data, damage, blocks=True)


def _read(data: bytes, damage: Damage, blocks: bool) -> Iterator[tuple[memoryview, Fields]]:
    torn = bytearray()
    for packet in _framed(data, damage, torn):
        try:
            found = list(fields(packet))
        except Malformed:
            damage.packets += 1
            continue
        inner = next((v for f, v in found if f == _COMPRESSED and isinstance(v, bytes)), None)
        if inner is None:
            yield packet, found
        elif blocks:  # There are none within each other.
            damage.blocks += 1
            yield from _read(_unpacked(inner, damage), damage, blocks=False)
    if torn and blocks:
        damage.blocks += 1
        # Its own beginning is good; what is missing of it has been counted.
        yield from _read(_unpacked(bytes(torn), Damage()), Damage(), blocks=False)


def _unpacked(data: bytes, damage: Damage) -> bytes:
    """What was compressed, as far as it can be read."""
    unpacker, parts, room = zlib.decompressobj(), [], LARGEST
    try:
        # In pieces, for what comes before a damaged byte is as good as it was.
        for start in range(0, len(data), PIECE):
            parts.append(unpacker.decompress(data[start : start + PIECE], room))
            room -= len(parts[-1])
            if room <= 0:
                damage.packets += 1
                break
    except zlib.error:
        damage.packets += 1
    return b"".join(parts)


def _block(data: bytes, start: int) -> bytes:
    """What there is of a compressed packet's contents that are cut off."""
    if not data.startswith(_COMPRESSED_BEGINS, start):
        return b""
    try:
        _, at = read_varint(data, start + len(_COMPRESSED_BEGINS))
    except Malformed:
        return b""
    return data[at:]


def _framed(data: bytes, damage: Damage, torn: bytearray) -> Iterator[memoryview]:
    """The bytes of each packet; what lies between two that is none is passed over.

    Args:
        data: The packets.
        damage: What was passed over.
        torn: Gets the contents of a compressed packet that the end cuts off.
    """
    view, at = memoryview(data), 0
    while at < len(data):
        extent = _extent(data, at)
        if extent is not None and extent[1] <= len(data):
            yield view[extent[0] : extent[1]]
            at = extent[1]
            continue
        # Of one that begins as packets do and is longer than what is left, the end is cut off, but
        # for better evidence: a single packet in it, up to the very end, may be chance.
        cut = extent is not None and data.startswith(_OPENINGS, extent[0])
        resumed = _resume(data, at + 1, 2 if cut else 1)
        if resumed is None:
            if extent is not None or not data[at:].strip(b"\0"):
                damage.tail += len(data) - at
            if extent is not None:
                torn += _block(data, extent[0])
            damage.bytes += len(data) - at
            return
        damage.bytes += resumed - at
        at = resumed


def _extent(data: bytes, at: int) -> tuple[int, int] | None:
    """Where the packet at ``at`` has its contents; ``None`` when there is none."""
    if data[at] != _PACKET:
        return None
    try:
        size, start = read_varint(data, at + 1)
    except Malformed:
        return start_unknown(data, at)
    return start, start + size


def start_unknown(data: bytes, at: int) -> tuple[int, int] | None:
    """A packet whose very length is cut off, if the file ends there."""
    return (len(data), len(data) + 1) if len(data) - at <= 10 else None


def _resume(data: bytes, at: int, least: int) -> int | None:
    """Where packets go on, from ``at`` or later: some in a row, or ``least`` up to the end."""
    while (at := data.find(b"\n", at)) >= 0:
        if _plausible(data, at, least):
            return at
        at += 1
    return None


def _plausible(data: bytes, at: int, least: int) -> bool:
    for n in range(1, _SURE + 1):
        extent = _extent(data, at)
        if extent is None or extent[1] > len(data) or extent[0] == extent[1]:
            return False
        if not data.startswith(_OPENINGS, extent[0]):
            return False
        at = extent[1]
        if at == len(data):
            return n >= least
    return True
