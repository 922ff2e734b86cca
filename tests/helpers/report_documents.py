"""Documents like those of real runs, built by hand: the numbers are known here, so that a page can be held to them."""

from __future__ import annotations

import math
import random

from dpadmm.report.document import Axis, Chart, Document, DrawnNode, Edge, GuaranteeText, RunCard, Series

MADE = "2026-03-04T05:06:07+00:00"
HOSTILE = '</script><img src=x onerror="window.hacked=1"><script>window.hacked=2</script>&lt;b&gt; \' " \u2028 \ud800'
PRIVATE = GuaranteeText(
    True,
    "Whoever sees everything that was sent learns almost nothing about any one record: what they can conclude changes "
    "by a factor of at most 2.7, but for one chance in 100,000.",
    "(1, 1e-05)-DP per agent, replace one record, exact composition of 100 Gaussian releases (mu = 0.2612)",
)
OPEN = GuaranteeText(False, "Nothing protects the records: everything was sent as it is.", "no noise, no guarantee")
FACTS = [("algorithm", "dp-admm"), ("data", "adult"), ("agents", "1"), ("loss", "logistic"), ("seed", "7")]


def run(name: str = "dp-admm on adult", rounds: int = 100, **changes: object) -> RunCard:
    values = {"state": "finished", "round": rounds, "rounds": rounds, "guarantee": PRIVATE, "facts": FACTS}
    spec = '[data]\nname = "adult"\n\n[algorithm]\nname = "dp-admm"\n'
    return RunCard(**{"name": name, "spec": spec, **values, **changes})


def falling(rounds: int, start: float, rate: float, seed: int) -> list[float]:
    """An error that falls, with noise."""
    noise = random.Random(seed)
    return [start * math.exp(-rate * t) + 0.02 + 0.01 * noise.random() for t in range(rounds)]


def error_chart(rounds: int, runs: int = 1) -> Chart:
    series = []
    for each in range(runs):
        y: list[float | None] = list(falling(rounds, 1.0, 0.03 * (each + 1), each))
        low, high = [0.9 * value for value in y], [1.1 * value for value in y]
        series.append(Series("test error", y, low=low, high=high, run=each))
    about = "Share of wrong answers on records that no agent has; lower is better."
    at = [float(t) for t in range(1, rounds + 1)]
    return Chart("error", "convergence", "Test error", about, "lines", Axis("round"), Axis("error"), at, series=series)


def budget_chart(rounds: int, runs: int = 1) -> Chart:
    at = [float(t) for t in range(1, rounds + 1)]
    spent = [Series("spent", [math.sqrt(t / rounds) for t in at], run=each) for each in range(runs)]
    limit = Series("limit", [1.0, 1.0], x=[1.0, float(rounds)], style="limit")
    about = "Epsilon after each round; the run ends before the limit."
    axes = (Axis("round"), Axis("epsilon"))
    return Chart("epsilon", "budget", "Epsilon spent", about, "lines", *axes, at, series=[*spent, limit])


