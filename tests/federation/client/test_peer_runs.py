"""Owners on a graph without a server: whom each hears, what each pays, and how the run goes on after a crash."""

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from forged_terms import forged
from graph_owners import WIDTH, GraphOwners, Watched, owned, pooled, run
from ledgers import amount
from owners import Repeatable, refused

from dpadmm.admm.topology.graph import Topology, parse_topology
from dpadmm.engine.cohort import Cohort, SimulationState
from dpadmm.engine.executor import InProcessExecutor
from dpadmm.engine.loop import rounds
from dpadmm.errors import InputError, Refused
from dpadmm.federation.client.peer import Inbox
from dpadmm.owner.agent import Agent
from dpadmm.owner.agreement import Agreement
from dpadmm.owner.request import Request
from dpadmm.privacy.events import ComposedDpEvent, NoOpDpEvent, Relation
from dpadmm.privacy.ledger.memory import MemoryLedger
from dpadmm.privacy.ledger.verify import verify
from dpadmm.release.random_bits import SeededRandomness, SystemRandomness
from dpadmm.spec.declare import RunSpec

ROUNDS = 6
RING, RANDOM = "ring:4", "erdos-renyi:5:0.5"
COUNTS = {RING: (60, 50, 40, 45), RANDOM: (60, 50, 40, 45, 30)}
EPSILONS = {RING: (1.0, 2.0, 3.0, 1.5), RANDOM: (1.0, 2.0, 3.0, 1.5, 2.5)}
NAMES = ("north", "east", "south", "west", "centre")


def agreed(owners: str = RING, algorithm: str = "private-r-admm", **changes: Any) -> Agreement:
    """Terms with a budget for every owner."""
    terms: dict[str, Any] = {"epsilons": EPSILONS[owners], "delta": 1e-6, "rounds": ROUNDS, "strength": 1e-3}
    return named(RunSpec(algorithm=algorithm, **({"topology": owners} | terms | changes)), COUNTS[owners])


def quickly(topology: str, algorithm: str = "private-r-admm", **changes: Any) -> Agreement:
    """Terms for as many owners as there are nodes, with noise by its multiplier: nothing is to be calibrated."""
    owners = parse_topology(topology).nodes
    noise: dict[str, Any] = {"epsilons": (), "delta": None, "noise_multiplier": 5.0}
    run = agreed(algorithm=algorithm, rho=0.05, topology=topology, **noise, **changes).run
    return named(run, COUNTS[RANDOM][:owners])


def named(run: RunSpec, counts: tuple[int, ...], stragglers: str = "wait") -> Agreement:
    return Agreement(run, counts, WIDTH, 2, stragglers, owners=NAMES[: len(counts)])


@pytest.fixture
def graph(tmp_path: Path) -> Any:
    """graph(terms): its owners, with new ledgers."""
    made: list[GraphOwners] = []

    def make(terms: Agreement | None = None) -> GraphOwners:
        made.append(GraphOwners(tmp_path / f"graph {len(made)}", terms or quickly(RING)))
        return made[-1]

    return make


# -- the numbers -------------------------------------------------------------------------------------------------------

RECIPES = [
    *((topology, "private-r-admm", {}) for topology in (RING, RANDOM)),
    (RANDOM, "private-mr-admm", {"rho": 0.01, "damping": 0.001}),
    (RANDOM, "private-r-admm", {"rounds": 3}),
    (RANDOM, "m-admm-penalty", {"rounds": 3}),
    (RING, "private-mr-admm", {"rounds": 4, "rho_schedule": "geometric:1.02,1.05,1.1,1.04:1,2,1,3"}),
    (RING, "pvp-graph", {"rounds": 3}),
    (RANDOM, "pvp-mr-admm", {"rounds": 4, "rho_schedule": "sequence:5:0.1,0.2,0.3,0.4,0.1,0.2,0.2,0.6,0.4,0.3"}),
    (
        RING,
        "private-mr-admm",
        {"rounds": 4, "edge_penalties": True, "rho_schedule": "sequence:4:0.1,0.2,0.3,0.4,0.2,0.2,0.6,0.4"},
    ),
    (RING, "pvp-graph", {"rounds": 3, "edge_penalties": True, "noise_schedule": "sequence:4:1,2,1,3,0.5,1,1,2"}),
    (RING, "dvp-graph", {"rounds": 3, "dual_rho": 0.001}),
]


