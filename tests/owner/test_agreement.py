"""Terms as they travel: one text, one digest on both sides, and nothing but an `InputError` for what others write."""

import json
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from dpadmm.errors import InputError
from dpadmm.owner.agreement import Agreement
from dpadmm.spec.declare import STRAGGLERS, FederationSpec

RECIPES: list[dict[str, Any]] = [
    {},
    {"algorithm": "pvp", "evaluation_epsilon": 0.5},
    {"algorithm": "obj-g", "updates": 2, "set": "box:0.5"},
    {"algorithm": "dp-accelerated", "momentum": 0.5, "intercept": True},
    {"algorithm": "ps-admm", "relation": "zero-out", "batch": 0.5},
    {"algorithm": "private-r-admm", "topology": "ring:3", "rho": 0.1},
    {"epsilon": None, "epsilons": [1.0, 2.0, 3.0]},
    {"stragglers": "reuse", "records_per_person": 3},
    {"stragglers": "skip", "norm_bound": 0.1, "delta": 1.25e-7},
]


@pytest.fixture(scope="module")
def drafts(small_federation: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Agreement]:
    """Terms for the village's owners, as its coordinator writes them."""
    return small_federation.SmallFederation(tmp_path_factory.mktemp("village")).terms


def drafted(drafts: Callable[..., Agreement], changes: dict[str, Any]) -> Agreement:
    agreement = drafts(**changes)
    if "epsilons" in changes:
        agreement = replace(agreement, run=replace(agreement.run, epsilon=None))
    return agreement


@pytest.mark.parametrize("changes", RECIPES)
def test_terms_read_back_as_the_same_terms(drafts: Callable[..., Agreement], changes: dict[str, Any]) -> None:
    agreement = drafted(drafts, changes)
    assert agreement.checked() == agreement
    again = Agreement.loads(agreement.dumps())
    assert again == agreement
    assert again.digest == agreement.digest
    assert again.dumps() == agreement.dumps()
    assert again.schema is not None
    assert again.schema.digest == agreement.schema.digest  # type: ignore[union-attr]
    assert again.plan().tallies() == agreement.plan().tallies()


def test_every_field_of_the_terms_is_in_their_digest(drafts: Callable[..., Agreement]) -> None:
    agreement = drafts()
    assert agreement.schema is not None
    others = [
        agreement,
        *(drafted(drafts, changes) for changes in RECIPES[1:]),
        replace(agreement, counts=(60, 45, 81)),
        replace(agreement, counts=(45, 60, 80)),
        replace(agreement, width=5),
        replace(agreement, classes=3),
        replace(agreement, stragglers="reuse"),
        replace(agreement, records_per_person=2),
        replace(agreement, owners=("birke", "ahorn", "eiche")),
        replace(agreement, schema=replace(agreement.schema, target="sick")),
        replace(agreement, schema=None),
        replace(agreement, run=replace(agreement.run, epsilon=2.0000000000000004)),
        replace(agreement, run=replace(agreement.run, rounds=7)),
    ]
    assert len({each.digest for each in others}) == len(others)


# -- strictness --------------------------------------------------------------------------------------------------------


def edited(agreement: Agreement, change: Callable[[dict[str, Any]], Any]) -> str:
    entries = json.loads(agreement.dumps())
    change(entries)
    return json.dumps(entries)


def run_with(**values: Any) -> Callable[[dict[str, Any]], None]:
    return lambda entries: entries["run"].update(values)


def terms_with(**values: Any) -> Callable[[dict[str, Any]], None]:
    return lambda entries: entries.update(values)


def schema_with(**values: Any) -> Callable[[dict[str, Any]], None]:
    return lambda entries: entries["schema"].update(values)


