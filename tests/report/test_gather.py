"""Every kind of run becomes a document; a folder that makes no sense is refused with the file's name."""

from __future__ import annotations

import csv
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dpadmm.engine.output.model import Model
from dpadmm.engine.run import train
from dpadmm.errors import InputError
from dpadmm.report.document import Chart, Document
from dpadmm.report.gather import MOST_RUNS, gather
from dpadmm.report.page import html
from dpadmm.report.wording import SIMULATED

SMALL: dict[str, Any] = {"source": "synthetic", "agents": 4, "rounds": 12, "epsilon": 1.0, "delta": 1e-5, "seed": 3}


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Small runs of every kind, made once."""
    home = tmp_path_factory.mktemp("runs")
    curves = {**SMALL, "source": "functional-sim", "algorithm": "fdp-admm", "tau": (0.1, 0.5), "intercept": True}
    for name, given in {
        "plain": {**SMALL, "repeats": 3},
        "open": {"source": "synthetic", "agents": 4, "rounds": 5, "algorithm": "admm"},
        "own": {**SMALL, "epsilon": None, "epsilons": (0.5, 1.0, 2.0, 2.0)},
        "graph": {**SMALL, "agents": 5, "topology": "ring:5", "algorithm": "private-r-admm", "mechanism": "gaussian"},
        "curves": {**curves, "rounds": 5},
        "classes": {**SMALL, "loss": "softmax", "algorithm": "obj-g", "measure_every": 5},
        "sampled": {**SMALL, "algorithm": "ps-admm-sgd", "relation": "zero-out", "rounds": 60, "measure_every": 30},
        "paper": {**SMALL, "algorithm": "pvp", "paper_noise": True},
        "evaluated": {**SMALL, "algorithm": "dvp", "mechanism": "gamma-norm", "evaluation_epsilon": 0.2},
        "staged": {**SMALL, "standardise": 0.2},
    }.items():
        train(out=home / name, **given)
    return home


def chart(document: Document, id: str) -> Chart:
    return next(each for each in document.charts if each.id == id)


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def test_a_private_run_with_repeats(folders: Path) -> None:
    found = gather([folders / "plain"])
    (run,) = found.runs
    assert (run.name, run.state, run.round, run.rounds) == ("plain", "finished", 12, 12)
    assert run.guarantee.accounted
    assert run.guarantee.simulated
    assert run.guarantee.notes[0] == SIMULATED
    assert "12 rounds: 12 releases" in run.guarantee.exact
    facts = dict(run.facts)
    assert facts["agents"] == "4"
    assert facts["records"] == "8,000, from 2,000 to 2,000 each"
    assert facts["budget"] == "epsilon 1, delta 1e-05 in total"
    assert "numpy " in facts["versions"]
    assert run.spec == (folders / "plain" / "spec.toml").read_text()
    assert [each.id for each in found.charts] == [
        *("objective", "augmented-objective", "loss", "error", "residual", "budget", "noise", "coefficients-0")
    ]
    table = rows(folders / "plain" / "history.csv")
    values = np.array([float(row["objective"]) for row in table]).reshape(3, 12)
    (line,) = chart(found, "objective").series
    np.testing.assert_allclose(np.array(line.y, float), values.mean(axis=0))
    np.testing.assert_allclose(np.array(line.low, float), values.min(axis=0))
    np.testing.assert_allclose(np.array(line.high, float), values.max(axis=0))
    assert list(line.x) == list(range(1, 13))
    assert "from the least to the most" in chart(found, "objective").about
    assert chart(found, "objective").simulated
    assert not chart(found, "residual").simulated
    assert [each.name for each in chart(found, "loss").series] == ["common model", "agents' own models"]


def test_what_agents_spend_is_what_the_history_says_of_the_worst(folders: Path) -> None:
    spent, limit = chart(gather([folders / "plain"]), "budget").series
    assert (spent.name, limit.name) == ("all 4 agents", "limit 1")
    assert (limit.style, list(limit.y), list(limit.x)) == ("limit", [1.0, 1.0], [0, 12])
    told = [float(row["epsilon"]) for row in rows(folders / "plain" / "history.csv")[:12]]
    assert list(spent.x) == list(range(13))
    np.testing.assert_allclose(np.array(spent.y, float), [0.0, *told], rtol=1e-12)
    assert 0.999 < spent.y[-1] <= 1.0


def test_agents_with_budgets_of_their_own(folders: Path) -> None:
    found = gather([folders / "own"])
    lines = {line.name: line for line in chart(found, "budget").series}
    assert list(lines) == ["agent 0", "agent 1", "2 agents alike", "limit 0.5", "limit 1", "limit 2"]
    for name, limit in (("agent 0", 0.5), ("agent 1", 1.0), ("2 agents alike", 2.0)):
        assert 0.999 * limit < lines[name].y[-1] <= limit
    assert dict(found.runs[0].facts)["budget"] == "epsilon 0.5 to 2, by agent"
    assert "epsilon 2.000, delta" in found.runs[0].guarantee.exact


def test_the_noise_is_that_of_the_mechanism_and_the_signal_that_of_the_records(folders: Path) -> None:
    """Noise of standard deviation z * s in each coordinate, beside gradients computed anew from the records."""
    from dpadmm.engine.prepare import prepare
    from dpadmm.spec.toml import read

    prepared = prepare(read(folders / "plain" / "spec.toml"))
    plan, shards = prepared.plan, prepared.shards
    sigma = plan.noise[0].mechanism.noise_multiplier[0] * plan.setting.gradient_sensitivity()[0]
    table = rows(folders / "plain" / "history.csv")
    noise = [float(row["noise"]) for row in table]
    np.testing.assert_allclose(noise, sigma * np.sqrt(plan.setting.dimension), rtol=1e-12)
    model = json.loads((folders / "plain" / "model.json").read_text())["coefficients"]
    last = [float(row["signal"]) for row in table if row["round"] == "12"]
    near = plan.setting.problem.loss.gradient(shards, np.tile(model, (4, 1)), plan.setting.weights)
    # Agents stand near the common model, and gradients are continuous.
    assert last[0] == pytest.approx(np.sqrt((np.linalg.norm(near, axis=1) ** 2).mean()), rel=0.5)
    drawn = chart(gather([folders / "plain"]), "noise")
    assert drawn.simulated
    assert [line.name for line in drawn.series] == ["gradient", "noise"]
    assert "added to the gradient of every step" in drawn.about


def test_rounds_that_recycle_are_left_out_of_the_noise(folders: Path) -> None:
    found = gather([folders / "graph"])
    for line in chart(found, "noise").series:
        assert list(line.x) == [1, 3, 5, 7, 9, 11]
        assert all(value > 0 for value in line.y if value is not None)
    assert "rounds recycled at no cost" in found.runs[0].guarantee.exact


def test_noise_is_compared_in_rounds_that_have_some(folders: Path) -> None:
    """Of 48 rounds, every second one of which recycles, a dozen; where only recycled ones are measured, in none."""
    from dpadmm.engine.metrics import SIGNALS

    run = {**SMALL, "agents": 5, "topology": "ring:5", "algorithm": "private-r-admm", "rounds": 48, "epsilon": 10.0}
    lengths = {every: train(**run, measure_every=every).history for every in (1, 2, 3)}
    compared = {
        every: [round for round, value in zip(found.rounds, found["noise"][:, 0], strict=True) if value == value]
        for every, found in lengths.items()
    }
    assert compared == {1: [1, *range(5, 48, 4)], 2: [], 3: [3, 9, 15, 21, 27, 33, 39, 45]}
    assert len(compared[1]) == SIGNALS


def test_a_graph(folders: Path) -> None:
    found = gather([folders / "graph"])
    drawn = chart(found, "graph-0")
    assert len(drawn.nodes) == 5
    assert sorted((edge.source, edge.target) for edge in drawn.edges) == [(0, 1), (0, 4), (1, 2), (2, 3), (3, 4)]
    last = [float(row["disagreement"]) for row in rows(folders / "graph" / "nodes.csv") if row["round"] == "12"]
    assert [node.value for node in drawn.nodes] == last
    assert "2 neighbours" in drawn.nodes[0].about
    lines = chart(found, "disagreement-0").series
    assert [line.name for line in lines] == [*(f"agent {k}" for k in range(5)), "mean"]
    assert lines[2].y[-1] == last[2]
    assert gather([folders / "graph"]).charts == found.charts  # the layout is the same every time


def test_a_recipe_without_noise(folders: Path) -> None:
    found = gather([folders / "open"])
    assert not found.runs[0].guarantee.accounted
    assert "budget" not in [each.id for each in found.charts]
    assert "noise" not in [each.id for each in found.charts]


def test_curves(folders: Path) -> None:
    from dpadmm.applications.curves.model import CurveModel

    drawn = chart(gather([folders / "curves"]), "slope")
    assert [line.name for line in drawn.series] == ["tau 0.1", "tau 0.5"]
    truth = CurveModel.load(folders / "curves").slope(np.array([0.0, 0.5, 1.0]))
    assert [drawn.at[0], drawn.at[100], drawn.at[200]] == [0.0, 0.5, 1.0]
    for line, values in zip(drawn.series, truth, strict=True):
        assert [line.y[0], line.y[100], line.y[200]] == pytest.approx(values.tolist())


def test_the_largest_coefficients(folders: Path) -> None:
    model = Model.load(folders / "plain")
    drawn = chart(gather([folders / "plain"]), "coefficients-0")
    pairs = dict(zip(model.description["features"], model.coefficients.tolist(), strict=True))
    shown = dict(zip(drawn.names, drawn.series[0].y, strict=True))
    assert len(shown) == min(20, len(pairs))
    assert shown == {name: pairs[name] for name in sorted(pairs, key=lambda name: -abs(pairs[name]))[:20]}
    several = chart(gather([folders / "classes"]), "coefficients-0")
    assert [line.name for line in several.series] == Model.load(folders / "classes").description["classes"]


def test_noise_of_papers_mini_batches_evaluations_and_stages(folders: Path) -> None:
    exact = {
        name: gather([folders / name]).runs[0].guarantee.exact for name in ("paper", "sampled", "evaluated", "staged")
    }
    assert "by its paper's formula" in exact["paper"]
    assert "limit" not in [line.style for line in chart(gather([folders / "paper"]), "budget").series]
    assert "sampled gradient" in exact["sampled"]
    assert "zero-out relation" in exact["sampled"]
    assert "privacy loss distribution" in exact["sampled"]
    assert "one release before the rounds" in exact["staged"]
    assert "one estimate of the error after them" in exact["evaluated"]
    lines = {name: chart(gather([folders / name]), "budget").series for name in ("staged", "evaluated")}
    for line, limit in lines.values():
        assert 0.99 < line.y[-1] <= limit.y[-1] == 1.0
    (staged, _), (evaluated, _) = lines.values()
    assert staged.x[0] == 1  # what comes before the rounds is in the first of them
    assert evaluated.x[0] == 0
    assert evaluated.y[-1] > evaluated.y[-2] + 0.15  # the estimate comes last


def test_scaling_by_the_data_is_not_private(folders: Path, tmp_path: Path) -> None:
    shutil.copytree(folders / "plain", tmp_path / "run")
    plan = json.loads((tmp_path / "run" / "plan.json").read_text())
    (tmp_path / "run" / "plan.json").write_text(json.dumps({**plan, "public_preprocessing": False}))
    assert not gather([tmp_path / "run"]).runs[0].guarantee.accounted


def test_several_runs_share_charts(folders: Path, tmp_path: Path) -> None:
    shutil.copytree(folders / "plain", tmp_path / "plain")
    found = gather([folders / "plain", folders / "own", tmp_path / "plain"])
    names = [run.name for run in found.runs]
    assert names == [f"{folders.name}/plain", "own", f"{tmp_path.name}/plain"]
    assert [(line.name, line.run) for line in chart(found, "objective").series] == list(
        zip(names, range(3), strict=True)
    )
    assert f"{names[0]}: common model" in [line.name for line in chart(found, "loss").series]
    assert "own: 2 agents alike" in [line.name for line in chart(found, "budget").series]
    assert [line.name for line in chart(found, "coefficients").series] == names
    assert len({each.id for each in found.charts}) == len(found.charts)
    with pytest.raises(InputError, match=f"one to {MOST_RUNS} folders"):
        gather([folders / "plain"] * (MOST_RUNS + 1))


def test_numbers_on_the_same_folder_twice(folders: Path) -> None:
    assert [run.name for run in gather([folders / "own"] * 2).runs] == ["own (1)", "own (2)"]


def test_every_document_becomes_a_page_of_modest_size(folders: Path) -> None:
    every = sorted(folders.iterdir())
    document = gather(every)
    assert len(document.runs) == len(every)
    assert all(run.error == "" for run in document.runs)
    assert len(html(document)) < 1_000_000
    assert not [value for each in document.charts for line in each.series for value in line.y if value != value]


def test_where_things_are_not(folders: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="there is no folder"):
        gather([tmp_path / "nowhere"])
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="is a file"):
        gather([tmp_path / "file"])
    with pytest.raises(InputError, match=r"no spec\.toml"):
        gather([tmp_path])
    shutil.copy(folders / "plain" / "spec.toml", tmp_path)
    with pytest.raises(InputError, match=r"no status\.json"):
        gather([tmp_path])


DAMAGES = {
    "spec.toml": [b"run = 3", b"\xff\xfe", b"[nothing]\na = 1\n"],
    "result.json": [b"{", b"[]", b"\xff", b'{"accountant": "exact"}', b'{"warnings": 3}'],
    "plan.json": [b"nonsense", b'{"privacy": {}}', b'{"privacy": 7}', b'{"privacy": null, "agents": 3}'],
    "model.json": [
        b"{}",
        b'{"features": ["a"], "coefficients": ["x"], "classes": null, "loss": "logistic"}',
        b"[" * 9999,
    ],
    "history.csv": [b"a,b\n1,2\n", b"run,round,x\n0,1,apple\n", b"run,round,x\n0,,1\n", b"run,round,x\n0\n"],
    "nodes.csv": [b"run,round,node\n0,1,2\n", b"round\n1\n"],
}


@pytest.mark.parametrize(("name", "text"), [(name, text) for name, texts in DAMAGES.items() for text in texts])
def test_a_damaged_file_is_named(folders: Path, tmp_path: Path, name: str, text: bytes) -> None:
    shutil.copytree(folders / "graph", tmp_path / "run")
    (tmp_path / "run" / name).write_bytes(text)
    with pytest.raises(InputError, match=name.replace(".", r"\.")):
        gather([tmp_path / "run"])


@pytest.mark.parametrize("name", ["plan.json", "history.csv", "model.json", "result.json"])
def test_a_missing_file_is_named(folders: Path, tmp_path: Path, name: str) -> None:
    shutil.copytree(folders / "plain", tmp_path / "run")
    (tmp_path / "run" / name).unlink()
    with pytest.raises(InputError, match=f"{name}' is missing, although the run has finished"):
        gather([tmp_path / "run"])


def test_a_long_run_of_many_agents_stays_small(tmp_path: Path) -> None:
    """100 agents on a graph and 1,000 rounds, each agent with a budget of its own."""
    run = {"source": "synthetic", "topology": "ring:100", "algorithm": "private-mr-admm", "rounds": 2}
    train(**run, epsilon=1.0, delta=1e-5, out=tmp_path / "run")
    draw, rounds = np.random.default_rng(0), range(1, 1001)
    head = rows(tmp_path / "run" / "history.csv")[0]
    for name, places in (("history", [()]), ("nodes", [(node,) for node in range(100)])):
        columns = list(head) if name == "history" else ["run", "round", "node", "disagreement"]
        more = len(columns) - 2 - len(places[0])
        with (tmp_path / "run" / f"{name}.csv").open("w", newline="") as file:
            table = csv.writer(file)
            table.writerow(columns)
            for round in rounds:
                table.writerows([0, round, *place, *draw.random(more).tolist()] for place in places)
    plan = json.loads((tmp_path / "run" / "plan.json").read_text())
    (together,) = plan["privacy"]["budgets"]["of"]
    assert together["agents"] == list(range(100))
    groups = [{**together, "agents": [k], "epsilon": sorted(draw.random(50).tolist())} for k in range(100)]
    plan["privacy"]["budgets"] |= {"rounds": list(range(20, 1001, 20)), "of": groups}
    (tmp_path / "run" / "plan.json").write_text(json.dumps({**plan, "rounds": 1000}))
    document = gather([tmp_path / "run"])
    page = html(document)
    assert len(page.encode()) < 1_000_000
    lines = chart(document, "disagreement-0").series
    assert len(lines) == 101
    for line in lines[:-1]:
        assert (line.x[0], line.x[-1]) == (1, 1000)
        assert len(line.x) <= 120
    three = html(gather([tmp_path / "run"] * 3))
    assert len(three.encode()) < 3_000_000
