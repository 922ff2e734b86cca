"""An owner whose records stay in files: the same answers, and a ledger that belongs to the files' contents."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from owners import in_files

from dpadmm.errors import InputError
from dpadmm.owner.agent import Agent
from dpadmm.privacy.ledger.registry import LedgerRegistry
from dpadmm.problems.array_files import ArrayBlocks
from dpadmm.problems.stored_shards import gather_blocks


def test_an_agent_over_files_answers_as_one_over_memory(tmp_path: Path, sample: Any) -> None:
    terms = sample.agreement()
    answers = []
    for name, records in (("memory", sample.shards()), ("disk", in_files(tmp_path / "data", sample.shards()))):
        agent = sample.agent(tmp_path / f"{name}.ledger", randomness=sample.Repeatable(), records=records)
        agent.join("run", terms)
        answers.append([agent.answer(sample.request(terms, step)).value for step in (1, 2)])
    np.testing.assert_array_equal(answers[0], answers[1])


def test_the_ledger_belongs_to_the_contents_not_to_the_path(tmp_path: Path, sample: Any) -> None:
    registry, ledger = LedgerRegistry(tmp_path / "shelf"), tmp_path / "ledger"
    first = Agent.open(in_files(tmp_path / "one", sample.shards()), sample.policy(), ledger, registry=registry)
    first.join("run", sample.agreement())
    Agent.open(
        in_files(tmp_path / "two", sample.shards()), sample.policy(), ledger, registry=registry
    )  # moved, and the same
    records = in_files(tmp_path / "three", sample.shards())
    targets = np.load(tmp_path / "three" / "a.targets.npy")
    targets[0] = 1 - targets[0]
    np.save(tmp_path / "three" / "a.targets.npy", targets)
    with pytest.raises(InputError, match="has changed since it was opened"):
        Agent.open(records, sample.policy(), ledger, registry=registry)
    source = ArrayBlocks.of(tmp_path / "three" / "a.npy", tmp_path / "three" / "a.targets.npy", 2)
    changed = gather_blocks([source], records.encode, norm_bound=1.0, names=["owner"])
    with pytest.raises(InputError, match="records"):
        Agent.open(changed, sample.policy(), ledger, registry=registry)
