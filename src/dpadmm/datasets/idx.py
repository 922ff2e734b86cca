"""Readers of array files: idx, the format of MNIST, and NumPy's npz.

An idx file is two zero bytes, the code of a number type, the number of axes, the length of each axis as a
big-endian 32-bit integer, and the numbers, big-endian, the last axis fastest.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from dpadmm import _limits
from dpadmm._archives import beginning, some_arrays, unpacked
from dpadmm._files import read_bytes
from dpadmm.datasets.directory import contents
from dpadmm.errors import InputError

_TYPES = {0x08: ">u1", 0x09: ">i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}
_MOST_AXES = 32  # what every NumPy can hold
_LONGEST_HEADER = 4 + 4 * _MOST_AXES
_BESIDE = 1 << 20  # bytes behind the numbers, so that the message says how many
_ZIP = b"PK"


def read_idx(path: str | Path) -> np.ndarray:
    """The array of an idx file, plain or compressed by gzip, in this machine's byte order."""
    path = Path(path)
    packed = read_bytes(path, "data file", _limits.DATA)
    raw = beginning(packed, str(path), _LONGEST_HEADER)
    if len(raw) < 4 or raw[:2] != b"\0\0" or raw[2] not in _TYPES or not 1 <= raw[3] <= _MOST_AXES:
        raise InputError(
            f"{path} is not an idx file: it begins with {raw[:4].hex(' ') or 'nothing'}, not with 00 00, "
            f"a type ({', '.join(f'{code:02x}' for code in _TYPES)}) and a number of axes."
        )
    kind, start = np.dtype(_TYPES[raw[2]]), 4 + 4 * raw[3]
    if len(raw) < start:
        raise InputError(f"{path} is cut short: it ends within the lengths of its {raw[3]} axes; fetch it again.")
    shape = tuple(np.frombuffer(raw[4:start], ">u4").tolist())
    size = " x ".join(map(str, shape))
    if 0 in shape:
        raise InputError(f"{path} is empty: it holds {size} numbers.")
    promised = math.prod(shape) * kind.itemsize
    raw = unpacked(packed, str(path), start + promised + _BESIDE)
    held = len(raw) - start
    if held != promised:
        wrong = "cut short" if held < promised else "too long"
        raise InputError(
            f"{path} is {wrong}: {size} numbers take {promised} bytes, and {held} follow its header; fetch it again."
        )
    return np.frombuffer(raw, kind, offset=start).reshape(shape).astype(kind.newbyteorder("="), copy=False)


def read_npz(path: str | Path, names: Sequence[str]) -> dict[str, np.ndarray]:
    """These arrays of an npz file; a file that would have code run in order to be read is refused."""
    path = Path(path)
    raw = contents(path)
    if not raw.startswith(_ZIP):
        raise InputError(
            f"{path} is not an npz file: it begins with {raw[:4].hex(' ') or 'nothing'}, not as a zip file."
        )
    try:
        found, held = some_arrays(raw, names)
    except ValueError as error:
        raise InputError(f"{path} is damaged, or not of plain arrays: {error}") from None
    arrays = {name: found[name] for name in names if name in found}
    lacking = [name for name in names if name not in arrays]
    if lacking:
        raise InputError(f"{path} lacks the arrays {', '.join(lacking)}; it holds {', '.join(held) or 'none'}.")
    return arrays
