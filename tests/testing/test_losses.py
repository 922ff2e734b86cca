"""`check_loss` passes sound losses, and refuses every mistake that is planted, with its numbers."""

from __future__ import annotations

import pickle
import subprocess
import sys
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from broken_losses import (
    BendLeftOut,
    BentSomewhere,
    ByCompany,
    ByPlace,
    ByPosition,
    Coarse,
    Doubles,
    FlatAtZero,
    ForgetsColumn,
    ForgetsZeros,
    HalfReplaced,
    Inexact,
    Jumps,
    Mutable,
    Nameless,
    NanAlone,
    NoTask,
    NotConvex,
    OnceANorm,
    OneNorm,
    Overflows,
    Positive,
    RoundedTooFar,
    Steep,
    SteepSomewhere,
    TakesNan,
    TooLong,
    TwoSided,
    Unequal,
    WrongGradient,
    WrongHessian,
)
from outside_losses import Outside, OutsideBinary

from dpadmm._registry import build
from dpadmm.problems.losses import LOSSES, STATISTICS
from dpadmm.testing import ContractError, check_loss
from dpadmm.testing.bounds import check_bounds
from dpadmm.testing.problems import SmallProblem

OTHERS = ("quantile:0.3", "smoothed-quantile:0.8", "quantiles:0.2,0.7", "squared:0.3", "smoothed-hinge:0.1")
TIGHT = 0.95  # what the search reaches at least of bounds that are attained
LOOSE = {
    "second-moment": 0.5,
    "mean-and-products": 0.55,
    "column-moments": 0.35,
    "capped-softmax": 0.8,
}  # in the 1-norm, and of the curvature


@pytest.mark.parametrize("name", [*LOSSES, *STATISTICS, *OTHERS])
def test_a_loss_of_the_library_passes_and_reaches_its_bounds(name: str) -> None:
    loss = build("loss", LOSSES | STATISTICS, name)
    report = check_loss(loss)
    assert "exact integer sums" in report.promises
    shares = [share for what, share in report.measured.items() if "phi" not in what]
    assert LOOSE.get(loss.name, TIGHT) <= min(shares) <= max(shares) <= 1.0 + 1e-9
    assert "public bounds" in str(report)


@pytest.mark.parametrize("loss", [Outside(), OutsideBinary()], ids=["regression", "binary"])
def test_a_loss_from_outside_passes(loss: Outside) -> None:
    report = check_loss(loss)
    assert report.part == f"loss {loss.name!r}"
    assert report.measured["largest |phi'|"] == pytest.approx(1.0)
    assert report.measured["largest phi''"] == pytest.approx(1.0)


