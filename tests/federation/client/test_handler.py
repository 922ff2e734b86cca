"""An owner's handler: who may ask, what odd arguments and unforeseen errors come to, and rounds on a graph."""

from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from handlers import INF, NAN, ZEROS, handler, join, joined, log, reason, untouched, why
from hypothesis import given, settings
from hypothesis import strategies as some

from dpadmm.federation.cards import OWNER, RELEASE, TERMS
from dpadmm.federation.client.handler import Handler
from dpadmm.federation.client.peer import Turns
from dpadmm.federation.frames import encode
from dpadmm.federation.identity import Identity
from dpadmm.federation.messages import VERSION, release_parts


def test_no_step_is_answered_before_the_owners_are_confirmed(lived: Any) -> None:
    made, terms = handler(lived), lived.terms()
    confirmation = lived.confirmation("study", terms)
    assert "not joined" in reason(made.confirm(**confirmation))
    made.join("study", terms.dumps())
    with untouched(lived):
        assert "not confirmed" in reason(made.answer_step("study", terms.digest, 1, ZEROS, {}))
        cards, signatures = confirmation["cards"], confirmation["signatures"]
        stranger, renewed = Identity.create("birke", OWNER), lived.identities["birke"].renewed()
        for other in (
            {"cards": {**cards, "birke": stranger.card.dumps()}},  # an invented owner
            {"cards": {**cards, "birke": renewed.card.dumps()}},
            {"cards": {**cards, "birke": cards["eiche"]}, "signatures": {**signatures, "birke": signatures["eiche"]}},
            {"cards": {**cards, "ahorn": Identity.create("ahorn", OWNER).card.dumps()}},  # its own, swapped
            {"signatures": {**signatures, "birke": signatures["eiche"]}},
            {"signatures": {**signatures, "birke": stranger.sign(TERMS, "study", terms.digest)}},
            {"signatures": {**signatures, "birke": lived.identities["birke"].sign(TERMS, "other", terms.digest)}},
            {"signatures": {**signatures, "birke": lived.identities["birke"].sign(RELEASE, "study", terms.digest)}},
            {"signatures": {**signatures, "birke": None}},
            {"signatures": {"ahorn": signatures["ahorn"]}},
            {"signatures": {**signatures, "linde": b""}},
            {"cards": list(cards.values())},
            {"cards": {**cards, "birke": None}},
            {"cards": {**cards, "birke": "x" * 100_000}},
            {"cards": None},
        ):
            assert set(made.confirm(**{**confirmation, **other})) == {"refused"}, other
            assert "not confirmed" in reason(made.answer_step("study", terms.digest, 1, ZEROS, {}))
    assert made.confirm(**confirmation) == {"confirmed": terms.digest}
    reply = made.answer_step("study", terms.digest, 1, ZEROS, {})
    parts = release_parts("study", terms.digest, 1, reply["value"], reply["seal"])
    lived.identities["ahorn"].card.verify(RELEASE, reply["signature"], *parts)


def test_confirmation_of_one_run_is_none_of_another(lived: Any) -> None:
    lived.allow("ahorn", epsilon=50.0)
    made, digest = joined(lived)
    made.join("other", lived.terms().dumps())
    assert "not confirmed" in reason(made.answer_step("other", digest, 1, ZEROS, {}))
    assert "not confirmed" in reason(made.run_rounds("other", digest, 0, 1.0, lambda *_: (), None))  # type: ignore[arg-type]


def test_a_desk_says_how_many_records_it_has_and_which_columns(lived: Any, small_federation: ModuleType) -> None:
    with untouched(lived):
        assert handler(lived).introduce() == {
            "version": VERSION,
            "card": lived.identities["ahorn"].card.dumps(),
            "count": 60,
            "columns": small_federation.SCHEMA.digest,
            "dry_run": True,
        }
    lived.owner("birke").save(lived.settings("birke", None))
    assert handler(lived, "birke").introduce()["dry_run"] is False
    assert not lived.ledger_path("ahorn").exists()


odd = some.recursive(
    some.none()
    | some.booleans()
    | some.integers()
    | some.floats()
    | some.text(max_size=6)
    | some.binary(max_size=40)
    | some.sampled_from(["study", "ring", ZEROS, NAN, INF, object(), np.zeros(4), b"\xff" * 32, 10**400]),
    lambda inner: some.lists(inner, max_size=3) | some.dictionaries(some.text(max_size=2) | some.integers(), inner),
    max_leaves=4,
)


