"""What was spent, by whom, within which limit; and how loud the noise is beside what it covers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from dpadmm.report.charts.convergence import ROUND, line
from dpadmm.report.document import Axis, Chart, Series
from dpadmm.report.reading import Found, blame

HOLDERS = {"simulation": "agent", "federation": "owner", "power-flow": "zone"}
FEW = 12  # lines up to which each is drawn as one to be read

PLACES = {
    "gradient": "It is added to the gradient of every step.",
    "sampled-gradient": "It is added to the gradient of every mini-batch.",
    "output": "It is added to the result of every step, and shown as the noise on a gradient that moves it as far.",
    "objective": "It is a random slope in the objective, which acts as noise on its gradient.",
    "penalty": "It moves the penalty's centre, which acts as noise on the gradient; rounds grow louder with the "
    "penalty.",
    "free": "Rounds that recycle what was released before add none, and are left out.",
}


def charts(runs: Sequence[Found]) -> list[Chart]:
    """Of runs that are private."""
    series, left_out = [], 0
    for index, run in enumerate(runs):
        with blame(run.path / "plan.json"):
            budgets = (run.facts.get("privacy") or {}).get("budgets")
            if budgets:
                series += _spent(run, budgets, index, len(runs) > 1)
                left_out += budgets.get("left_out", 0)
    return [*([_chart(runs, series, left_out)] if series else []), *_noise(runs)]


def _chart(runs: Sequence[Found], series: Sequence[Series], left_out: int) -> Chart:
    holder = HOLDERS[runs[0].kind] if len({run.kind for run in runs}) == 1 else "agent"
    about = f"Epsilon that each {holder} has spent after each round, at its own delta, with the limit of the whole run."
    about += " Those that spend alike, to three digits, share a line."
    if left_out:
        about += f" {left_out:,} more lines lie between those shown."
    if any(run.kind == "federation" for run in runs):
        about += (
            " In a federation the limit is that of the agreed terms; what an owner's own policy allows is known to "
            "that owner alone."
        )
    return Chart("budget", "budget", "Budget spent", about, "lines", ROUND, Axis("epsilon"), series=series)


def _spent(run: Found, budgets: Mapping[str, Any], index: int, several: bool) -> list[Series]:
    prefix = f"{run.name}: " if several else ""
    rounds, groups = budgets["rounds"], budgets["of"]
    reached = [place for place, round in enumerate(rounds) if run.state == "finished" or round <= run.round]
    nothing = [] if run.facts["privacy"]["before"] else [0]  # before round one
    x = [*nothing, *(rounds[place] for place in reached)]
    together: dict[Any, tuple[list[int], Mapping[str, Any]]] = {}
    for group in groups:
        alike = group["limit"], tuple("" if spent is None else f"{spent:.3g}" for spent in group["epsilon"])
        together.setdefault(alike, ([], group))[0].extend(group["agents"])
    style: Literal["line", "thin"] = "line" if len(together) <= FEW else "thin"
    limits = sorted({group["limit"] for group in groups if group["limit"] is not None})
    many = len(limits) > FEW  # then the least and the largest are drawn, and each line's name tells its own
    lines = []
    for members, group in together.values():
        spent = [group["epsilon"][place] for place in reached]
        name = prefix + who(run.facts["agents"], members, HOLDERS[run.kind])
        name += f", limit {group['limit']:g}" if many and group["limit"] is not None else ""
        lines.append(Series(name, [*nothing, *spent], x, style=style, run=index))
    lines += [
        Series(f"{prefix}limit {limit:g}", [limit, limit], [0, rounds[-1]], style="limit", run=index)
        for limit in ([limits[0], limits[-1]] if many else limits)
    ]
    return lines


def who(names: Sequence[str], members: Sequence[int], holder: str) -> str:
    """A line's name: its agent's, or how many there are."""
    if len(members) == 1:
        return str(names[members[0]])
    return f"all {len(members):,} {holder}s" if len(members) == len(names) else f"{len(members):,} {holder}s alike"


def spent_by(run: Found) -> float | None:
    """The most that any agent has spent up to the round that the run is known to have reached, or a little more."""
    privacy = run.facts.get("privacy")
    if not privacy or run.round == 0:
        return None
    budgets = privacy["budgets"]
    place = next((place for place, round in enumerate(budgets["rounds"]) if round >= run.round), -1)
    spent = [group["epsilon"][place] for group in budgets["of"]]
    return None if None in spent else float(max(spent))


def _noise(runs: Sequence[Found]) -> list[Chart]:
    series, places = [], []
    for index, run in enumerate(runs):
        if run.history is None or not {"noise", "signal"} <= set(run.history.columns):
            continue
        table = run.history
        silent = (table.columns["noise"] == 0.0).all(axis=1)  # nothing new is said in such a round
        heard = type(table)(
            table.rounds[~silent], {name: table.columns[name][~silent] for name in ("noise", "signal")}, table.runs
        )
        prefix = f"{run.name}: " if len(runs) > 1 else ""
        series += line(heard, "signal", f"{prefix}gradient", index)
        series += line(heard, "noise", f"{prefix}noise", index)
        with blame(run.path / "plan.json"):
            places += [each["perturbation"] for each in (run.facts.get("privacy") or {}).get("noise", ())]
    if not series:
        return []
    about = (
        "Lengths of the noise in one agent's gradient, as its mechanism has it, and of the gradient of that agent's "
        "losses (root mean squares over agents); the mean of n agents is quieter by the square root of n. "
    )
    about += " ".join(dict.fromkeys(PLACES[place] for place in places if place in PLACES))
    y = Axis("length", log=True)
    return [Chart("noise", "noise", "Noise against signal", about, "lines", ROUND, y, series=series, simulated=True)]
