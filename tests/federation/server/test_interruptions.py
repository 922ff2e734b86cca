"""Lost messages and a coordinator that is killed: the next job goes on, and every owner pays once."""

from typing import Any

import numpy as np
import pytest
from coordinated_runs import RING, all_once, coefficients, everything, history, load_round, outcome
from ledgers import put_back, snapshot

from dpadmm.federation.server.run_folder import RunFolder
from dpadmm.privacy.ledger.sqlite import SqliteLedger

pytestmark = pytest.mark.usefixtures("hurried")


class Killed(Exception):
    """The coordinator's process, at a moment of the test's choosing."""


def test_a_run_interrupted_in_every_round_equals_the_uninterrupted_one(lived: Any, undisturbed: np.ndarray) -> None:
    """In each job an answer gets lost on its way, in another round and of another owner; desks are always new ones."""
    folder = lived.folder()
    for round in range(1, 7):
        line, silent = lived.line(), list(lived.counts)[round % 3]
        first = load_round(folder)
        line.tamper = lambda name, method, reply, silent=silent, line=line, first=first: (
            None if method == "answer_step" and name == silent and line.calls[-1][2]["step"] == first + 1 else reply
        )
        if round % 2:  # every other time the question gets lost, not the answer
            line.tamper = lambda name, method, reply: reply
            line.reaches = lambda name, method, call, silent=silent, first=first: (
                not (method == "answer_step" and name == silent and call["step"] == first + 1)
            )
        status = lived.run(folder, line)
        assert status["state"] == "interrupted"
        assert status["message"] == f"{silent} did not answer in round {first + 1}"
        assert status["lost"] == [silent]
        assert load_round(folder) == first
        line = lived.line()  # and the next job gets one round further
        line.reaches = lambda name, method, call, first=first: (
            not (method == "answer_step" and call["step"] == first + 2)
        )
        lived.run(folder, line)
    assert folder.status()["state"] == "finished"
    assert np.array_equal(coefficients(folder), undisturbed)
    assert history(folder)["round"] == [1, 2, 3, 4, 5, 6]
    all_once(lived)


@pytest.mark.parametrize("stragglers", ["wait", "reuse"])
@pytest.mark.parametrize("round", [1, 3, 6])
def test_a_coordinator_that_is_killed_between_rounds_goes_on_where_it_was(
    lived: Any, undisturbed: np.ndarray, stragglers: str, round: int
) -> None:
    folder, line = lived.folder(stragglers=stragglers), lived.line()

    def reaches(name: str, method: str, call: Any) -> bool:
        if method == "answer_step" and call["step"] == round and name == "eiche":
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
    """So that one whose whole machine was restored from an old backup notices, in the middle of a run too."""
    folder, line = lived.folder(), lived.line()
    line.reaches = lambda name, method, call: not (method == "answer_step" and call["step"] == 4)
    lived.run(folder, line)
    close_ledgers(line)
    ledger = opened(lived, "birke")
    before = snapshot(ledger)
    ledger.close()
    line = lived.line()
    line.reaches = lambda name, method, call: not (method == "answer_step" and call["step"] == 6)
    lived.run(folder, line)
    close_ledgers(line)
    shown = {name: call["seen"] for name, method, call in line.calls if method == "join"}
    assert {name: seal[0] for name, seal in shown.items()} == {
        name: entry_of(lived, name, "3")["head"] for name in shown
    }
    put_back(opened(lived, "birke"), before, log=True)
    assert lived.steps("birke") == ["1", "2", "3"]
    status = lived.run(folder)
    assert status["state"] == "refused"
    assert "restored from an old backup" in status["message"]
    assert lived.steps("birke") == ["1", "2", "3"]


def opened(lived: Any, name: str) -> SqliteLedger:
    return SqliteLedger.open(lived.ledger_path(name), folder=lived.owner(name).registry.folder)


def close_ledgers(line: Any) -> None:
    for desk in line.desks.values():
        desk._thread.submit(desk._handler._agents["study"][0].ledger.close).result()


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
        if method == "answer_step" and len(reply["value"]) == 8 and name != "birke":
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