def simulated(terms: Agreement) -> np.ndarray:
    """What all nodes released in each round of a simulation, (rounds, n, D)."""
    cohort = Cohort.of(terms.plan(), pooled(terms.counts), [0], SeededRandomness(0))
    return np.array(
        [state.agents.released for state in rounds(cohort, SimulationState.of(cohort), InProcessExecutor())]
    )


@pytest.mark.parametrize(("topology", "algorithm", "changes"), RECIPES)
def test_owners_give_the_numbers_of_the_simulation(
    graph: Any, topology: str, algorithm: str, changes: dict[str, Any]
) -> None:
    """Bit for bit: a simulation differs in where its random bits come from, and here they are the same."""
    terms = agreed(topology, algorithm, **changes)
    owners = graph(terms)
    agents = owners.agents()
    released = owners.released(agents)
    assert released.shape == (terms.run.rounds, len(terms.counts), WIDTH)
    np.testing.assert_array_equal(released, simulated(terms))
    for round in (1, terms.run.rounds):
        again = [agent.repeat("run", round).value[0] for agent in agents]
        np.testing.assert_array_equal(again, released[round - 1])


@pytest.mark.parametrize("topology", [RING, RANDOM])
def test_owners_that_are_simulated_too_give_its_numbers(topology: str) -> None:
    terms = agreed(topology, "private-mr-admm")
    nodes = [
        Agent(owned(i, count), None, MemoryLedger(1, Relation.REPLACE), SeededRandomness(0), members=(i,))
        for i, count in enumerate(terms.counts)
    ]
    for node in nodes:
        node.join("run", terms)
    np.testing.assert_array_equal(run(terms, nodes, 0).released, simulated(terms))


def test_another_noise_is_another_run(graph: Any) -> None:
    """So the tests above would notice noise that does not depend on the node or the round."""
    one, other = (owners.released(owners.agents(Repeatable(seed))) for seed, owners in ((1, graph()), (2, graph())))
    assert (one != other).all()


# -- whom they hear ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("topology", [RING, RANDOM, "path:4"])
def test_a_node_hears_the_mean_of_its_neighbours_last_releases_and_nothing_else(graph: Any, topology: str) -> None:
    terms = quickly(topology)
    owners, shape = graph(terms), parse_topology(topology)
    nodes = [Watched(agent) for agent in owners.agents()]
    owners.released(nodes)
    for i, node in enumerate(nodes):
        near = [j for j in range(shape.nodes) if [min(i, j), max(i, j)] in shape.edges.tolist()]
        assert near == shape.neighbours(i).tolist()
        assert len(node.asked) == len(node.gave) == ROUNDS
        assert node.others == [("join", "run", terms), ("rounds_answered", "run")]
        for round, request in enumerate(node.asked, start=1):
            before = [nodes[j].gave[round - 2] for j in near] if round > 1 else [np.zeros((1, WIDTH))] * len(near)
            np.testing.assert_array_equal(request.inputs, sum(before) / len(near))
            assert vars(request) == {
                "run": "run",
                "digest": terms.digest,
                "step": round,
                "inputs": request.inputs,
                "missed_inputs": {},
                "seen": None,
                "last_used": None,
            }


@pytest.mark.parametrize(
    ("topology", "changed"), [("path:5", 0), ("path:5", 2), ("ring:5", 3), ("grid:1:5", 4)], ids=str
)
@pytest.mark.parametrize("algorithm", ["private-r-admm", "dvp-graph"])
def test_what_an_owner_knows_travels_one_edge_a_round(graph: Any, algorithm: str, topology: str, changed: int) -> None:
    """Other records at one node, the same noise: round r differs at distance r - 1 or less, and nowhere else."""
    terms = quickly(topology, algorithm)
    found = []
    for variant in (0, 1):
        owners = graph(terms)
        agents = owners.agents()
        agents[changed] = owners.agent(changed, variant=variant)
        found.append(owners.released(agents))
    differs = (found[0] != found[1]).any(axis=2)  # (rounds, nodes)
    far = np.array([distance(parse_topology(topology), changed, node) for node in range(5)])
    np.testing.assert_array_equal(differs, far[None, :] < np.arange(1, ROUNDS + 1)[:, None])


