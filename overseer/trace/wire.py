"""Protocol buffers as far as traces need them: fields written, fields read, nothing generated."""

from __future__ import annotations

import struct

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    Value = int | bytes

VARINT, I64, LEN, I32 = 0, 1, 2, 5
_double = struct.Struct("<d")
_SMALL = [bytes((n,) if n < 128 else (n & 127 | 128, n >> 7)) for n in range(1 << 14)]


class Malformed(ValueError):
    """These bytes are no protocol buffer message, or not a whole one."""


def varint(number: int) -> bytes:
    """A non-negative number, seven bits a byte, the least first."""
    if number < 1 << 14:
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
    return varint(field << 3 | LEN) + varint(len(data)) + data


def text(field: int, value: str) -> bytes:
    """A string field; what is no text (lone surrogates) is written as escapes."""
    return message(field, value.encode("utf-8", "backslashreplace"))


def double(field: int, value: float) -> bytes:
    """A double field."""
    return varint(field << 3 | I64) + _double.pack(value)


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
        if kind == LEN:
            size, at = read_varint(data, at)
        elif kind in (I64, I32):
            size = 8 if kind == I64 else 4
        else:
            raise Malformed(f"a field of kind {kind}")
        if at + size > end:
            raise Malformed("it ends within a field")
        yield tag >> 3, bytes(data[at : at + size])
        at += size


def read_varint(data: bytes | memoryview, at: int) -> tuple[int, int]:
    """The number that begins at ``at``, and where it ends.

    Raises:
        Malformed: It does not end, or is too long.
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
    raise Malformed("a number that does not end")


def as_number(value: Value, signed: bool = False) -> int:
    """A whole number.

    Args:
        value: A field's.
        signed: Whether it may be below 0.

    Raises:
        Malformed: It is bytes.
    """
    if not isinstance(value, int):
        raise Malformed("no number")
    return value - (1 << 64) if signed and value >> 63 else value


def as_bytes(value: Value) -> bytes:
    """Bytes.

    Raises:
        Malformed: It is a number.
    """
    if not isinstance(value, bytes):
        raise Malformed("no message")
    return value


def as_text(value: Value) -> str:
    """The text that bytes hold, whatever they are.

    Raises:
        Malformed: It is a number.
    """
    return as_bytes(value).decode("utf-8", "replace")


def as_double(value: Value) -> float:
    """The double that eight bytes hold.

    Raises:
        Malformed: They are no eight bytes.
    """
    data = as_bytes(value)
    if len(data) != 8:
        raise Malformed("no double")
    return float(_double.unpack(data)[0])
