"""Owners on a graph without a server: whom each hears, what each pays, and how the run goes on after a crash."""

import shutil
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from owners import refused

from dpadmm.admm.topology.graph import parse_topology
from dpadmm.engine.loop import Cohort, rounds, start
from dpadmm.engine.peers import Peers
from dpadmm.errors import ClusterError, InputError, Refused
from dpadmm.owner.agent import Agent
from dpadmm.owner.agreement import Agreement
from dpadmm.owner.request import Request
from dpadmm.privacy.events import NoOpDpEvent, PureDpEvent
from dpadmm.privacy.ledger.memory import MemoryLedger
from dpadmm.privacy.ledger.sqlite import SqliteLedger
from dpadmm.privacy.ledger.verify import verify
from dpadmm.privacy.randomness import SeededRandomness
from dpadmm.privacy.relations import Relation
from dpadmm.problems.shards import Shards, gather
from dpadmm.spec.declare import RunSpec

ROUNDS, WIDTH = 6, 3
RING, RANDOM = "ring:4", "erdos-renyi:5:0.5"
COUNTS = {RING: (60, 50, 40, 45), RANDOM: (60, 50, 40, 45, 30)}
EPSILONS = {RING: (1.0, 2.0, 3.0, 1.5), RANDOM: (1.0, 2.0, 3.0, 1.5, 2.5)}
NAMES = ("north", "east", "south", "west")


def agreed(owners: str = RING, algorithm: str = "private-r-admm", **changes: Any) -> Agreement:
    """Terms with a budget for every owner. With so few records the noise is loud, and releases lie very many scales of
    the whisper that covers the solver's tolerance away: its lattice must reach that far."""
    terms: dict[str, Any] = {"epsilons": EPSILONS[owners], "rounds": ROUNDS, "strength": 1e-3}
    run = RunSpec(algorithm=algorithm, **({"topology": owners} | terms | changes))
    return Agreement(run, COUNTS[owners], WIDTH, 2)


def quickly(topology: str, algorithm: str = "private-r-admm", **changes: Any) -> Agreement:
    """Terms for as many owners as there are nodes, with noise by its density: nothing is to be calibrated."""
    owners = parse_topology(topology).nodes
    run = agreed(algorithm=algorithm, epsilons=(), alpha=(2.0,), rho=0.05, topology=topology, **changes).run
    return Agreement(run, COUNTS[RANDOM][:owners], WIDTH, 2)


def table(owner: int, count: int, variant: int = 0) -> tuple[np.ndarray, np.ndarray]:
    draw = np.random.default_rng((owner, variant))
    features = draw.normal(size=(count, WIDTH))
    return features, np.where(features @ [1.0, 2.0, 3.0] + draw.normal(size=count) > 0, 1.0, -1.0)


def owned(owner: int, count: int, variant: int = 0) -> Shards:
    features, targets = table(owner, count, variant)
    return gather(features, targets, np.zeros(count, dtype=np.int64), norm_bound=1.0, names=[f"owner {owner}"])


def pooled(counts: Sequence[int]) -> Shards:
    """The same records, as a simulation has them."""
    tables = [table(owner, count) for owner, count in enumerate(counts)]
    owner = np.repeat(np.arange(len(counts)), counts)
    names = [f"owner {i}" for i in range(len(counts))]
    features, targets = (np.concatenate(part) for part in zip(*tables, strict=True))
    return gather(features, targets, owner, norm_bound=1.0, names=names)


class Party:
    """The owners of a graph, with their ledgers in a folder; asked for agents, it makes those of fresh processes."""

    def __init__(self, sample: ModuleType, folder: Path, terms: Agreement) -> None:
        self.sample, self.folder, self.terms = sample, folder, terms
        folder.mkdir(exist_ok=True)

    def agent(self, owner: int, randomness: Any = None, variant: int = 0, **policy: Any) -> Agent:
        return Agent(
            owned(owner, self.terms.counts[owner], variant),
            self.sample.policy(**policy),
            self.ledger(owner),
            randomness or self.sample.Repeatable(),
            members=(owner,),
        )

    def agents(self, randomness: Any = None) -> list[Agent]:
        return [self.agent(owner, randomness) for owner in range(len(self.terms.counts))]

    def ledger(self, owner: int) -> SqliteLedger:
        return self.sample.ledger(self.folder / f"{owner}.ledger")

    def peers(self, nodes: Sequence[Any], names: Sequence[str] = ()) -> Peers:
        return Peers("run", self.terms, nodes, names)

    def debits(self) -> list[list[str]]:
        """The steps that each owner has paid for, in order."""
        owners = range(len(self.terms.counts))
        return [[e["step"] for e in self.ledger(i).entries() if e["kind"] == "debit"] for i in owners]


