"""Every way out of an owner, in two worlds that differ in one record: what leaves is the same, bit for bit.

Noise makes neighbours alike in distribution. Here it makes them equal: in the second world each sum of the owner gets
the noise with which it comes to the noisy integers of the first. What leaves is then a function of these integers and
of public values, or it is a leak. Leaks are planted on every way out, and each must show on its own.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from dpadmm.admm.perturbations import base, evaluation
from dpadmm.admm.perturbations.base import Release
from dpadmm.cli.main import app
from dpadmm.federation.client import records
from dpadmm.federation.client.dispatch import METHODS
from dpadmm.federation.client.handler import Handler
from dpadmm.federation.client.made_up import made_up
from dpadmm.federation.server.metrics import CoordinatorMetrics
from dpadmm.owner.agent import Agent
from dpadmm.owner.answering import RunState
from dpadmm.privacy.events import GaussianDpEvent
from dpadmm.privacy.ledger import hash_chain
from dpadmm.release.perturb import add_noise

OWNER = "ahorn"
LONGEST = 0.5  # seconds by which a reply may take longer in one world than in the other: durations are not covered
WAYS = {
    "value", "seal", "signature", "other parts of a reply", "refusal", "duration", "evaluation", "log",
    "ledger export", "status", "metrics",
}  # fmt: skip


class Worlds:
    """Runs the same federation with the owner's records as they are, and with one of them replaced."""

    def __init__(self, federation: ModuleType, home: Path, patch: pytest.MonkeyPatch) -> None:
        self._federation, self._home, self._patch, self._made = federation, home, patch, 0
        self._noisy: dict[Any, np.ndarray] = {}
        self._counts: dict[Any, np.ndarray] = {}
        self.moved = 0  # sums that differ between the worlds
        self.states: list[str] = []
        for module in (base, evaluation):
            patch.setattr(module, "add_noise", self._coupled)
        # Keys, times, places on the disk and the name of the records are the same in both worlds.
        patch.setattr(hash_chain, "place_of", lambda path: "here")
        patch.setattr(hash_chain.secrets, "token_hex", lambda size: "5" * (2 * size))
        patch.setattr(hash_chain.secrets, "token_bytes", lambda size: b"5" * size)
        patch.setattr(records, "digest", lambda table: "d" * 64)
        patch.setattr(time, "strftime", lambda *_: "now")
        patch.setattr(records, "made_up", self._made_up)

    def _made_up(self, schema: Any, count: int, seed: int, owner: str, person: str | None = None) -> Any:
        """The records of a dry run, which are all that it reads; the owner's first one is another in either world."""
        table = made_up(schema, count, seed, owner, person)
        if owner != OWNER:
            return table
        cells = (1.0, -1.0, "f", "no") if self._second else (99.0, 1.0, "m", "yes")
        first = dict(zip(("age", "dose", "sex", "ill"), cells, strict=True))
        return table.from_pylist([first, *table.to_pylist()[1:]], schema=table.schema)

    def _coupled(self, counts: Any, mechanism: Any, sensitivity: Any, stream: Any) -> Any:
        name = stream._keys[0], stream._numbers.tobytes()
        if self._second:
            self.moved += not np.array_equal(counts, self._counts[name])
            return self._noisy[name]
        noisy = add_noise(counts, mechanism, sensitivity, stream)
        self._counts[name], self._noisy[name] = counts, noisy
        return noisy

    def both(self) -> list[dict[str, Any]]:
        """What leaves, by way, in either world."""
        return [self._left(second) for second in (False, True)]

    def _left(self, second: bool) -> dict[str, Any]:
        self._second, self._made = second, self._made + 1
        home = self._home / f"world{self._made}"
        home.mkdir()
        lived = self._federation.SmallFederation(home, counts=(20, 20, 20))
        line, left = lived.line(), {way: [] for way in WAYS}
        self._listen(line.desks[OWNER], left)
        folder = lived.folder(rounds=2, evaluation_epsilon=0.5)
        self.states.append(lived.run(folder, line)["state"])
        self._ask_for_more(lived, line.desks[OWNER])
        line.close()
        left["log"].append((lived.owner(OWNER).path / "events.jsonl").read_text())
        left["ledger export"].append(_printed("ledger", "export", str(lived.ledger_path(OWNER)), "--json"))
        left["status"].append(_printed("agent", "status", OWNER, "--state", str(home / OWNER / "state"), "--json"))
        left["metrics"] += [file.read_text() for file in sorted(folder.path.rglob("*.csv"))]
        return {
            way: repr(found).replace(home.name, "world") if way != "duration" else found for way, found in left.items()
        }

    def _listen(self, desk: Any, left: dict[str, list[Any]]) -> None:
        answer = desk.answer

        def heard(method: str, given: Any) -> dict[str, Any]:
            began = time.perf_counter()
            reply: dict[str, Any] = answer(method, given)
            left["duration"].append((method, time.perf_counter() - began))
            asked = isinstance(given, Mapping) and given.get("step") == "evaluation"
            for name, part in sorted(reply.items()):
                way = {"refused": "refusal"}.get(name, name if name in WAYS else "other parts of a reply")
                left["evaluation" if asked and name == "value" else way].append((method, part))
            return reply

        desk.answer = heard

    def _ask_for_more(self, lived: Any, desk: Any) -> None:
        """Whatever else can be asked, and what is refused."""
        greedy = lived.terms(epsilon=100.0)
        given: dict[str, Any] = {name: "study" for names in METHODS.values() for name in names}
        for method, names in METHODS.items():
            desk.answer(method, {name: given[name] for name in names})
        desk.answer("join", {"run": "greedy", "terms": greedy.dumps(), "seen": None, "known": []})
        again = lived.terms(rounds=2)
        desk.answer("join", {"run": "again", "terms": again.dumps(), "seen": None, "known": []})
        desk.answer("confirm", lived.confirmation("again", again))
        step = {"run": "again", "digest": again.digest, "inputs": b"", "missed_inputs": {}, "last_used": None}
        for number in (2, "evaluation", 7):
            desk.answer("answer_step", {**step, "step": number})


