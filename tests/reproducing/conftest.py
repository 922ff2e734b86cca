"""A small target to try things with, and what every declared target must come to."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import pytest

from dpadmm.papers import ALGORITHMS
from dpadmm.reproducing import collection
from dpadmm.reproducing.results import Results, load
from dpadmm.reproducing.run import reproduce
from dpadmm.reproducing.target import Target, read

pytest.importorskip("matplotlib", reason="needs the extra 'plot'")

FOLDER = collection.DECLARED
PNG = b"\x89PNG\r\n\x1a\n"

SMALL = """
paper = "000"
figure = "figure 1"
title = "a title"
claim = "A claim."
remark = "A remark."

[all]
source = "synthetic"
algorithm = "dp-admm"
agents = 4
rounds = 4
paper_noise = true
delta = 1e-3

[grid]
epsilon = [0.1, 1.0]

[[curve]]
name = "noisy"

[[curve]]
name = "quiet"
algorithm = "linearised-admm"
without = ["epsilon", "delta", "paper_noise"]

[[panel]]
metric = "train_loss"
label = "loss"

[[panel]]
metric = "epsilon"
label = "true epsilon"
over = "epsilon"

[[check]]
says = "no noise, less loss"
metric = "train_loss"
below = ["quiet", "noisy"]

[scale.small]

[scale.paper]
repeats = 2
"""


@pytest.fixture
def declared(tmp_path: Path) -> Callable[..., Target]:
    """The small target above as its file declares it, with texts replaced."""

    def make(*changes: tuple[str, str], name: str = "000-figure-1") -> Target:
        text = SMALL
        for old, new in changes:
            assert text.count(old) == 1, old
            text = text.replace(old, new)
        place = tmp_path / "declared"
        place.mkdir(exist_ok=True)
        (place / f"{name}.toml").write_text(text)
        return read(place / f"{name}.toml")

    return make


@pytest.fixture(scope="session")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where runs are remembered that several figures show."""
    return tmp_path_factory.mktemp("shared")


@pytest.fixture
def stands(tmp_path: Path, shared: Path) -> Callable[[Path], None]:
    """Runs a declared target at the small scale: its sound claims must hold, its account and its files be whole."""

    def check(path: Path) -> None:
        target = read(path)
        results = reproduce(target, "small", tmp_path, FOLDER, shared)
        assert results.answers
        for answer in results.answers:
            assert answer.of > 0, f"compared nothing: {answer}"
            assert answer.always or not answer.asserted, answer
        _is_accounted(results)
        _is_drawn(results)
        _is_written(results, tmp_path)

    return check


def _is_accounted(results: Results) -> None:
    """Every run says what it costs in truth, or that it is not private."""
    for job, outcome in results.findings:
        if job.kind == "train":
            assert outcome.private == ALGORITHMS[job.settings["algorithm"]].private, job.name
        if outcome.private:
            assert outcome.epsilon is not None, job.name
            # One Gaussian release may be so weak that delta alone covers it.
            covered = outcome.epsilon == 0.0 and bool(outcome.delta) and sum(outcome.rounds) == 1
            assert covered or 0.0 < outcome.epsilon < math.inf, job.name
        else:
            assert outcome.epsilon is None, job.name
            assert outcome.claimed is None, job.name


def _is_drawn(results: Results) -> None:
    """Every panel has numbers to show, of a run that belongs to it."""
    for panel in results.target.panels:
        inside = [o for job, o in results.findings if job.fits(panel.where) and panel.metric in o.tracks]
        assert any(math.isfinite(o.tracks[panel.metric].end) for o in inside), panel


def _is_written(results: Results, folder: Path) -> None:
    name = results.target.id
    assert (folder / f"{name}.png").read_bytes().startswith(PNG)
    back = load(results.target, results.scale, folder)
    assert back is not None
    assert (back.command, back.date, back.version) == (results.command, results.date, results.version)
    for (job, kept), (same, outcome) in zip(back.findings, results.findings, strict=True):
        assert job == same
        assert (kept.private, kept.epsilon, kept.claimed) == (outcome.private, outcome.epsilon, outcome.claimed)
        assert kept.rounds == outcome.rounds
        assert set(kept.tracks) == set(outcome.tracks)
        for metric, track in outcome.tracks.items():
            assert kept.tracks[metric].mean == pytest.approx(track.mean, rel=1e-5, nan_ok=True)
            assert kept.tracks[metric].most == pytest.approx(track.most, rel=1e-5, nan_ok=True)
    assert [str(answer) for answer in back.answers] == [str(answer) for answer in results.answers]
