"""An owner that is away for some rounds: what the others come to, what it hears when it is back, and what it pays."""

import csv
import json
from dataclasses import replace
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from ledgers import amount

from dpadmm.admm.rounds import absorb, begin, first_state, next_server, solve_and_perturb
from dpadmm.datasets import read_table
from dpadmm.engine import metrics
from dpadmm.engine.output.checkpoint import load
from dpadmm.engine.output.model import Model
from dpadmm.federation.server.run_folder import RunFolder
from dpadmm.federation.server.state import CoordinatorState
from dpadmm.privacy.ledger.verify import verify
from dpadmm.problems.losses import Logistic
from dpadmm.problems.shards import Shards, gather
from dpadmm.release.random_bits import SeededRandomness

ROUNDS = 10
AWAY = range(3, 6)


def shards(lived: Any, small_federation: ModuleType, name: str) -> Shards:
    features, places = small_federation.SCHEMA.encode(
        read_table(lived.home / name / "records.csv", text=small_federation.SCHEMA.text_columns)
    )
    targets = Logistic().encode(places, 2)
    return gather(features, targets, np.zeros(len(features), dtype=np.int64), norm_bound=1.0, names=[name])


def by_hand(
    lived: Any,
    small_federation: ModuleType,
    stragglers: str,
    away: dict[str, range],
    late: tuple[int, ...] = (),
    **changes: Any,
) -> dict[str, Any]:
    """The run, told once more in the terms of one round: nothing of the federation is in it.

    In a `late` round who is away has answered, and nobody has heard it: all that stays is where its solver is.
    """
    plan = lived.terms(stragglers=stragglers, rounds=ROUNDS, **changes).plan()
    consensus, owners = plan.algorithm.consensus, list(small_federation.OWNERS)
    rows = {name: plan.take([agent]) for agent, name in enumerate(owners)}
    records = {name: shards(lived, small_federation, name) for name in owners}
    states = {name: begin(rows[name]) for name in owners}
    last = {name: begin(rows[name]).released for name in owners}
    server, model = first_state(plan, 1).server, None
    models, residuals = [], []
    for round in range(1, ROUNDS + 1):
        there = [name for name in owners if round not in away.get(name, ())]
        begun = dict(states)
        for name in owners:
            part_of_it = round - 1 not in away.get(name, ())  # whether its release was in the mean that it now hears
            if stragglers == "reuse" or part_of_it:
                states[name] = absorb(rows[name], states[name], server.common, round - 1, absent=name not in there)
                begun[name] = absorb(rows[name], begun[name], server.common, round - 1)
        for name in owners if round in late else there:
            agent = np.array([owners.index(name)])

            def words(purpose: str, agent: Any = agent, round: int = round) -> Any:
                return SeededRandomness(7).stream(np.zeros(1, dtype=np.int64), agent, round, purpose)

            release, after = solve_and_perturb(rows[name], begun[name], records[name], server.common, round, words)
            states[name] = after if name in there else replace(states[name], memory=after.memory)
            if name in there:
                last[name] = release.value
        used = owners if stragglers == "reuse" else there
        releases = np.concatenate([last[name] for name in used])[None]
        earlier = model if model is not None else consensus.model(server, releases)
        server = next_server(plan, server, releases, round)
        model = consensus.model(server, releases)
        models.append(earlier if consensus.server_first else model)
        everybody = np.concatenate([last[name] for name in owners])[None]
        residuals.append(metrics.consensus_residual(everybody, model)[0])
    return {"model": model, "models": models, "residuals": residuals, "states": states}


def with_absence(lived: Any, folder: RunFolder, away: dict[str, range]) -> list[dict[str, Any]]:
    """Jobs until the run is over: who is away in a round is not reached, and is back in a job that begins after it."""
    jobs = []
    while not folder.finished:
        line = lived.line()

        def reaches(name: str, method: str, call: Any) -> bool:
            if method != "answer_step" or type(call["step"]) is not int:
                return True
            if call["step"] in (absence.stop - 1 for absence in away.values()):
                folder.pause(True)
            return call["step"] not in away.get(name, ())

        line.reaches = reaches
        jobs.append(lived.run(folder, line))
        assert len(jobs) < 9
    return jobs


