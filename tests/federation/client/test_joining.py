"""Which terms an owner's handler joins: they must fit its columns, its policy and what is left of its budget."""

from dataclasses import replace
from types import ModuleType
from typing import Any

import pytest
from forged_terms import forged_text
from handlers import ZEROS, chain, handler, joined, log, reason, untouched, waiting, why

from dpadmm.errors import NOT_ALLOWED
from dpadmm.federation.messages import LARGEST_TEXT


def test_terms_for_other_columns_or_other_owners_are_refused(lived: Any, small_federation: ModuleType) -> None:
    terms, asked = lived.terms(), handler(lived)
    turned, mine = ("birke", "ahorn", "eiche"), tuple(terms.identities[place] for place in (1, 0, 2))
    schema = replace(small_federation.SCHEMA, classes=("yes", "no"))
    refusals = [
        (replace(terms, schema=schema), "columns in the terms are not those"),
        (replace(terms, schema=None), "columns in the terms are not those"),
        (replace(terms, owners=(), identities=()), "for nobody, and not for ahorn"),
        (replace(terms, identities=()), "do not say which cards the owners have"),
        (replace(terms, identities=terms.identities[1:] + terms.identities[:1]), "name another card for ahorn"),
        (replace(terms, owners=("birke", "eiche", "linde")), "for birke, eiche, linde, and not for ahorn"),
        (replace(terms, owners=turned, identities=mine), "record counts in the terms are not those"),
    ]
    for other, said in refusals:
        assert said in reason(asked.join("study", other.dumps()))
        assert log(lived)[-1]["kind"] == "refused"
    assert chain(lived) == ["create"]
    place = replace(terms, owners=turned, identities=mine, counts=(45, 60, 80))
    assert asked.join("study", place.dumps())["rounds_answered"] == 0


@pytest.mark.parametrize(
    "terms", ["", "{}", "null", "[" * 1000, " " * (LARGEST_TEXT + 1), None, 5, b"{}", {"run": {}}, ["terms"]]
)
def test_what_are_no_terms_is_refused(lived: Any, terms: Any) -> None:
    with untouched(lived):
        assert "terms" in reason(handler(lived).join("study", terms))


def test_terms_that_are_too_long_are_not_read(lived: Any) -> None:
    whole = lived.terms().dumps()
    padded = whole + " " * (LARGEST_TEXT - len(whole))
    assert "joined" in handler(lived).join("study", padded)
    assert "reasonable length" in reason(handler(lived).join("study", padded + " "))


@pytest.mark.parametrize(
    "run", ["", "x" * 101, "two\nlines", "\x1b[2J", "\ud800", None, 7, 10**30, b"run", ["run"], {}]
)
def test_a_run_with_an_odd_name_is_not_put_before_the_owner(lived: Any, run: Any) -> None:
    lived.allow("ahorn", approval="hand")
    asked = handler(lived)
    with untouched(lived):
        assert "name" in reason(asked.join(run, lived.terms().dumps()))
    assert waiting(lived) == {}


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
    ({}, {"components": "2"}, "is a run of its own"),
    ({}, {"topology": "ring:3"}, "has a server"),
    ({}, {"stragglers": "skip", "algorithm": "obj-g"}, "counts on the duals of all agents"),
]


# What the terms alone are refused for, others may know.
OF_THE_TERMS = {said for mine, theirs, said in UNACCEPTABLE[9:]}


@pytest.mark.parametrize("approval", ["policy", "hand"])
@pytest.mark.parametrize(("mine", "theirs", "said"), UNACCEPTABLE)
def test_terms_that_the_policy_does_not_allow_are_refused(
    lived: Any, approval: str, mine: dict[str, Any], theirs: dict[str, Any], said: str
) -> None:
    lived.allow("ahorn", **mine, approval=approval)
    asked = handler(lived)
    reply = asked.join("study", lived.terms(**theirs).dumps())
    assert said in log(lived)[-1]["reason"]
    assert waiting(lived) == {}  # the owner is not asked for an approval that would be in vain
    assert reason(reply) == (log(lived)[-1]["reason"] if said in OF_THE_TERMS else NOT_ALLOWED)
    assert chain(lived) == ["create"]
    assert "not joined" in reason(asked.answer_step("study", lived.terms(**theirs).digest, 1, ZEROS, {}))