@pytest.fixture(scope="module")
def hub(small_federation: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Handler, dict[str, Any]]:
    """A desk in the middle of two runs, with a server and on a graph."""
    lived = small_federation.SmallFederation(tmp_path_factory.mktemp("hub"))
    lived.allow("ahorn", epsilon=50.0)
    made = handler(lived)
    terms = {"study": lived.terms(), "ring": lived.terms(algorithm="private-r-admm", topology="ring:3")}
    for run, each in terms.items():
        join(lived, made, run, each)
    made.answer_step("study", terms["study"].digest, 1, ZEROS, {})
    return lived, made, terms


@given(some.data())
@settings(max_examples=150, derandomize=True)
def test_no_exception_and_no_release_comes_of_odd_arguments(
    hub: tuple[Any, Handler, dict[str, Any]], data: Any
) -> None:
    lived, asked, terms = hub
    before = lived.steps("ahorn"), lived.steps("ahorn", "ring")
    method = data.draw(
        some.sampled_from(["join", "confirm", "answer_step", "finish", "run_rounds", "rounds_status", "hear"])
    )
    run = data.draw(some.sampled_from(["study", "ring"]))
    known: dict[str, Any] = {"run": run, "digest": terms[run].digest, "terms": terms[run].dumps(), "step": 2}
    known |= {
        "inputs": ZEROS,
        "missed_inputs": {},
        "last_used": None,
        "seen": None,
        "known": [],
        "start": 1,
        "timeout": 0.01,
        "round": 1,
        "sender": "birke",
        "sealed": ZEROS,
        **{name: part for name, part in lived.confirmation(run, terms[run]).items() if name != "run"},
    }
    names = {
        "confirm": ["run", "cards", "signatures", "seals"],
        "join": ["run", "terms", "seen", "known"],
        "answer_step": ["run", "digest", "step", "inputs", "missed_inputs", "last_used"],
        "finish": ["run"],
        "run_rounds": ["run", "digest", "start", "timeout"],
        "rounds_status": ["run"],
        "hear": ["run", "sender", "round", "sealed"],
    }[method]
    wrong = data.draw(some.sets(some.sampled_from(names), min_size=1))
    call = {name: data.draw(odd) if name in wrong else known[name] for name in names}
    if all(type(call.get(name)) is type(known[name]) and call[name] == known[name] for name in names):
        return
    named = isinstance(call.get("run"), str) and call["run"] in ("study", "ring")  # an array compares by entries
    if (type(call.get("start")) is int and call["start"] == 0) or (method in ("finish", "rounds_status") and named):
        return  # these are in order
    if method == "rounds_status":
        call |= {"end": None}
    if method == "run_rounds":
        call |= {"relay": lambda *_: (), "turn": lambda work: work()}
    reply = getattr(asked, method)(**call)
    assert isinstance(reply, dict)
    if method == "confirm" and call["seals"] is None:  # as if nobody had kept any
        wrong = wrong - {"seals"}
    joined_again = {"joined", "rounds_answered", "signature", "seal", "seals"}
    assert set(reply) in ({"refused"}, joined_again) or (set(reply) == {"confirmed"} and not wrong), reply
    encode(reply)
    assert (lived.steps("ahorn"), lived.steps("ahorn", "ring")) == before


