"""One private estimate of the error at each owner: paid from the same budget, close to the truth."""

from __future__ import annotations

import pytest

from dpadmm import InputError, train

SMALL = {"source": "synthetic", "agents": 4, "rounds": 5, "epsilon": 2.0, "delta": 1e-5, "measure_every": 5}


def test_the_estimate_is_close_and_the_total_is_the_budget():
    plain, with_estimate = train(**SMALL), train(**SMALL, evaluation_epsilon=0.5)
    assert plain.summary()["estimated_error"] is None
    assert with_estimate.guarantee.epsilon == pytest.approx(2.0, rel=1e-6)
    assert with_estimate.guarantee.accountant == "pure+gaussian"
    # 2,000 records an owner and epsilon 0.5: the noise of a share is of the order of a thousandth.
    assert with_estimate.estimated_error == pytest.approx(with_estimate.test_error, abs=0.05)
    multipliers = [result.plan.noise[0].mechanism.noise_multiplier.min() for result in (plain, with_estimate)]
    assert multipliers[1] > multipliers[0]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"evaluation_epsilon": 2.0}, "below epsilon"),
        ({"evaluation_epsilon": 0.5, "paper_noise": True}, "part of a total budget"),
        ({"evaluation_epsilon": 0.5, "algorithm": "admm", "epsilon": None}, "part of a total budget"),
    ],
)
def test_an_estimate_needs_a_part_of_a_total_budget(wrong, message):
    with pytest.raises(InputError, match=message):
        train(**{**SMALL, **wrong})


def test_a_regression_has_no_error_rate():
    changes = {"source": "synthetic-regression", "loss": "squared", "evaluation_epsilon": 0.5}
    with pytest.raises(InputError, match="regression"):
        train(**{**SMALL, **changes})


def test_an_owner_that_lost_all_records_to_the_test_set_is_named(tmp_path):
    rows = "\n".join(f"{i / 40},{i % 2},{'big' if i else 'tiny'}" for i in range(40))
    path = tmp_path / "data.csv"
    path.write_text(f"a,y,owner\n{rows}\n")
    found = [
        train(source=str(path), target="y", owner="owner", test=20, rounds=1, algorithm="admm", seed=seed).warnings
        for seed in range(8)
    ]
    assert any("'tiny'" in warning for warnings in found for warning in warnings)
