"""What a federated round costs beside a bare call: the same owners, the same connections, the same size of message.

    python benchmarks/federation.py --json

Adult over three owners with processes of their own on loopback, mutual TLS, d = 104, DP-ADMM with real noise and
ledgers on disk. Before every round all owners are called once with a method that does nothing but return a vector of
that size; `ratio` is the median round over the median bare call, `agent` the median time inside an owner's answer. All
owners share this machine's cores and its disk, which they would not elsewhere; with fewer records less of a round is
computation.
"""

from __future__ import annotations

import json
import socket
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
from pyarrow import parquet

from dpadmm.datasets import ADULT_ENCODER, adult_table
from dpadmm.federation.client.files import AgentSettings, OwnerFiles
from dpadmm.federation.client.sources import RecordSource
from dpadmm.federation.flare.processes import start_client, start_server, stop
from dpadmm.federation.flare.provisioning import create
from dpadmm.federation.flare.submit import prepare, submit
from dpadmm.spec.columns import Schema
from dpadmm.spec.declare import Experiment
from timing import arguments, show

OWNERS = ("one", "two", "three")

# What the processes load at their start: one more method at the owners, and clocks around the rounds.
CLOCKS = """
import json, os, time

if os.environ.get("DPADMM_BENCH"):
    from nvflare.collab import collab
    import dpadmm.federation.flare.agent_app as agent_app
    import dpadmm.federation.server.coordinator as coordinator
    import dpadmm.federation.client.handler as handler

    def echo(self, inputs):
        return {"value": inputs}

    agent_app.AgentApp.echo = collab.publish(echo)
    answered, ended, inside = handler.Handler._answer_step, handler.Handler._finish, []

    def timed(self, *given):
        began = time.perf_counter()
        reply = answered(self, *given)
        inside.append(time.perf_counter() - began)
        return reply

    def finished(self, run):
        with open(os.path.join(os.environ["DPADMM_BENCH"], f"{self.name}.json"), "w") as file:
            json.dump(inside, file)
        return ended(self, run)

    handler.Handler._answer_step, handler.Handler._finish = timed, finished
    asked = coordinator.Coordinator._collect
    marks = []

    def round(self, agreement, plan, standing):
        began = time.perf_counter()
        call = {"inputs": coordinator.to_bytes(standing.shared.server.common)}
        replies = self._owners.call("echo", dict.fromkeys(agreement.owners, call))
        assert len(replies) == len(agreement.owners)
        marks.append((began, time.perf_counter()))
        if standing.round + 1 == plan.setting.rounds:
            with open(os.path.join(os.environ["DPADMM_BENCH"], "marks.json"), "w") as file:
                json.dump(marks, file)
        return asked(self, agreement, plan, standing)

    coordinator.Coordinator._collect = round
"""


def main() -> None:
    given = arguments(__doc__ or "", rounds=200, repeats=1)
    found = {}
    for records in (15_000, 1_000):
        found |= {f"{name}_with_{records}_records": value for name, value in measured(records, given.rounds).items()}
    show(found, given.json)


def measured(records: int, rounds: int) -> dict[str, float]:
    """Times of one run with so many records at each owner."""
    with tempfile.TemporaryDirectory() as place:
        home = Path(place)
        (home / "sitecustomize.py").write_text(CLOCKS)
        (home / "times").mkdir()
        clocks = {"PYTHONPATH": str(home), "DPADMM_BENCH": str(home / "times"), "NUMBA_NUM_THREADS": "1"}
        schema = Schema.of(ADULT_ENCODER, "income", ("<=50K", ">50K"))
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        federation = create(
            home / "study", name="study", host="localhost", port=port, owners=OWNERS, schema=schema.dumps()
        )
        _settle(home, schema, records)
        processes = [start_server(federation.server, clocks)]
        try:
            processes += [start_client(federation.owner(name), clocks) for name in OWNERS]
            spec = Experiment().changed(algorithm="dp-admm", rounds=rounds, epsilon=1.0, delta=1e-6)
            status = submit(federation, prepare(federation, spec, "bench"), limit=120.0)
            assert status["state"] == "finished", status
        finally:
            for process in processes:
                stop(process)
        return _figures(home / "times")


def _settle(home: Path, schema: Schema, records: int) -> None:
    """Everybody's records, policy and settings."""
    table = adult_table()
    parts = np.array_split(np.random.default_rng(0).permutation(table.num_rows), len(OWNERS))
    for name, rows in zip(OWNERS, parts, strict=True):
        place = home / name
        place.mkdir()
        parquet.write_table(table.take(pa.array(rows[:records])), place / "records.parquet")
        (place / "policy.toml").write_text(f'dataset = "{name}"\nepsilon = 2.0\ndelta = 1e-6\n')
        settings = AgentSettings(
            policy=str(place / "policy.toml"),
            columns=str(home / "study" / "owners" / name / "columns.toml"),
            ledger=str(place / "ledger.db"),
            source=RecordSource.parse(str(place / "records.parquet")).to_dict(),
            registry=str(place / "shelf"),
        )
        OwnerFiles(home / "study" / "owners" / name).save(settings)


def _figures(times: Path) -> dict[str, float]:
    marks = np.array(json.loads((times / "marks.json").read_text()))
    bare = (marks[:, 1] - marks[:, 0])[:-1]
    rounds = np.diff(marks[:, 0]) - bare
    inside = np.concatenate([json.loads((times / f"{name}.json").read_text()) for name in OWNERS])
    settled = slice(5, None)  # the first ones compile and warm up
    return {
        "ratio": float(np.median(rounds[settled]) / np.median(bare[settled])),
        "round_milliseconds": 1e3 * float(np.median(rounds[settled])),
        "bare_milliseconds": 1e3 * float(np.median(bare[settled])),
        "agent_milliseconds": 1e3 * float(np.median(inside)),
    }


if __name__ == "__main__":
    main()