def residual_chart(rounds: int, agents: int) -> Chart:
    """One thin line per agent, with a gap, on a log axis."""
    series = []
    for agent in range(agents):
        y: list[float | None] = list(falling(rounds, 1.0 + agent / agents, 0.01, agent))
        if agent == 1:
            y[rounds // 2] = None
        series.append(Series(f"agent {agent + 1}", y, style="thin"))
    about = "How far each agent's own model is from the common one."
    at, axes = [float(t) for t in range(1, rounds + 1)], (Axis("round"), Axis("distance", log=True))
    return Chart("residuals", "convergence", "Distance to the common model", about, "lines", *axes, at, series=series)


def noise_chart(rounds: int) -> Chart:
    at = [float(t) for t in range(1, rounds + 1)]
    series = [Series("noise", [0.3 / t for t in at]), Series("signal", [1.0 / math.sqrt(t) for t in at])]
    about = "Norms of what was added and of what it was added to."
    axes = (Axis("round", log=True), Axis("norm", log=True))
    return Chart("noise", "noise", "Noise and signal", about, "lines", *axes, at, series=series, simulated=True)


def model_chart(runs: int = 1) -> Chart:
    names = ["age", "education-num", "hours-per-week", "capital-gain", "capital-loss", "workclass = Private", "bias"]
    series = []
    for each in range(runs):
        values: list[float | None] = [0.7, 0.9 - 0.2 * each, 0.35, 1.8, 0.4, -0.25, -1.1]
        values[4] = None if each else 0.4
        series.append(Series("weights", values, run=each))
    about = "The weights that are largest in size."
    return Chart("weights", "model", "Weights", about, "bars", y=Axis("weight"), names=names, series=series)


def network_chart(nodes: int, groups: int) -> Chart:
    """A ring of groups; edges between groups are strong."""
    places = random.Random(3)
    made = []
    for index in range(nodes):
        group = index * groups // nodes
        angle = 2 * math.pi * group / groups
        x, y = (2 * math.cos(angle) + places.gauss(0, 0.4), 2 * math.sin(angle) + places.gauss(0, 0.4))
        made.append(DrawnNode(f"bus {index + 1}", x, y, f"area {group + 1}", 0.9 + index / 1000, f"demand {index} MW"))
    edges = [Edge(i - 1, i, i / 10, "line", strong=made[i].group != made[i - 1].group) for i in range(1, nodes)]
    return Chart("grid", "network", "The network", "Who talks to whom.", "network", nodes=made, edges=edges)


def document(runs: list[RunCard], charts: list[Chart], title: str = "A private model of incomes") -> Document:
    return Document(title, MADE, "0.1.0", runs, charts)


def single() -> Document:
    """One agent, a hundred rounds."""
    charts = [error_chart(100), budget_chart(100), noise_chart(100), model_chart()]
    warnings = ["The features were scaled by their own ranges, which are not public."]
    return document([run(warnings=warnings)], charts)


def several() -> Document:
    runs = [
        run("dp-admm"),
        run("pvp", state="interrupted", round=40, facts=[*FACTS[:-1], ("seed", "8"), ("extra", "yes")]),
        run("admm", state="crashed", round=12, guarantee=OPEN, error="the disk is full", warnings=["No noise."]),
    ]
    return document(runs, [error_chart(100, 3), budget_chart(100, 3), model_chart(3)], "Three ways to learn incomes")


def many(agents: int = 100, rounds: int = 1000) -> Document:
    """A hundred agents, a thousand rounds."""
    others = [error_chart(rounds), budget_chart(rounds), noise_chart(rounds)]
    more = [Chart(**{**vars(error_chart(rounds)), "id": f"error-{each}"}) for each in range(3)]
    return document([run(rounds=rounds)], [residual_chart(rounds, agents), *others, *more])


def power() -> Document:
    return document([run("power flow, 118 buses")], [error_chart(60), network_chart(118, 10)], "Optimal power flow")


def hostile() -> Document:
    charts = [
        Chart("one", "model", HOSTILE, HOSTILE, "bars", names=[HOSTILE, "=1+1"], series=[Series(HOSTILE, [1.0, -2.0])]),
        Chart("two", "network", HOSTILE, HOSTILE, "network", nodes=[DrawnNode(HOSTILE, 0, 0, HOSTILE, 1.0, HOSTILE)]),
        Chart("three", "convergence", HOSTILE, HOSTILE, "lines", Axis(HOSTILE), Axis(HOSTILE), [1.0, 2.0],
              series=[Series(HOSTILE, [1.0, 2.0]), Series("other", [2.0, 3.0])]),
    ]  # fmt: skip
    guarantee = GuaranteeText(False, HOSTILE, HOSTILE)
    facts = [(HOSTILE, HOSTILE)]
    bad = run(
        HOSTILE, state="crashed", guarantee=guarantee, facts=facts, warnings=[HOSTILE], error=HOSTILE, spec=HOSTILE
    )
    return document([bad], charts, HOSTILE)
