"""Private linear models with scikit-learn's interface.

    from dpadmm import PrivateLogisticRegression
    model = PrivateLogisticRegression(epsilon=1.0, norm_bound=1.0).fit(X, y, owners=hospital)
    print(model.privacy_)

The numbers are those of `dpadmm.train`; here they are fitted to arrays and tables in memory, once, and nothing is
looked at that was not released.
"""

from __future__ import annotations

from dpadmm.estimators.classifiers import PrivateLinearSVC, PrivateLogisticRegression
from dpadmm.estimators.privacy import OwnerSpent, Privacy, PrivacyLeakWarning
from dpadmm.estimators.regressors import PrivateQuantileRegressor, PrivateRidge

__all__ = [
    "OwnerSpent",
    "Privacy",
    "PrivacyLeakWarning",
    "PrivateLinearSVC",
    "PrivateLogisticRegression",
    "PrivateQuantileRegressor",
    "PrivateRidge",
]