@pytest.fixture
def party(sample: ModuleType, tmp_path: Path) -> Any:
    """party(terms): its owners, with new ledgers."""
    made: list[Party] = []

    def make(terms: Agreement | None = None) -> Party:
        made.append(Party(sample, tmp_path / f"party {len(made)}", terms or quickly(RING)))
        return made[-1]

    return make


class Watched:
    """A node that keeps what it was asked and what it gave, and that can be made to fail in a round."""

    def __init__(self, agent: Agent, fails: dict[int, Exception] | None = None) -> None:
        self.agent, self.fails = agent, fails or {}
        self.asked: list[Request] = []
        self.gave: list[np.ndarray] = []
        self.others: list[tuple[Any, ...]] = []

    def join(self, run: str, agreement: Agreement) -> None:
        self.others.append(("join", run, agreement))
        self.agent.join(run, agreement)

    def rounds_answered(self, run: str) -> int:
        self.others.append(("rounds_answered", run))
        return self.agent.rounds_answered(run)

    def repeat(self, run: str, round: int) -> Any:
        self.others.append(("repeat", run, round))
        return self.agent.repeat(run, round)

    def answer(self, request: Request) -> Any:
        self.asked.append(request)
        if request.step in self.fails:
            raise self.fails[request.step]
        release = self.agent.answer(request)
        self.gave.append(release.value)
        return release


# -- the numbers -------------------------------------------------------------------------------------------------------

RECIPES = [
    *((topology, "private-r-admm", {}) for topology in (RING, RANDOM)),
    (RANDOM, "private-mr-admm", {"rho": 0.01, "damping": 0.001}),
    (RANDOM, "private-r-admm", {"mechanism": "gaussian", "delta": 1e-6, "rounds": 3}),
    (RANDOM, "m-admm-penalty", {"rounds": 3}),
    (RING, "private-mr-admm", {"rounds": 4, "rho_schedule": "geometric:1.02,1.05,1.1,1.04:1,2,1,3"}),
    (RING, "pvp-graph", {"delta": 1e-6, "rounds": 3}),
    (RING, "dvp-graph", {"rounds": 3, "dual_rho": 0.001}),
]


def simulated(terms: Agreement, lattice: bool) -> np.ndarray:
    """What all nodes released in each round of a simulation, (rounds, n, D)."""
    plan = terms.plan().on_lattice() if lattice else terms.plan()
    cohort = Cohort.of(plan, pooled(terms.counts), [0], SeededRandomness(0))
    return np.array([state.agents.released for state in rounds(cohort, start(cohort))])


@pytest.mark.parametrize(("topology", "algorithm", "changes"), RECIPES)
def test_owners_give_the_numbers_of_the_simulation(
    party: Any, topology: str, algorithm: str, changes: dict[str, Any]
) -> None:
    """Bit for bit, on the lattice of real releases. And that is the simulation's plain noise to many digits."""
    terms = agreed(topology, algorithm, **changes)
    owners = party(terms)
    peers = owners.peers(owners.agents())
    released = np.array(list(peers.rounds()))
    assert released.shape == (terms.run.rounds, len(terms.counts), WIDTH)
    np.testing.assert_array_equal(released, simulated(terms, lattice=True))
    plain = simulated(terms, lattice=False)
    assert (released[0] != plain[0]).any()
    np.testing.assert_allclose(released, plain, rtol=0, atol=1e-5 * np.abs(plain).max())
    np.testing.assert_array_equal(peers.released(terms.run.rounds), released[-1])
    np.testing.assert_array_equal(peers.released(1), released[0])


