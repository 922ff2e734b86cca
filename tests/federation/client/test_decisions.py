"""An owner's decisions: each is signed by its own identity, for one proposal, and counts once."""

from __future__ import annotations

import json
import shutil
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from dpadmm._private_files import private_folder, write_private
from dpadmm.errors import InputError, Refused
from dpadmm.federation.cards import DECISION, OWNER, RELEASE
from dpadmm.federation.client import decisions as module
from dpadmm.federation.client.decisions import APPROVE, Decisions, Proposal
from dpadmm.federation.identity import Identity
from dpadmm.privacy.events import canonical

NORTH, SOUTH = Identity.create("north", OWNER), Identity.create("south", OWNER)
PROPOSAL = Proposal(
    run="study",
    terms="1" * 64,
    dataset="patients",
    records="2" * 64,
    ledger="3" * 64,
    policy="4" * 64,
    owner=NORTH.card.fingerprint,
    coordinator="5" * 64,
)
TOLD = {"run": "study", "sentence": "It costs epsilon 1."}


@pytest.fixture
def north(tmp_path: Path) -> Decisions:
    return Decisions(private_folder(tmp_path / "north"), NORTH.card)


def test_proposal_that_was_approved_counts_once(north: Decisions) -> None:
    assert not north.use_approval(PROPOSAL)
    assert north.ask(PROPOSAL, TOLD)
    assert not north.ask(PROPOSAL, TOLD)
    assert north.waiting() == {PROPOSAL.id: {"proposal": asdict(PROPOSAL), "told": TOLD}}
    assert not north.use_approval(PROPOSAL)
    assert north.decide(NORTH, PROPOSAL.id[:6], True) == PROPOSAL
    assert north.waiting() == {}
    assert north.approved(PROPOSAL)
    assert north.use_approval(PROPOSAL)
    assert not north.approved(PROPOSAL)
    assert not north.use_approval(PROPOSAL)
    assert not Decisions(north._folder, NORTH.card).use_approval(PROPOSAL)  # nor after a restart


@pytest.mark.parametrize(
    "change",
    [
        {"run": "other"},
        {"terms": "9" * 64},
        {"dataset": "visits"},
        {"records": "9" * 64},
        {"ledger": "9" * 64},
        {"policy": "9" * 64},
        {"owner": SOUTH.card.fingerprint},
        {"coordinator": "9" * 64},
    ],
)
def test_approval_is_for_nothing_else(north: Decisions, change: dict[str, str]) -> None:
    other = replace(PROPOSAL, **change)
    assert other.id != PROPOSAL.id
    north.ask(PROPOSAL, TOLD)
    north.decide(NORTH, PROPOSAL.id, True)
    assert not north.use_approval(other)
    assert north.use_approval(PROPOSAL)


def copies(north: Decisions) -> list[Path]:
    return sorted((north._folder / "decisions").iterdir())


def test_approval_that_was_used_does_not_count_again_when_it_is_put_back(north: Decisions) -> None:
    north.ask(PROPOSAL, TOLD)
    north.decide(NORTH, PROPOSAL.id, True)
    (file,) = copies(north)
    kept = file.read_bytes()
    assert north.use_approval(PROPOSAL)
    for place in (file, file.with_name("a" * 64 + ".json")):
        write_private(place, kept)
        assert not north.use_approval(PROPOSAL)
        place.unlink()


def test_only_this_owner_can_approve(north: Decisions, tmp_path: Path) -> None:
    """Another owner's process, with that owner's key, writes what would be an approval here."""
    north.ask(PROPOSAL, TOLD)
    with pytest.raises(InputError, match="not those of this agent"):
        north.decide(SOUTH, PROPOSAL.id, True)
    theirs = Decisions(private_folder(tmp_path / "south"), SOUTH.card)
    theirs.ask(PROPOSAL, TOLD)
    theirs.decide(SOUTH, PROPOSAL.id, True)
    private_folder(north._folder / "decisions")
    shutil.copy(copies(theirs)[0], north._folder / "decisions")
    assert not north.use_approval(PROPOSAL)
    forged = {"kind": APPROVE, "subject": asdict(PROPOSAL), "nonce": "b" * 64, "time": 1.0}
    signed = (APPROVE, canonical(asdict(PROPOSAL)), "b" * 64, canonical(1.0))
    for signature in (b"", bytes(64), SOUTH.sign(DECISION, *signed), NORTH.sign(RELEASE, *signed)):
        write_private(
            north._folder / "decisions" / f"{'b' * 64}.json", canonical({**forged, "signature": signature.hex()})
        )
        assert not north.use_approval(PROPOSAL)
    real = {**forged, "signature": NORTH.sign(DECISION, *signed).hex()}
    write_private(north._folder / "decisions" / f"{'b' * 64}.json", canonical(real))
    assert north.use_approval(PROPOSAL)