MISTAKES = [
    (WrongGradient(), "gradient is the derivative of values", r"phi grows by"),
    (WrongHessian(), "hessian is the derivative of gradient", r"entry \[\d, \d\] of the hessian of agent \d+"),
    (Steep(), "slope_bound", r"\|phi'\| is (2|1\.99+\d*) at .* says at most 0\.01\..* at least (2|1\.99)"),
    (SteepSomewhere(), "slope_bound", r"is 5\.9\d* at the margin 3\.0\d* .* says at most 1\."),
    (BentSomewhere(), "bend_bound", r"\|phi''\| is 1[01][.\d]* at the margin 7\.00.* says at most 1\."),
    (BendLeftOut(), "bend_bound", r"phi' grows by 1[01][.\d]* times the step at the margin 7\.0"),
    (TwoSided(), "one_sided", r"phi' is -.* at the margin .* and .* at "),
    (FlatAtZero(), "one_sided", r"phi' is 0 at the margin 0, whose sign is kept"),
    (NotConvex(), "convex", r"phi' falls from .* between the margins"),
    (Overflows(), "finite at large margins", r"values is inf at the model"),
    (
        ByPosition(),
        "an agent alone equals itself in a batch",
        r"gradient over dense rows: agent \d+ of 7 .*differs by",
    ),
    (Jumps(), "twice_differentiable", r"jumps by 1 of the curvature bound at the margin"),
    (ByCompany(), "encode looks at one target at a time", r"alone becomes .* among others"),
    (TakesNan(), "encode refuses bad targets with an InputError", r"target nan .* is accepted"),
    (HalfReplaced(), "sensitivity (replace, 2-norm)", r"found 0\.7\d*, .* says at most 0\.45"),
    (OneNorm(), "gradient_bound in the 1-norm", r"found 1\.[45]\d*, .* says at most 1\.06"),
    (OnceANorm(), "gradient_bound in the 2-norm", r"found 0\.37\d*, .* for rows of length 0\.375"),
    (RoundedTooFar(), "the rounded gradient is a subgradient up to slack", r"with half-width 1, .* below the"),
    (Doubles(), "an agent's answer is the weighted sum over its records", r"off by"),
    (Coarse(), "gradient is close to the released sum", r"has a gradient that is .* from the sum of its query"),
    (TooLong(), "norm of the query, in cells", r"found 4\.398.*e\+12, .* says at most 4\.35"),
    (TooLong("norm1", 0.97), "norm1 of the query, in cells", r"found 8\.\d*e\+12, .* says at most 8\.53"),
    (TooLong("apart", 0.99), "apart of the query, in cells", r"found 8\.7\d*e\+12, .* says at most 8\.70"),
    (ByPlace(), "the released sum is the same however it is computed", r"records in another order give other integers"),
    (Inexact(), "the released sum is the same however it is computed", r"the records one by one give other integers"),
    (ForgetsColumn(), "gradient is close to the released sum", r"over sparse rows, agent \d"),
    (ForgetsZeros(), "sparse rows give what dense rows give", r"gradient over sparse rows: it differs from dense"),
    (Mutable(), "it is frozen", r"can be set"),
    (Unequal(), "it is a value", r"does not equal a copy"),
    (NoTask(), "task is declared", r"'ranking'"),
    (Nameless(), "about is declared", r"''"),
]


@pytest.mark.parametrize(("loss", "promise", "said"), MISTAKES, ids=[type(each[0]).__name__ for each in MISTAKES])
def test_a_mistake_is_found_and_named(loss: Any, promise: str, said: str) -> None:
    with np.errstate(all="ignore"), pytest.raises(ContractError, match=said) as caught:
        check_loss(loss)
    assert caught.value.promise == promise
    assert caught.value.part == f"loss {loss.name!r}"


def test_nan_at_large_margins_is_found_in_the_gradient_alone() -> None:
    with np.errstate(all="ignore"), pytest.raises(ContractError, match="gradient is nan at the model"):
        check_loss(NanAlone())


def test_targets_are_those_that_the_loss_accepts_or_that_are_given() -> None:
    check_loss(Positive())  # 1000 is one of those that are tried
    check_loss(Positive(), targets=(11.0, 12.5, 400.0))


def test_a_loss_whose_targets_are_all_refused_asks_for_some() -> None:
    with pytest.raises(ContractError, match=r"check_loss\(loss, targets=...\)"):
        check_loss(Positive(2000.0))


def test_a_narrow_region_is_found_by_the_search_over_records_too() -> None:
    """As it would be for a loss that is no function of one margin."""
    with pytest.raises(ContractError, match=r"found 8\.9\d*, .* says at most 1\.5 .* with target .*, at the model"):
        check_bounds(SmallProblem(SteepSomewhere()), np.random.default_rng(0))


def test_importing_the_suites_needs_no_test_framework() -> None:
    code = "import sys, dpadmm.testing; print({'pytest', 'hypothesis', '_pytest'} & set(sys.modules))"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert shown.strip() == "set()"


def test_a_pickle_that_fails_is_named() -> None:
    @dataclass(frozen=True)
    class Local(Outside):
        pass

    with pytest.raises(ContractError, match="pickling fails") as caught:
        check_loss(Local())
    assert caught.value.promise == "it pickles"


def test_the_error_is_an_assertion_and_comes_back_from_other_processes() -> None:
    error = ContractError("loss 'x'", "slope_bound", "it is 2.", "Say 2.")
    again = pickle.loads(pickle.dumps(error))
    assert isinstance(again, AssertionError)
    assert (str(again), again.part, again.promise) == (str(error), "loss 'x'", "slope_bound")
    assert str(error) == "loss 'x' breaks 'slope_bound': it is 2. Say 2."
