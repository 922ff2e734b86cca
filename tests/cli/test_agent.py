"""An owner's commands, as far as they go without a connection; the rest is in tests/federation."""

from __future__ import annotations

import json
import threading
from contextlib import closing
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
from command_federation import flags
from ledgers import GAUSSIAN, debit, join, kinds, put_back, snapshot

from dpadmm.cli.agent_status import words
from dpadmm.errors import InputError, Refused
from dpadmm.federation.cards import OWNER, Card
from dpadmm.federation.client.decisions import Proposal
from dpadmm.federation.client.owner_folder import OwnerFolder
from dpadmm.federation.client.records import Records
from dpadmm.federation.identity import Identity
from dpadmm.privacy.events import Relation
from dpadmm.privacy.ledger.hash_chain import FORGOTTEN
from dpadmm.privacy.ledger.sqlite import SqliteLedger
from dpadmm.privacy.ledger.verify import verify

TOLD = {"run": "trial", "sentence": "Run 'trial' asks you for much."}


def proposal(folder: OwnerFolder, run: str = "trial", terms: str = "ab" * 32) -> Proposal:
    digests = dict.fromkeys(("records", "ledger", "policy"), "1" * 64)
    cards = {"owner": folder.identity().card.fingerprint, "coordinator": folder.coordinator().fingerprint}
    return Proposal(run=run, terms=terms, dataset="patients", **digests, **cards)


# -- making one --------------------------------------------------------------------------------------------------------


def test_agent_is_made_with_keys_of_its_own_and_a_card_for_the_coordinator(
    dpadmm: Any,
    given: dict[str, Path],
    state: Path,
    tmp_path: Path,
) -> None:
    result = dpadmm("agent", "init", "north", *flags(given))
    assert result.exit_code == 0
    folder = OwnerFolder.of("north")
    mine, coordinator = folder.identity().card, folder.coordinator()
    assert Card.loads((tmp_path / "north.card.json").read_text()) == mine
    assert mine.shown in result.stdout
    assert coordinator.shown in result.stdout
    assert "40 records" in result.stdout
    assert "another channel" in result.stdout
    settings = folder.settings()
    assert settings.ledger == str(state / "agents" / "north" / "patients.ledger")
    assert settings.policy == str(tmp_path / "policy.toml")
    assert all(path.stat().st_mode & 0o077 == 0 for path in [folder.path, *folder.path.iterdir()])
    again = dpadmm("agent", "init", "north", *flags(given))
    assert (again.exit_code, "has an agent already" in again.stderr) == (2, True)
    assert folder.identity().card == mine


def ledger_of(north: OwnerFolder) -> SqliteLedger:
    return SqliteLedger.open(Path(north.settings().ledger), folder=north.registry.folder)


def open_for_a_run(north: OwnerFolder) -> SqliteLedger:
    """As the agent does when it is asked to join."""
    records = Records(north.schema(), north.settings(), north.name)
    return north.registry.ledger(Path(north.settings().ledger), "patients", records.digest, Relation.REPLACE)


def test_ledger_is_made_with_the_keys_and_a_dry_run_makes_none(dpadmm: Any, given: dict[str, Path]) -> None:
    policy, invitation = given["policy"], given["invitation"]
    seeded = ("--policy", policy, "--invitation", invitation, "--dry-run", 1)
    assert dpadmm("agent", "init", "south", *seeded).exit_code == 0
    south = OwnerFolder.of("south")
    assert not Path(south.settings().ledger).exists()
    assert not south.registry.folder.exists()
    assert dpadmm("agent", "init", "north", *flags(given)).exit_code == 0
    with closing(ledger_of(OwnerFolder.of("north"))) as ledger:
        assert (ledger.dataset, ledger.relation, ledger.locked, kinds(ledger)) == (
            "patients", Relation.REPLACE, "", ["create"],
        )  # fmt: skip
        assert ledger.record.exists
        with ledger.record.held() as log:
            assert log is not None
            assert [line.kind for line in log.lines()] == ["create"]


def test_machine_put_back_to_before_its_first_run_is_found_out_by_a_seal(north: dict[str, Any]) -> None:
    """Made at the first joining, the ledger came back with another key, and no seal was its own."""
    folder = OwnerFolder.of("north")
    ledger = ledger_of(folder)
    before = snapshot(ledger)
    join(ledger, "one", {GAUSSIAN: 2})
    seal = debit(ledger, "one", 1, GAUSSIAN).seal
    assert seal is not None
    put_back(ledger, before, log=True)
    with closing(open_for_a_run(folder)) as again:
        assert (again.locked, again.signed(seal), again.spent()) == ("", True, {})
        with pytest.raises(Refused, match="old backup"):
            again.check_seal(seal)
        assert again.locked == FORGOTTEN


