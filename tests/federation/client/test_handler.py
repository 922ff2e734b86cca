"""An owner's desk: who may ask, what is refused, and that nothing of the records gets past it but releases."""

import csv
import json
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from dpadmm.federation.client.files import OwnerFiles
from dpadmm.federation.client.handler import Handler
from dpadmm.federation.client.peer import Turns
from dpadmm.federation.client.sources import PASSWORD
from dpadmm.federation.messages import LARGEST_TEXT, VERSION, to_bytes
from dpadmm.privacy.accounting import best
from dpadmm.privacy.ledger.sqlite import SqliteLedger
from dpadmm.privacy.ledger.verify import verify

ZEROS = to_bytes(np.zeros(4))
GENERIC = "this owner's records are not as agreed; 'dpadmm agent check' tells the owner why."


@pytest.fixture
def lived(small_federation: ModuleType, tmp_path: Path) -> Any:
    return small_federation.SmallFederation(tmp_path)


def handler(lived: Any, name: str = "ahorn") -> Handler:
    """A fresh process of an owner."""
    return Handler(OwnerFiles(lived.home / name), name)


def joined(lived: Any, name: str = "ahorn", **changes: Any) -> tuple[Handler, str]:
    """A desk that has agreed to the run 'study', and the digest of the terms."""
    terms, made = lived.terms(**changes), handler(lived, name)
    assert made.join("server", "study", terms.dumps()) == {"joined": terms.digest, "rounds_answered": 0}
    return made, terms.digest


def chain(lived: Any, name: str = "ahorn") -> list[str]:
    """The kinds of all entries of an owner's ledger."""
    path = lived.ledger_path(name)
    return [entry["kind"] for entry in SqliteLedger.open(path, reading=True).entries()] if path.exists() else ["create"]


@contextmanager
def untouched(lived: Any, name: str = "ahorn") -> Iterator[None]:
    """Whatever is asked inside adds nothing to the owner's chain: no reservation, no debit."""
    before = chain(lived, name)
    yield
    assert chain(lived, name) == before


def log(lived: Any, name: str = "ahorn") -> list[dict[str, Any]]:
    return OwnerFiles(lived.home / name).events(1000)


def reason(reply: dict[str, Any]) -> str:
    assert list(reply) == ["refused"]
    return str(reply["refused"])


# -- who may ask -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "caller", ["birke", "ahorn", "Server", "server ", "", "admin@town", None, 7, ["server"], b"server"]
)
def test_nobody_but_the_coordinator_may_ask(lived: Any, caller: Any) -> None:
    asked, digest = joined(lived)
    terms = lived.terms(rounds=3).dumps()
    calls: list[tuple[str, Callable[[], Any]]] = [
        ("introduction", lambda: asked.introduce(caller)),
        ("join", lambda: asked.join(caller, "other", terms)),
        ("answer", lambda: asked.answer(caller, "study", digest, 1, ZEROS, {})),
        ("run_rounds", lambda: asked.run_rounds(caller, "study", digest, 0, lambda *_: None, 1.0, lambda call: call())),
        ("rounds_status", lambda: asked.rounds_status(caller, "study", {"value": ZEROS})),
        ("finish", lambda: asked.finish(caller, "study")),
    ]
    for what, call in calls:
        with untouched(lived):
            assert reason(call()) == "only the coordinator may ask that."
        last = log(lived)[-1]
        assert (last["kind"], last["asked"]) == ("refused", what)
        assert last["by"] == (caller if isinstance(caller, str | int | list | None) else type(caller).__name__)
    assert "value" in asked.answer("server", "study", digest, 1, ZEROS, {})


def test_a_desk_says_how_many_records_it_has_and_which_columns(lived: Any, small_federation: ModuleType) -> None:
    with untouched(lived):
        assert handler(lived).introduce("server") == {
            "version": VERSION,
            "count": 60,
            "columns": small_federation.SCHEMA.digest,
            "dry_run": True,
        }
    OwnerFiles(lived.home / "birke").save(lived.settings("birke", None))
    assert handler(lived, "birke").introduce("server")["dry_run"] is False
    assert not lived.ledger_path("ahorn").exists()


# -- joining -----------------------------------------------------------------------------------------------------------


def test_terms_for_other_columns_or_other_owners_are_refused(lived: Any, small_federation: ModuleType) -> None:
    terms, asked = lived.terms(), handler(lived)
    schema = replace(small_federation.SCHEMA, classes=("yes", "no"))
    refusals = [
        (replace(terms, schema=schema), "columns in the terms are not those"),
        (replace(terms, schema=None), "columns in the terms are not those"),
        (replace(terms, owners=()), "for nobody, and not for ahorn"),
        (replace(terms, owners=("birke", "eiche", "linde")), "for birke, eiche, linde, and not for ahorn"),
        (replace(terms, owners=("birke", "ahorn", "eiche")), "record counts in the terms are not those"),
    ]
    for other, said in refusals:
        assert said in reason(asked.join("server", "study", other.dumps()))
        assert log(lived)[-1]["kind"] == "refused"
    assert chain(lived) == ["create"]
    place = replace(terms, owners=("birke", "ahorn", "eiche"), counts=(45, 60, 80))
    assert asked.join("server", "study", place.dumps())["rounds_answered"] == 0


