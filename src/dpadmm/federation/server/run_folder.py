"""A federated run's folder: that of a simulation, and while it goes on what a resumed job needs to know.

spec.toml, history.csv, nodes.csv, model.json, result.json     as a simulation's (`engine.folder`)
columns.toml      what the owners' columns are
terms.json        what was agreed on, word for word
signatures.json   what the owners have signed it with
checkpoint.npz    after the last round that was written down
status.json       what the run is doing
events.txt        what happened to it: jobs, absences, nonsense (and events.old.txt, once that is long)
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from dpadmm._files import atomic_write, read_json, read_text, write_json
from dpadmm._limits import LOG, MESSAGE
from dpadmm._plain import plain
from dpadmm.admm.algorithm import Plan
from dpadmm.datasets.curves.bases import Basis, parse
from dpadmm.datasets.curves.encoder import CurveEncoder
from dpadmm.datasets.dataset import Encodes
from dpadmm.engine.output import checkpoint
from dpadmm.engine.output.folder import Folder
from dpadmm.engine.output.history import History
from dpadmm.engine.output.status import INTERVAL, process
from dpadmm.engine.result import Result
from dpadmm.errors import InputError
from dpadmm.federation.server.state import CoordinatorState
from dpadmm.owner.agreement import Agreement
from dpadmm.spec.columns import Schema
from dpadmm.spec.declare import Experiment
from dpadmm.spec.toml import read

OVER = ("finished", "refused", "failed")


@dataclass(frozen=True)
class Announced:
    """What is known of records that nobody but their owners has seen."""

    schema: Schema
    name: str = "federation"
    public_preprocessing: bool = True
    classes_found: bool = False
    norm_bound: float | None = None
    truth: Callable[[np.ndarray], np.ndarray] | None = None

    @property
    def classes(self) -> tuple[str, ...] | None:
        return self.schema.classes or None

    @property
    def feature_names(self) -> tuple[str, ...]:
        return self.schema.encoder.feature_names

    @property
    def encoder(self) -> Encodes:
        return self.schema.encoder

    @property
    def basis(self) -> Basis | None:
        return parse(self.encoder.basis) if isinstance(self.encoder, CurveEncoder) else None


@dataclass(frozen=True)
class RunFolder:
    """Where a federated run is written down, on the coordinator's disk."""

    path: Path

    @classmethod
    def create(cls, path: Path, experiment: Experiment, schema: Schema) -> RunFolder:
        """A new run's; or that of a run by the same spec which is not over."""
        made = cls(path)
        if not path.exists():
            Folder.open(path, experiment, resume=False)
            atomic_write(path / "columns.toml", schema.dumps())
            made.tell("submitted")
        elif not (path / "spec.toml").exists() or made.experiment != experiment or made.schema != schema:
            raise InputError(f"{str(path)!r} holds another run; choose another name.")
        return made

    @property
    def experiment(self) -> Experiment:
        return read(self.path / "spec.toml")

    @property
    def schema(self) -> Schema:
        return Schema.read(self.path / "columns.toml")

    # -- what it is doing ------------------------------------------------------------------------------------------

    def tell(self, state: str, message: str = "", **facts: Any) -> None:
        """For whoever looks: submitted, joining, waiting, running, interrupted, refused, failed or finished."""
        told = {"state": state, "message": plain(message, MESSAGE), "time": time.time(), **facts}
        write_json(self.path / "status.json", {**told, **process()})

    def note(self, message: str) -> None:
        """What happened to the run, also in others' words; of a very long story the beginning is forgotten."""
        log, words = self.path / "events.txt", plain(" ".join(message.split()), MESSAGE)
        if log.exists() and log.stat().st_size > LOG:
            log.replace(self.path / "events.old.txt")
        with log.open("a", encoding="utf-8") as file:
            file.write(f"{time.strftime('%Y-%m-%dT%H:%M:%S%z')} {words}\n")

    def status(self) -> dict[str, Any]:
        try:
            return dict(read_json(self.path / "status.json", "status"))
        except (ValueError, TypeError):
            raise InputError(f"{str(self.path)!r} is no run of a federation.") from None

    @property
    def mark(self) -> tuple[int, ...]:
        """Changes whenever the status is told."""
        found = (self.path / "status.json").stat()
        return found.st_mtime_ns, found.st_ino

    @property
    def agreed(self) -> bool:
        """Whether the terms were written down."""
        return (self.path / "terms.json").exists()

    @property
    def finished(self) -> bool:
        return (self.path / "result.json").exists()

    @property
    def asked_to_pause(self) -> bool:
        """Whether the job shall end after this round, so that a new one can take in an owner that is back."""
        return (self.path / "pause").exists()

    def pause(self, wanted: bool) -> None:
        if wanted:
            (self.path / "pause").touch()
        else:
            (self.path / "pause").unlink(missing_ok=True)

    def is_dry_run(self, seeded: bool) -> bool:
        """Whether somebody's noise is seeded, in this job or in one before it."""
        mark = self.path / "dry_run"
        if seeded:
            mark.touch()
        return mark.exists()

    # -- what it has come to ---------------------------------------------------------------------------------------

    def agreement(self) -> Agreement | None:
        """What the owners were asked to agree to, once all of them had introduced themselves."""
        path = self.path / "terms.json"
        return Agreement.loads(read_text(path, "terms")) if path.exists() else None

    def agree(self, agreement: Agreement) -> None:
        atomic_write(self.path / "terms.json", agreement.dumps())

    def signatures(self) -> dict[str, bytes]:
        """What the owners have signed the terms with, by name."""
        path = self.path / "signatures.json"
        if not path.exists():
            return {}
        try:
            return {name: bytes.fromhex(entry) for name, entry in read_json(path, "signatures").items()}
        except (AttributeError, TypeError, ValueError):
            raise InputError(f"{str(path)!r} holds no signatures; remove it.") from None

    def keep_signatures(self, signed: Mapping[str, bytes]) -> None:
        write_json(self.path / "signatures.json", {name: signature.hex() for name, signature in signed.items()})

    @property
    def _checkpoint(self) -> Path:
        return self.path / "checkpoint.npz"

    def state(self, plan: Plan, digest: str) -> tuple[CoordinatorState, History]:
        if not self._checkpoint.exists():
            return CoordinatorState.of(plan), History()
        return checkpoint.load(self._checkpoint, digest, CoordinatorState.from_arrays)

    def keep(self, digest: str, state: CoordinatorState, history: History, durable: bool = True) -> None:
        checkpoint.save(self._checkpoint, digest, state, history, durable)
        table = self.path / "history.csv"  # for whoever watches
        if history.metrics and not (table.exists() and time.time() - table.stat().st_mtime < INTERVAL):
            history.write(table)

    def finish(
        self, agreement: Agreement, plan: Plan, state: CoordinatorState, history: History, facts: Mapping[str, Any]
    ) -> Result:
        """Writes model and result; `facts` are what else a `Result` has to say."""
        result = result_of(self, agreement, plan, state, history, facts)
        Folder(self.path).finish(result)
        return result


