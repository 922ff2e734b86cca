"""Records in files: every number is that of the same records in memory, and never more than a block is held."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dpadmm._threads import one_thread_pool
from dpadmm.errors import InputError
from dpadmm.problems import shards as shards_module
from dpadmm.problems import stored_shards as stored_module
from dpadmm.problems.array_files import ArrayBlocks
from dpadmm.problems.losses import LOSSES, STATISTICS, Logistic
from dpadmm.problems.shards import Shards, gather
from dpadmm.problems.stored_shards import StoredShards, gather_blocks
from dpadmm.release.sums import CHUNK
from dpadmm.testing.integers import integers

BLOCK = 4 * CHUNK
SIZES = [1, BLOCK, 2 * BLOCK + CHUNK + 5, 37, BLOCK + 1]  # most are no multiple of the block, nor of the chunk
PARTS = LOSSES | STATISTICS
CLASSES = {name: {"binary": 2, "multiclass": 3, "regression": None}[part.task] for name, part in PARTS.items()}
STATUS = Path("/proc/self/status")


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks of 8,192 records."""
    monkeypatch.setattr(shards_module, "BLOCK_BYTES", 1)


def records(loss: str, width: int = 5) -> tuple[Any, Any, Any]:
    """Features, targets and owners; a third of the rows is over the norm bound of 1."""
    draw = np.random.default_rng(3)
    owner = np.repeat(np.arange(len(SIZES)), SIZES)
    features = draw.normal(size=(owner.size, width)) * 0.4
    classes = CLASSES[loss]
    targets = draw.normal(size=owner.size) if classes is None else draw.integers(0, classes, owner.size)
    return features, targets, owner


def saved(folder: Path, features: Any, targets: Any, owner: Any, classes: int | None) -> list[ArrayBlocks]:
    found = []
    for agent in range(int(owner.max()) + 1):
        paths = folder / f"{agent}.npy", folder / f"{agent}.targets.npy"
        np.save(paths[0], features[owner == agent])
        np.save(paths[1], targets[owner == agent])
        found.append(ArrayBlocks.of(*paths, classes))
    return found


def both(folder: Path, loss: str = "logistic", kept: str = "float64", **rules: Any) -> tuple[Shards, StoredShards]:
    """The same records in memory and in files of type `kept`."""
    features, targets, owner = records(loss)
    features = features.astype(kept)
    terms = {"norm_bound": 1.0, "names": [f"a{i}" for i in range(len(SIZES))]} | rules
    encode = partial(PARTS[loss]().encode, classes=CLASSES[loss] or 0)
    memory = gather(features, encode(targets), owner, **terms)
    return memory, gather_blocks(saved(folder, features, targets, owner, CLASSES[loss]), encode, **terms)


def identical(one: Any, other: Any) -> bool:
    """Bit for bit, the signs of zeros too."""
    return one.dtype == other.dtype and one.shape == other.shape and one.tobytes() == other.tobytes()


# Bit for bit


@pytest.mark.parametrize("intercept", [False, True], ids=["plain", "intercept"])
@pytest.mark.parametrize("kept", ["float64", "float32"])
@pytest.mark.parametrize("loss", PARTS)
def test_sums_over_files_are_those_over_memory(tmp_path: Path, loss: str, kept: str, intercept: bool) -> None:
    memory, disk = both(tmp_path, loss, kept, intercept=intercept)
    given = PARTS[loss]()
    x = np.random.default_rng(0).normal(size=(memory.agents, given.dimension(memory.width, CLASSES[loss] or 0)))
    query = given.query(CLASSES[loss] or 0)
    with one_thread_pool():
        np.testing.assert_array_equal(*(integers(query.total(each, x)) for each in (disk, memory)))
        for what in ("values", "gradient", "hessian"):
            expected = getattr(given, what)(memory, x, 1.0 / memory.counts)
            assert identical(getattr(given, what)(disk, x, 1.0 / disk.counts), expected), what
        if CLASSES[loss] is not None:
            wrong = given.mistakes(memory, x)
            assert wrong.sum() > 0
            assert identical(given.mistakes(disk, x), wrong)


