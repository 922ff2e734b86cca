"""A power-flow run's folder becomes a document: objective, residual, network, promise."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from dpadmm.cli.main import app
from dpadmm.report.document import Chart, Document
from dpadmm.report.gather import gather
from dpadmm.report.page import html

pytest.importorskip("scs", reason="needs the extra 'power'")

Flow = Callable[..., dict[str, Any]]


@pytest.fixture
def flow(tmp_path: Path) -> Flow:
    def run(*more: object, rounds: int = 8) -> dict[str, Any]:
        words = ["power-flow", "--case", "case14", "--rounds", rounds, "--out", tmp_path / "flow", "--json", *more]
        result = CliRunner().invoke(app, [str(word) for word in words], catch_exceptions=False)
        assert result.exit_code == 0, result.stderr
        return json.loads(result.stdout)

    return run


def chart(document: Document, id: str) -> Chart:
    return next(each for each in document.charts if each.id == id)


def test_noise_on_the_loads(flow: Flow, tmp_path: Path) -> None:
    summary = flow("--epsilon", 1, "--delta", 1e-2)
    assert summary["out"] == str(tmp_path / "flow")
    document = gather([tmp_path / "flow"])
    (run,) = document.runs
    assert (run.state, run.round, run.rounds) == ("finished", 8, 8)
    assert run.guarantee.accounted
    assert "differed in both loads of one bus, by up to 0.01 per unit" in run.guarantee.plain
    assert "gaussian noise on the loads, noise multiplier 1.878, one release; seeded noise" in run.guarantee.exact
    assert list(run.warnings) == []
    assert dict(run.facts)["zones"] == "3"
    assert [each.id for each in document.charts] == ["unmet-load", "copies", "budget", "grid-0", "loads-0"]
    assert chart(document, "unmet-load").series[0].y[-1] == pytest.approx(summary["objective"])
    assert chart(document, "copies").series[0].y[-1] == pytest.approx(summary["residual"])
    grid = chart(document, "grid-0")
    assert (len(grid.nodes), len(grid.edges)) == (14, 20)
    assert {node.group for node in grid.nodes} == {"zone 1", "zone 2", "zone 3"}
    assert grid.nodes[0].name == "bus 1"
    assert re.fullmatch(
        r"zone 1; voltage \d\.\d{3}; .* covered: \S+ active, \S+ reactive, per unit", grid.nodes[0].about
    )
    zone = [node.group for node in grid.nodes]
    assert all(edge.strong == (zone[edge.source] != zone[edge.target]) for edge in grid.edges)
    assert sum(edge.strong for edge in grid.edges) == summary["cut_lines"]
    loads, noise = chart(document, "loads-0").series
    # Three zones of 5, 4 and 5 buses with two loads each, and noise of one size on every load.
    sizes = [10, 8, 10]
    assert [value / size**0.5 for value, size in zip(noise.y, sizes, strict=True)] == pytest.approx(
        [summary["noise_multiplier"] * 0.01 * 2**0.5] * 3
    )
    assert all(value > 0 for value in loads.y)
    spent = chart(document, "budget").series
    assert [line.name for line in spent] == ["all 3 zones", "limit 1"]
    assert spent[0].y == pytest.approx([summary["epsilon"]] * 8)  # all of it, before the first round
    assert len(html(document)) < 300_000


def test_noise_in_every_round(flow: Flow, tmp_path: Path) -> None:
    summary = flow("--algorithm", "obj-l", "--epsilon", 4, "--delta", 3e-2)
    document = gather([tmp_path / "flow"])
    assert "delta 0.03 is above" in document.runs[0].warnings[0]
    line = chart(document, "budget").series[0]
    assert list(line.x) == list(range(9))
    assert line.y[0] == 0.0
    assert line.y[4] < line.y[-1] == pytest.approx(summary["epsilon"])
    assert "laplace noise on the gradient" in document.runs[0].guarantee.exact
    assert "8 rounds: 8 releases" in document.runs[0].guarantee.exact
    assert "loads-0" not in [each.id for each in document.charts]


def test_without_noise(flow: Flow, tmp_path: Path) -> None:
    flow("--algorithm", "none")
    document = gather([tmp_path / "flow"])
    assert document.runs[0].guarantee.plain.startswith("This run promises no privacy: every zone sends")
    assert [each.id for each in document.charts] == ["unmet-load", "copies", "grid-0"]


def test_a_folder_with_something_in_it_is_refused(flow: Flow, tmp_path: Path) -> None:
    flow("--algorithm", "none", rounds=1)
    with pytest.raises(AssertionError, match="is not an empty folder"):
        flow("--algorithm", "none", rounds=1)


def test_it_can_be_watched(flow: Flow, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the middle it says how far it is, and promises nothing yet."""
    from dpadmm.engine.output import status

    monkeypatch.setattr(status, "INTERVAL", 0.0)
    reached, seen = status.StatusWriter.reached, []

    def look(self: Any, round: int) -> None:
        reached(self, round)
        (run,) = (document := gather([tmp_path / "flow"])).runs
        seen.append((run.state, run.round, len(chart(document, "copies").series[0].y), run.guarantee.accounted))

    monkeypatch.setattr(status.StatusWriter, "reached", look)
    flow("--epsilon", 1, "--delta", 1e-2, rounds=3)
    assert seen == [("running", k, k, False) for k in (1, 2, 3)]