@pytest.mark.parametrize(
    "terms", ["", "{}", "null", "[" * 1000, " " * (LARGEST_TEXT + 1), None, 5, b"{}", {"run": {}}, ["terms"]]
)
def test_what_are_no_terms_is_refused(lived: Any, terms: Any) -> None:
    with untouched(lived):
        assert "terms" in reason(handler(lived).join("server", "study", terms))


def test_terms_that_are_too_long_are_not_read(lived: Any) -> None:
    whole = lived.terms().dumps()
    padded = whole + " " * (LARGEST_TEXT - len(whole))
    assert "joined" in handler(lived).join("server", "study", padded)
    assert "reasonable length" in reason(handler(lived).join("server", "study", padded + " "))


@pytest.mark.parametrize(
    "run", ["", "x" * 101, "two\nlines", "\x1b[2J", "\ud800", None, 7, 10**30, b"run", ["run"], {}]
)
def test_a_run_with_an_odd_name_is_not_put_before_the_owner(lived: Any, run: Any) -> None:
    lived.allow("ahorn", approval="hand")
    asked = handler(lived)
    with untouched(lived):
        assert "name" in reason(asked.join("server", run, lived.terms().dumps()))
    assert OwnerFiles(lived.home / "ahorn").waiting() == {}


UNACCEPTABLE: list[tuple[dict[str, Any], dict[str, Any], str]] = [
    ({"algorithms": ["pvp"]}, {}, "algorithm 'dp-admm' is not allowed here"),
    ({"losses": ["smoothed-hinge"]}, {}, "loss 'logistic' is not allowed here"),
    ({"losses": ["logistic"]}, {"loss": "smoothed-hinge:0.5"}, "loss 'smoothed-hinge:0.5' is not allowed here"),
    ({}, {"relation": "zero-out"}, "relation 'zero-out' is not the 'replace'"),
    ({}, {"norm_bound": 1.5}, "norm bound 1.5 is above"),
    ({"smallest_count": 61}, {}, "fewer than the 61 records"),
    ({"records_per_person": 2}, {}, "the terms protect 1 record"),
    ({"epsilon": 1.9}, {}, "would come to epsilon 2 at delta 1e-06; its owner allows 1.9"),
    ({"delta": 1e-7}, {"epsilon": 3.99}, "would come to"),
    ({}, {"loss": "squared"}, "targets, which the agreed columns do not have"),
    ({}, {"loss": "no-such"}, "unknown loss 'no-such'"),
    ({}, {"algorithm": "no-such"}, "unknown algorithm 'no-such'"),
    ({}, {"algorithm": "auto"}, "algorithm 'auto' stands for"),
    ({}, {"rounds": 0}, "rounds"),
    ({}, {"norm_bound": -1.0}, "norm bound"),
    ({}, {"precision": "float16"}, "precision"),
    ({}, {"components": "2"}, "is a run of its own"),
    ({}, {"topology": "ring:3"}, "has a server"),
    ({}, {"stragglers": "skip", "algorithm": "obj-g"}, "counts on the duals of all agents"),
]


@pytest.mark.parametrize("approval", ["policy", "hand"])
@pytest.mark.parametrize(("mine", "theirs", "said"), UNACCEPTABLE)
def test_terms_that_the_policy_does_not_allow_are_refused(
    lived: Any, approval: str, mine: dict[str, Any], theirs: dict[str, Any], said: str
) -> None:
    lived.allow("ahorn", **mine, approval=approval)
    asked, site, text = handler(lived), OwnerFiles(lived.home / "ahorn"), lived.terms(**theirs).dumps()
    reply = asked.join("server", "study", text)
    if "waiting" in reply:  # and the owner's own yes does not lift what its policy forbids
        site.decide(site_digest(site), True)
        reply = asked.join("server", "study", text)
    assert said in reason(reply)
    assert chain(lived) == ["create"]
    assert "not joined" in reason(asked.answer("server", "study", lived.terms(**theirs).digest, 1, ZEROS, {}))


def site_digest(site: OwnerFiles) -> str:
    (digest,) = site.waiting()
    return digest


def test_a_recipe_that_is_not_private_is_refused(lived: Any) -> None:
    terms = lived.terms()
    plain = replace(terms, run=replace(terms.run, algorithm="admm", epsilon=None, delta=None))
    assert "algorithm 'admm' is not allowed here" in reason(handler(lived).join("server", "study", plain.dumps()))
    assert chain(lived) == ["create"]