def distance(shape: Topology, start: int, end: int) -> int:
    reached, steps = {start}, 0
    while end not in reached:
        reached |= {int(j) for i in reached for j in shape.neighbours(i)}
        steps += 1
    return steps


# -- what they pay -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("topology", [RING, RANDOM])
def test_every_node_pays_its_own_budget_for_odd_rounds_and_nothing_for_even_ones(graph: Any, topology: str) -> None:
    owners = graph(agreed(topology))
    agents = owners.agents()
    nodes = [Watched(agent) for agent in agents]
    owners.released(nodes)
    spent = np.transpose([node.spent for node in nodes])  # (rounds, nodes)
    assert owners.debits() == [list("123456")] * len(agents)
    assert spent[1::2].tolist() == spent[::2].tolist()  # an even round adds nothing
    assert (spent == spent[0]).all()  # exact minimisers enter as a whole: their first release is debited for all
    for agent, epsilon in zip(agents, EPSILONS[topology], strict=True):
        assert verify(agent.ledger) == []
        debits = [entry for entry in agent.ledger.entries() if entry["kind"] == "debit"]
        kinds = [entry["event"]["kind"] for entry in debits]
        assert len(set(kinds[::2])) == len(set(kinds[1::2])) == 1
        (priced,) = (event for event in agent.ledger.spent() if event != NoOpDpEvent())
        assert agent.ledger.spent() == {priced: 3, NoOpDpEvent(): 3} == agent.ledger.committed()
        assert isinstance(priced, ComposedDpEvent)
        assert 0.999 * epsilon < amount(agent.ledger) <= epsilon
    assert len({tuple(agent.ledger.spent()) for agent in agents}) == len(agents)  # all budgets are different


def test_a_node_of_another_budget_takes_part_where_its_own_suffices(graph: Any) -> None:
    """The owner with the smallest share needs no more than that: what others spend is not its business."""
    owners = graph(agreed())
    agents = [owners.agent(i, epsilon=epsilon * 1.0001) for i, epsilon in enumerate(EPSILONS[RING])]
    assert len(owners.released(agents)) == ROUNDS


def test_on_a_graph_no_round_may_be_missed(graph: Any) -> None:
    owners = graph()
    agent = owners.agent(0)
    terms = named(owners.terms.run, owners.terms.counts, stragglers="reuse")
    with refused(agent, "the terms cannot be met: on a graph no round can be missed"):
        agent.join("run", terms)
    with pytest.raises(InputError, match="on a graph no round can be missed"):
        Inbox("north", terms)


@pytest.mark.parametrize("shape", [(4, WIDTH), (2, WIDTH), (0, WIDTH), (1, WIDTH + 1), (WIDTH,)])
def test_a_node_takes_one_row_of_what_it_heard(graph: Any, shape: tuple[int, ...]) -> None:
    owners = graph()
    agent = owners.agent(1)
    agent.join("run", owners.terms)
    with refused(agent, r"inputs must be float64 numbers of shape \(1, 3\)"):
        agent.answer(Request("run", owners.terms.digest, 1, np.zeros(shape)))


# -- crashes -----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> np.ndarray:
    """What all nodes release in each round when nothing happens."""
    owners = GraphOwners(tmp_path_factory.mktemp("whole"), agreed())
    return owners.released(owners.agents())


def reached(topology: str, node: int, round: int) -> list[list[str]]:
    """The steps that each owner has paid for when a node fails in a round: the others go on until they miss it."""
    shape = parse_topology(topology)
    last = [min(ROUNDS, round - 1 + distance(shape, node, other)) for other in range(shape.nodes)]
    return [[str(k) for k in range(1, end + 1)] for end in last]


