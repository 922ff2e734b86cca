"""A coordinator over a line of function calls: its model equals the simulation's, and its result says the cost."""

import csv
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from coordinated_runs import RING, all_once, coefficients, history, load_round, outcome
from ledgers import amount

from dpadmm.datasets import read_table
from dpadmm.engine import metrics
from dpadmm.engine.output.checkpoint import load
from dpadmm.engine.output.model import Model
from dpadmm.federation.server.run_folder import runs_in
from dpadmm.federation.server.state import CoordinatorState
from dpadmm.privacy.ledger.verify import verify
from dpadmm.problems.losses import Logistic
from dpadmm.problems.shards import gather

pytestmark = pytest.mark.usefixtures("hurried")


RECIPES: list[dict[str, Any]] = [
    {},
    {"algorithm": "obj-g", "updates": 2},
    {"algorithm": "pvp", "evaluation_epsilon": 0.5, "intercept": True},
    {"algorithm": "dp-accelerated", "measure_every": 4},
    {"algorithm": "ps-admm", "relation": "zero-out", "rounds": 2},
    {"algorithm": "auto"},
    RING,
    {**RING, "evaluation_epsilon": 0.5},
]


@pytest.mark.parametrize("changes", RECIPES, ids=lambda changes: changes.get("algorithm", "dp-admm"))
def test_dry_run_equals_the_simulation_bit_for_bit(
    lived: Any, small_federation: ModuleType, changes: dict[str, Any]
) -> None:
    for name in small_federation.OWNERS:
        lived.allow(name, epsilon=400.0, relation=changes.get("relation", "replace"))
    folder = lived.folder(**changes)
    status = lived.run(folder)
    assert status["state"] == "finished", status
    agreement = folder.agreement()
    assert agreement is not None
    simulated = lived.simulated(agreement.run, **changes)
    assert np.array_equal(coefficients(folder), simulated.models[0])
    assert np.linalg.norm(coefficients(folder)) > 1e-3
    found, measured = outcome(folder), history(folder)
    assert found["estimated_error"] == simulated.estimated_error
    assert (found["estimated_error"] is not None) == ("evaluation_epsilon" in changes)
    assert found["epsilon"] == simulated.guarantee.epsilon
    assert found["simulated"] is True
    assert "dry_run" in found["warnings"][0]
    assert found["missed_rounds"] == {}
    assert (found["data"], found["agents"], found["records"]) == ("federation", 3, 185)
    if "topology" in changes:
        assert measured["round"] == [float(status["round"])]
        last = simulated.history["residual"][-1]
        assert (folder.path / "nodes.csv").exists()
    else:
        assert measured["round"] == simulated.history.rounds
        assert measured["epsilon"] == simulated.history["epsilon"][:, 0].tolist()
        state, _ = load(folder.path / "checkpoint.npz", agreement.digest, CoordinatorState.from_arrays)
        assert np.array_equal(state.shared.mean_model, simulated.mean_models)
        last = simulated.history["residual"][-1] if "residual" in simulated.history else None
    if last is not None:
        assert measured["residual"][-1] == last[0]
    assert set(measured["absent"]) == {0.0}
    for name in small_federation.OWNERS:
        ledger = lived.ledger(name)
        assert verify(ledger) == []
        assert ledger.runs()["study"].finished
        assert len(lived.steps(name)) == found["rounds"] + ("evaluation_epsilon" in changes)


def test_a_model_predicts_from_raw_records(lived: Any) -> None:
    folder = lived.folder(intercept=True)
    lived.run(folder)
    model = Model.load(folder.path)
    labels, scores = model.predict(lived.table)
    assert model.description["features"] == ["age", "dose", "sex=f", "sex=m", "(intercept)"]
    assert model.description["simulated"] is True
    assert len(labels) == 185
    assert set(labels) <= {"no", "yes"}
    assert labels == ["yes" if score > 0 else "no" for score in scores[:, 0]]
    assert [folder.path for folder in runs_in(lived.home / "runs")] == [folder.path]


def test_only_where_all_noise_is_real_a_result_says_so(small_federation: ModuleType, tmp_path: Path) -> None:
    lived = small_federation.SmallFederation(tmp_path, dry_run=None)
    for name in small_federation.OWNERS:
        lived.allow(name, epsilon=50.0)
    folders = [lived.folder(name=name) for name in ("first", "second")]
    for folder in folders:
        assert lived.run(folder)["state"] == "finished"
        assert outcome(folder)["simulated"] is False
        assert outcome(folder)["warnings"] == []
        assert Model.load(folder.path).description["simulated"] is False
    assert not np.any(coefficients(folders[0]) == coefficients(folders[1]))
    lived.owner("eiche").save(replace(lived.settings("eiche", 3), ledger=str(tmp_path / "rehearsed.db")))
    mixed = lived.folder(name="mixed")
    lived.run(mixed)
    assert outcome(mixed)["simulated"] is True
    assert outcome(mixed)["warnings"] != []
    # Also where the owner of the dry run is no longer there when the run ends.
    left, line = lived.folder(name="left", stragglers="reuse"), lived.line()
    line.reaches = lambda name, method, call: call.get("step") != 3 or left.pause(True) is None
    assert lived.run(left, line)["state"] == "interrupted"
    assert lived.run(left, lived.line(("ahorn", "birke")))["state"] == "finished"
    assert outcome(left)["simulated"] is True