@pytest.mark.parametrize("rules", [{}, {"intercept": True}, {"norm_bound": 50.0}], ids=str)
def test_the_public_face_is_that_of_shards_in_memory(tmp_path: Path, rules: dict[str, Any]) -> None:
    memory, disk = both(tmp_path, **rules)
    for name in ("agents", "width", "sparse", "cell", "norm_bound", "names", "clipped", "block"):
        assert getattr(disk, name) == getattr(memory, name), name
    assert disk.counts.tolist() == SIZES
    assert (memory.clipped > 0) == ("norm_bound" not in rules)


@pytest.mark.parametrize("kept", ["float64", "float32"])
@pytest.mark.parametrize("rules", [{}, {"intercept": True}], ids=str)
def test_picked_records_are_those_picked_in_memory(tmp_path: Path, kept: str, rules: dict[str, Any]) -> None:
    memory, disk = both(tmp_path, kept=kept, **rules)
    draw = np.random.default_rng(1)
    chosen = [draw.integers(0, count, size) for count, size in zip(SIZES, [0, 300, 2000, 5, 0], strict=True)]
    rows, counts = np.concatenate(chosen), np.array([own.size for own in chosen])
    one, other = memory.pick(rows, counts), disk.pick(rows, counts)
    assert type(other) is Shards
    for name in ("features", "targets", "starts", "stops"):
        assert identical(getattr(one, name), getattr(other, name)), name
    assert (one.norm_bound, one.names, one.clipped) == (other.norm_bound, other.names, other.clipped)


def test_nothing_picked_is_an_empty_batch(tmp_path: Path) -> None:
    memory, disk = both(tmp_path)
    none = np.zeros(0, dtype=np.int64), np.zeros(len(SIZES), dtype=np.int64)
    assert identical(disk.pick(*none).targets, memory.pick(*none).targets)
    assert disk.pick(*none).features.shape == (0, 5)


@pytest.mark.parametrize("row", [-1, 37])
def test_a_row_that_an_agent_does_not_have_cannot_be_picked(tmp_path: Path, row: int) -> None:
    _, disk = both(tmp_path)
    with pytest.raises(IndexError, match=r"3\.npy has the rows 0 to 36"):
        disk.pick(np.array([row]), np.array([0, 0, 0, 1, 0]))


def test_agents_are_taken_and_repeated_as_in_memory(tmp_path: Path) -> None:
    memory, disk = both(tmp_path)
    for agents in (np.array([3, 2, 2]), np.array([True, False, True, False, True]), slice(1, 3)):
        one, other = memory.take(agents), disk.take(agents)
        x = np.random.default_rng(5).normal(size=(one.agents, one.width))
        assert other.names == one.names
        assert identical(other.counts, one.counts)
        assert identical(
            Logistic().gradient(other, x, 1.0 / other.counts), Logistic().gradient(one, x, 1.0 / one.counts)
        )


def test_large_parts_are_made_of_few_chunks_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    memory, disk = both(tmp_path)
    x = np.random.default_rng(0).normal(size=(memory.agents, memory.width))
    monkeypatch.setattr(stored_module, "PARTS_AT_ONCE", 60)  # two chunks of 5 x 5
    with one_thread_pool():
        expected = Logistic().hessian(memory, x, 1.0 / memory.counts)
        assert identical(Logistic().hessian(disk, x, 1.0 / disk.counts), expected)


# What is read, and what is held