@pytest.mark.parametrize(("round", "node"), [(1, 0), (1, 2), (2, 3), (3, 3), (4, 1), (6, 0), (6, 3)], ids=str)
def test_after_a_crash_the_run_goes_on_from_the_lowest_round(
    graph: Any, whole: np.ndarray, round: int, node: int
) -> None:
    owners, fails = graph(agreed()), RuntimeError("the power is gone")
    agents = owners.agents()
    crashing = Watched(agents[node], {round: fails})
    before = owners.run([*agents[:node], crashing, *agents[node + 1 :]])
    assert before.ends[node] is fails
    assert len(before.released) == round - 1
    for place, gave in enumerate(before.gave):
        for k, value in gave.items():
            np.testing.assert_array_equal(value, whole[k - 1, place])
    assert owners.debits() == reached(RING, node, round)  # some are a round or two ahead

    nodes = [Watched(agent) for agent in owners.agents()]
    again = owners.run(nodes)
    assert again.start == round - 1
    np.testing.assert_array_equal([*before.released, *again.released], whole)
    assert owners.debits() == [list("123456")] * 4  # nothing was paid for twice
    for one in nodes:
        assert [request.step for request in one.asked] == list(range(round, ROUNDS + 1))
        assert [call for call in one.others if call[0] == "repeat"] == ([("repeat", "run", round - 1)] * (round > 1))
        assert verify(one.agent.ledger) == []
    for owner, epsilon in enumerate(EPSILONS[RING]):
        assert amount(owners.ledger(owner)) <= epsilon


def test_a_node_that_was_ahead_gives_what_it_gave_before(graph: Any) -> None:
    """With real noise, which nobody could draw again: the releases and their seals are those of the first time."""
    owners, real = graph(), SystemRandomness()
    nodes = [Watched(agent) for agent in owners.agents(real)]
    nodes[3].fails = {3: OSError("no route")}
    before = owners.run(nodes)
    assert all(isinstance(end, Exception) for end in before.ends)
    again = [Watched(agent) for agent in owners.agents(real)]
    assert len(owners.released(again)) == ROUNDS - 2
    for ahead in range(3):
        np.testing.assert_array_equal(again[ahead].gave[0], nodes[ahead].gave[2])
    assert owners.debits() == [list("123456")] * 4


def test_a_run_that_is_done_has_no_rounds_left(graph: Any, whole: np.ndarray) -> None:
    owners = graph(agreed())
    owners.released(owners.agents())
    nodes = [Watched(agent) for agent in owners.agents()]
    again = owners.run(nodes)
    assert again.start == ROUNDS
    assert [node.asked for node in nodes] == [[]] * 4
    np.testing.assert_array_equal([end.value[0] for end in again.ends], whole[-1])
    for round in range(1, ROUNDS + 1):
        np.testing.assert_array_equal([node.repeat("run", round).value[0] for node in nodes], whole[round - 1])
    assert owners.debits() == [list("123456")] * 4


def test_a_node_that_comes_back_with_an_old_ledger_makes_nobody_else_pay_again(graph: Any) -> None:
    """Its neighbours have answered what it released then, and nothing else; they refuse."""
    owners, real = graph(), SystemRandomness()
    owners.released(owners.agents(real), until=2)
    assert owners.debits() == [list("12")] * 4
    owners.ledger(0).fold()
    shutil.copy(owners.folder / "0.ledger", owners.folder / "kept")
    last = owners.released(owners.agents(real), until=5)[-1]
    assert owners.debits() == [list("12345")] * 4
    for kind in ("-wal", "-shm"):  # of the file that goes: it would do over what the copy has forgotten
        (owners.folder / f"0.ledger{kind}").unlink(missing_ok=True)
    (owners.folder / "kept").replace(owners.folder / "0.ledger")
    with pytest.raises(Refused, match=r"^the ledger is locked: this file is a copy"):
        owners.join(owners.agents(real))
    owners.ledger(0).confirm()
    again = owners.run(owners.agents(real))
    assert again.start == 2
    for neighbour in (1, 3):
        assert isinstance(again.ends[neighbour], Refused)
        assert "step 4 was answered for other inputs" in str(again.ends[neighbour])
    assert owners.debits()[1:] == [list("12345")] * 3
    kept = [owners.ledger(node).find("run", "5") for node in (1, 2, 3)]
    np.testing.assert_array_equal([stored.value[0] for stored in kept if stored is not None], last[1:])