def test_public_records_measure_a_model(lived: Any, small_federation: ModuleType) -> None:
    public = lived.home / "public.csv"
    small_federation.records(public, {"nobody": 50}, seed=3)
    folder = lived.folder(public_test=str(public), intercept=True, norm_bound=0.5)
    lived.run(folder)
    features, targets = small_federation.SCHEMA.encode(read_table(public, text=small_federation.SCHEMA.text_columns))
    rows = {"norm_bound": 0.5, "intercept": True, "names": ["test"]}
    test = gather(features, targets, np.zeros(50, dtype=np.int64), **rows)
    expected = metrics.test_errors(Logistic(), test, coefficients(folder)[None])
    assert history(folder)["test_error"][-1] == expected[0] == outcome(folder)["test_error"]
    labels, _ = Model.load(folder.path).predict(public)
    with public.open() as file:
        wrong = [row["ill"] != label for row, label in zip(csv.DictReader(file), labels, strict=True)]
    assert np.mean(wrong) == expected[0]
    assert 0.0 < expected[0] < 0.6


def test_what_was_spent_so_far_is_in_the_history(lived: Any) -> None:
    folder = lived.folder()
    lived.run(folder)
    spent = history(folder)["epsilon"]
    assert spent == sorted(spent)
    plan = folder.agreement().plan()  # type: ignore[union-attr]
    assert spent == [plan.accounts(round).worst(1e-6).epsilon for round in range(1, 7)]
    assert spent[-1] == outcome(folder)["epsilon"] == pytest.approx(2.0)
    assert amount(lived.ledger("ahorn")) == pytest.approx(spent[-1], rel=1e-12)


@pytest.mark.parametrize(("least", "state"), [(1, "finished"), (2, "finished"), (3, "interrupted"), (7, "interrupted")])
def test_no_round_is_combined_with_fewer_answers_than_the_least(lived: Any, least: int, state: str) -> None:
    folder, line = lived.folder(stragglers="reuse", min_owners=least), lived.line()
    line.reaches = lambda name, method, call: not (name == "birke" and call.get("step") == 3)
    status = lived.run(folder, line)
    assert status["state"] == state
    if state == "interrupted":
        assert status["message"] == "2 of 3 owners answered in round 3"
        assert load_round(folder) == 2
        assert lived.run(folder)["state"] == "finished"
        assert outcome(folder)["missed_rounds"] == {}
        all_once(lived)


def test_a_party_that_is_back_is_taken_in_by_a_new_job(lived: Any) -> None:
    folder, line = lived.folder(stragglers="reuse"), lived.line()
    seen: list[dict[str, Any]] = []

    def reaches(name: str, method: str, call: Any) -> bool:
        seen.append(folder.status())
        if call.get("step") == 4:
            folder.pause(True)
        return not (name == "birke" and call.get("step") == 2)

    line.reaches = reaches
    status = lived.run(folder, line)
    assert (status["state"], status["message"], status["lost"]) == ("interrupted", "an owner is back", ["birke"])
    assert not folder.asked_to_pause
    running = [status for status in seen if status["state"] == "running"]
    assert (running[-1]["round"], running[-1]["absent"], running[-1]["silent"]) == (3, ["birke"], ["birke"])
    assert load_round(folder) == 4
    assert lived.run(folder)["state"] == "finished"
    assert outcome(folder)["missed_rounds"] == {"birke": [2, 3, 4]}
    assert lived.steps("birke") == ["1", "5", "6"]


def test_a_graph_needs_everybody(lived: Any) -> None:
    folder = lived.folder(**RING)
    for lost in (lambda name: name == "birke", lambda name: True):
        line = lived.line()
        line.reaches = lambda name, method, call, lost=lost: not (method == "join" and lost(name))
        status = lived.run(folder, line)
        assert status["state"] == "interrupted"
        assert status["message"].endswith("must join before the run can begin.")
    line = lived.line()
    line.reaches = lambda name, method, call: not (method == "run_rounds" and name == "birke")
    assert lived.run(folder, line)["message"] == "birke did not answer"
