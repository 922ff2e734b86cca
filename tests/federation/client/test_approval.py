"""Runs that wait until their owner approves or declines them, and what the owner is told about the cost."""

from typing import Any

import pytest
from handlers import ZEROS, handler, joined, log, reason, site_digest, untouched

from dpadmm.federation.client.files import OwnerFiles
from dpadmm.federation.client.handler import Handler
from dpadmm.privacy.accounting import best
from dpadmm.privacy.filter import Cap, Charge
from dpadmm.privacy.units import RECORD


def test_a_run_waits_for_the_owners_word_and_is_told_at_its_price(lived: Any) -> None:
    lived.allow("ahorn", epsilon=5.0)
    asked, _ = joined(lived, epsilon=1.0)
    asked.finish("server", "study")  # so that it is known, and holds nothing
    made, digest = joined_again(lived, "first", epsilon=1.5)
    made.answer_step("server", "first", digest, 1, ZEROS, {})
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
    assert site.decide(terms.digest[:6], True) == terms.digest
    assert site.waiting() == {}
    assert asked.join("server", "second", terms.dumps()) == {"joined": terms.digest, "rounds_answered": 0}
    assert lived.ledger("ahorn").amount(cap, held=True) == pytest.approx(after, rel=1e-12)
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
    assert "not joined" in reason(asked.answer_step("server", "study", other.digest, 1, ZEROS, {}))
    assert asked.join("server", "study", terms.dumps())["joined"] == terms.digest
    with untouched(lived):
        assert "joined on other terms" in reason(asked.join("server", "study", other.dumps()))
        assert "joined on other terms" in reason(asked.answer_step("server", "study", other.digest, 1, ZEROS, {}))


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
    assert "with this run 2, and then the largest Gaussian run you can take part in has epsilon 0." in told["sentence"]
    site.decide(terms.digest, True)
    with untouched(lived):
        assert "would come to epsilon 2" in reason(asked.join("server", "study", terms.dumps()))


def test_without_a_word_to_wait_for_the_price_is_in_the_log(lived: Any) -> None:
    joined(lived)
    (asked,) = [entry for entry in log(lived) if entry["kind"] == "asked"]
    assert "epsilon 2 at delta 1e-06" in asked["sentence"]
    assert [entry["kind"] for entry in log(lived)] == ["asked", "joined"]