# -- leaving -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "error", [OSError("no route to host"), TimeoutError("no answer"), ConnectionResetError("gone"), Refused("enough")]
)
@pytest.mark.parametrize(("topology", "node", "near"), [(RING, 1, (0, 2)), ("star:4", 0, (1, 2, 3))])
def test_a_node_that_leaves_is_named_by_its_neighbours_and_the_run_goes_on_when_it_is_back(
    graph: Any, error: Exception, topology: str, node: int, near: tuple[int, ...]
) -> None:
    owners = graph(quickly(topology))
    agents: list[Any] = owners.agents()
    agents[node] = Watched(agents[node], {4: error})
    before = owners.run(agents)
    assert before.ends[node] is error
    for other in near:
        end = before.ends[other]
        assert isinstance(end, Refused)
        assert str(end).startswith(f"{NAMES[node]} did not tell its release of round 4 within ")
    assert len(before.released) == 3
    assert owners.debits() == reached(topology, node, 4)
    agents[node].fails = {}
    np.testing.assert_array_equal([*before.released, *owners.released(agents)], simulated(owners.terms))
    assert owners.debits() == [list("123456")] * 4


def test_a_node_whose_owner_has_become_stricter_leaves(graph: Any) -> None:
    """A refusal in the middle of a run is its agent's own, and nothing is spent on it."""
    owners = graph(agreed())
    agents = owners.agents()
    assert len(owners.released(agents, until=2)) == 2
    agents[3] = owners.agent(3, epsilon=0.6)  # of its 1.5, a third is spent
    job = owners.run(agents)
    assert isinstance(job.ends[3], Refused)
    assert str(job.ends[3]).startswith("data set 'patients' would come to ")
    for neighbour in (0, 2):
        assert str(job.ends[neighbour]).startswith("west did not tell its release of round 3 within ")
    assert owners.debits() == reached(RING, 3, 3) == [list("123"), list("1234"), list("123"), list("12")]


# -- asking a node where it is, and for what it gave -------------------------------------------------------------------

ODD = [None, "", "x" * 101, "an\nother", "\ud800", 7, b"run", ["run"], {"run": 1}, "another", float("nan")]
WRONG = [0, -1, 7, 4, 2**63, 10**5000, 1.0, True, np.int64(1), "1", "evaluation", None, [1], float("nan"), "'; --"]


@pytest.fixture
def three_rounds_in(graph: Any) -> tuple[GraphOwners, list[Agent], np.ndarray]:
    owners = graph()
    agents = owners.agents()
    return owners, agents, owners.released(agents, until=3)


@pytest.mark.parametrize("run", ODD, ids=ascii)
def test_odd_names_of_runs_are_refused(three_rounds_in: Any, run: Any) -> None:
    _, agents, _ = three_rounds_in
    with refused(agents[0], "that run was not joined"):
        agents[0].rounds_answered(run)
    with refused(agents[0], "there is no such release"):
        agents[0].repeat(run, 1)


@pytest.mark.parametrize("round", WRONG, ids=lambda round: ascii(round) if round != 10**5000 else "huge")
def test_rounds_that_were_not_answered_cannot_be_repeated(three_rounds_in: Any, round: Any) -> None:
    _, agents, _ = three_rounds_in
    with refused(agents[0], "there is no such release"):
        agents[0].repeat("run", round)


def test_repeating_gives_the_same_bits_and_costs_nothing(three_rounds_in: Any) -> None:
    owners, agents, released = three_rounds_in
    spent = [agent.ledger.spent() for agent in agents]
    for node, agent in enumerate((*agents, *owners.agents())):
        if node >= 4:
            with refused(agent, "there is no such release"):  # of a run that it has not joined
                agent.repeat("run", 1)
            with refused(agent, "that run was not joined"):
                agent.rounds_answered("run")
            agent.join("run", owners.terms)
        for round in (3, 1, 2, 2):
            again = agent.repeat("run", round)
            assert again.value.tobytes() == released[round - 1][node % 4].tobytes()
            assert again.seal == agent.ledger.find("run", str(round)).seal
            assert (again.events == (NoOpDpEvent(),)) == (round == 2)
        assert agent.rounds_answered("run") == 3
    assert [agent.ledger.spent() for agent in agents] == spent
    agents[0].finish("run")
    with refused(agents[0], "that run was not joined"):
        agents[0].rounds_answered("run")
    with refused(agents[0], "there is no such release"):
        agents[0].repeat("run", 1)