def test_records_may_change_until_a_run_is_joined(given: dict[str, Path], north: dict[str, Any]) -> None:
    """`agent init` says which records cannot be used; they can be mended then, and the ledger keeps its key."""
    folder = OwnerFolder.of("north")
    with closing(ledger_of(folder)) as made:
        identity = made.identity
    given["data"].write_text(given["data"].read_text() + "30.5,no\n")
    with closing(open_for_a_run(folder)) as ledger:
        assert (ledger.identity, ledger.locked, kinds(ledger)) == (identity, "", ["create", "records"])
        assert verify(ledger) == []
        join(ledger, "one", {GAUSSIAN: 2})
    given["data"].write_text(given["data"].read_text() + "31.5,no\n")
    with pytest.raises(InputError, match="for other records than these"):
        open_for_a_run(folder)
    with closing(ledger_of(folder)) as ledger:
        ledger.finish("one")
    with pytest.raises(InputError, match="for other records than these"):
        open_for_a_run(folder)


def test_making_an_agent_again_after_a_crash_keeps_its_ledger(dpadmm: Any, given: dict[str, Path]) -> None:
    assert dpadmm("agent", "init", "north", *flags(given)).exit_code == 0
    folder = OwnerFolder.of("north")
    with closing(ledger_of(folder)) as ledger:
        identity = ledger.identity
    for name in ("keys.json", "agent.json"):  # the last files that are written
        (folder.path / name).unlink()
    Path("north.card.json").unlink()
    assert dpadmm("agent", "init", "north", *flags(given)).exit_code == 0
    with closing(ledger_of(folder)) as ledger:
        assert ledger.identity == identity


def test_second_agent_for_a_data_set_that_has_a_ledger_is_not_made(
    dpadmm: Any, given: dict[str, Path], north: dict[str, Any]
) -> None:
    result = dpadmm("agent", "init", "south", *flags(given))
    assert (result.exit_code, "has its ledger at" in result.stderr) == (2, True)
    assert not OwnerFolder.of("south").exists
    assert not Path("south.card.json").exists()


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (("policy", "smallest_count = 30", "smallest_count = 50"), "40 records; the policy takes part with 50"),
        (("policy", "epsilon = 4.0", ""), "lacks epsilon"),
        (("policy", "epsilon", "records_per_person = 2\nepsilon"), "name the column that says whose a record is"),
        (("data", "age,ill", "years,ill"), "'age'"),
        (("invitation", "localhost", "elsewhere"), "cannot be used: the signature"),
        (("invitation", "{", "["), "is not JSON"),
    ],
)
def test_what_does_not_go_together_is_told_to_the_owner_before_anything_is_written(
    dpadmm: Any,
    given: dict[str, Path],
    state: Path,
    change: tuple[str, str, str],
    said: str,
) -> None:
    which, old, new = change
    given[which].write_text(given[which].read_text().replace(old, new, 1))
    result = dpadmm("agent", "init", "north", *flags(given))
    assert result.exit_code == 2
    assert said in " ".join(result.stderr.split())
    assert not state.exists()
    assert not Path("north.card.json").exists()


@pytest.mark.parametrize("name", ["../north", "server", "a b", ""])
def test_names_that_cannot_be_owners_make_no_agent(dpadmm: Any, given: dict[str, Path], state: Path, name: str) -> None:
    assert dpadmm("agent", "init", name, *flags(given)).exit_code == 2
    assert not state.exists()


def test_policy_that_others_can_write_to_is_refused_with_the_remedy(dpadmm: Any, given: dict[str, Path]) -> None:
    given["policy"].chmod(0o666)
    result = dpadmm("agent", "init", "north", *flags(given))
    assert result.exit_code == 2
    assert f"chmod go-w {given['policy']}" in " ".join(result.stderr.split())


def test_card_that_is_in_the_way_is_kept(dpadmm: Any, given: dict[str, Path], state: Path, tmp_path: Path) -> None:
    (tmp_path / "north.card.json").write_text("mine")
    result = dpadmm("agent", "init", "north", *flags(given))
    assert (result.exit_code, "--card" in result.stderr, state.exists()) == (2, True, False)
    assert dpadmm("agent", "init", "north", *flags(given), "--card", tmp_path / "other.json").exit_code == 0
    assert (tmp_path / "north.card.json").read_text() == "mine"


