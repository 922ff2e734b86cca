"""`dpadmm ledger restore` and `record-lost`, over the ledger that `dpadmm agent init` has made."""

from __future__ import annotations

import json
import shutil
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from ledgers import GAUSSIAN, debit, join, put_back, snapshot
from small_federation import OWNERS, SmallFederation

from dpadmm.federation.client.owner_folder import OwnerFolder
from dpadmm.owner.agreement import Agreement
from dpadmm.privacy.events import GaussianDpEvent, PureDpEvent, Relation
from dpadmm.privacy.ledger.hash_chain import FORGOTTEN, OLDER
from dpadmm.privacy.ledger.protocol import Seal
from dpadmm.privacy.ledger.sqlite import SqliteLedger
from dpadmm.privacy.ledger.verify import verify


@pytest.fixture
def path(north: dict[str, Any]) -> Path:
    """A ledger with one release of run 'trial'."""
    place = Path(north["ledger"])
    with closing(SqliteLedger.open(place)) as ledger:
        join(ledger, "trial", {GAUSSIAN: 3})
        debit(ledger, "trial", 1, GAUSSIAN)
        ledger.fold()
    return place


def as_json(result: Any) -> dict[str, Any]:
    assert result.exit_code == 0, result.stderr
    assert result.stdout.count("\n") == 1
    return dict(json.loads(result.stdout))


def bad(result: Any, part: str) -> None:
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith("error: ")
    assert result.stderr.count("\n") == 1
    assert part in result.stderr


def others(tmp_path: Path) -> Agreement:
    """Terms of a run of three owners."""
    (tmp_path / "others").mkdir()
    return SmallFederation(tmp_path / "others").terms()


def one_more(path: Path, step: int = 2) -> None:
    with closing(SqliteLedger.open(path)) as ledger:
        debit(ledger, "trial", step, GAUSSIAN)
        ledger.fold()


def in_order(path: Path) -> int:
    """How many releases an unlocked ledger counts, in which all adds up."""
    with closing(SqliteLedger.open(path)) as ledger:
        assert (ledger.locked, verify(ledger)) == ("", [])
        return sum(ledger.spent().values())


def locked_by_a_seal(path: Path) -> None:
    """The whole machine is put back to before the second release, whose seal somebody has kept."""
    ledger = SqliteLedger.open(path)
    before = snapshot(ledger)
    seal = debit(ledger, "trial", 2, GAUSSIAN).seal
    assert isinstance(seal, Seal)
    put_back(ledger, before, log=True)
    with closing(SqliteLedger.open(path)) as again:
        again.lock(FORGOTTEN, seals=[seal.head])


def test_restore_goes_on_with_an_older_file_and_counts_what_it_forgot(dpadmm: Any, path: Path) -> None:
    older = path.read_bytes()
    one_more(path)
    path.write_bytes(older)
    assert as_json(dpadmm("ledger", "restore", path, "--json")) == {
        "ledger": str(path),
        "was_locked": OLDER,
        "counted": {"trial": 1},
        "moved_aside": None,
        "made_anew": False,
    }
    assert in_order(path) == 2
    assert "none: it had forgotten nothing" in dpadmm("ledger", "restore", path).stdout
    assert in_order(path) == 2


def test_restore_puts_a_backup_in_place_and_moves_the_file_aside(dpadmm: Any, path: Path, tmp_path: Path) -> None:
    backup = tmp_path / "backup"
    shutil.copyfile(path, backup)
    one_more(path)
    found = as_json(dpadmm("ledger", "restore", path, "--backup", backup, "--json"))
    assert (found["counted"], found["made_anew"]) == ({"trial": 1}, False)
    assert Path(found["moved_aside"]).exists()
    assert in_order(path) == 2
    text = dpadmm("ledger", "restore", path, "--backup", backup).stdout
    assert "Releases that are counted now: 1 of run 'trial'." in text
    assert "The file that was there is " in text
    assert in_order(path) == 2  # the backup forgets again, and the log tells again


def test_restore_makes_a_ledger_of_its_log_alone(dpadmm: Any, path: Path) -> None:
    one_more(path)
    path.unlink()
    found = as_json(dpadmm("ledger", "restore", path, "--json"))
    assert (found["counted"], found["moved_aside"], found["made_anew"]) == ({"trial": 2}, None, True)
    assert in_order(path) == 2


def test_restore_finds_key_and_log_by_state(dpadmm: Any, path: Path, state: Path, tmp_path: Path) -> None:
    bad(dpadmm("ledger", "restore", path, "--state", tmp_path / "elsewhere"), "knows no ledger at")
    assert as_json(dpadmm("ledger", "restore", path, "--state", state, "--json"))["counted"] == {}


def test_restore_refuses_what_is_no_backup_of_this_ledger(dpadmm: Any, path: Path, tmp_path: Path) -> None:
    before = path.read_bytes()
    other = tmp_path / "other.ledger"
    SqliteLedger.create(other, "visits", "e" * 64, Relation.REPLACE).close()
    text = tmp_path / "text"
    text.write_text("not a ledger" * 100)
    for backup, said in (
        (tmp_path / "none", "there is no ledger"),
        (text, "file is not a database"),
        (other, "a backup of another ledger; nothing was changed"),
    ):
        bad(dpadmm("ledger", "restore", path, "--backup", backup), said)
        assert path.read_bytes() == before
    bad(dpadmm("ledger", "restore", other), "knows no ledger at")


