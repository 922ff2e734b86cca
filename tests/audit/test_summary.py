"""The picture of an audit: what the claim excludes, and what was measured."""

from dataclasses import replace

import numpy as np
import pytest
from matplotlib.figure import Figure
from scipy.special import ndtr

from dpadmm.audit.run import audit
from dpadmm.audit.summary import MOST, allowed, draw
from dpadmm.errors import InputError
from dpadmm.privacy import gaussian


@pytest.fixture(scope="module")
def found():
    return [audit(name, 2.0, 1e-5, transcripts=2000, seed=1) for name in ("dp-admm", "obj-l")]


def test_what_a_gaussian_claim_excludes(found):
    mu = gaussian.mu(found[0].claimed, 1e-5)
    threshold = np.linspace(-2.0, 3.0, 7)
    assert np.allclose(allowed(found[0], ndtr(-threshold)), ndtr(threshold - mu))


def test_what_any_other_claim_excludes(found):
    """The line through both kinds of mistakes, whichever is larger, and never below zero."""
    rates = np.array([0.0, 0.01, 0.5, 1.0])
    assert np.allclose(
        allowed(found[1], rates),
        [1.0 - 1e-5, 1.0 - 1e-5 - np.exp(2.0) * 0.01, np.exp(-2.0) * (0.5 - 1e-5), 0.0],
    )
    assert np.all(allowed(replace(found[1], claimed=np.inf), rates) == 0.0)


def test_the_curve_is_of_the_trial_and_does_not_cross_a_claim_that_holds(found):
    for each in found:
        curve = np.array(each.measured.curve)
        assert np.all(np.diff(curve[:, 0]) >= 0.0)
        assert np.all(np.diff(curve[:, 1]) <= 0.0)
        assert np.all(curve[:, 1] >= allowed(each, curve[:, 0]) - 0.05)
        nearest = np.abs(curve - (each.measured.false_positives, each.measured.false_negatives)).sum(axis=1).min()
        assert nearest < 0.03
        assert "curve" not in each.summary()


def test_a_panel_for_each(found, tmp_path, monkeypatch):
    shown = []
    write = Figure.savefig
    monkeypatch.setattr(
        Figure, "savefig", lambda figure, *args, **more: (shown.extend(figure.axes), write(figure, *args, **more))
    )
    draw([*found, replace(found[0], claimed=0.01)], tmp_path / "audits.png")
    titles = [axis.get_title() for axis in shown]
    assert [title.split(",")[0] for title in titles] == ["dp-admm", "obj-l", "dp-admm"]
    assert ["refuted" in title for title in titles] == [False, False, True]
    assert f"at least {found[0].lower_bound:.2g}" in titles[0]
    assert (tmp_path / "audits.png").read_bytes().startswith(b"\x89PNG")


def test_what_cannot_be_drawn(found, tmp_path):
    with pytest.raises(InputError, match="nothing to draw"):
        draw([replace(found[0], method="one-run")], tmp_path / "a.png")
    with pytest.raises(InputError, match="panels"):
        draw(found * MOST, tmp_path / "a.png")
    with pytest.raises(InputError, match="cannot be written"):
        draw(found, tmp_path / "nowhere" / "a.png")
