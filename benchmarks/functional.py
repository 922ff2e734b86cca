"""One run of FDP-ADMM over 100,000 curves, beside reading their scores from memory as often as the rounds do.

    python benchmarks/functional.py [--rounds 100] [--agents 20] [--size 10]

The peer is the machine: NumPy's sum over the same array, once for every round, at its better number of threads (it has
one). Measured is the loop of rounds with the agents in it: noise, ledger in memory, consensus; metrics are looked
at in the last round only. `models` is the time of many independent runs for each of them: they share each pass.
"""

from __future__ import annotations

import argparse
import json

from dpadmm.engine.run import prepare, run_prepared
from dpadmm.spec.declare import Experiment
from timing import best, seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--agents", type=int, default=20)
    parser.add_argument("--size", type=int, default=10)
    parser.add_argument("--repeats", type=int, default=100)
    asked = parser.parse_args()
    experiment = Experiment().changed(
        source="functional-sim", basis=f"cosine:{asked.size}", agents=asked.agents, algorithm="fdp-admm", tau=(0.5,),
        rounds=asked.rounds, epsilon=1.0, delta=1e-5, measure_every=asked.rounds, test=0.0,
    )  # fmt: skip
    prepared = prepare(experiment)
    scores = prepared.shards.features
    contenders = {"stream": lambda: [scores.sum() for _ in range(asked.rounds)], "run": lambda: run_prepared(prepared)}
    found = best(contenders, 7)
    stream, run = found["stream"] / 1e3, found["run"] / 1e3
    many = prepare(experiment.changed(repeats=asked.repeats))
    _, together = seconds(lambda: run_prepared(many))
    print(
        json.dumps(
            {
                "records": int(prepared.plan.setting.counts.sum()), "agents": asked.agents, "size": asked.size,
                "rounds": asked.rounds, "stream_seconds": stream, "run_seconds": run, "ratio": run / stream,
                "together": asked.repeats, "seconds_each_together": together / asked.repeats,
                "ratio_each_together": together / asked.repeats / stream,
            },
            indent=2,
        )
    )  # fmt: skip


if __name__ == "__main__":
    main()
