"""A hostile coordinator: whatever it sends, it gets a release that is paid for, or a refusal, and nothing else.

A few hundred requests here; ten thousand with DPADMM_TORTURE=1 (`make torture`).
"""

import os
from dataclasses import fields, replace
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from forged_terms import forged
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dpadmm.errors import Refused
from dpadmm.owner.agent import Agent
from dpadmm.owner.agreement import Agreement
from dpadmm.owner.request import Request
from dpadmm.privacy.ledger.protocol import Seal
from dpadmm.privacy.ledger.verify import verify
from dpadmm.spec.declare import RunSpec

TORTURE = os.environ.get("DPADMM_TORTURE") == "1"
SHAPE = (1, 3)
pytestmark = pytest.mark.filterwarnings("ignore:Generating overly large repr")  # of the strategies, in a failure

many = settings(
    max_examples=10_000 if TORTURE else 400,
    deadline=None,
    database=None,
    suppress_health_check=list(HealthCheck),
)

NUMBERS = st.one_of(
    st.integers(),
    st.sampled_from([0, -1, 2**31, 2**63, 2**64, 10**30, -(10**400)]),
    st.floats(),
    st.booleans(),
    st.sampled_from([np.int64(1), np.float64(1.0), np.bool_(True), 1j]),
)


@np.errstate(all="ignore")
def _filled(shape: tuple[int, ...], fill: float, dtype: str) -> Any:
    return np.full(shape, fill).astype(dtype)


TEXTS = st.one_of(
    st.text(max_size=8),
    st.sampled_from(["run", "evaluation", "setup", "1", "", "\ud800", "\x00", "a\nb", "ä" * 99, "x" * 1000, "'; --"]),
)
NUMBER_ARRAYS = st.builds(
    lambda shape, fill, dtype: _filled(shape, fill, dtype),
    st.sampled_from([SHAPE, (3,), (2, 3), (1, 4), (0, 3), (1, 0), (), (1, 1, 3), (3, 1)]),
    st.sampled_from([0.0, 1.0, -0.0, 1e6, 9.9e8, -1e9, 5e-324, 1e30]),
    st.sampled_from(["f8", ">f8", "f4", "i8", "c16", "O", "U8", "?"]),
)
WILD_ARRAYS = st.sampled_from(
    [
        np.full(SHAPE, np.nan),
        np.full(SHAPE, np.inf),
        np.array([[0.0, -np.inf, 1.0]]),
        np.full(SHAPE, 1.0000001e9),
        np.full(SHAPE, 1.7e308),
        np.array([[object(), None, "x"]], dtype=object),
        np.ma.masked_array(np.zeros(SHAPE), mask=True),
        np.zeros(SHAPE).view(type("Sub", (np.ndarray,), {})),
        np.zeros(3, dtype=[("a", "f8")]),
        np.zeros((3, 1)).T,
        np.broadcast_to(0.0, SHAPE),
        np.asfortranarray(np.ones(SHAPE)),
        np.array([["2020-01-01"] * 3], dtype="datetime64[D]"),
    ]
)
GOOD_ARRAYS = st.builds(
    lambda values, size: np.array([values]) * size,
    st.lists(st.floats(-1, 1), min_size=3, max_size=3),
    st.sampled_from([1.0, 1.0, 1e3, 1e6, 1e8, 1e9]),
)
PLAIN = st.one_of(st.none(), NUMBERS, TEXTS, st.binary(max_size=4))
ODD = st.one_of(
    PLAIN, NUMBER_ARRAYS, WILD_ARRAYS, st.lists(PLAIN, max_size=3), st.dictionaries(TEXTS, PLAIN, max_size=2)
)
ARRAYS = st.one_of(GOOD_ARRAYS, GOOD_ARRAYS, NUMBER_ARRAYS, WILD_ARRAYS, ODD)
HASHES = st.sampled_from(["0" * 64, "f" * 64, "F" * 64, "ä" * 64, "0" * 63])