def test_a_node_knows_how_far_another_process_has_gone_on_with_its_run(three_rounds_in: Any) -> None:
    owners, agents, _ = three_rounds_in
    assert len(owners.released(owners.agents())) == ROUNDS - 3
    assert [agent.rounds_answered("run") for agent in agents] == [ROUNDS] * 4
    assert owners.join(agents) == ROUNDS


def test_a_node_before_its_first_round_has_reached_none(graph: Any) -> None:
    owners = graph()
    assert owners.join(owners.agents()) == 0
    assert owners.debits() == [[]] * 4


# -- what cannot be ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("algorithm", ["dp-admm", "obj-g", "dvp"])
def test_recipes_with_a_server_are_for_a_server(algorithm: str) -> None:
    terms = named(RunSpec(algorithm=algorithm, epsilon=2.0, delta=1e-6, rounds=2), COUNTS[RING])
    with pytest.raises(InputError, match=f"algorithm '{algorithm}' has a server, and no neighbours"):
        Inbox("north", terms)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"topology": None}, "needs a topology"),
        ({"topology": "ring:5"}, "'ring:5' has 5 nodes, and there are 4 agents"),
        ({"topology": "ring:200000"}, "has 200000 nodes, and there are 4 agents"),
        ({"topology": '{"edges":[[0,1],[2,3]]}'}, "falls into 2 parts"),
        ({"topology": '{"edges":[[0,1],[1,2],[2,3],[3,3]]}'}, "node 3 is joined to itself"),
        ({"topology": "rong:4"}, "did you mean 'ring'"),
        ({"epsilons": (1.0, 2.0, 3.0)}, "3 budgets for 4 agents"),
        ({"epsilons": (1.0, 2.0, 3.0, 0.0)}, "epsilon"),
        ({"epsilons": (1.0, 2.0, 3.0, 1.5), "deltas": (1e-6, 0.0)}, "2 deltas for 4 epsilons"),
        ({"epsilons": (1.0, "2", 3.0, 1.5)}, "must be a list of finite numbers"),
        ({"epsilons": (1.0, float("nan"), 3.0, 1.5)}, "must be a list of finite numbers"),
        ({"epsilons": (), "alpha": (1.0, -1.0, 1.0, 1.0)}, "alpha = -1.0 must be"),
        ({"alpha": (1.0,)}, "not both"),
        ({"damping": -1.0}, "damping"),
        ({"dual_rho": 0.0}, "rho"),
        ({"algorithm": "dvp"}, "has a server that talks to all agents"),
    ],
    ids=str,
)
def test_terms_of_a_graph_that_cannot_be_met_are_refused_by_every_owner(
    graph: Any, changes: dict[str, Any], reason: str
) -> None:
    owners = graph(agreed())
    agent = owners.agent(0)
    terms = named(forged(owners.terms.run, changes), owners.terms.counts)
    with refused(agent, reason):
        agent.join("run", terms)
    assert agent.ledger.runs() == {}


def test_the_graph_is_part_of_the_terms(graph: Any) -> None:
    """Who has agreed to one graph has not agreed to another with the same number of nodes."""
    owners = graph(agreed())
    agent = owners.agent(0)
    agent.join("run", owners.terms)
    for changes in ({"topology": "path:4"}, {"epsilons": (1.0, 2.0, 3.0, 1.6)}, {"damping": 1e-3}, {"dual_rho": 1e-3}):
        other = named(RunSpec(**(vars(owners.terms.run) | changes)), owners.terms.counts)
        assert other.digest != owners.terms.digest
        with refused(agent, "joined on other terms"):
            agent.answer(Request("run", other.digest, 1, np.zeros((1, WIDTH))))
        with refused(owners.agent(0), "joined on other terms"):
            owners.agent(0).join("run", other)
