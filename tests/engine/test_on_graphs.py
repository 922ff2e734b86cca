"""Simulations without a server: what nodes hear, what is measured of each, what each pays, and how a run goes on."""

import csv
import json
import math

import numpy as np
import pytest

from dpadmm.admm.topology.graph import parse_topology
from dpadmm.engine import run as module
from dpadmm.engine.cohort import Cohort, SimulationState
from dpadmm.engine.executor import InProcessExecutor
from dpadmm.engine.loop import evaluate, rounds
from dpadmm.engine.metrics import Observer
from dpadmm.engine.output.history import History
from dpadmm.engine.prepare import prepare
from dpadmm.engine.run import train
from dpadmm.errors import InputError
from dpadmm.privacy.events import NoOpDpEvent
from dpadmm.release.random_bits import SeededRandomness
from dpadmm.spec.declare import Experiment

RECYCLED = ["private-r-admm", "private-mr-admm"]


class Interrupted(Exception):
    pass


def interrupted_after(spec, out, kept):
    """A run in a folder, stopped in the round after the one that was kept."""

    def stop(_, round, history):
        if round == kept + 1:
            raise Interrupted

    with pytest.raises(Interrupted):
        train(spec, out=out, checkpoint_every=kept, progress=stop)


def cohort_of(prepared, runs=(0,)):
    return Cohort.of(prepared.plan, prepared.shards, list(runs), SeededRandomness(7))


# -- rounds ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("algorithm", [*RECYCLED, "dvp-graph", "m-admm"])
def test_nodes_hear_their_neighbours_and_the_run_is_their_mean(algorithm, experiment):
    prepared = prepare(experiment(algorithm, rounds=5))
    cohort, graph = cohort_of(prepared, (0, 3)), parse_topology("erdos-renyi:5:0.5")
    np.testing.assert_array_equal(SimulationState.of(cohort).shared.server.common, np.zeros((10, 4)))
    means = []
    for state in rounds(cohort, SimulationState.of(cohort), InProcessExecutor()):
        released = state.agents.released.reshape(2, 5, 4)
        for run in range(2):
            for node in range(5):
                near = [released[run, j] for j in graph.neighbours(node)]
                np.testing.assert_array_equal(state.shared.server.common[5 * run + node], sum(near) / len(near))
        np.testing.assert_array_equal(state.shared.model, released.mean(axis=1))
        means.append(state.shared.model)
        np.testing.assert_allclose(state.shared.mean_model, np.mean(means, axis=0), rtol=1e-13, atol=1e-16)
        assert (state.agents.slope is not None) == (algorithm in RECYCLED and state.round % 2 == 1)
    assert (released[0] != released[1]).all() == (algorithm != "m-admm")  # runs differ in their noise