def requests(digests: dict[str, str], seals: list[Any]) -> st.SearchStrategy[Any]:
    """Anything from an honest request to nonsense; every field may be of any type."""
    names = st.sampled_from([*digests, "another"])
    rounds = st.integers(-1, 9)
    own = st.integers(0, 999).map(lambda number: seals[number % len(seals)] if seals else None)
    forged = st.builds(Seal, st.one_of(HASHES, ODD), st.one_of(HASHES, ODD), st.one_of(st.just(""), HASHES, ODD))
    missed = st.one_of(
        st.just({}),
        st.just({}),
        st.dictionaries(st.integers(0, 8), ARRAYS, max_size=3),
        st.dictionaries(PLAIN.filter(_hashable), ARRAYS, max_size=2),
        ODD,
    )
    wild = st.builds(
        Request,
        run=st.one_of(names, names, ODD),
        digest=st.one_of(st.sampled_from([*digests.values()]), ODD),
        step=st.one_of(rounds, rounds, st.just("evaluation"), ODD),
        inputs=ARRAYS,
        missed_inputs=missed,
        seen=st.one_of(st.none(), own, forged, ODD),
    )
    nearly = st.builds(
        lambda name, step, inputs, missed, seen: Request(name, digests[name], step, inputs, missed, seen),
        st.sampled_from([*digests]),
        st.one_of(rounds, st.just("evaluation")),
        GOOD_ARRAYS,
        st.one_of(st.just({}), st.dictionaries(st.integers(0, 8), GOOD_ARRAYS, max_size=3)),
        st.one_of(st.none(), own),
    )
    # One field wrong is what gets farthest.
    spoils = [
        ("run", ODD), ("digest", ODD), ("digest", WILD_ARRAYS), ("step", ODD), ("inputs", ARRAYS),
        ("missed_inputs", missed),
        ("seen", forged), ("seen", ODD)
    ]  # fmt: skip
    spoiled = st.one_of(
        [st.builds(lambda good, odd, name=name: replace(good, **{name: odd}), nearly, odds) for name, odds in spoils]
    )
    return st.one_of(wild, nearly, spoiled, spoiled, ODD)


def _hashable(value: Any) -> bool:
    return value is None or isinstance(value, int | float | str | bytes)


class Watched:
    """An agent, and what left it: every answer is checked against the ledger as it comes."""

    def __init__(self, agent: Agent) -> None:
        self.agent = agent
        self.sent: dict[tuple[str, str], bytes] = {}
        self.seals: list[Any] = []
        self.refusals = 0

    def ask(self, request: Any) -> None:
        try:
            release = self.agent.answer(request)
        except Refused:
            self.refusals += 1
        else:
            step = (request.run, str(request.step))
            value = release.value.tobytes()
            assert np.isfinite(release.value).all()
            assert self.sent.setdefault(step, value) == value
            self.seals.append(release.seal)
        self.check()

    def check(self) -> None:
        """As many debits as releases that left: not one more."""
        assert sum(self.agent.ledger.spent().values()) == len(self.sent)

    def close(self) -> None:
        assert verify(self.agent.ledger) == []
        assert not self.agent.ledger.locked
        for (run, step), value in self.sent.items():
            assert self.agent.ledger.find(run, step).value.tobytes() == value
        debits = [entry for entry in self.agent.ledger.entries() if entry["kind"] == "debit"]
        assert {(entry["run"], entry["step"]) for entry in debits} == set(self.sent)


@pytest.fixture
def watched(sample: ModuleType, tmp_path: Path) -> Watched:
    return Watched(sample.agent(tmp_path / "patients.ledger", sample.policy(epsilon=100.0)))


def test_malformed_requests(sample: ModuleType, watched: Watched) -> None:
    terms = {
        "run": sample.agreement(evaluation_epsilon=0.2, rounds=8),
        "late": sample.agreement("pvp", stragglers="reuse", rounds=8),
        "tilted": sample.agreement("dvp", rounds=8),
    }
    for name, agreed in terms.items():
        watched.agent.join(name, agreed)
    digests = {name: agreed.digest for name, agreed in terms.items()}

    @many
    @given(requests(digests, watched.seals))
    def attack(request: Any) -> None:
        watched.ask(request)

    attack()
    watched.close()
    assert watched.refusals > 100
    assert watched.sent  # some got through, so that the invariant was put to the test
    assert len(watched.agent.ledger.refusals()) <= 1001


