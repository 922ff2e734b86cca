"""Contract suites for parts of your own: run them on a loss or a recipe before you train with it.

    from dpadmm.testing import check_loss, check_recipe
    print(check_loss(MyLoss()))
    print(check_recipe(MY_RECIPE))

They look for a counterexample to what the part says of itself, and raise a `ContractError` that names it. What they do
not find may still be there: bounds and privacy need a proof, and this is no proof.
"""

from __future__ import annotations

from dpadmm.testing.contract import ContractError, Report
from dpadmm.testing.losses import check_loss
from dpadmm.testing.recipes import check_recipe

__all__ = ["ContractError", "Report", "check_loss", "check_recipe"]