def test_an_error_nobody_thought_of_is_refused_without_its_text(lived: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    asked, digest = joined(lived)

    def fails(*_: Any) -> Any:
        raise MemoryError("the row [42.4242, 'planted']")

    monkeypatch.setattr(asked._agents["study"][0], "answer", fails)  # type: ignore[attr-defined]
    monkeypatch.setattr("dpadmm.federation.client.handler.Agreement.loads", fails)
    for call in (
        lambda: asked.answer_step("study", digest, 1, ZEROS, {}),
        lambda: asked.join("study", lived.terms().dumps()),
    ):
        with untouched(lived):
            assert reason(call()) == "this owner's agent failed; its log says how."
        assert (log(lived)[-1]["kind"], log(lived)[-1]["reason"]) == ("error", "MemoryError")
    assert "planted" not in (lived.owner("ahorn").path / "events.jsonl").read_text()


def test_a_log_that_cannot_be_written_keeps_nobody_from_refusing(lived: Any) -> None:
    asked = handler(lived)
    (lived.owner("ahorn").path / "events.jsonl").mkdir()
    assert "cannot be read" in reason(asked.join("study", ""))
    assert asked.introduce()["count"] == 60


class Here(Turns):
    def __init__(self) -> None: ...

    def __call__(self, call: Callable[[], Any]) -> Any:
        return call()


def test_a_desk_on_a_graph_waits_for_its_neighbours_and_names_who_is_late(lived: Any) -> None:
    made, digest = joined(lived, algorithm="private-r-admm", topology="ring:3")
    others = {
        name: joined(lived, name, algorithm="private-r-admm", topology="ring:3")[0] for name in ("birke", "eiche")
    }
    told: list[Any] = []

    def relay(run: str, round: int, letters: dict[str, bytes], timeout: float) -> list[str]:
        told.append((run, round, letters))
        return list(letters)

    def letter(sender: str, round: int, value: bytes) -> bytes:
        return bytes(others[sender]._letters["study"][1].sealed("ahorn", round, value))

    assert made.rounds_status("study", None) == {"round": 0}
    reply = made.run_rounds("study", digest, 0, 0.01, relay, Here())
    assert reason(reply) == "birke, eiche did not tell its release of round 1 within 0.01 s."
    assert made.rounds_status("study", None) == {"round": 1}
    assert made.rounds_status("study", reply) == reply
    assert lived.steps("ahorn") == ["1"]
    assert (told[0][:2], list(told[0][2])) == (("study", 1), ["birke", "eiche"])
    assert others["birke"].hear("study", "ahorn", 1, told[0][2]["birke"]) == {"heard": 1}
    assert "not what ahorn wrote" in reason(others["birke"].hear("study", "ahorn", 1, told[0][2]["eiche"]))
    for sender, round, sealed, said in (
        ("linde", 1, letter("birke", 1, ZEROS), "nobody who takes part"),
        ("server", 1, letter("birke", 1, ZEROS), "nobody who takes part"),
        ("eiche", 1, letter("birke", 1, ZEROS), "not what eiche wrote"),
        ("birke", 2, letter("birke", 1, ZEROS), "not what birke wrote"),
        ("birke", 1, ZEROS, "not what birke wrote"),
        ("birke", 0, letter("birke", 0, ZEROS), "no such round"),
        ("birke", 7, letter("birke", 7, ZEROS), "no such round"),
        ("birke", 1, letter("birke", 1, ZEROS[:-8]), "3 numbers, not 4"),
        ("birke", 1, letter("birke", 1, NAN), "not finite"),
    ):
        assert said in reason(made.hear("study", sender, round, sealed))
    assert "not joined" in reason(made.hear("other", "birke", 1, ZEROS))
    assert made.hear("study", "birke", 1, letter("birke", 1, ZEROS)) == {"heard": 1}
    reply = made.run_rounds("study", digest, 0, 0.01, relay, Here())
    assert reason(reply) == "eiche did not tell its release of round 1 within 0.01 s."
    assert lived.steps("ahorn") == ["1"]
    made.hear("study", "eiche", 1, letter("eiche", 1, ZEROS))
    lived.allow("ahorn", algorithms=["pvp"])
    assert "not allowed here" in why(lived, made.run_rounds("study", digest, 0, 0.01, relay, Here()))
    assert lived.steps("ahorn") == ["1"]
    lived.allow("ahorn")
    for start, said in ((-1, "no such round"), (7, "no such round"), (2, "no such release"), ("0", "other terms")):
        assert said in reason(made.run_rounds("study", digest, start, 0.01, relay, Here()))
    assert "other terms" in reason(made.run_rounds("study", "0" * 64, 0, 0.01, relay, Here()))
    assert "other terms" in reason(made.run_rounds("study", digest, 0, None, relay, Here()))

    def unreachable(*_: Any) -> list[str]:
        return ["birke"]

    said = reason(made.run_rounds("study", digest, 0, 0.01, unreachable, Here()))
    assert said == "a neighbour cannot be told the release of round 1 (eiche)."
    assert lived.steps("ahorn") == ["1"]


def test_a_run_with_a_server_is_not_walked(lived: Any) -> None:
    made, digest = joined(lived)
    with untouched(lived):
        reply = made.run_rounds("study", digest, 0, 1.0, lambda *_: (), None)  # type: ignore[arg-type]
        assert "has a server" in reason(reply)
        assert "has a server" in reason(made.rounds_status("study", None))
        assert "not what birke wrote" in reason(made.hear("study", "birke", 1, ZEROS))
