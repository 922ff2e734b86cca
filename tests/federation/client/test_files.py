"""An owner's own files: its settings, its word, and a log that can be torn and cannot grow for ever."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dpadmm.errors import InputError
from dpadmm.federation.client import files as module
from dpadmm.federation.client.files import AgentSettings, OwnerFiles

ONE, TWO, THREE = "ab" * 32, "ab1" + "c" * 61, "f" * 64
SETTINGS = AgentSettings("/p.toml", "/c.toml", "/l.db", {"place": "/r.csv"}, "who", 7, "/shelf")


@pytest.fixture
def site(tmp_path: Path) -> OwnerFiles:
    return OwnerFiles(tmp_path / "kit")


# -- settings ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "settings", [SETTINGS, AgentSettings("/p", "/c", "/l", {"place": "sqlite:///x", "query": "SELECT 1"})]
)
def test_settings_read_back(site: OwnerFiles, settings: AgentSettings) -> None:
    site.save(settings)
    assert site.settings() == settings
    site.save(replace(settings, dry_run=None, person=None))
    assert site.settings() == replace(settings, dry_run=None, person=None)
    assert [path.name for path in site.folder.iterdir()] == ["agent.json"]
    assert site.folder.stat().st_mode & 0o077 == 0


@pytest.mark.parametrize("text", [None, "", "[]", "5", "{}", '{"policy": "/p"}', "{", "\udcff"])
def test_settings_that_are_not_there_or_not_whole_are_said_so(site: OwnerFiles, text: str | None) -> None:
    if text is not None:
        site.folder.mkdir(parents=True)
        (site.folder / "agent.json").write_text(text, errors="surrogateescape")
    with pytest.raises(InputError, match="has no agent yet"):
        site.settings()


# -- the owner's word --------------------------------------------------------------------------------------------------


def asked(site: OwnerFiles) -> None:
    for digest, run in ((ONE, "first"), (TWO, "second"), (THREE, "third")):
        site.ask(digest, {"run": run, "sentence": f"about {run}"})


def test_what_waits_is_decided_by_the_beginning_of_its_digest(site: OwnerFiles) -> None:
    assert site.waiting() == {}
    asked(site)
    assert {digest: told["run"] for digest, told in site.waiting().items()} == {
        ONE: "first",
        TWO: "second",
        THREE: "third",
    }
    assert site.decide("f", True) == THREE
    assert site.decide("ab1", False) == TWO
    assert site.decide(ONE, True) == ONE
    assert site.waiting() == {}
    assert site.approved(THREE, "third")
    assert site.approved(ONE, "first")
    assert site.declined(TWO)
    assert not any((site.approved(TWO, "second"), site.declined(ONE), site.declined(THREE)))
    assert [(entry["kind"], entry["run"]) for entry in site.events()[3:]] == [
        ("approved", "third"),
        ("declined", "second"),
        ("approved", "first"),
    ]


@pytest.mark.parametrize(
    ("digest", "count"),
    [("ab", 2), ("", 0), ("0", 0), ("b", 0), ("cc", 0), (ONE + "0", 0), ("AB", 0), ("../", 0), ("*", 0)],
)
def test_a_beginning_that_names_none_or_several_is_refused(site: OwnerFiles, digest: str, count: int) -> None:
    asked(site)
    for yes in (True, False):
        with pytest.raises(InputError, match=f"^{count} of the terms that wait here"):
            site.decide(digest, yes)
    assert len(site.waiting()) == 3
    assert not any(site.approved(known, "first") or site.declined(known) for known in (ONE, TWO, THREE))


def test_a_word_is_given_on_what_waits_only(site: OwnerFiles) -> None:
    asked(site)
    site.decide(ONE, False)
    with pytest.raises(InputError, match=r"^0 of the terms"):
        site.decide(ONE, True)
    assert site.declined(ONE)
    assert not site.approved(ONE, "first")


def test_a_yes_names_the_run_it_is_for(site: OwnerFiles) -> None:
    asked(site)
    site.decide(ONE, True)
    assert site.approved(ONE, "first")
    for run in ("second", "", "First", None, ["first"]):
        assert not site.approved(ONE, run)  # type: ignore[arg-type]
    (site.folder / "approved" / f"{ONE}.json").write_text("{")
    assert not site.approved(ONE, "first")
    (site.folder / "approved" / f"{ONE}.json").write_text("[]")
    assert not site.approved(ONE, "first")


def test_terms_are_put_before_the_owner_once(site: OwnerFiles) -> None:
    site.ask(ONE, {"run": "first"})
    site.ask(ONE, {"run": "another"})
    assert site.waiting() == {ONE: {"run": "first"}}
    assert [entry["kind"] for entry in site.events()] == ["waiting"]


@pytest.mark.parametrize("digest", ["", "a" * 63, "a" * 65, "../" + "a" * 61, "a" * 63 + "/", "a" * 63 + ".", "." * 64])
def test_what_is_no_digest_names_no_file(site: OwnerFiles, digest: str) -> None:
    for call in (lambda: site.ask(digest, {}), lambda: site.declined(digest)):
        with pytest.raises(InputError, match="is no digest"):
            call()
    assert not site.approved(digest, "run")
    assert not site.folder.exists()


# -- the log -----------------------------------------------------------------------------------------------------------


def test_a_log_has_the_last_events(site: OwnerFiles) -> None:
    assert site.events() == []
    for number in range(30):
        site.note("refused", number=number, by="birke")
    assert [entry["number"] for entry in site.events()] == list(range(10, 30))
    assert [entry["number"] for entry in site.events(3)] == [27, 28, 29]
    assert set(site.events(1)[0]) == {"time", "kind", "number", "by"}


def test_a_log_that_is_too_long_is_put_aside_once(site: OwnerFiles, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LARGEST_LOG", 500)
    for number in range(100):
        site.note("refused", number=number)
    files = sorted(path.name for path in site.folder.iterdir())
    assert files == ["events.jsonl", "events.old.jsonl"]
    assert all((site.folder / name).stat().st_size <= 600 for name in files)
    assert site.events(1)[0]["number"] == 99
    kept = [
        json.loads(line)["number"] for name in reversed(files) for line in (site.folder / name).read_text().splitlines()
    ]
    assert kept == list(range(kept[0], 100))


@pytest.mark.parametrize("facts", [{"reason": "it {sits} in {braces}"}, {"reason": "é\u2028\ud800 \n"}, {"reason": 5}])
def test_a_line_that_was_torn_anywhere_hides_no_other(site: OwnerFiles, facts: dict[str, Any]) -> None:
    """The machine stops in the middle of a line; the next event is written behind it."""
    site.note("first")
    site.note("torn", **facts)
    path = site.folder / "events.jsonl"
    whole = path.read_bytes()
    start = whole.index(b"\n") + 1
    for length in range(start, len(whole)):
        path.write_bytes(whole[:length])
        found = [entry["kind"] for entry in site.events()]
        assert found[0] == "first"
        assert found[1:] in ([], ["torn"])
        site.note("glued")
        site.note("last")
        found = [entry["kind"] for entry in site.events()]
        assert (found[0], found[-1]) == ("first", "last")


def test_odd_facts_are_named_by_their_type(site: OwnerFiles) -> None:
    site.note("refused", by=b"bytes", who=object(), what=["a", {1}])
    (entry,) = site.events()
    assert (entry["by"], entry["who"], entry["what"]) == ("bytes", "object", ["a", "set"])


def test_a_log_that_cannot_be_written_is_no_error(site: OwnerFiles) -> None:
    site.folder.parent.mkdir(parents=True)
    site.folder.write_text("a file where the folder should be")
    site.note("refused")
    assert site.events() == []
