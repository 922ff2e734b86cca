"""Whose an owner is: cards that are trusted, terms that all have signed, releases that are their owners' own."""

from __future__ import annotations

import json
import shutil
from typing import Any

import numpy as np
import pytest
from coordinated_runs import RING, all_once, coefficients, everything, outcome
from small_federation import identity

from dpadmm.engine.output.checkpoint import load, save
from dpadmm.federation.cards import COORDINATOR, OWNER, RELEASE, TERMS
from dpadmm.federation.identity import Identity
from dpadmm.federation.messages import release_parts, terms_parts
from dpadmm.federation.server.state import CoordinatorState

pytestmark = pytest.mark.usefixtures("hurried")
STRANGER = Identity.create("birke", OWNER)


def tampered(lived: Any, method: str, change: Any, name: str = "birke", **changes: Any) -> dict[str, Any]:
    """A run in which one owner's replies to a method are others."""
    line = lived.line()
    line.tamper = lambda who, what, reply: {**reply, **change(reply)} if (who, what) == (name, method) else reply
    return dict(lived.run(lived.folder(**changes), line))


# -- cards -------------------------------------------------------------------------------------------------------------


def test_terms_name_the_cards_that_the_coordinator_trusts(lived: Any, undisturbed: np.ndarray) -> None:
    folder = lived.folder()
    assert lived.run(folder)["state"] == "finished"
    agreement = folder.agreement()
    assert agreement.identities == tuple(lived.pins()[name].fingerprint for name in agreement.owners)
    assert agreement == lived.terms()
    for name, signature in folder.signatures().items():
        lived.pins()[name].verify(TERMS, signature, *terms_parts("study", agreement.digest))
    assert sorted(folder.signatures()) == sorted(lived.counts)
    assert np.array_equal(coefficients(folder), undisturbed)


def test_owner_without_a_trusted_card_is_not_asked(lived: Any) -> None:
    pins, folder, line = lived.pins(), lived.folder(), lived.line()
    lived.pins = lambda: {name: card for name, card in pins.items() if name != "birke"}
    status = lived.run(folder, line)
    assert (status["state"], line.calls) == ("refused", [])
    assert status["message"] == "no card of birke is trusted here; add it with 'dpadmm federation add'."


@pytest.mark.parametrize(
    ("card", "said"),
    [
        (STRANGER.card.dumps(), "shows another card than the one that is trusted here"),
        (identity("ahorn").card.dumps(), "shows another card"),
        (identity("birke").renewed().card.dumps(), "shows another card"),
        (Identity.create("birke", COORDINATOR).card.dumps(), "shows another card"),
        ("{}", "shows no card"),
        (None, "shows no card"),
        (7, "shows no card"),
        ("x" * 100_000, "shows no card"),
    ],
)
def test_owner_that_shows_another_card_is_refused_before_anything_is_spent(lived: Any, card: Any, said: str) -> None:
    status = tampered(lived, "introduce", lambda reply: {"card": card})
    assert status["state"] == "refused"
    assert status["message"].startswith("birke ")
    assert said in status["message"]
    assert set(everything(lived).values()) == {0}


def test_run_does_not_go_on_with_another_card(lived: Any) -> None:
    folder, line = lived.folder(), lived.line()
    line.reaches = lambda name, method, call: not (method == "answer_step" and call["step"] == 4)
    assert lived.run(folder, line)["state"] == "interrupted"
    before, pins = everything(lived), lived.pins()
    lived.pins = lambda: {**pins, "birke": identity("birke").renewed().card}
    status = lived.run(folder)
    assert (status["state"], everything(lived)) == ("refused", before)
    assert status["message"] == "birke has another card than when the run began; submit a new run."
    lived.pins = lambda: pins
    assert lived.run(folder)["state"] == "finished"


