"""max(s, 0) with its corner rounded over a half-width h, and its two derivatives.

Between -h and h it is the average of max(s, 0) under the kernel 3/4 (1 - u²): the quartic of Chaudhuri, Monteleoni &
Sarwate (2011, eq. 9), twice continuously differentiable. It is never below max(s, 0), and equal to it elsewhere.
"""

from __future__ import annotations

from dpadmm._kernels.compiled import compiled


@compiled()
def corner(s: float, h: float) -> float:
    if s <= -h:
        return 0.0
    if s >= h:
        return s
    return -(s**4) / (16.0 * h**3) + 3.0 * s**2 / (8.0 * h) + s / 2.0 + 3.0 * h / 16.0


@compiled()
def corner_slope(s: float, h: float) -> float:
    """Between 0 and 1."""
    if s <= -h:
        return 0.0
    if s >= h:
        return 1.0
    return -(s**3) / (4.0 * h**3) + 3.0 * s / (4.0 * h) + 0.5


@compiled()
def corner_bend(s: float, h: float) -> float:
    """At most 3/(4h)."""
    if abs(s) >= h:
        return 0.0
    return 3.0 / (4.0 * h) * (1.0 - (s / h) ** 2)
