"""Which rounds an owner's handler answers, repeats and refuses."""

from typing import Any

import numpy as np
from handlers import INF, NAN, ZEROS, chain, handler, join, joined, log, reason, untouched
from ledgers import put_back, snapshot

from dpadmm.federation.messages import to_bytes
from dpadmm.privacy.ledger.verify import verify


def test_a_round_is_answered_once_and_repeated_at_no_cost_also_after_a_restart(lived: Any) -> None:
    asked, digest = joined(lived)
    first = asked.answer_step("study", digest, 1, ZEROS, {})
    assert len(first["value"]) == 32
    assert len(first["seal"]) == 3
    assert lived.steps("ahorn") == ["1"]
    with untouched(lived):
        assert asked.answer_step("study", digest, 1, ZEROS, {}) == first
        other = to_bytes(np.full(4, 1e-300))
        assert "answered for other inputs" in reason(asked.answer_step("study", digest, 1, other, {}))
    again = handler(lived)
    with untouched(lived):
        assert "not joined" in reason(again.answer_step("study", digest, 2, ZEROS, {}))
        assert join(lived, again, "study", lived.terms(), first["seal"]) == 1
        assert again.answer_step("study", digest, 1, ZEROS, {}) == first
        assert "answered for other inputs" in reason(again.answer_step("study", digest, 1, other, {}))
    assert "value" in again.answer_step("study", digest, 2, ZEROS, {})
    assert lived.steps("ahorn") == ["1", "2"]
    assert verify(lived.ledger("ahorn")) == []


NONSENSE: list[tuple[dict[str, Any], str]] = [
    ({"run": "other"}, "not joined"),
    ({"run": None}, "not joined"),
    ({"run": ["study"]}, "not joined"),
    ({"digest": "0" * 64}, "joined on other terms"),
    ({"digest": None}, "joined on other terms"),
    ({"digest": ["x"]}, "joined on other terms"),
    ({"step": 0}, "no such step"),
    ({"step": -1}, "no such step"),
    ({"step": 3}, "round 2 is next, not 3"),
    ({"step": 7}, "no such step"),
    ({"step": 10**30}, "no such step"),
    ({"step": "2"}, "no such step"),
    ({"step": 2.0}, "no such step"),
    ({"step": True}, "no such step"),
    ({"step": None}, "no such step"),
    ({"step": "evaluation"}, "have no evaluation"),
    ({"inputs": None}, "must come as bytes"),
    ({"inputs": "0" * 32}, "must come as bytes"),
    ({"inputs": [0.0] * 4}, "must come as bytes"),
    ({"inputs": np.zeros(4)}, "must come as bytes"),
    ({"inputs": bytearray(32)}, "must come as bytes"),
    ({"inputs": ZEROS[:-1]}, "must come as bytes"),
    ({"inputs": b""}, "shape"),
    ({"inputs": ZEROS[:-8]}, "shape"),
    ({"inputs": ZEROS + ZEROS}, "shape"),
    ({"inputs": NAN}, "finite"),
    ({"inputs": INF}, "finite"),
    ({"inputs": to_bytes(np.full(4, 1.1e9))}, "at most 1e+09"),
    ({"missed_inputs": None}, "inputs by round"),
    ({"missed_inputs": []}, "inputs by round"),
    ({"missed_inputs": "1"}, "inputs by round"),
    ({"missed_inputs": {"1": None}}, "must come as bytes"),
    ({"missed_inputs": {"1": ZEROS}}, "needs the inputs of all rounds in between"),
    ({"missed_inputs": {"one": ZEROS}}, "right before"),
    ({"missed_inputs": {2: ZEROS}}, "right before"),
    ({"missed_inputs": {1.0: ZEROS}}, "right before"),
    ({"missed_inputs": {"-1": ZEROS}}, "right before"),
    ({"missed_inputs": {None: ZEROS}}, "right before"),
    ({"missed_inputs": {"1": ZEROS[:8]}}, "shape"),
    ({"missed_inputs": {"9" * 5000: ZEROS}}, "agent failed"),
    ({"last_used": 0}, "cannot be the last whose release was used"),
    ({"last_used": 1}, "cannot be the last whose release was used"),
    ({"last_used": -1}, "must be the number of a round"),
    ({"last_used": 10**30}, "must be the number of a round"),
    ({"last_used": "1"}, "must be the number of a round"),
    ({"last_used": True}, "must be the number of a round"),
    ({"last_used": 1.0}, "must be the number of a round"),
    ({"last_used": [1]}, "must be the number of a round"),
]