@dataclass
class Counting:
    """A reader over arrays that lends one buffer again and again, spoils it in between, and notes what it was asked."""

    features: Any
    targets: Any
    name: str = "counting"
    asked: list[int] = field(default_factory=list)

    @property
    def count(self) -> int:
        return len(self.targets)

    @property
    def width(self) -> int:
        return int(self.features.shape[1])

    def walk(self, rows: int) -> Iterator[tuple[Any, Any]]:
        table, column = np.empty((rows, self.width)), np.empty(rows, dtype=np.int64)
        for start in range(0, self.count, rows):
            size = min(rows, self.count - start)
            table[...], column[...] = np.nan, -9
            table[:size], column[:size] = self.features[start : start + size], self.targets[start : start + size]
            self.asked.append(size)
            yield table[:size], column[:size]

    def pick(self, rows: Any, out: Any) -> tuple[Any, Any]:
        return self.features[rows], self.targets[rows]

    def digest(self) -> str:
        return "d"


@pytest.mark.parametrize("bound", [1.0, 50.0])
def test_one_block_at_a_time_is_all_that_is_needed_and_runs_share_it(bound: float) -> None:
    features, targets, owner = records("logistic")
    own = owner == 2
    reader = Counting(features[own], targets[own])
    encode = partial(Logistic().encode, classes=2)
    disk = gather_blocks([reader], encode, norm_bound=bound)
    blocks = [BLOCK, BLOCK, CHUNK + 5]
    assert reader.asked == blocks  # checked once
    reader.asked.clear()
    memory = gather(features[own], encode(targets[own]), owner[own], norm_bound=bound, names=None).tile(3)
    x = np.random.default_rng(0).normal(size=(3, 5))
    assert identical(
        Logistic().gradient(disk.tile(3), x, 1.0 / memory.counts), Logistic().gradient(memory, x, 1.0 / memory.counts)
    )
    assert reader.asked == blocks  # three runs, one pass
    assert identical(Logistic().mistakes(disk.tile(3), x), Logistic().mistakes(memory, x))
    assert reader.asked == 2 * blocks


def test_there_is_no_table_that_could_be_read_by_mistake(tmp_path: Path) -> None:
    _, disk = both(tmp_path)
    for name in ("features", "targets", "storage"):
        assert not hasattr(disk, name)


def test_pickling_carries_no_records(tmp_path: Path) -> None:
    _, disk = both(tmp_path)
    x = np.ones((disk.agents, disk.width))
    expected = Logistic().gradient(disk, x, 1.0 / disk.counts)
    carried = pickle.dumps(disk)
    assert len(carried) < 4_000  # the records are 380,000 bytes
    assert identical(Logistic().gradient(pickle.loads(carried), x, 1.0 / disk.counts), expected)
    again = pickle.loads(pickle.dumps(disk.tile(2)))
    assert len({id(source) for source in again.sources}) == disk.agents  # runs still share their readers


def resident(peak: bool = False) -> int:
    """Bytes of memory of this process, mapped pages included."""
    name = "VmHWM" if peak else "VmRSS"
    return 1024 * int(next(line.split()[1] for line in STATUS.read_text().splitlines() if line.startswith(name)))


