"""Nothing about the records gets past an owner's handler but releases, also if the records are not in order."""

import csv
import struct
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from handlers import ZEROS, handler, join, joined, log, reason, untouched, why

from dpadmm.federation.client.databases import PASSWORD
from dpadmm.privacy.ledger.sqlite import SqliteLedger

GENERIC = "this owner's records are not as agreed; 'dpadmm agent check' tells the owner why."


def rewritten(lived: Any, change: Callable[[list[list[str]]], Any], name: str = "ahorn") -> None:
    """Another table of an owner's records."""
    path = lived.home / name / "records.csv"
    with path.open() as file:
        rows = list(csv.reader(file))
    change(rows)
    with path.open("w", newline="") as file:
        csv.writer(file).writerows(rows)


MARK = "Zaphod-4711"
ODD: list[tuple[str, Callable[[list[list[str]]], Any]]] = [
    ("a category nobody agreed on", lambda rows: rows[3].__setitem__(2, MARK)),
    ("a class nobody agreed on", lambda rows: rows[3].__setitem__(3, MARK)),
    ("a text for a number", lambda rows: rows[3].__setitem__(0, MARK)),
    ("a number that is missing", lambda rows: rows[3].__setitem__(1, "")),
    ("a number that is not finite", lambda rows: rows[3].__setitem__(1, "inf")),
    ("a number beyond all numbers", lambda rows: rows[3].__setitem__(1, "-1e999")),
    ("a damaged line", lambda rows: rows[3].append(MARK)),
]


@pytest.mark.parametrize(("what", "change"), ODD)
def test_a_record_that_cannot_be_used_counts_as_zero_and_only_its_owner_knows(
    lived: Any, what: str, change: Callable[[list[list[str]]], Any]
) -> None:
    """0.1.0 refused to join: whoever asked learned something about a record, and paid nothing for it."""
    sound, _ = joined(lived)
    expected = sound.introduce()
    plain = np.asarray(sound.records.shards(lived.terms(), "ahorn").features)
    lived.ledger_path("ahorn").unlink()
    rewritten(lived, change)
    fresh(lived)
    asked = handler(lived)
    assert asked.introduce() == expected
    assert join(lived, asked, "study", lived.terms()) == 0
    assert "value" in asked.answer_step("study", lived.terms().digest, 1, ZEROS, {})
    features = np.asarray(asked.records.shards(lived.terms(), "ahorn").features)
    assert (asked.records.unusable, (~features.any(axis=1)).sum()) == (1, 1)
    lost = np.flatnonzero(~features.any(axis=1))[0]
    np.testing.assert_array_equal(np.delete(features, lost, 0), np.delete(plain, 2, 0))
    assert {"kind": "unusable", "records": 1}.items() <= log(lived)[0].items() or any(
        entry["kind"] == "unusable" and entry["records"] == 1 for entry in log(lived)
    )
    assert MARK not in (lived.owner("ahorn").path / "events.jsonl").read_text()


def fresh(lived: Any) -> None:
    """Another registry of ledgers: the records are others from now on."""
    import shutil

    shutil.rmtree(lived.owner("ahorn").registry.folder)


UNFIT: list[tuple[str, Callable[[list[list[str]]], Any]]] = [
    ("a column that is missing", lambda rows: rows[0].__setitem__(1, MARK)),
    ("no records", lambda rows: rows.__delitem__(slice(1, None))),
]


@pytest.mark.parametrize(("what", "change"), UNFIT)
def test_records_that_do_not_fit_are_refused_without_a_word_about_them(
    lived: Any, what: str, change: Callable[[list[list[str]]], Any]
) -> None:
    """Which columns there are is agreed on, and how many records there are is no secret."""
    rewritten(lived, change)
    for _ in range(2):
        asked = handler(lived)
        replies = [asked.introduce(), asked.join("study", lived.terms().dumps())]
        assert [reason(reply) for reply in replies] == [GENERIC, GENERIC]
    assert MARK not in (lived.owner("ahorn").path / "events.jsonl").read_text()
    assert not lived.ledger_path("ahorn").exists()


