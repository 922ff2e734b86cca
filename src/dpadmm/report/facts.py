"""What was run, in words: labels and values, warnings, and the promise."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dpadmm.report.charts.budget import HOLDERS, spent_by
from dpadmm.report.document import GuaranteeText, RunCard
from dpadmm.report.reading import Found, blame
from dpadmm.report.wording import UNKNOWN, Promise, guarantee, open_run


def told(run: Found) -> RunCard:
    """A run as the page has it."""
    with blame(run.path / "result.json", run.path / "plan.json"):
        facts = _power(run) if run.kind == "power-flow" else _learning(run)
        warnings = (run.result if run.result is not None else run.facts).get("warnings", ())
        return RunCard(
            name=run.name,
            state=run.state,
            round=run.round,
            rounds=run.rounds,
            guarantee=_guarantee(run),
            facts=[(label, str(value)) for label, value in facts if value not in (None, "")],
            warnings=[str(each) for each in warnings],
            error=run.error,
            spec=run.spec,
        )


def _guarantee(run: Found) -> GuaranteeText:
    holder = HOLDERS[run.kind]
    if not run.facts:
        return UNKNOWN
    privacy, result = run.facts["privacy"], run.result or {}
    if privacy is None:
        return open_run(holder)
    total: Mapping[str, Any] = result if result.get("accountant") else privacy["total"]
    return guarantee(
        Promise(
            state=run.state,
            round=run.round,
            rounds=run.rounds,
            epsilon=total["epsilon"],
            delta=float(total["delta"]),
            relation=privacy["relation"],
            accountant=total["accountant"],
            simulated=_simulated(run),
            spent=spent_by(run),
            unit_size=privacy["unit_size"],
            holder=holder,
            noise=_noise(privacy),
            public_preprocessing=bool(run.facts.get("public_preprocessing", True)),
            claimed=result.get("claimed_epsilon"),
            neighbours=privacy.get("neighbours", ""),
        )
    )


def _simulated(run: Found) -> bool:
    """Whether the noise is seeded: of a federation, whether this was a dry run."""
    if run.kind == "federation":
        return bool((run.result or {}).get("simulated")) or (run.path / "dry_run").exists()
    return True


def _noise(privacy: Mapping[str, Any]) -> str:
    """Kinds, multipliers and releases, of every phase that reads records."""
    parts = []
    for each in privacy["noise"]:
        if not each["reads_records"]:
            parts.append(f"{each['times']:,} rounds recycled at no cost")
            continue
        low, high = each["multiplier"]
        multiplier = f"{low:.4g}" if f"{low:.4g}" == f"{high:.4g}" else f"{low:.4g} to {high:.4g}"
        releases = each["times"] * each["steps"]
        steps = f" of {each['steps']} steps" if each["steps"] > 1 else ""
        where = f"{each['mechanism']} noise on the {each['perturbation'].replace('-', ' ')}"
        often = "one release" if releases == 1 else f"{each['times']:,} rounds{steps}: {releases:,} releases"
        parts.append(f"{where}, noise multiplier {multiplier}, {often}")
    parts += ["one release before the rounds"] if privacy["before"] and "neighbours" not in privacy else []
    parts += ["one estimate of the error after them"] if privacy["evaluation"] else []
    return "; ".join(parts)


def _learning(run: Found) -> list[tuple[str, Any]]:
    assert run.experiment is not None
    terms, data, simulation = run.experiment.run, run.experiment.data, run.experiment.simulation
    facts, result = run.facts, run.result or {}
    names: Sequence[str] = facts.get("agents") or ()
    far = run.kind == "federation"
    return [
        ("algorithm", str(terms.algorithm)),
        ("data", "with the owners" if far else data.source),
        ("owners" if far else "agents", _agents(names, far)),
        ("records", _records(facts)),
        ("held-out records", _number(facts.get("test_records"))),
        ("coefficients", _number(facts.get("dimension"))),
        ("loss", result.get("loss") or (terms.loss and str(terms.loss))),
        ("penalty", f"{terms.penalty}, strength {terms.strength:g}"),
        ("set", None if terms.set == "whole" else str(terms.set)[:200]),
        ("rounds", _number(run.rounds)),
        ("topology", None if terms.topology is None else terms.topology[:200]),
        ("basis", result.get("basis")),
        ("budget", _budget(run)),
        ("relation", terms.relation),
        ("seed", None if far else simulation.seed),
        ("repeats", simulation.repeats if simulation.repeats > 1 else None),
        ("rows clipped", _number(result.get("clipped_rows"))),
        ("rounds missed", "; ".join(f"{who}: {len(k)}" for who, k in (result.get("missed_rounds") or {}).items())),
        ("estimated error", _digits(result.get("estimated_error"))),
        *_common(run),
    ]


def _power(run: Found) -> list[tuple[str, Any]]:
    facts, result = run.facts, run.result or {}
    return [
        ("algorithm", facts.get("algorithm")),
        ("case", facts.get("data")),
        ("buses", _number(facts.get("buses"))),
        ("lines", _number(facts.get("lines"))),
        ("zones", _number(len(facts.get("agents", ())))),
        ("lines between zones", _number(facts.get("cut_lines"))),
        ("rounds", _number(run.rounds)),
        ("load not supplied, squared", _digits(result.get("objective"))),
        ("the same without privacy, pooled", _digits(result.get("pooled_objective"))),
        ("disagreement of the copies", _digits(result.get("residual"))),
        ("seed", facts.get("seed")),
        *_common(run),
    ]


def _common(run: Found) -> list[tuple[str, Any]]:
    made = run.facts.get("versions") or {}
    if run.kind == "federation":  # facts are made here and now, and say nothing of then
        made = (run.result or {}).get("versions") or {}
    seconds = (run.result or {}).get("seconds")
    return [
        ("time", None if seconds is None else f"{seconds:,.1f} s"),
        ("versions", ", ".join(f"{name} {version}" for name, version in made.items())),
    ]


def _agents(names: Sequence[str], shown: bool) -> str | None:
    if not names:
        return None
    return f"{len(names):,}" + (f": {', '.join(names)}" if shown and len(names) <= 20 else "")


def _records(facts: Mapping[str, Any]) -> str | None:
    if "records" not in facts:
        return None
    return f"{facts['records']:,}, from {facts['fewest_records']:,} to {facts['most_records']:,} each"


def _budget(run: Found) -> str | None:
    """What was asked for."""
    assert run.experiment is not None
    terms = run.experiment.run
    if terms.noise_multiplier is not None:
        return f"noise multiplier {terms.noise_multiplier:g}"
    if terms.alpha:
        return f"noise of density exp(-alpha |.|), alpha {', '.join(f'{each:g}' for each in terms.alpha[:10])}"
    if terms.epsilons:
        return f"epsilon {min(terms.epsilons):g} to {max(terms.epsilons):g}, by agent"
    if terms.epsilon is None:
        return None
    each = " of every round, as in the paper" if terms.paper_noise else " in total"
    return f"epsilon {terms.epsilon:g}, delta {terms.delta or 0.0:g}{each}"


def _number(value: Any) -> str | None:
    return None if value is None else f"{int(value):,}"


def _digits(value: Any) -> str | None:
    return None if value is None else f"{float(value):.5g}"
