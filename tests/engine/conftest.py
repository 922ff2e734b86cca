"""Tiny data sets and experiments, a package of somebody's own parts, and workers that all tests of clusters share."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from own_parts import somebody  # noqa: F401
from tiny_data import experiment, same, tiny  # noqa: F401


@pytest.fixture(scope="session")
def cluster() -> Iterator[Any]:
    """Two worker processes, shared by all tests because starting them takes seconds; a lost one comes back."""
    distributed = pytest.importorskip("distributed", reason="needs the extra 'cluster'")
    config = pytest.importorskip("dask").config
    patience = config.set({"distributed.deploy.lost-worker-timeout": "1 hour"})  # else one that came back may be ended
    options = {"n_workers": 2, "threads_per_worker": 1, "memory_limit": None, "dashboard_address": ":0"}
    with pytest.MonkeyPatch.context() as patch, patience:
        patch.syspath_prepend(Path(__file__).parents[2])  # workers are sent functions of these tests, by name
        with distributed.LocalCluster(processes=True, **options) as found:
            yield found


@pytest.fixture
def dask(cluster: Any) -> str:
    """The name of the engine that runs on the shared workers, both of them up."""
    cluster.wait_for_workers(2, timeout=60)
    return f"dask:{cluster.scheduler_address}"