@pytest.mark.parametrize("topology", [RING, RANDOM])
def test_owners_that_are_simulated_too_give_the_simulations_plain_noise(topology: str) -> None:
    terms = agreed(topology, "private-mr-admm")
    nodes = [
        Agent(owned(i, count), None, MemoryLedger(1, Relation.REPLACE), SeededRandomness(0), members=(i,))
        for i, count in enumerate(terms.counts)
    ]
    np.testing.assert_array_equal(list(Peers("run", terms, nodes).rounds()), simulated(terms, lattice=False))


def test_another_noise_is_another_run(party: Any, sample: ModuleType) -> None:
    """So the tests above would notice noise that does not depend on the node or the round."""
    one, other = (
        np.array(list(owners.peers(owners.agents(sample.Repeatable(seed))).rounds()))
        for seed, owners in ((1, party()), (2, party()))
    )
    assert (one != other).all()


# -- whom they hear ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("topology", [RING, RANDOM, "path:4"])
def test_a_node_hears_the_mean_of_its_neighbours_last_releases_and_nothing_else(party: Any, topology: str) -> None:
    terms = quickly(topology)
    owners, graph = party(terms), parse_topology(topology)
    nodes = [Watched(agent) for agent in owners.agents()]
    for _ in owners.peers(nodes).rounds():
        pass
    for i, node in enumerate(nodes):
        near = [j for j in range(graph.nodes) if [min(i, j), max(i, j)] in graph.edges.tolist()]
        assert near == graph.neighbours(i).tolist()
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
def test_what_an_owner_knows_travels_one_edge_a_round(party: Any, algorithm: str, topology: str, changed: int) -> None:
    """Other records at one node, the same noise: round r differs at distance r - 1 or less, and nowhere else."""
    terms = quickly(topology, algorithm)
    found = []
    for variant in (0, 1):
        owners = party(terms)
        agents = owners.agents()
        agents[changed] = owners.agent(changed, variant=variant)
        found.append(np.array(list(owners.peers(agents).rounds())))
    differs = (found[0] != found[1]).any(axis=2)  # (rounds, nodes)
    far = np.array([_distance(parse_topology(topology), changed, node) for node in range(5)])
    np.testing.assert_array_equal(differs, far[None, :] < np.arange(1, ROUNDS + 1)[:, None])


def _distance(graph: Any, start: int, end: int) -> int:
    reached, steps = {start}, 0
    while end not in reached:
        reached |= {int(j) for i in reached for j in graph.neighbours(i)}
        steps += 1
    return steps


# -- what they pay -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("topology", [RING, RANDOM])
def test_every_node_pays_its_own_budget_for_odd_rounds_and_nothing_for_even_ones(party: Any, topology: str) -> None:
    owners = party(agreed(topology))
    agents, spent = owners.agents(), []
    for _ in owners.peers(agents).rounds():
        spent.append([agent.ledger.guarantee(0.0).epsilon for agent in agents])
    assert owners.debits() == [list("123456")] * len(agents)
    assert np.array(spent)[1::2].tolist() == np.array(spent)[::2].tolist()  # an even round adds nothing
    assert (np.diff(np.array(spent)[::2], axis=0) > 0).all()
    for agent, epsilon in zip(agents, EPSILONS[topology], strict=True):
        assert verify(agent.ledger) == []
        debits = [entry for entry in agent.ledger.entries() if entry["kind"] == "debit"]
        kinds = [entry["event"]["kind"] for entry in debits]
        assert len(set(kinds[::2])) == len(set(kinds[1::2])) == 1
        (priced,) = (event for event in agent.ledger.spent() if event != NoOpDpEvent())
        assert agent.ledger.spent() == {priced: 3, NoOpDpEvent(): 3} == agent.ledger.committed()
        assert isinstance(priced, PureDpEvent)
        assert 0.999 * epsilon < 3 * priced.epsilon <= epsilon
    assert len({tuple(agent.ledger.spent()) for agent in agents}) == len(agents)  # all budgets are different


