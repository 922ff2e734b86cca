"""Figures are refused before the work, and written without a trace of the program that made them."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from dpadmm._plots import check, empty_figure, save
from dpadmm.errors import InputError


def test_other_endings_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"--draw '.*a.txt': the name must end in .png, .svg, .pdf"):
        check(tmp_path / "a.txt", "--draw")


def test_absent_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="there is no folder"):
        check(tmp_path / "none" / "a.png", "--draw")


def test_absent_matplotlib_names_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(InputError, match=r"pip install 'dpadmm\[plot\]'"):
        check(tmp_path / "a.png", "--draw")


@pytest.mark.parametrize("ending", [".png", ".svg", ".pdf"])
def test_figures_are_written(tmp_path: Path, ending: str) -> None:
    figure = empty_figure((2.0, 1.0))
    figure.subplots().plot([0, 1], [0, 1])
    save(figure, tmp_path / f"a{ending}", "--draw")
    assert (tmp_path / f"a{ending}").stat().st_size > 500


def test_unwritable_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"--picture '.*' cannot be written"):
        save(empty_figure(), tmp_path / "none" / "a.png", "--picture")