def test_records_that_are_gone_or_out_of_reach_are_refused_without_a_word_about_them(
    lived: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(PASSWORD, MARK)
    (lived.home / "ahorn" / "records.csv").unlink()
    assert reason(handler(lived).introduce()) == GENERIC
    site = lived.owner("ahorn")
    source = {"place": "postgresql://clerk@127.0.0.1:1/clinic", "query": "SELECT age FROM patients"}
    site.save(replace(lived.settings("birke", None), source=source))
    asked = handler(lived)
    assert reason(asked.introduce()) == GENERIC
    assert reason(asked.join("study", lived.terms().dumps())) == GENERIC
    assert MARK not in (lived.owner("ahorn").path / "events.jsonl").read_text()


def test_other_records_do_not_get_the_budget_of_those_before(lived: Any) -> None:
    asked, _ = joined(lived)
    asked.finish("study")
    rewritten(lived, lambda rows: rows[1].__setitem__(0, "1.5"))
    with untouched(lived):
        said = reason(handler(lived).join("other", lived.terms().dumps()))
    assert said == "this owner's agent is not in order; its log says why."
    lived.ledger_path("ahorn").unlink()
    assert "not in order" in reason(handler(lived).join("other", lived.terms().dumps()))
    assert "was here and is gone" in log(lived)[-1]["reason"]


def with_persons(lived: Any, each: int) -> None:
    def change(rows: list[list[str]]) -> None:
        rows[0].append("who")
        for number, row in enumerate(rows[1:]):
            row.append(f"{MARK}-{number // each}")

    rewritten(lived, change)
    lived.owner("ahorn").save(replace(lived.settings("ahorn", 7), person="who"))


def test_persons_with_several_records_are_protected_as_persons(lived: Any) -> None:
    lived.allow("ahorn", records_per_person=2)
    with_persons(lived, 2)
    assert "the terms protect 1 record" in why(lived, handler(lived).join("study", lived.terms().dumps()))
    asked, digest = joined(lived, records_per_person=2)
    assert "value" in asked.answer_step("study", digest, 1, ZEROS, {})
    assert MARK not in (lived.owner("ahorn").path / "events.jsonl").read_text()


def test_a_person_with_too_many_records_takes_part_with_the_first_of_them(lived: Any) -> None:
    """0.1.0 refused to join, which told something of a person for nothing."""
    lived.allow("ahorn", records_per_person=2)
    with_persons(lived, 3)
    asked, _ = joined(lived, records_per_person=2)
    features = np.asarray(asked._agents["study"][0]._joined["study"].shards.features)
    assert features.any(axis=1).tolist() == [number % 3 < 2 for number in range(len(features))]
    asked.finish("study")
    lived.owner("ahorn").save(replace(lived.settings("ahorn", 7), person="whom"))
    assert reason(handler(lived).introduce()) == GENERIC
    lived.owner("ahorn").save(lived.settings("ahorn", 7))
    said = why(lived, handler(lived).join("study", lived.terms(records_per_person=2).dumps()))
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
        asked.join("more", "{"),
        asked.answer_step("star", "", 1, b"", {}),
        asked.hear("y", "x", 1, b""),
    ]
    key = SqliteLedger.open(lived.ledger_path("ahorn"), reading=True).meta["key"]
    encoded = [age, dose, age / 100.0, (dose + 1.0) / 2.0]
    row = np.array([age / 100.0, (dose + 1.0) / 2.0, 1.0])
    encoded += list(row / np.linalg.norm([*row]))  # as it is clipped to length one
    secrets = [MARK.encode(), b"open-sesame-0815", key.encode(), bytes.fromhex(key)]
    secrets += [form for value in encoded[:-1] for form in (repr(value).encode(), struct.pack("<d", value))]
    secrets += [struct.pack(">d", value) for value in encoded[:-1]] + [str(lived.home / "ahorn").encode()]
    places = {"replies": repr(replies).encode() + b"".join(r.get("value", b"") for r in replies)}
    for path in sorted([*(lived.home / "runs").rglob("*"), *lived.home.glob("*/state/agents/*/*.jsonl")]):
        if path.is_file():
            places[str(path)] = path.read_bytes()
    assert len(places) > 15
    assert any(secrets[4] in path.read_bytes() for path in lived.home.glob("ahorn/records.csv"))
    for place, data in places.items():
        for secret in secrets:
            assert secret not in data, (place, secret)