WRONG: list[tuple[Callable[[dict[str, Any]], Any], str]] = [
    (lambda entries: entries.pop("counts"), "not complete"),
    (lambda entries: entries.pop("owners"), "not complete"),
    (lambda entries: entries.pop("schema"), "not complete"),
    (lambda entries: entries["run"].pop("rho"), "another version"),
    (terms_with(more=1), "not complete"),
    (run_with(more=1), "another version"),
    (schema_with(more=1), "not described"),
    (terms_with(run=None), "no run"),
    (terms_with(run=[]), "no run"),
    (terms_with(schema=""), "not described"),
    (terms_with(schema=0), "not described"),
    (terms_with(schema=False), "not described"),
    (terms_with(schema=[]), "not described"),
    (terms_with(schema={}), "not described"),
    (terms_with(schema="columns"), "not described"),
    (terms_with(width="4"), "width must be a whole number"),
    (terms_with(width=4.0), "width must be a whole number"),
    (terms_with(width=True), "width must be a whole number"),
    (terms_with(width=10**400), "width must be a whole number"),
    (terms_with(width=0), "width must be a whole number"),
    (terms_with(classes=-1), "classes must be a whole number"),
    (terms_with(classes=float("nan")), "classes must be a whole number"),
    (terms_with(records_per_person=0), "records_per_person must be a whole number"),
    (terms_with(counts=[60, 45, 0]), "count must be a whole number"),
    (terms_with(counts=[60, 45, 10**10]), "count must be a whole number"),
    (terms_with(counts=[60, 45, float("nan")]), "count must be a whole number"),
    (terms_with(counts=[60, 45, None]), "count must be a whole number"),
    (terms_with(counts=60), "as tuples"),
    (terms_with(counts="604580"), "as tuples"),
    (terms_with(counts={"ahorn": 60}), "as tuples"),
    (terms_with(owners="ahorn"), "as tuples"),
    (terms_with(owners=["ahorn", "birke"]), "3 counts for 2 owners"),
    (terms_with(counts=[60, 45]), "2 counts for 3 owners"),
    (terms_with(owners=["ahorn", "ahorn", "eiche"]), "each of them once"),
    (terms_with(owners=["ahorn", "birke", 3]), "owners must be names"),
    (terms_with(owners=[["ahorn"], "birke", "eiche"]), "owners must be names"),
    (terms_with(owners=["ahorn", "birke", "\x1b[2J"]), "owners must be names"),
    (terms_with(owners=["ahorn", "birke", "x" * 101]), "owners must be names"),
    (lambda entries: entries.pop("identities"), "not complete"),
    (terms_with(identities="a" * 64), "as tuples"),
    (terms_with(identities=["a" * 64, "b" * 64]), "every owner needs an identity"),
    (terms_with(identities=["a" * 64, "b" * 64, "a" * 64]), "every owner needs an identity"),
    (terms_with(identities=["a" * 64, "b" * 64, "C" * 64]), "identities must be fingerprints"),
    (terms_with(identities=["a" * 64, "b" * 64, "c" * 63]), "identities must be fingerprints"),
    (terms_with(identities=["a" * 64, "b" * 64, "c" * 64 + "\n"]), "identities must be fingerprints"),
    (terms_with(identities=["a" * 64, "b" * 64, 7]), "identities must be fingerprints"),
    (terms_with(stragglers="go on"), "stragglers must be one of"),
    (terms_with(stragglers=None), "stragglers must be one of"),
    (terms_with(stragglers=["wait"]), "stragglers must be one of"),
    (terms_with(width=5), "not those of the columns"),
    (terms_with(classes=3), "not those of the columns"),
    (run_with(intercept=True), "not those of the columns"),
    (run_with(rounds="6"), "rounds = '6' must be a whole number"),
    (run_with(rounds=6.5), "must be a whole number"),
    (run_with(rounds=10**30), "must be a whole number"),
    (run_with(epsilon=float("nan")), "must be a finite number"),
    (run_with(epsilon=float("inf")), "must be a finite number"),
    (run_with(epsilon=[2.0]), "must be a finite number"),
    (run_with(strength=None), "must be a finite number"),
    (run_with(algorithm=None), "must be a text"),
    (run_with(algorithm=["dp-admm"]), "must be a text"),
    (run_with(paper_noise=1), "must be true or false"),
    (run_with(alpha=[float("nan")]), "list of finite numbers"),
    (run_with(alpha=3), "list of finite numbers"),
    (schema_with(features="{"), "cannot be read"),
    (schema_with(features="[" * 50_000), "cannot be read"),
    (schema_with(target=""), "need a target"),
    (schema_with(target="age"), "'age' is the target"),
    (schema_with(classes=["no"]), "two or more"),
]


@pytest.mark.parametrize(("change", "said"), WRONG)
def test_terms_with_something_wrong_are_refused(
    drafts: Callable[..., Agreement], change: Callable[[dict[str, Any]], Any], said: str
) -> None:
    text = edited(drafts(), change)
    with pytest.raises(InputError, match=said):
        Agreement.loads(text)


