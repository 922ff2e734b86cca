"""The table of claims A1/A2, to its printed digits."""

import pytest

from dpadmm.privacy.claims import CLAIMS, Claim, compare, comparisons, rounds_of_ps_admm
from dpadmm.privacy.gaussian import delta

# claimed, a + 2 sqrt(a L), RDP, exact, true delta at the claimed epsilon (or just whether the claim holds)
# The audit prints 70.2 for the claim 70.146, rounded up from 70.15; every other figure is as printed.
AUDIT = """
0.098 0.099 0.047 0.037 6.7e-7
0.492 0.501 0.328 0.277 4.1e-6
0.984 1.019 0.736 0.634 1.0e-5
1.968 2.109 1.654 1.449 3.3e-5
0.099 0.099 0.073 0.067 2.6e-10
0.496 0.500 0.404 0.373 1.6e-9
0.992 1.010 0.846 0.784 4.0e-9
1.984 2.055 1.782 1.657 1.3e-8
9.84 13.35 12.17 11.03 4.0e-3
.488 .501 .258 .192 ok
.977 1.03 .642 .509 ok
4.88 6.18 5.16 4.43 ok
9.77 14.94 13.49 11.92 0.047
10.9 17.4 15.9 14.1 .071
21.8 47.7 45.7 41.8 .663
3.51 3.73 3.32 3.10 ok
7.01 7.91 7.26 6.81 ok
35.1 57.3 55.8 53.2 .020
70.1 159 157 152 .909
7.84 8.96 8.27 7.76 ok
15.7 20.1 19.1 18.0 3.5e-5
78.4 190 188 181 .98
157 602 599 586 1
11.1 13.3 12.5 11.7 4.2e-6
22.2 31.1 29.8 28.3 4.5e-4
111 334 331 322 1
221.8 1112 1109 1090 1
.98 1.02 .74 .634 ok
1.97 2.11 1.65 1.45 ok
2.95 3.27 2.68 2.37 ok
4.92 5.80 4.99 4.46 ok
7.87 10.1 9.07 8.18 x
"""
ROWS = [line.split() for line in AUDIT.strip().splitlines()]


def half_a_digit(printed: str) -> float:
    """Half a unit in the last printed place (and a hair, for figures rounded twice)."""
    mantissa, _, exponent = printed.partition("e")
    places = len(mantissa.partition(".")[2])
    return 0.51 * 10.0 ** (int(exponent or 0) - places)


@pytest.mark.parametrize(("claim", "printed"), list(zip(CLAIMS, ROWS, strict=True)))
def test_row(claim: Claim, printed: list[str]) -> None:
    row = compare(claim)
    for value, text in zip((row.claimed, row.mironov, row.rdp, row.exact), printed, strict=False):
        assert value == pytest.approx(float(text), abs=half_a_digit(text))
    if printed[4] not in ("ok", "x"):
        tolerance = half_a_digit(printed[4]) if printed[4] != "1" else 0.01
        assert row.true_delta == pytest.approx(float(printed[4]), abs=tolerance)
        assert row.holds == (float(printed[4]) <= claim.delta)
    else:
        assert row.holds == (printed[4] == "ok")
    assert row.holds == (row.true_delta <= claim.delta)
    assert row.true_delta == delta(row.claimed, claim.mu)


def test_comparisons_follow_the_claims() -> None:
    assert [row.claim for row in comparisons()] == list(CLAIMS)
    assert sum(not row.holds for row in comparisons()) == 14


def test_theorem_4_s_rounds_grow_with_what_its_formula_says():
    """Adult's 6,838 records an agent and 104 columns, a slope of at most 1 and curvature of at most 1/4."""
    given = {"dimension": 104, "slope": 1.0, "convexity": 2e-4, "smoothness": 0.25}
    assert rounds_of_ps_admm(6838, 0.5, 1e-3, **given) == 4  # 3419 sqrt(2e-4 / (0.25 * 104 * 6.9078)) = 3.61
    assert rounds_of_ps_admm(683_800, 0.5, 1e-3, **given) == 361
    assert rounds_of_ps_admm(10, 0.5, 1e-3, **given) == 1