@pytest.mark.parametrize("algorithm", ["r-admm", *RECYCLED])
def test_a_recycled_round_is_made_of_what_neighbours_released(algorithm, experiment):
    """Spec 6.4's closed form, node by node, with noise as without: no other node and no record enters."""
    rho, damping = 0.01, 0.002
    prepared = prepare(experiment(algorithm, rounds=6, rho=rho, damping=damping))
    cohort, graph = cohort_of(prepared), parse_topology("erdos-renyi:5:0.5")
    released = [
        np.zeros((5, 4)),
        *(state.agents.released for state in rounds(cohort, SimulationState.of(cohort), InProcessExecutor())),
    ]
    for round in (2, 4, 6):
        before, last = released[round - 2 : round]
        theta = rho * 1.04 ** (round // 2) if algorithm == "private-mr-admm" else rho
        for node in range(5):
            near = graph.neighbours(node)
            pull = sum(2.0 * last[j] - before[node] - before[j] for j in near)
            expected = last[node] + theta / (2.0 * theta * len(near) + damping) * pull
            np.testing.assert_allclose(released[round][node], expected, rtol=1e-9, atol=1e-12)


def test_a_result_is_the_mean_of_the_nodes(experiment):
    prepared = prepare(experiment("private-r-admm", repeats=2))
    cohort = cohort_of(prepared, (0, 1))
    *_, state = rounds(cohort, SimulationState.of(cohort), InProcessExecutor())
    result = train(prepared.experiment)
    np.testing.assert_array_equal(result.models, state.agents.released.reshape(2, 5, 4).mean(axis=1))
    np.testing.assert_array_equal(result.mean_models, state.shared.mean_model)


@pytest.mark.parametrize("algorithm", ["private-r-admm", "m-admm-penalty"])
@pytest.mark.parametrize("done", [2, 3])
def test_a_step_leaves_its_state_as_it_was(algorithm, done, experiment):
    """Before a recycled round as before any other."""
    cohort = cohort_of(prepare(experiment(algorithm, rounds=5)))
    state = list(rounds(cohort, SimulationState.of(cohort), InProcessExecutor()))[done - 1]
    before = {name: values.copy() for name, values in state.agents.to_arrays().items()}
    first, again = next(rounds(cohort, state, InProcessExecutor())), next(rounds(cohort, state, InProcessExecutor()))
    for name, values in state.agents.to_arrays().items():
        np.testing.assert_array_equal(values, before[name])
    np.testing.assert_array_equal(first.agents.released, again.agents.released)


@pytest.mark.parametrize("algorithm", [*RECYCLED, "dvp-graph"])
def test_ten_repeats_side_by_side_are_ten_runs(algorithm, experiment, same, monkeypatch):
    spec = experiment(algorithm, repeats=10, rounds=4)
    together = train(spec)
    assert len(np.unique(together.models[:, 0])) == 10
    prepared = prepare(spec)
    for run in (0, 4, 9):
        cohort = cohort_of(prepared, (run,))
        *_, alone = rounds(cohort, SimulationState.of(cohort), InProcessExecutor())
        np.testing.assert_array_equal(together.models[run], alone.shared.model[0])
    monkeypatch.setattr(module, "NUMBERS_AT_ONCE", 1)
    assert [list(group) for group in module._groups(prepared)] == [[run] for run in range(10)]
    same(together, train(spec))


# -- what is measured --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("algorithm", ["private-r-admm", "decentralised-admm"])
def test_metrics_are_of_the_nodes_mean_and_of_every_node(algorithm, experiment):
    prepared = prepare(experiment(algorithm, strength=0.05, rounds=3, split="dirichlet:0.5"))
    cohort, shards, test = cohort_of(prepared, (0, 1)), prepared.shards, prepared.test
    observer = Observer(cohort, test, prepared.delta)
    records = [(shards.real_rows[i:j], shards.targets[i:j]) for i, j in zip(shards.starts, shards.stops, strict=True)]

    def loss(owner, x):
        features, targets = records[owner]
        return np.mean(np.log1p(np.exp(-targets * (features @ x))))

    def wrong(x):
        return np.mean((test.real_rows @ x > 0) != test.targets)

    for state in rounds(cohort, SimulationState.of(cohort), InProcessExecutor()):
        measured, nodes = observer.measure(state), observer.of_nodes(state)
        assert "augmented_objective" not in measured
        assert list(nodes) == ["disagreement"]
        assert nodes["disagreement"].shape == (2, 5)
        for run, own in enumerate(state.agents.released.reshape(2, 5, 4)):
            middle = own.sum(axis=0) / 5
            apart = [math.dist(own[node], middle) for node in range(5)]
            np.testing.assert_allclose(nodes["disagreement"][run], apart, rtol=1e-12)
            expected = {
                "train_loss": np.mean([loss(node, middle) for node in range(5)]),
                "train_loss_local": np.mean([loss(node, own[node]) for node in range(5)]),
                "test_error": wrong(middle),
                "test_error_local": np.mean([wrong(x) for x in own]),
                "residual": math.hypot(*apart),
            }
            expected["objective"] = expected["train_loss"] + 0.05 / 2 * (middle @ middle)
            for name, value in expected.items():
                assert measured[name][run] == pytest.approx(value, rel=1e-10), name


@pytest.mark.parametrize("algorithm", ["dp-admm", "dvp"])
def test_around_a_server_nothing_is_said_of_single_nodes(algorithm, experiment, tmp_path):
    """Nor of 003's bound, although dvp's noise is of the kind that it speaks of."""
    result = train(experiment(algorithm, rounds=3), out=tmp_path / "run")
    assert result.history.nodes == {}
    assert "augmented_objective" in result.history
    assert "printed_epsilon" not in result.history
    assert not (tmp_path / "run" / "nodes.csv").exists()


def test_nodes_are_written_down_one_by_one(experiment, tmp_path):
    result = train(experiment("private-r-admm", repeats=2, measure_every=5), out=tmp_path / "run")
    assert {path.name for path in (tmp_path / "run").iterdir()} == {
        *("spec.toml", "plan.json", "status.json", "history.csv", "nodes.csv", "model.json", "result.json"),
    }
    with (tmp_path / "run" / "nodes.csv").open(newline="") as file:
        head, *rows = csv.reader(file)
    assert head == ["run", "round", "node", "disagreement"]
    places = [(str(run), str(round), str(node)) for run in range(2) for round in (5, 10, 12) for node in range(5)]
    assert [tuple(row[:3]) for row in rows] == places
    assert np.stack(result.history.nodes["disagreement"]).shape == (3, 2, 5)
    for (run, round, node), row in zip(places, rows, strict=True):
        kept = result.history.nodes["disagreement"][(5, 10, 12).index(int(round))]
        assert float(row[3]) == kept[int(run), int(node)]
    # Which is what a look at the states says.
    prepared = prepare(result.experiment)
    cohort = cohort_of(prepared, (0, 1))
    states = [
        state for state in rounds(cohort, SimulationState.of(cohort), InProcessExecutor()) if state.round in (5, 10, 12)
    ]
    apart = [state.agents.released.reshape(2, 5, 4) - state.shared.model[:, None] for state in states]
    table = np.array([float(row[3]) for row in rows]).reshape(2, 3, 5)
    np.testing.assert_allclose(table, np.linalg.norm(apart, axis=3).transpose(1, 0, 2), rtol=1e-12)
    assert (table > 0).all()
    summary = json.loads((tmp_path / "run" / "result.json").read_text())
    assert summary["augmented_objective"] is None
    assert summary["topology"] == "erdos-renyi:5:0.5"


def test_a_history_of_nodes_survives_arrays_and_company():
    one, other = History(), History()
    draw = np.random.default_rng(0)
    for round in (2, 4, 6):
        one.add(
            round, {"loss": draw.normal(size=2)}, {"apart": draw.normal(size=(2, 3)), "far": draw.normal(size=(2, 3))}
        )
        other.add(round, {"loss": draw.normal(size=1)}, {"apart": draw.normal(size=(1, 3)), "far": np.ones((1, 3))})
    again = History.from_arrays(one.to_arrays())
    assert (again.rounds, list(again.metrics), list(again.nodes)) == ([2, 4, 6], ["loss"], ["apart", "far"])
    for name in one.nodes:
        np.testing.assert_array_equal(again.nodes[name], one.nodes[name])
    np.testing.assert_array_equal(again["loss"], one["loss"])
    both = one.beside(other)
    np.testing.assert_array_equal(
        both.nodes["apart"], np.concatenate([one.nodes["apart"], other.nodes["apart"]], axis=1)
    )
    assert both["loss"].shape == (3, 3)


# -- going on ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("algorithm", [*RECYCLED, "r-admm", "m-admm-penalty", "pvp-graph"])
@pytest.mark.parametrize("kept", [3, 4])  # before a recycled round, and after one
def test_a_resumed_run_is_the_uninterrupted_one_bit_for_bit(algorithm, kept, experiment, same, tmp_path):
    spec = experiment(algorithm, repeats=2, rounds=6)
    whole = train(spec, out=tmp_path / "whole")
    interrupted_after(spec, tmp_path / "parts", kept)
    with np.load(tmp_path / "parts" / "checkpoint-0.npz") as file:
        assert int(file["round"]) == kept
        assert ("agents.slope" in file) == (kept == 3 and "r-admm" in algorithm)
        assert file["history.nodes.disagreement"].shape == (kept, 2, 5)
    told = []
    resumed = train(spec, out=tmp_path / "parts", resume=True, progress=lambda _, round, history: told.append(round))
    assert told == list(range(kept + 1, 7))
    same(whole, resumed)
    for name in ("spec.toml", "history.csv", "nodes.csv", "model.json"):
        assert (tmp_path / "parts" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()


@pytest.mark.parametrize("part", ["agents.slope", "agents.dual", "released", "server.common"])
def test_what_a_run_on_a_graph_keeps_is_all_needed(part, experiment, tmp_path):
    """Without any of it the rest would be another run: so the test above would notice if it were lost."""
    spec = experiment("private-r-admm", rounds=6, repeats=2)
    whole = train(spec)
    interrupted_after(spec, tmp_path / "run", 3)
    path = tmp_path / "run" / "checkpoint-0.npz"
    with np.load(path) as file:
        arrays = dict(file)
    assert (np.abs(arrays[part]) > 0).all()
    np.savez(path, **arrays | {part: np.zeros_like(arrays[part])})
    resumed = train(spec, out=tmp_path / "run", resume=True)
    assert (resumed.models != whole.models).all()


def test_interrupted_after_the_last_round_the_mean_is_still_there(experiment, same, tmp_path, monkeypatch):
    spec = experiment("private-r-admm", rounds=4)
    with monkeypatch.context() as patch:
        patch.setattr(module, "_result", _interrupt)
        with pytest.raises(Interrupted):
            train(spec, out=tmp_path / "run")
    same(train(spec), train(spec, out=tmp_path / "run", resume=True))


def _interrupt(*_):
    raise Interrupted


# -- who takes part ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("topology", ["ring:6", "grid:2:3", '{"edges":[[0,1],[1,2],[2,3],[3,4],[4,5]]}'])
def test_there_are_as_many_agents_as_nodes_where_nothing_else_says(topology, tmp_path):
    terms = {"source": "tiny", "algorithm": "r-admm", "rounds": 2, "topology": topology}
    result = train(**terms, out=tmp_path / "run")
    assert result.plan.setting.agents == result.plan.setting.graph.nodes == 6
    assert result.experiment.data.agents == 6
    assert "agents = 6" in (tmp_path / "run" / "spec.toml").read_text()
    np.testing.assert_array_equal(train(**terms, agents=6).models, result.models)
    assert train(source="tiny", algorithm="admm", rounds=1).plan.setting.agents == 100


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"agents": 4}, r"topology 'ring:5' has 5 nodes, and there are 4 agents: it must have one for each"),
        ({"topology": None}, r"consensus 'graph' needs a topology"),
        (
            {"topology": "ring:151", "agents": None},
            r"agents 151: must lie between 1 and the number of training records",
        ),
        ({"topology": "rin:5"}, r"unknown topology 'rin'; did you mean 'ring'"),
        ({"topology": "ring"}, r"topology 'ring': write ring:nodes, as in 'ring:20'"),
        ({"topology": '{"edges":[[0,1],[1,2],[3,4]]}'}, r"falls into 2 parts"),
        ({"topology": '{"edges":[[0,1],[1,2],[2,3],[3,4],[4,4]]}'}, r"node 'agent 4' is joined to itself"),
        ({"topology": '{"edges":[["a","b"],["b","c"],["c","d"],["d","e"]]}'}, r"'a', 'b'.*no owner\(s\) by the name"),
        ({"algorithm": "dp-admm"}, r"topology 'ring:5': algorithm 'dp-admm' has a server"),
        ({"dual_rho": -1.0}, r"dual_rho = -1.0 must be a number from 1e-09"),
        ({"damping": -1.0}, r"damping = -1.0"),
        ({"algorithm": "dvp-graph", "damping": 1.0}, r"'dvp-graph' has no damping to set"),
        ({"algorithm": "dp-admm", "topology": None, "dual_rho": 1.0}, r"has a server, and one rho for all its steps"),
        ({"epsilon": None, "epsilons": (1.0, 2.0)}, r"2 budgets for 5 agents"),
        ({"epsilons": (1.0, 2.0)}, r"give an epsilon or an epsilons, not both"),
        ({"deltas": (1e-5, 1e-6)}, r"2 deltas for 1 epsilons"),
        ({"epsilon": None, "alpha": (1.0, 2.0), "mechanism": "gamma-norm"}, r"2 alphas for 5 agents"),
        ({"epsilon": None, "alpha": (1.0,), "mechanism": "gaussian"}, r"alpha is of 'gamma-norm' noise"),
        ({"epsilon": None, "alpha": (1.0,), "algorithm": "pvp-graph"}, r"no noise of density"),
        ({"rho_schedule": "geometric:1.01,1.02"}, r"2 numbers for growth, and 5 nodes"),
        ({"set": "box:1"}, r"set 'box'"),
    ],
    ids=str,
)
def test_what_does_not_fit_is_refused_and_nothing_is_written(changes, said, tmp_path):
    terms = {"source": "tiny", "algorithm": "private-r-admm", "rounds": 2, "topology": "ring:5", "agents": 5}
    budget = {"epsilon": 1.0, "delta": 1e-5}
    with pytest.raises(InputError, match=said):
        train(**(terms | budget | changes), test=0.25, out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.fixture
def clinics(tmp_path):
    """Records of four named owners, who first appear in the order south, east, west, north."""
    draw = np.random.default_rng(0)
    names = ["south", "east", "west", "north"]
    lines = ["height,weight,ill,clinic"]
    for row in range(200):
        x, y = draw.uniform(-0.5, 0.5, 2)
        lines.append(f"{x:.6f},{y:.6f},{'yes' if x + y > 0 else 'no'},{names[row % 4 if row % 3 else row % 2]}")
    path = tmp_path / "clinics.csv"
    path.write_text("\n".join(lines) + "\n")
    return {"source": str(path), "target": "ill", "owner": "clinic", "rounds": 4, "test": 0.0}


@pytest.mark.parametrize("before", ["", "\n  "], ids=["plain", "after a blank line"])
def test_owners_are_joined_by_their_names(clinics, same, before):
    """Wherever the names stand in the text: the spec that is kept has their places among the owners instead."""
    path = before + '{"edges": [["west", "north"], ["north", "east"], ["east", "south"]]}'
    result = train(**clinics, algorithm="r-admm", topology=path)
    places = {name: place for place, name in enumerate(prepare(result.experiment).shards.names)}
    assert set(places) == {"south", "east", "west", "north"}
    assert result.experiment.data.agents is None  # the column says how many there are
    assert list(places) != ["west", "north", "east", "south"]  # the order in which they are named
    edges = sorted(
        sorted((places[one], places[other])) for one, other in (("west", "north"), ("north", "east"), ("east", "south"))
    )
    assert result.plan.setting.graph.edges.tolist() == edges
    assert json.loads(result.experiment.run.topology) == {"edges": edges}
    same(result, train(**clinics, algorithm="r-admm", topology=json.dumps({"edges": edges})))
    other = train(**clinics, algorithm="r-admm", topology="path:4")
    assert (other.models != result.models).any()


@pytest.mark.parametrize(
    ("edges", "said"),
    [
        ([["west", "north"], ["north", "eest"], ["eest", "south"]], r"'eest': no owner\(s\) by the name"),
        ([["west", "north"], ["north", "east"]], r"'south': without an edge"),
        ([["west", "north"], ["east", "south"]], r"falls into 2 parts"),
        ([["west", "north"], ["north", "east"], ["east", "south"], ["south", "south"]], r"'south' is joined to itself"),
        ([[0, 1], [1, 2]], r"3 nodes for 4 owners"),
        ([["0", "1"], ["1", "2"], ["2", "3"]], r"no owner\(s\) by the name"),
    ],
    ids=str,
)
def test_owners_that_are_not_there_are_named(clinics, edges, said):
    with pytest.raises(InputError, match=said):
        train(**clinics, algorithm="r-admm", topology=json.dumps({"edges": edges}))


def test_a_network_of_another_size_than_the_owners_is_refused(clinics):
    with pytest.raises(InputError, match=r"'ring:5' has 5 nodes, and there are 4 agents"):
        train(**clinics, algorithm="r-admm", topology="ring:5")


# -- what each pays ----------------------------------------------------------------------------------------------------

BUDGETS = (0.5, 2.0, 1.0, 4.0, 0.75)


def test_every_agent_spends_its_own_budget(experiment, tmp_path):
    asked = {"epsilon": None, "delta": None, "rounds": 6, "mechanism": "gamma-norm"}
    spec = experiment("private-mr-admm", **asked).changed(epsilons=BUDGETS)
    spec = Experiment(run=type(spec.run)(**(vars(spec.run) | {"epsilon": None, "delta": None})), data=spec.data)
    result = train(spec, out=tmp_path / "run")
    accounts = result.plan.accounts()
    spent = [accounts.guarantee(agent, 0.0).epsilon for agent in range(5)]
    for mine, budget in zip(spent, BUDGETS, strict=True):
        assert 0.999 * budget < mine <= budget
    assert [guarantee.epsilon for guarantee in result.by_agent] == spent
    assert result.guarantee.epsilon == max(spent) == result.history["epsilon"][-1, 0]
    summary = json.loads((tmp_path / "run" / "result.json").read_text())
    assert summary["epsilon_by_agent"] == spent
    assert (summary["epsilon"], summary["delta"], summary["accountant"]) == (max(spent), 0.0, "pure")
    # Three rounds are paid for, and three are free.
    for agent in range(5):
        tally = accounts.tally(agent)
        assert tally.pop(NoOpDpEvent()) == 3
        assert sum(tally.values()) == 3
    multipliers = result.plan.noise[0].mechanism.noise_multiplier
    assert np.argsort(multipliers).tolist() == np.argsort(BUDGETS)[::-1].tolist()
    again = train(spec.changed(epsilons=(4.0,) * 5))
    assert (again.models != result.models).any()


def test_deltas_of_their_own_are_accounted_for_each_at_its_own(experiment):
    deltas = (1e-5, 1e-6, 1e-4, 1e-5, 1e-7)
    spec = experiment("pvp-graph", rounds=4)
    run = type(spec.run)(**(vars(spec.run) | {"epsilon": None, "delta": None, "epsilons": BUDGETS, "deltas": deltas}))
    result = train(Experiment(run=run, data=spec.data))
    for guarantee, budget, delta in zip(result.by_agent, BUDGETS, deltas, strict=True):
        assert guarantee.delta == delta
        assert 0.999 * budget < guarantee.epsilon <= budget
    assert result.guarantee.delta == 1e-4
    assert result.guarantee.epsilon <= max(BUDGETS)
    assert result.warnings == ()
    loose = train(Experiment(run=type(run)(**(vars(run) | {"deltas": (1e-5, 1e-6, 0.01, 1e-5, 1e-7)})), data=spec.data))
    (warning,) = loose.warnings
    assert "delta 0.01 is above 1/(10 m)" in warning


def test_deltas_alone_say_at_which_each_agents_epsilon_is_told(experiment):
    spec = experiment("private-r-admm", rounds=2, mechanism="gamma-norm")
    changes = {"epsilon": None, "delta": None, "alpha": (6.0,), "deltas": (1e-5, 0.0, 1e-3, 1e-5, 1e-6)}
    result = train(Experiment(run=type(spec.run)(**(vars(spec.run) | changes)), data=spec.data))
    assert [guarantee.delta for guarantee in result.by_agent] == list(changes["deltas"])
    assert result.guarantee.delta == 1e-3
    public = train(experiment("r-admm", rounds=2).changed(deltas=(1e-5,) * 5))
    assert public.guarantee is None
    assert public.by_agent == public.summary()["epsilon_by_agent"] == []


@pytest.mark.parametrize("algorithm", [*RECYCLED, "dvp-graph"])
def test_the_papers_bound_stands_beside_the_truth(algorithm, experiment):
    """P(t) of theorem V.1, by hand: 2 w (alpha + 1.4 c / lambda) for every round that reads records."""
    alpha, rho = 6.0, 0.3
    spec = experiment(
        algorithm, rounds=5, split="dirichlet:0.5", strength=0.02, rho=rho, repeats=2, mechanism="gamma-norm"
    )
    run = type(spec.run)(**(vars(spec.run) | {"epsilon": None, "delta": None, "alpha": (alpha,)}))
    result = train(Experiment(run=run, data=spec.data, simulation=spec.simulation))
    setting, total, course = result.plan.setting, np.zeros(5), []
    for round in range(1, 6):
        if algorithm == "dvp-graph" or round % 2:
            cycle = round if algorithm == "dvp-graph" else (round + 1) // 2
            theta = rho * (1.04**cycle if algorithm == "private-mr-admm" else 1.0)
            curvature = 0.02 + 2.0 * theta * parse_topology("erdos-renyi:5:0.5").degrees
            total = total + 2.0 / setting.counts * (alpha + 1.4 * 0.25 / curvature)
        course.append(total.max())
    printed, spent = result.history["printed_epsilon"], result.history["epsilon"]
    np.testing.assert_allclose(printed[:, 0], course, rtol=1e-7)
    np.testing.assert_array_equal(printed[:, 0], printed[:, 1])
    assert (spent < 1.01 * printed).all()  # but for the hundredth that covers the solver's tolerance
    assert result.claimed == printed[-1, 0] == result.summary()["claimed_epsilon"]
    if algorithm in RECYCLED:
        np.testing.assert_array_equal(printed[1::2], printed[:-1:2])
        np.testing.assert_array_equal(spent[1::2], spent[:-1:2])


@pytest.mark.parametrize(
    ("algorithm", "changes"),
    [
        ("private-r-admm", {"mechanism": "gaussian"}),
        ("private-r-admm", {"relation": "zero-out"}),
        ("private-r-admm", {"noise_multiplier": 0.0}),
        ("pvp-graph", {}),
        ("r-admm", {}),
    ],
    ids=str,
)
def test_where_the_paper_is_silent_nothing_is_printed(algorithm, changes, experiment):
    result = train(experiment(algorithm, rounds=2, **changes))
    assert "printed_epsilon" not in result.history
    assert result.claimed is None
    assert ("epsilon" in result.history) == (algorithm != "r-admm")


def test_an_estimate_of_the_error_is_of_each_nodes_own_model(experiment):
    """With next to no noise: what every node's own model gets wrong of its own records."""
    spec = experiment("private-r-admm", epsilon=2000.0, evaluation_epsilon=1000.0, rounds=3, split="dirichlet:0.5")
    prepared = prepare(spec)
    cohort, shards = cohort_of(prepared, (0, 4)), prepared.shards
    executor = InProcessExecutor()
    *_, state = rounds(cohort, SimulationState.of(cohort), executor)
    found = evaluate(cohort, state, executor)
    assert found.shape == (2, 5)

    def wrong(owner, x):
        rows = slice(shards.starts[owner], shards.stops[owner])
        return np.mean(shards.targets[rows] * (shards.real_rows[rows] @ x) <= 0)

    own = state.agents.released.reshape(2, 5, 4)
    truth = [[wrong(node, own[run, node]) for node in range(5)] for run in range(2)]
    np.testing.assert_allclose(found, truth, atol=2e-3)
    of_the_mean = [[wrong(node, state.shared.model[run]) for node in range(5)] for run in range(2)]
    assert np.abs(np.array(truth) - of_the_mean).max() > 0.01  # the two can be told apart
    result = train(prepared.experiment.changed(repeats=1))
    assert result.estimated_error == pytest.approx(np.mean(truth[0]), abs=2e-3)