def test_what_is_no_text_of_terms_is_refused(drafts: Callable[..., Agreement]) -> None:
    whole = drafts().dumps()
    assert Agreement.loads(whole) == drafts()
    for text in ["", "null", "5", "[]", '"terms"', "{}", whole[:-1], whole + whole, "[" * 100_000, "{" * 9, "\ud800"]:
        with pytest.raises(InputError):
            Agreement.loads(text)
    for made in (replace(drafts(), run=None), replace(drafts(), schema="columns"), replace(drafts(), owners=["a"])):
        with pytest.raises(InputError):
            made.checked()


values = some.recursive(
    some.none() | some.booleans() | some.integers() | some.floats() | some.text(max_size=8),
    lambda inner: some.lists(inner, max_size=3) | some.dictionaries(some.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)


@given(some.data())
@settings(max_examples=250, derandomize=True)
def test_whatever_stands_in_a_field_is_understood_or_refused(drafts: Callable[..., Agreement], data: Any) -> None:
    entries = asdict(drafts())
    table = data.draw(some.sampled_from(["", "", "run", "schema"]))
    place = entries[table] if table else entries
    name = data.draw(some.sampled_from(sorted(place)))
    place[name] = data.draw(values)
    try:
        found = Agreement.loads(json.dumps(entries))
    except InputError:
        return
    assert Agreement.loads(found.dumps()).digest == found.digest


# -- what becomes of a round without an owner --------------------------------------------------------------------------

FORBIDDEN = [
    ("skip", {"algorithm": "obj-g"}, "its server counts on the duals of all agents"),
    ("skip", {"algorithm": "out-l"}, "its server counts on the duals of all agents"),
    ("skip", {"algorithm": "ps-admm", "relation": "zero-out", "rounds": 2}, "its server counts on the duals"),
    ("skip", {"algorithm": "private-r-admm", "topology": "ring:3"}, "on a graph no round can be missed"),
    ("reuse", {"algorithm": "private-r-admm", "topology": "ring:3"}, "on a graph no round can be missed"),
]


@pytest.mark.parametrize(("stragglers", "changes", "said"), FORBIDDEN)
def test_rounds_that_cannot_be_missed_are_not_agreed_on(
    drafts: Callable[..., Agreement], stragglers: str, changes: dict[str, Any], said: str
) -> None:
    with pytest.raises(InputError, match=said):
        drafts(stragglers=stragglers, **changes).plan()
    assert drafts(**changes).plan().setting.agents == 3


@pytest.mark.parametrize("stragglers", STRAGGLERS)
@pytest.mark.parametrize("algorithm", ["dp-admm", "pvp", "dp-accelerated", "dpsgd"])
def test_a_mean_of_some_may_stand_for_that_of_all_where_the_server_keeps_no_duals(
    drafts: Callable[..., Agreement], stragglers: str, algorithm: str
) -> None:
    plan = drafts(stragglers=stragglers, algorithm=algorithm).plan()
    assert plan.tallies() == drafts(algorithm=algorithm).plan().tallies()


def test_stale_releases_suit_every_recipe_with_a_server(drafts: Callable[..., Agreement]) -> None:
    for changes in ({"algorithm": "obj-g"}, {"algorithm": "ps-admm", "relation": "zero-out"}, {"algorithm": "dvp"}):
        assert drafts(stragglers="reuse", **changes).plan().setting.rounds == 6


def test_a_federation_is_described_within_reason() -> None:
    for wrong, said in (
        ({"stragglers": "go on"}, "straggler policy"),
        ({"timeout": 0.0}, "timeout"),
        ({"timeout": float("inf")}, "timeout"),
        ({"timeout": float("nan")}, "timeout"),
        ({"min_owners": 0}, "min_owners"),
        ({"records_per_person": 0}, "records_per_person"),
        ({"owners": ("a", "b", "a")}, "once"),
    ):
        with pytest.raises(InputError, match=said):
            FederationSpec(**wrong)
    assert FederationSpec().stragglers == "wait"


def test_terms_and_columns_are_written_down_word_for_word(small_federation: ModuleType, tmp_path: Path) -> None:
    lived = small_federation.SmallFederation(tmp_path)
    folder = lived.folder()
    agreement = lived.terms()
    assert folder.agreement() is None
    folder.agree(agreement)
    assert folder.agreement() == agreement
    assert folder.schema == small_federation.SCHEMA
    assert not folder.finished
    with pytest.raises(InputError, match="holds another run"):
        lived.folder(rounds=7)
    assert lived.folder().status()["state"] == "submitted"
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="no run of a federation"):
        type(folder)(tmp_path / "empty").status()