def test_a_second_run_is_refused_when_the_budget_is_taken(lived: Any) -> None:
    lived.allow("ahorn", epsilon=2.5)
    asked, digest = joined(lived)
    with untouched(lived):
        assert "would come to" in reason(asked.join("server", "second", lived.terms().dumps()))
    assert "value" in asked.answer("server", "study", digest, 1, ZEROS, {})
    asked.finish("server", "study")
    assert "joined" in asked.join("server", "third", lived.terms(epsilon=1.0).dumps())


@pytest.mark.parametrize(
    ("policy", "named"),
    [(None, "cannot be read"), ("epsilon = ", "is not TOML"), ('dataset = "ahorn"', "lacks epsilon")],
)
def test_a_policy_that_cannot_be_read_is_the_owners_business(lived: Any, policy: str | None, named: str) -> None:
    if policy is None:
        lived.policy("ahorn").unlink()
    else:
        lived.policy("ahorn").write_text(policy)
    said = reason(handler(lived).join("server", "study", lived.terms().dumps()))
    assert said == "this owner's agent is not in order; its log says why."
    assert not lived.ledger_path("ahorn").exists()
    assert log(lived)[-1]["kind"] == "error"
    assert named in log(lived)[-1]["reason"]


def test_a_policy_made_stricter_during_a_job_holds_at_once(lived: Any) -> None:
    asked, digest = joined(lived)
    assert "value" in asked.answer("server", "study", digest, 1, ZEROS, {})
    for changes, said in (
        ({"epsilon": 0.01}, "its owner allows 0.01"),
        ({"algorithms": ["pvp"]}, "algorithm 'dp-admm' is not allowed here"),
        ({"relation": "zero-out"}, "another data set or relation"),
    ):
        lived.allow("ahorn", **changes)
        with untouched(lived):
            assert said in reason(asked.answer("server", "study", digest, 2, ZEROS, {}))
    lived.policy("ahorn").unlink()
    with untouched(lived):
        assert "not in order" in reason(asked.answer("server", "study", digest, 2, ZEROS, {}))
    lived.allow("ahorn", epsilon=100.0)
    assert "value" in asked.answer("server", "study", digest, 2, ZEROS, {})
    lived.policy("ahorn").unlink()
    assert asked.finish("server", "study") == {"finished": "study"}


# -- the owner's word --------------------------------------------------------------------------------------------------


def test_a_run_waits_for_the_owners_word_and_is_told_at_its_price(lived: Any) -> None:
    lived.allow("ahorn", epsilon=5.0)
    asked, _ = joined(lived, epsilon=1.0)
    asked.finish("server", "study")  # so that it is known, and holds nothing
    made, digest = joined_again(lived, "first", epsilon=1.5)
    made.answer("server", "first", digest, 1, ZEROS, {})
    lived.allow("ahorn", epsilon=5.0, approval="hand")
    asked, site, terms = (
        handler(lived),
        OwnerFiles(lived.home / "ahorn"),
        lived.terms(algorithm="pvp", evaluation_epsilon=0.5),
    )
    with untouched(lived):
        for _ in range(2):
            assert asked.join("server", "second", terms.dumps()) == {"waiting": terms.digest}
    (told,) = site.waiting().values()
    assert site_digest(site) == terms.digest
    (tally,) = terms.plan().take([0]).tallies()
    ledger = lived.ledger("ahorn")
    held = ledger.committed()
    both = {event: held.get(event, 0) + tally.get(event, 0) for event in [*held, *tally]}
    alone, before, after = (best(each, 1e-6, ledger.relation).epsilon for each in (tally, held, both))
    assert 0.0 < before < 1.5 + 1e-9 < alone < after < 5.0
    assert (told["epsilon_alone"], told["epsilon_before"], told["epsilon_after"]) == (alone, before, after)
    assert (told["epsilon_allowed"], told["delta"], told["releases"]) == (5.0, 1e-6, 7)
    assert (told["run"], told["stragglers"], told["owners"]) == ("second", "wait", ["ahorn", "birke", "eiche"])
    for part in (
        "Run 'second' (pvp, loss logistic)",
        "you and 2 other(s) for 7 noisy release(s) of 4 numbers",
        f"epsilon {alone:.4g} at delta 1e-06",
        f"committed to {before:.4g} of the 5",
        f"with this run {after:.4g}, which leaves {5.0 - after:.4g}.",
    ):
        assert part in told["sentence"]
    assert [entry["kind"] for entry in log(lived)].count("waiting") == 1
    assert site.decide(terms.digest[:6], True) == terms.digest
    assert site.waiting() == {}
    assert asked.join("server", "second", terms.dumps()) == {"joined": terms.digest, "rounds_answered": 0}
    assert lived.ledger("ahorn").guarantee(1e-6, held=True).epsilon == pytest.approx(after, rel=1e-12)
    again = handler(lived)  # and after a restart no word is needed for what was agreed
    assert again.join("server", "second", terms.dumps()) == {"joined": terms.digest, "rounds_answered": 0}
    assert site.waiting() == {}


def joined_again(lived: Any, run: str, **changes: Any) -> tuple[Handler, str]:
    terms, made = lived.terms(**changes), handler(lived)
    assert "joined" in made.join("server", run, terms.dumps())
    return made, terms.digest


