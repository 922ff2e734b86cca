"""An owner's handler: who may ask, what odd arguments and unforeseen errors come to, and rounds on a graph."""

import json
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from handlers import INF, NAN, ZEROS, handler, joined, log, reason, untouched
from hypothesis import given, settings
from hypothesis import strategies as some

from dpadmm.federation.client.files import OwnerFiles
from dpadmm.federation.client.handler import Handler
from dpadmm.federation.client.peer import Turns
from dpadmm.federation.messages import VERSION


@pytest.mark.parametrize(
    "caller", ["birke", "ahorn", "Server", "server ", "", "admin@town", None, 7, ["server"], b"server"]
)
def test_nobody_but_the_coordinator_may_ask(lived: Any, caller: Any) -> None:
    asked, digest = joined(lived)
    terms = lived.terms(rounds=3).dumps()
    calls: list[tuple[str, Callable[[], Any]]] = [
        ("introduction", lambda: asked.introduce(caller)),
        ("join", lambda: asked.join(caller, "other", terms)),
        ("answer_step", lambda: asked.answer_step(caller, "study", digest, 1, ZEROS, {})),
        ("run_rounds", lambda: asked.run_rounds(caller, "study", digest, 0, lambda *_: None, 1.0, lambda call: call())),
        ("rounds_status", lambda: asked.rounds_status(caller, "study", {"value": ZEROS})),
        ("finish", lambda: asked.finish(caller, "study")),
    ]
    for what, call in calls:
        with untouched(lived):
            assert reason(call()) == "only the coordinator may ask that."
        last = log(lived)[-1]
        assert (last["kind"], last["asked"]) == ("refused", what)
        assert last["by"] == (caller if isinstance(caller, str | int | list | None) else type(caller).__name__)
    assert "value" in asked.answer_step("server", "study", digest, 1, ZEROS, {})


def test_a_desk_says_how_many_records_it_has_and_which_columns(lived: Any, small_federation: ModuleType) -> None:
    with untouched(lived):
        assert handler(lived).introduce("server") == {
            "version": VERSION,
            "count": 60,
            "columns": small_federation.SCHEMA.digest,
            "dry_run": True,
        }
    OwnerFiles(lived.home / "birke").save(lived.settings("birke", None))
    assert handler(lived, "birke").introduce("server")["dry_run"] is False
    assert not lived.ledger_path("ahorn").exists()


odd = some.recursive(
    some.none()
    | some.booleans()
    | some.integers()
    | some.floats()
    | some.text(max_size=6)
    | some.binary(max_size=40)
    | some.sampled_from(["study", "ring", ZEROS, NAN, INF, object(), np.zeros(4), b"\xff" * 32, 10**400]),
    lambda inner: some.lists(inner, max_size=3) | some.dictionaries(some.text(max_size=2) | some.integers(), inner),
    max_leaves=4,
)


@pytest.fixture(scope="module")
def hub(small_federation: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Handler, dict[str, Any]]:
    """A desk in the middle of two runs, with a server and on a graph."""
    lived = small_federation.SmallFederation(tmp_path_factory.mktemp("hub"))
    lived.allow("ahorn", epsilon=50.0)
    made = handler(lived)
    terms = {"study": lived.terms(), "ring": lived.terms(algorithm="private-r-admm", topology="ring:3")}
    for run, each in terms.items():
        assert "joined" in made.join("server", run, each.dumps())
    made.answer_step("server", "study", terms["study"].digest, 1, ZEROS, {})
    return lived, made, terms


@given(some.data())
@settings(max_examples=150, derandomize=True)
def test_no_exception_and_no_release_comes_of_odd_arguments(
    hub: tuple[Any, Handler, dict[str, Any]], data: Any
) -> None:
    lived, asked, terms = hub
    before = lived.steps("ahorn"), lived.steps("ahorn", "ring")
    method = data.draw(
        some.sampled_from(["introduce", "join", "answer_step", "finish", "run_rounds", "rounds_status", "hear"])
    )
    run = data.draw(some.sampled_from(["study", "ring"]))
    known: dict[str, Any] = {"run": run, "digest": terms[run].digest, "terms": terms[run].dumps(), "step": 2}
    known |= {
        "inputs": ZEROS,
        "missed_inputs": {},
        "last_used": None,
        "seen": None,
        "start": 1,
        "timeout": 0.01,
        "round": 1,
        "value": ZEROS,
    }
    names = {
        "introduce": [],
        "join": ["run", "terms", "seen"],
        "answer_step": ["run", "digest", "step", "inputs", "missed_inputs", "last_used"],
        "finish": ["run"],
        "run_rounds": ["run", "digest", "start", "timeout"],
        "rounds_status": ["run"],
        "hear": ["run", "round", "value"],
    }[method]
    wrong = data.draw(some.sets(some.sampled_from(names), min_size=1)) if names else set()
    call = {name: data.draw(odd) if name in wrong else known[name] for name in names}
    caller = "server" if names and method != "hear" else data.draw(odd)
    if all(type(call.get(name)) is type(known[name]) and call[name] == known[name] for name in names):
        return
    named = isinstance(call.get("run"), str) and call["run"] in ("study", "ring")  # an array compares by entries
    if (type(call.get("start")) is int and call["start"] == 0) or (method in ("finish", "rounds_status") and named):
        return  # these are in order
    if method == "rounds_status":
        call |= {"end": None}
    if method == "run_rounds":
        call |= {"tell": lambda *_: None, "turn": lambda work: work()}
    reply = getattr(asked, method)(caller, **call)
    assert isinstance(reply, dict)
    assert set(reply) in ({"refused"}, {"joined", "rounds_answered"}), reply
    json.dumps(reply)
    assert (lived.steps("ahorn"), lived.steps("ahorn", "ring")) == before


