"""Dry runs make up their records: from the columns, and never from the owner's."""

from dataclasses import replace
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from small_federation import SCHEMA

from dpadmm.datasets.curves.encoder import CurveEncoder
from dpadmm.errors import InputError
from dpadmm.federation.client.made_up import made_up
from dpadmm.federation.client.records import Records
from dpadmm.federation.client.setup import settings_of
from dpadmm.federation.client.sources import RecordSource
from dpadmm.spec.columns import Schema


def test_a_dry_run_never_opens_the_owners_records(
    small_federation: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`misc2.py`: with a known seed, on records that had a real ledger, the release was their sum without noise."""
    lived = small_federation.SmallFederation(tmp_path)
    settings = lived.settings("ahorn", 7)
    records = Records(SCHEMA, settings, "ahorn")
    (tmp_path / "ahorn" / "records.csv").unlink()
    for name in ("cells", "table"):
        monkeypatch.setattr(RecordSource, name, None)
    again = Records(SCHEMA, settings, "ahorn")
    assert np.array_equal(again.features, records.features)
    assert (len(records.features), records.unusable) == (60, 0)
    with pytest.raises((TypeError, InputError)):
        Records(SCHEMA, replace(settings, dry_run=None), "ahorn")


def test_a_dry_run_is_given_no_records(small_federation: ModuleType, tmp_path: Path) -> None:
    lived = small_federation.SmallFederation(tmp_path)
    folder, policy = lived.owner("ahorn"), lived.policy("ahorn")
    with pytest.raises(InputError, match="makes up its records and opens none of yours"):
        settings_of(folder, "localhost:8002", policy=policy, data="records.csv", dry_run=7)
    with pytest.raises(InputError, match="name your records by --data"):
        settings_of(folder, "localhost:8002", policy=policy)
    with pytest.raises(InputError, match="1 to 1,000,000"):
        settings_of(folder, "localhost:8002", policy=policy, dry_run=7, records=0)
    assert settings_of(folder, "localhost:8002", policy=policy, dry_run=7, records=5).source == {}


@pytest.mark.parametrize("kind", ["classes", "numbers", "curves"])
def test_made_up_records_fit_the_columns(kind: str) -> None:
    schema = {
        "classes": SCHEMA,
        "numbers": Schema(SCHEMA.features, "ill"),
        "curves": Schema.of(CurveEncoder(("t0", "t1", "t2", "t3"), (0.0, 1.0, 2.0, 3.0), "cosine:3"), "y", None),
    }[kind]
    table = made_up(schema, 40, 1, "north", person="who")
    features, targets, usable = schema.rows(table)
    assert usable.all()
    assert np.isfinite(features).all()
    assert len(set(targets.tolist())) > 1
    assert len(set(table["who"].to_pylist())) == 20
    assert made_up(schema, 40, 1, "north", person="who").equals(table)
    for other in (made_up(schema, 40, 2, "north"), made_up(schema, 40, 1, "south")):
        assert not np.array_equal(schema.rows(other)[0], features)
