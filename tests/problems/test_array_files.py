"""The reader of .npy files: what it accepts, and how it says what is wrong with a file."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dpadmm.errors import InputError
from dpadmm.problems.array_files import ArrayBlocks, StoredArray


@pytest.fixture
def reader(tmp_path: Path) -> Callable[..., ArrayBlocks]:
    """reader(features, targets, classes): saves both and opens them."""

    def make(features: Any, targets: Any, classes: int | None = 2) -> ArrayBlocks:
        np.save(tmp_path / "a.npy", features)
        np.save(tmp_path / "a.targets.npy", targets)
        return ArrayBlocks.of(tmp_path / "a.npy", tmp_path / "a.targets.npy", classes)

    return make


@pytest.mark.parametrize("rows", [1, 3, 7, 8, 100])
@pytest.mark.parametrize("kind", ["float32", "float64"])
def test_a_walk_gives_every_record_once_and_in_order(reader: Any, rows: int, kind: str) -> None:
    features, targets = np.arange(21.0).reshape(7, 3).astype(kind), np.array([0, 1, 1, 0, 0, 1, 0], dtype=np.uint8)
    blocks = [(f.copy(), t.copy()) for f, t in reader(features, targets).walk(rows)]
    assert [len(t) for _, t in blocks] == [min(rows, 7 - start) for start in range(0, 7, rows)]
    np.testing.assert_array_equal(np.concatenate([f for f, _ in blocks]), features)
    np.testing.assert_array_equal(np.concatenate([t for _, t in blocks]), targets)
    assert blocks[0][0].dtype == kind
    assert blocks[0][1].dtype == np.int64


def test_rows_are_picked_in_the_order_asked_for_into_the_space_given(reader: Any) -> None:
    features, targets = np.arange(21.0).reshape(7, 3), np.linspace(0.0, 1.0, 7, dtype=np.float32)
    source, rows = reader(features, targets, None), np.array([6, 0, 3, 3])
    space = np.empty((4, 3))
    found, values = source.pick(rows, space)
    assert found is space
    np.testing.assert_array_equal(found, features[rows])
    np.testing.assert_array_equal(values, targets[rows].astype(np.float64))
    other = np.empty((4, 3), dtype=np.float32)
    np.testing.assert_array_equal(source.pick(rows, other)[0], features[rows])  # not squeezed into another type


def test_numpy_version_2_headers_are_read(tmp_path: Path) -> None:
    with (tmp_path / "a.npy").open("wb") as file:
        np.lib.format.write_array(file, np.ones((2, 3)), version=(2, 0))
    np.save(tmp_path / "t.npy", np.zeros(2, dtype=int))
    assert ArrayBlocks.of(tmp_path / "a.npy", tmp_path / "t.npy", 2).width == 3


@pytest.mark.parametrize(
    ("features", "targets", "classes", "message"),
    [
        (np.ones(3), np.zeros(3, int), 2, r"a\.npy has shape \(3,\); a table of records by features"),
        (np.ones((3, 0)), np.zeros(3, int), 2, r"a\.npy has shape \(3, 0\)"),
        (np.ones((0, 2)), np.zeros(0, int), 2, r"a\.npy is empty: its shape is \(0, 2\)"),
        (np.ones((3, 2), int), np.zeros(3, int), 2, r"a\.npy holds <i8; save it as float32 or float64"),
        (np.ones((3, 2), ">f8"), np.zeros(3, int), 2, r"a\.npy holds >f8; save it as float32 or float64"),
        (np.ones((3, 2), np.float16), np.zeros(3, int), 2, r"a\.npy holds <f2"),
        (np.asfortranarray(np.ones((3, 2))), np.zeros(3, int), 2, r"a\.npy is in Fortran order"),
        (np.ones((3, 2)), np.zeros(4, int), 2, r"a\.targets\.npy has shape \(4,\), and a\.npy 3 rows"),
        (np.ones((3, 2)), np.zeros((3, 1), int), 2, r"a\.targets\.npy has shape \(3, 1\)"),
        (np.ones((3, 2)), np.zeros(3), 2, r"a\.targets\.npy holds <f8; class numbers, whole ones"),
        (np.ones((3, 2)), np.zeros(3, bool), 2, r"a\.targets\.npy holds \|b1"),
        (np.ones((3, 2)), np.zeros(3, ">i4"), 2, r"a\.targets\.npy holds >i4"),
        (np.ones((3, 2)), np.array(["x", "y", "z"]), None, r"a\.targets\.npy holds <U1; numbers are needed"),
    ],
)
def test_files_of_another_shape_or_type_are_refused_by_name(
    reader: Any, features: Any, targets: Any, classes: int | None, message: str
) -> None:
    with pytest.raises(InputError, match=message):
        reader(features, targets, classes)


@pytest.mark.parametrize(
    ("targets", "classes", "message"),
    [
        ([0, 1, 0, 2, 1], 2, r"a\.targets\.npy, row 4: the target is 2; classes are 0 to 1"),
        ([0, 1, 0, -1, 1], 3, r"a\.targets\.npy, row 4: the target is -1; classes are 0 to 2"),
        ([0.0, 1.0, 0.0, np.nan, 1.0], None, r"a\.targets\.npy, row 4: the target is nan; a finite number"),
    ],
)
def test_a_target_that_is_none_is_named_by_file_and_row(reader: Any, targets: Any, classes: Any, message: str) -> None:
    source = reader(np.ones((5, 2)), np.array(targets), classes)
    with pytest.raises(InputError, match=message):
        list(source.walk(2))
    with pytest.raises(InputError, match=message):
        source.pick(np.array([0, 3]), np.empty((2, 2)))


@pytest.mark.parametrize("name", ["a.npy", "a.targets.npy"])
@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda whole: b"", "is empty"),
        (lambda whole: b"not an array, but long enough", r"is not a \.npy file"),
        (lambda whole: whole[:40], r"is not a \.npy file"),
        (lambda whole: whole[:-1], r"has \d+ bytes; an array of shape .* has \d+"),
        (lambda whole: whole + b"x", r"has \d+ bytes; an array of shape .* has \d+"),
    ],
)
def test_a_file_that_is_not_whole_is_refused_by_name(
    reader: Any, tmp_path: Path, name: str, spoil: Callable[[bytes], bytes], message: str
) -> None:
    reader(np.ones((5, 2)), np.zeros(5, dtype=int))
    (tmp_path / name).write_bytes(spoil((tmp_path / name).read_bytes()))
    with pytest.raises(InputError, match=f"{name} {message}"):
        ArrayBlocks.of(tmp_path / "a.npy", tmp_path / "a.targets.npy", 2)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"cannot read .*a\.npy: No such file"):
        ArrayBlocks.of(tmp_path / "a.npy", tmp_path / "a.targets.npy", 2)


def test_a_file_that_is_gone_since_is_named(reader: Any, tmp_path: Path) -> None:
    source = reader(np.ones((5, 2)), np.zeros(5, dtype=int))
    (tmp_path / "a.npy").unlink()
    with pytest.raises(InputError, match=r"cannot read a\.npy"):
        next(source.walk(2))


@pytest.mark.skipif(not hasattr(os, "RWF_NOWAIT"), reason="needs Linux")
@pytest.mark.parametrize("known", [True, False], ids=["forgotten", "cached"])
def test_rows_come_from_the_disk_as_from_the_cache(reader: Any, tmp_path: Path, known: bool) -> None:
    features = np.random.default_rng(0).normal(size=(20_000, 20))
    source, rows = reader(features, np.zeros(20_000, dtype=int)), np.arange(0, 20_000, 61)
    if known:
        with (tmp_path / "a.npy").open("rb") as file:
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    np.testing.assert_array_equal(source.pick(rows, np.empty((rows.size, 20)))[0], features[rows])


@pytest.mark.parametrize(
    ("header", "message"),
    [
        ("((((\n", "is not a .npy file"),
        ("{'descr': (), 'fortran_order': False, 'shape': (1,)}", "is not a .npy file"),
        ("{'descr': '<f8', 'fortran_order': False, 'shape': (4294967296, 4294967296)}", r"has \d+ bytes; an array of"),
        ("{'descr': '<f8', 'fortran_order': False, 'shape': (-1, -1, 0)}", r"has \d+ bytes; an array of"),
    ],
)
def test_header_of_a_stranger_is_refused_in_a_line(tmp_path: Path, header: str, message: str) -> None:
    path = tmp_path / "a.npy"
    path.write_bytes(b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header.encode())
    with pytest.raises(InputError, match=message):
        StoredArray.of(path)