def test_a_declined_run_is_refused_and_stays_refused(lived: Any) -> None:
    lived.allow("ahorn", approval="hand")
    asked, site, terms = handler(lived), OwnerFiles(lived.home / "ahorn"), lived.terms()
    asked.join("server", "study", terms.dumps())
    site.decide(terms.digest, False)
    for run in ("study", "other"):
        for each in (asked, handler(lived)):
            with untouched(lived):
                assert reason(each.join("server", run, terms.dumps())) == "the owner has declined these terms."
    assert site.waiting() == {}
    lived.allow("ahorn", approval="policy")  # also where the policy would do
    assert reason(asked.join("server", "study", terms.dumps())) == "the owner has declined these terms."


@pytest.mark.parametrize(
    "change", [{"epsilon": 1.9}, {"rounds": 7}, {"stragglers": "reuse"}, {"strength": 2e-3}, {"records_per_person": 2}]
)
def test_a_yes_to_some_terms_is_no_yes_to_others(lived: Any, change: dict[str, Any]) -> None:
    lived.allow("ahorn", approval="hand")
    asked, site, terms, other = handler(lived), OwnerFiles(lived.home / "ahorn"), lived.terms(), lived.terms(**change)
    asked.join("server", "study", terms.dumps())
    site.decide(terms.digest, True)
    with untouched(lived):
        assert asked.join("server", "study", other.dumps()) == {"waiting": other.digest}
    assert "not joined" in reason(asked.answer("server", "study", other.digest, 1, ZEROS, {}))
    assert asked.join("server", "study", terms.dumps())["joined"] == terms.digest
    with untouched(lived):
        assert "joined on other terms" in reason(asked.join("server", "study", other.dumps()))
        assert "joined on other terms" in reason(asked.answer("server", "study", other.digest, 1, ZEROS, {}))


def test_a_yes_is_for_one_run(lived: Any) -> None:
    """The same terms under another name would be released, and paid for, once more."""
    lived.allow("ahorn", approval="hand")
    asked, site, terms = handler(lived), OwnerFiles(lived.home / "ahorn"), lived.terms(epsilon=1.0)
    asked.join("server", "study", terms.dumps())
    with untouched(lived):
        assert asked.join("server", "again", terms.dumps()) == {"waiting": terms.digest}
    site.decide(terms.digest, True)
    with untouched(lived):
        assert asked.join("server", "again", terms.dumps()) == {"waiting": terms.digest}
    assert site.waiting()[terms.digest]["run"] == "again"
    assert "joined" in asked.join("server", "study", terms.dumps())
    asked.finish("server", "study")
    with untouched(lived):
        assert asked.join("server", "again", terms.dumps()) == {"waiting": terms.digest}
    site.decide(terms.digest, True)
    assert "joined" in asked.join("server", "again", terms.dumps())


def test_a_yes_does_not_raise_the_budget(lived: Any) -> None:
    lived.allow("ahorn", approval="hand", epsilon=1.5)
    asked, site, terms = handler(lived), OwnerFiles(lived.home / "ahorn"), lived.terms()
    asked.join("server", "study", terms.dumps())
    (told,) = site.waiting().values()
    assert "with this run 2, which leaves 0." in told["sentence"]
    site.decide(terms.digest, True)
    with untouched(lived):
        assert "would come to epsilon 2" in reason(asked.join("server", "study", terms.dumps()))


def test_without_a_word_to_wait_for_the_price_is_in_the_log(lived: Any) -> None:
    joined(lived)
    (asked,) = [entry for entry in log(lived) if entry["kind"] == "asked"]
    assert "epsilon 2 at delta 1e-06" in asked["sentence"]
    assert [entry["kind"] for entry in log(lived)] == ["asked", "joined"]


# -- answering ---------------------------------------------------------------------------------------------------------


def test_a_round_is_answered_once_and_repeated_at_no_cost_also_after_a_restart(lived: Any) -> None:
    asked, digest = joined(lived)
    first = asked.answer("server", "study", digest, 1, ZEROS, {})
    assert len(first["value"]) == 32
    assert len(first["seal"]) == 3
    assert lived.steps("ahorn") == ["1"]
    with untouched(lived):
        assert asked.answer("server", "study", digest, 1, ZEROS, {}) == first
        other = to_bytes(np.full(4, 1e-300))
        assert "answered for other inputs" in reason(asked.answer("server", "study", digest, 1, other, {}))
    again = handler(lived)
    with untouched(lived):
        assert "not joined" in reason(again.answer("server", "study", digest, 2, ZEROS, {}))
        assert again.join("server", "study", lived.terms().dumps(), first["seal"])["rounds_answered"] == 1
        assert again.answer("server", "study", digest, 1, ZEROS, {}) == first
        assert "answered for other inputs" in reason(again.answer("server", "study", digest, 1, other, {}))
    assert "value" in again.answer("server", "study", digest, 2, ZEROS, {})
    assert lived.steps("ahorn") == ["1", "2"]
    assert verify(lived.ledger("ahorn")) == []