def test_restore_does_not_end_a_lock_by_a_seal_that_the_log_does_not_know(dpadmm: Any, path: Path) -> None:
    locked_by_a_seal(path)
    bad(dpadmm("ledger", "restore", path), "'dpadmm ledger record-lost'")
    with closing(SqliteLedger.open(path)) as ledger:
        assert ledger.locked == FORGOTTEN


def test_record_lost_says_what_is_known_and_changes_nothing(dpadmm: Any, path: Path) -> None:
    locked_by_a_seal(path)
    folder = OwnerFolder.of("north")
    folder.note("joined", run="trial")
    folder.note("joined", run="second")
    before = path.read_bytes()
    found = as_json(dpadmm("ledger", "record-lost", path, "--json"))
    assert found == {
        "ledger": str(path),
        "locked": FORGOTTEN,
        "known_to_registry": {},
        "unknown_seals": 1,
        "runs_in_logs": ["second"],
    }
    text = dpadmm("ledger", "record-lost", path).stdout
    for part in (f"Locked: {FORGOTTEN}.", "nobody here knows: 1.", "not in the ledger: second.", "Nothing was changed"):
        assert part in text
    assert path.read_bytes() == before


def test_record_lost_of_an_older_file_says_what_the_log_knows(dpadmm: Any, path: Path) -> None:
    older = path.read_bytes()
    one_more(path)
    path.write_bytes(older)
    assert as_json(dpadmm("ledger", "record-lost", path, "--json"))["known_to_registry"] == {"trial": 1}
    assert "the ledger does not count: 1." in dpadmm("ledger", "record-lost", path).stdout


def test_record_lost_counts_all_of_a_run_by_its_terms(dpadmm: Any, path: Path, tmp_path: Path) -> None:
    locked_by_a_seal(path)
    agreement, terms = others(tmp_path), tmp_path / "terms.json"
    terms.write_text(agreement.dumps())
    (tally,) = agreement.plan().take([1]).tallies()
    lost = ("ledger", "record-lost", path, "--terms", terms, "--owner", OWNERS[1])
    found = as_json(dpadmm(*lost, "--json"))
    assert found == {"ledger": str(path), "was_locked": FORGOTTEN, "recorded": sum(tally.values())}
    assert in_order(path) == 1 + sum(tally.values())
    with closing(SqliteLedger.open(path)) as ledger:
        assert ledger.spent() == {GAUSSIAN: 1, **tally}
    assert f"Recorded {sum(tally.values()):,} lost release(s)" in dpadmm(*lost).stdout
    assert in_order(path) == 1 + 2 * sum(tally.values())


@pytest.mark.parametrize("delta", ["1e-6", "0"])
def test_record_lost_counts_all_that_a_policy_allows(
    dpadmm: Any, path: Path, given: dict[str, Path], delta: str
) -> None:
    policy = given["policy"]
    policy.write_text(policy.read_text().replace("delta = 1e-6", f"delta = {delta}"))
    assert as_json(dpadmm("ledger", "record-lost", path, "--policy", policy, "--json"))["recorded"] == 1
    with closing(SqliteLedger.open(path)) as ledger:
        (lost,) = (run for name, run in ledger.runs().items() if name.startswith("lost-"))
    (event,) = lost.spent
    assert isinstance(event, PureDpEvent if delta == "0" else GaussianDpEvent)
    if delta != "0":
        assert as_json(dpadmm("ledger", "show", path, "--policy", policy, "--json"))["epsilon_left"] == 0.0


def test_record_lost_refuses_what_says_nothing_of_a_run(
    dpadmm: Any, path: Path, given: dict[str, Path], tmp_path: Path
) -> None:
    terms, broken = tmp_path / "terms.json", tmp_path / "broken.json"
    terms.write_text(others(tmp_path).dumps())
    broken.write_text("{")
    for options, said in (
        (("--terms", terms), "the terms are for ahorn, birke, eiche"),
        (("--terms", terms, "--owner", "north"), "the terms are for ahorn, birke, eiche"),
        (("--terms", tmp_path / "none.json", "--owner", "ahorn"), "none.json"),
        (("--terms", broken, "--owner", "ahorn"), "the terms cannot be read"),
        (("--policy", tmp_path / "none.toml"), "none.toml"),
        (("--policy", broken), "TOML"),
        (("--terms", terms, "--owner", "ahorn", "--policy", given["policy"]), "not both"),
        (("--owner", "ahorn"), "--terms"),
    ):
        bad(dpadmm("ledger", "record-lost", path, *options), said)
    bad(dpadmm("ledger", "record-lost", tmp_path / "none.ledger"), "no ledger")
    assert in_order(path) == 1


@pytest.mark.parametrize("verb", ["restore", "record-lost"])
def test_help_has_an_example(dpadmm: Any, verb: str) -> None:
    result = dpadmm("ledger", verb, "--help")
    assert result.exit_code == 0
    assert f"dpadmm ledger {verb} patients.ledger" in result.stdout