def test_records_that_cannot_be_used_are_counted_and_one_is_explained_to_the_owner(
    dpadmm: Any,
    given: dict[str, Path],
    north: dict[str, Any],
) -> None:
    """They count as zero, and keep nobody out: whether an agent starts must not tell of its records."""
    lines = given["data"].read_text().splitlines()
    lines[2], lines[5] = lines[2].replace("yes", "perhaps").replace("no", "perhaps"), "old," + lines[5].split(",")[1]
    given["data"].write_text("\n".join([*lines, ""]))
    found = json.loads(dpadmm("agent", "check", "north", "--json").stdout)
    assert (found["records"], found["unusable"]) == (40, 2)
    assert "'old' in column 'age', row 5 is not a number" in found["first_unusable"]
    text = " ".join(dpadmm("agent", "check", "north").stdout.split())
    assert "2 of them have a value that cannot be used and count as zero; nobody else is told. 'old' in column" in text


def test_state_can_be_anywhere(dpadmm: Any, given: dict[str, Path], tmp_path: Path, state: Path) -> None:
    place = tmp_path / "elsewhere"
    assert dpadmm("agent", "init", "north", *flags(given), "--state", place).exit_code == 0
    assert json.loads(dpadmm("agent", "status", "north", "--state", place, "--json").stdout)["state"].startswith(
        str(place)
    )
    assert not state.exists()
    missing = dpadmm("agent", "status", "north")
    assert (missing.exit_code, "dpadmm agent init" in missing.stderr) == (2, True)


@pytest.mark.parametrize(("name", "mode", "remedy"), [("keys.json", 0o644, "chmod 600"), (".", 0o755, "chmod 700")])
@pytest.mark.parametrize("command", ["check", "start", "status", "stop", "approve"])
def test_state_that_others_can_read_is_refused_by_every_command(
    dpadmm: Any,
    north: dict[str, Any],
    command: str,
    name: str,
    mode: int,
    remedy: str,
) -> None:
    (OwnerFolder.of("north").path / name).chmod(mode)
    result = dpadmm("agent", command, "north", *(["ab"] if command == "approve" else []))
    assert result.exit_code == 2
    assert remedy in result.stderr


# -- deciding ----------------------------------------------------------------------------------------------------------


def test_status_shows_spending_and_what_waits(dpadmm: Any, north: dict[str, Any]) -> None:
    folder = OwnerFolder.of("north")
    assert json.loads(dpadmm("agent", "status", "north", "--json").stdout)["spending"]["epsilon_spent"] == 0.0
    asked = proposal(folder)
    folder.decisions(folder.identity().card).ask(asked, TOLD)
    found = json.loads(dpadmm("agent", "status", "north", "--json").stdout)
    assert (found["running"], found["spending"]["epsilon_left"]) == (False, 4.0)
    assert found["waiting"] == {asked.id: {"terms_digest": asked.terms, **TOLD}}
    shown = dpadmm("agent", "status", "north").stdout
    assert "Run 'trial' asks you for much." in shown
    assert f"dpadmm agent approve north {asked.id[:12]}" in shown


def test_owner_approves_and_declines(dpadmm: Any, north: dict[str, Any]) -> None:
    folder = OwnerFolder.of("north")
    decisions = folder.decisions(folder.identity().card)
    first, second = proposal(folder), proposal(folder, "other", "cd" * 32)
    for each in (first, second):
        decisions.ask(each, {**TOLD, "run": each.run})
    assert dpadmm("agent", "approve", "north", "zz").exit_code == 2
    assert json.loads(dpadmm("agent", "approve", "north", first.id[:8], "--json").stdout) == {
        "run": "trial",
        "id": first.id,
        "terms_digest": first.terms,
        "approved": True,
    }
    assert "Declined" in dpadmm("agent", "approve", "north", second.id, "--decline").stdout
    assert decisions.waiting() == {}
    assert decisions.declined(second.terms)
    assert not decisions.use_approval(replace(first, dataset="visits"))
    assert decisions.use_approval(first)
    assert not decisions.use_approval(first)
    assert [event["kind"] for event in folder.events()] == ["approved", "declined"]