def test_a_node_whose_budget_does_not_suffice_is_named_before_anything_is_spent(party: Any) -> None:
    owners = party(agreed())
    agents = owners.agents()
    agents[2] = owners.agent(2, epsilon=2.9)  # of the 3 that the terms have for it
    with pytest.raises(Refused, match=r"^south does not take part: data set 'patients' would come to epsilon 3 "):
        list(owners.peers(agents, NAMES).rounds())
    assert owners.debits() == [[]] * 4
    assert [agent.ledger.spent() for agent in agents] == [{}] * 4
    assert [bool(agent.ledger.runs()) for agent in agents] == [True, True, False, False]  # the last was not asked
    for agent in agents[:2]:  # what was set aside can be had back
        assert agent.ledger.committed()
        agent.finish("run")
        assert agent.ledger.committed() == {}
    with pytest.raises(Refused, match=r"^node 2 does not take part"):
        Peers("again", owners.terms, agents).join()


def test_a_node_of_another_budget_takes_part_where_its_own_suffices(party: Any) -> None:
    """The owner with the smallest share needs no more than that: what others spend is not its business."""
    owners = party(agreed())
    agents = [owners.agent(i, epsilon=epsilon * 1.0001) for i, epsilon in enumerate(EPSILONS[RING])]
    assert len(list(owners.peers(agents).rounds())) == ROUNDS


def test_on_a_graph_no_round_may_be_missed(party: Any) -> None:
    owners = party()
    agent = owners.agent(0)
    terms = Agreement(owners.terms.run, owners.terms.counts, WIDTH, 2, stragglers="reuse")
    with refused(agent, "the terms cannot be met: on a graph no round can be missed"):
        agent.join("run", terms)
    with pytest.raises(InputError, match="on a graph no round can be missed"):
        Peers("run", terms, owners.agents())


@pytest.mark.parametrize("shape", [(4, WIDTH), (2, WIDTH), (0, WIDTH), (1, WIDTH + 1), (WIDTH,)])
def test_a_node_takes_one_row_of_what_it_heard(party: Any, shape: tuple[int, ...]) -> None:
    owners = party()
    agent = owners.agent(1)
    agent.join("run", owners.terms)
    with refused(agent, r"inputs must be float64 numbers of shape \(1, 3\)"):
        agent.answer(Request("run", owners.terms.digest, 1, np.zeros(shape)))


# -- crashes -----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def whole(sample: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> np.ndarray:
    """What all nodes release in each round when nothing happens."""
    owners = Party(sample, tmp_path_factory.mktemp("whole"), agreed())
    return np.array(list(owners.peers(owners.agents()).rounds()))


@pytest.mark.parametrize(("round", "node"), [(1, 0), (1, 2), (2, 3), (3, 3), (4, 1), (6, 0), (6, 3)], ids=str)
def test_after_a_crash_the_run_goes_on_from_the_lowest_round(
    party: Any, whole: np.ndarray, round: int, node: int
) -> None:
    owners, fails = party(agreed()), RuntimeError("the power is gone")
    agents = owners.agents()
    crashing = Watched(agents[node], {round: fails})
    before = []
    with pytest.raises(RuntimeError, match="power"):
        before.extend(owners.peers([*agents[:node], crashing, *agents[node + 1 :]]).rounds())
    assert len(before) == round - 1
    done = [[str(k) for k in range(1, round + 1)]] * node + [[str(k) for k in range(1, round)]] * (4 - node)
    assert owners.debits() == done  # some are a round ahead

    nodes = [Watched(agent) for agent in owners.agents()]
    again = owners.peers(nodes)
    assert again.join() == round - 1
    after = list(again.rounds())
    np.testing.assert_array_equal(before + after, whole)
    assert owners.debits() == [list("123456")] * 4  # nothing was paid for twice
    for one in nodes:
        assert [request.step for request in one.asked] == list(range(round, ROUNDS + 1))
        assert [call for call in one.others if call[0] == "repeat"] == ([("repeat", "run", round - 1)] * (round > 1))
        assert verify(one.agent.ledger) == []
    for owner, epsilon in enumerate(EPSILONS[RING]):
        assert owners.ledger(owner).guarantee(0.0).epsilon <= epsilon


