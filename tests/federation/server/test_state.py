"""Where a run stands: kept bit for bit, and not taken for another's or for whole when it is not."""

from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from dpadmm.engine.output.checkpoint import load, save
from dpadmm.engine.output.history import History
from dpadmm.errors import InputError
from dpadmm.federation.messages import IMPLAUSIBLE, longest_release, seal_from_list, seal_to_list, to_bytes, to_row
from dpadmm.federation.server.state import CoordinatorState
from dpadmm.privacy.ledger.protocol import Seal

DIGEST = "d" * 64
SEALS = tuple(Seal(f"{number}" * 64, "e" * 64) for number in (1, 2, 3))
SIGNATURES = tuple(bytes([number]) * 64 for number in (1, 2, 3))


@pytest.fixture(scope="module")
def drafts(small_federation: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Any:
    return small_federation.SmallFederation(tmp_path_factory.mktemp("village")).terms


def value(seed: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(1, 4))


def played(plan: Any, stragglers: str, absences: dict[int, set[int]], rounds: int = 5) -> list[CoordinatorState]:
    """Standings after each round, from releases that are drawn; `absences` are owners by round."""
    found = [CoordinatorState.of(plan)]
    for round in range(1, rounds + 1):
        there = {
            agent: (value(10 * round + agent), SEALS[agent], SIGNATURES[agent])
            for agent in range(3)
            if agent not in absences.get(round, set())
        }
        found.append(found[-1].after_round(plan, stragglers, there))
    return found


def same(one: CoordinatorState, other: CoordinatorState) -> None:
    assert one.round == other.round
    assert one.shared.server.to_arrays().keys() == other.shared.server.to_arrays().keys()
    for name, values in one.shared.server.to_arrays().items():
        assert values.tobytes() == other.shared.server.to_arrays()[name].tobytes()
    pairs = [(getattr(one.shared, name), getattr(other.shared, name)) for name in ("model", "mean_model", "released")]
    for kept, found in [*pairs, (one.last_answered, other.last_answered)]:
        assert (kept.tobytes(), kept.shape, kept.dtype) == (found.tobytes(), found.shape, found.dtype)
    assert {k: v.tobytes() for k, v in one.broadcasts.items()} == {k: v.tobytes() for k, v in other.broadcasts.items()}
    assert (one.seals, one.signatures, one.absent) == (other.seals, other.signatures, other.absent)
    assert (one.estimates is None) == (other.estimates is None)


@pytest.mark.parametrize("algorithm", ["dp-admm", "obj-g", "dp-accelerated", "ps-admm"])
def test_what_is_kept_reads_back_bit_for_bit(drafts: Any, tmp_path: Path, algorithm: str) -> None:
    relation = "zero-out" if algorithm == "ps-admm" else "replace"
    plan = drafts(algorithm=algorithm, stragglers="reuse", relation=relation, rounds=2).plan()
    history, path = History(), tmp_path / "checkpoint.npz"
    for state in played(plan, "reuse", {2: {1}}, rounds=2):
        history.add(state.round, {"epsilon": np.array([0.1 * state.round])})
        save(path, DIGEST, state, history)
        again, kept = load(path, DIGEST, CoordinatorState.from_arrays)
        same(state, again)
        assert kept.rounds == history.rounds
        assert kept["epsilon"].tobytes() == history["epsilon"].tobytes()
    assert state.absent == {2: (1,)}
    estimated = replace(state, estimates=np.array([0.25, 0.5]))
    save(path, DIGEST, estimated, history)
    again, _ = load(path, DIGEST, CoordinatorState.from_arrays)
    same(estimated, again)
    np.testing.assert_array_equal(again.estimates, [0.25, 0.5])
    assert [found.name for found in tmp_path.iterdir()] == ["checkpoint.npz"]


def test_a_checkpoint_on_other_terms_is_refused(drafts: Any, tmp_path: Path) -> None:
    path = tmp_path / "checkpoint.npz"
    save(path, DIGEST, CoordinatorState.of(drafts().plan()), History())
    with pytest.raises(InputError, match="is of a run on other terms"):
        load(path, "0" * 64, CoordinatorState.from_arrays)


def test_a_checkpoint_that_is_not_whole_is_refused(drafts: Any, tmp_path: Path) -> None:
    path = tmp_path / "checkpoint.npz"
    save(path, DIGEST, played(drafts().plan(), "wait", {})[-1], History())
    whole = path.read_bytes()
    for length in [*range(0, len(whole), 97), len(whole) - 1]:
        path.write_bytes(whole[:length])
        with pytest.raises(InputError, match="cannot be read"):
            load(path, DIGEST, CoordinatorState.from_arrays)
    with pytest.raises(InputError, match="cannot be read"):
        load(tmp_path / "none.npz", DIGEST, CoordinatorState.from_arrays)


@pytest.mark.parametrize(
    "arrays",
    [
        {},
        {"notes": np.array("{}")},
        {"notes": np.array("[]")},
        {"notes": np.array('{"seals": [], "signatures": [], "absent": {}}')},
        {"notes": np.array('{"seals": [[1]], "signatures": [], "absent": {}}')},
        {"notes": np.array('{"seals": [], "signatures": [], "absent": {}}'), "server.other": np.zeros(1)},
        {"notes": np.array('{"seals": [], "signatures": [], "absent": {}}'), "digest": np.array("y")},
        {"notes": np.array([object()], dtype=object)},
    ],
)
def test_a_checkpoint_with_something_else_in_it_is_refused(tmp_path: Path, arrays: dict[str, Any]) -> None:
    path = tmp_path / "checkpoint.npz"
    given = {name: np.zeros((1, 4)) for name in ("round", "model", "mean_model", "released", "last_answered")}
    given |= {
        "digest": np.array("x"),
        "round": np.array(0),
        "server.common": np.zeros((1, 4)),
        "server.dual": np.zeros((1, 4)),
    }
    np.savez(path, **(given | arrays if arrays else {}), allow_pickle=True)
    with pytest.raises(InputError):
        load(path, "x", CoordinatorState.from_arrays)


def test_a_run_starts_where_the_terms_say(drafts: Any) -> None:
    start = CoordinatorState.of(drafts(set="simplex:0.6").plan())
    np.testing.assert_allclose(start.shared.released[0], np.full((3, 4), 0.15))
    np.testing.assert_allclose(start.shared.model, np.full((1, 4), 0.15))
    assert (start.round, start.last_answered.tolist(), start.seals) == (0, [0, 0, 0], (None, None, None))
    assert start.inputs_missed_by(0) == {}


@pytest.mark.parametrize("stragglers", ["reuse", "skip"])
def test_who_was_away_is_told_what_it_has_missed_and_nothing_else_is_kept(drafts: Any, stragglers: str) -> None:
    plan = drafts(stragglers=stragglers).plan()
    standings = played(plan, stragglers, {2: {1}, 3: {1}, 4: {0, 1}})
    heard = [state.shared.server.common for state in standings]
    for state in standings[1:]:
        for agent in range(3):
            away = {2: (1,), 3: (1,), 4: (0, 1)}
            expected = []
            for round in range(state.round, 0, -1):
                if agent not in away.get(round, ()):
                    break
                expected.append(round)
            missed = state.inputs_missed_by(agent)
            assert sorted(missed) == sorted(expected)
            for round, row in missed.items():
                assert row.tobytes() == heard[round - 1].tobytes()
    assert [sorted(state.broadcasts) for state in standings] == [[0], [1], [1, 2], [1, 2, 3], [1, 2, 3, 4], [5]]
    assert standings[-1].absent == {2: (1,), 3: (1,), 4: (0, 1)}
    assert standings[4].last_answered.tolist() == [3, 1, 4]
    assert standings[-1].last_answered.tolist() == [5, 5, 5]
    assert standings[4].shared.released[0][1].tobytes() == value(11).tobytes()


def test_a_mean_is_of_who_was_there_or_of_everybodys_last(drafts: Any) -> None:
    stale, drop = (
        played(drafts(stragglers=stragglers).plan(), stragglers, {2: {1}})[2] for stragglers in ("reuse", "skip")
    )
    np.testing.assert_array_equal(
        stale.shared.model, np.concatenate([value(20), value(11), value(22)]).mean(axis=0)[None]
    )
    np.testing.assert_array_equal(drop.shared.model, np.concatenate([value(20), value(22)]).mean(axis=0)[None])
    first = np.concatenate([value(10), value(11), value(12)]).mean(axis=0)[None]
    np.testing.assert_allclose(stale.shared.mean_model, (first + stale.shared.model) / 2.0, rtol=1e-14)
    assert stale.seals == drop.seals == SEALS
    assert stale.signatures == drop.signatures == SIGNATURES


def test_owners_are_taken_in_their_order_whoever_answers_first(drafts: Any) -> None:
    plan = drafts().plan()
    start = CoordinatorState.of(plan)
    found = {agent: (value(agent), None, SIGNATURES[agent]) for agent in range(3)}
    one = start.after_round(plan, "wait", found)
    other = start.after_round(plan, "wait", dict(reversed(found.items())))
    same(one, other)
    assert start.round == 0
    assert start.shared.released[0].tobytes() == np.zeros((3, 4)).tobytes()


# -- messages ----------------------------------------------------------------------------------------------------------


def test_numbers_travel_bit_for_bit() -> None:
    numbers = np.array([[0.1, -0.0, 5e-324, 1.7976931348623157e308]])
    assert to_row(to_bytes(numbers)).tobytes() == numbers.tobytes()
    assert to_bytes(numbers.astype(">f8")) == to_bytes(numbers)
    assert to_bytes(np.asfortranarray(np.arange(6.0).reshape(2, 3))) == np.arange(6.0).astype("<f8").tobytes()
    row = to_row(to_bytes(numbers))
    row[0, 0] = 1.0  # its own, and not the message's
    assert to_row(b"").shape == (1, 0)


def test_seals_travel_as_lists() -> None:
    assert seal_from_list(seal_to_list(SEALS[1])) == SEALS[1]
    assert seal_from_list(tuple(seal_to_list(SEALS[1]) or ())) == SEALS[1]
    assert seal_from_list(seal_to_list(None)) is None


@pytest.mark.parametrize("changes", [{}, {"algorithm": "pvp"}, {"algorithm": "obj-g", "updates": 5}, {"epsilon": 0.01}])
def test_an_honest_release_is_far_from_implausible(
    drafts: Any, small_federation: ModuleType, changes: dict[str, Any]
) -> None:
    """With all the noise of the run, and with a hundredth of what would be refused to spare."""
    plan = drafts(**changes).plan()
    start = CoordinatorState.of(plan)
    longest = longest_release(plan, start.shared.server.common, start.shared.released[0], 1)
    noise = float(plan.level.sigma.max()) * np.sqrt(4)
    assert longest >= noise + float(plan.local.gradient_bound.max())
    assert np.isfinite(longest)
    far = longest_release(plan, start.shared.server.common + 1e6, start.shared.released[0], 1)
    assert far >= longest + 1e6
    crowd = longest_release(plan, start.shared.server.common, start.shared.released[0] + 1e6, 1)
    assert crowd >= longest + 1e6
    one = start.shared.released[0].copy()
    one[0] += 1e9  # one liar of three does not stretch what is plausible
    assert longest_release(plan, start.shared.server.common, one, 1) == longest
    assert IMPLAUSIBLE * longest < 1e30
