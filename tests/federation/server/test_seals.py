"""Seals that coordinator and owners keep across runs: a machine that was restored is shown what it forgot."""

import json
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from ledgers import put_back, snapshot

from dpadmm.errors import InputError, Refused
from dpadmm.federation.seals import MOST, KeptSeals, from_lists, is_genuine
from dpadmm.privacy.ledger.hash_chain import FORGOTTEN
from dpadmm.privacy.ledger.protocol import Seal
from dpadmm.privacy.ledger.sqlite import SqliteLedger

SMALL = {"epsilon": 0.5, "rounds": 2}


@pytest.fixture
def lived(small_federation: ModuleType, tmp_path: Path) -> Any:
    return small_federation.SmallFederation(tmp_path)


def opened(lived: Any, name: str) -> SqliteLedger:
    return SqliteLedger.open(lived.ledger_path(name), folder=lived.owner(name).registry.folder)


def finished(lived: Any, name: str) -> None:
    folder = lived.folder(name=name, **SMALL)
    assert lived.run(folder)["state"] == "finished", folder.status()


def test_the_coordinator_shows_a_restored_machine_what_it_forgot(lived: Any) -> None:
    """The snapshot has ledger and state: nothing on the owner's machine knows of the second run."""
    finished(lived, "first")
    ledger = opened(lived, "ahorn")
    before = snapshot(ledger)
    ledger.close()
    finished(lived, "second")
    put_back(opened(lived, "ahorn"), before, log=True)
    again = opened(lived, "ahorn")
    assert again.locked == ""
    again.close()
    folder = lived.folder(name="third", **SMALL)
    status = lived.run(folder)
    assert status["state"] == "refused"
    assert "restored from an old backup" in status["message"]
    locked = opened(lived, "ahorn")
    assert locked.locked == FORGOTTEN
    locked.record_lost(dict(locked.spent()))
    locked.close()
    status = lived.run(folder)
    assert status["state"] == "finished", status  # the same seals are shown again, and were settled


def test_other_owners_show_it_where_the_coordinator_has_lost_its_own(lived: Any) -> None:
    finished(lived, "first")
    ledger = opened(lived, "ahorn")
    before = snapshot(ledger)
    ledger.close()
    finished(lived, "second")
    folder = lived.folder(name="third", **SMALL)
    (folder.path.parent / "seals.json").unlink()
    put_back(opened(lived, "ahorn"), before, log=True)
    status = lived.run(folder)
    assert status["state"] == "refused"
    assert "restored from an old backup" in status["message"]
    assert lived.steps("ahorn", "third") == []
    assert opened(lived, "ahorn").locked == FORGOTTEN


def test_what_is_kept_of_an_owner_is_its_own_word_and_shows_no_count(lived: Any) -> None:
    finished(lived, "first")
    folder = lived.folder(name="second", **SMALL)
    for kept, others in (
        (folder.seals, lived.owners),
        (lived.owner("birke").seals, ("ahorn", "eiche")),
    ):
        found = kept.of(lived.owners)
        assert set(found) == set(others)
        for name in others:
            (seal,) = found[name]
            assert is_genuine(seal, lived.pins()[name])
            assert not is_genuine(seal, lived.pins()["birke" if name != "birke" else "ahorn"])
            assert not is_genuine(replace(seal, mark="0" * 64), lived.pins()[name])
            assert set(seal.head + seal.mark + seal.signature) <= set("0123456789abcdef")
    assert (lived.owner("birke").path / "seals.json").stat().st_mode & 0o777 == 0o600


def test_seals_of_the_last_runs_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "seals.json"
    kept = KeptSeals(path.read_text, lambda text: path.write_text(text) and None, path)
    assert kept.of(["a"]) == {}
    seals = [Seal(f"{number:064x}", "e" * 64) for number in range(MOST + 2)]
    for number, seal in enumerate(seals):
        kept.keep(f"run {number}", {"a": Seal("f" * 64, "e" * 64), "b": None})
        kept.keep(f"run {number}", {"a": seal})
    assert kept.of(["a", "b"]) == {"a": seals[-MOST:]}
    for text in ("[]", '{"a": [["run"]]}', '{"a": [["run", ["x", "y", ""]]]}', "{"):
        path.write_text(text)
        with pytest.raises(InputError, match=r"seals\.json"):
            kept.of(["a"])


@pytest.mark.parametrize(
    "entry",
    [None, [], {"c": []}, {"a": None}, {"a": ["x"]}, {"a": [["x", "y", ""]]}, {"a": [["0" * 64, "1" * 64, ""]] * 40}],
    ids=json.dumps,
)
def test_what_are_no_seals_is_refused(entry: Any) -> None:
    with pytest.raises(Refused):
        from_lists(entry, ["a", "b"])