def test_a_node_that_was_ahead_gives_what_it_gave_before(party: Any, sample: ModuleType) -> None:
    """With real noise, which nobody could draw again: the releases and their seals are those of the first time."""
    owners, real = party(), sample.SystemRandomness()
    nodes = [Watched(agent) for agent in owners.agents(real)]
    nodes[3].fails = {3: OSError("no route")}
    with pytest.raises(ClusterError):
        list(owners.peers(nodes).rounds())
    again = [Watched(agent) for agent in owners.agents(real)]
    assert len(list(owners.peers(again).rounds())) == ROUNDS - 2
    for ahead in range(3):
        np.testing.assert_array_equal(again[ahead].gave[0], nodes[ahead].gave[2])
    assert owners.debits() == [list("123456")] * 4


def test_a_run_that_is_done_has_no_rounds_left(party: Any, whole: np.ndarray) -> None:
    owners = party(agreed())
    list(owners.peers(owners.agents()).rounds())
    again = owners.peers(owners.agents())
    assert list(again.rounds()) == []
    assert again.join() == ROUNDS
    for round in range(1, ROUNDS + 1):
        np.testing.assert_array_equal(again.released(round), whole[round - 1])
    np.testing.assert_array_equal(again.released(0), np.zeros((4, WIDTH)))
    assert owners.debits() == [list("123456")] * 4


def test_a_node_that_comes_back_with_an_old_ledger_makes_nobody_else_pay_again(party: Any, sample: ModuleType) -> None:
    """Its neighbours have answered what it released then, and nothing else; they refuse."""
    owners, real = party(), sample.SystemRandomness()
    for released in islice(owners.peers(owners.agents(real)).rounds(), 5):
        if len(owners.debits()[0]) == 2:
            shutil.copy(owners.folder / "0.ledger", owners.folder / "kept")
        last = released
    assert owners.debits() == [list("12345")] * 4
    (owners.folder / "kept").replace(owners.folder / "0.ledger")
    with pytest.raises(Refused, match=r"^north does not take part: the ledger is locked .*its owner must confirm"):
        owners.peers(owners.agents(real), NAMES).join()
    owners.ledger(0).confirm()
    again = owners.peers(owners.agents(real), NAMES)
    assert again.join() == 2
    with pytest.raises(ClusterError, match=r"east has left in round 4 .*was answered for other inputs"):
        list(again.rounds())
    assert owners.debits()[1:] == [list("12345")] * 3
    kept = [owners.ledger(node).find("run", "5") for node in (1, 2, 3)]
    np.testing.assert_array_equal([stored.value[0] for stored in kept if stored is not None], last[1:])


# -- leaving -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "error", [OSError("no route to host"), TimeoutError("no answer"), ConnectionResetError("gone"), Refused("enough")]
)
@pytest.mark.parametrize(("topology", "node", "near"), [(RING, 1, "north, south"), ("star:4", 0, "east, south, west")])
def test_a_node_that_leaves_is_named_with_its_neighbours_and_the_run_goes_on_when_it_is_back(
    party: Any, error: Exception, topology: str, node: int, near: str
) -> None:
    owners = party(quickly(topology))
    agents: list[Any] = owners.agents()
    agents[node] = Watched(agents[node], {4: error})
    peers = owners.peers(agents, NAMES)
    reason = rf"^{NAMES[node]} has left in round 4 \({error}\): its neighbours {near} cannot go on without its release"
    before = []
    with pytest.raises(ClusterError, match=reason) as raised:
        before.extend(peers.rounds())
    assert raised.value.__cause__ is error
    assert len(before) == 3
    agents[node].fails = {}
    np.testing.assert_array_equal(before + list(peers.rounds()), simulated(owners.terms, lattice=True))
    assert owners.debits() == [list("123456")] * 4