NAN, INF = to_bytes(np.full(4, np.nan)), to_bytes(np.array([0.0, 0.0, 0.0, np.inf]))
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
    ({"inputs": to_bytes(np.full(4, 1.1e100))}, "at most 1e+100"),
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
    ({"last_used": "1"}, "must be the number of a round"),
    ({"last_used": True}, "must be the number of a round"),
    ({"last_used": 1.0}, "must be the number of a round"),
    ({"last_used": [1]}, "must be the number of a round"),
]


def test_requests_that_make_no_sense_are_refused(lived: Any) -> None:
    asked, digest = joined(lived)
    asked.answer("server", "study", digest, 1, ZEROS, {})
    good = {"run": "study", "digest": digest, "step": 2, "inputs": ZEROS, "missed_inputs": {}, "last_used": None}
    for change, said in NONSENSE:
        with untouched(lived):
            assert said in reason(asked.answer("server", **{**good, **change})), change
    assert "value" in asked.answer("server", **good)


def test_no_more_rounds_are_answered_than_agreed_and_none_after_the_end(lived: Any) -> None:
    asked, digest = joined(lived, rounds=2)
    for round in (1, 2):
        assert "value" in asked.answer("server", "study", digest, round, ZEROS, {})
    with untouched(lived):
        assert "no such step" in reason(asked.answer("server", "study", digest, 3, ZEROS, {}))
    assert asked.finish("server", "study") == {"finished": "study"}
    with untouched(lived):
        for each in (asked, handler(lived)):
            assert "not joined" in reason(each.answer("server", "study", digest, 1, ZEROS, {}))
            assert "not joined" in reason(each.finish("server", "study"))
            assert "is finished" in reason(each.join("server", "study", lived.terms(rounds=2).dumps()))
    assert [entry["kind"] for entry in log(lived)].count("finished") == 1


def test_rounds_may_be_missed_where_the_terms_say_so(lived: Any) -> None:
    asked, digest = joined(lived, stragglers="reuse")
    assert "value" in asked.answer("server", "study", digest, 1, ZEROS, {})
    with untouched(lived):
        assert "needs the inputs" in reason(asked.answer("server", "study", digest, 4, ZEROS, {"3": ZEROS}))
    reply = asked.answer("server", "study", digest, 4, ZEROS, {"2": ZEROS, "3": ZEROS})
    with untouched(lived):
        assert asked.answer("server", "study", digest, 4, ZEROS, {2: ZEROS, "3": ZEROS}) == reply
        assert "closed" in reason(asked.answer("server", "study", digest, 3, ZEROS, {"2": ZEROS}))
    assert lived.steps("ahorn") == ["1", "4"]
    given = ("server", "study", digest, 6, ZEROS)
    for counted in (2, 4, 5, 6, 10**30):  # nothing was released there, or that is the last release itself
        with untouched(lived):
            missed = {"4": ZEROS, "5": ZEROS}
            assert f"round {counted} cannot be the last whose release was used" in reason(
                asked.answer(*given, missed, counted)
            )
    for missed in ({"5": ZEROS}, {"3": ZEROS, "4": ZEROS, "5": ZEROS}):
        with untouched(lived):
            assert "needs the inputs of all rounds in between" in reason(asked.answer(*given, missed, 1))
    assert "value" in asked.answer(*given, {"4": ZEROS, "5": ZEROS}, 1)
    assert lived.steps("ahorn") == ["1", "4", "6"]


def test_an_old_backup_of_the_ledger_locks_itself_when_it_is_shown_a_later_seal(lived: Any) -> None:
    asked, digest = joined(lived)
    path, terms = lived.ledger_path("ahorn"), lived.terms().dumps()
    early = asked.answer("server", "study", digest, 1, ZEROS, {})["seal"]
    backup = path.read_bytes()
    late = asked.answer("server", "study", digest, 2, ZEROS, {})["seal"]
    asked._agents["study"][0].ledger.close()  # type: ignore[attr-defined]
    path.write_bytes(backup)
    restored = handler(lived)
    assert restored.join("server", "study", terms, early)["rounds_answered"] == 1  # nothing it does not know
    for shown in ([late[0], "0" * 64, late[2]], [late[0], late[1], "0" * 64], [0, "", ""], [None, None, None]):
        with untouched(lived):
            assert "not one of this ledger's" in reason(restored.join("server", "study", terms, shown))
    for shown in ("seal", [1, 2], late * 2, {"number": 1}, 7):
        with untouched(lived):
            assert "is none" in reason(restored.join("server", "study", terms, shown))
    assert "old backup" in reason(handler(lived).join("server", "study", terms, late))
    assert chain(lived)[-1] == "lock"
    for again in (restored, handler(lived)):
        with untouched(lived):
            assert "locked" in reason(again.join("server", "study", terms))
            assert "refused" in again.answer("server", "study", digest, 2, ZEROS, {})
    assert lived.steps("ahorn") == ["1"]