@pytest.mark.parametrize(
    ("number", "said"),
    [
        ({"rounds": 0}, "the terms: rounds = 0 must be a whole number from 1"),
        ({"norm_bound": -1.0}, "the terms: norm_bound = -1.0 must be a number from"),
        ({"strength": 2.0**52}, "the terms: strength = 4503599627370496.0 must be 0 or a number from"),
        ({"rho": 1e-300}, "the terms: rho = 1e-300 must be a number from"),
        ({"loss": "smoothed-hinge:1e-110"}, "loss 'smoothed-hinge': width = 1e-110 must be a number from"),
        ({"set": "box:1e100"}, "set 'box': bound = 1e+100 must be a number from"),
    ],
    ids=str,
)
def test_terms_with_numbers_outside_of_their_public_ranges_are_refused(
    lived: Any, number: dict[str, Any], said: str
) -> None:
    reply = handler(lived).join("study", forged_text(lived.terms(), number))
    assert said in reason(reply)
    assert chain(lived) == ["create"]


def test_a_recipe_that_is_not_private_is_refused(lived: Any) -> None:
    terms = lived.terms()
    plain = replace(terms, run=replace(terms.run, algorithm="admm", epsilon=None, delta=None))
    assert "algorithm 'admm' is not allowed here" in why(lived, handler(lived).join("study", plain.dumps()))
    assert chain(lived) == ["create"]


def test_a_second_run_is_refused_when_the_budget_is_taken(lived: Any) -> None:
    lived.allow("ahorn", epsilon=2.5)
    asked, digest = joined(lived)
    with untouched(lived):
        assert "would come to" in why(lived, asked.join("second", lived.terms().dumps()))
    assert "value" in asked.answer_step("study", digest, 1, ZEROS, {})
    asked.finish("study")
    assert "joined" in asked.join("third", lived.terms(epsilon=1.0).dumps())


@pytest.mark.parametrize(
    ("policy", "named"),
    [(None, "cannot be read"), ("epsilon = ", "is not TOML"), ('dataset = "ahorn"', "lacks epsilon")],
)
def test_a_policy_that_cannot_be_read_is_the_owners_business(lived: Any, policy: str | None, named: str) -> None:
    if policy is None:
        lived.policy("ahorn").unlink()
    else:
        lived.policy("ahorn").write_text(policy)
    said = reason(handler(lived).join("study", lived.terms().dumps()))
    assert said == "this owner's agent is not in order; its log says why."
    assert not lived.ledger_path("ahorn").exists()
    assert log(lived)[-1]["kind"] == "error"
    assert named in log(lived)[-1]["reason"]


def test_a_policy_made_stricter_during_a_job_holds_at_once(lived: Any) -> None:
    asked, digest = joined(lived)
    assert "value" in asked.answer_step("study", digest, 1, ZEROS, {})
    for changes, said in (
        ({"epsilon": 0.01}, "its owner allows 0.01"),
        ({"algorithms": ["pvp"]}, "algorithm 'dp-admm' is not allowed here"),
        ({"relation": "zero-out"}, "another data set or relation"),
    ):
        lived.allow("ahorn", **changes)
        with untouched(lived):
            assert said in why(lived, asked.answer_step("study", digest, 2, ZEROS, {}))
    lived.policy("ahorn").unlink()
    with untouched(lived):
        assert "not in order" in reason(asked.answer_step("study", digest, 2, ZEROS, {}))
    lived.allow("ahorn", epsilon=100.0)
    assert "value" in asked.answer_step("study", digest, 2, ZEROS, {})
    lived.policy("ahorn").unlink()
    assert asked.finish("study") == {"finished": "study"}