def test_a_node_whose_owner_has_become_stricter_leaves(party: Any) -> None:
    """A refusal in the middle of a run is its agent's own, and nothing is spent on it."""
    owners = party(agreed())
    agents = owners.agents()
    assert len(list(islice(owners.peers(agents).rounds(), 2))) == 2
    agents[3] = owners.agent(3, epsilon=0.6)  # of its 1.5, a third is spent
    with pytest.raises(ClusterError, match=r"node 3 has left in round 3 \(data set 'patients' would come to .*node 0"):
        list(owners.peers(agents).rounds())
    assert owners.debits() == [list("123")] * 3 + [list("12")]


# -- asking a node where it is, and for what it gave -------------------------------------------------------------------

ODD = [None, "", "x" * 101, "an\nother", "\ud800", 7, b"run", ["run"], {"run": 1}, "another", float("nan")]
WRONG = [0, -1, 7, 4, 2**63, 10**5000, 1.0, True, np.int64(1), "1", "evaluation", None, [1], float("nan"), "'; --"]


@pytest.fixture
def three_rounds_in(party: Any) -> tuple[Party, list[Agent], list[np.ndarray]]:
    owners = party()
    agents = owners.agents()
    return owners, agents, list(islice(owners.peers(agents).rounds(), 3))


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
    assert len(list(owners.peers(owners.agents()).rounds())) == ROUNDS - 3
    assert [agent.rounds_answered("run") for agent in agents] == [ROUNDS] * 4
    assert owners.peers(agents).join() == ROUNDS


def test_a_node_before_its_first_round_has_reached_none(party: Any) -> None:
    owners = party()
    assert owners.peers(owners.agents()).join() == 0
    assert owners.debits() == [[]] * 4


# -- what cannot be ----------------------------------------------------------------------------------------------------


def test_there_is_a_node_for_every_agent(party: Any) -> None:
    owners = party()
    agents = owners.agents()
    for some in (agents[:3], [*agents, agents[0]], []):
        with pytest.raises(InputError, match=f"^{len(some)} nodes for terms of 4 agents"):
            owners.peers(some)


@pytest.mark.parametrize("algorithm", ["dp-admm", "obj-g", "dvp"])
def test_recipes_with_a_server_are_for_a_server(party: Any, algorithm: str) -> None:
    run = RunSpec(algorithm=algorithm, epsilon=2.0, delta=1e-6, rounds=2)
    owners = party(Agreement(run, COUNTS[RING], WIDTH, 2))
    with pytest.raises(InputError, match=f"algorithm '{algorithm}' has a server; peers need one for graphs"):
        owners.peers(owners.agents())


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
        ({"epsilons": (), "alpha": (1.0, -1.0, 1.0, 1.0)}, "alpha -1.0"),
        ({"alpha": (1.0,)}, "not both"),
        ({"damping": -1.0}, "damping -1.0"),
        ({"dual_rho": 0.0}, "rho"),
        ({"algorithm": "dvp"}, "has a server that talks to all agents"),
    ],
    ids=str,
)
def test_terms_of_a_graph_that_cannot_be_met_are_refused_by_every_owner(
    party: Any, changes: dict[str, Any], reason: str
) -> None:
    owners = party(agreed())
    agent = owners.agent(0)
    terms = Agreement(RunSpec(**(vars(owners.terms.run) | changes)), owners.terms.counts, WIDTH, 2)
    with refused(agent, reason):
        agent.join("run", terms)
    assert agent.ledger.runs() == {}


def test_the_graph_is_part_of_the_terms(party: Any) -> None:
    """Who has agreed to one graph has not agreed to another with the same number of nodes."""
    owners = party(agreed())
    agent = owners.agent(0)
    agent.join("run", owners.terms)
    for changes in ({"topology": "path:4"}, {"epsilons": (1.0, 2.0, 3.0, 1.6)}, {"damping": 1e-3}, {"dual_rho": 1e-3}):
        other = Agreement(RunSpec(**(vars(owners.terms.run) | changes)), owners.terms.counts, WIDTH, 2)
        assert other.digest != owners.terms.digest
        with refused(agent, "joined on other terms"):
            agent.answer(Request("run", other.digest, 1, np.zeros((1, WIDTH))))
        with refused(owners.agent(0), "joined on other terms"):
            owners.agent(0).join("run", other)
