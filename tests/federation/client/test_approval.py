"""Runs that wait until their owner approves or declines them, and what the owner is told about the cost."""

import gc
import shutil
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from handlers import ZEROS, decide, handler, is_joined, join, joined, log, reason, untouched, waiting, why
from ledgers import put_back, snapshot

from dpadmm.federation.cards import COORDINATOR
from dpadmm.federation.client.handler import Handler
from dpadmm.federation.identity import Identity
from dpadmm.federation.invitation import Invitation
from dpadmm.privacy.accounting import best
from dpadmm.privacy.filter import Cap, Charge
from dpadmm.privacy.ledger.sqlite import SqliteLedger
from dpadmm.privacy.units import RECORD


def test_a_run_waits_for_the_owners_word_and_is_told_at_its_price(lived: Any) -> None:
    lived.allow("ahorn", epsilon=5.0)
    asked, _ = joined(lived, epsilon=1.0)
    asked.finish("study")  # so that it is known, and holds nothing
    made, digest = joined_again(lived, "first", epsilon=1.5)
    made.answer_step("first", digest, 1, ZEROS, {})
    lived.allow("ahorn", epsilon=5.0, approval="hand")
    asked, terms = handler(lived), lived.terms(algorithm="pvp", evaluation_epsilon=0.5)
    with untouched(lived):
        for _ in range(2):
            assert asked.join("second", terms.dumps()) == {"waiting": terms.digest}
    ((id, entry),) = waiting(lived).items()
    told = entry["told"]
    assert (entry["proposal"]["run"], entry["proposal"]["terms"]) == ("second", terms.digest)
    (tally,) = terms.plan().take([0]).tallies()
    ledger = lived.ledger("ahorn")
    cap, held = Cap(5.0, 1e-6), ledger.charges(held=True)
    alone = best(tally, 1e-6, ledger.relation).epsilon
    before, after = cap.amount(held), cap.amount([*held, Charge(tally, RECORD, cap.bound(tally, RECORD))])
    assert 0.0 < before < 1.5 + 1e-9 < alone < after < 5.0
    assert (told["epsilon_alone"], told["epsilon_before"], told["epsilon_after"]) == (alone, before, after)
    assert (told["epsilon_allowed"], told["delta"], told["releases"]) == (5.0, 1e-6, 7)
    assert (told["run"], told["stragglers"], told["owners"]) == ("second", "wait", ["ahorn", "birke", "eiche"])
    for part in (
        "Run 'second' (pvp, loss logistic)",
        "you and 2 other(s) for 7 noisy release(s) of 4 numbers",
        f"epsilon {alone:.4g} at delta 1e-06",
        "the run's own guarantee",
        f"committed to {before:.4g} of the 5 you allow, which is what is guaranteed",
        f"with this run {after:.4g}, and then the largest Gaussian run",
    ):
        assert part in told["sentence"]
    assert [entry["kind"] for entry in log(lived)].count("waiting") == 1
    keys = lived.identities["ahorn"]
    assert lived.owner("ahorn").decisions(keys.card).decide(keys, id[:6], True).run == "second"
    assert waiting(lived) == {}
    assert is_joined(asked.join("second", terms.dumps()), terms)
    assert lived.ledger("ahorn").amount(cap, held=True) == pytest.approx(after, rel=1e-12)
    again = handler(lived)  # and after a restart no approval is needed for what was agreed
    assert is_joined(again.join("second", terms.dumps()), terms)
    assert waiting(lived) == {}


def joined_again(lived: Any, run: str, **changes: Any) -> tuple[Handler, str]:
    terms, made = lived.terms(**changes), handler(lived)
    join(lived, made, run, terms)
    return made, terms.digest


def test_a_declined_run_is_refused_and_stays_refused(lived: Any) -> None:
    lived.allow("ahorn", approval="hand")
    asked, terms = handler(lived), lived.terms()
    asked.join("study", terms.dumps())
    decide(lived, approve=False)
    for run in ("study", "other"):
        for each in (asked, handler(lived)):
            with untouched(lived):
                assert reason(each.join(run, terms.dumps())) == "the owner has declined these terms."
    assert waiting(lived) == {}
    lived.allow("ahorn", approval="policy")  # also where the policy would do
    assert reason(asked.join("study", terms.dumps())) == "the owner has declined these terms."


@pytest.mark.parametrize(
    "change", [{"epsilon": 1.9}, {"rounds": 7}, {"stragglers": "reuse"}, {"strength": 2e-3}, {"records_per_person": 2}]
)
def test_a_yes_to_some_terms_is_no_yes_to_others(lived: Any, change: dict[str, Any]) -> None:
    lived.allow("ahorn", approval="hand")
    asked, terms, other = handler(lived), lived.terms(), lived.terms(**change)
    asked.join("study", terms.dumps())
    decide(lived)
    with untouched(lived):
        assert asked.join("study", other.dumps()) == {"waiting": other.digest}
    assert "not joined" in reason(asked.answer_step("study", other.digest, 1, ZEROS, {}))
    join(lived, asked, "study", terms)
    with untouched(lived):
        assert "joined on other terms" in reason(asked.join("study", other.dumps()))
        assert "joined on other terms" in reason(asked.answer_step("study", other.digest, 1, ZEROS, {}))