def test_an_error_nobody_thought_of_is_refused_without_its_text(lived: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    asked, digest = joined(lived)

    def fails(*_: Any) -> Any:
        raise MemoryError("the row [42.4242, 'planted']")

    monkeypatch.setattr(asked._agents["study"][0], "answer", fails)  # type: ignore[attr-defined]
    monkeypatch.setattr("dpadmm.federation.client.handler.Agreement.loads", fails)
    for call in (
        lambda: asked.answer_step("server", "study", digest, 1, ZEROS, {}),
        lambda: asked.join("server", "study", lived.terms().dumps()),
    ):
        with untouched(lived):
            assert reason(call()) == "this owner's agent failed; its log says how."
        assert (log(lived)[-1]["kind"], log(lived)[-1]["reason"]) == ("error", "MemoryError")
    assert "planted" not in (lived.home / "ahorn" / "agent" / "events.jsonl").read_text()


def test_a_log_that_cannot_be_written_keeps_nobody_from_refusing(lived: Any) -> None:
    asked = handler(lived)
    (lived.home / "ahorn" / "agent" / "events.jsonl").mkdir()
    assert "only the coordinator" in reason(asked.join("birke", "study", ""))
    assert asked.introduce("server")["count"] == 60


def test_a_desk_on_a_graph_waits_for_its_neighbours_and_names_who_is_late(lived: Any) -> None:
    made, digest = joined(lived, algorithm="private-r-admm", topology="ring:3")
    told: list[Any] = []

    def tell(names: list[str], round: int, value: bytes) -> None:
        told.append((names, round, value))

    class Here(Turns):
        def __init__(self) -> None: ...

        def __call__(self, call: Callable[[], Any]) -> Any:
            return call()

    assert made.rounds_status("server", "study", None) == {"round": 0}
    reply = made.run_rounds("server", "study", digest, 0, tell, 0.01, Here())
    assert reason(reply) == "birke, eiche did not tell its release of round 1 within 0.01 s."
    assert made.rounds_status("server", "study", None) == {"round": 1}
    assert made.rounds_status("server", "study", reply) == reply
    assert lived.steps("ahorn") == ["1"]
    assert told[0][:2] == (["birke", "eiche"], 1)
    for caller, round, value, said in (
        ("linde", 1, ZEROS, "no neighbour"),
        ("server", 1, ZEROS, "no neighbour"),
        ("ahorn", 1, ZEROS, "no neighbour"),
        ("birke", 0, ZEROS, "no such round"),
        ("birke", 7, ZEROS, "no such round"),
        ("birke", 1, ZEROS[:-8], "3 numbers, not 4"),
        ("birke", 1, NAN, "not finite"),
    ):
        assert said in reason(made.hear(caller, "study", round, value))
    assert "not joined" in reason(made.hear("birke", "other", 1, ZEROS))
    assert made.hear("birke", "study", 1, ZEROS) == {"heard": 1}
    reply = made.run_rounds("server", "study", digest, 0, tell, 0.01, Here())
    assert reason(reply) == "eiche did not tell its release of round 1 within 0.01 s."
    assert lived.steps("ahorn") == ["1"]
    made.hear("eiche", "study", 1, ZEROS)
    lived.allow("ahorn", algorithms=["pvp"])
    assert "not allowed here" in reason(made.run_rounds("server", "study", digest, 0, tell, 0.01, Here()))
    assert lived.steps("ahorn") == ["1"]
    lived.allow("ahorn")
    for start, said in ((-1, "no such round"), (7, "no such round"), (2, "no such release"), ("0", "other terms")):
        assert said in reason(made.run_rounds("server", "study", digest, start, tell, 0.01, Here()))
    assert "other terms" in reason(made.run_rounds("server", "study", "0" * 64, 0, tell, 0.01, Here()))
    assert "other terms" in reason(made.run_rounds("server", "study", digest, 0, tell, None, Here()))

    def unreachable(*_: Any) -> None:
        raise OSError("eiche")

    assert "cannot be told the release of round 1" in reason(
        made.run_rounds("server", "study", digest, 0, unreachable, 0.01, Here())
    )
    assert lived.steps("ahorn") == ["1"]


def test_a_run_with_a_server_is_not_walked(lived: Any) -> None:
    made, digest = joined(lived)
    with untouched(lived):
        reply = made.run_rounds("server", "study", digest, 0, lambda *_: None, 1.0, None)  # type: ignore[arg-type]
        assert "has a server" in reason(reply)
        assert "has a server" in reason(made.rounds_status("server", "study", None))
        assert "not joined" in reason(made.hear("birke", "study", 1, ZEROS))