@pytest.mark.parametrize(
    "change",
    [
        {"kind": "decline"},
        {"nonce": "c" * 64},
        {"time": 2.0},
        {"signature": "00" * 64},
        {"signature": "x"},
        {"subject": {}},
        {"subject": {**asdict(PROPOSAL), "run": "other"}},
        {"more": 1},
        {"kind": None},
    ],
)
def test_decision_that_was_changed_is_none(north: Decisions, change: dict[str, Any]) -> None:
    north.ask(PROPOSAL, TOLD)
    north.decide(NORTH, PROPOSAL.id, True)
    (file,) = copies(north)
    write_private(file, canonical({**json.loads(file.read_text()), **change}))
    other = replace(PROPOSAL, run="other")
    assert not any(north.use_approval(each) for each in (PROPOSAL, other))
    assert not north.declined(PROPOSAL.terms)


def test_decisions_in_files_that_others_could_write_are_none(north: Decisions, tmp_path: Path) -> None:
    north.ask(PROPOSAL, TOLD)
    north.decide(NORTH, PROPOSAL.id, True)
    (file,) = copies(north)
    file.chmod(0o666)
    assert not north.use_approval(PROPOSAL)
    file.chmod(0o600)
    elsewhere = tmp_path / file.name
    file.rename(elsewhere)
    file.symlink_to(elsewhere)
    assert not north.use_approval(PROPOSAL)
    file.unlink()
    elsewhere.rename(file)
    file.parent.chmod(0o777)
    with pytest.raises(InputError, match="chmod 700"):
        north.use_approval(PROPOSAL)
    file.parent.chmod(0o700)
    assert north.use_approval(PROPOSAL)


def test_decline_is_for_the_terms_whatever_the_run_is_called(north: Decisions) -> None:
    north.ask(PROPOSAL, TOLD)
    north.decide(NORTH, PROPOSAL.id, False)
    for _ in range(2):  # and it stays
        assert north.declined(PROPOSAL.terms)
    assert not north.declined("9" * 64)
    assert not north.use_approval(PROPOSAL)
    new = NORTH.renewed()
    assert not Decisions(north._folder, new.card).declined(PROPOSAL.terms)
    north.carry_over(new)
    assert Decisions(north._folder, new.card).declined(PROPOSAL.terms)


def test_proposals_are_named_by_the_beginning_of_their_id(north: Decisions) -> None:
    others = [replace(PROPOSAL, run=f"run-{number}") for number in range(20)]
    for each in others:
        north.ask(each, TOLD)
    shared = next(a.id[0] for a in others for b in others if a != b and a.id[0] == b.id[0])
    count = sum(each.id.startswith(shared) for each in others)
    for beginning, number in ((shared, count), ("", 0), ("zz", 0), ("../", 0), (others[0].id + "0", 0)):
        with pytest.raises(InputError, match=f"^{number} of the runs that wait here have the name"):
            north.decide(NORTH, beginning, True)
    assert len(north.waiting()) == 20


def test_proposal_is_named_by_its_run_unless_another_one_has_that_name(north: Decisions) -> None:
    """Nobody who asks can put other terms in the place of those that the owner has read."""
    north.ask(PROPOSAL, TOLD)
    other = replace(PROPOSAL, terms="9" * 64)
    north.ask(other, TOLD)
    with pytest.raises(InputError, match=r"^2 of the runs"):
        north.decide(NORTH, "study", True)
    assert north.decide(NORTH, other.id[:12], False) == other
    assert north.decide(NORTH, "study", True) == PROPOSAL
    named = replace(PROPOSAL, run=PROPOSAL.id[:6])  # a run that is called like the id of another one
    north.ask(named, TOLD)
    north.ask(PROPOSAL, TOLD)
    with pytest.raises(InputError, match=r"^2 of the runs"):
        north.decide(NORTH, PROPOSAL.id[:6], True)


def test_proposal_under_another_policy_takes_the_place_of_the_first(north: Decisions) -> None:
    north.ask(PROPOSAL, TOLD)
    changed = replace(PROPOSAL, policy="9" * 64)
    north.ask(changed, TOLD)
    assert list(north.waiting()) == [changed.id]
    north.withdraw(changed)
    north.withdraw(changed)
    assert north.waiting() == {}


def test_whoever_asks_cannot_fill_the_disk(north: Decisions, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module._limits, "WAITING", 3)
    for number in range(3):
        north.ask(replace(PROPOSAL, run=f"run-{number}"), TOLD)
    with pytest.raises(Refused, match="too many runs wait"):
        north.ask(PROPOSAL, TOLD)
    north.decide(NORTH, next(iter(north.waiting())), False)
    north.ask(PROPOSAL, {**TOLD, "terms": "x" * 2_000_000})
    assert north.waiting()[PROPOSAL.id]["told"] == TOLD


def test_what_waits_is_shown_where_it_is_whole(north: Decisions) -> None:
    north.ask(PROPOSAL, TOLD)
    for text in (
        "",
        "{",
        "[]",
        "{}",
        canonical({"proposal": asdict(PROPOSAL)}),
        canonical({"proposal": {}, "told": {}}),
    ):
        write_private(north._folder / "waiting" / f"{'d' * 64}.json", text)
        assert list(north.waiting()) == [PROPOSAL.id]


def test_stop_is_for_one_process(north: Decisions) -> None:
    north.stop(NORTH, "p" * 64)
    assert not north.use_stop("q" * 64)
    assert north.use_stop("p" * 64)
    assert not north.use_stop("p" * 64)
    with pytest.raises(InputError, match="not those of this agent"):
        north.stop(SOUTH, "p" * 64)
