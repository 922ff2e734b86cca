"""An owner's records, encoded as a run's terms want them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from handlers import join

from dpadmm.datasets.encoding import Category, Encoder, Numeric
from dpadmm.federation.client.handler import Handler
from dpadmm.federation.messages import to_bytes, to_row
from dpadmm.owner.agreement import Agreement
from dpadmm.problems.losses.statistics import unpack
from dpadmm.spec.columns import Schema
from dpadmm.spec.declare import RunSpec

SCHEMA = Schema.of(Encoder((Numeric("dose", -1.0, 1.0), Category("sex", ("f", "m")))), "age", None)
WIDTH = 3
MOMENTS = {
    "private-components": ("second-moment", WIDTH * (WIDTH + 1) // 2),
    "private-column-moments": ("column-moments", 2 * WIDTH),
    "private-covariance": ("mean-and-products", WIDTH + WIDTH * (WIDTH + 1) // 2),
}


@pytest.mark.parametrize("algorithm", MOMENTS)
def test_owner_releases_statistics_of_its_rows(small_federation: ModuleType, tmp_path: Path, algorithm: str) -> None:
    """Statistics are losses of a registry of their own, which an owner must look into as well."""
    lived = small_federation.SmallFederation(tmp_path)
    lived.owner("ahorn").trust(replace(lived.invitation, columns=SCHEMA.dumps()))
    loss, dimension = MOMENTS[algorithm]
    lived.allow("ahorn", algorithms=[algorithm], losses=[loss])
    run = RunSpec(algorithm, rounds=1, penalty="none", strength=0.0, epsilon=2.0, delta=1e-6)
    cards = tuple(lived.identities[name].card.fingerprint for name in lived.owners)
    terms = Agreement(run, tuple(lived.counts.values()), WIDTH, 0, owners=lived.owners, identities=cards, schema=SCHEMA)
    handler = Handler(lived.owner("ahorn"))
    assert join(lived, handler, "moments", terms) == 0
    reply = handler.answer_step("moments", terms.digest, 1, to_bytes(np.zeros((1, dimension))), {})
    value = to_row(reply["value"])
    assert value.shape == (1, dimension)
    if algorithm == "private-components":
        rows = handler.records.shards(terms, "ahorn").real_rows
        np.testing.assert_allclose(unpack(value)[0], rows.T @ rows / len(rows), atol=0.25)
