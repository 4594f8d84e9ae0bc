"""Protocol buffers as far as traces need them: fields written, fields read, nothing generated."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Mapping

Value = int | bytes

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
_double = struct.Struct("<d")
_SMALL = [bytes([number]) for number in range(128)]


class Malformed(ValueError):
    """These bytes are no protocol buffer message, or not a whole one."""


def varint(number: int) -> bytes:
    """A non-negative number, seven bits a byte, the least first."""
    if number < 128:
        return _SMALL[number]
    parts = bytearray()
    while number > 127:
        parts.append(number & 127 | 128)
        number >>= 7
    parts.append(number)
    return bytes(parts)


def number(field: int, value: int) -> bytes:
    """An integer field; a negative one as its 64-bit two's complement."""
    return varint(field << 3 | VARINT) + varint(value & 0xFFFF_FFFF_FFFF_FFFF)


def message(field: int, data: bytes) -> bytes:
    """A field of bytes: a string or a message."""
    return varint(field << 3 | BYTES) + varint(len(data)) + data


def text(field: int, value: str) -> bytes:
    """A string field; what is no text (lone surrogates) is written as escapes."""
    return message(field, value.encode("utf-8", "backslashreplace"))


def double(field: int, value: float) -> bytes:
    """A double field."""
    return varint(field << 3 | FIXED64) + _double.pack(value)


def fields(data: bytes | memoryview) -> Iterator[tuple[int, Value]]:
    """Each field of a message with its value; doubles come as their eight bytes.

    Raises:
        Malformed: It ends within a field, or has one of a kind that there is not.
    """
    at, end = 0, len(data)
    while at < end:
        tag, at = read_varint(data, at)
        kind = tag & 7
        if kind == VARINT:
            value, at = read_varint(data, at)
            yield tag >> 3, value
            continue
        at, after = _extent(data, kind, at)
        yield tag >> 3, bytes(data[at:after])
        at = after


def _extent(data: bytes | memoryview, kind: int, at: int) -> tuple[int, int]:
    """From where to where the value of a field that is no varint goes."""
    if kind == BYTES:
        size, at = read_varint(data, at)
    elif kind in (FIXED64, FIXED32):
        size = 8 if kind == FIXED64 else 4
    else:
        raise Malformed(f"a field of kind {kind}")
    if at + size > len(data):
        raise Malformed("it ends within a field")
    return at, at + size


def rewritten(data: bytes | memoryview, changes: Mapping[int, Callable[[Value], bytes]]) -> bytes:
    """A message with some of its fields replaced, each by what its function makes of its value.

    Raises:
        Malformed: As :func:`fields`.
    """
    parts, at = [], 0
    while at < len(data):
        tag, after = read_varint(data, at)
        if tag & 7 == VARINT:
            value: Value
            value, after = read_varint(data, after)
        else:
            start, after = _extent(data, tag & 7, after)
            value = bytes(data[start:after])
        change = changes.get(tag >> 3)
        parts.append(bytes(data[at:after]) if change is None else change(value))
        at = after
    return b"".join(parts)


def read_varint(data: bytes | memoryview, at: int) -> tuple[int, int]:
    """The number that begins at ``at``, and where it ends.

    Raises:
        Malformed: It does not end, or is too long.
    """
    value = shift = 0
    while shift < 70:
        try:
            byte = data[at]
        except IndexError:
            raise Malformed("it ends within a number") from None
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value & 0xFFFF_FFFF_FFFF_FFFF, at
        shift += 7
    raise Malformed("a number of more than ten bytes")


def signed(value: Value) -> int:
    """A 64-bit varint as the signed number it stands for.

    Raises:
        Malformed: It is bytes.
    """
    found = as_number(value)
    return found - (1 << 64) if found >> 63 else found


def as_double(value: Value) -> float:
    """The double that eight bytes hold.

    Raises:
        Malformed: They are no eight bytes.
    """
    if not isinstance(value, bytes) or len(value) != 8:
        raise Malformed("no double")
    return float(_double.unpack(value)[0])


def as_text(value: Value) -> str:
    """The text that bytes hold, whatever they are.

    Raises:
        Malformed: It is a number.
    """
    if not isinstance(value, bytes):
        raise Malformed("no text")
    return value.decode("utf-8", "replace")


def as_bytes(value: Value) -> bytes:
    """Bytes.

    Raises:
        Malformed: It is a number.
    """
    if not isinstance(value, bytes):
        raise Malformed("no message")
    return value


def as_number(value: Value) -> int:
    """An unsigned number.

    Raises:
        Malformed: It is bytes.
    """
    if not isinstance(value, int):
        raise Malformed("no number")
    return value