CASES: list[tuple[str, dict[str, Any]]] = [
    ("reuse", {}),
    ("skip", {}),
    ("reuse", {"algorithm": "pvp", "rho": 0.7}),
    ("skip", {"algorithm": "pvp", "rho": 0.7}),
    ("reuse", {"algorithm": "obj-g", "updates": 2, "rho_schedule": "growing:0.3:0.1:2"}),
    ("reuse", {"algorithm": "dp-accelerated"}),
    ("skip", {"algorithm": "dp-accelerated"}),
]


@pytest.mark.parametrize(("stragglers", "changes"), CASES)
@pytest.mark.parametrize("away", [{"birke": AWAY}, {"birke": range(1, 3), "eiche": range(5, 8)}], ids=["one", "two"])
def test_rounds_without_an_owner_are_those_of_the_formulas(
    lived: Any, small_federation: ModuleType, stragglers: str, changes: dict[str, Any], away: dict[str, range]
) -> None:
    folder = lived.folder(stragglers=stragglers, rounds=ROUNDS, **changes)
    jobs = with_absence(lived, folder, away)
    assert [job["state"] for job in jobs] == ["interrupted"] * len(away) + ["finished"]
    expected = by_hand(lived, small_federation, stragglers, away, **changes)
    assert np.array_equal(Model.load(folder.path).coefficients, expected["model"][0])
    digest = folder.agreement().digest  # type: ignore[union-attr]
    state, history = load(folder.path / "checkpoint.npz", digest, CoordinatorState.from_arrays)
    np.testing.assert_allclose(state.shared.mean_model, np.mean(expected["models"], axis=0), rtol=1e-12)
    if "residual" in history:
        assert history["residual"][:, 0].tolist() == expected["residuals"]
    absent = [sum(round in absence for absence in away.values()) for round in range(1, ROUNDS + 1)]
    with (folder.path / "history.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [int(row["round"]) for row in rows] == list(range(1, ROUNDS + 1))
    assert [float(row["absent"]) for row in rows] == absent
    found = json.loads((folder.path / "result.json").read_text())
    assert found["missed_rounds"] == {name: list(absence) for name, absence in away.items()}
    for name in small_federation.OWNERS:
        answered = [round for round in range(1, ROUNDS + 1) if round not in away.get(name, ())]
        assert lived.steps(name) == [str(round) for round in answered]
        ledger = lived.ledger(name)
        assert sum(ledger.spent().values()) == len(answered)
        assert verify(ledger) == []
        spent = amount(ledger)
        assert (spent < found["epsilon"] - 0.05) == (name in away)
        assert spent <= found["epsilon"]


def test_an_absence_changes_what_a_run_comes_to_and_the_two_ways_differ(
    lived: Any, small_federation: ModuleType
) -> None:
    """So that the comparison above means something."""
    whole, stale, drop = (
        by_hand(lived, small_federation, stragglers, away)["model"]
        for stragglers, away in (("reuse", {}), ("reuse", {"birke": AWAY}), ("skip", {"birke": AWAY}))
    )
    assert np.array_equal(whole, lived.simulated(rounds=ROUNDS).models)
    for one, other in ((whole, stale), (whole, drop), (stale, drop)):
        assert np.linalg.norm(one - other) > 1e-3


def test_an_owner_that_never_comes_pays_nothing_and_gets_everything_back(lived: Any) -> None:
    folder, line = lived.folder(stragglers="reuse"), lived.line()
    line.reaches = lambda name, method, call: not (name == "birke" and method == "answer_step")
    assert lived.run(folder, line)["state"] == "finished"
    assert lived.steps("birke") == []
    assert lived.ledger("birke").spent() == {}
    assert lived.ledger("birke").committed() != {}  # it was not told that the run is over, either
    assert lived.run(folder)["state"] == "finished"
    assert lived.ledger("birke").committed() == {}
    found = json.loads((folder.path / "result.json").read_text())
    assert found["missed_rounds"] == {"birke": [1, 2, 3, 4, 5, 6]}


@pytest.mark.parametrize("stragglers", ["reuse", "skip"])
def test_a_run_in_which_nobody_misses_a_round_is_the_one_that_waits(lived: Any, stragglers: str) -> None:
    folder = lived.folder(stragglers=stragglers)
    lived.run(folder)
    assert np.array_equal(Model.load(folder.path).coefficients, lived.simulated().models[0])


@pytest.mark.parametrize(("stragglers", "changes"), [*CASES[:2], CASES[4]])
@pytest.mark.parametrize("late", [(3,), (1,), (3, 6)], ids=["once", "at first", "twice"])
def test_an_owner_whose_answer_came_too_late_can_come_back(
    lived: Any, small_federation: ModuleType, stragglers: str, changes: dict[str, Any], late: tuple[int, ...]
) -> None:
    """Its ledger has that round and the coordinator does not: the answer was released, and paid for, and lost. What the
    run comes to is what it would be without that answer."""
    away = {"birke": range(late[0], late[-1] + 3)}
    folder = lived.folder(stragglers=stragglers, rounds=ROUNDS, **changes)
    for last in late:
        line = lived.line()

        def tamper(name: str, method: str, reply: Any, last: int = last, line: Any = line) -> Any:
            asked = [call["step"] for who, what, call in line.calls if (who, what) == (name, "answer_step")]
            return None if name == "birke" and asked[-1:] == [last] else reply

        def reaches(name: str, method: str, call: Any, last: int = last) -> bool:
            if call.get("step") == last + 2:
                folder.pause(True)
            return True

        line.tamper, line.reaches = tamper, reaches
        status = lived.run(folder, line)
        assert (status["state"], status["lost"]) == ("interrupted", ["birke"])
        assert lived.steps("birke")[-1] == str(last)
    assert lived.run(folder)["state"] == "finished"
    assert not (folder.path / "events.txt").exists()
    found = json.loads((folder.path / "result.json").read_text())
    assert found["missed_rounds"] == {"birke": list(away["birke"])}
    released = [round for round in range(1, ROUNDS + 1) if round not in away["birke"] or round in late]
    assert lived.steps("birke") == [str(round) for round in released]
    assert verify(lived.ledger("birke")) == []
    expected = by_hand(lived, small_federation, stragglers, away, late, **changes)["model"][0]
    # Where the server is first, the agent takes back what its lost answer did to its dual; that is rounded.
    tolerance = 1e-12 if changes else 0.0
    np.testing.assert_allclose(Model.load(folder.path).coefficients, expected, rtol=tolerance, atol=tolerance)


def test_a_coordinator_that_is_killed_with_an_answer_in_its_hands_can_go_on_without_its_owner(
    lived: Any, small_federation: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Round 3 was answered by all and not written down; in the next job one of them is away, and back in the last."""
    folder, honest = lived.folder(stragglers="reuse", rounds=ROUNDS), RunFolder.keep

    def keep(self: RunFolder, digest: str, state: Any, history: Any, **how: Any) -> None:
        if state.round == 3:
            raise KeyboardInterrupt
        honest(self, digest, state, history, **how)

    monkeypatch.setattr(RunFolder, "keep", keep)
    with pytest.raises(KeyboardInterrupt):
        lived.run(folder)
    monkeypatch.setattr(RunFolder, "keep", honest)
    line = lived.line(("ahorn", "eiche"))
    line.reaches = lambda name, method, call: call.get("step") != 5 or folder.pause(True) is None
    assert lived.run(folder, line)["state"] == "interrupted"
    assert lived.run(folder)["state"] == "finished"
    expected = by_hand(lived, small_federation, "reuse", {"birke": range(3, 6)}, (3,))["model"][0]
    assert np.array_equal(Model.load(folder.path).coefficients, expected)
    assert lived.steps("birke") == ["1", "2", "3", "6", "7", "8", "9", "10"]
