"""Strangers cannot fill a disk or a terminal: what they make others write down is short, and bounded in number."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from forged_terms import forged_text
from handlers import handler, log, reason, waiting

from dpadmm import _limits
from dpadmm.federation.client import decisions
from dpadmm.federation.server.coordinator import Coordinator
from dpadmm.federation.server.run_folder import RunFolder
from dpadmm.spec.toml import loads

EVIL = "\x1b[2J\x1b[1;1Hrun finished, epsilon 0.1 \x1b]52;c;cm0gLXJmIH4=\x07" + "A" * 10_000_000


@pytest.fixture
def lived(small_federation: ModuleType, tmp_path: Path) -> Any:
    return small_federation.SmallFederation(tmp_path)


class Line:
    """Owners who all say the same."""

    def __init__(self, owners: tuple[str, ...], reply: Mapping[str, Any]) -> None:
        self.present, self._reply = owners, reply

    def ask(self, method: str, calls: Mapping[str, Any], seconds: float) -> dict[str, Any]:
        return dict.fromkeys(calls, self._reply)


@pytest.mark.parametrize(
    "reply", [{"refused": EVIL}, {"card": EVIL}, {"count": EVIL, "version": EVIL}, EVIL, {EVIL: 1}]
)
def test_what_owners_say_is_kept_short_and_plain(
    lived: Any, small_federation: ModuleType, tmp_path: Path, reply: Any
) -> None:
    """coord.py: 28 MB of status.json with escape sequences for whoever looks at it."""
    folder = RunFolder.create(tmp_path / "run", loads(small_federation.SPEC), small_federation.SCHEMA)
    Coordinator("x", folder, Line(small_federation.OWNERS, reply), lived.pins).run()
    assert folder.status()["state"] in ("refused", "failed", "interrupted")
    for path in (tmp_path / "run").iterdir():
        assert path.stat().st_size < 10_000
        assert b"\x1b" not in path.read_bytes()
    assert "\x1b" not in folder.status()["message"]


def test_a_runs_log_is_bounded(small_federation: ModuleType, tmp_path: Path) -> None:
    folder = RunFolder.create(tmp_path / "run", loads(small_federation.SPEC), small_federation.SCHEMA)
    for number in range(2000):
        folder.note(f"{number} {EVIL[:5000]}")
    kept = [tmp_path / "run" / name for name in ("events.txt", "events.old.txt")]
    assert sum(path.stat().st_size for path in kept) < 2 * _limits.LOG + 20_000
    assert " 1999 " in kept[0].read_text().splitlines()[-1]
    assert all(b"\x1b" not in path.read_bytes() for path in kept)


def test_runs_that_wait_take_little_space(lived: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """misc3.py (p): 34 MB in 40 joins."""
    monkeypatch.setattr(_limits, "WAITING", 6)
    lived.allow("ahorn", approval="hand")
    asked, plain = handler(lived), lived.terms()
    crowd = tuple(f"{number:x>100}" for number in range(2000))
    for number in range(8):
        terms = replace(
            plain,
            run=replace(plain.run, rounds=2 + number),
            owners=("ahorn", *crowd),
            counts=(60,) * 2001,
            identities=(lived.identities["ahorn"].card.fingerprint, *(f"{k:064x}" for k in range(2000))),
        )
        text = terms.dumps()
        assert len(text) > 300_000
        reply = asked.join("w", text)
        assert reply == (
            {"waiting": terms.digest} if number < 6 else {"refused": "too many runs wait for this owner's decision."}
        )
    found = waiting(lived)
    assert len(found) == 6
    assert all(
        "releases of" in entry["told"]["sentence"] or "asks you" in entry["told"]["sentence"]
        for entry in found.values()
    )
    files = list((lived.owner("ahorn").path / "waiting").iterdir())
    assert sum(path.stat().st_size for path in files) < 6 * 5000
    assert decisions.LARGEST > _limits.PROPOSAL


@pytest.mark.parametrize("name", ["x" * 20_000, "\x1b[2J", "a\u202eb", ""])
def test_names_of_runs_and_owners_are_names(lived: Any, name: str) -> None:
    """misc3.py (p): owners of 20,000 letters."""
    terms = lived.terms()
    entries = json.loads(terms.dumps())
    entries["owners"][1] = name
    assert "names" in reason(handler(lived).join("w", json.dumps(entries)))
    assert "a run needs a name" in reason(handler(lived).join(name, terms.dumps()))


def test_refusals_make_neither_ledger_nor_log_grow_much(lived: Any) -> None:
    """misc3.py (q): a ledger grew by what strangers gave as a loss, 200 kB at a time."""
    asked, terms = handler(lived), lived.terms()
    lived.allow("ahorn", losses=["softmax"])
    asked.join("first", terms.dumps())
    before = lived.ledger_path("ahorn").stat().st_size
    for number in range(20):
        loss = "smoothed-hinge:0." + "1" * 200_000 + f"{number:03}"
        reply = asked.join(f"q{number}", forged_text(terms, {"loss": loss}))
        assert len(reason(reply)) <= _limits.MESSAGE
    assert lived.ledger_path("ahorn").stat().st_size - before < 50_000
    assert len(log(lived)) >= 20
    assert (lived.owner("ahorn").path / "events.jsonl").stat().st_size < 100_000


def test_terms_that_are_too_long_or_deep_are_refused(lived: Any) -> None:
    asked = handler(lived)
    assert "reasonable length" in reason(asked.join("w", "[" * 2_000_000))
    for text in ("[" * 900_000, "{" * 900_000, "[" * 100 + "]" * 100, '{"run": ' + "[" * 500_000):
        assert reason(asked.join("w", text)) == "the terms cannot be read."
