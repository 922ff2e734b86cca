"""A run's folder as it is now: finished, going on, or left behind. Only its files are read, never any records."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

from dpadmm import _limits
from dpadmm._files import json_value, read_json, read_text
from dpadmm.engine.output.status import alive
from dpadmm.errors import InputError
from dpadmm.owner.agreement import Agreement
from dpadmm.report.document import State
from dpadmm.report.tables import Nodes, Table, read_history, read_nodes
from dpadmm.spec.declare import Experiment, RunSpec
from dpadmm.spec.projected_cost import described
from dpadmm.spec.toml import REMOVED, loads

Kind = Literal["simulation", "federation", "power-flow"]
_UNDER_WAY = ("joining", "waiting", "running")  # of a federation: a job's process says so
_STATES: dict[str, State] = {
    **dict.fromkeys(("submitted", *_UNDER_WAY), "running"),
    "interrupted": "interrupted",
    "crashed": "crashed",
    "refused": "crashed",
    "failed": "crashed",
}


_WITH_GAMMA_NORM = ("dvp", "dvp-graph", "private-r-admm", "private-mr-admm", "m-admm-penalty")  # 0.1.0's default

_FINISHED: tuple[State, str] = ("finished", "")


class NotYet(InputError):
    """Nothing has begun in a folder; whoever watches it waits."""


@dataclass(frozen=True, eq=False)
class Found:
    """One run."""

    path: Path
    kind: Kind
    state: State
    round: int
    rounds: int
    error: str
    spec: str
    experiment: Experiment | None  # None of power flow, which has terms of its own
    facts: Mapping[str, Any]  # of plan.json, or what the agreed terms come to; empty before there are any
    result: Mapping[str, Any] | None
    model: Mapping[str, Any] | None
    network: Mapping[str, Any] | None  # of power flow
    history: Table | None
    nodes: Nodes | None
    name: str = field(default="")

    @property
    def over(self) -> bool:
        return self.state != "running"


def read(path: Path) -> Found:
    """A folder as it is; `NotYet` where no run has begun in it, an `InputError` where a file cannot be understood."""
    if not path.is_dir():
        if path.exists():
            raise InputError(f"{str(path)!r} is a file; name the folder of a run.")
        raise NotYet(f"there is no folder {str(path)!r}; 'dpadmm train --out' makes one.")
    spec = path / "spec.toml"
    if not spec.exists():
        raise NotYet(f"{str(path)!r} is not the folder of a run: there is no spec.toml in it.")
    text = read_text(spec, "spec file", limit=_limits.SPEC)
    network = _json(path / "network.json")
    kind: Kind = "simulation"
    if (path / "columns.toml").exists():
        kind = "federation"
    elif "[power-flow]" in text:
        kind = "power-flow"
    # In this order: a process that is gone now, and has finished, has left its result by now.
    status = _json(path / "status.json")
    gone = status is not None and not alive(status)
    result = _json(path / "result.json")
    if result is not None:
        _check_complete(path, kind)
    if result is None and status is None:
        raise NotYet(f"{str(path)!r} does not say how far its run is: there is no status.json in it.")
    state, error = _FINISHED if result is not None else _state(kind, status or {}, gone, path)
    facts = _agreed(path) if kind == "federation" else _json(path / "plan.json") or {}
    with blame(path / "status.json"):
        rounds = int(facts.get("rounds") or (status or {}).get("rounds") or (result or {}).get("rounds") or 0)
        round = rounds if state == "finished" else int((status or {}).get("round") or 0)
    return Found(
        path=path,
        kind=kind,
        state=state,
        round=round,
        rounds=rounds,
        error=error,
        spec=text,
        experiment=None if kind == "power-flow" else loads(text, str(spec), ended=True),
        facts=facts,
        result=result,
        model=_json(path / "model.json") if result is not None else None,
        network=network if result is not None else None,
        history=read_history(path / "history.csv"),
        nodes=read_nodes(path / "nodes.csv"),
        name=path.absolute().name,
    )


def _check_complete(path: Path, kind: Kind) -> None:
    """A finished run has left all of its files."""
    others = {"simulation": ("plan", "model"), "federation": ("terms", "model"), "power-flow": ("plan", "network")}
    for name in ("history.csv", *(f"{each}.json" for each in others[kind])):
        if not (path / name).exists():
            raise InputError(f"{str(path / name)!r} is missing, although the run has finished.")


def breathes(path: Path) -> bool:
    """Whether the process that last spoke of a run is there; True where nobody has."""
    return alive(_json(path / "status.json") or {})


def _state(kind: Kind, status: Mapping[str, Any], gone: bool, path: Path) -> tuple[State, str]:
    """What a run without a result is doing, and what went wrong with it."""
    told = status.get("state")
    if told == "finished":
        raise InputError(f"{str(path / 'result.json')!r} is missing, although the run has finished.")
    if told not in _STATES:
        raise InputError(f"{str(path / 'status.json')!r}: the state {told!r} is none of {', '.join(_STATES)}.")
    if told in _UNDER_WAY and gone:
        return "crashed", "the process ended without a word."
    state = _STATES[told]
    words = status.get("message" if kind == "federation" else "error") if state in ("crashed", "interrupted") else ""
    return state, str(words or "")


@contextmanager
def blame(*paths: Path) -> Iterator[None]:
    """Whatever is wrong with the contents of a file, or of one of several, is said with their names."""
    try:
        yield
    except InputError:
        raise
    except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        said = f"{type(error).__name__}: {error}"
        names = " or ".join(repr(str(path)) for path in paths)
        raise InputError(f"{names} does not say what a run says ({said}); was it changed?") from None


def _json(path: Path) -> dict[str, Any] | None:
    if not path.exists():
        return None
    found = read_json(path, "file")
    if not isinstance(found, dict):
        raise InputError(f"{str(path)!r} must hold one JSON object.")
    return found


def _agreed(path: Path) -> Mapping[str, Any]:
    """What the agreed terms come to; nothing before there are any."""
    terms = path / "terms.json"
    if not terms.exists():
        return {}
    text = read_text(terms, "terms")
    try:
        return _of_terms(text)
    except InputError as error:
        raise InputError(f"{str(terms)!r}: {error}") from None


@lru_cache(maxsize=16)
def _of_terms(text: str) -> Mapping[str, Any]:
    agreement = Agreement.loads(_in_todays_words(text))
    return {**described(agreement.plan(), agreement.run, agreement.owners), "public_preprocessing": True}


def _in_todays_words(text: str) -> str:
    """Terms of 0.1.0, which named a precision, as the same terms are written today: only to be reported."""
    try:
        terms = json_value(text)
        run = terms["run"]
    except (ValueError, KeyError, TypeError):
        return text
    if not isinstance(run, dict) or "precision" not in run:
        return text
    if run.get("mechanism") is None and run.get("algorithm") in _WITH_GAMMA_NORM:
        run["mechanism"] = "gamma-norm"
    kept = {name: value for name, value in run.items() if ("run", name) not in REMOVED}
    return json.dumps({"identities": [], **terms, "run": {**asdict(RunSpec()), **kept}})