# -- terms -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "signature",
    [
        None,
        b"",
        bytes(64),
        "0" * 128,
        lambda run, digest: STRANGER.sign(TERMS, run, digest),
        lambda run, digest: identity("ahorn").sign(TERMS, run, digest),
        lambda run, digest: identity("birke").sign(TERMS, "other", digest),
        lambda run, digest: identity("birke").sign(TERMS, run, "0" * 64),
        lambda run, digest: identity("birke").sign(RELEASE, run, digest),
    ],
)
def test_terms_that_an_owner_has_not_signed_end_the_run_before_a_step(lived: Any, signature: Any) -> None:
    def change(reply: Any) -> dict[str, Any]:
        return {"signature": signature("study", reply["joined"]) if callable(signature) else signature}

    status = tampered(lived, "join", change)
    assert status["state"] == "failed"
    assert status["message"].startswith("birke has not signed the terms: ")
    assert all(lived.steps(name) == [] for name in lived.counts)


def test_hostile_coordinator_cannot_put_an_invented_owner_beside_an_honest_one(lived: Any) -> None:
    """It has made the keys of two owners itself. The terms say so, and the third owner does not sign for others."""
    pins, line = lived.pins(), lived.line(("ahorn",))
    invented = {name: Identity.create(name, OWNER) for name in ("birke", "eiche")}
    terms = lived.terms()
    assert terms.identities == tuple(pins[name].fingerprint for name in terms.owners)
    desk = line.desks["ahorn"]
    assert "joined" in desk.answer("join", {"run": "study", "terms": terms.dumps(), "seen": None, "known": []})
    for keys in (invented, {name: lived.identities[name] for name in invented}):
        known = {"ahorn": lived.identities["ahorn"], **keys}
        cards = {name: each.card.dumps() for name, each in known.items()}
        signing = {"ahorn": lived.identities["ahorn"], **invented}
        signatures = {name: each.sign(TERMS, *terms_parts("study", terms.digest)) for name, each in signing.items()}
        reply = desk.answer("confirm", {"run": "study", "cards": cards, "signatures": signatures, "seals": {}})
        assert "has not joined on these terms" in reply["refused"]
    step = {
        "run": "study",
        "digest": terms.digest,
        "step": 1,
        "inputs": bytes(32),
        "missed_inputs": {},
        "last_used": None,
    }
    assert "not confirmed" in desk.answer("answer_step", step)["refused"]
    assert lived.steps("ahorn") == []


def test_no_step_is_asked_before_all_have_joined_also_where_rounds_may_be_missed(lived: Any) -> None:
    folder, line = lived.folder(stragglers="skip", min_owners=1), lived.line()
    line.reaches = lambda name, method, call: (name, method) != ("birke", "join")
    status = lived.run(folder, line)
    assert (status["state"], status["message"]) == ("interrupted", "birke must join before the run can begin.")
    assert all(lived.steps(name) == [] for name in lived.counts)
    line = lived.line(("birke",))  # a later job has the others' signatures from the first
    line.reaches = lambda name, method, call: method != "answer_step"
    assert lived.run(folder, line)["message"].endswith("owners answered in round 1")
    assert {method for _, method, _ in line.calls} == {"introduce", "join", "confirm", "answer_step"}
    assert lived.run(folder)["state"] == "finished"
    all_once(lived)


def test_signature_in_the_folder_that_was_changed_is_noticed(lived: Any) -> None:
    folder, line = lived.folder(), lived.line()
    line.reaches = lambda name, method, call: not (method == "answer_step" and call["step"] == 4)
    lived.run(folder, line)
    path = folder.path / "signatures.json"
    kept = json.loads(path.read_text())
    for other in (kept["ahorn"], "00" * 64, ""):
        path.write_text(json.dumps({**kept, "birke": other}))
        status = lived.run(folder)
        assert status["state"] == "failed"
        assert status["message"].startswith("birke has not signed the terms")
    path.write_text("[]")
    assert "holds no signatures" in lived.run(folder)["message"]
    path.unlink()  # all are there to sign again
    assert lived.run(folder)["state"] == "finished"