def result_of(
    folder: RunFolder,
    agreement: Agreement,
    plan: Plan,
    state: CoordinatorState,
    history: History,
    facts: Mapping[str, Any],
) -> Result:
    """As of a simulation, but for what only a simulation may look at."""
    run, experiment = agreement.run, folder.experiment
    delta = run.reported_delta
    missed = {
        name: tuple(round for round, absent in sorted(state.absent.items()) if agent in absent)
        for agent, name in enumerate(agreement.owners)
    }
    estimates = state.estimates
    return Result(
        experiment=Experiment(
            run, replace(experiment.data, source=Announced.name), experiment.simulation, experiment.federation
        ),
        dataset=Announced(folder.schema),
        plan=plan,
        history=history,
        models=state.shared.model,
        mean_models=state.shared.mean_model,
        guarantee=plan.accounts().worst(delta) if plan.algorithm.private else None,
        claimed=None,
        clipped=None,
        out=str(folder.path),
        estimated_error=float(estimates.mean()) if estimates is not None and estimates.size else None,
        missed_rounds={name: rounds for name, rounds in missed.items() if rounds},
        **facts,
    )


def runs_in(folder: Path) -> Sequence[RunFolder]:
    """All runs below a folder, by name."""
    return [RunFolder(path.parent) for path in sorted(folder.glob("*/status.json"))]
