"""The cache of compiled code follows the sources, and a tag's type chooses the code."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any, NamedTuple

import numba
import pytest

from dpadmm._kernels import compiled as room
from dpadmm._kernels import loss_functions
from dpadmm._kernels.compiled import compiled, implements


class Tripled(NamedTuple):
    offset: float


class Shifted(NamedTuple):  # the same field, hence the same memory layout, as `Tripled`
    offset: float


class Forgotten(NamedTuple):
    offset: float


@implements(loss_functions.derivative, Tripled)
def _tripled(loss: Tripled, margin: float, target: float) -> float:
    return 3.0 * margin + loss.offset


@implements(loss_functions.derivative, Shifted)
def _shifted(loss: Shifted, margin: float, target: float) -> float:
    return margin - target + loss.offset


@numba.njit
def slope(loss: Any, margin: float, target: float) -> float:
    """A kernel that knows no loss."""
    return loss_functions.derivative(loss, margin, target)


@pytest.fixture
def copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the room's sources, which the cache folder is named after."""
    sources = shutil.copytree(room._PACKAGE, tmp_path / "dpadmm", ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(room, "_PACKAGE", Path(sources))
    return Path(sources)


def test_a_copy_of_the_same_sources_has_the_same_cache_folder(copy: Path) -> None:
    assert room._cache_folder() == room._CACHE_FOLDER


@pytest.mark.parametrize(
    "changed", ["problems/losses/hinge.py", "release/kernels/margins.py", "_kernels/compiled.py", "problems/shards.py"]
)
def test_a_changed_source_has_a_cache_folder_of_its_own(copy: Path, changed: str) -> None:
    before = room._cache_folder()
    source = copy / changed
    text = source.read_text()
    source.write_text(text + "\n# one more line\n")
    assert room._cache_folder() != before
    source.write_text(text)
    assert room._cache_folder() == before


def test_a_new_source_has_a_cache_folder_of_its_own(copy: Path) -> None:
    before = room._cache_folder()
    (copy / "problems" / "losses" / "quantile.py").write_text("SLOPE = 0.5\n")
    assert room._cache_folder() != before


def test_the_cache_folder_lies_where_the_environment_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert Path(room._cache_folder()).parent == tmp_path / "dpadmm"


def test_decoration_leaves_numbas_own_cache_setting_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(numba.config, "CACHE_DIR", "elsewhere")

    @compiled()
    def doubled(number: float) -> float:
        return 2.0 * number

    assert numba.config.CACHE_DIR == "elsewhere"
    assert str(doubled._cache.cache_path).startswith(room._CACHE_FOLDER)


def test_a_decoration_that_fails_leaves_numbas_own_cache_setting_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(numba.config, "CACHE_DIR", "elsewhere")
    with pytest.raises((TypeError, AttributeError)):
        compiled()("not a function")  # type: ignore[arg-type]
    assert numba.config.CACHE_DIR == "elsewhere"


def test_kernels_are_cached_in_the_folder_of_these_sources() -> None:
    from dpadmm.release.kernels import margins, softmax

    for kernel in (margins.gradient, margins.sparse_gradient, softmax.gradient):
        assert str(kernel._cache.cache_path).startswith(room._CACHE_FOLDER)


def test_the_type_of_a_tag_selects_its_code_and_its_fields_are_read() -> None:
    assert slope(Tripled(0.0), 2.0, 1.0) == 6.0
    assert slope(Shifted(0.0), 2.0, 1.0) == 1.0
    assert slope(Tripled(0.5), 2.0, 1.0) == 6.5
    assert slope(Shifted(10.0), 2.0, 1.0) == 11.0


def test_a_tag_without_code_is_an_error_when_compiled() -> None:
    with pytest.raises(numba.TypingError):
        slope(Forgotten(0.0), 2.0, 1.0)


def test_a_stub_called_from_python_says_so() -> None:
    for stub in (loss_functions.value, loss_functions.derivative, loss_functions.curvature):
        with pytest.raises(NotImplementedError, match="only from compiled code"):
            stub(Tripled(0.0), 1.0, 1.0)


def defined(factor: float) -> Any:
    """A tag class as a cell of a notebook defines it, each time under the same name."""

    class Cell(NamedTuple):
        offset: float

    @implements(loss_functions.derivative, Cell)
    def _cell(loss: Cell, margin: float, target: float) -> float:
        return factor * margin + loss.offset

    return Cell


def test_a_tag_that_is_defined_again_runs_its_new_body() -> None:
    first, second = defined(3.0), defined(5.0)
    assert slope(first(0.0), 2.0, 1.0) == 6.0
    assert slope(second(0.0), 2.0, 1.0) == 10.0
    assert slope(defined(7.0)(0.0), 2.0, 1.0) == 14.0
    assert slope(first(0.0), 2.0, 1.0) == 6.0


def test_a_body_may_be_replaced_until_the_tag_is_used() -> None:
    tag = defined(3.0)

    @implements(loss_functions.derivative, tag)
    def _replaced(loss: Any, margin: float, target: float) -> float:
        return 11.0 * margin

    assert slope(tag(0.0), 2.0, 1.0) == 22.0
    with pytest.raises(ValueError, match=r"Cell has a body for 'derivative' .* define the class .*Cell again"):
        implements(loss_functions.derivative, tag)(_replaced)


def test_the_librarys_own_tags_keep_their_one_body() -> None:
    from dpadmm.problems.losses.hinge import HingeTag

    assert HingeTag.__name__ == "HingeTag"
    with pytest.raises(ValueError, match="HingeTag has a body for 'value'"):
        implements(loss_functions.value, HingeTag)(_tripled)
