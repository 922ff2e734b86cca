"""What a coordinator may measure: releases, and public records. Losses on the owners' records stay with them."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from dpadmm._arrays import FloatArray
from dpadmm.admm.algorithm import Plan
from dpadmm.datasets import read_table
from dpadmm.engine import metrics
from dpadmm.federation.server.state import CoordinatorState
from dpadmm.owner.agreement import Agreement
from dpadmm.problems.shards import Shards, gather
from dpadmm.spec.columns import Schema


class CoordinatorMetrics:
    """Of one run."""

    def __init__(self, agreement: Agreement, plan: Plan, schema: Schema, public_test: str | None) -> None:
        self._plan, self._run = plan, agreement.run
        self._delta = agreement.run.reported_delta
        self._test = None if public_test is None else self._public(schema, Path(public_test))

    @property
    def rounds(self) -> int:
        return self._plan.setting.rounds

    def measure(self, state: CoordinatorState) -> dict[str, FloatArray]:
        """One number for each metric, as of one run of a simulation."""
        measured = {}
        if self._test is not None:
            measured["test_error"] = metrics.test_errors(
                self._plan.setting.problem.loss, self._test, state.shared.model
            )
        if self._plan.algorithm.consensus.releases_models:
            measured["residual"] = metrics.consensus_residual(state.shared.released, state.shared.model)
        if self._plan.algorithm.private:
            spent = self._plan.accounts(state.round).worst(self._delta).epsilon
            measured["epsilon"] = np.array([spent])
        measured["absent"] = np.array([float(len(state.absent.get(state.round, ())))])
        return measured

    def of_nodes(self, state: CoordinatorState) -> dict[str, FloatArray]:
        """How far each node is from their mean."""
        return {"disagreement": np.linalg.norm(state.shared.released[0] - state.shared.model, axis=1)[None]}

    def _public(self, schema: Schema, path: Path) -> Shards:
        features, targets = schema.encode(read_table(path, text=schema.text_columns))
        owner = np.zeros(len(features), dtype=np.int64)
        return gather(
            features, targets, owner, norm_bound=self._run.clip, intercept=bool(self._run.intercept), names=["test"]
        )