@pytest.mark.skipif(not STATUS.exists(), reason="needs /proc")
def test_a_file_larger_than_the_block_does_not_come_into_memory(tmp_path: Path) -> None:
    draw = np.random.default_rng(0)
    records, width = 100_000, 200
    features, targets = tmp_path / "a.npy", tmp_path / "a.targets.npy"
    np.save(features, draw.random((records, width), dtype=np.float32))
    np.save(targets, draw.integers(0, 2, records, dtype=np.uint8))
    size, encode = features.stat().st_size, partial(Logistic().encode, classes=2)
    assert size == 80_000_128

    def work(source: ArrayBlocks) -> None:
        disk = gather_blocks([source], encode, norm_bound=1.0)
        Logistic().gradient(disk, np.ones((1, width)), 1.0 / disk.counts)

    small = tmp_path / "b.npy", tmp_path / "b.targets.npy"
    np.save(small[0], np.load(features, mmap_mode="r")[:3000])
    np.save(small[1], np.load(targets)[:3000])
    work(ArrayBlocks.of(*small, 2))  # compiles
    Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
    before = resident()
    work(ArrayBlocks.of(features, targets, 2))
    assert resident(peak=True) - before < size // 4
    disk = gather_blocks([ArrayBlocks.of(features, targets, 2)], encode, norm_bound=1.0)
    disk.pick(np.arange(0, records, 100), np.array([records // 100]))
    assert resident() - before < size // 4


# What is refused


@pytest.mark.parametrize("number", [np.nan, np.inf, -np.inf])
def test_a_number_that_is_not_finite_is_named_by_file_row_and_column(tmp_path: Path, number: float) -> None:
    features, targets, owner = records("logistic")
    features[np.flatnonzero(owner == 2)[BLOCK + 6], 3] = number
    sources = saved(tmp_path, features, targets, owner, 2)
    with pytest.raises(InputError, match=rf"2\.npy: row {BLOCK + 7}, column 4 is not a finite number"):
        gather_blocks(sources, partial(Logistic().encode, classes=2), norm_bound=1.0)


def test_agents_must_have_equally_many_features(tmp_path: Path) -> None:
    wide = saved(tmp_path, np.ones((3, 4)), np.zeros(3, dtype=int), np.zeros(3, dtype=int), 2)
    (tmp_path / "other").mkdir()
    narrow = saved(tmp_path / "other", np.ones((3, 2)), np.zeros(3, dtype=int), np.zeros(3, dtype=int), 2)
    with pytest.raises(InputError, match=r"0\.npy has 2 features and 0\.npy has 4"):
        gather_blocks([*wide, *narrow], partial(Logistic().encode, classes=2), norm_bound=1.0)


@pytest.mark.parametrize(
    ("rules", "message"),
    [
        ({"norm_bound": 0.0}, "rows: norm_bound = 0.0 must be a number"),
        ({"norm_bound": 1.0, "names": ["one"]}, "1 names for 5 readers"),
    ],
)
def test_wrong_terms_are_refused(tmp_path: Path, rules: dict[str, Any], message: str) -> None:
    sources = saved(tmp_path, *records("logistic"), 2)
    with pytest.raises(InputError, match=message):
        gather_blocks(sources, partial(Logistic().encode, classes=2), **rules)


def test_an_agent_is_needed() -> None:
    with pytest.raises(InputError, match="no agent"):
        gather_blocks([], partial(Logistic().encode, classes=2), norm_bound=1.0)


def test_the_digest_is_that_of_the_contents_wherever_they_lie(tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    one, other = both(tmp_path / "one")[1], both(tmp_path / "two")[1]
    assert one.digest() == other.digest()
    assert one.take([1]).digest() != one.take([2]).digest()
    targets = np.load(tmp_path / "two" / "1.targets.npy")
    targets[-1] = 1 - targets[-1]
    np.save(tmp_path / "two" / "1.targets.npy", targets)
    with pytest.raises(InputError, match=r"1\.targets\.npy has changed since it was opened"):
        other.digest()
    fresh = ArrayBlocks.of(tmp_path / "two" / "1.npy", tmp_path / "two" / "1.targets.npy", 2)
    assert fresh.digest() != one.sources[1].digest()


def test_a_file_that_changes_after_it_was_checked_is_not_used(tmp_path: Path) -> None:
    _, disk = both(tmp_path)
    x = np.ones((disk.agents, disk.width))
    np.save(tmp_path / "1.npy", np.full((BLOCK, 5), 9.0))
    for use in (
        lambda: Logistic().gradient(disk, x, 1.0 / disk.counts),
        lambda: disk.pick(np.array([0]), np.array([0, 1, 0, 0, 0])),
    ):
        with pytest.raises(InputError, match=r"1\.npy has changed since it was opened"):
            use()