def _printed(*command: str) -> str:
    result = CliRunner().invoke(app, list(command))
    assert result.exit_code == 0, result.output
    return result.output


def differing(worlds: Worlds) -> set[str]:
    """The ways on which more leaves than noisy integers. A reply that is late once may be so by chance, so it is asked
    again."""
    one, other = worlds.both()
    found = {way for way in WAYS - {"duration"} if one[way] != other[way]}
    first, second = one["duration"], other["duration"]
    if len(first) != len(second):  # in one of the worlds the run came to an end
        return found
    for _ in range(3):
        late = [abs(a - b) > LONGEST for (_, a), (_, b) in zip(first, second, strict=True)]
        if not any(late):
            return found
        again = [each["duration"] for each in worlds.both()]
        first, second = (
            [(method, min(a, b)) for (method, a), (_, b) in zip(*pair, strict=True)]
            for pair in zip((first, second), again, strict=True)
        )
    return found | {"duration"}


@pytest.fixture
def worlds(small_federation: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Worlds:
    return Worlds(small_federation, tmp_path, monkeypatch)


def test_nothing_leaves_but_noisy_integers_and_what_is_public(worlds: Worlds) -> None:
    assert differing(worlds) == set()
    assert set(worlds.states) == {"finished"}
    assert worlds.moved >= 3  # two rounds and the evaluation: the sums themselves did differ


def test_no_part_of_a_release_is_new() -> None:
    assert [field.name for field in fields(Release)] == ["value", "events", "seal"]


# Leaks: each is one bit that says whose world it is, on one way out


def bit(shards: Any) -> int:
    """Whether the first record is the one that is replaced: it is old."""
    return int(shards.features[shards.starts[0], 0] > 0.9 * 2**21)


def around(owner: Any, name: str, change: Callable[..., Any]) -> Callable[[pytest.MonkeyPatch], None]:
    """Wraps a method: change(its result, the object, its arguments)."""
    method = getattr(owner, name)
    return lambda patch: patch.setattr(owner, name, lambda self, *given: change(method(self, *given), self, *given))


def in_the_last_bit(release: Release, agent: Any, *_: Any) -> Release:
    value = release.value.copy()
    value.view(np.uint64)[:] += np.uint64(bit(agent.shards))
    return replace(release, value=value)


def in_the_seal(release: Release, agent: Any, *_: Any) -> Release:
    assert release.seal is not None
    return replace(release, seal=replace(release.seal, mark=f"{bit(agent.shards)}{release.seal.mark[1:]}"))


def in_the_events(made: Any, run: Any, *_: Any) -> Any:
    release, state = made
    louder = [
        GaussianDpEvent(event.noise_multiplier * (1.0 + bit(run.shards)))
        if isinstance(event, GaussianDpEvent)
        else event
        for event in release.events
    ]
    return replace(release, events=tuple(louder)), state


def in_the_refusal(refused: Any, agent: Any, *_: Any) -> Any:
    refused.told += "." * bit(agent.shards)
    return refused


def in_the_duration(release: Release, agent: Any, *_: Any) -> Release:
    time.sleep(2.0 * LONGEST * bit(agent.shards))
    return release


def in_the_log(reply: Any, handler: Any, *_: Any) -> Any:
    handler.site.note("answered", oldest=float(handler.records.features.sum()))
    return reply


def among_refusals(release: Release, run: Any, *_: Any) -> Release:
    run.ledger.refuse(f"nothing to see here{'.' * bit(run.shards)}")
    return release


def in_the_settings(reply: Any, handler: Any, *_: Any) -> Any:
    old = bit(next(iter(handler._agents.values()))[0].shards)
    handler.site.save(replace(handler.settings, address=f"localhost:{8002 + old}"))
    return reply


def in_the_metrics(measured: dict[str, Any], metrics: Any, state: Any) -> dict[str, Any]:
    return measured | {"residual": np.array([LEAKED[0]])}


LEAKED = [0.0]


def remembered(reply: Any, handler: Any, *_: Any) -> Any:
    if handler.name == OWNER:
        LEAKED[0] = float(bit(next(iter(handler._agents.values()))[0].shards))
    return reply


LEAKS: dict[str, list[Callable[[pytest.MonkeyPatch], None]]] = {
    "value": [around(Agent, "answer", in_the_last_bit)],
    "seal": [around(Agent, "answer", in_the_seal)],
    "signature": [
        around(Handler, "_signed", lambda reply, self, *_: reply | {"signature": str(self.records.features[0])})
    ],
    "other parts of a reply": [
        around(Handler, "_introduce", lambda reply, self: reply | {"unusable": float(self.records.features.sum())})
    ],
    "refusal": [around(Agent, "_refusal", in_the_refusal)],
    "duration": [around(Agent, "answer", in_the_duration)],
    "evaluation": [
        around(RunState, "_evaluate", lambda made, run, *_: replace(made, value=made.value + 1e-9 * bit(run.shards)))
    ],
    "log": [around(Handler, "_answer_step", in_the_log)],
    "ledger export": [around(RunState, "_made_or_nothing", in_the_events)],
    "status, by a refusal": [around(RunState, "answer", among_refusals)],
    "status": [around(Handler, "_answer_step", in_the_settings)],
    "metrics": [around(Handler, "_answer_step", remembered), around(CoordinatorMetrics, "measure", in_the_metrics)],
}


def test_a_leak_is_planted_on_every_way() -> None:
    assert {name.split(",")[0] for name in LEAKS} == WAYS


@pytest.mark.parametrize("name", LEAKS)
def test_a_leak_shows_where_it_is_planted(name: str, worlds: Worlds, monkeypatch: pytest.MonkeyPatch) -> None:
    for plant in LEAKS[name]:
        plant(monkeypatch)
    assert name.split(",")[0] in differing(worlds)
