"""An owner's folder: keys, settings and log are its own, and one process is the agent."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from other_user import NOBODY, as_nobody, needs_root, reachable_folder
from small_federation import SCHEMA

from dpadmm.errors import InputError
from dpadmm.federation.cards import COORDINATOR, OWNER
from dpadmm.federation.client import owner_folder as module
from dpadmm.federation.client.owner_folder import AgentSettings, OwnerFolder
from dpadmm.federation.identity import Identity
from dpadmm.federation.invitation import Invitation

NORTH, COORDINATING = Identity.create("north", OWNER), Identity.create("study", COORDINATOR)
INVITATION, _ = Invitation.signed(COORDINATING, "localhost:8002", SCHEMA.dumps())
SETTINGS = AgentSettings("localhost:8002", "/p.toml", "/l.db", {"place": "/r.csv"}, "who", 7)


def made(state: Path) -> OwnerFolder:
    folder = OwnerFolder.of("north", state)
    folder.create(NORTH, INVITATION, SETTINGS)
    return folder


@pytest.fixture
def north(tmp_path: Path) -> OwnerFolder:
    return made(tmp_path / "state")


def test_folder_holds_what_was_written_and_is_closed_to_others(north: OwnerFolder) -> None:
    assert north.identity().card == NORTH.card
    assert north.coordinator() == COORDINATING.card
    assert north.schema() == SCHEMA
    assert north.settings() == SETTINGS
    north.save(replace(SETTINGS, dry_run=None, person=None))
    assert north.settings() == replace(SETTINGS, dry_run=None, person=None)
    north.note("joined")
    with north.running():
        pass
    for path in (north.path, *north.path.rglob("*"), north.path.parent):
        assert path.stat().st_mode & 0o077 == 0, path


def test_agent_is_made_once(north: OwnerFolder) -> None:
    with pytest.raises(InputError, match="'north' has an agent already"):
        north.create(Identity.create("north", OWNER), INVITATION, SETTINGS)
    assert north.identity().card == NORTH.card


def test_place_is_the_users_choice_or_the_platforms(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DPADMM_STATE", str(tmp_path / "mine"))
    assert OwnerFolder.of("north").path == tmp_path / "mine" / "agents" / "north"
    assert OwnerFolder.of("north", tmp_path / "told").path == tmp_path / "told" / "agents" / "north"
    assert OwnerFolder.of("north").registry.folder == tmp_path / "mine" / "ledgers"
    monkeypatch.delenv("DPADMM_STATE")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "xdg"))
    assert OwnerFolder.of("north").path == tmp_path / "xdg" / "dpadmm" / "agents" / "north"
    for name in ("../north", "", "a/b", "server"):
        with pytest.raises(InputError):
            OwnerFolder.of(name)


def test_agent_that_is_not_there_is_said_so(tmp_path: Path) -> None:
    folder = OwnerFolder.of("north", tmp_path)
    for call in (folder.identity, folder.settings, folder.coordinator, folder.schema, lambda: folder.is_running):
        with pytest.raises(InputError, match=r"no agent 'north' in .* 'dpadmm agent init'"):
            call()


@pytest.mark.parametrize("text", ["", "[]", "5", "{}", '{"policy": "/p"}', "{"])
def test_settings_that_are_not_whole_are_said_so(north: OwnerFolder, text: str) -> None:
    (north.path / "agent.json").write_text(text)
    with pytest.raises(InputError, match=r"agent\.json"):
        north.settings()


def test_planted_files_are_refused_not_followed(north: OwnerFolder, tmp_path: Path) -> None:
    """As a kit could bring them: a link in place of the log or of a card, a folder that others can write to."""
    victim = tmp_path / ".bashrc"
    victim.write_text("mine")
    (north.path / "events.jsonl").symlink_to(victim)
    north.note("refused", reason="$(touch OWNED)")
    assert victim.read_text() == "mine"
    other = tmp_path / "other.json"
    other.write_text(Identity.create("study", COORDINATOR).card.dumps())
    other.chmod(0o600)
    (north.path / "coordinator.json").unlink()
    (north.path / "coordinator.json").symlink_to(other)
    with pytest.raises(InputError, match="is a link"):
        north.coordinator()
    north.path.chmod(0o777)
    for call in (north.identity, north.settings, north.schema):
        with pytest.raises(InputError, match="chmod 700"):
            call()


def test_folder_that_somebody_else_made_is_refused(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir(mode=0o700)
    place = tmp_path / "state" / "agents"
    place.mkdir(parents=True)
    (place / "north").symlink_to(elsewhere)
    with pytest.raises(InputError, match="is a link"):
        made(tmp_path / "state")
    assert list(elsewhere.iterdir()) == []


def test_policy_that_others_could_raise_is_refused(north: OwnerFolder, tmp_path: Path) -> None:
    policy = tmp_path / "policy.toml"
    policy.write_text('dataset = "p"\nepsilon = 1.0\ndelta = 1e-6\n')
    policy.chmod(0o644)
    north.save(replace(SETTINGS, policy=str(policy)))
    assert north.policy().epsilon == 1.0
    policy.chmod(0o666)
    with pytest.raises(InputError, match="chmod go-w"):
        north.policy()


@needs_root
def test_another_user_learns_and_changes_nothing() -> None:
    with reachable_folder() as home:
        north = made(home / "state")
        for call in (
            lambda: (north.path / "keys.json").read_bytes(),
            lambda: (north.path / "decisions").mkdir(),
            lambda: (north.path / "agent.json").write_text("{}"),
            lambda: north.decisions(NORTH.card).stop(NORTH, "p" * 64),
        ):
            assert as_nobody(call) in ("PermissionError", "InputError")
        assert north.identity().card == NORTH.card


@needs_root
def test_state_of_another_user_is_refused(north: OwnerFolder) -> None:
    os.chown(north.path / "keys.json", NOBODY, NOBODY)
    with pytest.raises(InputError, match="belongs to another user"):
        north.identity()
    os.chown(north.path, NOBODY, NOBODY)
    with pytest.raises(InputError, match="belongs to another user"):
        north.settings()


# -- one process -------------------------------------------------------------------------------------------------------


def test_one_process_is_the_agent_and_ends_when_its_owner_says_so(north: OwnerFolder) -> None:
    assert not north.is_running
    with pytest.raises(InputError, match="does not run"):
        north.stop(NORTH)
    with north.running() as number:
        assert north.is_running
        with pytest.raises(InputError, match="runs already; 'dpadmm agent stop north'"), north.running():
            pass
        with pytest.raises(InputError, match="not those of this agent"):
            north.decisions(NORTH.card).stop(Identity.create("south", OWNER), number)
        assert not north.decisions(NORTH.card).use_stop(number)
        north.stop(NORTH)
        assert north.decisions(NORTH.card).use_stop(number)
        north.stop(NORTH)
    with north.running() as following:
        assert following != number
        assert not north.decisions(NORTH.card).use_stop(following)


# -- the log -----------------------------------------------------------------------------------------------------------


def test_log_has_the_last_events(north: OwnerFolder) -> None:
    assert north.events() == []
    for number in range(30):
        north.note("refused", number=number, by="birke")
    assert [entry["number"] for entry in north.events()] == list(range(10, 30))
    assert [entry["number"] for entry in north.events(3)] == [27, 28, 29]
    assert set(north.events(1)[0]) == {"time", "kind", "number", "by"}


def test_log_that_is_too_long_is_put_aside_once(north: OwnerFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LOG", 500)
    for number in range(100):
        north.note("refused", number=number)
    files = ["events.old.jsonl", "events.jsonl"]
    assert all((north.path / name).stat().st_size <= 600 for name in files)
    assert north.events(1)[0]["number"] == 99
    lines = [line for name in files for line in (north.path / name).read_text().splitlines()]
    kept = [json.loads(line)["number"] for line in lines]
    assert kept == list(range(kept[0], 100))


@pytest.mark.parametrize("facts", [{"reason": "it {sits} in {braces}"}, {"reason": "é\u2028\ud800 \n"}, {"reason": 5}])
def test_line_that_was_torn_anywhere_hides_no_other(north: OwnerFolder, facts: dict[str, Any]) -> None:
    """The machine stops in the middle of a line; the next event is written behind it."""
    north.note("first")
    north.note("torn", **facts)
    path = north.path / "events.jsonl"
    whole = path.read_bytes()
    for length in range(whole.index(b"\n") + 1, len(whole)):
        path.write_bytes(whole[:length])
        found = [entry["kind"] for entry in north.events()]
        assert found[0] == "first"
        assert found[1:] in ([], ["torn"])
        north.note("glued")
        north.note("last")
        found = [entry["kind"] for entry in north.events()]
        assert (found[0], found[-1]) == ("first", "last")


def test_facts_in_the_log_are_short_and_plain(north: OwnerFolder) -> None:
    north.note("refused", by=b"bytes", who=object(), what=["a", {1}], reason="x" * 10_000)
    (entry,) = north.events()
    assert (entry["by"], entry["who"], entry["what"], len(entry["reason"])) == ("bytes", "object", ["a", "set"], 2000)


def test_log_that_cannot_be_written_is_no_error(tmp_path: Path) -> None:
    folder = OwnerFolder.of("north", tmp_path)
    folder.note("refused")
    assert folder.events() == []