# -- whatever is asked -------------------------------------------------------------------------------------------------

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
        assert "joined" in made.join("server", run, each.dumps())
    made.answer("server", "study", terms["study"].digest, 1, ZEROS, {})
    return lived, made, terms


@given(some.data())
@settings(max_examples=150, derandomize=True)
def test_no_exception_and_no_release_comes_of_odd_arguments(
    hub: tuple[Any, Handler, dict[str, Any]], data: Any
) -> None:
    lived, asked, terms = hub
    before = lived.steps("ahorn"), lived.steps("ahorn", "ring")
    method = data.draw(
        some.sampled_from(["introduce", "join", "answer", "finish", "run_rounds", "rounds_status", "hear"])
    )
    run = data.draw(some.sampled_from(["study", "ring"]))
    known: dict[str, Any] = {"run": run, "digest": terms[run].digest, "terms": terms[run].dumps(), "step": 2}
    known |= {
        "inputs": ZEROS,
        "missed_inputs": {},
        "last_used": None,
        "seen": None,
        "start": 1,
        "timeout": 0.01,
        "round": 1,
        "value": ZEROS,
    }
    names = {
        "introduce": [],
        "join": ["run", "terms", "seen"],
        "answer": ["run", "digest", "step", "inputs", "missed_inputs", "last_used"],
        "finish": ["run"],
        "run_rounds": ["run", "digest", "start", "timeout"],
        "rounds_status": ["run"],
        "hear": ["run", "round", "value"],
    }[method]
    wrong = data.draw(some.sets(some.sampled_from(names), min_size=1)) if names else set()
    call = {name: data.draw(odd) if name in wrong else known[name] for name in names}
    caller = "server" if names and method != "hear" else data.draw(odd)
    if all(type(call.get(name)) is type(known[name]) and call[name] == known[name] for name in names):
        return
    if call.get("start") == 0 or (method in ("finish", "rounds_status") and call["run"] in ("study", "ring")):
        return  # these are in order
    if method == "rounds_status":
        call |= {"end": None}
    if method == "run_rounds":
        call |= {"tell": lambda *_: None, "turn": lambda work: work()}
    reply = getattr(asked, method)(caller, **call)
    assert isinstance(reply, dict)
    assert set(reply) in ({"refused"}, {"joined", "rounds_answered"}), reply
    json.dumps(reply)
    assert (lived.steps("ahorn"), lived.steps("ahorn", "ring")) == before


