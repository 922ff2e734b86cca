"""What all tests share."""

from __future__ import annotations

import os
from pathlib import Path

# Read when BLAS is loaded, and inherited by the processes that tests start. Where several processes have a pool of BLAS
# threads each, these spin while they wait for a core, and products of small matrices take ten times as long.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
os.environ.setdefault("MKL_NUM_THREADS", "1")

import numba
import pytest
from hypothesis import settings

# How long an example takes says nothing: the first one pays for imports, and others use the machine.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")


@pytest.fixture(autouse=True, scope="session")
def one_thread() -> None:
    """Loops over so few records are over before a second thread wakes up; where others use the machine, waiting for it
    takes ten times as long as the work. Tests about threads set their own number."""
    numba.set_num_threads(1)


# -- tiers -------------------------------------------------------------------------------------------------------------
# `make test-fast` runs what has none of these markers. A file or folder is named here, once; the longest name wins.

TIERS = {
    "statistical": (
        "audit",
        "contracts/test_loss_precision.py",
        "papers/test_ps_admm.py",
        "papers/test_convergence.py",
        "testing/test_recipes.py",
    ),
    "processes": (
        *(
            "federation/processes",
            "federation/flare/test_processes.py",
            "owner/test_torture.py",
            "engine/executors/dask",
            "cli/test_federation.py",
        ),
        *("cli/test_main.py", "report/test_watch.py", "problems/test_kernel_cache.py"),
    ),
    "external": ("report/test_browser.py", "report/test_live.py", "federation/client/test_database_types.py"),
    "figures": ("reproducing",),
    "documents": ("test_commands.py", "test_documents.py", "test_site.py", "theory"),
    "runs": (
        *("engine", "cli", "estimators", "applications", "report", "papers/test_recipes.py"),
        *("problems/test_stored_shards.py", "spec/test_auto.py", "spec/test_tuning.py"),
    ),
}
FAST_FILES = ("cli/test_bad_input.py",)
FAST_RECIPES = ("dp-admm", "pvp", "obj-g", "ps-admm", "private-mr-admm", "fdp-admm")  # one of each kind
FAST_MISTAKE = "test_half_the_noise"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Gives every test the marker of its file, but for a few that make the fast tier complete.

    Files without a marker come last: they are short, so that no core waits for another at the end.
    """
    root = Path(__file__).parent
    items.sort(key=lambda item: _tier(item.path.relative_to(root).as_posix()) is None)
    for item in items:
        path = item.path.relative_to(root).as_posix()
        marker = _tier(path)
        if marker is not None and not _fast(path, item):
            item.add_marker(marker)


def _tier(path: str) -> str | None:
    named = [(name, marker) for marker, names in TIERS.items() for name in names]
    found = [each for each in named if path == each[0] or path.startswith(f"{each[0]}/")]
    return max(found, key=lambda each: len(each[0]))[1] if found else None


def _fast(path: str, item: pytest.Item) -> bool:
    if path == "papers/test_recipes.py":
        call = getattr(item, "callspec", None)
        return call is not None and call.id in FAST_RECIPES
    return path in FAST_FILES or (path == "audit/test_planted.py" and item.name.startswith(FAST_MISTAKE))