def test_malformed_requests_for_local_updates(sample: ModuleType, tmp_path: Path) -> None:
    """The server first, several updates a round, over a set and outside of it; inputs up to 1e9."""
    watched = Watched(sample.agent(tmp_path / "patients.ledger", sample.policy(epsilon=100.0)))
    terms = {
        "local": sample.agreement("obj-g", stragglers="reuse", rounds=8, updates=2, set="ball:2"),
        "free": sample.agreement("obj-l", stragglers="reuse", rounds=8, updates=2),
        "leaving": sample.agreement("out-l", rounds=8, rho_schedule="growing:0.3:0.1:2"),
        "descent": sample.agreement("dpsgd", stragglers="reuse", rounds=8),
    }
    for name, agreed in terms.items():
        watched.agent.join(name, agreed)
        for round in (1, 2):
            watched.ask(Request(name, agreed.digest, round, np.array([[1e9, -1e9, 0.0]]) * 10.0**-round))
    assert len(watched.sent) == 8

    @settings(many, max_examples=many.max_examples // 2)
    @given(requests({name: agreed.digest for name, agreed in terms.items()}, watched.seals))
    def attack(request: Any) -> None:
        watched.ask(request)

    attack()
    watched.close()
    assert watched.refusals > 50


def test_malformed_requests_on_a_graph(sample: ModuleType, watched: Watched) -> None:
    """Free rounds are asked for like any other: in their turn, and for inputs that make sense."""
    terms = {
        "recycled": sample.agreement("private-r-admm", rounds=8, topology="path:2", evaluation_epsilon=0.2),
        "growing": sample.agreement("private-mr-admm", rounds=8, topology="path:2", epsilon=None, epsilons=(1.0, 3.0)),
        "tilted": sample.agreement("dvp-graph", rounds=8, topology="path:2"),
    }
    for name, agreed in terms.items():
        watched.agent.join(name, agreed)
        watched.ask(sample.request(agreed, 1, name))
        watched.ask(sample.request(agreed, 2, name))
    assert len(watched.sent) == 6

    @settings(many, max_examples=many.max_examples // 2)
    @given(requests({name: agreed.digest for name, agreed in terms.items()}, watched.seals))
    def attack(request: Any) -> None:
        watched.ask(request)

    attack()
    watched.close()
    assert watched.refusals > 50

    @settings(many, max_examples=many.max_examples // 2)
    @given(st.one_of(st.sampled_from([*terms]), ODD), st.one_of(st.integers(-1, 9), ODD))
    def ask_again(run: Any, round: Any) -> None:
        for method in (
            lambda: watched.agent.repeat(run, round).value.tobytes(),
            lambda: watched.agent.rounds_answered(run),
        ):
            try:
                found = method()
            except Refused:
                continue
            rounds = [int(step) for name, step in watched.sent if name == run and step.isdigit()]
            assert found == (watched.sent[run, str(round)] if isinstance(found, bytes) else max(rounds))
        watched.check()

    ask_again()
    watched.close()


@pytest.mark.parametrize("trouble", ["locked", "full", "closed"])
def test_malformed_requests_to_a_ledger_in_trouble(sample: ModuleType, watched: Watched, trouble: str) -> None:
    terms = sample.agreement(rounds=8)
    watched.agent.join("run", terms)
    watched.ask(sample.request(terms, 1))
    ledger = watched.agent.ledger
    if trouble == "locked":
        ledger.lock("for a test")
    elif trouble == "full":
        ledger._connection.execute("PRAGMA query_only = 1")
    else:
        ledger._connection.close()
        watched.check = lambda: None  # type: ignore[method-assign]
    sent = dict(watched.sent)

    @settings(many, max_examples=many.max_examples // 4)
    @given(requests({"run": terms.digest}, watched.seals))
    def attack(request: Any) -> None:
        watched.ask(request)

    attack()
    assert watched.sent == sent


TERMS = {entry.name: entry for entry in fields(RunSpec)}


def odd_terms(good: Agreement) -> st.SearchStrategy[Any]:
    extremes = st.sampled_from([0.0, -1.0, 1e-300, 1e300, 1e-12, 1e12, 0.5, 1, 2, 10**18, 1e308, float("nan")])
    random_bits = st.sampled_from(
        ["l1", "l2", "none", "box", "box:1", "pvp", "dvp", "dpsgd", "hinge", "fixed:0", "laplace"]
    )
    graphs = st.sampled_from(
        [
            *("path:2", "complete:2", "path:3", "ring:2", "grid:1:2", "erdos-renyi:2:0.9", "random-regular:2:1"),
            *(
                "path:200000",
                "complete:1000000",
                "erdos-renyi:2:1e-300",
                "path:2:3",
                '{"edges":[[0,1]]}',
                "{",
                "[" * 99,
            ),
            *('{"edges":[["a","b"]]}', '{"edges":[[0,1000000000]]}', "private-r-admm", "pvp-graph", "r-admm"),
        ]
    )
    lists = st.sampled_from(
        [(), (1.0,), (1.0, 2.0), [1.0, 2.0], (1, 2), (1e-9, 1e9), (0.0, 1.0), ("1", "2"), ((1.0,),)]
    )
    value = st.one_of(extremes, random_bits, graphs, lists, ODD)
    run = st.dictionaries(st.sampled_from([*TERMS]), value, max_size=3).map(lambda some: forged(good.run, some))
    other = st.fixed_dictionaries(
        {},
        optional={
            "counts": st.one_of(st.sampled_from([(), (60,), (60, 0), (60, -5), (60, 10**12), [60, 50]]), ODD),
            "width": st.one_of(st.sampled_from([0, 3, 10**9]), ODD),
            "classes": st.one_of(st.sampled_from([0, 2, 10**9]), ODD),
            "stragglers": st.one_of(st.sampled_from(["wait", "reuse", "skip", "no", True]), ODD),
            "owners": st.one_of(st.sampled_from([(), ("a", "b"), ("a",), ("a", "a"), ["a", "b"], (1, 2)]), ODD),
            "schema": ODD,
            "records_per_person": st.one_of(st.sampled_from([0, 1, 2, 10**9]), ODD),
        },
    )
    odd = st.builds(lambda spec, some: replace(good, run=spec, **some), st.one_of(run, run, ODD), other)
    return st.one_of(st.builds(lambda spec: replace(good, run=spec), run), odd, ODD)


@pytest.mark.parametrize(
    "good",
    [{}, {"algorithm": "private-r-admm", "topology": "path:2", "epsilon": None, "epsilons": (2.0, 3.0)}],
    ids=["server", "graph"],
)
def test_malformed_terms(sample: ModuleType, watched: Watched, good: dict[str, Any]) -> None:
    joined: list[str] = []

    @settings(many, max_examples=many.max_examples // 2)
    @given(run=st.one_of(st.just("fresh"), TEXTS, ODD), agreement=odd_terms(sample.agreement(**good)))
    def attack(run: Any, agreement: Any) -> None:
        name = f"run {len(joined)}" if isinstance(run, str) and run == "fresh" else run
        try:
            watched.agent.join(name, agreement)
        except Refused:
            pass
        else:
            joined.append(name)
            watched.ask(Request(name, agreement.digest, 1, np.zeros(SHAPE)))
            watched.agent.finish(name)
        watched.check()

    attack()
    watched.close()
    assert joined


def test_replayed_and_skipped_rounds_of_two_runs_interleaved(sample: ModuleType, watched: Watched) -> None:
    """A random walk over two runs: at any time only the next round, or one that was answered, gets an answer."""
    terms = {"run": sample.agreement(rounds=15), "other": sample.agreement("pvp", rounds=15, rho=0.2)}
    for name, agreed in terms.items():
        watched.agent.join(name, agreed)
    last = dict.fromkeys(terms, 0)
    draw = np.random.default_rng(0)
    refusals = 0
    for _ in range(250):
        name = str(draw.choice(list(terms)))
        step = int(np.clip(last[name] + draw.integers(-3, 4), 0, 16))
        asked = sample.request(terms[name], step, name)
        if draw.random() < 0.1:
            asked = replace(asked, digest=terms["run" if name == "other" else "other"].digest)
        allowed = 1 <= step <= min(last[name] + 1, 15) and asked.digest == terms[name].digest
        watched.ask(asked)
        if allowed:
            last[name] = max(last[name], step)
        refusals += not allowed
        assert watched.refusals == refusals
        assert len(watched.sent) == sum(last.values())
    assert last == {"run": 15, "other": 15}
    watched.close()
