"""TensorBoard's event files: scalars in records of protocol buffers, each with its checksums.

The format is TensorFlow's: a record is the length of its data (8 bytes, little-endian), a checksum
of that, the data, a checksum of that; the data is an ``Event`` (tensorflow/core/util/event.proto).
Only scalars are written, for which nothing need be installed.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from typing import NamedTuple

_VERSION = b"brain.Event:2"


class Scalar(NamedTuple):
    """A value to plot.

    Attributes:
        tag: What it is called; what stands before a slash is its group.
        step: Where on the axis.
        time: Seconds since the epoch.
        value: The value, rounded to single precision.
    """

    tag: str
    step: int
    time: float
    value: float


def event_file(began: float, scalars: Iterable[Scalar]) -> Iterator[bytes]:
    """The bytes of an event file, in pieces.

    Args:
        began: Seconds since the epoch.
        scalars: In the order of their times.
    """
    yield _record(_time(began) + _bytes(3, _VERSION))
    for one in scalars:
        value = _bytes(1, one.tag.encode("utf-8", "replace")) + _float(2, one.value)
        yield _record(_time(one.time) + _whole(2, one.step) + _bytes(5, _bytes(1, value)))


def _record(data: bytes) -> bytes:
    length = struct.pack("<Q", len(data))
    return length + _checksum(length) + data + _checksum(data)


# Protocol buffers: a number and a kind, then the value.


def _time(seconds: float) -> bytes:
    return b"\x09" + struct.pack("<d", seconds)


def _float(number: int, value: float) -> bytes:
    try:
        return bytes((number << 3 | 5,)) + struct.pack("<f", value)
    except OverflowError:  # Beyond single precision.
        return _float(number, float("inf") if value > 0 else float("-inf"))


def _whole(number: int, value: int) -> bytes:
    return bytes((number << 3,)) + _varint(value)


def _bytes(number: int, value: bytes) -> bytes:
    return bytes((number << 3 | 2,)) + _varint(len(value)) + value


def _varint(value: int) -> bytes:
    found = bytearray()
    while value > 127:
        found.append(value & 127 | 128)
        value >>= 7
    found.append(value)
    return bytes(found)


# CRC-32C (Castagnoli), turned and shifted as TensorFlow does.


def _table() -> list[int]:
    table = []
    for byte in range(256):
        for _ in range(8):
            byte = byte >> 1 ^ (0x82F63B78 if byte & 1 else 0)
        table.append(byte)
    return table


_TABLE = _table()


def crc32c(data: bytes) -> int:
    """The CRC-32C of ``data`` (RFC 3720, B.4)."""
    crc, table = 0xFFFFFFFF, _TABLE
    for byte in data:
        crc = table[(crc ^ byte) & 255] ^ crc >> 8
    return crc ^ 0xFFFFFFFF


def _checksum(data: bytes) -> bytes:
    crc = crc32c(data)
    return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)
