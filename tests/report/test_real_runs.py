"""From a run to what a person sees: real runs, the command, a real browser. Counts come from the files of the run."""

from __future__ import annotations

import csv
import json
import urllib.request
from pathlib import Path

import pytest
from typer.testing import CliRunner

from dpadmm.cli.main import app
from dpadmm.report.gather import gather

pytest.importorskip("scs", reason="needs the extra 'power'")

RUNS = {
    "one agent": ("train", "--data", "synthetic", "--agents", 1, "--rounds", 30, "--epsilon", 1, "--delta", 1e-4),
    "100 agents": ("train", "--data", "synthetic", "--agents", 100, "--rounds", 40, "--delta", 1e-4, "--epsilons",
                   ",".join(f"{1 + agent / 100:g}" for agent in range(100))),
    "a graph": ("train", "--data", "synthetic", "--topology", "ring:6", "--algorithm", "private-mr-admm",
                "--mechanism", "gamma-norm", "--rounds", 10, "--epsilon", 20),
    "power flow": ("power-flow", "--case", "case14", "--rounds", 8, "--epsilon", 1, "--delta", 1e-2),
}  # fmt: skip


def command(*words):
    result = CliRunner().invoke(app, [str(word) for word in words], catch_exceptions=False)
    assert result.exit_code == 0, result.stderr
    return result


@pytest.mark.parametrize("name", RUNS)
def test_what_a_run_left_is_what_is_drawn(page, tmp_path, name):
    run, report = tmp_path / "run", tmp_path / "page.html"
    command(*RUNS[name], "--out", run, "--json")
    command("report", run, "-o", report, "--json")
    page.go(report.as_uri())
    document = gather([run])
    assert document.charts
    for chart in document.charts:
        network = [len(chart.edges), len(chart.nodes)]
        lines = [sum(value is not None for value in series.y) for series in chart.series]
        assert page.points(chart.id) == (network if chart.kind == "network" else lines), chart.id
    assert page.messages() == []
    assert [each for each in page.requests() if not each.startswith(("data:", "chrome:"))] == [report.as_uri()]
    assert "epsilon" in page.ask("document.querySelector('.exact').textContent")


def test_counts_and_values_are_those_of_the_files(page, tmp_path):
    run, report = tmp_path / "run", tmp_path / "page.html"
    command(*RUNS["100 agents"], "--out", run, "--json")
    command("report", run, "-o", report, "--json")
    page.go(report.as_uri())
    with (run / "history.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert page.points("objective") == [len(rows)] == [40]
    assert len(page.points("budget")) == 100 + 2  # a line for every agent, the least and the largest limit
    names = [series.name for series in next(c for c in gather([run]).charts if c.id == "budget").series]
    assert names[:2] == ["agent 0, limit 1", "agent 1, limit 1.01"]
    x, y = page.place("objective", 9 / 39)
    page.point("mouseMoved", x, y)
    shown = page.tip("objective")
    assert shown["title"] == "round 10"
    assert shown["rows"][0][-1].replace(",", "") == f"{float(rows[9]['objective']):.5g}"


def test_a_watched_run_that_has_finished_is_shown_by_a_real_server(page, tmp_path):
    import threading

    from dpadmm.report.server import PageServer
    from dpadmm.report.watching import Watched

    run = tmp_path / "run"
    command(*RUNS["one agent"], "--out", run, "--json")
    server = PageServer(Watched(Path(run), patience=20.0), "127.0.0.1", 0)
    ended: list[str] = []
    watching = threading.Thread(target=lambda: ended.append(server.watch()))
    watching.start()
    try:
        with urllib.request.urlopen(server.address) as answer:
            assert answer.status == 200
        page.go(server.address)
        page.wait("document.getElementById('status').textContent.includes('finished')")
        assert page.points("objective") == [json.loads((run / "result.json").read_text())["rounds"]]
        assert page.messages() == []
    finally:
        watching.join(timeout=30.0)
    assert ended == ["finished"]  # and it has stopped by itself
