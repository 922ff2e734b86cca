"""A run's folder: the resolved spec, the history, the model and the result, enough to predict and to report.

spec.toml      what was run, every field that differs from the recipe's own
plan.json      what was known before the first round: shape, noise, what every round costs whom
status.json    how far the run is, and which process it is (`status`)
history.csv    metrics by run and round
nodes.csv      on a graph: how far each node is from the nodes' mean, by run and round
model.json     coefficients with their names, and how to encode raw records
result.json    the summary that the command line prints
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dpadmm._files import atomic_write, write_json
from dpadmm.engine.output.checkpoint import refuse_earlier
from dpadmm.engine.output.model import described_model
from dpadmm.engine.result import Result
from dpadmm.errors import InputError
from dpadmm.spec import toml
from dpadmm.spec.declare import Experiment


@dataclass(frozen=True)
class Folder:
    """Where a run writes."""

    path: Path

    @classmethod
    def open(cls, path: Path, experiment: Experiment, resume: bool) -> Folder:
        """A new run's folder, or an interrupted one's; never one with somebody else's results in it."""
        spec, written = path / "spec.toml", toml.dumps(experiment)
        if path.exists() and not path.is_dir():
            raise InputError(f"--out {str(path)!r} is a file; name a folder.")
        if (path / "result.json").exists():
            raise InputError(f"{str(path)!r} holds a finished run; choose another folder.")
        if resume:
            if not spec.exists():
                raise InputError(f"{str(path)!r} holds no interrupted run to resume.")
            refuse_earlier(path)
            if toml.dumps(toml.read(spec)) != written:
                raise InputError(
                    f"the run in {str(path)!r} has another spec; resume it with the spec it was started by."
                )
        elif path.exists() and any(path.iterdir()):
            raise InputError(f"{str(path)!r} is not empty; choose another folder, or resume the run in it.")
        try:
            path.mkdir(parents=True, exist_ok=True)
            atomic_write(spec, written)
        except OSError as error:
            raise InputError(f"cannot write to {str(path)!r}: {error.strerror}.") from None
        return cls(path)

    def checkpoint(self, first_run: int) -> Path:
        return self.path / f"checkpoint-{first_run}.npz"

    def describe(self, facts: Mapping[str, Any]) -> None:
        """Writes what is known before the first round."""
        write_json(self.path / "plan.json", facts)

    def finish(self, result: Result) -> None:
        """Writes what a finished run leaves; result.json comes last and marks the run as finished."""
        result.history.write(self.path / "history.csv")
        if result.history.nodes:
            result.history.write_nodes(self.path / "nodes.csv")
        write_json(self.path / "model.json", described_model(result))
        write_json(self.path / "result.json", result.summary())
        # With what a process that was killed has left of one.
        for kept in (*self.path.glob("checkpoint-*.npz"), *self.path.glob(".checkpoint-*.partial")):
            kept.unlink()