def test_an_error_nobody_thought_of_is_refused_without_its_text(lived: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    asked, digest = joined(lived)

    def fails(*_: Any) -> Any:
        raise MemoryError("the row [42.4242, 'planted']")

    monkeypatch.setattr(asked._agents["study"][0], "answer", fails)  # type: ignore[attr-defined]
    monkeypatch.setattr("dpadmm.federation.client.handler.Agreement.loads", fails)
    for call in (
        lambda: asked.answer("server", "study", digest, 1, ZEROS, {}),
        lambda: asked.join("server", "study", lived.terms().dumps()),
    ):
        with untouched(lived):
            assert reason(call()) == "this owner's agent failed; its log says how."
        assert (log(lived)[-1]["kind"], log(lived)[-1]["reason"]) == ("error", "MemoryError")
    assert "planted" not in (lived.home / "ahorn" / "agent" / "events.jsonl").read_text()


def test_a_log_that_cannot_be_written_keeps_nobody_from_refusing(lived: Any) -> None:
    asked = handler(lived)
    (lived.home / "ahorn" / "agent" / "events.jsonl").mkdir()
    assert "only the coordinator" in reason(asked.join("birke", "study", ""))
    assert asked.introduce("server")["count"] == 60


# -- records -----------------------------------------------------------------------------------------------------------


def rewritten(lived: Any, change: Callable[[list[list[str]]], Any], name: str = "ahorn") -> None:
    """Another table of an owner's records."""
    path = lived.home / name / "records.csv"
    with path.open() as file:
        rows = list(csv.reader(file))
    change(rows)
    with path.open("w", newline="") as file:
        csv.writer(file).writerows(rows)


MARK = "Zaphod-4711"
UNFIT: list[tuple[str, Callable[[list[list[str]]], Any]]] = [
    ("a category nobody agreed on", lambda rows: rows[3].__setitem__(2, MARK)),
    ("a class nobody agreed on", lambda rows: rows[3].__setitem__(3, MARK)),
    ("a text for a number", lambda rows: rows[3].__setitem__(0, MARK)),
    ("a number that is missing", lambda rows: rows[3].__setitem__(1, "")),
    ("a column that is missing", lambda rows: rows[0].__setitem__(1, MARK)),
    ("no records", lambda rows: rows.__delitem__(slice(1, None))),
    ("a damaged line", lambda rows: rows[5].append(MARK)),
]


@pytest.mark.parametrize(("what", "change"), UNFIT)
def test_records_that_do_not_fit_are_refused_without_a_word_about_them(
    lived: Any, what: str, change: Callable[[list[list[str]]], Any]
) -> None:
    rewritten(lived, change)
    for _ in range(2):
        asked = handler(lived)
        replies = [asked.introduce("server"), asked.join("server", "study", lived.terms().dumps())]
        if what == "no records":
            assert replies[0].get("count") == 0 or "refused" in replies[0]
            assert "refused" in replies[1]
            continue
        assert [reason(reply) for reply in replies] == [GENERIC, GENERIC]
    assert MARK not in (lived.home / "ahorn" / "agent" / "events.jsonl").read_text()
    assert not lived.ledger_path("ahorn").exists()


def test_records_that_are_gone_or_out_of_reach_are_refused_without_a_word_about_them(
    lived: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(PASSWORD, MARK)
    (lived.home / "ahorn" / "records.csv").unlink()
    assert reason(handler(lived).introduce("server")) == GENERIC
    site = OwnerFiles(lived.home / "ahorn")
    source = {"place": "postgresql://clerk@127.0.0.1:1/clinic", "query": "SELECT age FROM patients"}
    site.save(replace(lived.settings("birke", None), source=source))
    asked = handler(lived)
    assert reason(asked.introduce("server")) == GENERIC
    assert reason(asked.join("server", "study", lived.terms().dumps())) == GENERIC
    assert MARK not in (lived.home / "ahorn" / "agent" / "events.jsonl").read_text()


def test_other_records_do_not_get_the_budget_of_those_before(lived: Any) -> None:
    asked, _ = joined(lived)
    asked.finish("server", "study")
    rewritten(lived, lambda rows: rows[1].__setitem__(0, "1.5"))
    with untouched(lived):
        said = reason(handler(lived).join("server", "other", lived.terms().dumps()))
    assert said == "this owner's agent is not in order; its log says why."
    lived.ledger_path("ahorn").unlink()
    assert "not in order" in reason(handler(lived).join("server", "other", lived.terms().dumps()))
    assert "was here and is gone" in log(lived)[-1]["reason"]


def with_persons(lived: Any, each: int) -> None:
    def change(rows: list[list[str]]) -> None:
        rows[0].append("who")
        for number, row in enumerate(rows[1:]):
            row.append(f"{MARK}-{number // each}")

    rewritten(lived, change)
    OwnerFiles(lived.home / "ahorn").save(replace(lived.settings("ahorn", 7), person="who"))


def test_persons_with_several_records_are_protected_as_persons(lived: Any) -> None:
    lived.allow("ahorn", records_per_person=2)
    with_persons(lived, 2)
    assert "the terms protect 1 record" in reason(handler(lived).join("server", "study", lived.terms().dumps()))
    asked, digest = joined(lived, records_per_person=2)
    assert "value" in asked.answer("server", "study", digest, 1, ZEROS, {})
    assert MARK not in (lived.home / "ahorn" / "agent" / "events.jsonl").read_text()


def test_a_person_with_too_many_records_keeps_the_owner_out(lived: Any) -> None:
    lived.allow("ahorn", records_per_person=2)
    with_persons(lived, 3)
    with untouched(lived):
        said = reason(handler(lived).join("server", "study", lived.terms(records_per_person=2).dumps()))
    assert said == "some person has more than 2 record(s)."
    OwnerFiles(lived.home / "ahorn").save(replace(lived.settings("ahorn", 7), person="whom"))
    assert reason(handler(lived).introduce("server")) == GENERIC
    OwnerFiles(lived.home / "ahorn").save(lived.settings("ahorn", 7))
    said = reason(handler(lived).join("server", "study", lived.terms(records_per_person=2).dumps()))
    assert "not grouped by person" in said


@pytest.mark.parametrize("dry_run", [7, None])
def test_nothing_that_is_secret_leaves_an_owner(
    small_federation: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, dry_run: int | None
) -> None:
    """Planted values are looked for in every reply, in every log, and in every byte that the coordinator keeps."""
    lived = small_federation.SmallFederation(tmp_path, dry_run=dry_run)
    monkeypatch.setenv(PASSWORD, "open-sesame-0815")
    age, dose = 42.42424242424242, -0.1234567890123

    def plant(rows: list[list[str]]) -> None:
        rows[0].append("name")
        for number, row in enumerate(rows[1:]):
            row.append(MARK if number == 4 else f"somebody {number}")
        rows[5][0], rows[5][1] = repr(age), repr(dose)

    rewritten(lived, plant)
    replies: list[Any] = []

    def overhear(name: str, method: str, reply: Any) -> Any:
        replies.append(reply)
        return reply

    for run, changes in (
        ("star", {"algorithm": "pvp", "evaluation_epsilon": 0.5}),
        ("reuse", {"stragglers": "reuse"}),
        ("ring", {"algorithm": "private-r-admm", "topology": "ring:3"}),
    ):
        for name in small_federation.OWNERS:
            lived.allow(name, epsilon=50.0)
        line = lived.line()
        line.tamper = overhear
        folder = lived.folder(name=run, **changes)
        assert lived.run(folder, line)["state"] == "finished"
    asked = handler(lived)
    replies += [
        asked.join("server", "more", "{"),
        asked.answer("server", "star", "", 1, b"", {}),
        asked.hear("x", "y", 1, b""),
    ]
    key = SqliteLedger.open(lived.ledger_path("ahorn"), reading=True).meta["key"]
    encoded = [age, dose, age / 100.0, (dose + 1.0) / 2.0]
    row = np.array([age / 100.0, (dose + 1.0) / 2.0, 1.0])
    encoded += list(row / np.linalg.norm([*row]))  # as it is clipped to length one
    secrets = [MARK.encode(), b"open-sesame-0815", key.encode(), bytes.fromhex(key)]
    secrets += [form for value in encoded[:-1] for form in (repr(value).encode(), struct.pack("<d", value))]
    secrets += [struct.pack(">d", value) for value in encoded[:-1]] + [str(lived.home / "ahorn").encode()]
    places = {"replies": repr(replies).encode() + b"".join(r.get("value", b"") for r in replies)}
    for path in sorted([*(lived.home / "runs").rglob("*"), *lived.home.glob("*/agent/*.jsonl")]):
        if path.is_file():
            places[str(path)] = path.read_bytes()
    assert len(places) > 15
    assert any(secrets[4] in path.read_bytes() for path in lived.home.glob("ahorn/records.csv"))
    for place, data in places.items():
        for secret in secrets:
            assert secret not in data, (place, secret)


def test_a_desk_on_a_graph_waits_for_its_neighbours_and_names_who_is_late(lived: Any) -> None:
    made, digest = joined(lived, algorithm="private-r-admm", topology="ring:3")
    told: list[Any] = []

    def tell(names: list[str], round: int, value: bytes) -> None:
        told.append((names, round, value))

    class Here(Turns):
        def __init__(self) -> None: ...

        def __call__(self, call: Callable[[], Any]) -> Any:
            return call()

    assert made.rounds_status("server", "study", None) == {"round": 0}
    reply = made.run_rounds("server", "study", digest, 0, tell, 0.01, Here())
    assert reason(reply) == "birke, eiche did not tell its release of round 1 within 0.01 s."
    assert made.rounds_status("server", "study", None) == {"round": 1}
    assert made.rounds_status("server", "study", reply) == reply
    assert lived.steps("ahorn") == ["1"]
    assert told[0][:2] == (["birke", "eiche"], 1)
    for caller, round, value, said in (
        ("linde", 1, ZEROS, "no neighbour"),
        ("server", 1, ZEROS, "no neighbour"),
        ("ahorn", 1, ZEROS, "no neighbour"),
        ("birke", 0, ZEROS, "no such round"),
        ("birke", 7, ZEROS, "no such round"),
        ("birke", 1, ZEROS[:-8], "3 numbers, not 4"),
        ("birke", 1, NAN, "not finite"),
    ):
        assert said in reason(made.hear(caller, "study", round, value))
    assert "not joined" in reason(made.hear("birke", "other", 1, ZEROS))
    assert made.hear("birke", "study", 1, ZEROS) == {"heard": 1}
    reply = made.run_rounds("server", "study", digest, 0, tell, 0.01, Here())
    assert reason(reply) == "eiche did not tell its release of round 1 within 0.01 s."
    assert lived.steps("ahorn") == ["1"]
    made.hear("eiche", "study", 1, ZEROS)
    lived.allow("ahorn", algorithms=["pvp"])
    assert "not allowed here" in reason(made.run_rounds("server", "study", digest, 0, tell, 0.01, Here()))
    assert lived.steps("ahorn") == ["1"]
    lived.allow("ahorn")
    for start, said in ((-1, "no such round"), (7, "no such round"), (2, "no such release"), ("0", "other terms")):
        assert said in reason(made.run_rounds("server", "study", digest, start, tell, 0.01, Here()))
    assert "other terms" in reason(made.run_rounds("server", "study", "0" * 64, 0, tell, 0.01, Here()))
    assert "other terms" in reason(made.run_rounds("server", "study", digest, 0, tell, None, Here()))

    def unreachable(*_: Any) -> None:
        raise OSError("eiche")

    assert "cannot be told the release of round 1" in reason(
        made.run_rounds("server", "study", digest, 0, unreachable, 0.01, Here())
    )
    assert lived.steps("ahorn") == ["1"]


def test_a_run_with_a_server_is_not_walked(lived: Any) -> None:
    made, digest = joined(lived)
    with untouched(lived):
        reply = made.run_rounds("server", "study", digest, 0, lambda *_: None, 1.0, None)  # type: ignore[arg-type]
        assert "has a server" in reason(reply)
        assert "has a server" in reason(made.rounds_status("server", "study", None))
        assert "not joined" in reason(made.hear("birke", "study", 1, ZEROS))
