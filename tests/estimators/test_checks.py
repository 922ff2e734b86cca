"""scikit-learn's own checks, with few rounds and else at the defaults. None of them is expected to fail."""

from typing import Any

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from dpadmm.estimators import PrivateLinearSVC, PrivateLogisticRegression, PrivateQuantileRegressor, PrivateRidge

# With a reason for each; that scores on a few dozen records are poor is said by the estimators' tags.
EXPECTED: dict[str, str] = {}

KINDS = (PrivateLogisticRegression, PrivateLinearSVC, PrivateRidge, PrivateQuantileRegressor)
ESTIMATORS = [kind(rounds=5) for kind in KINDS]


@pytest.mark.filterwarnings("ignore::dpadmm.estimators.PrivacyLeakWarning")  # the checks give no bounds
@pytest.mark.filterwarnings("ignore:SCIPY_ARRAY_API")
@parametrize_with_checks(ESTIMATORS, expected_failed_checks=lambda estimator: EXPECTED)
def test_scikit_learns_check(estimator: Any, check: Any) -> None:
    check(estimator)