def test_requests_that_make_no_sense_are_refused(lived: Any) -> None:
    asked, digest = joined(lived)
    asked.answer_step("study", digest, 1, ZEROS, {})
    good = {"run": "study", "digest": digest, "step": 2, "inputs": ZEROS, "missed_inputs": {}, "last_used": None}
    for change, said in NONSENSE:
        with untouched(lived):
            assert said in reason(asked.answer_step(**{**good, **change})), change
    assert "value" in asked.answer_step(**good)


def test_no_more_rounds_are_answered_than_agreed_and_none_after_the_end(lived: Any) -> None:
    asked, digest = joined(lived, rounds=2)
    for round in (1, 2):
        assert "value" in asked.answer_step("study", digest, round, ZEROS, {})
    with untouched(lived):
        assert "no such step" in reason(asked.answer_step("study", digest, 3, ZEROS, {}))
    assert asked.finish("study") == {"finished": "study"}
    with untouched(lived):
        for each in (asked, handler(lived)):
            assert "not joined" in reason(each.answer_step("study", digest, 1, ZEROS, {}))
            assert "not joined" in reason(each.finish("study"))
            assert "is finished" in reason(each.join("study", lived.terms(rounds=2).dumps()))
    assert [entry["kind"] for entry in log(lived)].count("finished") == 1


def test_rounds_may_be_missed_where_the_terms_say_so(lived: Any) -> None:
    asked, digest = joined(lived, stragglers="reuse")
    assert "value" in asked.answer_step("study", digest, 1, ZEROS, {})
    with untouched(lived):
        assert "needs the inputs" in reason(asked.answer_step("study", digest, 4, ZEROS, {"3": ZEROS}))
    reply = asked.answer_step("study", digest, 4, ZEROS, {"2": ZEROS, "3": ZEROS})
    with untouched(lived):
        assert asked.answer_step("study", digest, 4, ZEROS, {2: ZEROS, "3": ZEROS}) == reply
        assert "closed" in reason(asked.answer_step("study", digest, 3, ZEROS, {"2": ZEROS}))
    assert lived.steps("ahorn") == ["1", "4"]
    given = ("study", digest, 6, ZEROS)
    for counted in (2, 4, 5, 6, 10**9):  # nothing was released there, or that is the last release itself
        with untouched(lived):
            missed = {"4": ZEROS, "5": ZEROS}
            assert f"round {counted} cannot be the last whose release was used" in reason(
                asked.answer_step(*given, missed, counted)
            )
    for missed in ({"5": ZEROS}, {"3": ZEROS, "4": ZEROS, "5": ZEROS}):
        with untouched(lived):
            assert "needs the inputs of all rounds in between" in reason(asked.answer_step(*given, missed, 1))
    assert "value" in asked.answer_step(*given, {"4": ZEROS, "5": ZEROS}, 1)
    assert lived.steps("ahorn") == ["1", "4", "6"]


def test_an_old_backup_of_the_ledger_locks_itself_when_it_is_shown_a_later_seal(lived: Any) -> None:
    asked, digest = joined(lived)
    terms = lived.terms().dumps()
    early = asked.answer_step("study", digest, 1, ZEROS, {})["seal"]
    ledger = asked._agents["study"][0].ledger  # type: ignore[attr-defined]
    backup = snapshot(ledger)
    late = asked.answer_step("study", digest, 2, ZEROS, {})["seal"]
    put_back(ledger, backup, log=True)  # the whole machine; the log alone would say so at once
    restored = handler(lived)
    assert restored.join("study", terms, early)["rounds_answered"] == 1  # nothing it does not know
    for shown in ([late[0], "0" * 64, late[2]], [late[0], late[1], "0" * 64], [0, "", ""], [None, None, None]):
        with untouched(lived):
            assert "not one of this ledger's" in reason(restored.join("study", terms, shown))
    for shown in ("seal", [1, 2], late * 2, {"number": 1}, 7):
        with untouched(lived):
            assert "malformed seal" in reason(restored.join("study", terms, shown))
    assert "old backup" in reason(handler(lived).join("study", terms, late))
    assert chain(lived)[-1] == "lock"
    for again in (restored, handler(lived)):
        with untouched(lived):
            assert "locked" in reason(again.join("study", terms))
            assert "refused" in again.answer_step("study", digest, 2, ZEROS, {})
    assert lived.steps("ahorn") == ["1"]