def test_another_owner_of_the_same_machine_cannot_approve(dpadmm: Any, north: dict[str, Any], given: Any) -> None:
    """It has an agent of its own here, with keys of its own."""
    own = {name: given[name].with_name(f"south-{given[name].name}") for name in ("policy", "data")}
    own["policy"].write_text(given["policy"].read_text().replace("patients", "visits"))
    own["data"].write_text(given["data"].read_text() + "30.5,no\n")
    assert dpadmm("agent", "init", "south", *flags({**given, **own})).exit_code == 0
    folder, other = OwnerFolder.of("north"), OwnerFolder.of("south")
    asked = proposal(folder)
    theirs = other.decisions(other.identity().card)
    theirs.ask(asked, TOLD)
    assert dpadmm("agent", "approve", "south", asked.id).exit_code == 0
    (file,) = (other.path / "decisions").iterdir()
    decisions = folder.decisions(folder.identity().card)
    decisions.ask(asked, TOLD)
    (folder.path / "decisions").mkdir(mode=0o700)
    (folder.path / "decisions" / file.name).write_bytes(file.read_bytes())
    (folder.path / "decisions" / file.name).chmod(0o600)
    assert not decisions.use_approval(asked)


# -- stopping ----------------------------------------------------------------------------------------------------------


def test_agent_that_does_not_run_cannot_be_stopped(dpadmm: Any, north: dict[str, Any]) -> None:
    result = dpadmm("agent", "stop", "north")
    assert (result.exit_code, "does not run" in result.stderr) == (2, True)


def test_agent_is_stopped_by_a_signed_file(dpadmm: Any, north: dict[str, Any]) -> None:
    folder = OwnerFolder.of("north")
    decisions = folder.decisions(folder.identity().card)
    began, ended = threading.Event(), threading.Event()

    def agent() -> None:
        with folder.running() as process:
            began.set()
            while not decisions.use_stop(process):
                ended.wait(0.01)

    running = threading.Thread(target=agent, daemon=True)
    running.start()
    assert began.wait(10.0)
    assert json.loads(dpadmm("agent", "status", "north", "--json").stdout)["running"] is True
    busy = dpadmm("agent", "start", "north")
    assert (busy.exit_code, "runs already" in busy.stderr) == (2, True)
    for command in (("rotate", "--card", "x.json"), ("trust", "--invitation", "study/invitation.json")):
        assert "runs already" in dpadmm("agent", command[0], "north", *command[1:]).stderr
    assert dpadmm("agent", "stop", "north").stdout == "north has stopped.\n"
    running.join(10.0)
    assert not folder.is_running


# -- keys --------------------------------------------------------------------------------------------------------------


def test_new_keys_are_signed_by_the_old_ones(dpadmm: Any, north: dict[str, Any], tmp_path: Path) -> None:
    folder = OwnerFolder.of("north")
    before = folder.identity().card
    decisions = folder.decisions(before)
    decisions.ask(proposal(folder), TOLD)
    decisions.decide(folder.identity(), proposal(folder).id, False)
    taken = dpadmm("agent", "rotate", "north")
    assert (taken.exit_code, "--card" in taken.stderr) == (2, True)
    assert folder.identity().card == before
    found = json.loads(dpadmm("agent", "rotate", "north", "--card", "new.json", "--json").stdout)
    after = Card.loads((tmp_path / "new.json").read_text())
    after.check_follows(before)
    assert folder.identity().card == after
    assert found["fingerprint"] == after.fingerprint
    assert folder.decisions(after).declined("ab" * 32)


def test_expired_card_keeps_an_agent_from_starting(
    dpadmm: Any,
    north: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from datetime import timedelta

    import dpadmm.federation.certificates as module

    folder = OwnerFolder.of("north")
    with monkeypatch.context() as past:
        past.setattr(module, "_EARLIER", timedelta(days=3))
        past.setattr(module, "timedelta", lambda days: timedelta(days=days - 2))
        Identity.create("north", OWNER, days=1).save(folder.path)
    for command in ("check", "start"):
        result = dpadmm("agent", command, "north")
        assert result.exit_code == 2
        assert "ran out" in result.stderr


@pytest.mark.parametrize(
    "kind",
    [*("waiting", "asked", "refused", "error", "unusable", "joined"), *("finished", "approved", "stopped", None)],
)
def test_every_event_has_words(kind: str | None) -> None:
    event = {"kind": kind, "run": "trial", "proposal": "ab" * 32, "sentence": "s", "reason": "r", "asked": "a"}
    assert words({**event, "round": 3, "records": 1}, "north")
    assert words({}, "north")


def test_decisions_are_no_larger_than_their_proposal(north: dict[str, Any]) -> None:
    """Nothing of the terms themselves is signed, only their digest."""
    assert set(asdict(proposal(OwnerFolder.of("north")))) == {
        *("run", "terms", "dataset", "records", "ledger", "policy", "owner", "coordinator")
    }
