"""What a fit could say of itself, and nothing else would contradict."""

import numpy as np
import pytest

from dpadmm.estimators import PrivacyLeakWarning, PrivateLinearSVC, PrivateLogisticRegression, PrivateRidge
from dpadmm.release.random_bits import SystemRandomness


def test_secure_noise_does_not_make_up_for_a_leak(quick, quick_numbers, rows, numbers, labels):
    """`private` is for everything that was done with the records, not for the noise alone."""
    secure = quick | {"random_state": None}
    for model, targets, leak in (
        (PrivateLogisticRegression(**secure | {"norm_bound": None}), labels, "norm_bound"),
        (PrivateLinearSVC(**secure | {"norm_bound": None}), labels, "norm_bound"),
        (PrivateLogisticRegression(**secure | {"classes": None}), labels, "classes"),
        (PrivateRidge(**quick_numbers | {"random_state": None}), numbers, "target_bound"),
    ):
        with pytest.warns(PrivacyLeakWarning, match=leak):
            model.fit(rows, targets)
        assert model.privacy_.secure
        assert not model.privacy_.private


def test_a_strict_fit_refuses_before_anything_is_released(quick, rows, labels, monkeypatch):
    monkeypatch.setattr(SystemRandomness, "stream", lambda *_: pytest.fail("noise was drawn: something was released"))
    strict = quick | {"random_state": None, "strict": True}
    for change in ({"norm_bound": None}, {"delta": 0.01}):
        with pytest.raises(ValueError, match="With strict=True that is an error"):
            PrivateLogisticRegression(**strict | change).fit(rows, labels)


@pytest.mark.parametrize("relation", ["zero-out", "replace"])
def test_the_relation_that_is_told_is_the_one_that_the_noise_covers(quick, rows, labels, relation):
    """Of a gradient without anything else in it: replaced, a record moves it twice as far as zeroed out."""
    quick |= {"algorithm": "dpsgd", "rounds": 1, "penalty": None, "relation": relation}
    model = PrivateLogisticRegression(**quick).fit(rows, labels)
    assert model.privacy_.relation == relation
    assert f"{relation} relation" in str(model.privacy_)
    silent = PrivateLogisticRegression(**quick | {"epsilon": 1e9}).fit(rows, labels).coef_

    def loudness(relation: str) -> float:
        settings = quick | {"relation": relation}
        found = [PrivateLogisticRegression(**settings | {"random_state": s}).fit(rows, labels) for s in range(40)]
        return float(np.sqrt(np.mean([np.square(each.coef_ - silent) for each in found])))

    assert loudness(relation) / loudness("zero-out") == pytest.approx(2.0 if relation == "replace" else 1.0, rel=0.25)


def test_the_usual_relation_is_told_as_well(quick, rows, labels):
    assert PrivateLogisticRegression(**quick).fit(rows, labels).privacy_.relation == "zero-out"
