"""Events and arrays as text and bytes that read back exactly, for a ledger on disk."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from typing import Any

import attr
import numpy as np
from numpy.typing import NDArray

from dpadmm.privacy import events as known
from dpadmm.privacy.events import DpEvent, Tally

_EVENTS: dict[str, type[DpEvent]] = {
    name: found for name in known.__all__ if isinstance(found := getattr(known, name), type)
}


def event_to_dict(event: DpEvent) -> dict[str, Any]:
    """An event as plain JSON; numbers read back bit for bit."""
    name = type(event).__name__
    if name not in _EVENTS:
        raise TypeError(f"{name} is not an event this ledger knows how to keep")
    fields = {field.name: _plain(getattr(event, field.name)) for field in attr.fields(type(event))}
    return {"kind": name, **fields}  # not "event": sampled and composed events have a field of that name


def event_from_dict(entry: Mapping[str, Any]) -> DpEvent:
    """The event written by `event_to_dict`."""
    fields = {name: _rich(value) for name, value in entry.items() if name != "kind"}
    return _EVENTS[entry["kind"]](**fields)


def tally_to_list(tally: Tally) -> list[list[Any]]:
    """Run-length coded: pairs of an event and how often."""
    return [[event_to_dict(event), count] for event, count in tally.items()]


def canonical(value: Any) -> str:
    """JSON with one spelling, so that equal things have equal digests."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def digest(*parts: bytes | str) -> str:
    """SHA-256 over the parts, each preceded by its length so that no two lists of parts look alike."""
    total = hashlib.sha256()
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        total.update(len(data).to_bytes(8, "big"))
        total.update(data)
    return total.hexdigest()


def pack(arrays: Mapping[str, NDArray[Any]]) -> bytes:
    """Named arrays as bytes: a line of JSON that says what follows, and then the numbers. (NumPy's own archives take
    half a millisecond each, and an answer makes two.)"""
    kept = {name: np.asarray(values) for name, values in arrays.items()}
    if any(values.dtype.hasobject for values in kept.values()):
        raise ValueError("objects are not kept as bytes")
    about = canonical([[name, values.dtype.str, values.shape] for name, values in kept.items()])
    return b"".join([about.encode(), b"\n", *(values.tobytes() for values in kept.values())])


def unpack(data: bytes) -> dict[str, NDArray[Any]]:
    """The arrays written by `pack`, bit for bit."""
    about, _, numbers = data.partition(b"\n")
    found, start = {}, 0
    for name, kind, shape in json.loads(about):
        dtype = np.dtype(kind)
        count = math.prod(shape)
        found[name] = np.frombuffer(numbers, dtype, count, start).reshape(shape).copy()
        start += count * dtype.itemsize
    return found


def _plain(value: Any) -> Any:
    if isinstance(value, DpEvent):
        return event_to_dict(value)
    if isinstance(value, tuple | list):
        return [_plain(entry) for entry in value]
    return value


def _rich(value: Any) -> Any:
    if isinstance(value, Mapping):
        return event_from_dict(value)
    if isinstance(value, list):
        return tuple(_rich(entry) for entry in value)
    return value
