"""Reads and writes protocol buffer fields, without generated code."""

from __future__ import annotations

import struct

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    Value = int | bytes

#: Wire types.
VARINT, I64, LEN, I32 = 0, 1, 2, 5
_double = struct.Struct("<d")
_SMALL = [bytes((n,) if n < 128 else (n & 127 | 128, n >> 7)) for n in range(1 << 14)]


class Malformed(ValueError):
    """The bytes are not a complete protocol buffer message."""


def varint(number: int) -> bytes:
    """Encode a non-negative number: seven bits a byte, the lowest first."""
    if number < 1 << 14:
        return _SMALL[number]
    parts = bytearray()
    while number > 127:
        parts.append(number & 127 | 128)
        number >>= 7
    parts.append(number)
    return bytes(parts)


def number(field: int, value: int) -> bytes:
    """Encode an integer field; negative values as 64-bit two's complement."""
    return varint(field << 3 | VARINT) + varint(value & 0xFFFF_FFFF_FFFF_FFFF)


def message(field: int, data: bytes) -> bytes:
    """Encode a field of bytes: a string or a message."""
    return varint(field << 3 | LEN) + varint(len(data)) + data


def text(field: int, value: str) -> bytes:
    """Encode a string field; lone surrogates are escaped."""
    return message(field, value.encode("utf-8", "backslashreplace"))


def double(field: int, value: float) -> bytes:
    """Encode a double field."""
    return varint(field << 3 | I64) + _double.pack(value)


def fields(data: bytes | memoryview) -> Iterator[tuple[int, Value]]:
    """Yield each field's number and value; doubles as their eight bytes.

    Raises:
        Malformed: The message ends within a field, or a wire type is unknown.
    """
    at, end = 0, len(data)
    while at < end:
        tag, at = read_varint(data, at)
        kind = tag & 7
        if kind == VARINT:
            value, at = read_varint(data, at)
            yield tag >> 3, value
            continue
        if kind == LEN:
            size, at = read_varint(data, at)
        elif kind in (I64, I32):
            size = 8 if kind == I64 else 4
        else:
            raise Malformed(f"unknown wire type {kind}")
        if at + size > end:
            raise Malformed("the message ends within a field")
        yield tag >> 3, bytes(data[at : at + size])
        at += size


def read_varint(data: bytes | memoryview, at: int) -> tuple[int, int]:
    """The number that begins at ``at``, and the position after it.

    Raises:
        Malformed: The number is cut off or too long.
    """
    if at < len(data) and data[at] < 128:
        return data[at], at + 1
    value = shift = 0
    for byte in data[at : at + 10]:
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value & 0xFFFF_FFFF_FFFF_FFFF, at
        shift += 7
    raise Malformed("the message ends within a number")


def as_number(value: Value, signed: bool = False) -> int:
    """Check that a field holds an integer, and return it.

    Args:
        value: The field's value.
        signed: Read it as two's complement.

    Raises:
        Malformed: The field holds bytes.
    """
    if not isinstance(value, int):
        raise Malformed("not a number")
    return value - (1 << 64) if signed and value >> 63 else value


def as_bytes(value: Value) -> bytes:
    """Check that a field holds bytes, and return them.

    Raises:
        Malformed: The field holds a number.
    """
    if not isinstance(value, bytes):
        raise Malformed("not a message")
    return value


def as_text(value: Value) -> str:
    """Decode a field's text, replacing invalid bytes.

    Raises:
        Malformed: The field holds a number.
    """
    return as_bytes(value).decode("utf-8", "replace")


def as_double(value: Value) -> float:
    """Decode a field's double.

    Raises:
        Malformed: The field does not hold eight bytes.
    """
    data = as_bytes(value)
    if len(data) != 8:
        raise Malformed("not a double")
    return float(_double.unpack(data)[0])
