"""What the suites share: every loss of the registry, as a small problem."""

from __future__ import annotations

import pytest

from dpadmm._registry import build
from dpadmm.problems.losses import LOSSES
from dpadmm.testing.problems import SmallProblem

# As they come, quantile losses are symmetric, and levels could be mixed up unseen.
LEVELS = {"quantile": "quantile:0.3", "smoothed-quantile": "smoothed-quantile:0.8", "quantiles": "quantiles:0.2,0.7"}


@pytest.fixture(
    scope="session", params=[*(LEVELS.get(name, name) for name in LOSSES), "squared:0.3", "smoothed-hinge:0.1"]
)
def case(request: pytest.FixtureRequest) -> SmallProblem:
    """Every loss as it comes, or at other levels, and some with other parameters."""
    return SmallProblem(build("loss", LOSSES, request.param))
