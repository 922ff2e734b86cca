"""A power-flow run's folder, as `dpadmm report` reads it; its files are those of any run (`engine.folder`), and

network.json     buses with their zones, voltages and unmet loads, lines, and how loud noise on the loads is
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import tomli_w

from dpadmm._files import atomic_write, write_json
from dpadmm.applications.power_flow.pooled import solve_pooled
from dpadmm.applications.power_flow.releases import Adjacency
from dpadmm.applications.power_flow.rounds import FlowResult
from dpadmm.applications.power_flow.terms import Terms
from dpadmm.engine.output.history import History
from dpadmm.engine.output.status import StatusWriter
from dpadmm.errors import InputError
from dpadmm.privacy.events import Relation
from dpadmm.spec.projected_cost import MOST_ROUNDS, versions


def begin(path: Path, terms: Terms, case: str, seed: int) -> StatusWriter:
    """A new run's folder; the run is told of in it while it goes on."""
    if path.exists() and (not path.is_dir() or any(path.iterdir())):
        raise InputError(f"--out {str(path)!r} is not an empty folder; choose another one.")
    given = {name: value for name, value in asdict(terms).items() if value is not None}
    try:
        path.mkdir(parents=True, exist_ok=True)
        atomic_write(path / "spec.toml", tomli_w.dumps({"power-flow": {"case": case, "seed": seed, **given}}))
    except OSError as error:
        raise InputError(f"cannot write to {str(path)!r}: {error.strerror}.") from None
    return StatusWriter(path, terms.rounds, 1)


def summarise(result: FlowResult, case: str, seed: int) -> dict[str, Any]:
    """The result in plain values, beside the pooled optimum without privacy."""
    terms, parts, found = result.terms, result.decomposition, result.guarantee
    finite = found is not None and found.epsilon < float("inf")
    return {
        "case": parts.network.name if case.endswith(".m") else case,
        "algorithm": terms.algorithm,
        "buses": len(parts.network.buses),
        "lines": len(parts.network.lines),
        "zones": len(parts.zones),
        "cut_lines": int(parts.cut.size),
        "shared": int(parts.phi.size),
        "rounds": terms.rounds,
        "updates": terms.updates,
        "rho": terms.penalty,
        "formulation": terms.formulation if terms.linearised else None,
        "objective": result.objective,
        "pooled_objective": solve_pooled(parts.network).objective,
        "merged_objective": result.point.objective,
        "residual": result.residual,
        "private": False,  # simulated: the noise is seeded
        "fully_accounted": finite,
        "epsilon": found.epsilon if found is not None and finite else None,
        "delta": found.delta if found is not None else None,
        "accountant": found.accountant if found is not None else "none",
        "claimed_epsilon": result.claimed,
        "neighbours": f"{'both loads' if terms.both_loads else 'a load'} of one bus, by up to {terms.beta:g} per unit",
        "noise_multiplier": result.multiplier if found is not None else None,
        "simulated": True,
        "seed": seed,
        "seconds": round(result.seconds, 3),
    }


def finish(path: Path, result: FlowResult, summary: Mapping[str, Any]) -> None:
    """Writes what a finished run leaves; result.json comes last and marks it as finished."""
    _history(result).write(path / "history.csv")
    write_json(path / "plan.json", _facts(result, summary))
    write_json(path / "network.json", _network(result))
    write_json(path / "result.json", summary)


def _history(result: FlowResult) -> History:
    history = History()
    for place, (objective, residual) in enumerate(zip(result.objectives, result.residuals, strict=True)):
        measured = {"objective": np.array([objective]), "residual": np.array([residual])}
        if result.epsilons.size:
            measured["epsilon"] = result.epsilons[place : place + 1]
        history.add(place + 1, measured)
    return history


def _facts(result: FlowResult, summary: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "versions": versions(),
        "algorithm": result.terms.algorithm,
        "data": summary["case"],
        "agents": [f"zone {zone + 1}" for zone in range(len(result.decomposition.zones))],
        **{name: summary[name] for name in ("buses", "lines", "cut_lines", "rounds", "seed")},
        "simulated": True,
        "privacy": None if result.guarantee is None else _privacy(result, summary),
    }


def _privacy(result: FlowResult, summary: Mapping[str, Any]) -> dict[str, Any]:
    terms = result.terms
    once = terms.algorithm == "input"
    place = "loads" if once else "gradient" if terms.algorithm.startswith("obj") else "output"
    rounds = np.unique(np.linspace(1, terms.rounds, min(MOST_ROUNDS, terms.rounds)).round().astype(int))
    limit = None if terms.paper_noise else terms.epsilon
    return {
        "relation": str(Relation.REPLACE),
        "unit_size": 1,
        "neighbours": summary["neighbours"],
        "total": {name: summary[name] for name in ("epsilon", "delta", "accountant")},
        "noise": [
            {
                "perturbation": place,
                "reads_records": True,
                "mechanism": terms.mechanism,
                "multiplier": [result.multiplier, result.multiplier],
                "steps": terms.updates,
                "times": 1 if once else terms.rounds,
            }
        ],
        "before": once,
        "evaluation": False,
        "budgets": {
            "rounds": rounds.tolist(),
            "of": [
                {"agents": [zone], "delta": terms.delta or 0.0, "limit": limit, "epsilon": _finite(spent[rounds - 1])}
                for zone, spent in enumerate(result.zone_epsilons.T)
            ],
            "left_out": 0,
        },
    }


def _finite(values: np.ndarray) -> list[float | None]:
    return [float(value) if math.isfinite(value) else None for value in values]


def _network(result: FlowResult) -> dict[str, Any]:
    network, point = result.decomposition.network, result.point
    cut = set(result.decomposition.cut.tolist())
    columns = zip(
        network.buses.ids.tolist(),
        result.decomposition.partition.zone_of.tolist(),
        point.voltage.tolist(),
        point.active_mismatch.tolist(),
        point.reactive_mismatch.tolist(),
        strict=True,
    )
    names = ("id", "zone", "voltage", "active_mismatch", "reactive_mismatch")
    ends = zip(network.lines.start.tolist(), network.lines.end.tolist(), strict=True)
    return {
        "buses": [dict(zip(names, bus, strict=True)) for bus in columns],
        "lines": [{"start": a, "end": b, "cut": line in cut} for line, (a, b) in enumerate(ends)],
        "noise": _loud(result) if result.terms.algorithm == "input" else None,
    }


def _loud(result: FlowResult) -> dict[str, list[float]]:
    """How long noise on the loads is, as its mechanism has it, and the loads, zone by zone."""
    scale = result.multiplier * Adjacency(result.terms.beta, result.terms.both_loads).of_loads(2)
    loads = [zone.relaxation.loads for zone in result.decomposition.zones]
    return {
        "noise": [scale * math.sqrt(each.size) for each in loads],
        "signal": [float(np.linalg.norm(each)) for each in loads],
    }
