"""What travels between an owner's agent and the coordinator: plain values, each of which has one encoding.

Every value begins with a byte that says its kind. There are None, bool, whole numbers of 64 bits, finite floats, text,
bytes, lists, and dicts whose keys are text in ascending order; nothing else, and nothing that could be extended.
Lengths and counts are unsigned numbers of 32 bits; all numbers are big-endian. A frame is the list [number, method,
body], and its body is a value of its own, as bytes.

Whoever sends is a stranger: the whole, its depth, the number of its values and every text have a limit, and whatever is
wrong is a `FrameError`. Nothing is copied, counted or kept beyond what the bytes that have arrived hold.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping
from typing import Any, NamedTuple

from dpadmm.errors import ClusterError

LARGEST = 8 * 1024 * 1024  # bytes of a frame
DEEPEST = 8  # values inside each other
MOST = 100_000  # values in one value, keys not counted
LONGEST_TEXT = 2_000_000  # bytes; the terms of a run with many owners are the longest text
LONGEST_METHOD = 32
LONGEST_WAIT = 60.0  # seconds that the receivers of letters may take

_WHOLE, _FLOAT, _LENGTH = struct.Struct(">q"), struct.Struct(">d"), struct.Struct(">I")
_NONE, _FALSE, _TRUE, _INT, _REAL, _TEXT, _BYTES, _LIST, _DICT = b"N", b"F", b"T", b"i", b"f", b"s", b"b", b"l", b"d"


class FrameError(ClusterError):
    """Bytes that are no value, or a value that cannot be sent."""


class Frame(NamedTuple):
    """One message: a request, or the reply to the request of the same number."""

    number: int
    method: str
    body: bytes

    def dumps(self) -> bytes:
        return encode([self.number, self.method, self.body])

    @classmethod
    def loads(cls, data: Any) -> Frame:
        """The frame in these bytes.

        Args:
            data: What arrived.

        Returns:
            A frame whose body was not looked at.

        Raises:
            FrameError: It is none.
        """
        found = decode(data)
        if type(found) is not list or [type(part) for part in found] != [int, str, bytes]:
            raise FrameError("a frame is a number, a method and bytes")
        if found[0] < 0 or len(found[1]) > LONGEST_METHOD:
            raise FrameError("the number or the method of a frame is none")
        return cls(*found)


def encode(value: Any) -> bytes:
    """A value as bytes, the same for equal values.

    Args:
        value: None, bool, int, float, str, bytes, or lists, tuples and mappings of such; a tuple becomes a list.

    Returns:
        At most `LARGEST` bytes, which `decode` reads.

    Raises:
        FrameError: The value, or one inside it, cannot be sent.
    """
    parts: list[bytes] = []
    _Writer(parts).write(value, 1)
    data = b"".join(parts)
    if len(data) > LARGEST:
        raise FrameError(f"a message of {len(data):,} bytes exceeds {LARGEST:,}")
    return data


def decode(data: Any) -> Any:
    """The value that bytes hold.

    Args:
        data: What arrived.

    Returns:
        A plain value; `encode` makes the same bytes of it.

    Raises:
        FrameError: The bytes are not the one encoding of a value within the limits.
    """
    if type(data) is not bytes:
        raise FrameError("a message consists of bytes")
    if len(data) > LARGEST:
        raise FrameError(f"a message of {len(data):,} bytes exceeds {LARGEST:,}")
    reader = _Reader(data)
    value = reader.read(1)
    if reader.place != len(data):
        raise FrameError("bytes are left behind the value")
    return value


def letters_in(value: Any) -> tuple[str, int, dict[str, bytes], float]:
    """What a node asks the coordinator to pass on to its neighbours.

    Args:
        value: What arrived, decoded.

    Returns:
        Run, round, a letter for each receiver, and the seconds that they may take.

    Raises:
        FrameError: It is no such message.
    """
    kinds = {"run": str, "round": int, "letters": dict, "timeout": float}
    if type(value) is not dict or {name: type(part) for name, part in value.items()} != kinds:
        raise FrameError("it told its neighbours nothing that can be passed on")
    run, round, letters, seconds = (value[name] for name in kinds)
    if not letters or any(type(sealed) is not bytes for sealed in letters.values()) or seconds <= 0.0:
        raise FrameError("it told its neighbours nothing that can be passed on")
    return run, round, letters, min(seconds, LONGEST_WAIT)


class _Writer:
    def __init__(self, parts: list[bytes]) -> None:
        self._parts, self._values = parts, 0

    def write(self, value: Any, depth: int) -> None:
        self._values += 1
        if depth > DEEPEST or self._values > MOST:
            raise FrameError("a value is nested too deeply, or has too many parts")
        add = self._parts.append
        if value is None:
            add(_NONE)
        elif type(value) is bool:
            add(_TRUE if value else _FALSE)
        elif type(value) is int:
            if not -(2**63) <= value < 2**63:
                raise FrameError("a whole number does not fit into 64 bits")
            add(_INT + _WHOLE.pack(value))
        elif type(value) is float:
            if not math.isfinite(value):
                raise FrameError("a number is not finite")
            add(_REAL + _FLOAT.pack(value))
        elif type(value) is str:
            self._write_bytes(_TEXT, _utf8(value))
        elif type(value) is bytes:
            self._write_bytes(_BYTES, value)
        elif isinstance(value, list | tuple):
            add(_LIST + _LENGTH.pack(len(value)))
            for part in value:
                self.write(part, depth + 1)
        elif isinstance(value, Mapping):
            self._write_dict(value, depth)
        else:
            raise FrameError(f"a value of type {type(value).__name__} cannot be sent")

    def _write_bytes(self, kind: bytes, data: bytes) -> None:
        if len(data) > LARGEST:
            raise FrameError(f"a message exceeds {LARGEST:,} bytes")
        self._parts += (kind, _LENGTH.pack(len(data)), data)

    def _write_dict(self, value: Mapping[Any, Any], depth: int) -> None:
        if any(type(key) is not str for key in value):
            raise FrameError("the keys of a dict must be text")
        entries = sorted(((_utf8(key), part) for key, part in value.items()), key=lambda entry: entry[0])
        self._parts.append(_DICT + _LENGTH.pack(len(entries)))
        for key, part in entries:
            self._write_bytes(b"", key)
            self.write(part, depth + 1)


class _Reader:
    def __init__(self, data: bytes) -> None:
        self._data, self.place, self._values = data, 0, 0

    def read(self, depth: int) -> Any:
        self._values += 1
        if depth > DEEPEST or self._values > MOST:
            raise FrameError("a value is nested too deeply, or has too many parts")
        kind = self._take(1)
        if kind == _NONE:
            return None
        if kind in (_TRUE, _FALSE):
            return kind == _TRUE
        if kind == _INT:
            return _WHOLE.unpack(self._take(8))[0]
        if kind == _REAL:
            number = _FLOAT.unpack(self._take(8))[0]
            if not math.isfinite(number):
                raise FrameError("a number is not finite")
            return number
        if kind == _TEXT:
            return self._text()
        if kind == _BYTES:
            return self._take(self._length())
        if kind == _LIST:
            return [self.read(depth + 1) for _ in range(self._count(1))]
        if kind == _DICT:
            return self._dict(depth)
        raise FrameError("a value of unknown kind")

    def _dict(self, depth: int) -> dict[str, Any]:
        found: dict[str, Any] = {}
        before: bytes | None = None
        for _ in range(self._count(1 + _LENGTH.size)):
            begin = self.place + _LENGTH.size
            key = self._text()
            raw = self._data[begin : self.place]
            if before is not None and raw <= before:
                raise FrameError("the keys of a dict must ascend")
            before = raw
            found[key] = self.read(depth + 1)
        return found

    def _text(self) -> str:
        length = self._length()
        if length > LONGEST_TEXT:
            raise FrameError(f"a text exceeds {LONGEST_TEXT:,} bytes")
        try:
            return self._take(length).decode()
        except UnicodeDecodeError:
            raise FrameError("a text is not UTF-8") from None

    def _length(self) -> int:
        return int(_LENGTH.unpack(self._take(_LENGTH.size))[0])

    def _count(self, smallest: int) -> int:
        """How many parts a list or dict has; each takes so many bytes at least, which must have arrived."""
        count = self._length()
        if count > MOST or count * smallest > len(self._data) - self.place:
            raise FrameError("a list or dict has more parts than it can")
        return count

    def _take(self, length: int) -> bytes:
        end = self.place + length
        if end > len(self._data):
            raise FrameError("a value ends before its length")
        found = self._data[self.place : end]
        self.place = end
        return found


def _utf8(text: str) -> bytes:
    try:
        data = text.encode()
    except UnicodeEncodeError:
        raise FrameError("a text cannot be written in UTF-8") from None
    if len(data) > LONGEST_TEXT:
        raise FrameError(f"a text exceeds {LONGEST_TEXT:,} bytes")
    return data
