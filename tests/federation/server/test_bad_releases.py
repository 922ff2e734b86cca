"""Replies that cannot be releases: the coordinator names who sent them and uses none of them."""

from typing import Any

import numpy as np
import pytest
from coordinated_runs import RING, all_once, coefficients, history, outcome

from dpadmm.federation.messages import InvalidRelease, release_in, to_bytes
from dpadmm.privacy.ledger.protocol import Seal

pytestmark = pytest.mark.usefixtures("hurried")


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
    "bad seal": ({"value": to_bytes(np.ones(4)), "seal": "mine"}, "malformed seal"),
    "long seal": ({"value": to_bytes(np.ones(4)), "seal": ["a", "b", ""]}, "malformed seal"),
    "refusal": ({"refused": "my \x1bown\nbusiness"}, "it refuses: my  own business"),
}


@pytest.mark.parametrize("kind", NONSENSE)
def test_what_cannot_be_a_release_is_told_from_one_that_can(kind: str) -> None:
    sent, said = NONSENSE[kind]
    if kind != "refusal":
        with pytest.raises(InvalidRelease) as found:
            release_in(sent, 4, 1.0)
        assert said in str(found.value)
    good = {"value": to_bytes(np.array([1.0, -2.0, 0.5, 1e4 - 1.0])), "seal": ["a" * 64, "b" * 64, "c" * 128]}
    value, seal = release_in(good, 4, 1.0)
    assert value.tolist() == [[1.0, -2.0, 0.5, 9999.0]]
    assert seal == Seal("a" * 64, "b" * 64, "c" * 128)
    assert release_in({**good, "seal": None}, 4, 1.0)[1] is None


@pytest.mark.parametrize("kind", ["too short", "nan", "largest", "no dict", "refusal"])
def test_nonsense_ends_a_run_that_waits_and_names_who_sent_it(lived: Any, undisturbed: np.ndarray, kind: str) -> None:
    folder, line = lived.folder(), lived.line()
    sent, said = NONSENSE[kind]
    asked: list[str] = []

    def tamper(name: str, method: str, reply: Any) -> Any:
        asked.extend([name] if method == "answer_step" and name == "birke" else [])
        return sent if method == "answer_step" and name == "birke" and len(asked) == 3 else reply

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
        asked.extend([name] if method == "answer_step" and name == "birke" else [])
        return sent if method == "answer_step" and name == "birke" and len(asked) == 3 else reply

    line.tamper = tamper
    assert lived.run(folder, line)["state"] == "finished"
    (noted,) = (folder.path / "events.txt").read_text().splitlines()
    assert "birke, round 3: " in noted
    assert " ".join(said.split()) in noted
    assert len(asked) == 3  # in this job it is not asked again
    assert outcome(folder)["missed_rounds"] == {"birke": [3, 4, 5, 6]}
    assert history(folder)["absent"] == [0, 0, 1, 1, 1, 1]
    assert np.linalg.norm(coefficients(folder)) < 100.0
    absent = lived.folder(name="absent", stragglers=stragglers)  # it comes to the same as if nothing had been sent
    line = lived.line()
    line.reaches = lambda name, method, call: not (method == "answer_step" and name == "birke" and call["step"] > 2)
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
        last = method == "answer_step" and len(reply["value"]) == 8
        return {**reply, "value": estimate} if last and name == "eiche" else reply

    line.tamper = tamper
    status = lived.run(folder, line)
    assert status["state"] == "failed"
    assert status["message"].startswith("eiche, evaluation: ")
    assert lived.run(folder)["state"] == "finished"
    assert outcome(folder)["estimated_error"] == lived.simulated(**changes).estimated_error
