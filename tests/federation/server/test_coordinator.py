"""A coordinator over a line of function calls: it equals the simulation, believes nobody, and may be lost any time."""

import csv
import json
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from dpadmm.datasets import read_table
from dpadmm.engine import metrics
from dpadmm.engine.output.model import Model
from dpadmm.federation.client.files import OwnerFiles
from dpadmm.federation.messages import VERSION, InvalidRelease, release_in, to_bytes
from dpadmm.federation.server.run_folder import RunFolder, runs_in
from dpadmm.federation.server.state import load
from dpadmm.privacy.ledger.protocol import Seal
from dpadmm.privacy.ledger.verify import verify
from dpadmm.problems.losses import Logistic
from dpadmm.problems.shards import gather

RING = {"algorithm": "private-r-admm", "topology": "ring:3"}
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


class Killed(Exception):
    """The coordinator's process, at a moment of the test's choosing."""


@pytest.fixture(autouse=True)
def _in_a_hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dpadmm.federation.server.enrolment.POLL", 0.001)
    monkeypatch.setattr("dpadmm.federation.server.coordinator.GLANCE", 0.0)  # every round is told, however fast


@pytest.fixture
def lived(small_federation: ModuleType, tmp_path: Path) -> Any:
    made = small_federation.SmallFederation(tmp_path)
    for name in small_federation.OWNERS:
        made.allow(name, epsilon=400.0)
    return made