def test_a_yes_is_for_one_run(lived: Any) -> None:
    """The same terms under another name would be released, and paid for, once more."""
    lived.allow("ahorn", approval="hand")
    asked, terms = handler(lived), lived.terms(epsilon=1.0)
    asked.join("study", terms.dumps())
    with untouched(lived):
        assert asked.join("again", terms.dumps()) == {"waiting": terms.digest}
    decide(lived, run="study")
    with untouched(lived):
        assert asked.join("again", terms.dumps()) == {"waiting": terms.digest}
    assert [entry["proposal"]["run"] for entry in waiting(lived).values()] == ["again"]
    assert "joined" in asked.join("study", terms.dumps())
    asked.finish("study")
    with untouched(lived):
        assert asked.join("again", terms.dumps()) == {"waiting": terms.digest}
    decide(lived)
    assert "joined" in asked.join("again", terms.dumps())


def test_owner_is_asked_only_where_policy_and_budget_allow_the_run(lived: Any) -> None:
    lived.allow("ahorn", approval="hand", epsilon=1.5)
    asked, terms = handler(lived), lived.terms()
    with untouched(lived):
        for _ in range(2):
            assert "would come to epsilon 2 at delta 1e-06; its owner allows 1.5" in why(
                lived, asked.join("study", terms.dumps())
            )
    assert waiting(lived) == {}
    assert not any(entry["kind"] == "waiting" for entry in log(lived))


def test_budget_that_was_taken_meanwhile_is_not_raised_by_an_approval(lived: Any) -> None:
    lived.allow("ahorn", approval="hand", epsilon=2.5)
    asked, terms = handler(lived), lived.terms()
    for run in ("study", "other"):
        assert asked.join(run, terms.dumps()) == {"waiting": terms.digest}
        decide(lived, run=run)
    assert is_joined(asked.join("other", terms.dumps()), terms)
    with untouched(lived):
        assert "would come to epsilon" in why(lived, asked.join("study", terms.dumps()))


OTHERS: list[tuple[str, Callable[[Any], Any]]] = [
    ("policy", lambda lived: lived.allow("ahorn", approval="hand", epsilon=100.0)),
    ("data set", lambda lived: _another_data_set(lived)),
    ("ledger", lambda lived: _another_ledger(lived)),
    ("coordinator", lambda lived: _another_coordinator(lived)),
    ("card", lambda lived: _another_card(lived)),
]


def _another_data_set(lived: Any) -> None:
    """The owner's next data set, with columns of the same kind, under a policy that is the same but for its name."""
    text = lived.policy("ahorn").read_text()
    lived.policy("ahorn").write_text(text.replace('dataset = "ahorn"', 'dataset = "visits"'))
    records = lived.home / "ahorn" / "records.csv"
    head, *rows = records.read_text().splitlines()
    records.write_text("\n".join([head, *reversed(rows[1:]), rows[1]]) + "\n")
    lived.owner("ahorn").save(replace(lived.settings("ahorn", 8), ledger=str(lived.home / "visits.ledger")))


def _another_ledger(lived: Any) -> None:
    path = lived.ledger_path("ahorn")
    path.unlink()
    shutil.rmtree(lived.owner("ahorn").registry.folder)


def _another_coordinator(lived: Any) -> None:
    keys = Identity.create("study", COORDINATOR)
    lived.owner("ahorn").trust(Invitation.signed(keys, "localhost:8002", lived.invitation.columns)[0])


def _another_card(lived: Any) -> None:
    keys = lived.identities["ahorn"].renewed()
    lived.identities = {**lived.identities, "ahorn": keys}
    keys.save(lived.owner("ahorn").path)


@pytest.mark.parametrize(("what", "change"), OTHERS)
def test_approval_is_for_one_policy_data_set_ledger_coordinator_and_card(
    lived: Any, what: str, change: Callable[[Any], None]
) -> None:
    lived.allow("ahorn", approval="hand")
    asked = handler(lived)
    asked.join("study", lived.terms().dumps())
    decide(lived)
    change(lived)
    terms, other = lived.terms(), handler(lived)
    assert other.join("study", terms.dumps()) == {"waiting": terms.digest}
    assert not lived.steps("ahorn")
    decide(lived)
    assert is_joined(other.join("study", terms.dumps()), terms)


def test_approval_is_used_up_by_the_run_it_was_for(lived: Any) -> None:
    """Also where the ledger has forgotten the run, as after an old backup that nobody has noticed."""
    lived.allow("ahorn", approval="hand", epsilon=50.0)
    asked, terms = handler(lived), lived.terms()
    assert asked.join("study", terms.dumps()) == {"waiting": terms.digest}
    ledger = SqliteLedger.open(lived.ledger_path("ahorn"), folder=lived.owner("ahorn").registry.folder)
    backup = snapshot(ledger)
    decide(lived)
    assert is_joined(asked.join("study", terms.dumps()), terms)
    asked._agents["study"][0].ledger.close()  # type: ignore[attr-defined]
    del asked
    gc.collect()  # a connection that is still open would share its journal with the copy's
    put_back(ledger, backup, log=True)
    for kind in ("-wal", "-shm"):  # of the file that goes: it would do over what the copy has forgotten
        ledger.path.with_name(f"{ledger.path.name}{kind}").unlink(missing_ok=True)
    assert handler(lived).join("study", terms.dumps()) == {"waiting": terms.digest}


def test_without_a_word_to_wait_for_the_price_is_in_the_log(lived: Any) -> None:
    joined(lived)
    (asked,) = [entry for entry in log(lived) if entry["kind"] == "asked"]
    assert "epsilon 2 at delta 1e-06" in asked["sentence"]
    assert [entry["kind"] for entry in log(lived)] == ["asked", "joined"]
