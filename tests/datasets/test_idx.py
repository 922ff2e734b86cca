"""Array files: every type of number by hand-made bytes, and every kind of damage by name."""

import gzip
import io
import pickle

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dpadmm.datasets import read_idx, read_npz
from dpadmm.errors import InputError

# Type code, the bytes of two numbers as the format wants them, and the numbers.
BY_HAND = [
    ("08", "00 ff", "uint8", [0, 255]),
    ("09", "01 ff", "int8", [1, -1]),
    ("0b", "01 02 ff fe", "int16", [258, -2]),
    ("0c", "00 01 00 00 ff ff ff fd", "int32", [65536, -3]),
    ("0d", "3f 80 00 00 c0 20 00 00", "float32", [1.0, -2.5]),
    ("0e", "3f f0 00 00 00 00 00 00 c0 04 00 00 00 00 00 00", "float64", [1.0, -2.5]),
]


def written(path, raw, compressed=False):
    path.write_bytes(gzip.compress(raw) if compressed else raw)
    return path


@pytest.mark.parametrize("compressed", [False, True])
@pytest.mark.parametrize("name", ["a-idx", "a-idx.gz"])  # what a file holds counts, not what it is called
@pytest.mark.parametrize(("code", "numbers", "kind", "values"), BY_HAND)
def test_every_type_of_number(tmp_path, compressed, name, code, numbers, kind, values):
    raw = bytes.fromhex(f"00 00 {code} 01 00 00 00 02 {numbers}")
    array = read_idx(written(tmp_path / name, raw, compressed))
    assert array.dtype == np.dtype(kind)  # in this machine's byte order
    assert array.tolist() == values


@pytest.mark.parametrize("shape", [(6,), (3, 2), (1, 2, 3), (3, 1, 1, 2)])
def test_the_last_axis_is_fastest(tmp_path, idx, shape):
    array = np.arange(6, dtype=np.int32).reshape(shape)
    np.testing.assert_array_equal(read_idx(written(tmp_path / "a", idx(array))), array)


@pytest.mark.parametrize("compressed", [False, True])
@pytest.mark.parametrize(
    ("raw", "words"),
    [
        ("", "not an idx file: it begins with nothing"),
        ("00 00 08", "not an idx file: it begins with 00 00 08,"),
        ("00 01 08 01 00 00 00 01 05", "not an idx file: it begins with 00 01 08 01"),
        ("00 00 0a 01 00 00 00 01 05", "not an idx file: .* not with 00 00, a type .08, 09, 0b, 0c, 0d, 0e."),
        ("00 00 08 00 05", "not an idx file"),
        ("00 00 08 21" + "00 00 00 01" * 33 + "05", "not an idx file"),
        ("89 50 4e 47 0d 0a", "not an idx file: it begins with 89 50 4e 47"),
        ("00 00 08 02 00 00 00 01 00 00", "cut short: it ends within the lengths of its 2 axes"),
        ("00 00 08 01 00 00 00 03 01 02", "cut short: 3 numbers take 3 bytes, and 2 follow"),
        ("00 00 0c 02 00 00 00 01 00 00 00 02 00 00 00", "cut short: 1 x 2 numbers take 8 bytes, and 3 follow"),
        ("00 00 08 01 00 00 00 01 01 02", "too long: 1 numbers take 1 bytes, and 2 follow"),
        ("00 00 08 02 00 00 00 00 00 00 00 1c", "empty: it holds 0 x 28 numbers"),
        ("00 00 08 03 ff ff ff ff ff ff ff ff ff ff ff ff 00", f"cut short: .* take {(2**32 - 1) ** 3} bytes"),
    ],
)
def test_damage_is_named_with_its_file(tmp_path, raw, words, compressed):
    path = written(tmp_path / "broken-idx", bytes.fromhex(raw), compressed)
    with pytest.raises(InputError, match=f"broken-idx is {words}"):
        read_idx(path)


def test_compression_cut_short_or_garbled(tmp_path, idx):
    whole = gzip.compress(idx(np.arange(1000, dtype=np.int32)))
    garbled = whole[:20] + bytes(byte ^ 0x5A for byte in whole[20:60]) + whole[60:]
    wrong_sum = whole[:-8] + bytes(4) + whole[-4:]
    for raw in (whole[:-10], whole[:5], garbled, wrong_sum):
        with pytest.raises(InputError, match=r"cannot read .*broken-idx\.gz"):
            read_idx(written(tmp_path / "broken-idx.gz", raw))
    with pytest.raises(InputError, match=r"none-idx. cannot be read: No such file"):
        read_idx(tmp_path / "none-idx")


def archive(**arrays):
    raw = io.BytesIO()
    np.savez_compressed(raw, **arrays)
    return raw.getvalue()


@pytest.mark.parametrize("compressed", [False, True])
def test_npz_gives_the_arrays_asked_for(tmp_path, compressed):
    path = written(tmp_path / "a.npz", archive(X=np.eye(2), y=np.array(["p", "q"]), z=np.zeros(3)), compressed)
    arrays = read_npz(path, ("y", "X"))
    assert list(arrays) == ["y", "X"]
    assert arrays["X"].tolist() == [[1.0, 0.0], [0.0, 1.0]]
    assert arrays["y"].tolist() == ["p", "q"]


class Trap:
    """Unpickling this would run code."""

    def __reduce__(self):
        return (pytest.fail, ("the file was unpickled",))


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        (b"", "not an npz file: it begins with nothing"),
        (b"\x93NUMPY\x01", "not an npz file: it begins with 93 4e 55 4d"),
        (pickle.dumps(Trap()), "not an npz file: it begins with 80"),
        (b"PK\x03\x04 and then nonsense", "damaged, or not of plain arrays"),
        (archive(X=np.eye(2))[:-30], "damaged, or not of plain arrays"),
        (archive(X=np.array([Trap()], dtype=object)), "damaged, or not of plain arrays: Object arrays"),
        (archive(x=np.eye(2)), "lacks the arrays X; it holds x"),
    ],
)
def test_npz_that_cannot_be_used(tmp_path, raw, words):
    path = written(tmp_path / "a.npz", raw)
    with pytest.raises(InputError, match=rf"a\.npz (is )?{words}"):
        read_npz(path, ["X"])


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=200)
@given(st.data())
def test_npz_with_any_byte_changed_is_read_or_refused(tmp_path, data):
    """Checksums catch most; whatever is left must not surface as an error of zip, deflate or NumPy."""
    raw = bytearray(archive(X=np.arange(50)))
    for _ in range(data.draw(st.integers(1, 3))):
        raw[data.draw(st.integers(2, len(raw) - 1))] = data.draw(st.integers(0, 255))
    path = written(tmp_path / "a.npz", bytes(raw))
    try:
        found = read_npz(path, ["X"])["X"].tolist()
    except InputError:
        return
    assert found == list(range(50))