@pytest.fixture(scope="module")
def undisturbed(small_federation: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> np.ndarray:
    """The model of the village's run, by the engine."""
    return small_federation.SmallFederation(tmp_path_factory.mktemp("undisturbed")).simulated().models[0]


def outcome(folder: RunFolder) -> dict[str, Any]:
    return dict(json.loads((folder.path / "result.json").read_text()))


def history(folder: RunFolder) -> dict[str, list[float]]:
    with (folder.path / "history.csv").open() as file:
        rows = list(csv.DictReader(file))
    return {name: [float(row[name]) for row in rows] for name in rows[0]}


def coefficients(folder: RunFolder) -> np.ndarray:
    return Model.load(folder.path).coefficients


def everything(lived: Any) -> dict[str, int]:
    """How many entries each owner's ledger has."""
    return {
        name: len(list(lived.ledger(name).entries())) if lived.ledger_path(name).exists() else 0
        for name in lived.counts
    }


def all_once(lived: Any, rounds: int = 6) -> None:
    """Every owner has released every round once, and nothing else."""
    for name in lived.counts:
        assert lived.steps(name) == [str(round) for round in range(1, rounds + 1)]
        assert sum(lived.ledger(name).spent().values()) == rounds
        assert verify(lived.ledger(name)) == []
        assert lived.ledger(name).runs()["study"].finished


# -- the same numbers --------------------------------------------------------------------------------------------------


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
        state, _ = load(folder.path / "checkpoint.bin", agreement.digest)
        assert np.array_equal(state.mean_model, simulated.mean_models)
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
    OwnerFiles(tmp_path / "eiche").save(replace(lived.settings("eiche", 3), ledger=str(tmp_path / "rehearsed.db")))
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


# -- nonsense ----------------------------------------------------------------------------------------------------------

NONSENSE: dict[str, tuple[Any, str]] = {
    "too short": ({"value": to_bytes(np.ones(3))}, "3 numbers, not 4"),
    "too long": ({"value": to_bytes(np.ones(5))}, "5 numbers, not 4"),
    "torn": ({"value": to_bytes(np.ones(4))[:-1]}, "numbers, not 4"),
    "empty": ({"value": b""}, "0 numbers, not 4"),
    "nan": ({"value": to_bytes(np.array([0, 0, np.nan, 0]))}, "not finite"),
    "inf": ({"value": to_bytes(np.array([0, 0, -np.inf, 0]))}, "not finite"),
    "huge": ({"value": to_bytes(np.full(4, 1e30))}, "has norm 2e+30"),
    "largest": ({"value": to_bytes(np.full(4, 1e308))}, "has norm"),
    "text": ({"value": "0" * 32}, "sent no release"),
    "numbers": ({"value": [0.0] * 4}, "sent no release"),
    "array": ({"value": np.zeros(4)}, "sent no release"),
    "nothing": ({"value": None}, "sent no release"),
    "other": ({"release": to_bytes(np.ones(4))}, "sent no release"),
    "no dict": ([to_bytes(np.ones(4))], "sent no release"),
    "bytes": (to_bytes(np.ones(4)), "sent no release"),
    "bad seal": ({"value": to_bytes(np.ones(4)), "seal": "mine"}, "seal is none"),
    "refusal": ({"refused": "my own\nbusiness"}, "it refuses: my own\nbusiness"),
}


@pytest.mark.parametrize("kind", NONSENSE)
def test_what_cannot_be_a_release_is_told_from_one_that_can(kind: str) -> None:
    sent, said = NONSENSE[kind]
    if kind != "refusal":
        with pytest.raises(InvalidRelease) as found:
            release_in(sent, 4, 1.0)
        assert said in str(found.value)
    good = {"value": to_bytes(np.array([1.0, -2.0, 0.5, 1e4 - 1.0])), "seal": [3, "a" * 64, "b" * 64]}
    value, seal = release_in(good, 4, 1.0)
    assert value.tolist() == [[1.0, -2.0, 0.5, 9999.0]]
    assert seal == Seal(3, "a" * 64, "b" * 64)
    assert release_in({**good, "seal": [3, "a", "b"]}, 4, 1.0)[1] is None
    assert release_in({**good, "seal": None}, 4, 1.0)[1] is None


@pytest.mark.parametrize("kind", ["too short", "nan", "largest", "no dict", "refusal"])
def test_nonsense_ends_a_run_that_waits_and_names_who_sent_it(lived: Any, undisturbed: np.ndarray, kind: str) -> None:
    folder, line = lived.folder(), lived.line()
    sent, said = NONSENSE[kind]
    asked: list[str] = []

    def tamper(name: str, method: str, reply: Any) -> Any:
        asked.extend([name] if method == "answer" and name == "birke" else [])
        return sent if method == "answer" and name == "birke" and len(asked) == 3 else reply

    line.tamper = tamper
    status = lived.run(folder, line)
    assert status["state"] == "failed"
    assert status["message"].startswith("birke, round 3: ")
    assert said in status["message"]
    assert not folder.finished
    assert max(len(lived.steps(name)) for name in lived.counts) == 3
    assert lived.run(folder)["state"] == "finished"  # and nothing of it was used
    assert np.array_equal(coefficients(folder), undisturbed)
    all_once(lived)


@pytest.mark.parametrize("stragglers", ["reuse", "skip"])
@pytest.mark.parametrize("kind", ["nan", "huge", "refusal"])
def test_nonsense_is_noted_and_left_out_where_rounds_may_be_missed(lived: Any, stragglers: str, kind: str) -> None:
    folder, line = lived.folder(stragglers=stragglers), lived.line()
    sent, said = NONSENSE[kind]
    asked: list[str] = []

    def tamper(name: str, method: str, reply: Any) -> Any:
        asked.extend([name] if method == "answer" and name == "birke" else [])
        return sent if method == "answer" and name == "birke" and len(asked) == 3 else reply

    line.tamper = tamper
    assert lived.run(folder, line)["state"] == "finished"
    (noted,) = (folder.path / "events.txt").read_text().splitlines()
    assert "birke, round 3: " in noted
    assert said.replace("\n", " ") in noted
    assert len(asked) == 3  # in this job it is not asked again
    assert outcome(folder)["missed_rounds"] == {"birke": [3, 4, 5, 6]}
    assert history(folder)["absent"] == [0, 0, 1, 1, 1, 1]
    assert np.linalg.norm(coefficients(folder)) < 100.0
    absent = lived.folder(name="absent", stragglers=stragglers)  # it comes to the same as if nothing had been sent
    line = lived.line()
    line.reaches = lambda name, method, call: not (method == "answer" and name == "birke" and call["step"] > 2)
    lived.run(absent, line)
    assert np.array_equal(coefficients(folder), coefficients(absent))


def test_nonsense_at_the_end_of_a_walk_is_named(lived: Any) -> None:
    folder, line = lived.folder(**RING), lived.line()

    def tamper(name: str, method: str, reply: Any) -> Any:
        return {"value": to_bytes(np.full(4, 1e30))} if name == "eiche" and "value" in reply else reply

    line.tamper = tamper
    status = lived.run(folder, line)
    assert (status["state"], status["message"][:16]) == ("failed", "eiche: its relea")
    assert lived.run(folder)["state"] == "finished"
    assert np.array_equal(coefficients(folder), lived.simulated(**RING).models[0])


@pytest.mark.parametrize("estimate", [to_bytes(np.ones(2)), to_bytes(np.array([np.nan])), to_bytes(np.array([1e300]))])
def test_a_nonsensical_estimate_is_named(lived: Any, estimate: bytes) -> None:
    changes = {"algorithm": "pvp", "evaluation_epsilon": 0.5}
    folder, line = lived.folder(**changes), lived.line()

    def tamper(name: str, method: str, reply: Any) -> Any:
        last = method == "answer" and len(reply["value"]) == 8
        return {**reply, "value": estimate} if last and name == "eiche" else reply

    line.tamper = tamper
    status = lived.run(folder, line)
    assert status["state"] == "failed"
    assert status["message"].startswith("eiche, evaluation: ")
    assert lived.run(folder)["state"] == "finished"
    assert outcome(folder)["estimated_error"] == lived.simulated(**changes).estimated_error


INTRODUCTIONS: list[tuple[dict[str, Any] | list[Any], str, str]] = [
    ({"version": VERSION + 1}, "refused", "birke has another version of dpadmm"),
    ({"version": None}, "refused", "birke has another version of dpadmm"),
    ({"columns": "0" * 64}, "refused", "birke has agreed to other columns"),
    ({"count": 0}, "failed", "birke says it has 0 records"),
    ({"count": -5}, "failed", "birke says it has -5 records"),
    ({"count": True}, "failed", "birke says it has True records"),
    ({"count": "45"}, "failed", "birke says it has '45' records"),
    ({"count": 10**10}, "failed", "birke says it has 10000000000 records"),
    ({"count": None}, "failed", "birke says it has None records"),
    ([], "refused", "birke has another version"),
]


@pytest.mark.parametrize(("change", "state", "said"), INTRODUCTIONS)
def test_owners_that_do_not_fit_are_named_before_anything_is_spent(
    lived: Any, change: Any, state: str, said: str
) -> None:
    folder, line = lived.folder(), lived.line()

    def tamper(name: str, method: str, reply: Any) -> Any:
        if method != "introduce" or name != "birke":
            return reply
        return {**reply, **change} if isinstance(change, dict) else change

    line.tamper = tamper
    status = lived.run(folder, line)
    assert status["state"] == state
    assert said in status["message"]
    assert set(everything(lived).values()) == {0}
    assert folder.agreement() is None


def test_a_desk_with_other_columns_or_fewer_records_than_before_keeps_the_run_from_going_on(
    lived: Any, small_federation: ModuleType, undisturbed: np.ndarray
) -> None:
    folder, line = lived.folder(), lived.line()
    line.reaches = lambda name, method, call: not (method == "answer" and call["step"] == 4)
    assert lived.run(folder, line)["state"] == "interrupted"
    before = everything(lived)
    line = lived.line()
    line.tamper = lambda name, method, reply: (
        {**reply, "count": 46} if (name, method) == ("birke", "introduce") else reply
    )
    status = lived.run(folder, line)
    assert (status["state"], everything(lived)) == ("refused", before)
    assert "birke has another number of records than when the run began" in status["message"]
    other = lived.home / "others.toml"
    other.write_text(replace(small_federation.SCHEMA, classes=("yes", "no")).dumps())
    OwnerFiles(lived.home / "eiche").save(replace(lived.settings("eiche", 7), columns=str(other)))
    status = lived.run(folder)
    assert (status["state"], everything(lived)) == ("refused", before)
    assert "eiche has agreed to other columns" in status["message"]
    OwnerFiles(lived.home / "eiche").save(lived.settings("eiche", 7))
    assert lived.run(folder)["state"] == "finished"
    assert np.array_equal(coefficients(folder), undisturbed)


@pytest.mark.parametrize(
    "reply",
    [
        {},
        [],
        {"joined": "0" * 64, "rounds_answered": 0},
        {"joined": True},
        {"waiting": "0" * 64},
        {"rounds_answered": 0},
    ],
)
def test_an_owner_that_does_not_say_whether_it_takes_part_is_named(lived: Any, reply: Any) -> None:
    folder, line = lived.folder(), lived.line()
    line.tamper = lambda name, method, said: reply if (name, method) == ("eiche", "join") else said
    line.reaches = lambda *_: len(line.calls) < 50  # lest it be asked for ever
    status = lived.run(folder, line)
    assert status["state"] == "failed"
    assert status["message"] == "eiche did not say whether it takes part."
    assert all(lived.steps(name) == [] for name in lived.counts)


def test_one_owners_no_is_everybodys(lived: Any) -> None:
    lived.allow("eiche", epsilon=1.0)
    folder = lived.folder()
    status = lived.run(folder)
    assert status["state"] == "refused"
    assert status["message"].startswith("eiche: data set 'dry run of eiche' would come to epsilon 2")
    assert all(lived.steps(name) == [] for name in lived.counts)


def test_a_run_waits_for_the_word_of_its_owners(lived: Any, undisturbed: np.ndarray) -> None:
    for name in ("ahorn", "eiche"):
        lived.allow(name, epsilon=400.0, approval="hand")
    folder, line = lived.folder(), lived.line()
    seen: list[dict[str, Any]] = []

    def tamper(name: str, method: str, reply: Any) -> Any:
        if method == "join":
            seen.append(folder.status())
        if "waiting" in reply and len(seen) > 4:
            OwnerFiles(lived.home / name).decide(reply["waiting"][:9], True)
        return reply

    line.tamper = tamper
    assert lived.run(folder, line)["state"] == "finished"
    waited = next(status for status in seen if status["state"] == "waiting")
    assert waited["waiting"] == ["ahorn", "eiche"]
    assert waited["message"] == "for the word of ahorn, eiche"
    assert [name for name, method, _ in line.calls if method == "join"].count("birke") == 1
    assert np.array_equal(coefficients(folder), undisturbed)
    declined = lived.folder(name="other", rounds=5)
    line = lived.line()
    line.tamper = lambda name, method, reply: (
        (OwnerFiles(lived.home / name).decide(reply["waiting"], False) and reply) if "waiting" in reply else reply
    )
    status = lived.run(declined, line)
    assert status["state"] == "refused"
    assert "the owner has declined these terms" in status["message"]


# -- losses ------------------------------------------------------------------------------------------------------------


def test_a_run_interrupted_in_every_round_equals_the_uninterrupted_one(lived: Any, undisturbed: np.ndarray) -> None:
    """In each job an answer gets lost on its way, in another round and of another owner; desks are always new ones."""
    folder = lived.folder()
    for round in range(1, 7):
        line, silent = lived.line(), list(lived.counts)[round % 3]
        first = load_round(folder)
        line.tamper = lambda name, method, reply, silent=silent, line=line, first=first: (
            None if method == "answer" and name == silent and line.calls[-1][2]["step"] == first + 1 else reply
        )
        if round % 2:  # every other time the question gets lost, not the answer
            line.tamper = lambda name, method, reply: reply
            line.reaches = lambda name, method, call, silent=silent, first=first: (
                not (method == "answer" and name == silent and call["step"] == first + 1)
            )
        status = lived.run(folder, line)
        assert status["state"] == "interrupted"
        assert status["message"] == f"{silent} did not answer in round {first + 1}"
        assert status["lost"] == [silent]
        assert load_round(folder) == first
        line = lived.line()  # and the next job gets one round further
        line.reaches = lambda name, method, call, first=first: not (method == "answer" and call["step"] == first + 2)
        lived.run(folder, line)
    assert folder.status()["state"] == "finished"
    assert np.array_equal(coefficients(folder), undisturbed)
    assert history(folder)["round"] == [1, 2, 3, 4, 5, 6]
    all_once(lived)


def load_round(folder: RunFolder) -> int:
    path, agreement = folder.path / "checkpoint.bin", folder.agreement()
    return load(path, agreement.digest)[0].round if path.exists() and agreement is not None else 0


@pytest.mark.parametrize("method", ["introduce", "join"])
def test_an_owner_that_is_silent_before_the_rounds_is_waited_for_in_another_job(
    lived: Any, undisturbed: np.ndarray, method: str
) -> None:
    folder, line = lived.folder(), lived.line()
    line.reaches = lambda name, asked, call: (name, asked) != ("birke", method)
    status = lived.run(folder, line)
    assert (status["state"], status["lost"]) == ("interrupted", ["birke"])
    assert "birke" in status["message"]
    status = lived.run(folder, lived.line(("ahorn", "eiche")))
    assert status["state"] == "interrupted"
    assert "birke" in status["message"]
    assert max(len(lived.steps(name)) for name in lived.counts) <= 1
    assert lived.run(folder)["state"] == "finished"
    assert np.array_equal(coefficients(folder), undisturbed)
    all_once(lived)


@pytest.mark.parametrize("stragglers", ["wait", "reuse"])
@pytest.mark.parametrize("round", [1, 3, 6])
def test_a_coordinator_that_is_killed_between_rounds_goes_on_where_it_was(
    lived: Any, undisturbed: np.ndarray, stragglers: str, round: int
) -> None:
    folder, line = lived.folder(stragglers=stragglers), lived.line()

    def reaches(name: str, method: str, call: Any) -> bool:
        if method == "answer" and call["step"] == round and name == "eiche":
            raise Killed
        return True

    line.reaches = reaches
    with pytest.raises(Killed):
        lived.run(folder, line)
    assert folder.status()["state"] != "finished"
    assert lived.run(folder)["state"] == "finished"
    assert np.array_equal(coefficients(folder), undisturbed)
    assert history(folder)["round"] == [1, 2, 3, 4, 5, 6]
    assert outcome(folder)["missed_rounds"] == {}
    all_once(lived)


@pytest.mark.parametrize("stragglers", ["wait", "skip"])
@pytest.mark.parametrize("round", [1, 4, 6])
def test_a_coordinator_that_is_killed_before_it_wrote_a_round_down_asks_for_it_again(
    lived: Any, undisturbed: np.ndarray, monkeypatch: pytest.MonkeyPatch, stragglers: str, round: int
) -> None:
    """The owners are then ahead of the checkpoint, by one round or by two."""
    folder, honest = lived.folder(stragglers=stragglers), RunFolder.keep

    def keep(self: RunFolder, digest: str, state: Any, kept: Any, **how: Any) -> None:
        if state.round == round:
            raise Killed
        honest(self, digest, state, kept, **how)

    monkeypatch.setattr(RunFolder, "keep", keep)
    with pytest.raises(Killed):
        lived.run(folder)
    monkeypatch.setattr(RunFolder, "keep", honest)
    assert load_round(folder) == round - 1
    assert max(len(lived.steps(name)) for name in lived.counts) >= round
    assert lived.run(folder)["state"] == "finished"
    assert np.array_equal(coefficients(folder), undisturbed)
    assert history(folder)["round"] == [1, 2, 3, 4, 5, 6]
    all_once(lived)


def test_owners_are_shown_the_seals_of_their_last_releases(lived: Any) -> None:
    """So that one who restored an old backup notices."""
    folder, line = lived.folder(), lived.line()
    line.reaches = lambda name, method, call: not (method == "answer" and call["step"] == 4)
    lived.run(folder, line)
    path = lived.ledger_path("birke")
    backup = path.read_bytes()
    line = lived.line()
    line.reaches = lambda name, method, call: not (method == "answer" and call["step"] == 6)
    lived.run(folder, line)
    shown = {name: call["seen"] for name, method, call in line.calls if method == "join"}
    for name, seal in shown.items():
        assert seal[:2] == [entry_of(lived, name, "3")["number"], entry_of(lived, name, "3")["head"]]
    for name, handler in line.desks.items():
        line.threads[name].submit(handler._agents["study"][0].ledger.close).result()
    path.write_bytes(backup)
    status = lived.run(folder)
    assert status["state"] == "refused"
    assert status["message"].startswith("birke: the ledger was restored from an old backup")
    assert lived.steps("birke") == ["1", "2", "3"]


def entry_of(lived: Any, name: str, step: str) -> dict[str, Any]:
    (found,) = [entry for entry in lived.ledger(name).entries() if entry.get("step") == step]
    return dict(found)


def test_a_finished_run_that_is_submitted_again_is_finished_and_spends_nothing(lived: Any) -> None:
    folder = lived.folder()
    lived.run(folder)
    before, written = everything(lived), (folder.path / "result.json").read_bytes()
    for line in (lived.line(), lived.line(("ahorn",)), lived.line(())):
        assert lived.run(folder, line)["state"] == "finished"
    (lived.home / "birke" / "records.csv").unlink()
    assert lived.run(folder)["state"] == "finished"
    assert everything(lived) == before
    assert (folder.path / "result.json").read_bytes() == written


def test_a_coordinator_that_is_killed_while_it_finishes_closes_the_rest_in_another_job(lived: Any) -> None:
    folder, line = lived.folder(), lived.line()

    def tamper(name: str, method: str, reply: Any) -> Any:
        if method == "finish":
            raise Killed
        return reply

    line.tamper = tamper
    line.reaches = lambda name, method, call: method != "finish" or name == "ahorn"
    with pytest.raises(Killed):
        lived.run(folder, line)
    assert [lived.ledger(name).runs()["study"].finished for name in lived.counts] == [True, False, False]
    line = lived.line()
    line.reaches = lambda name, method, call: method != "finish" or name != "eiche"
    assert lived.run(folder, line)["state"] == "finished"
    assert [lived.ledger(name).runs()["study"].finished for name in lived.counts] == [True, True, False]
    assert lived.run(folder)["state"] == "finished"
    all_once(lived)


def test_an_evaluation_that_was_not_answered_is_asked_for_again(lived: Any) -> None:
    changes = {"algorithm": "pvp", "evaluation_epsilon": 0.5}
    folder, line = lived.folder(**changes), lived.line()
    line.reaches = lambda name, method, call: not (name == "birke" and call.get("step") == "evaluation")
    status = lived.run(folder, line)
    assert (status["state"], status["message"]) == ("interrupted", "not all owners have estimated their error")
    assert lived.run(folder)["state"] == "finished"
    assert outcome(folder)["estimated_error"] == lived.simulated(**changes).estimated_error
    for name in lived.counts:
        assert lived.steps(name) == ["1", "2", "3", "4", "5", "6", "evaluation"]


def test_a_run_that_is_lost_after_its_evaluation_needs_nobody_to_end(
    lived: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    changes = {"algorithm": "pvp", "evaluation_epsilon": 0.5}
    folder, honest = lived.folder(**changes), RunFolder.finish

    def finish(*_: Any) -> Any:
        raise Killed

    monkeypatch.setattr(RunFolder, "finish", finish)
    with pytest.raises(Killed):
        lived.run(folder)
    monkeypatch.setattr(RunFolder, "finish", honest)
    assert lived.run(folder, lived.line(("eiche",)))["state"] == "finished"
    assert outcome(folder)["estimated_error"] == lived.simulated(**changes).estimated_error


def test_estimates_of_who_is_there_are_what_a_run_without_the_others_has(lived: Any) -> None:
    changes = {"algorithm": "pvp", "evaluation_epsilon": 0.5, "stragglers": "reuse"}
    whole, some, none = (lived.folder(name=name, **changes) for name in ("whole", "some", "none"))
    found: list[float] = []

    def overhear(name: str, method: str, reply: Any) -> Any:
        if method == "answer" and len(reply["value"]) == 8 and name != "birke":
            found.append(float(np.frombuffer(reply["value"])[0]))
        return reply

    line = lived.line()
    line.tamper = overhear
    lived.run(whole, line)
    line = lived.line()
    line.reaches = lambda name, method, call: not (name == "birke" and call.get("step") == "evaluation")
    assert lived.run(some, line)["state"] == "finished"
    assert outcome(some)["estimated_error"] == pytest.approx(np.mean(found), rel=1e-12)
    assert outcome(some)["estimated_error"] != outcome(whole)["estimated_error"]
    line = lived.line()
    line.reaches = lambda name, method, call: call.get("step") != "evaluation"
    assert lived.run(none, line)["state"] == "finished"
    assert outcome(none)["estimated_error"] is None


@pytest.mark.parametrize("step", ["evaluation", "finish"])
def test_a_walk_that_is_lost_after_its_rounds_is_measured_once(lived: Any, step: str) -> None:
    changes = {**RING, "evaluation_epsilon": 0.5}
    folder, line = lived.folder(**changes), lived.line()

    def finish(*_: Any) -> Any:
        raise Killed

    if step == "evaluation":
        line.reaches = lambda name, method, call: call.get("step") != "evaluation"
        assert lived.run(folder, line)["state"] == "interrupted"
    else:
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(RunFolder, "finish", finish)
            with pytest.raises(Killed):
                lived.run(folder)
    status = lived.run(folder)
    assert status["state"] == "finished", status
    assert history(folder)["round"] == [6]
    assert np.array_equal(coefficients(folder), lived.simulated(**changes).models[0])
    for name in lived.counts:
        assert lived.steps(name) == ["1", "2", "3", "4", "5", "6", "evaluation"]


# -- what is measured --------------------------------------------------------------------------------------------------


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


@pytest.mark.parametrize("text", [None, "age,dose,sex,ill\n1,1,x,no\n", "age,dose,sex\n1,1,f\n"])
def test_public_records_that_cannot_be_used_end_a_run_before_anything_is_spent(lived: Any, text: str | None) -> None:
    public = lived.home / "public.csv"
    if text is not None:
        public.write_text(text)
    assert lived.run(lived.folder(public_test=str(public)))["state"] == "failed"
    assert set(everything(lived).values()) == {0}


def test_what_was_spent_so_far_is_in_the_history(lived: Any) -> None:
    folder = lived.folder()
    lived.run(folder)
    spent = history(folder)["epsilon"]
    assert spent == sorted(spent)
    plan = folder.agreement().plan()  # type: ignore[union-attr]
    assert spent == [plan.accounts(round).worst(1e-6).epsilon for round in range(1, 7)]
    assert spent[-1] == outcome(folder)["epsilon"] == pytest.approx(2.0)
    assert lived.ledger("ahorn").guarantee(1e-6).epsilon == spent[-1]


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
        assert (status["state"], status["message"]) == ("interrupted", "on a graph all owners must be there")
    line = lived.line()
    line.reaches = lambda name, method, call: not (method == "run_rounds" and name == "birke")
    assert lived.run(folder, line)["message"] == "birke did not answer"


def test_a_spec_that_suits_no_plan_fails_before_anybody_agreed(lived: Any) -> None:
    calls: list[tuple[dict[str, Any], str]] = [
        ({"rounds": 0}, "rounds"),
        ({"loss": "no-such"}, "unknown loss"),
        ({"topology": "ring:4", "algorithm": "private-r-admm"}, "4 nodes"),
        ({"stragglers": "skip", "algorithm": "obj-g"}, "cannot combine a round without one"),
    ]
    for number, (changes, said) in enumerate(calls):
        status = lived.run(lived.folder(name=f"run-{number}", **changes))
        assert status["state"] == "failed"
        assert said in status["message"]
    assert set(everything(lived).values()) == {0}