@pytest.mark.parametrize("reply", [{"confirmed": "0" * 64}, {"confirmed": True}])
def test_owner_that_does_not_confirm_is_named(lived: Any, reply: Any) -> None:
    status = tampered(lived, "confirm", lambda _: reply)
    assert (status["state"], status["message"]) == ("failed", "birke did not say whether it knows the other owners.")


# -- releases ----------------------------------------------------------------------------------------------------------


def forged(signer: Identity, **changes: Any) -> Any:
    def change(reply: Any) -> dict[str, Any]:
        given = {"run": "study", "digest": "", "step": 1, "value": reply["value"], "seal": reply["seal"], **changes}
        return {"signature": signer.sign(RELEASE, *release_parts(**given))}

    return change


@pytest.mark.parametrize(
    "change",
    [
        lambda reply: {"signature": None},
        lambda reply: {"signature": bytes(64)},
        lambda reply: {"value": bytes(32)},
        lambda reply: {"seal": None},
        forged(STRANGER),
        forged(identity("ahorn")),
        forged(identity("birke"), run="other"),
        forged(identity("birke"), digest="0" * 64),
        forged(identity("birke"), step=2),
        forged(identity("birke"), value=bytes(32)),
    ],
)
def test_release_that_its_owner_has_not_signed_is_no_release(lived: Any, change: Any) -> None:
    status = tampered(lived, "answer_step", change)
    assert status["state"] == "failed"
    assert status["message"].startswith("birke, round 1: ")


def test_release_of_an_earlier_round_is_no_release_of_a_later_one(lived: Any) -> None:
    kept: list[Any] = []

    def replay(reply: Any) -> Any:
        kept.append(reply)
        return kept[0]

    status = tampered(lived, "answer_step", replay, stragglers="reuse")
    assert status["state"] == "finished"
    folder = lived.folder(stragglers="reuse")
    assert outcome(folder)["missed_rounds"] == {"birke": [2, 3, 4, 5, 6]}
    assert "birke, round 2: the signature" in (folder.path / "events.txt").read_text()


def test_estimates_and_last_releases_of_a_graph_are_signed_as_well(lived: Any) -> None:
    status = tampered(
        lived, "rounds_status", lambda reply: {"signature": bytes(64)} if "value" in reply else {}, **RING
    )
    assert (status["state"], status["message"][:20]) == ("failed", "birke: the signature")
    shutil.rmtree(lived.home / "runs")
    line = lived.line()
    line.tamper = lambda name, method, reply: (
        {**reply, "signature": bytes(64)} if method == "answer_step" and len(reply["value"]) == 8 else reply
    )
    status = lived.run(lived.folder(name="other", algorithm="pvp", evaluation_epsilon=0.5), line)
    assert (status["state"], "evaluation: the signature" in status["message"]) == ("failed", True)


def test_checkpoint_holds_releases_with_their_signatures_and_is_checked(lived: Any) -> None:
    folder, line = lived.folder(), lived.line()
    line.reaches = lambda name, method, call: not (method == "answer_step" and call["step"] == 4)
    lived.run(folder, line)
    digest, path = folder.agreement().digest, folder.path / "checkpoint.npz"
    state, history = load(path, digest, CoordinatorState.from_arrays)
    for agent, name in enumerate(folder.agreement().owners):
        value = state.shared.released[0, agent].astype("<f8").tobytes()
        seal = state.seals[agent]
        parts = release_parts("study", digest, 3, value, [seal.head, seal.mark, seal.signature])
        lived.pins()[name].verify(RELEASE, state.signatures[agent], *parts)
    good = path.read_bytes()
    state.shared.released[0, 1, 0] += 1e-9
    save(path, digest, state, history)
    status = lived.run(folder)
    assert status["state"] == "failed"
    assert status["message"].startswith("the checkpoint's release of birke, round 3: the signature")
    path.write_bytes(good)
    assert lived.run(folder)["state"] == "finished"
    all_once(lived)
